// Every head of two models as a small map; one enlarged, with operations on it.

import { button, errorBox, h, replace } from "./dom.js";
import { LargeMap, bytes, floats, label, levels, mostOf, paintCellDifference, paintCells, scaleBar } from "./heatmap.js";
import { effectsView, signed } from "./inside_effects.js";
import { look } from "./stream.js";

const LEAST = 16; // tokens along a side of the smallest region
const MEASURES = { entropy: "entropy, nats", distance: "distance, tokens", self: "on itself", previous: "on the previous token", first: "on the first token" };
const DONE = { silence: "silenced", average: "averaged", swap: "swapped" };

const number = (x, digits) => (x === null || x === undefined ? "–" : x.toFixed(digits));
export const same = (a, b) => a.tokens.length === b.tokens.length && a.tokens.every((token, n) => token === b.tokens[n]);

const LONG = 128; // tokens; the weights of a longer text are small, and get the whole scale
const fits = (page, tokens) => page.state.scale === "fit" || (page.state.scale === "" && tokens > LONG);
const has = (a, layer, head) => Boolean(a) && a.mapped.includes(layer) && head < a.heads; // whether there is a map
const silence = (a, layer) => (a ? `${a.without[layer]} computes no attention weights.` : "");
const end = (top) => (top === 1 ? "1" : `${top.toPrecision(1)} or more`);

// Why there is no difference between two answers; empty if there is one.
export function apart(a, b) {
  if (!a || !b) return "There is no difference: one side cannot be shown.";
  if (a.layers !== b.layers || a.heads !== b.heads) return `There is no difference: the left model has ${a.layers} layers of ${a.heads} heads, the right one ${b.layers} of ${b.heads}.`;
  return same(a, b) ? "" : "There is no difference: the two models cut the text into different tokens.";
}

