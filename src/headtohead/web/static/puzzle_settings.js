// The playground of puzzles 7 to 13: sliders for a head of a small model, and what the head then attends to.

import { h } from "./dom.js";
import { dialView, distanceView, itemView, mapView, share, voteView } from "./puzzle_views.js";

// Smallest and largest value of a slider, and whether it is logarithmic. Fields take any number.
const RANGES = {
  previous: { shift: [-4, 8], scale: [0.1, 1000, "log"] }, first: { score: [0, 20] }, copy: { scale: [0.1, 1000, "log"] }, majority: { tilt: [-1, 1] },
  induction: { scale: [0, 20] }, rotary: { angle: [-6.3, 6.3], scale: [0.1, 5000, "log"] }, linear: { slope: [0.001, 10, "log"] },
};
const LETTERS = ["⊢", ..."abcdefghijklmnopqrstuvwxyz"];

export function settingsPlay(puzzle, answer, { changed, change }) {
  const sliders = [];

  function slider(name, label, get, set) {
    const [low, high, kind] = RANGES[puzzle.name][name];
    const to = kind === "log" ? Math.log : (x) => x;
    const from = kind === "log" ? Math.exp : (x) => x;
    const range = h("input", { type: "range", min: to(low), max: to(high), step: (to(high) - to(low)) / 400, "aria-label": label, oninput: () => { set(Number(from(Number(range.value)).toPrecision(3))); changed(); } });
    const field = h("input", { type: "number", step: "any", "aria-label": `${label}, as a number`, oninput: () => {
      const value = Number(field.value);
      if (field.value === "" || !Number.isFinite(value) || (kind === "log" && name === "slope" && value <= 0)) return;
      set(value);
      changed();
    } });
    sliders.push(() => {
      if (document.activeElement !== field) field.value = Number(get().toPrecision(5));
      if (document.activeElement !== range) range.value = to(Math.max(get(), kind === "log" ? low : -Infinity));
    });
    return h("div", { class: "setting" }, h("span", { "aria-hidden": "true" }, label), range, field);
  }

  const controls = Object.entries(puzzle.answer).flatMap(([name]) => Array.isArray(answer[name])
    ? answer[name].map((_, n) => slider(name, `${name} ${puzzle.name === "induction" ? `of layer ${n + 1}` : n}`, () => answer[name][n], (v) => { answer[name][n] = v; }))
    : [slider(name, name, () => answer[name], (v) => { answer[name] = v; })]);
  const dials = answer.angle ? dialView(() => answer.angle, (n, v) => { answer.angle[n] = v; changed(); }) : null;

  // Inputs of the question that can be changed.
  const inputs = Object.entries(puzzle.given).map(([name, value]) => [name, h("input", { type: "number", step: "any", value, "aria-label": name })]);
  const question = inputs.length ? h("form", { class: "controls given", onsubmit: (event) => { event.preventDefault(); change(Object.fromEntries(inputs.map(([name, input]) => [name, Number(input.value)]))); } },
    h("span", { class: "quiet" }, "The question:"), inputs.map(([name, input]) => h("label", null, name, " ", input)), h("button", { type: "submit" }, "Ask this")) : null;

  const views = VIEWS[puzzle.name](puzzle);
  function draw(measured) {
    sliders.forEach((update) => update());
    if (dials) dials.draw();
    views.draw(measured);
  }
  return { element: h("div", { class: "settings" }, h("div", { class: "sliders" }, controls, dials ? dials.element : null, question), h("div", { class: "pictures" }, views.elements)), draw };
}

function places(wanted) {
  return () => {
    const map = mapView("puzzle-map", "Attention in one text; frames are asked for");
    const distance = distanceView(wanted);
    return { elements: [map.element, distance.element], draw(measured) {
      map.draw(measured.weights, measured.places, `Attention map of ${measured.weights.length} tokens; the worst query has ${share(measured.distance)} in the wrong place`);
      distance.draw(measured);
    } };
  };
}

const VIEWS = {
  previous: places(() => 1),
  first: places((n) => n - 1),
  rotary: (puzzle) => places(() => puzzle.given.back)(),
  linear: (puzzle) => places(() => puzzle.given.back)(),
  copy: () => {
    const map = mapView("puzzle-map", "The last token's attention, one text per row; frames: the item asked for", { rowName: "text", columnName: "token" });
    const items = itemView("Share of the item asked for, in the worst text");
    return { elements: [map.element, items.element], draw(measured) {
      map.draw(measured.weights, measured.target.map((row) => row.indexOf(1)), `Attention of the last token in ${measured.weights.length} texts`);
      items.draw(measured.worstOf);
    } };
  },
  majority: (puzzle) => {
    const votes = voteView();
    let ids = [];
    const map = mapView("puzzle-map", "Attention of the last token in the closest vote", { rowName: "the last token", columnName: "token", columnLabels: (n) => (ids[n] ? "b" : "a") });
    return { elements: [votes.element, map.element], draw(measured) {
      votes.draw(measured, puzzle.given.length);
      ids = measured.ids;
      map.draw(measured.weights, [], `Attention to ${measured.ids.map((id) => (id ? "b" : "a")).join(" ")}`);
    } };
  },
  induction: (puzzle) => {
    const labels = (n) => LETTERS[puzzle.material.texts[0][n]];
    const first = mapView("puzzle-first-layer", "Layer 1: the previous token", { labels });
    const second = mapView("puzzle-map", "Layer 2: where the previous token was this one; frames: the answer", { labels });
    return { elements: [first.element, second.element], draw(measured) {
      first.draw(measured.first, [], "Attention of the first layer");
      second.draw(measured.weights, measured.places, `Attention of the second layer; the worst prediction gives ${share(1 - measured.distance)} to the answer`);
    } };
  },
};
