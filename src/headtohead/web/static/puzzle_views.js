// Pictures of the puzzles that change with the answer: bars, maps, curves. Each has { element, draw(measured) }.

import { scale } from "./charts.js";
import { h, replace, s } from "./dom.js";

export const share = (x) => (x >= 0.9995 ? "1" : x < 0.0005 ? (x > 0 ? "<0.001" : "0") : x.toFixed(3));

// A picture with its text and its numbers, for export and for screen readers.
function figure(name, title, body) {
  return h("figure", { class: "played", "data-figure": name }, h("figcaption", null, title), body);
}

// The mix of values that attention returns, beside the one that is asked for.
export function mixView() {
  const made = s("svg", { class: "mix", viewBox: "0 0 400 74", role: "img" });
  const element = figure("puzzle-output", "Output: the mix of values", made);
  const line = (weights, top, label) => {
    let x = 60;
    const parts = [s("text", { x: 54, y: top + 17, class: "end" }, label)];
    weights.forEach((w, n) => {
      const wide = 335 * w;
      if (wide > 0.4) parts.push(s("rect", { class: `value v${n % 6}`, x, y: top, width: wide, height: 24 }));
      if (wide > 24) parts.push(s("text", { class: "within", x: x + wide / 2, y: top + 16 }, `v${n}`));
      x += wide;
    });
    return parts;
  };
  function draw({ weights, target }, which = 0) {
    replace(made, line(weights[which], 4, "output"), line(target[which], 40, "asked for"));
    made.setAttribute("aria-label", `Output ${weights[which].map((w, n) => `${share(w)} of value ${n}`).join(", ")}; asked for ${target[which].map((w, n) => `${share(w)} of value ${n}`).join(", ")}`);
    element.figureData = { columns: ["value", "weight", "target"], rows: weights[which].map((w, n) => [`v${n}`, w, target[which][n]]) };
  }
  return { element, draw };
}

// A map of attention: rows are queries, columns keys. `marks` are the cells that should have the attention.
export function mapView(name, title, { rowName = "query", columnName = "key", labels = null, columnLabels = labels } = {}) {
  const made = s("svg", { class: "attention", role: "img" });
  const element = figure(name, title, made);
  let cells = [];
  let size = [0, 0];
  function build(rows, columns) {
    size = [rows, columns];
    const left = 26;
    const cell = 300 / Math.max(rows, columns);
    made.setAttribute("viewBox", `0 0 ${left + columns * cell + 4} ${rows * cell + 30}`);
    cells = [];
    const grid = s("g");
    for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) {
      const one = s("rect", { class: "cell", x: left + j * cell, y: i * cell, width: cell, height: cell });
      cells.push(one);
      grid.append(one);
    }
    const few = Math.ceil(rows / 8);
    const few2 = Math.ceil(columns / 8);
    const ticks = (count, named, step) => Array.from({ length: count }, (_, n) => n).filter((n) => named || n % step === 0);
    const name = (named, n) => (named ? named(n) : n);
    replace(made, s("rect", { class: "ground", x: left, y: 0, width: columns * cell, height: rows * cell }), grid,
      ticks(rows, labels, few).map((i) => s("text", { x: left - 4, y: (i + 0.5) * cell + 3, class: "end small" }, name(labels, i))),
      ticks(columns, columnLabels, few2).map((j) => s("text", { x: left + (j + 0.5) * cell, y: rows * cell + 11, class: "small" }, name(columnLabels, j))),
      s("text", { x: left + (columns * cell) / 2, y: rows * cell + 25, class: "small" }, `${columnName} → (rows: ${rowName})`), s("g", { class: "marks" }));
  }
  function draw(weights, target, text) {
    if (size[0] !== weights.length || size[1] !== weights[0].length || columnLabels) build(weights.length, weights[0].length);
    weights.forEach((row, i) => row.forEach((w, j) => cells[i * size[1] + j].setAttribute("fill-opacity", w < 0.004 ? 0 : w.toFixed(3))));
    const marks = made.querySelector(".marks");
    const cell = 300 / Math.max(...size);
    replace(marks, (target || []).map((j, i) => (j < 0 ? null : s("rect", { class: "wanted", x: 26 + j * cell + 0.5, y: i * cell + 0.5, width: cell - 1, height: cell - 1 }))));
    made.setAttribute("aria-label", text);
    element.figureData = { columns: [rowName, ...weights[0].map((_, j) => `${columnName} ${j}`)], rows: weights.map((row, i) => [i, ...row]) };
  }
  return { element, draw };
}

// The weights of the last token by distance, its target, and the scores as a line.
export function distanceView(wanted) {
  const made = s("svg", { class: "weights", viewBox: "0 0 400 210", role: "img" });
  const element = figure("puzzle-distance", "Last token: weight by distance (bars), score (line)", made);
  function draw({ weights, curve }) {
    const row = [...weights[weights.length - 1]].reverse();
    const n = row.length;
    const at = wanted(n);
    const x = scale(-0.5, n - 0.5, 40, 392);
    const top = Math.max(0.1, ...row) * 1.15;
    const y = scale(0, top, 176, 10);
    const parts = [s("rect", { class: "wanted band", x: x(at - 0.5), y: 6, width: x(at + 0.5) - x(at - 0.5), height: 172 }), s("text", { x: x(at) + (at > n / 2 ? -6 : 6), y: 18, class: at > n / 2 ? "end" : "start" }, "asked for")];
    row.forEach((w, back) => parts.push(s("rect", { class: "weight", x: x(back - 0.4), y: y(w), width: x(0.4) - x(-0.4), height: 176 - y(w) })));
    if (curve) {
      const points = Array.from({ length: 8 * (n - 1) + 1 }, (_, m) => [m / 8, curve(m / 8)]);
      const [low, high] = [Math.min(...points.map((p) => p[1])), Math.max(...points.map((p) => p[1]))];
      const z = scale(low, high, 170, 24);
      parts.push(s("path", { class: "score", d: points.map(([b, v], m) => `${m ? "L" : "M"}${x(b).toFixed(1)},${z(v).toFixed(1)}`).join("") }));
    }
    for (let back = 0; back < n; back += Math.ceil(n / 8)) parts.push(s("text", { x: x(back), y: 191 }, back));
    parts.push(s("text", { x: 216, y: 207 }, "tokens back"), s("text", { x: 36, y: 180, class: "end" }, "0"), s("text", { x: 36, y: y(top / 1.15) + 4, class: "end" }, share(top / 1.15)), s("line", { class: "base", x1: 40, x2: 392, y1: 176, y2: 176 }));
    replace(made, parts);
    made.setAttribute("aria-label", `The last token gives ${share(row[at])} of its attention to the token ${at} back, which is asked for`);
    element.figureData = { columns: ["tokens back", "weight", ...(curve ? ["score"] : [])], rows: row.map((w, back) => [back, w, ...(curve ? [curve(back)] : [])]) };
  }
  return { element, draw };
}

