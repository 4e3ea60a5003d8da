// What two models say about a text: what comes next, how surprising each token is, and a continuation.

import { button, errorBox, h, replace } from "./dom.js";
import { label } from "./heatmap.js";
import { follow, isAbort } from "./stream.js";

const percent = (p) => (p >= 0.0995 ? `${(100 * p).toFixed(0)} %` : p >= 0.00095 ? `${(100 * p).toFixed(1)} %` : "< 0.1 %");
const MOST = 8; // nats of the strongest colour
const heat = (nats) => Math.min(1, Math.max(0, nats / MOST)).toFixed(3);

// -- next tokens, or classes -------------------------------------------------------------------------------------------

export function predictions(page) {
  const title = h("h2", null, "What comes next");
  const place = h("div", { class: "two", "data-figure": "predictions" });
  const element = h("section", { "aria-label": "Predictions" }, title, place);

  function show(found, wrong) {
    const classes = found.some((a) => a && a.says.classes);
    title.textContent = classes ? "Classes" : "What comes next";
    const rows = [];
    replace(place, found.map((a, n) => {
      const head = h("h3", null, page.names()[n]);
      if (!a) return h("div", null, head, wrong[n] ? errorBox(wrong[n]) : h("p", { class: "quiet" }, "Nothing to show."));
      const pairs = a.says.classes ? Object.entries(a.says.classes).sort((x, y) => y[1] - x[1]) : a.says.next;
      for (const [token, p] of pairs) rows.push([page.names()[n], token, p]);
      const loss = a.says.classes ? "" : a.says.loss === null ? a.says.why : `This text: loss ${a.says.loss.toFixed(4)} nats a token, perplexity ${a.says.perplexity.toFixed(2)}, ${a.says.bits_per_byte.toFixed(3)} bits/byte`;
      const unknown = a.unknown ? `${a.unknown} of ${a.tokens.length} tokens are unknown to the vocabulary.` : "";
      const broken = a.checks.filter((check) => check.verdict === "broken");
      return h("div", null, head, h("ol", { class: "bars", "aria-label": a.says.classes ? "Classes" : "Next tokens" }, pairs.map(([token, p]) =>
        h("li", null, h("span", { class: "token" }, a.says.classes ? token : visible(token)), h("span", { class: "bar", "aria-hidden": "true" }, fill(p)), h("span", { class: "p", title: String(p) }, percent(p))))),
      h("p", { class: "quiet" }, loss, " ", unknown), broken.map((check) => h("p", { class: "alarm" }, `${check.name}: ${check.says}`)));
    }));
    place.figureData = { columns: ["side", classes ? "class" : "token", "probability"], rows };
  }

  return { element, show };
}

function fill(p) {
  const made = h("span", { class: "fill" });
  made.style.setProperty("width", `${(100 * p).toFixed(2)}%`);
  return made;
}

const visible = (token) => (token.trim() === "" ? label(token) : token.replace(/\n/g, "⏎"));

// -- token by token ----------------------------------------------------------------------------------------------------