export function headsView(page) {
  const bars = [scaleBar(false), scaleBar(true)];
  const scale = h("select", { "aria-label": "Scale of the colours", onchange: () => page.change({ scale: scale.value }) },
    h("option", { value: "" }, "scale: automatic"), h("option", { value: "one" }, "scale: 0 to 1"), h("option", { value: "fit" }, "scale: large weights of this text"));
  const legend = h("p", { class: "legend quiet" }, h("span", null, "each head: left, right, left − right"), bars, scale);
  const note = h("p", { class: "quiet", role: "status" });
  const changed = h("div", { class: "changed" });
  const grid = h("div", { class: "layers", "data-figure": "heads" });
  const element = h("section", { "aria-label": "Heads" }, h("h2", null, "Heads"), legend, changed, note, grid);
  const enlarged = enlargedView(page);
  let answers = [null, null];
  let drawn = ""; // the shape that the cards were made for
  let cards = [];

  function show(found) {
    answers = found;
    const some = found.find(Boolean);
    if (!some) {
      replace(grid);
      drawn = "";
      note.textContent = "";
      return;
    }
    const [layers, heads] = [0, 1].map((n) => Math.max(...found.filter(Boolean).map((a) => (n ? a.heads : a.layers))));
    const shape = [layers, heads, ...found.map((a) => a && a.mapped.join(","))].join(" ");
    if (drawn !== shape) build(layers, heads, shape);
    const why = apart(...found);
    note.textContent = [why, ...cutNotes(found)].filter(Boolean).join(" ");
    const cells = found.map((a) => a && bytes(a.cells));
    const top = fits(page, some.tokens.length) ? mostOf(cells.filter(Boolean)) : 1;
    bars[0].draw("weight 0", end(top));
    bars[1].draw(`right higher, up to ${end(top)}`, `left higher, up to ${end(top)}`);
    scale.value = page.state.scale;
    for (const card of cards) paintCard(card, cells, why, top);
    figure(why);
    marks();
    enlarged.show(found);
  }

  function build(layers, heads, shape) {
    drawn = shape;
    cards = [];
    replace(grid);
    for (let layer = 0; layer < layers; layer++) {
      const place = h("div", { class: "heads" });
      const mapped = answers.some((a) => a && a.mapped.includes(layer));
      if (!mapped) place.append(h("p", { class: "quiet" }, silence(answers.find((a) => a && layer < a.layers), layer)));
      for (let head = 0; mapped && head < heads; head++) {
        const canvases = [0, 1, 2].map(() => h("canvas", { width: 1, height: 1, "aria-hidden": "true" }));
        const badge = h("span", { class: "badge" });
        const open = button(null, () => page.change({ head: page.state.head === `${layer}.${head}` ? "" : `${layer}.${head}`, region: "" }), { class: "head", "aria-expanded": "false" });
        open.append(h("span", { class: "name" }, `${layer}.${head} `, badge), h("span", { class: "maps" }, canvases));
        cards.push({ layer, head, canvases, badge, open });
        place.append(open);
      }
      grid.append(h("div", { class: "layer", "data-layer": layer }, h("h3", null, `Layer ${layer}`), place));
    }
  }

  function paintCard({ layer, head, canvases, open }, cells, why, top) {
    const of = (n) => {
      const a = answers[n];
      if (!has(a, layer, head)) return null;
      const size = a.edges.length - 1;
      const row = a.mapped.indexOf(layer);
      const start = (row * a.heads + head) * size * size;
      return { size, cells: cells[n].subarray(start, start + size * size), numbers: a.numbers[row][head] };
    };
    const both = [of(0), of(1)];
    both.forEach((one, n) => {
      canvases[n].hidden = !one;
      if (one) paintCells(canvases[n], one.cells, one.size, top);
    });
    const compared = !why && both.every(Boolean);
    canvases[2].hidden = !compared;
    if (compared) paintCellDifference(canvases[2], both[0].cells, both[1].cells, both[0].size, top);
    const said = both.map((one, n) => one && `${page.names()[n]}: entropy ${number(one.numbers.entropy, 2)} nats, distance ${number(one.numbers.distance, 1)} tokens`);
    open.setAttribute("aria-label", `Head ${layer}.${head}. ${said.filter(Boolean).join("; ")}. Enlarge`);
    open.title = said.filter(Boolean).join("\n");
  }

  function figure(why) {
    const rows = [];
    answers.forEach((a, n) => a && a.numbers.forEach((layer, l) => layer.forEach((m, k) => rows.push([page.names()[n], a.step, a.mapped[l], k, ...Object.keys(MEASURES).map((key) => m[key])]))));
    grid.figureData = { columns: ["side", "step", "layer", "head", ...Object.keys(MEASURES)], rows };
    grid.setAttribute("aria-label", `Attention maps of all heads${why ? "" : ", with the difference left − right"}`);
  }

  // What is selected and what is changed.
  function marks() {
    const done = new Map();
    for (const part of page.state.ops.split(",").filter(Boolean)) {
      const [what, at, other] = part.split(":");
      const named = (head) => done.set(head, [...(done.get(head) || []), DONE[what]]);
      named(at);
      if (other !== undefined) named(`${at.split(".")[0]}.${other}`);
    }
    for (const { layer, head, badge, open } of cards) {
      const name = `${layer}.${head}`;
      badge.textContent = (done.get(name) || []).join(", ");
      open.setAttribute("aria-expanded", String(page.state.head === name));
    }
    const parts = page.state.ops.split(",").filter(Boolean);
    replace(changed, parts.length ? [h("span", { class: "quiet" }, `Changed on ${page.state.on === "both" ? "both sides" : `the ${page.state.on} side`}: `),
      parts.map((part, n) => button(`${said(part)} ×`, () => page.change({ ops: parts.filter((_, k) => k !== n).join(",") }), { class: "chip", "aria-label": `Undo: ${said(part)}` })),
      button("Undo all", () => page.change({ ops: "" }), { class: "chip" })] : null);
    const at = page.state.head.split(".")[0];
    const layer = grid.querySelector(`[data-layer="${/^\d+$/.test(at) ? at : "none"}"]`);
    if (layer && page.state.head) layer.after(enlarged.element);
    else enlarged.element.remove();
  }

  return { element, show, marks, redraw: () => answers.some(Boolean) && show(answers), stop: enlarged.stop };
}

const said = (part) => {
  const [what, at, other] = part.split(":");
  return what === "swap" ? `${at} and ${at.split(".")[0]}.${other} swapped` : `${at} ${DONE[what]}`;
};

function cutNotes(found) {
  return found.map((a, n) => a && a.cut > 0 && `The ${n ? "right" : "left"} model reads ${a.block} tokens at once: its maps show the first ${a.tokens.length} of ${a.tokens.length + a.cut}.`)
    .filter((text, n, all) => text && all.indexOf(text) === n);
}

// -- one head, enlarged ------------------------------------------------------------------------------------------------

