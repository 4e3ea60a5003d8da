// The page of a study: the report, live.

import { address } from "./app.js";
import { ask, isSaved, on, tell } from "./api.js";
import { axis, finite, intervalChart, marginText, pairsText, scale, spanOf, ticks, verdictMark } from "./charts.js";
import { AXES, drawCurves } from "./curves.js";
import { busy, button, h, replace, s, table, toast } from "./dom.js";
import { sections } from "./sections.js";
import { analyseNow } from "./study_analysis.js";
import { modelSections } from "./study_models.js";

const PATIENCE = 30_000; // milliseconds in which a study that was continued or stopped shows it

export async function show(main, at) {
  if (!at.name) {
    replace(main, h("p", { class: "empty" }, "Choose a study on the ", h("a", { href: "#/board" }, "board"), "."));
    return null;
  }
  const query = { metric: at.query.get("metric") || "", axis: at.query.get("axis") || "steps", logX: at.query.has("logX"), logY: at.query.has("logY"), bands: !at.query.has("noBands"), paired: at.query.has("paired"), table: at.query.get("table") || "" };
  const body = h("div");
  const live = h("div", { class: "progress", role: "status", "aria-live": "polite" });
  replace(main, live, body);
  let study = await busy(main, "Reading the study …", () => ask("api/study", { name: at.name }));
  if (at.isOver) return null;
  const section = sections(body);
  const curves = h("div", { class: "curves" });
  let training = Boolean(study.progress);
  const models = modelSections(study, () => training);
  const analysis = analyseNow(study.name, () => refresh());
  let told = study.progress; // the last progress
  let asked = null; // the button that was pressed, until the progress shows it
  let later = null;
  let reading = 0; // the last question for curves
  draw();
  progress(study.progress);

  function note() {
    at.remember("study", at.name, { metric: query.metric, axis: query.axis === "steps" ? "" : query.axis, logX: query.logX ? "1" : "", logY: query.logY ? "1" : "", noBands: query.bands ? "" : "1", paired: query.paired ? "1" : "", table: query.table });
  }

  // Sections that have not changed stay as they are: runs complete while the reader types or has a list open.
  function draw() {
    const chosen = study.tables.find((t) => t.title === query.table) || study.tables[0];
    const { name, read_only: readOnly } = study;
    section("title", [study.question, study.sentence, study.tables.map((t) => t.title), chosen.title, started()], () => [
      h("h1", null, study.question || name),
      h("p", { class: "verdict" }, started() ? study.sentence : "The first pair is not finished: there is nothing to compare yet."),
      study.tables.length > 1 ? h("div", { class: "controls" }, study.tables.map((t) =>
        button(t.title, () => { query.table = t.title; note(); draw(); }, { "aria-pressed": String(t === chosen) }))) : null]);
    section("forest", [chosen.arms, study.floors, innerWidth], () => forest(chosen));
    section("verdicts", [chosen.cells, chosen.lines], () => [verdicts(chosen), h("ul", { class: "under" }, chosen.lines.map((line) => h("li", null, line)))]);
    section("copies", [chosen.markdown, chosen.latex, study.command], () => copies(chosen));
    section("curve controls", study.curves, () => [h("h2", null, "Learning curves"), curveControls()]);
    section("curves", "", () => curves);
    section("costs", [chosen.costs, innerWidth], () => [h("h2", null, "Cost and quality"), costs(chosen)]);
    section("differences", chosen.differences, () => [h("h2", null, "What differs"), differences(chosen)]);
    section("warnings", study.warnings, () => (study.warnings.length ? [h("h2", null, "Warnings"), h("ul", { class: "note" }, study.warnings.map((line) => h("li", null, line)))] : null));
    section("failures", study.failures, failures);
    section("confusions", study.confusions, confusions);
    section("models", "", () => models.place);
    section("history", study.history, () => [h("h2", null, "Analyses that were shown"), history()]);
    section("analysis", readOnly, () => (readOnly ? null : analysis));
    section("runs", study.run_rows, () => [h("h2", null, "Runs"), runs()]);
    section("settings", [study.settings, study.command], () => [
      h("h2", null, "Settings of the control"), h("details", null, h("summary", null, `${study.settings.length} settings`), table(["setting", "value"], study.settings)),
      h("p", { class: "quiet" }, "The same on the command line: ", h("code", null, study.command || `h2h report ${name}`))]);
    loadCurves();
  }

  function started() { // a pair is finished
    return study.tables.some((t) => t.arms.length === 0 || t.arms.some((arm) => arm.pairs));
  }

  function forest(chosen) {
    if (!chosen.arms.some((arm) => arm.pairs)) return null;
    const narrow = innerWidth <= 700;
    const width = Math.max(200, Math.min(620, main.clientWidth - (narrow ? 30 : 740)));
    const span = spanOf(chosen.arms, study.floors);
    const figure = h("div", { class: "forest", "data-figure": "differences" },
      chosen.arms.map((arm) => h("div", { class: "arm" }, h("span", { class: "name" }, arm.arm),
        intervalChart(arm, span, { width, height: 44, floors: study.floors, unit: study.unit, scaleBy: study.scale, better: study.better }),
        h("span", { class: `word ${arm.verdict}` }, verdictMark(arm.verdict), arm.word),
        h("span", { class: "figures" }, `${arm.difference_text} (${arm.interval_text})`),
        h("span", { class: "quiet pairs" }, `${pairsText(arm, true)}, ${arm.cost_text}`))),
      h("div", { class: "arm axis-line" }, h("span", { class: "name" }), axis(span, width, study.scale, study.unit)));
    figure.figureData = { columns: ["arm", "seed", "difference"], rows: chosen.arms.flatMap((arm) => arm.dots.map(([seed, d]) => [arm.arm, seed, d])) };
    const caption = `Difference from ${study.control} in ${study.metric}${study.unit ? `, ${study.unit}` : ""}; ${study.better} is better. Thin line: the 95 % interval that decides, for all arms and analyses together. Thick line: this arm alone. A circle is a pair.${marginSentence(chosen, span)}${study.floors.length ? " Grey band: the control against itself." : ""}`;
    figure.figureText = { title: study.question || study.name, caption };
    return [figure, h("p", { class: "quiet" }, caption)];
  }

  // An interval that excludes zero can lie within the margin: say what that means.
  function marginSentence(chosen, span) {
    const text = marginText({ ...study, arms: chosen.arms }, span);
    if (!text) return "";
    const within = chosen.arms.filter((arm) => arm.verdict === "equivalent" && (arm.low > 0 || arm.high < 0));
    const way = (arm) => (arm.high < 0 ? "lower" : "higher");
    return ` ${text.charAt(0).toUpperCase()}${text.slice(1)}.${within.map((arm) => ` ${arm.arm} is ${way(arm)}, but by less than the margin: equivalent.`).join("")}`;
  }

  function verdicts(chosen) {
    const [head, control, ...rows] = chosen.cells;
    return table(head, [{ class: "control", cells: control }, ...rows.map((row, n) => {
      const arm = chosen.arms[n];
      return row.map((cell, m) => (head[m] === "verdict" ? h("span", { class: `word ${arm.verdict}` }, verdictMark(arm.verdict), cell) : cell));
    })], { label: "Verdicts" });
  }

  function copies(chosen) {
    const copy = (what, text) => button(`Copy as ${what}`, async () => {
      try {
        await navigator.clipboard.writeText(text);
        toast(`Copied as ${what}`);
      } catch {
        toast("The browser does not allow copying here: select the table instead.", "error");
      }
    });
    return h("div", { class: "controls" }, copy("Markdown", chosen.markdown), copy("LaTeX", chosen.latex), isSaved ? null : h("a", { href: address("inside", study.name) }, "Look inside its models"),
      !isSaved && /^h2h run (lm|classifier) /.test(study.command) ? h("a", { href: address("compose", "", { study: study.name }) }, "Change it or add an arm") : null);
  }

  function curveControls() {
    if (!study.curves.length) return h("p", { class: "empty" }, "No run was evaluated during training yet.");
    if (!study.curves.includes(query.metric)) query.metric = study.curves[0];
    const choose = (label, values, key) => h("label", null, label, " ", h("select", { "aria-label": label, onchange: (e) => { query[key] = e.target.value; note(); loadCurves(); } },
      values.map(([value, text]) => h("option", { value, selected: value === query[key] }, text))));
    const check = (label, key) => h("label", null, h("input", { type: "checkbox", checked: query[key], onchange: (e) => { query[key] = e.target.checked; note(); loadCurves(); } }), " ", label);
    return h("div", { class: "controls" },
      choose("figure", study.curves.map((name) => [name, name]), "metric"),
      choose("by", Object.entries(AXES).map(([key, [text]]) => [key, text]), "axis"),
      check("minus the control", "paired"), check("ranges", "bands"), check("log x", "logX"), check("log y", "logY"));
  }

  async function loadCurves() {
    if (!study.curves.length) return;
    const mine = ++reading;
    try {
      const data = await busy(curves, "Reading the curves …", () => ask("api/curves", { name: at.name, metric: query.metric }));
      if (mine === reading) drawCurves(curves, data, { ...query, title: study.question || study.name });
    } catch (error) {
      if (mine === reading) replace(curves, h("p", { class: "alarm" }, error.message));
    }
  }

  function costs(chosen) {
    const known = chosen.costs.filter((c) => finite(c.mean));
    if (!known.length) return h("p", { class: "empty" }, "No arm has a complete run yet.");
    return [costPicture(known), table(["arm", study.metric, "parameters", "ms a step", "time", "FLOPs a step", "seconds of training"],
      known.map((c, n) => ({ class: n ? "" : "control", cells: [c.arm, c.mean_text, c.parameters_text, c.step_ms?.toFixed(2) ?? "–", c.time, c.flops?.toExponential(2) ?? "–", c.seconds?.toFixed(1) ?? "–"] })), { label: "Cost" })];
  }

  function costPicture(known) {
    const points = known.filter((c) => finite(c.seconds));
    if (points.length < 2) return null;
    const width = Math.max(280, Math.min(680, main.clientWidth - 20));
    const height = 260;
    const span = (values) => { const low = Math.min(...values); const high = Math.max(...values); const room = 0.12 * (high - low || Math.abs(high) || 1); return [low - room, high + room]; };
    const [x0, x1] = span(points.map((c) => c.seconds));
    const [y0, y1] = span(points.flatMap((c) => c.values));
    const x = scale(x0, x1, 70, width - 20);
    const y = scale(y0, y1, height - 40, 12);
    const chart = s("svg", { class: "figure", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": points.map((c) => `${c.arm}: ${study.metric} ${c.mean_text} in ${c.seconds.toFixed(1)} seconds`).join("; ") });
    for (const tick of ticks(x0, x1, width / 110)) chart.append(s("line", { class: "grid", x1: x(tick), x2: x(tick), y1: 12, y2: height - 40 }), s("text", { x: x(tick), y: height - 24 }, Number(tick.toPrecision(4))));
    for (const tick of ticks(y0, y1, 5)) chart.append(s("line", { class: "grid", x1: 70, x2: width - 20, y1: y(tick), y2: y(tick) }), s("text", { class: "left", x: 62, y: y(tick) + 4 }, study.scale === 100 ? `${Number((100 * tick).toPrecision(5))} %` : Number(tick.toPrecision(5))));
    chart.append(s("text", { x: width / 2, y: height - 6 }, "seconds of training"));
    for (const c of points) {
      for (const v of c.values) chart.append(s("circle", { class: "dot", cx: x(c.seconds), cy: y(v), r: 2.2 }));
      chart.append(s("circle", { class: "mean-cost", cx: x(c.seconds), cy: y(c.mean), r: 5 }), s("text", { class: x(c.seconds) > width * 0.7 ? "end" : "start", x: x(c.seconds) + (x(c.seconds) > width * 0.7 ? -9 : 9), y: y(c.mean) + 4 }, c.arm));
    }
    chart.append(s("text", { class: "y-name", transform: `translate(10,${(height - 40) / 2}) rotate(-90)` }, study.metric));
    const figure = h("div", { "data-figure": "cost" }, chart);
    figure.figureText = { title: study.question || study.name, caption: `${study.metric} by seconds of training; ${study.better} is better. Large dots: means. Circles: runs.` };
    figure.figureData = { columns: ["arm", study.metric, "seconds"], rows: points.map((c) => [c.arm, c.mean, c.seconds]) };
    return figure;
  }

  function differences(chosen) {
    const rows = Object.entries(chosen.differences).flatMap(([arm, settings]) => settings.map((d) => [arm, d.path, d.control, d.arm]));
    return rows.length ? table(["arm", "setting", study.control, "in this arm"], rows, { label: "Differences", class: "wraps" }) : h("p", { class: "empty" }, "Nothing is compared: the study has one arm.");
  }

  function failures() {
    const lost = study.failures.filter((f) => !["missing", "running", "stopped"].includes(f.status));
    return lost.length ? [h("h2", null, "Runs without a value"), table(["arm", "state", "seeds", "why"], lost.map((f) => [f.arm, f.status, f.seeds.join(", "), h("span", { class: "text" }, f.why)]), { label: "Failures" })] : null;
  }

  function confusions() {
    if (!study.confusions.length) return null;
    return [h("h2", null, "What is taken for what"), h("div", { class: "matrices" }, study.confusions.map((c) =>
      h("div", null, h("h3", null, `${c.arm}, ${c.seeds} seeds`), table(["truth", ...c.labels], c.labels.map((label, n) => [label, ...c.counts[n].map(String)]), { label: `Confusions of ${c.arm}` }))))];
  }

  function history() {
    if (!study.history.length) return h("p", { class: "empty" }, "Verdicts were not shown yet.");
    return table(["when", "analysis", "pairs", "verdicts"], study.history.map((a) => [a.when.replace("T", " ").slice(0, 16), a.number || "not planned",
      [...new Set(Object.values(a.pairs))].join(" to "), Object.entries(a.verdicts).map(([arm, word]) => `${arm} ${word}`).join(", ")]), { label: "Analyses" });
  }

  function runs() {
    const states = Object.entries(study.states).map(([state, n]) => `${n} ${state}`).join(", ");
    return h("details", null, h("summary", null, `${study.runs} runs: ${states}`), table(["run", "arm", "seed", "state", study.metric, "ms a step"],
      study.run_rows.map((r) => [h("code", null, r.run.slice(0, 12)), r.arm, r.seed, r.status, finite(r.value) ? r.value_text : r.why || "–", r.step_ms?.toFixed(1) ?? "–"]), { label: "Runs" }));
  }

  // Runs in progress: a bar for each, and what can be done about it.
  function progress(state) {
    training = Boolean(state);
    told = state;
    if (asked && training === (asked.label === "Stop")) return; // what was pressed has not happened yet
    asked = null;
    if (!state) {
      const open = (study.states.missing || 0) + (study.states.stopped || 0);
      replace(live, open && study.command && !study.read_only && !isSaved ? h("div", { class: "controls" }, h("span", null, `${open} ${open === 1 ? "run is" : "runs are"} not trained yet.`), pressed("Continue", "api/study/resume", "Starting: the models are checked first.")) : null);
      return;
    }
    const running = Object.entries(state.running || {});
    replace(live,
      h("div", { class: "controls" }, h("strong", { class: "live" }, state.stage === "audit" ? `checking the models, ${Math.round(100 * state.audited)} %` : `training: ${state.done} of ${state.runs} runs`), study.read_only || isSaved ? null : pressed("Stop", "api/study/stop", "Stopping: everything is saved, and the study can be continued.")),
      running.map(([id, run]) => h("div", { class: "bar-line" },
        h("span", null, `${run.arm ?? id.slice(0, 8)}, seed ${run.seed ?? "–"}`),
        h("progress", { max: run.steps, value: run.done, "aria-label": `${run.arm}, seed ${run.seed}` }),
        h("span", { class: "quiet" }, pace(run)))),
      (state.notes || []).slice(-3).map((line) => h("p", { class: "note" }, line)));
  }

  function pace(run) {
    const said = [`${run.done} of ${run.steps} steps`];
    if (run.seconds_left > 0) said.push(`${((run.steps - run.done) / run.seconds_left).toPrecision(3)} steps/s`);
    if (run.tokens_per_second) said.push(`${Math.round(run.tokens_per_second).toLocaleString("en")} tokens/s`);
    if (run.seconds_left > 0) said.push(`${run.seconds_left < 100 ? `${Math.ceil(run.seconds_left)} s` : `${Math.ceil(run.seconds_left / 60)} min`} left`);
    return said.join(", ");
  }

  // "Continue" and "Stop" take seconds to show: until then the page says that they were pressed.
  function pressed(label, path, says) {
    const made = button(label, async () => {
      made.disabled = true;
      asked = { label, says };
      replace(live, waiting(says));
      try {
        await tell(path, { name: study.name });
        later = setTimeout(() => settle(), PATIENCE);
      } catch (error) {
        toast(error.message, "error");
        settle();
      }
    });
    return made;
  }

  // The state is shown again as it is.
  function settle() {
    asked = null;
    clearTimeout(later);
    if (!at.isOver) progress(told);
  }

  const waiting = (says) => h("p", { class: "busy", role: "status" }, h("span", { class: "spinner", "aria-hidden": "true" }), says);

  let wanted = false;
  async function refresh() {
    if (wanted) return;
    wanted = true;
    setTimeout(async () => {
      wanted = false;
      const where = scrollY;
      try {
        const before = study.states.complete;
        study = await ask("api/study", { name: at.name });
        if (study.states.complete !== before) models.changed();
        draw();
        scrollTo(0, where);
      } catch (error) {
        toast(error.message, "error");
      }
    }, 300);
  }

  const stops = [
    on("study", ({ name, row }) => { if (name === at.name && row) refresh(); }),
    on("progress", (now) => progress(now[at.name] || null)),
    on("again", refresh),
  ];
  let width = innerWidth; // a phone changes the height alone when its address bar hides
  const resized = () => {
    if (innerWidth === width) return;
    width = innerWidth;
    draw();
  };
  addEventListener("resize", resized);
  return () => {
    stops.forEach((off) => off());
    models.end();
    clearTimeout(later);
    removeEventListener("resize", resized);
  };
}
