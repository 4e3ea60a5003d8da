// Inside: two models on one text, side by side. Every choice is in the address.

import { ask, isSaved } from "./api.js";
import { busy, button, errorBox, h, replace, toast } from "./dom.js";
import { headsView } from "./inside_heads.js";
import { generation, predictions, surprise } from "./inside_text.js";
import { look } from "./stream.js";

const DEFAULTS = {
  runs: "", how: "arms", left: "", right: "", seed: "", step: "", from: "", sample: "short", text: "", head: "", region: "", scale: "", ops: "", on: "both", set: "",
  tokens: "100", temperature: "1", k: "", p: "", draw: "0", greedy: "",
};
const PAUSE = 250; // milliseconds after a key before the text is read
const FRAME = 600; // milliseconds that a step is shown when the training is played

export async function show(main, at) {
  const state = { study: at.name };
  for (const [key, value] of Object.entries(DEFAULTS)) state[key] = at.query.get(key) ?? value;
  if (at.query.has("text")) state.sample = "";
  const found = await busy(main, "Reading the store …", () => ask("api/inside"));
  if (at.isOver) return;
  if (!state.study && !state.runs && found.studies.length) state.study = found.studies[0].name;
  if (!state.study) state.runs = "1";

  let arms = [];
  let turn = 0;
  let timer = 0;
  let playing = 0; // the number of the playback; 0: the training stands still
  let plays = 0;
  const page = { state, change, note, side, names, text, isPlaying: () => playing > 0 };

  // -- controls ----------------------------------------------------------------------------------------------------
  const select = (name, changed) => h("select", { "aria-label": name, onchange: changed });
  const field = (name, control) => h("label", { class: "field" }, name, control);
  const study = select("Study", () => choose(study.value));
  const how = select("Compare", () => change({ how: how.value, right: "", from: "" }));
  const left = select("Left arm", () => change({ left: left.value }));
  const right = select("Right arm", () => change({ right: right.value }));
  const seed = select("Seed", () => change({ seed: seed.value }));
  const [leftField, rightField, seedField] = [field("left", left), field("right", right), field("seed", seed)];
  const chosen = h("span", { class: "controls chosen-arms" }, field("compare", how), leftField, rightField, seedField);
  const sample = select("Sample text", pick);
  const words = h("textarea", { rows: 3, "aria-label": "Text", placeholder: "Type a text", spellcheck: "false", maxlength: 50000, oninput: typed });
  const status = h("p", { class: "quiet status", role: "status" });
  const sliders = [0, 1].map((n) => stepSlider(n));
  const play = button("▶ Play the training", () => { if (playing) { halt(); refresh(); } else run(); }, { class: "play" });
  const steps = h("div", { class: "steps" }, sliders.map((one) => one.element), play);
  const wrong = h("div");
  const odd = h("div"); // what the address asks for and is not there

  const views = { predictions: predictions(page), heads: headsView(page), surprise: surprise(page), generation: generation(page) };
  const results = h("div", { class: "results" }, views.predictions.element, views.heads.element, views.surprise.element, views.generation.element);
  replace(main, h("div", { class: "inside" }, h("h1", null, "Inside"),
    h("div", { class: "controls choices" }, field("study", study), chosen),
    h("div", { class: "words" }, field("text", words), h("div", { class: "controls" }, field("sample", sample), status)), steps, odd, wrong, results));

  replace(study, found.studies.map((one) => h("option", { value: one.name }, one.question ? `${one.name}: ${one.question}` : one.name)), h("option", { value: "" }, "single runs, newest first"));
  replace(how, h("option", { value: "arms" }, "two arms"), h("option", { value: "steps" }, "two steps of one run"));
  replace(sample, h("option", { value: "" }, "own text"), Object.keys(found.samples).map((name) => h("option", { value: name }, name)), h("option", { value: "held" }, "held-out text"));

  // -- state -------------------------------------------------------------------------------------------------------
  function text() {
    return state.sample && state.sample in found.samples ? found.samples[state.sample] : state.text;
  }

  // Keep a choice in the address without computing anything.
  function note(more) {
    Object.assign(state, more);
    const query = Object.entries(state).filter(([key, value]) => key !== "study" && value !== (DEFAULTS[key] ?? "") && !(key === "text" && state.sample));
    at.remember("inside", state.study, Object.fromEntries(query));
    if (!at.isOver && !state.sample && state.text === "") history.replaceState(null, "", `${location.hash}${location.hash.includes("?") ? "&" : "?"}text=`);
  }

  function change(more) {
    note(more);
    fill();
    return refresh();
  }

  const armOf = (n) => arms.find((one) => one.arm === (n && state.how === "arms" ? state.right : state.left));
  const runOf = (n) => armOf(n)?.seeds.find((one) => String(one.seed) === state.seed) ?? armOf(n)?.seeds[0];

  // The step of a side: the wanted one, or the last before it that has weights. None means the last of the run.
  function stepOf(n) {
    const wanted = state.how === "steps" && n === 0 ? state.from : state.step;
    const has = runOf(n)?.steps ?? [];
    if (wanted === "" || !has.length) return null;
    const before = has.filter((step) => step <= Number(wanted));
    const step = before.length ? before[before.length - 1] : has[0];
    return step === runOf(n).last ? null : step;
  }

  function side(n) {
    const own = state.on === "both" || state.on === (n ? "right" : "left");
    return { study: state.study, arm: armOf(n)?.arm ?? "", seed: runOf(n)?.seed ?? 0, step: stepOf(n), operations: own ? state.ops : "" };
  }

  function names() {
    return [0, 1].map((n) => {
      const arm = armOf(n);
      const base = arm ? (state.study ? arm.label : arm.arm.slice(0, 8)) : n ? "right" : "left";
      const step = stepOf(n) ?? runOf(n)?.last;
      return step === undefined ? base : `${base}, step ${step.toLocaleString("en")}`;
    });
  }

  // -- choices -----------------------------------------------------------------------------------------------------
  async function choose(name) {
    halt();
    Object.assign(state, { study: name, runs: name ? "" : "1", left: "", right: "", seed: "", step: "", from: "", head: "", region: "", ops: "", set: "" });
    await readArms();
  }

  async function readArms() {
    study.value = state.study;
    replace(wrong);
    replace(odd);
    chosen.hidden = false;
    try {
      arms = (await busy(wrong, "Reading the runs …", () => ask("api/inside/arms", state.study ? { study: state.study } : {}))).arms;
    } catch (error) {
      arms = [];
      replace(wrong, errorBox(error));
      results.hidden = steps.hidden = chosen.hidden = true;
      return undefined;
    }
    return at.isOver ? undefined : change({});
  }

  // Choices that are missing or no longer there become the first ones.
  function fill() {
    const known = (name) => arms.some((one) => one.arm === name);
    const asked = { left: state.left, right: state.right, seed: state.seed };
    if (!known(state.left)) state.left = arms[0]?.arm ?? "";
    if (!known(state.right)) state.right = (arms.find((one) => one.arm !== state.left) ?? arms[0])?.arm ?? "";
    const both = state.how === "steps";
    for (const control of [left, right]) replace(control, arms.map((one) => h("option", { value: one.arm }, one.label)));
    left.value = state.left;
    right.value = state.right;
    rightField.hidden = both;
    leftField.firstChild.textContent = both ? "arm" : "left";
    const seeds = [...new Set([0, both ? 0 : 1].flatMap((n) => armOf(n)?.seeds.map((one) => one.seed) ?? []))].sort((a, b) => a - b);
    if (!seeds.some((one) => String(one) === state.seed)) state.seed = seeds.length ? String(seeds[0]) : "";
    replace(seed, seeds.map((one) => h("option", { value: one }, one)));
    seed.value = state.seed;
    const names = { left: "arm", right: "arm", seed: "seed" };
    const others = Object.keys(names).filter((key) => asked[key] !== "" && asked[key] !== state[key] && !(both && key === "right"));
    if (others.length) replace(odd, others.map((key) => h("p", { class: "note", role: "status" }, `There is no ${names[key]} '${asked[key]}' in this study: ${state[key]} is shown.`)));
    seedField.hidden = !state.study;
    how.value = state.how;
    sample.value = state.sample in found.samples ? state.sample : "";
    if (words.value !== text()) words.value = text();
    if (both && state.from === "") state.from = "0";
    sliders.forEach((one) => one.fill());
    const moving = (runOf(0)?.steps.length ?? 0) > 1 || (runOf(1)?.steps.length ?? 0) > 1;
    steps.hidden = !moving;
    note({});
  }

  function stepSlider(n) {
    const range = h("input", { type: "range", min: 0, step: 1, oninput: () => { halt(); moved(Number(range.value)); } });
    const shown = h("output");
    const name = h("span");
    const element = h("label", { class: "step" }, name, range, shown);
    let values = [];
    function filled() {
      element.hidden = n === 0 && state.how === "arms";
      name.textContent = state.how === "arms" ? "step" : n ? "right: step" : "left: step";
      range.setAttribute("aria-label", name.textContent);
      const of = state.how === "arms" ? [0, 1] : [n];
      values = [...new Set(of.flatMap((k) => runOf(k)?.steps ?? []))].sort((a, b) => a - b);
      const wanted = n || state.how === "arms" ? state.step : state.from;
      range.max = Math.max(0, values.length - 1);
      range.value = wanted === "" ? values.length - 1 : Math.max(0, values.filter((value) => value <= Number(wanted)).length - 1);
      said();
    }
    function said() {
      const value = values[Number(range.value)];
      shown.textContent = value === undefined ? "" : `${value.toLocaleString("en")} (${Number(range.value) + 1} of ${values.length})`;
      range.setAttribute("aria-valuetext", `step ${value}`);
    }
    function moved(index) {
      range.value = index;
      said();
      const value = index >= values.length - 1 && (n || state.how === "arms") ? "" : String(values[index]);
      return change(n || state.how === "arms" ? { step: value } : { from: value });
    }
    return { element, fill: filled, moved, index: () => Number(range.value), count: () => values.length };
  }

  async function run() {
    const slider = sliders[1];
    const mine = (playing = ++plays);
    play.textContent = "⏸ Pause";
    play.setAttribute("aria-pressed", "true");
    let index = slider.index() >= slider.count() - 1 ? 0 : slider.index();
    while (playing === mine && index < slider.count()) {
      const began = performance.now();
      await slider.moved(index);
      await new Promise((done) => setTimeout(done, Math.max(60, FRAME - (performance.now() - began))));
      index += 1;
    }
    if (playing !== mine) return;
    halt();
    refresh();
  }

  function halt() {
    playing = 0;
    play.textContent = "▶ Play the training";
    play.setAttribute("aria-pressed", "false");
  }

  function typed() {
    clearTimeout(timer);
    state.text = words.value;
    state.sample = "";
    sample.value = "";
    timer = setTimeout(() => change({ region: "" }), PAUSE);
  }

  async function pick() {
    if (sample.value !== "held") return change({ sample: sample.value, text: sample.value ? "" : words.value, region: "" });
    try {
      const got = await busy(status, "Reading the data …", () => look("api/inside/held/look", { ...side(0), operations: "" }));
      return change({ sample: "", text: got.text, region: "" });
    } catch (error) {
      sample.value = state.sample;
      return toast(error.message, "error");
    }
  }

  // -- answers -----------------------------------------------------------------------------------------------------
  async function refresh() {
    const mine = ++turn;
    if (!arms.length) {
      results.hidden = true;
      replace(wrong, h("p", { class: "empty" }, "There are no trained models yet. Ask a question under Compose, or run ", h("code", null, "h2h demo"), " in a terminal."));
      return;
    }
    if (text() === "") {
      results.hidden = true;
      replace(wrong, h("p", { class: "empty" }, "Type a text, or choose a sample."));
      return;
    }
    const slow = setTimeout(() => { status.textContent = "computing …"; results.classList.add("stale"); }, 300);
    const asked = [0, 1].map((n) => {
      const why = runOf(n)?.says;
      return why ? Promise.reject(new Error(`${why.charAt(0).toUpperCase()}${why.slice(1)}.`)) : look("api/inside/side/look", { ...side(n), text: text() });
    });
    const got = await Promise.allSettled(asked);
    clearTimeout(slow);
    if (mine !== turn || at.isOver) return;
    results.classList.remove("stale");
    results.hidden = false;
    replace(wrong);
    const answers = got.map((one) => (one.status === "fulfilled" ? one.value : null));
    const errors = got.map((one) => (one.status === "rejected" ? one.reason : null));
    const counts = [...new Set(answers.filter(Boolean).map((a) => a.tokens.length + a.cut))];
    status.textContent = counts.length ? `${counts.map((n) => n.toLocaleString("en")).join(" and ")} tokens` : "";
    views.predictions.show(answers, errors);
    views.heads.show(answers);
    views.surprise.show(answers);
    views.generation.show(answers);
  }

  const theme = new MutationObserver(() => views.heads.redraw());
  theme.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  let width = innerWidth;
  const resized = () => {
    if (innerWidth === width) return;
    width = innerWidth;
    views.heads.redraw();
  };
  addEventListener("resize", resized);
  if (isSaved) for (const control of main.querySelectorAll("select, textarea, .play")) control.disabled = true;
  at.onLeave(() => {
    clearTimeout(timer);
    halt();
    theme.disconnect();
    removeEventListener("resize", resized);
    views.heads.stop();
    views.generation.stop();
  });
  await readArms();
}
