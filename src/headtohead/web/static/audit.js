// Audits: is a part, a model of a run, or a pasted module what it says? Each check with its evidence.

import { ask, tell } from "./api.js";
import { busy, button, errorBox, h, replace, table, toast } from "./dom.js";
import { gridView } from "./audit_grid.js";

const EXAMPLE = `import torch
from torch import nn

class Tiny(nn.Module):
    def __init__(self, vocab=23, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):                      # ids (B, T)
        x = self.embed(ids)
        x = x + x.mean(dim=1, keepdim=True)      # reads the whole text
        return self.head(x)                      # logits (B, T, vocab)
`;
const ORDER = { broken: 0, advice: 1, proved: 2, "does not apply": 3 };
const SIGNS = { broken: "✕", advice: "!", proved: "✓", "does not apply": "–" };
const TABS = [["part", "A part"], ["run", "A model of the store"], ["module", "A module of yours"]];

export async function show(outer, at) {
  const main = h("div", { class: "audit-page" });
  replace(outer, main);
  const known = await busy(main, "Loading the parts …", () => ask("api/audit/parts"));
  let turn = 0;
  let stopNow = null; // stops the module that this page audits
  const chosen = at.query.get("module") !== null ? "module" : at.query.get("run") !== null || at.query.get("study") ? "run" : "part";
  const form = h("div", { class: "auditform" });
  const trouble = h("div"); // why the last audit could not start
  const result = h("div", { class: "auditresult" });
  const tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "What to audit", onkeydown: tabKeys }, TABS.map(([key, label]) =>
    h("button", { type: "button", role: "tab", id: `tab-${key}`, "aria-controls": "audit-form", "data-tab": key, onclick: () => open(key) }, label)));
  form.id = "audit-form";
  form.setAttribute("role", "tabpanel");
  replace(main, h("h1", null, "Audit"), h("p", { class: "quiet lead" }, "Is a model what it says? The auditor tries to break each claim: no look at later tokens, padding that changes nothing, every weight learns. What it breaks, it shows."), tabs, form, trouble, result);
  open(chosen, true);

  function tabKeys(event) {
    const n = TABS.findIndex(([key]) => tabs.querySelector(`[data-tab="${key}"]`) === document.activeElement);
    const to = { ArrowRight: n + 1, ArrowLeft: n - 1 }[event.key];
    if (to === undefined || n < 0) return;
    open(TABS[(to + TABS.length) % TABS.length][0]);
    tabs.querySelector('[aria-selected="true"]').focus();
    event.preventDefault();
  }

  function open(key, first) {
    turn += 1;
    for (const tab of tabs.children) {
      tab.setAttribute("aria-selected", String(tab.dataset.tab === key));
      tab.setAttribute("tabindex", tab.dataset.tab === key ? "0" : "-1");
    }
    form.setAttribute("aria-labelledby", `tab-${key}`);
    replace(result);
    replace(trouble);
    if (!first) at.remember("audit", "", key === "part" ? {} : { [key]: " " });
    ({ part: partForm, run: runForm, module: moduleForm })[key](first);
  }

  // -- a part ------------------------------------------------------------------------------------------------------------

  function partForm(first) {
    const asked = first ? (at.query.get("part") || "").match(/^\s*(\w+)\s*(?:\((.*)\))?\s*$/) : null;
    const whole = first && at.query.get("part") ? at.query.get("part") : "";
    const all = known.families.flatMap((f) => f.parts);
    let part = all.find((p) => asked && p.name === asked[1]) || all.find((p) => p.name === "Rope") || all[0];
    let family = part.family;
    const knobs = h("div", { class: "knobs" });
    const about = h("div", { class: "about" });
    const families = h("select", { "aria-label": "Family", onchange: () => { family = families.value; part = inFamily()[0]; fillParts(); } }, known.families.map((f) => h("option", { value: f.family, selected: f.family === family }, f.family)));
    const parts = h("select", { "aria-label": "Part", onchange: () => { part = inFamily().find((p) => p.name === parts.value); fillKnobs(); } });
    const causal = h("input", { type: "checkbox", checked: first && at.query.get("causal") === "1" });
    const causalLabel = h("label", { class: "check" }, causal, "in a language model only, without Causal() added: it must be causal by itself");
    const inFamily = () => known.families.find((f) => f.family === family).parts;
    let inputs = [];
    function fillParts() {
      replace(parts, inFamily().map((p) => h("option", { value: p.name, selected: p === part }, p.name)));
      fillKnobs();
    }
    function fillKnobs() {
      inputs = part.knobs.map((knob) => [knob, h("input", { type: "text", value: knob.default, "aria-label": knob.name, "aria-description": knob.help, size: Math.max(6, knob.default.length + 2) })]);
      replace(knobs, inputs.map(([knob, input]) => h("label", { title: knob.help }, h("span", null, knob.name), input, h("small", { class: "quiet" }, `${knob.type}: ${knob.help}`))));
      replace(about, h("p", null, part.says.replaceAll("`", "")), part.equation ? h("pre", { class: "equation" }, part.equation) : null, part.reference ? h("p", { class: "quiet" }, part.reference) : null);
      causalLabel.hidden = part.family !== "pattern";
    }
    const text = () => {
      const changed = inputs.filter(([knob, input]) => input.value.trim() !== knob.default).map(([knob, input]) => `${knob.name}=${input.value.trim()}`);
      return `${part.name}(${changed.join(", ")})`;
    };
    replace(form, h("form", { class: "choose-part", onsubmit: (event) => { event.preventDefault(); auditPart(text(), part.family === "pattern" && causal.checked); } },
      h("div", { class: "controls" }, h("label", null, "family ", families), h("label", null, "part ", parts), causalLabel, h("button", { type: "submit", class: "primary" }, "Audit")), about, knobs));
    fillParts();
    if (asked && asked[2]) {
      for (const [knob, input] of inputs) {
        const typed = asked[2].match(new RegExp(`(?:^|,)\\s*${knob.name}\\s*=\\s*([^,]+)`));
        if (typed) input.value = typed[1].trim();
      }
    }
    if (whole) auditPart(whole, causal.checked);
  }

  function auditPart(part, causal) {
    at.remember("audit", "", { part, causal: causal ? "1" : "" });
    follow(() => ask("api/audit", { part, ...(causal ? { causal: "1" } : {}) }), `Auditing ${part} …`);
  }

  // -- a model of the store ------------------------------------------------------------------------------------------------

  async function runForm(first) {
    const mine = turn;
    const run = first ? (at.query.get("run") || "").trim() : "";
    const asked = first ? at.query.get("study") || "" : "";
    replace(form);
    let rows = [];
    try {
      rows = (await busy(form, "Reading the store …", () => ask("api/board"))).rows;
    } catch (error) {
      replace(form, errorBox(error));
      return;
    }
    if (mine !== turn) return;
    const arms = h("div", { class: "armlist" });
    const id = h("input", { type: "text", value: run, placeholder: "0123456789abcdef", "aria-label": "Run", size: 18, spellcheck: "false" });
    const studies = h("select", { "aria-label": "Study", onchange: () => fill(studies.value) }, h("option", { value: "" }, "choose a study"), rows.filter((r) => !r.error).map((r) => h("option", { value: r.name, selected: r.name === asked }, `${r.name}: ${r.question || ""}`.slice(0, 90))));
    replace(form, rows.length
      ? h("div", { class: "controls" }, h("label", null, "study ", studies))
      : h("p", { class: "empty" }, "This store has no study. Ask a question under Compose, or run ", h("code", null, "h2h demo"), " in a terminal."),
    arms, h("form", { class: "controls", onsubmit: (event) => { event.preventDefault(); if (id.value.trim()) auditRun(id.value.trim()); } }, h("label", null, "or a run ", id), h("button", { type: "submit" }, "Audit its model")));
    async function fill(name) {
      replace(arms);
      if (!name) return;
      at.remember("audit", "", { study: name });
      try {
        const found = await busy(arms, "Reading the study …", () => ask("api/audit/arms", { study: name }));
        replace(arms, h("p", { class: "quiet" }, "Choose an arm:"), found.arms.map((arm) => button(arm.arm, () => { id.value = arm.run; auditRun(arm.run); })));
      } catch (error) {
        replace(arms, errorBox(error));
      }
    }
    if (asked) fill(asked);
    if (run) auditRun(run);
  }

  function auditRun(run) {
    at.remember("audit", "", { run });
    follow(() => ask("api/audit", { run }), `Auditing the model of run ${run} …`);
  }

  // -- a pasted module -----------------------------------------------------------------------------------------------------

  function moduleForm() {
    if (!known.allow_code || known.read_only) {
      replace(form, h("div", { class: "note" }, h("p", null, "Pasted modules are Python code, and this server was started without permission to execute any. To audit your own module here, start it with"),
        h("pre", null, "h2h serve --allow-code"), h("p", null, "The module then runs in a separate process with limits of time and memory, with your rights. In a terminal, the same audit is ", h("code", null, "h2h audit file.py:Class --causal"), ".")));
      return;
    }
    const source = h("textarea", { rows: 16, spellcheck: "false", "aria-label": "Source of the module", class: "code", onkeydown: (event) => {
      if (event.key === "Tab" && !event.shiftKey && source.selectionStart !== source.selectionEnd) return;
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); send(); }
    } }, EXAMPLE);
    const file = h("input", { type: "file", accept: ".py,text/x-python", "aria-label": "A Python file", onchange: async () => {
      const [one] = file.files;
      if (!one) return;
      if (one.size > 200_000) replace(result, errorBox(new Error("The file is larger than 200 kB. Paste the module alone.")));
      else source.value = await one.text();
    } });
    const name = h("input", { type: "text", placeholder: "the last one", "aria-label": "Class", size: 14, spellcheck: "false" });
    const causal = h("input", { type: "checkbox", checked: true });
    const relative = h("input", { type: "checkbox" });
    const number = (label, hint) => h("input", { type: "number", min: 0, step: 1, placeholder: hint, "aria-label": label, class: "short" });
    const [windowOf, vocab, block, pad] = [number("window", "none"), number("vocabulary", "found"), number("longest text", "found"), number("id of padding", "0")];
    const value = (field) => (field.value === "" ? null : Number(field.value));
    const start = h("button", { type: "submit", class: "primary" }, "Audit the module");
    const send = () => auditModule(start, { source: source.value, name: name.value.trim(), causal: causal.checked, relative: relative.checked, window: value(windowOf), vocab: value(vocab), block: value(block), pad: value(pad) });
    replace(form, h("form", { onsubmit: (event) => { event.preventDefault(); send(); } },
      h("p", { class: "quiet" }, "A class that maps token ids (B, T) to logits (B, T, V) or (B, classes). It runs in a separate process with limits: 60 seconds of processor time, 4 GB of memory."),
      source, h("div", { class: "controls" }, h("label", null, "or a file ", file), h("label", null, "class ", name)),
      h("fieldset", null, h("legend", null, "What it claims"), h("label", { class: "check" }, causal, "causal: no look at later tokens"), h("label", { class: "check" }, relative, "relative positions"),
        h("label", null, "window ", windowOf), h("label", null, "vocabulary ", vocab), h("label", null, "longest text ", block), h("label", null, "padding id ", pad)),
      h("div", { class: "controls" }, start, h("span", { class: "quiet" }, "Ctrl+Enter"))));
    followRunning(start);
  }

  // The audit of a module that runs already: of this page before it was loaded again, or of another one.
  async function followRunning(start) {
    const mine = turn;
    const { id } = await ask("api/audit/module/running").catch(() => ({ id: "" })); // an audit that starts says the error
    if (id && mine === turn) await followModule(start, id);
  }

  async function auditModule(start, given) {
    if (start.disabled) return; // Ctrl+Enter while one is audited
    start.disabled = true;
    replace(trouble);
    const mine = ++turn;
    try {
      const { id } = await tell("api/audit/module", given);
      const stop = () => tell("api/audit/module/stop", { id }).catch(() => {});
      if (at.isOver) stop();
      if (mine !== turn || at.isOver) return;
      stopNow = stop;
      await followModule(start, id);
      if (stopNow === stop) stopNow = null;
    } catch (error) {
      if (mine !== turn) return;
      start.disabled = false;
      replace(trouble, errorBox(error));
      await followRunning(start);
    }
  }

  async function followModule(start, id) {
    start.disabled = true;
    await follow(() => ask("api/audit/module/state", { id }), "Auditing the module …", () => tell("api/audit/module/stop", { id }).catch((error) => toast(error.message, "error")));
    start.disabled = false;
  }

  // -- progress and result -------------------------------------------------------------------------------------------------

  async function follow(asking, text, stop) {
    const mine = ++turn;
    const bar = h("progress", { max: 1, "aria-label": "Checks done" });
    const now = h("span");
    const note = h("div", { class: "working", role: "status" }, h("p", null, text), bar, now, stop ? button("Stop", stop) : null);
    replace(result, note);
    try {
      for (;;) {
        const state = await asking();
        if (at.isOver || mine !== turn) return;
        if (state.state === "done") {
          replace(result, report(state.value));
          return;
        }
        if (state.state === "failed") throw new Error(sentence(state.error));
        if (state.total) {
          bar.value = state.done / state.total;
          now.textContent = `${state.done} of ${state.total} checks: ${state.now}`;
        } else now.textContent = state.now || (state.seconds > 1 ? "starting the auditor" : "");
        await new Promise((go) => { setTimeout(go, 250); });
      }
    } catch (error) {
      if (!at.isOver && mine === turn) replace(result, errorBox(error));
    }
  }

  function report(value) {
    const broken = value.findings.filter((f) => f.status === "broken");
    const leaks = broken.filter((f) => f.pairs);
    const rows = [...value.findings].sort((a, b) => ORDER[a.status] - ORDER[b.status]);
    const grid = value.grid ? gridView(value.grid, leaks) : null;
    const card = (f) => h("article", { class: `finding ${f.status.replaceAll(" ", "-")}`, id: `check-${f.check}` },
      h("h3", null, h("span", { class: "sign", "aria-hidden": "true" }, SIGNS[f.status]), f.claim, " ", h("span", { class: "status" }, f.status), h("code", null, f.check)),
      h("p", { class: "evidence" }, f.evidence ? sentence(f.evidence) : "Checked."),
      ["broken", "advice"].includes(f.status) ? h("p", { class: "meaning" }, h("strong", null, f.status === "broken" ? "What this means: " : "What can happen: "), sentence(f.meaning)) : null,
      f.pairs && grid ? button(`Show ${f.among ? "where" : f.pairs.length === 1 ? "the pair" : `the ${f.pairs.length} pairs`} on the grid`, () => { grid.choose(f.check); grid.element.scrollIntoView({ block: "nearest" }); }) : null);
    const silent = rows.filter((f) => f.status === "does not apply");
    return [
      h("div", { class: `verdict ${broken.length ? "worse" : "better"}` }, h("strong", null, broken.length ? `${value.subject}: ${broken.length} ${broken.length === 1 ? "claim is" : "claims are"} broken.` : `${value.subject}: nothing is broken.`),
        ` ${value.findings.filter((f) => f.status === "proved").length} claims are proved, ${silent.length} do not apply.`),
      value.command ? h("p", { class: "quiet" }, "The same in a terminal: ", h("code", null, value.command)) : null,
      value.others && value.others.length ? h("p", { class: "quiet" }, `The source also defines ${value.others.join(", ")}. Give a class to audit another.`) : null,
      value.model ? h("details", null, h("summary", null, "The model"), h("pre", null, value.model)) : null,
      h("div", { class: "auditparts" }, h("div", { class: "findings" }, rows.filter((f) => f.status !== "does not apply").map(card),
        silent.length ? h("details", null, h("summary", null, `${silent.length} ${silent.length === 1 ? "check does" : "checks do"} not apply`), table(["check", "claim", "why not"], silent.map((f) => [f.check, f.claim, f.evidence]), { class: "texts", label: "Checks that do not apply" })) : null),
      grid ? grid.element : null),
      value.printed ? h("details", null, h("summary", null, "What the module printed"), h("pre", null, value.printed)) : null,
    ];
  }

  return () => {
    if (stopNow) stopNow();
  };
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
