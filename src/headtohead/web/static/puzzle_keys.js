// The playground of puzzles 1 to 6 and 14: a query and its keys as vectors, and as numbers in a table.

import { button, h } from "./dom.js";
import { length, THIRD } from "./puzzle_math.js";
import { mapView, mixView, share } from "./puzzle_views.js";
import { vectorView } from "./vectors.js";

const AXES = "xyzuvw";

export function keysPlay(puzzle, answer, { changed, change }) {
  const d = puzzle.given.keys[0].length;
  const several = puzzle.name === "identity";
  const keys = structuredClone(puzzle.given.keys); // of the question; the user may change them
  let which = 0; // the query that is shown, where there are several
  let open = Boolean(puzzle.changes && puzzle.changes.keys);
  let last = null;
  const asksKey = Boolean(answer.key);
  const query = () => (asksKey ? puzzle.given.query : several ? answer.query[which] : answer.query);
  const keyAt = (n) => (asksKey && n === THIRD ? answer.key : keys[n]);

  function setQuery(v) {
    if (several) answer.query[which] = v;
    else answer.query = v;
    changed();
  }
  function setKey(n, v) {
    if (asksKey && n === THIRD) answer.key = v;
    else {
      keys[n] = v;
      puzzle.given.keys[n] = v;
      puzzle.changes = { ...puzzle.changes, keys: keys.map((k) => k.map((x) => Number(x.toPrecision(6)))) };
      if (asksKey) puzzle.changes.query = puzzle.given.query; // which would otherwise follow the keys
    }
    changed();
  }
  const movesKey = (n) => open || (asksKey && n === THIRD);

  const view = d === 3 ? vectorView(() => [
    ...keys.map((_, n) => ({ name: `k${n}`, kind: "key", colour: `v${n % 6}`, at: keyAt(n), weight: last ? last.weights[several ? which : 0][n] : 0, move: movesKey(n) ? (v) => setKey(n, v) : null })),
    { name: several ? `q${which}` : "q", kind: "query", at: query(), move: asksKey ? null : setQuery },
  ], "Query and keys as vectors. Drag a tip to move it, drag elsewhere to turn the view.") : null;

  // -- numbers -----------------------------------------------------------------------------------------------------------

  const fields = []; // { input, get }
  function cells(name, get, set, movable) {
    return Array.from({ length: d }, (_, n) => {
      const input = h("input", { type: "number", step: "any", "aria-label": `${name}, ${AXES[n] || n + 1}`, oninput: () => {
        const value = Number(input.value);
        if (input.value !== "" && Number.isFinite(value)) set(get().map((x, m) => (m === n ? value : x)));
      } });
      fields.push({ input, get: () => get()[n], movable });
      return h("td", null, input);
    });
  }
  const bars = keys.map((_, n) => h("span", { class: `weightbar v${n % 6}` }));
  const scores = keys.map(() => h("td"));
  const weights = keys.map(() => h("span", { class: "number" }));
  const targets = keys.map(() => h("span", { class: "aim", "aria-hidden": "true" }));
  const queryName = h("th", { scope: "row" });
  const lengthText = h("td", { class: "quiet", colspan: 2 });
  const table = h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Query and keys as numbers" }, h("table", { class: "vectorsheet" },
    h("thead", null, h("tr", null, h("th", { scope: "col" }, h("span", { class: "hidden" }, "vector")), Array.from({ length: d }, (_, n) => h("th", { scope: "col" }, AXES[n] || n + 1)), h("th", { scope: "col" }, "score"), h("th", { scope: "col" }, "weight"))),
    h("tbody", null, h("tr", { class: "ofquery" }, queryName, cells("query", query, setQuery, () => !asksKey), lengthText),
      keys.map((_, n) => h("tr", null, h("th", { scope: "row" }, h("span", { class: `chip v${n % 6}`, "aria-hidden": "true" }), `k${n}`), cells(`k${n}`, () => keyAt(n), (v) => setKey(n, v), () => movesKey(n)), scores[n],
        h("td", { class: "weightcell" }, h("span", { class: "track" }, bars[n], targets[n]), weights[n]))))));

  const long = h("input", { type: "range", min: -2, max: 5, step: 0.01, "aria-label": "Length", oninput: () => {
    const now = asksKey ? answer.key : query();
    const by = Math.exp(Number(long.value)) / (length(now) || 1);
    const next = length(now) ? now.map((x) => x * by) : now.map((_, n) => (n ? 0 : Math.exp(Number(long.value))));
    if (asksKey) setKey(THIRD, next);
    else setQuery(next);
  } });
  const longLabel = h("label", { class: "slider" }, `length of ${asksKey ? "k2" : "the query"}`, long);

  const chooser = several ? h("div", { class: "choose", role: "radiogroup", "aria-label": "Which query" }, keys.map((_, n) =>
    h("label", null, h("input", { type: "radio", name: "which-query", value: n, checked: n === 0, onchange: () => { which = n; draw(last); } }), `q${n} → v${n}`))) : null;
  const unlock = h("label", { class: "check" }, h("input", { type: "checkbox", checked: open, onchange: (event) => { open = event.target.checked; draw(last); } }), asksKey ? "Let me move the other keys too: this changes the question" : "Let me move the keys too: this changes the question");
  const aim = puzzle.name === "weights" ? weightFields() : null;
  const mix = mixView();
  const map = several ? mapView("puzzle-weights", "Weights: rows are queries, frames are asked for") : null;
  const unit = puzzle.name === "unit-key" ? button("Make its length 1", () => { const l = length(answer.key); if (l) setKey(THIRD, answer.key.map((x) => x / l)); }) : null;

  function weightFields() {
    const inputs = puzzle.given.weights.map((w, n) => h("input", { type: "number", step: "0.05", min: 0, max: 1, value: Number(w.toFixed(4)), "aria-label": `asked weight of k${n}` }));
    return h("form", { class: "controls", onsubmit: (event) => { event.preventDefault(); change({ weights: inputs.map((i) => Number(i.value)) }); } }, "Weights asked for:", inputs, h("button", { type: "submit" }, "Ask for these"));
  }

  function draw(measured) {
    last = measured;
    if (view) view.draw();
    const row = several ? which : 0;
    queryName.textContent = several ? `q${which}` : "q";
    const own = asksKey ? answer.key : query();
    lengthText.textContent = `length ${Number(length(query()).toPrecision(3))}`;
    if (document.activeElement !== long) long.value = Math.log(Math.max(length(own), 0.1));
    for (const { input, get, movable } of fields) {
      if (document.activeElement !== input) input.value = Number(get().toPrecision(4));
      input.disabled = !movable();
    }
    measured.weights[row].forEach((w, n) => {
      scores[n].textContent = Number(measured.scores[row][n].toPrecision(4)).toString().replace("-", "−");
      weights[n].textContent = share(w);
      bars[n].style.setProperty("width", `${100 * w}%`);
      targets[n].style.setProperty("left", `${100 * measured.target[row][n]}%`);
    });
    mix.draw(measured, row);
    if (map) map.draw(measured.weights, measured.target.map((t) => t.indexOf(1)), "Weights of every query");
  }

  const element = h("div", { class: "playground" },
    h("div", { class: "left" }, chooser, view ? view.element : null, longLabel, unit), h("div", { class: "right" }, table, h("p", { class: "quiet small" }, "The mark on each bar is the weight that is asked for. Every number can be typed."), mix.element, map ? map.element : null, aim, unlock));
  return { element, draw };
}
