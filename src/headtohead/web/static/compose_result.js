// What the chosen study is, costs and takes: the right side of the page Compose.

import { button, h, replace, table, toast } from "./dom.js";

export function copyBlock(label, text) {
  const shown = h("pre", { tabindex: 0, "aria-label": label }, text);
  const copy = button("Copy", async () => {
    try {
      await navigator.clipboard.writeText(text);
      toast(`${label} copied.`);
    } catch {
      getSelection().selectAllChildren(shown);
      toast("Copying is not allowed here: the text is selected, press Ctrl+C.");
    }
  }, { class: "small", "aria-label": `Copy: ${label}` });
  return h("div", { class: "copy" }, h("div", { class: "copy-head" }, h("h3", null, label), copy), shown);
}

const whole = (value) => Math.round(value).toLocaleString("en");

function share(value, control) {
  if (!control) return "";
  const percent = Math.abs(100 * (value / control - 1));
  return percent < 0.05 ? " (the same)" : ` (${value > control ? "+" : "−"}${percent.toFixed(1)}\u00a0%)`;
}

export function flopsText(value) {
  if (value === null || value === undefined) return "";
  const units = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const [size, letter] = units.find(([least]) => value >= least) || [1, ""];
  return `${(value / size).toPrecision(3)} ${letter}FLOPs a step`;
}

export function durationText(minutes) {
  if (minutes === null || minutes === undefined) return "…";
  if (minutes === 0) return "nothing to train";
  if (minutes < 1) return `${Math.max(1, Math.round(60 * minutes))} s`;
  if (minutes < 90) return `${minutes < 10 ? minutes.toFixed(1) : Math.round(minutes)} min`;
  return `${(minutes / 60).toFixed(1)} h`;
}

function auditText(arm) {
  if (arm.audit_error) return h("span", { class: "quiet" }, arm.audit_error);
  if (!arm.audit) return h("span", { class: "quiet" }, "audit …");
  const { proved, broken, other } = arm.audit;
  if (!broken.length) return h("span", { class: "better" }, `✓ audit: ${proved} proved, ${other} ${other === 1 ? "does" : "do"} not apply`);
  return h("div", { class: "worse" }, `✗ audit: ${broken.length} broken, ${proved} proved`,
    h("ul", null, broken.map((one) => h("li", null, h("strong", null, one.check), `: ${one.evidence}. If broken: ${one.meaning}`))));
}

function armCard(arm, control, number) {
  const size = arm.size;
  const isControl = number === 0;
  return h("li", { class: isControl ? "arm-card control" : "arm-card" },
    h("p", { class: "arm-name" }, arm.name, isControl && arm.name !== "control" ? h("span", { class: "tag" }, "control") : null),
    arm.differences.length ? h("ul", { class: "differences" }, arm.differences.map((one) => h("li", null, h("code", null, one.path), ` ${one.control} → `, h("strong", null, one.arm)))) : null,
    h("p", { class: "figures" },
      size ? `${whole(size.parameters)} parameters${isControl || !control.size ? "" : share(size.parameters, control.size.parameters)}` : arm.size_error || "parameters …",
      size && size.flops ? ` · ${flopsText(size.flops)}${isControl || !control.size || !control.size.flops ? "" : share(size.flops, control.size.flops)}` : "",
      arm.seconds ? ` · ${arm.seconds < 10 ? arm.seconds.toFixed(1) : whole(arm.seconds)} s a run` : arm.time_error ? ` · ${arm.time_error}` : ""),
    h("p", { class: "figures" }, auditText(arm)),
    size ? size.warnings.map((line) => h("p", { class: "problem" }, line)) : null);
}

export function armsList(arms) {
  const list = h("ul", { class: "arm-cards", "data-figure": "compose-arms" }, arms.map((arm, n) => armCard(arm, arms[0], n)));
  list.figureData = {
    columns: ["arm", "differs", "parameters", "flops_per_step", "seconds_per_run", "audit_proved", "audit_broken"],
    rows: arms.map((arm) => [arm.name, arm.differences.map((d) => `${d.path}=${d.arm}`).join("; "), arm.size ? arm.size.parameters : "", arm.size ? arm.size.flops : "", arm.seconds || "",
      arm.audit ? arm.audit.proved : "", arm.audit ? arm.audit.broken.length : ""]),
  };
  return list;
}

export function forecastBlock(study, progressCount) {
  const points = study.points;
  if (!points.length) return h("p", { class: "quiet" }, "Runs and minutes follow when the corpus is read.");
  const stored = points[points.length - 1].runs - points[points.length - 1].new;
  const rows = points.map((point) => [`${point.pairs} pairs`, whole(point.runs), whole(point.new), durationText(point.minutes)]);
  const block = h("div", { "data-figure": "compose-forecast" },
    table([study.sequential ? "analysis after" : "one analysis after", "runs", "to train", "time"], rows, { label: "Forecast" }),
    study.added ? h("p", { class: "note" }, study.added) : null,
    h("p", { class: "quiet" }, study.sequential ? "Training ends at the first analysis that decides every arm. " : "",
      `${study.jobs} runs at a time, timed by a few steps on this machine as busy as it is now. Noise floors are included.`,
      stored ? ` ${whole(stored)} runs are in the store already and are not trained again.` : "",
      progressCount ? ` ${progressCount} other ${progressCount === 1 ? "study is" : "studies are"} being trained: both take longer.` : ""),
    planLines(study.plan));
  block.figureData = { columns: ["pairs", "runs", "to_train", "minutes"], rows: points.map((p) => [p.pairs, p.runs, p.new, p.minutes]) };
  return block;
}

function planLines(lines) {
  if (lines === null) return null;
  if (!lines.length) return h("p", { class: "quiet" }, "How many pairs are needed is not known yet: the store has no study with the same control and metric, whose noise would tell. h2h plan trains a pilot for it.");
  return h("div", null, h("p", null, "By the noise of earlier studies with the same control:"), h("ul", null, lines.map((line) => h("li", null, line))));
}

// What was read: tokens and classes of each set.
export function dataFacts(data) {
  if (!data) return null;
  const size = (set) => set.examples !== undefined ? (set.examples === null ? "new examples in every step" : `${whole(set.examples)} examples`)
    : `${set.texts === undefined ? "" : `${whole(set.texts)} texts, `}${whole(set.tokens)} tokens`;
  const sets = Object.entries(data.sets).map(([name, set]) => `${name} ${size(set)}`);
  const train = data.sets.train;
  const classes = train && train.classes ? Object.entries(train.classes).map(([label, count]) => `${label} ${whole(count)}`) : [];
  return h("div", { class: "facts" },
    h("p", null, `${sets.join(" · ")} · vocabulary ${whole(data.vocabulary)}`),
    classes.length ? h("p", null, `${classes.length} classes in training: ${classes.slice(0, 12).join(", ")}${classes.length > 12 ? " …" : ""}`) : null,
    data.warnings.map((line) => h("p", { class: "note" }, line)));
}

export function measuringBar(place, measuring) {
  if (!measuring) {
    replace(place);
    return;
  }
  replace(place, h("label", { class: "quiet" }, h("progress", { value: measuring.done, max: measuring.of }), ` ${measuring.now || "measuring"} … ${measuring.done} of ${measuring.of}`));
}
