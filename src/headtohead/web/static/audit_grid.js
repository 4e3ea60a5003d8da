// The grid of positions: which tokens each output may see, which it depends on, and the pairs that break a claim.

import { h, replace, s } from "./dom.js";

const CELL = 20;
const LEFT = 40;
const TOP = 34;

export function gridView(grid, leaks) {
  const n = grid.length;
  const size = n * CELL;
  const svg = s("svg", { class: "tokengrid", viewBox: `0 0 ${LEFT + size + 6} ${TOP + size + 6}`, role: "img" });
  const caption = h("p", { class: "gridsays" });
  const under = h("p", { class: "quiet", "aria-live": "polite" });
  let shown = leaks.length ? leaks[0].check : "";
  const choice = leaks.length > 1 ? h("label", null, "breaks ", h("select", { onchange: (event) => choose(event.target.value) }, leaks.map((f) => h("option", { value: f.check }, f.check)))) : null;
  const places = [];
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < n; j++) {
      const kind = grid.allowed[i][j] || i === j ? "allowed" : grid.reached[i][j] ? "reached" : "hidden-cell";
      const cell = s("rect", { class: `cell ${kind}`, x: LEFT + j * CELL, y: TOP + i * CELL, width: CELL, height: CELL }, s("title", null, words(i, j)));
      places.push(cell);
      if (grid.seen[i][j]) places.push(s("circle", { class: "seen", cx: LEFT + (j + 0.5) * CELL, cy: TOP + (i + 0.5) * CELL, r: 2.6, "pointer-events": "none" }));
    }
  }
  const marks = s("g", { "pointer-events": "none" });
  replace(svg, places, marks,
    Array.from({ length: n }, (_, k) => [s("text", { x: LEFT + (k + 0.5) * CELL, y: TOP - 6 }, k), s("text", { x: LEFT - 6, y: TOP + (k + 0.68) * CELL, class: "end" }, k)]),
    s("text", { x: LEFT + size / 2, y: 12 }, "token j"), s("text", { x: 12, y: TOP + size / 2, transform: `rotate(-90 12 ${TOP + size / 2})` }, "output i"));
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const by = (LEFT + size + 6) / box.width;
    const [j, i] = [Math.floor(((event.clientX - box.left) * by - LEFT) / CELL), Math.floor(((event.clientY - box.top) * by - TOP) / CELL)];
    if (i >= 0 && j >= 0 && i < n && j < n) under.textContent = words(i, j);
  });

  function words(i, j) {
    const may = grid.allowed[i][j] || i === j ? "may see" : grid.reached[i][j] ? "may depend through several layers on" : "must not see";
    return `Output ${i} ${may} token ${j}${grid.seen[i][j] ? ", and depends on it" : ", and does not depend on it"}.`;
  }

  function choose(check) {
    shown = check;
    if (choice) choice.querySelector("select").value = check;
    const leak = leaks.find((f) => f.check === shown);
    const pairs = leak ? leak.pairs : [];
    replace(marks, pairs.map(([i, j], m) => [
      s("rect", { class: `leak ${leak.among ? "among" : ""} ${m === 0 && !leak.among ? "firstleak" : ""}`, x: LEFT + j * CELL + 1.5, y: TOP + i * CELL + 1.5, width: CELL - 3, height: CELL - 3 }),
      leak.among ? null : s("path", { class: "leakcross", d: `M${LEFT + j * CELL + 6},${TOP + i * CELL + 6}l8,8m0,-8l-8,8` }),
    ]));
    const first = pairs[0];
    const said = !leak ? "" : leak.among ? `${leak.check}: output ${first[0]} depends on at least one of the framed tokens.`
      : `${leak.check}: output ${first[0]} sees token ${first[1]}${pairs.length > 1 ? `, and ${pairs.length - 1} more pairs` : ""}.`;
    replace(caption, leak ? h("strong", { class: "worse" }, said) : "No output depends on a token that it must not see.");
    svg.setAttribute("aria-label", `Grid of ${n} outputs by ${n} tokens. Allowed: ${grid.says}. ${leak ? said : "No leak."}`);
  }

  const key = (kind, text) => h("li", null, s("svg", { class: "tokengrid sample", viewBox: "0 0 20 20", "aria-hidden": "true" }, kind()), text);
  const element = h("figure", { class: "gridfigure", "data-figure": "audit-grid" },
    h("figcaption", null, h("h3", null, "What each output depends on"), choice), caption, svg, under,
    h("ul", { class: "gridlegend" },
      key(() => s("rect", { class: "cell allowed", width: 20, height: 20 }), `allowed: ${grid.says}`),
      grid.reached.some((row, i) => row.some((r, j) => r && !grid.allowed[i][j] && i !== j)) ? key(() => s("rect", { class: "cell reached", width: 20, height: 20 }), "reached through several layers") : null,
      key(() => [s("rect", { class: "cell hidden-cell", width: 20, height: 20 })], "not allowed"),
      key(() => s("circle", { class: "seen", cx: 10, cy: 10, r: 3 }), "the output depends on it (gradient)"),
      leaks.length ? key(() => [s("rect", { class: "leak", x: 2, y: 2, width: 16, height: 16 }), s("path", { class: "leakcross", d: "M6,6l8,8m0,-8l-8,8" })], "breaks the claim") : null));
  element.figureData = { columns: ["output", "token", "allowed", "reached", "depends", "breaks"], rows: [] };
  const bad = new Set(leaks.filter((f) => !f.among).flatMap((f) => f.pairs.map(([i, j]) => `${i},${j}`)));
  for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) element.figureData.rows.push([i, j, grid.allowed[i][j], grid.reached[i][j], grid.seen[i][j], Number(bad.has(`${i},${j}`))]);
  choose(shown);
  return { element, choose };
}