function enlargedView(page) {
  const title = h("h3");
  const readout = h("output", { class: "readout", "aria-live": "polite" }, "Point at a cell, or move with the arrow keys.");
  const keyed = (event) => keys(event);
  const maps = ["left", "right", "left − right"].map((name) => new LargeMap(name, point, keyed));
  const place = h("div", { class: "larges", "data-figure": "head" }, maps.map((map) => map.element));
  const bar = scaleBar(false);
  const zooms = h("div", { class: "controls" },
    button("Zoom in", () => zoom(0.5), { title: "key +" }), button("Zoom out", () => zoom(2), { title: "key −" }), button("Whole text", () => page.change({ region: "" }), { title: "key 0" }));
  const measures = h("div");
  const swap = h("select", { "aria-label": "Head to swap with" });
  const on = h("select", { "aria-label": "Change which side", onchange: () => page.change({ on: on.value }) },
    ["both", "left", "right"].map((value) => h("option", { value }, value === "both" ? "on both sides" : `on the ${value} side`)));
  const swapButton = button("Swapped with", () => operate("swap", swap.value));
  const silence = button("Silenced", () => operate("silence"), { title: "its output is zero" });
  const average = button("Averaged", () => operate("average"), { title: "its output is the mean of the heads of its layer" });
  const tools = h("div", { class: "controls", role: "group", "aria-label": "Change this head" },
    h("strong", null, "What if this head is"), silence, average, swapButton, swap, on);
  const effects = effectsView(page);
  const wrong = h("div");
  const element = h("div", { class: "enlarged" }, h("div", { class: "head" }, title, button("Close", () => page.change({ head: "", region: "" }))), tools, effects.element, wrong, place, h("p", { class: "legend quiet" }, bar), readout, zooms, measures);
  let answers = [null, null];
  let heads = [null, null];
  let cell = null; // row and column that are read out
  let pair = null; // the first query and key of that cell
  let turn = 0;

  function operate(what, other) {
    const part = `${what}:${page.state.head}${other === undefined ? "" : `:${other}`}`;
    const parts = page.state.ops.split(",").filter(Boolean);
    page.change({ ops: (parts.includes(part) ? parts.filter((one) => one !== part) : [...parts, part]).join(",") });
  }

  async function show(found) {
    answers = found;
    effects.show(found);
    if (!page.state.head) return;
    const mine = ++turn;
    const [layer, head] = page.state.head.split(".").map(Number);
    title.textContent = `Layer ${layer}, head ${head}`;
    on.value = page.state.on;
    for (const [what, control] of [["silence", silence], ["average", average]]) control.setAttribute("aria-pressed", String(page.state.ops.split(",").includes(`${what}:${page.state.head}`)));
    const most = Math.max(0, ...found.filter(Boolean).map((a) => a.heads));
    const others = [...Array(most).keys()].filter((n) => n !== head);
    replace(swap, others.map((n) => h("option", { value: n }, `${layer}.${n}`)));
    swap.disabled = swapButton.disabled = !others.length;
    const asked = found.map((a, n) => has(a, layer, head) ? look("api/inside/head/look", { ...page.side(n), text: page.text(), layer, head, region: page.state.region }) : null);
    const got = await Promise.allSettled(asked);
    if (mine !== turn) return;
    const failed = got.find((one) => one.status === "rejected");
    replace(wrong, failed ? errorBox(failed.reason) : null);
    heads = got.map((one) => (one.status === "fulfilled" && one.value ? { ...one.value, values: floats(one.value.weights) } : null));
    draw();
    table(layer, head);
  }

  function draw() {
    const why = apart(...answers) || (heads.every(Boolean) ? "" : "missing");
    const some = heads.find(Boolean);
    if (!some) return;
    const top = fits(page, some.tokens) ? mostOf(heads.filter(Boolean).map((one) => levels(one.values))) : 1;
    const shown = heads.map((one, n) => one && {
      top, values: one.values, rows: one.queries.length - 1, columns: one.keys.length - 1,
      queries: words(answers[n], one.queries), keys: words(answers[n], one.keys), difference: false,
    });
    const difference = why ? null : { ...shown[0], values: shown[0].values.map((x, n) => x - shown[1].values[n]), difference: true };
    [...shown, difference].forEach((one, n) => {
      maps[n].element.hidden = !one;
      const name = n < 2 ? `${page.names()[n]}` : "left − right";
      maps[n].title.textContent = name;
      maps[n].canvas.setAttribute("aria-label", `${name}, layer and head ${page.state.head}: queries in rows, keys in columns. Arrow keys move from cell to cell.`);
      if (one) maps[n].show(one);
    });
    zooms.hidden = Math.max(0, ...heads.filter(Boolean).map((one) => one.tokens)) <= LEAST;
    if (pair) point(bin(some.queries, pair[0]), bin(some.keys, pair[1]));
    bar.draw("weight 0", end(top));
    figure(shown, difference);
  }

  const bin = (edges, token) => edges.filter((edge) => edge <= token).length - 1;
  const words = (a, edges) => edges.slice(0, -1).map((first, n) => (edges[n + 1] - first === 1 ? label(a.tokens[first]) : `${first} ${label(a.tokens[first])}`));

  function figure(shown, difference) {
    const some = heads.find(Boolean);
    if (!some) return;
    const rows = [];
    const names = shown.find(Boolean);
    for (let i = 0; i < names.rows; i++) for (let j = 0; j < names.columns; j++) {
      const n = i * names.columns + j;
      rows.push([some.queries[i], names.queries[i], some.keys[j], names.keys[j], shown[0] && shown[0].values[n], shown[1] && shown[1].values[n], difference && difference.values[n]]);
    }
    place.figureData = { columns: ["query", "query token", "key", "key token", "left", "right", "left − right"], rows };
  }

  function point(row, column) {
    const some = heads.find(Boolean);
    if (!some) return;
    row = Math.min(Math.max(row, 0), some.queries.length - 2);
    column = Math.min(Math.max(column, 0), some.keys.length - 2);
    cell = [row, column];
    pair = [some.queries[row], some.keys[column]];
    maps.forEach((map) => map.mark(row, column));
    const at = (edges, n, a) => {
      const [first, end] = [edges[n], edges[n + 1]];
      return end - first === 1 ? `“${label(a.tokens[first])}” (${first})` : `tokens ${first}–${end - 1}, from “${label(a.tokens[first])}”`;
    };
    const a = answers[heads.indexOf(some)];
    const values = heads.map((one) => (one ? one.values[row * (one.keys.length - 1) + column] : null));
    const parts = values.map((x, n) => x !== null && x !== undefined && `${page.names()[n]}: ${x.toFixed(4)}`);
    if (values.every((x) => x !== null && x !== undefined) && !apart(...answers)) parts.push(`difference: ${signed(values[0] - values[1])}`);
    readout.textContent = `${at(some.queries, row, a)} → ${at(some.keys, column, a)}: ${parts.filter(Boolean).join("; ")}`;
  }

  function keys(event) {
    const some = heads.find(Boolean);
    if (!some || event.ctrlKey || event.metaKey || event.altKey) return;
    const [row, column] = cell || [0, 0];
    const end = [some.queries.length - 2, some.keys.length - 2];
    const to = { ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1], Home: [row, 0], End: [row, end[1]], PageUp: [row - 10, column], PageDown: [row + 10, column] }[event.key];
    if (to) point(...(cell ? to : [0, 0]));
    else if (event.key === "+" || event.key === "=") zoom(0.5);
    else if (event.key === "-") zoom(2);
    else if (event.key === "0") page.change({ region: "" });
    else return;
    event.preventDefault();
  }

  // A region around the cell that is read out, with half or twice as many tokens on each side.
  function zoom(by) {
    const some = heads.find(Boolean);
    if (!some) return;
    const [row, column] = cell || [0, 0];
    const span = (edges, n) => {
      const middle = (edges[n] + edges[n + 1]) / 2;
      const size = Math.max(LEAST, Math.round((edges[edges.length - 1] - edges[0]) * by));
      const from = Math.round(Math.min(Math.max(0, middle - size / 2), Math.max(0, some.tokens - size)));
      return [from, Math.min(some.tokens, from + size)];
    };
    const [queries, columns] = [span(some.queries, row), span(some.keys, column)];
    const all = queries[1] - queries[0] >= some.tokens && columns[1] - columns[0] >= some.tokens;
    page.change({ region: all ? "" : [...queries, ...columns].join("-") });
  }

  function table(layer, head) {
    const rows = answers.map((a, n) => has(a, layer, head) && [page.names()[n], ...Object.keys(MEASURES).map((key) => number(a.numbers[a.mapped.indexOf(layer)][head][key], 3))]).filter(Boolean);
    replace(measures, h("div", { class: "wide" }, h("table", null, h("caption", { class: "quiet" }, "This head in numbers, over all queries with more than one key"),
      h("thead", null, h("tr", null, h("th", { scope: "col" }, ""), Object.values(MEASURES).map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", null, rows.map((row) => h("tr", null, row.map((value, n) => h(n ? "td" : "th", n ? null : { scope: "row" }, value))))))));
  }

  return { element, show, stop: effects.stop };
}
