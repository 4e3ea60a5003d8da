// Compose a study: task, corpus, control, variants. What is chosen is in the address; what it means is asked from the server.

import { address } from "./app.js";
import { ask, on, tell } from "./api.js";
import { Corpora, TASKS } from "./compose_corpus.js";
import { newId, problemPlace, settingRow, showProblems, variedField } from "./compose_fields.js";
import { armsList, copyBlock, dataFacts, forecastBlock, measuringBar } from "./compose_result.js";
import { busy, button, errorBox, h, replace, toast } from "./dom.js";
import { runningJobs } from "./jobs.js";

const OPTIONS = ["seeds", "max_pairs", "metric", "margin", "effect"];
const GROUPS = [
  { title: "Model", place: "model", main: ["model.width", "model.heads", "model.layers", "model.block", "model.dropout", "model.position"] },
  { title: "Training", place: "train", main: ["train.steps", "train.epochs", "train.batch", "train.optimizer"] },
  { title: "Text and tokens", place: "text", main: ["tokenizer"] },
  { title: "Evaluation", place: "evaluate", main: [] },
];
const CLOSED = ["task", "start", "data.corpus"];
const QUICK = { "model.position": "Positions", "model.pattern": "Attention pattern", "model.fusion": "Head fusion", "model.norm": "Norm", "model.residual": "Residual", "model.feedforward": "Feed-forward",
  "train.optimizer": "Optimizer", "train.optimizer.lr": "Learning rate", tokenizer: "Tokenizer" };
const LATER = 250; // milliseconds after the last change before the server is asked

export async function show(main, at) {
  const there = await busy(main, "Reading the catalogue of parts …", () => ask("api/compose"));
  const state = { task: "lm", data: "sotu", settings: {}, vary: {}, seeds: "", max_pairs: "", metric: "", margin: "", effect: "1%" };
  if (at.query.get("study")) Object.assign(state, await ask("api/compose/study", { name: at.query.get("study") }));
  else readQuery(state, at.query);
  if (at.isOver) return;
  const page = new Page(main, at, there, state);
  page.draw();
  page.look();
  const stops = [runningJobs(page.jobsPlace, there.read_only), on("progress", (now) => page.training(now)), on("connected", (yes) => yes && page.look())];
  at.onLeave(() => {
    page.close();
    for (const stop of stops) stop();
  });
}

function readQuery(state, query) {
  for (const [key, value] of query) {
    if (Object.hasOwn(state, key) && key !== "settings" && key !== "vary") state[key] = value;
    else if (key.startsWith("vary.")) state.vary[key.slice(5)] = value.trim();
    else state.settings[key] = value;
  }
  if (!(state.task in TASKS)) state.task = "lm";
}

class Page {
  constructor(main, at, there, state) {
    Object.assign(this, { main, at, there, state, problems: new Map(), openGallery: new Set(), turn: 0, timer: null, others: {}, closed: false, waiting: false });
    this.answer = null;
    this.jump = button("The study ↓", () => main.querySelector(".side").scrollIntoView(), { class: "jump" });
    this.seen = new IntersectionObserver(([side]) => this.jump.classList.toggle("there", side.isIntersecting));
  }

  close() {
    this.closed = true;
    this.seen.disconnect();
    clearTimeout(this.timer);
    clearTimeout(this.following);
  }

  // -- what is chosen --------------------------------------------------------------------------------------------------

  // The default value of a setting for the chosen task. A knob of a part is below the part.
  usual(path) {
    const known = this.there.arms[this.state.task][path];
    if (known) return known;
    const above = path.slice(0, path.lastIndexOf("."));
    const knobs = (this.there.arms[this.state.task][above] || {}).knobs || {};
    const knob = this.setting(path);
    return { text: knobs[path.slice(above.length + 1)] || (knob && knob.default) || "" };
  }

  controlText(path) {
    return this.state.settings[path] || this.usual(path).text;
  }

  setting(path) {
    const known = this.there.settings.find((one) => one.name === path);
    if (known) return known;
    const above = path.slice(0, path.lastIndexOf("."));
    const part = this.part(above);
    const knob = part && part.knobs.find((one) => one.name === path.slice(above.length + 1));
    return knob ? { ...knob, name: path } : { name: path, type: "", default: "", help: "" };
  }

  // The part that the control has at this path.
  part(path) {
    const setting = this.there.settings.find((one) => one.name === path);
    const family = setting && this.there.families[setting.type];
    const name = this.controlText(path).split("(")[0];
    return family ? family.find((one) => one.name === name) : null;
  }

  choice() {
    const { task, data, settings, vary, effect } = this.state;
    const given = { task, data, settings, vary, effect: effect || "1%" };
    for (const name of ["seeds", "max_pairs", "metric", "margin"]) given[name] = this.state[name];
    return given;
  }