export function surprise(page) {
  const readout = h("output", { class: "readout", "aria-live": "polite" });
  const place = h("div", { class: "two", "data-figure": "tokens" });
  const element = h("section", { "aria-label": "Token by token" }, h("h2", null, "Token by token"),
    h("p", { class: "legend quiet" }, "surprise: 0 nats ", h("span", { class: "heatbar", "aria-hidden": "true" }), ` ${MOST} nats or more. Point at a token, or move with the arrow keys.`), place, readout);
  let answers = [null, null];
  let texts = [null, null];

  function show(found) {
    answers = found;
    element.hidden = !found.some((a) => a && a.says.losses);
    if (element.hidden) return;
    texts = found.map((a, n) => (a && a.says.losses ? words(a.says, n) : null));
    replace(place, texts.map((text, n) => h("div", null, h("h3", null, page.names()[n]), text || h("p", { class: "quiet" }, "Nothing to show."))));
    readout.textContent = "";
    const longest = found.filter(Boolean).map((a) => a.says).sort((a, b) => b.tokens.length - a.tokens.length)[0];
    const nats = (n, k) => (found[n] && found[n].says.tokens[k] === longest.tokens[k] ? found[n].says.losses[k] : null);
    place.figureData = { columns: ["position", "token", `left: ${page.names()[0]}, nats`, `right: ${page.names()[1]}, nats`], rows: longest.tokens.map((token, k) => [k, token, nats(0, k), nats(1, k)]) };
  }

  function words(says, n) {
    const made = says.tokens.map((token, k) => {
      const one = h("span", { class: "word", tabindex: k ? -1 : 0, "data-k": k }, token.replace(/\n/g, "⏎\n"));
      one.style.setProperty("--heat", says.losses[k] === null ? 0 : heat(says.losses[k]));
      return one;
    });
    const text = h("p", { class: "surprise", role: "group", "aria-label": `Tokens of ${page.names()[n]}` }, made);
    const at = (event) => event.target.closest && event.target.closest(".word");
    text.addEventListener("pointerover", (event) => at(event) && say(n, Number(at(event).dataset.k)));
    text.addEventListener("focusin", (event) => at(event) && say(n, Number(at(event).dataset.k)));
    text.addEventListener("keydown", (event) => {
      const one = at(event);
      if (!one) return;
      const k = Number(one.dataset.k);
      const to = { ArrowRight: k + 1, ArrowLeft: k - 1, ArrowDown: k + 10, ArrowUp: k - 10, Home: 0, End: made.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      const next = made[Math.min(Math.max(to, 0), made.length - 1)];
      one.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
    return text;
  }

  function say(n, k) {
    const token = answers[n].says.tokens[k];
    for (const text of texts) if (text) for (const word of text.querySelectorAll(".same")) word.classList.remove("same");
    const said = answers.map((a, side) => {
      if (!a || !a.says.losses || a.says.tokens[k] !== token) return "";
      texts[side].children[k].classList.add("same");
      const nats = a.says.losses[k];
      return nats === null ? `${page.names()[side]}: given, not predicted` : `${page.names()[side]}: ${nats.toFixed(4)} nats, probability ${percent(Math.exp(-nats))}`;
    });
    readout.textContent = `${k}: “${label(token)}”. ${said.filter(Boolean).join("; ")}`;
  }

  return { element, show };
}

// -- a continuation ----------------------------------------------------------------------------------------------------

// The steps are "any": the server takes every number in the range, and 0.7 must not be called wrong for its distance from 0.01.
const FIELDS = {
  tokens: ["tokens", { type: "number", required: true, min: 1, max: 5000, step: 1 }],
  temperature: ["temperature", { type: "number", min: 0.01, step: "any" }],
  k: ["top-k", { type: "number", min: 1, step: 1, placeholder: "all" }],
  p: ["top-p", { type: "number", min: 0.01, max: 1, step: "any", placeholder: "1" }],
  draw: ["seed", { type: "number", min: 0, step: 1 }],
};

export function generation(page) {
  const rule = (key) => { // in the page's own words
    const { min, max } = FIELDS[key][1];
    const wrong = !inputs[key].validity.valid;
    return wrong ? `${FIELDS[key][0]}: ${FIELDS[key][1].step === 1 ? "a whole number" : "a number"}${max ? ` from ${min} to ${max.toLocaleString("en")}` : `, ${min} or more`}${key === "temperature" ? "; for the most likely token, tick the box" : ""}` : "";
  };
  const checked = (key) => {
    inputs[key].setCustomValidity("");
    inputs[key].setCustomValidity(rule(key));
  };
  const inputs = Object.fromEntries(Object.entries(FIELDS).map(([key, [, props]]) => [key, h("input", { ...props, value: page.state[key], oninput: () => { checked(key); page.note({ [key]: inputs[key].value }); } })]));
  Object.keys(FIELDS).forEach(checked);
  const greedy = h("input", { type: "checkbox", checked: page.state.greedy === "1", onchange: () => page.note({ greedy: greedy.checked ? "1" : "" }) });
  const start = button("Generate", run, { class: "primary", disabled: true }); // until the models are there
  const end = button("Stop", () => stop(), { disabled: true });
  const outputs = [0, 1].map(() => h("p", { class: "surprise made", "aria-live": "off" }));
  const heads = [0, 1].map(() => h("h3"));
  const commands = [0, 1].map(() => h("p", { class: "quiet" }));
  const status = h("span", { class: "quiet", role: "status" });
  const place = h("div", { class: "two", "data-figure": "generated", hidden: true }, [0, 1].map((n) => h("div", null, heads[n], outputs[n], commands[n])));
  const element = h("section", { "aria-label": "Generate" }, h("h2", null, "Continue the text"),
    h("form", { class: "controls", onsubmit: (event) => { event.preventDefault(); if (!start.disabled) run(); }, novalidate: true },
      Object.entries(FIELDS).map(([key, [name]]) => h("label", { class: "field small" }, name, inputs[key])), h("label", { class: "tick" }, greedy, " most likely token"), start, end, status), place);
  let abort = null;
  let rows = [];
  const said = new Set(); // errors of this run: one that both sides have is shown once

  function show(found) {
    element.hidden = !found.some((a) => a && a.task === "lm");
    heads.forEach((head, n) => { head.textContent = page.names()[n]; });
    start.disabled = abort !== null;
  }

  const value = (text) => (text === "" ? null : Number(text));
  const decoding = () => ({ temperature: value(page.state.temperature), top_k: value(page.state.k), top_p: value(page.state.p), seed: value(page.state.draw), greedy: page.state.greedy === "1" });

  async function run() {
    if (!start.form.reportValidity()) return;
    stop();
    abort = new AbortController();
    const { signal } = abort;
    start.disabled = true;
    end.disabled = place.hidden = false;
    status.textContent = "generating …";
    rows = [];
    place.figureData = { columns: ["side", "position", "token", "probability"], rows };
    const text = page.text();
    said.clear();
    const many = await Promise.all([0, 1].map((n) => one(n, text, signal)));
    if (signal.aborted) return;
    finish(`${Math.max(...many)} tokens`);
  }

  async function one(n, text, signal) {
    const out = outputs[n];
    let waiting = [];
    let count = 0;
    const write = () => {
      out.append(...waiting);
      waiting = [];
    };
    replace(out, h("span", { class: "quiet" }, text.length > 400 ? `… ${text.slice(-400)}` : text));
    replace(commands[n], command(n, text));
    const told = (said) => {
      if (said.done || signal.aborted) return;
      if (!waiting.length) requestAnimationFrame(write);
      const p = said.tokens.reduce((product, [, x]) => product * x, 1);
      const piece = h("span", { class: "word", title: `${said.tokens.map(([name]) => label(name)).join(" ")}: probability ${percent(p)}` }, said.text);
      piece.style.setProperty("--heat", heat(-Math.log(Math.max(p, 1e-30)) / said.tokens.length));
      waiting.push(piece);
      for (const [name, x] of said.tokens) rows.push([page.names()[n], count++, name, x]);
      status.textContent = `generating … ${count} tokens`;
    };
    try {
      await follow("api/inside/generate/look", { ...page.side(n), text, tokens: value(page.state.tokens), decoding: decoding() }, told, signal);
    } catch (error) {
      if (!isAbort(error) && !said.has(error.message)) out.append(errorBox(error));
      said.add(error.message);
    }
    write();
    return count;
  }

  // The command that gives the same tokens, as long as no head is changed and the text fits into a line.
  function command(n, text) {
    const side = page.side(n);
    if (side.operations || text.length > 200) return null;
    const quoted = (part) => (/^[\w./@:=-]+$/.test(part) ? part : `'${part.replace(/'/g, "'\\''")}'`);
    const d = decoding();
    const options = [["tokens", page.state.tokens], ["temperature", d.greedy || d.temperature === 1 ? null : d.temperature], ["top-k", d.top_k], ["top-p", d.top_p], ["seed", d.seed || null], ["step", side.step]];
    const parts = options.filter(([, x]) => x !== null && x !== undefined && x !== "").map(([name, x]) => `--${name} ${x}`);
    return h("code", null, ["h2h generate", quoted(side.study ? `${side.study}/${side.arm}@${side.seed}` : side.arm), quoted(text), d.greedy ? "--greedy" : "", ...parts].filter(Boolean).join(" "));
  }

  function finish(text) {
    abort = null;
    start.disabled = false;
    end.disabled = true;
    status.textContent = text;
  }

  function stop() {
    if (!abort) return;
    abort.abort();
    finish("stopped");
  }

  return { element, show, stop };
}
