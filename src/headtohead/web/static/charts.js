// Pictures of differences: an interval for each arm, a dot for each pair. SVG, with a text for screen readers.

import { s } from "./dom.js";

export const finite = (x) => typeof x === "number" && Number.isFinite(x);

// Round numbers for an axis between two values.
export function ticks(low, high, count) {
  const raw = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw || 1));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw) || power;
  const found = [];
  for (let x = Math.ceil(low / step) * step; x <= high + step / 1e6; x += step) found.push(Math.abs(x) < step / 1e6 ? 0 : x);
  return found;
}

export function scale(low, high, from, to) {
  const span = high - low || 1;
  return (x) => from + ((x - low) / span) * (to - from);
}

const MARGIN_SHOWN = 5; // a margin up to so many times the furthest value is drawn; a wider one would hide the intervals

// What the dotted lines mean, or where they are; empty without a margin.
export function marginText(row, span) {
  const { margin } = row.arms.find((arm) => finite(arm.margin)) || {};
  if (margin === undefined || !row.arms.some((arm) => arm.pairs)) return "";
  const text = `margin ±${signed(margin * row.scale).slice(1)}${row.unit ? ` ${row.unit}` : ""}`;
  return margin < span[1] || -margin > span[0] ? `dotted: ${text}` : `${text} lies beyond the axis`;
}

// The span that shows every interval and dot of some arms, with zero inside.
export function spanOf(arms, floors) {
  const values = [0];
  for (const arm of arms) {
    for (const x of [arm.low, arm.high, arm.alone_low, arm.alone_high, arm.difference]) if (finite(x)) values.push(x);
    for (const [, d] of arm.dots || []) if (finite(d)) values.push(d);
  }
  for (const floor of floors || []) for (const x of [floor.low, floor.high]) if (finite(x)) values.push(x);
  const furthest = Math.max(...values.map(Math.abs));
  for (const arm of arms) if (finite(arm.margin) && arm.margin <= MARGIN_SHOWN * furthest) values.push(-arm.margin, arm.margin);
  // one arm far away must not flatten all others: the span holds nine tenths of the values, and arrows tell the rest
  const sorted = values.map(Math.abs).sort((a, b) => a - b);
  const most = Math.max(sorted[Math.floor(0.9 * (sorted.length - 1))] * 2.5, 1e-12);
  const low = Math.max(Math.min(...values), -most);
  const high = Math.min(Math.max(...values), most);
  const room = 0.06 * (high - low || 1);
  return [low - room, high + room];
}

const MARKS = { better: "M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0", worse: "M-5,-5L5,5M-5,5L5,-5", equivalent: "M-4.5,-4.5h9v9h-9z", unresolved: "M0,-6L6,0L0,6L-6,0z" };

// How many pairs an arm has, and which of the planned analyses they reached.
export function pairsText(arm, brief) {
  if (!arm.pairs) return "the first pair is not finished";
  const pairs = `${arm.pairs} ${arm.pairs === 1 ? "pair" : "pairs"}`;
  if (brief || arm.analyses <= 1) return pairs;
  return arm.analysis ? `${pairs}, analysis ${arm.analysis} of ${arm.analyses}, error ${(100 * arm.spent).toFixed(1)} %` : `${pairs}, before the first of ${arm.analyses} analyses`;
}

export function verdictMark(verdict) {
  return s("svg", { class: `mark ${verdict}`, viewBox: "-8 -8 16 16", "aria-hidden": "true" }, s("path", { d: MARKS[verdict] || MARKS.unresolved }));
}

