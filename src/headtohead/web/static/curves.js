// Learning curves: the mean of each arm over its seeds, the range as a band, single seeds while an arm is pointed at.

import { finite, scale, ticks } from "./charts.js";
import { h, replace, s } from "./dom.js";

const HEIGHT = 340;
const LEFT = 64;
const BOTTOM = 40;

export const AXES = {
  steps: ["steps", () => 1],
  tokens: ["training tokens", (arm) => arm.tokens_per_step],
  flops: ["FLOPs", (arm) => arm.flops_per_step],
  seconds: ["seconds of training", (arm) => arm.step_seconds],
};

// Mean, lowest and highest value at every step that all seeds of the arm have.
export function summary(arm, factor) {
  const seeds = Object.values(arm.seeds);
  if (!seeds.length || !factor) return [];
  const counts = new Map();
  for (const points of seeds) for (const [step, value] of points) {
    if (!finite(value)) continue;
    if (!counts.has(step)) counts.set(step, []);
    counts.get(step).push(value);
  }
  return [...counts].filter(([, values]) => values.length === seeds.length).sort((a, b) => a[0] - b[0]).map(([step, values]) => ({
    x: step * factor,
    step,
    mean: values.reduce((a, b) => a + b, 0) / values.length,
    low: Math.min(...values),
    high: Math.max(...values),
  }));
}

// Every arm minus the control, seed by seed, at the steps at which both were evaluated. The control is the first arm.
export function pairedDifferences(data) {
  const [control, ...others] = data.arms;
  const minus = (points, of) => {
    const known = new Map(of);
    return points.filter(([step, v]) => finite(v) && finite(known.get(step))).map(([step, v]) => [step, v - known.get(step)]);
  };
  const arms = others.map((arm) => ({ ...arm, seeds: Object.fromEntries(Object.entries(arm.seeds).filter(([seed]) => control.seeds[seed]).map(([seed, points]) => [seed, minus(points, control.seeds[seed])])) }));
  return { ...data, metric: `${data.metric} minus ${control.arm}`, arms };
}

// Each colour has a lighter form in the dark theme (style.css).
const colourOf = (arm) => `var(--arm-${arm.colour.slice(1)}, ${arm.colour})`;