// Horizontal bars, one for each item.
export function itemView(title) {
  const made = s("svg", { class: "weights", role: "img" });
  const element = figure("puzzle-items", title, made);
  function draw(values) {
    made.setAttribute("viewBox", `0 0 400 ${values.length * 16 + 22}`);
    const x = scale(0, 1, 30, 390);
    replace(made, s("line", { class: "base", x1: x(0.95), x2: x(0.95), y1: 0, y2: values.length * 16 }), s("text", { x: x(0.95), y: values.length * 16 + 14 }, "0.95"),
      values.map((v, n) => [s("rect", { class: "weight", x: 30, y: n * 16 + 2, width: x(v) - 30, height: 12 }), s("text", { x: 24, y: n * 16 + 12, class: "end small" }, n)]));
    made.setAttribute("aria-label", `Worst item: ${share(Math.min(...values))}`);
    element.figureData = { columns: ["item", "share"], rows: values.map((v, n) => [n, v]) };
  }
  return { element, draw };
}

// Votes: the share of b in the output against its true share. In the shaded corners the prediction is wrong.
export function voteView() {
  const made = s("svg", { class: "weights", viewBox: "0 0 340 330", role: "img" });
  const element = figure("puzzle-votes", "Share of b in the output (up) against its true share (across)", made);
  function draw({ shares }, n) {
    const x = scale(0, 1, 40, 320);
    const y = scale(0, 1, 290, 10);
    const points = [...shares].sort((a, b) => a[0] - b[0]);
    const wrong = (count, v) => (v > 0.5) !== (count > n / 2);
    replace(made, s("rect", { class: "corner", x: x(0), y: y(1), width: x(0.5) - x(0), height: y(0.5) - y(1) }), s("rect", { class: "corner", x: x(0.5), y: y(0.5), width: x(1) - x(0.5), height: y(0) - y(0.5) }),
      s("line", { class: "base dashed", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }), s("text", { x: x(0.25), y: y(0.93) }, "wrong"), s("text", { x: x(0.75), y: y(0.05) }, "wrong"),
      points.map(([count, v]) => (wrong(count, v) ? s("path", { class: "bad", d: `M${x(count / n) - 5},${y(v) - 5}l10,10m0,-10l-10,10` }) : s("circle", { class: "good", cx: x(count / n), cy: y(v), r: 5 }))),
      [0, 0.5, 1].map((v) => [s("text", { x: x(v), y: 306 }, v), s("text", { x: 32, y: y(v) + 4, class: "end" }, v)]), s("text", { x: 180, y: 324 }, "share of b among the tokens"));
    made.setAttribute("aria-label", `${points.filter(([c, v]) => wrong(c, v)).length} of ${points.length} counts are predicted wrongly`);
    element.figureData = { columns: ["count of b", "share of b in the output"], rows: points };
  }
  return { element, draw };
}

// Angles of the query against the key, one dial for each pair. Each can be dragged.
export function dialView(angles, turn) {
  const element = h("div", { class: "dials", role: "group", "aria-label": "Angles, as dials" });
  const dials = [];
  function draw() {
    const now = angles();
    while (dials.length < now.length) dials.push(dial(dials.length));
    now.forEach((angle, n) => dials[n].draw(angle));
  }
  function dial(n) {
    const hand = s("line", { class: "hand" });
    const tip = s("circle", { class: "knob", r: 7 });
    const svg = s("svg", { class: "dial", viewBox: "-60 -60 120 132", "aria-hidden": "true" }, s("circle", { class: "sphere", r: 48 }), s("line", { class: "keyhand", x2: 48 }), s("text", { x: 0, y: 68 }, `pair ${n}`), hand, tip);
    let held = false;
    const follow = (event) => {
      const box = svg.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left - box.width / 2, event.clientY - box.top - (box.height * 60) / 132];
      turn(n, Math.round(1000 * Math.atan2(-y, x)) / 1000);
    };
    svg.addEventListener("pointerdown", (event) => { held = true; svg.setPointerCapture(event.pointerId); follow(event); event.preventDefault(); });
    svg.addEventListener("pointermove", (event) => { if (held) follow(event); });
    for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, () => { held = false; });
    element.append(svg);
    return {
      draw(angle) {
        const [x, y] = [48 * Math.cos(angle), -48 * Math.sin(angle)];
        hand.setAttribute("x2", x);
        hand.setAttribute("y2", y);
        tip.setAttribute("cx", x);
        tip.setAttribute("cy", y);
      },
    };
  }
  draw();
  return { element, draw };
}