  changed() {
    const { task, data, settings, vary } = this.state;
    const query = { task: task === "lm" ? "" : task, data: data === "sotu" ? "" : data, ...settings };
    for (const [path, values] of Object.entries(vary)) query[`vary.${path}`] = values || " ";
    for (const name of OPTIONS) query[name] = name === "effect" && this.state.effect === "1%" ? "" : this.state[name];
    this.at.remember("compose", "", query);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.look(), LATER);
  }

  // -- the form --------------------------------------------------------------------------------------------------------

  draw() {
    this.problems.clear();
    this.drawn = this.read = null;
    this.result = h("div", { class: "result" });
    this.bar = h("div", { class: "measuring", role: "status", "aria-live": "polite" });
    this.facts = h("div", { role: "status" });
    this.variedPlace = h("div");
    this.jobsPlace = this.jobsPlace || h("section", { "aria-label": "Running now" });
    replace(this.main,
      h("h1", null, "Compose a study"),
      h("div", { class: "compose" },
        h("div", { class: "form" }, this.taskSection(), h("section", null, h("h2", null, "2 · What is compared"), this.variedPlace), this.controlSection(), this.decisionSection(), this.jobsPlace),
        h("aside", { class: "side", "aria-label": "The study" }, h("div", { class: "scroll" }, this.bar, this.result), this.runPlace())),
      this.jump);
    this.seen.disconnect();
    this.seen.observe(this.main.querySelector(".side"));
    this.drawVaried();
  }

  taskSection() {
    const tasks = h("fieldset", { class: "choices" }, h("legend", null, "Task"), Object.entries(TASKS).map(([task, [title, says]]) =>
      h("label", { class: "choice" }, h("input", { type: "radio", name: "task", value: task, checked: task === this.state.task, onchange: () => this.setTask(task) }), h("span", null, h("strong", null, title), h("span", { class: "quiet" }, ` ${says}`)))));
    const corpora = new Corpora(this);
    return h("section", null, h("h2", null, "1 · Task and corpus"), tasks, corpora.place, corpora.previewPlace, this.facts);
  }

  setTask(task) {
    this.state.task = task;
    const corpus = this.there.corpora.find((one) => one.name === this.state.data);
    if (corpus && !corpus.tasks.includes(task)) this.state.data = "sotu";
    this.draw();
    this.main.querySelector(`input[name="task"][value="${task}"]`).focus();
    this.changed();
  }

  controlSection() {
    const groups = GROUPS.map(({ title, place, main }) => {
      const mine = this.there.settings.filter((one) => !CLOSED.includes(one.name) && (place === "text" ? one.name === "tokenizer" || one.name.startsWith("data.") : one.name.startsWith(`${place}.`)));
      const rows = (list) => list.map((one) => settingRow(this, one));
      const rest = mine.filter((one) => !main.includes(one.name));
      const open = rest.some((one) => Object.keys(this.state.settings).some((key) => key === one.name || key.startsWith(`${one.name}.`)));
      return h("section", { class: "group", "aria-label": title }, h("h3", null, title), rows(mine.filter((one) => main.includes(one.name))),
        h("details", { open }, h("summary", null, main.length ? `All other settings (${rest.length})` : `All settings (${rest.length})`), rows(rest)));
    });
    return h("section", null, h("h2", null, "3 · Control"), h("p", { class: "quiet" }, "The control is what every variant is compared with; all arms share these settings. Values in grey are the defaults."), groups);
  }

  drawVaried(focus) {
    const { vary } = this.state;
    for (const name of [...this.problems.keys()]) if (name === "vary" || name.startsWith("vary.")) this.problems.delete(name);
    const fields = Object.keys(vary).map((path) => variedField(this, path, (at) => this.drawVaried(at || " ")));
    const add = (path) => {
      if (!path || path in this.state.vary) return;
      this.state.vary[path] = "";
      this.openGallery.add(path);
      this.changed();
      this.drawVaried(path);
    };
    const quick = Object.entries(QUICK).filter(([path]) => !(path in vary) && (path !== "train.optimizer.lr" || this.part("train.optimizer")));
    const id = newId();
    const select = h("select", { id, onchange: () => add(select.value) }, h("option", { value: "" }, "any other setting …"), this.otherFields().map(([label, names]) => h("optgroup", { label }, names.map((name) => h("option", { value: name }, name)))));
    replace(this.variedPlace,
      fields.length ? null : h("p", { class: "quiet" }, "Choose what the variants change. Everything else stays as in the control, so the difference has one cause."),
      fields,
      problemPlace(this.problems, "vary", null),
      h("div", { class: "controls" }, h("span", null, fields.length ? "Vary also: " : "Vary: "), quick.map(([path, title]) => button(title, () => add(path), { title: path })), h("label", { for: id, class: "hidden-label" }, "Vary another setting"), select),
      fields.length > 1 ? h("p", { class: "quiet" }, "Several fields make a factorial study: every combination is an arm.") : null);
    if (focus) this.focusField(focus, select);
    if (this.answer) showProblems(this.problems, this.answer.problems);
  }

  // After a value was added: its first knob, or its row; without a value, what can be typed or added.
  focusField(name, other) {
    const field = this.variedPlace.querySelector(`section[aria-label="${CSS.escape(name)}"]`);
    const row = field && field.querySelector(".chosen > li:last-child");
    const to = field && ((row && (row.querySelector("input, select") || row)) || field.querySelector(".setting input") || field.querySelector(".gallery button"));
    (to || other).focus();
  }

  otherFields() {
    const names = this.there.settings.map((one) => one.name).filter((name) => !CLOSED.includes(name) && !name.startsWith("evaluate.") && !(name in this.state.vary) && !(name in QUICK));
    const knobs = this.there.settings.flatMap((one) => (this.part(one.name) ? this.part(one.name).knobs.map((knob) => `${one.name}.${knob.name}`) : []));
    const usable = knobs.filter((name) => !/^(data\.corpus|start)\./.test(name) && !(name in this.state.vary) && !(name in QUICK));
    return [["Model", names.filter((name) => name.startsWith("model."))], ["Training", names.filter((name) => name.startsWith("train."))], ["Data", names.filter((name) => name.startsWith("data."))], ["Knobs of the control's parts", usable]];
  }

  decisionSection() {
    const { state } = this;
    const text = (name, label, help, placeholder, more) => {
      const id = newId();
      const input = h("input", { id, type: "text", size: 10, value: state[name], placeholder, spellcheck: "false", autocomplete: "off", oninput: () => {
        state[name] = input.value.trim();
        this.changed();
      }, ...more });
      return h("div", { class: "setting" }, h("label", { for: id }, label, h("span", { class: "quiet" }, ` ${help}`)), h("div", { class: "value" }, input), problemPlace(this.problems, name, input));
    };
    this.sets = h("datalist", { id: newId() });
    const most = text("max_pairs", "At most", "pairs; the study is analysed after 6, 8, 10, 14 and 20 pairs, which share the error of 5 %", "20", { inputmode: "numeric" });
    const fixed = text("seeds", "Exactly", "pairs, with one analysis at the end; six or more", "8", { inputmode: "numeric" });
    const kind = (value, label) => h("label", { class: "choice" }, h("input", { type: "radio", name: "pairs", checked: (value === "fixed") === Boolean(state.seeds), onchange: () => {
      state.seeds = value === "fixed" ? "8" : "";
      if (value === "fixed") state.max_pairs = "";
      fixed.querySelector("input").value = state.seeds;
      most.querySelector("input").value = state.max_pairs;
      places();
      this.changed();
    } }), h("span", null, label));
    const places = () => {
      fixed.hidden = !state.seeds;
      most.hidden = Boolean(state.seeds);
    };
    places();
    return h("section", null, h("h2", null, "4 · Decision"),
      h("fieldset", { class: "choices" }, h("legend", null, "Pairs"), kind("until", "Add pairs until every arm is decided"), kind("fixed", "A fixed number of pairs")), most, fixed,
      text("metric", "Metric", "SET/FIGURE; empty: the task's default", state.task === "lm" ? "test/loss" : "test/accuracy", { list: this.sets.id }), this.sets,
      text("margin", "Margin", "a difference too small to matter, such as 0.01 or 1%; then arms can be equivalent", "none"),
      text("effect", "Effect", "that you would like to detect; only for the forecast of pairs", "1%"));
  }

  // -- the answer ------------------------------------------------------------------------------------------------------

  async look() {
    clearTimeout(this.timer);
    const mine = ++this.turn;
    const slow = setTimeout(() => replace(this.bar, h("p", { class: "busy" }, h("span", { class: "spinner", "aria-hidden": "true" }), "Checking the choice …")), 400);
    try {
      const answer = await tell("api/compose/look", this.choice());
      if (mine !== this.turn || this.closed) return;
      clearTimeout(slow);
      this.shown(answer);
      if (answer.measuring) this.timer = setTimeout(() => this.look(), 600);
    } catch (error) {
      clearTimeout(slow);
      if (mine === this.turn && !this.closed) replace(this.bar, errorBox(error));
    } finally {
      clearTimeout(slow);
    }
  }

  shown(answer) {
    this.answer = answer;
    showProblems(this.problems, answer.problems);
    measuringBar(this.bar, answer.measuring);
    if (JSON.stringify(answer.data) !== this.read) {
      this.read = JSON.stringify(answer.data);
      replace(this.facts, dataFacts(answer.data));
    }
    if (answer.data) {
      const figures = this.there.figures[answer.data.guess ? "answers" : this.state.task]; // generated examples have a guess
      const names = new Set(["test", ...Object.keys(answer.data.sets).filter((name) => name !== "train")]);
      replace(this.sets, [...names].flatMap((name) => figures.map((figure) => h("option", { value: `${name}/${figure}` }))));
    }
    const { study } = answer;
    const wrong = Object.entries(answer.problems);
    const todo = answer.todo && `${answer.todo.charAt(0).toUpperCase()}${answer.todo.slice(1)}.`;
    const elsewhere = wrong.filter(([name]) => !this.problems.has(name));
    const others = Object.keys(this.others).length;
    this.drawResult(JSON.stringify([study, answer.arms, answer.problems, todo, others]),
      h("h2", null, study ? study.question : "The study"),
      study ? h("p", { class: "quiet" }, `${study.metric}, ${study.better} is better · ${answer.arms.length} arms · study ${study.folder}`) : null,
      elsewhere.map(([name, text]) => h("p", { class: "problem" }, `${name}: ${text}`)),
      !study ? h("p", { class: wrong.length ? "problem" : "quiet" }, wrong.length ? `${wrong.length === 1 ? "One choice needs" : `${wrong.length} choices need`} a change: see the form.` : todo) : null,
      armsList(answer.arms),
      study ? h("h3", null, "Forecast") : null,
      study ? forecastBlock(study, others) : null,
      study ? copyBlock("Command", study.command) : null,
      study ? copyBlock("Python", study.python) : null);
    this.showRun();
  }

  training(now) {
    this.others = now;
    if (this.answer && !this.waiting) this.shown(this.answer);
  }

  // Draw the result only when it has changed, and keep the focus in it.
  drawResult(key, ...children) {
    if (key === this.drawn) return;
    this.drawn = key;
    const focused = this.result.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    replace(this.result, ...children);
    const again = focused && this.result.querySelector(`[aria-label="${CSS.escape(focused)}"]`);
    if (again) again.focus({ preventScroll: true });
  }

  // -- run -------------------------------------------------------------------------------------------------------------

  runPlace() {
    this.runButton = button("Run this study", () => this.run(), { class: "primary", disabled: true });
    this.runNote = h("p", { class: "quiet", id: newId() });
    this.runButton.setAttribute("aria-describedby", this.runNote.id);
    this.job = h("div", { role: "status", "aria-live": "polite" });
    return h("div", { class: "run" }, this.runButton, this.runNote, this.job);
  }

  showRun() {
    if (this.waiting) return;
    const { study, problems } = this.answer;
    const wrong = Object.keys(problems).some((name) => name !== "effect");
    this.runButton.disabled = this.there.read_only || !study || wrong;
    this.runNote.textContent = this.there.read_only ? "This server is read-only: it was started with --read-only. Copy the command instead."
      : !study || wrong ? "Complete the form first." : "Runs the command above on this machine. It goes on if you close this page.";
  }

  async run() {
    this.waiting = true;
    this.runButton.disabled = true;
    this.runNote.textContent = "";
    try {
      const started = await busy(this.job, "Starting …", () => tell("api/compose/run", this.choice()));
      this.follow(started.job.id, started.study);
    } catch (error) {
      this.waiting = false;
      replace(this.job, errorBox(error));
      this.showRun();
    }
  }

  // Until the study has a page: show what the command prints.
  async follow(id, study) {
    if (this.closed) return;
    try {
      const job = await ask("api/jobs/one", { id });
      if (this.closed) return;
      if (job.ready) {
        location.hash = address("study", study);
        return;
      }
      const printed = job.output.trim().split("\n").slice(-6).join("\n");
      if (!job.running) {
        this.waiting = false;
        replace(this.job, h("p", { class: "alarm", role: "alert" }, "The command ended without a study."), printed ? h("pre", null, printed) : null);
        this.showRun();
        return;
      }
      replace(this.job, h("p", { class: "busy" }, h("span", { class: "spinner", "aria-hidden": "true" }), "The command reads the corpus and audits the models. The study's page opens next."), printed ? h("pre", null, printed) : null,
        button("Stop", () => tell("api/jobs/stop", { id }).catch((error) => toast(error.message, "error"))));
    } catch (error) {
      replace(this.job, errorBox(error));
    }
    this.following = setTimeout(() => this.follow(id, study), 700);
  }
}