// One arm: thin line the interval that decides, thick line the arm alone, a mark for the mean, a dot for each pair.
export function intervalChart(arm, span, options) {
  const { width = 320, height = 34, floors = [], unit = "", scaleBy = 1, better = "lower" } = options || {};
  const x = scale(span[0], span[1], 6, width - 6);
  const inside = (v) => Math.min(Math.max(v, span[0]), span[1]);
  const middle = height / 2 - 3;
  const text = finite(arm.difference)
    ? `${arm.arm}: ${arm.word}, difference ${arm.difference_text}, 95 % interval ${arm.interval_text}, ${arm.pairs} pairs, ${better} is better`
    : `${arm.arm}: no pair yet`;
  const chart = s("svg", { class: `interval ${arm.verdict}`, viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": text });
  for (const floor of floors) {
    if (!finite(floor.low) || floor.kind !== "noise") continue;
    chart.append(s("rect", { class: "floor", x: x(inside(floor.low)), y: 0, width: Math.max(1, x(inside(floor.high)) - x(inside(floor.low))), height: height - 4 }));
  }
  if (finite(arm.margin)) {
    for (const edge of [-arm.margin, arm.margin]) if (edge > span[0] && edge < span[1]) chart.append(s("line", { class: "margin", x1: x(edge), x2: x(edge), y1: 0, y2: height - 4 }));
  }
  chart.append(s("line", { class: "zero", x1: x(0), x2: x(0), y1: 0, y2: height - 4 }));
  const line = (low, high, kind) => {
    if (!finite(low) || !finite(high)) return;
    chart.append(s("line", { class: kind, x1: x(inside(low)), x2: x(inside(high)), y1: middle, y2: middle }));
    for (const [end, way] of [[low, -1], [high, 1]]) {
      if (end < span[0] || end > span[1]) chart.append(s("path", { class: "beyond", d: `M${x(inside(end)) - 4 * way},${middle - 4}l${5 * way},4l${-5 * way},4` }));
    }
  };
  line(arm.low, arm.high, "decides");
  line(arm.alone_low, arm.alone_high, "alone");
  for (const [n, [seed, d]] of (arm.dots || []).entries()) {
    if (!finite(d)) continue;
    chart.append(s("circle", { class: "dot", cx: x(inside(d)), cy: height - 7 + ((n % 3) - 1) * 2, r: 2.2 }, s("title", null, `seed ${seed}: ${signed(d * scaleBy)} ${unit}`)));
  }
  if (finite(arm.difference)) chart.append(s("path", { class: "mean", d: MARKS[arm.verdict] || MARKS.unresolved, transform: `translate(${x(inside(arm.difference))},${middle})` }));
  return chart;
}

export function axis(span, width, scaleBy, unit) {
  const x = scale(span[0], span[1], 6, width - 6);
  const made = s("svg", { class: "axis", viewBox: `0 0 ${width} 20`, width, height: 20, "aria-hidden": "true" });
  if (unit) made.append(s("text", { class: "unit", x: width - 2, y: 30 }, unit));
  for (const tick of ticks(span[0], span[1], width / 80)) {
    made.append(s("line", { x1: x(tick), x2: x(tick), y1: 0, y2: 4 }));
    made.append(s("text", { x: x(tick), y: 15 }, tick === 0 && unit ? `0 ${unit}` : signed(tick * scaleBy)));
  }
  return made;
}

const LETTER = 6.4; // width of a letter in labels, on average; a line of them is 13 high

// Labels beside points, on the side with more room. A label that would cover another one is moved down, and the last ones up.
export function labelsApart(points, width, bottom) {
  const placed = [];
  const hits = (one) => placed.some((other) => Math.abs(one.y - other.y) < 13 && one.from < other.to && other.from < one.to);
  for (const { text, x, y } of [...points].sort((a, b) => a.y - b.y)) {
    const isEnd = x > width * 0.7;
    const at = x + (isEnd ? -9 : 9);
    const label = { text, x: at, y: y + 4, side: isEnd ? "end" : "start", from: isEnd ? at - LETTER * text.length : at, to: isEnd ? at : at + LETTER * text.length };
    while (hits(label) && label.y < bottom) label.y += 1;
    while (hits(label) && label.y > 12) label.y -= 1;
    placed.push(label);
  }
  return placed;
}

export function signed(value) {
  if (!finite(value)) return "–";
  const size = Math.abs(value);
  const digits = size === 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : Math.min(6, 2 - Math.floor(Math.log10(size)));
  const text = Number(size.toFixed(digits)).toString();
  return value > 0 ? `+${text}` : value < 0 ? `−${text}` : "0";
}