export function drawCurves(place, absolute, options) {
  const paired = options.paired && absolute.arms.length > 1;
  const data = paired ? pairedDifferences(absolute) : absolute;
  const width = Math.max(280, place.clientWidth || 800);
  const [title, factorOf] = AXES[options.axis] || AXES.steps;
  const lines = data.arms.map((arm) => ({ arm, points: summary(arm, factorOf(arm)) })).filter((line) => line.points.length > 1);
  if (!lines.length) {
    replace(place, h("p", { class: "empty" }, "No run was evaluated twice by this figure yet."));
    return;
  }
  // the value before training would flatten the rest
  const shown = lines.map((line) => ({ ...line, points: options.whole ? line.points : line.points.filter((p) => p.step > 0) }));
  const every = shown.flatMap((line) => line.points);
  const logX = options.logX && every.some((p) => p.x > 0);
  const logY = options.logY && every.every((p) => p.low > 0);
  const fx = (v) => (logX ? Math.log10(Math.max(v, 1e-300)) : v);
  const fy = (v) => (logY ? Math.log10(v) : v);
  const xs = every.filter((p) => !logX || p.x > 0).map((p) => fx(p.x));
  const ys = every.flatMap((p) => [fy(p.low), fy(p.high)]);
  if (paired) ys.push(0);
  const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const x = scale(x0, x1, LEFT, width - 12);
  const y = scale(y0 - 0.04 * (y1 - y0), y1 + 0.04 * (y1 - y0), HEIGHT - BOTTOM, 10);
  const ends = shown.map((line) => `${line.arm.arm} ${line.points.at(-1).mean.toPrecision(4)}`).join(", ");
  const chart = s("svg", { class: "figure", viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": `${data.metric}, by ${title}. At the end: ${ends}.` });
  for (const tick of ticks(x0, x1, width / 110)) chart.append(s("line", { class: "grid", x1: x(tick), x2: x(tick), y1: 10, y2: HEIGHT - BOTTOM }), s("text", { x: x(tick), y: HEIGHT - BOTTOM + 16 }, short(logX ? 10 ** tick : tick)));
  for (const tick of ticks(y0, y1, 6)) chart.append(s("line", { class: "grid", x1: LEFT, x2: width - 12, y1: y(tick), y2: y(tick) }), s("text", { class: "left", x: LEFT - 8, y: y(tick) + 4 }, short(logY ? 10 ** tick : tick)));
  if (paired) chart.append(s("line", { class: "zero", x1: LEFT, x2: width - 12, y1: y(0), y2: y(0) }));
  chart.append(s("text", { x: (LEFT + width) / 2, y: HEIGHT - 6 }, title));
  chart.append(s("text", { class: "y-name", transform: `translate(12,${(HEIGHT - BOTTOM) / 2}) rotate(-90)` }, data.metric));
  const seeds = s("g", { class: "seeds" });
  chart.append(seeds);
  const path = (points, get) => points.map((p, n) => `${n ? "L" : "M"}${x(fx(p.x)).toFixed(1)},${y(fy(get(p))).toFixed(1)}`).join("");
  for (const line of shown) {
    const { points, arm } = line;
    if (!points.length) continue;
    if (options.bands) {
      const back = [...points].reverse().map((p) => `L${x(fx(p.x)).toFixed(1)},${y(fy(p.low)).toFixed(1)}`).join("");
      chart.append(s("path", { class: "band", d: `${path(points, (p) => p.high)}${back}Z`, style: { fill: colourOf(arm) } }));
    }
    chart.append(s("path", { class: "line", d: path(points, (p) => p.mean), style: { stroke: colourOf(arm) }, "stroke-dasharray": arm.dash.join(" ") }));
  }
  const readout = h("p", { class: "readout", role: "status" });
  const legend = h("div", { class: "legend" }, shown.map((line) => {
    const swatch = s("svg", { width: 26, height: 10, "aria-hidden": "true" }, s("line", { x1: 0, x2: 26, y1: 5, y2: 5, style: { stroke: colourOf(line.arm) }, "stroke-width": 3, "stroke-dasharray": line.arm.dash.join(" ") }));
    const point = () => single(line);
    const leave = () => { if (chart.isConnected) { place.pointed = undefined; replace(seeds); } };
    return h("button", { type: "button", class: "plain", "data-arm": line.arm.arm, onmouseenter: point, onfocus: point, onmouseleave: leave, onblur: leave, title: "Point here to see every seed" }, swatch, line.arm.arm);
  }));

  function single(line) {
    place.pointed = line.arm.arm;
    replace(seeds, Object.entries(line.arm.seeds).map(([seed, points]) => {
      const own = points.filter(([step, v]) => finite(v) && (options.whole || step > 0)).map(([step, v]) => ({ x: step * factorOf(line.arm), v }));
      return s("path", { class: "line single", d: path(own, (p) => p.v), style: { stroke: colourOf(line.arm) } }, s("title", null, `seed ${seed}`));
    }));
  }

  function read(event) {
    const box = chart.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * width;
    const near = (points) => points.reduce((a, b) => (Math.abs(x(fx(b.x)) - at) < Math.abs(x(fx(a.x)) - at) ? b : a));
    readout.textContent = shown.map((line) => { const p = near(line.points); return `${line.arm.arm} ${p.mean.toPrecision(4)} (${p.low.toPrecision(4)} to ${p.high.toPrecision(4)}) at step ${p.step}`; }).join(" · ");
  }

  chart.addEventListener("mousemove", read);
  const figure = h("div", { "data-figure": "learning-curves" }, chart, legend);
  figure.figureData = { columns: ["arm", "seed", "step", data.metric], rows: data.arms.flatMap((arm) => Object.entries(arm.seeds).flatMap(([seed, points]) => points.map(([step, v]) => [arm.arm, seed, step, v]))) };
  figure.figureText = { title: options.title || "", caption: `${data.metric} by ${title}. Lines: means over the seeds.${options.bands ? " Bands: lowest to highest seed." : ""}` };
  const focused = place.contains(document.activeElement) && document.activeElement.dataset.arm;
  const pointed = place.pointed; // a figure that is drawn again while an arm is pointed at keeps its seeds
  replace(place, figure, readout);
  const again = shown.find((line) => line.arm.arm === pointed);
  if (again) single(again);
  if (focused) [...legend.children].find((entry) => entry.dataset.arm === focused)?.focus();
}

function short(value) {
  const size = Math.abs(value);
  if (size >= 1e15) return value.toExponential(0).replace("e+", "e");
  for (const [unit, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (size >= unit) return `${Number((value / unit).toPrecision(3))}${letter}`;
  return String(Number(value.toPrecision(3)));
}
