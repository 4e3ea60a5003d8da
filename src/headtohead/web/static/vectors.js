// Vectors in three dimensions that can be dragged and turned. Long vectors are drawn shorter, so that all are seen.

import { button, h, replace, s } from "./dom.js";
import { length } from "./puzzle_math.js";

const SIZE = 380; // pixels of the drawing
const UNIT = 92; // pixels of length 1
const BEYOND = 0.33; // how much of the logarithm of a length beyond 1 is drawn

const drawn = (long) => (long <= 1 ? long : 1 + BEYOND * Math.log(long));
const meant = (seen) => (seen <= 1 ? seen : Math.exp((seen - 1) / BEYOND));
const times = (a, by) => a.map((x) => x * by);
const squeeze = (v) => (length(v) > 0 ? times(v, drawn(length(v)) / length(v)) : v);
const stretch = (v) => (length(v) > 0 ? times(v, meant(length(v)) / length(v)) : v);

// vectors(): [{ name, kind, at: [x, y, z], weight, move }], in the order in which they are drawn; `move` takes numbers.
export function vectorView(vectors, label) {
  let yaw = -0.55;
  let pitch = 0.42;
  const svg = s("svg", { class: "vectors", viewBox: `${-SIZE / 2} ${-SIZE / 2} ${SIZE} ${SIZE}`, role: "group", "aria-label": label });
  const still = s("g", { "aria-hidden": "true" });
  const layer = s("g");
  const turn = (by, up) => { yaw += by; pitch = Math.min(1.5, Math.max(-1.5, pitch + up)); draw(); };
  const turns = h("div", { class: "turns", role: "group", "aria-label": "Turn the view" },
    button("←", () => turn(-0.2, 0), { "aria-label": "Turn left" }), button("→", () => turn(0.2, 0), { "aria-label": "Turn right" }),
    button("↑", () => turn(0, 0.2), { "aria-label": "Turn up" }), button("↓", () => turn(0, -0.2), { "aria-label": "Turn down" }));
  svg.append(still, layer);

  // From space to the view: x to the right, y down, z to the viewer; and back.
  function seen([x, y, z]) {
    const [a, b] = [Math.cos(yaw) * x + Math.sin(yaw) * y, -Math.sin(yaw) * x + Math.cos(yaw) * y];
    return [a * UNIT, -(Math.cos(pitch) * z + Math.sin(pitch) * b) * UNIT, (Math.sin(pitch) * z - Math.cos(pitch) * b) * UNIT];
  }
  function space([right, down, near]) {
    const [a, up, out] = [right / UNIT, -down / UNIT, near / UNIT];
    const z = Math.cos(pitch) * up + Math.sin(pitch) * out;
    const b = Math.sin(pitch) * up - Math.cos(pitch) * out;
    return [Math.cos(yaw) * a - Math.sin(yaw) * b, Math.sin(yaw) * a + Math.cos(yaw) * b, z];
  }

  const handles = new Map();
  let held = null; // what is being dragged: a vector's name, or "" for the view

  function draw() {
    replace(still, s("circle", { class: "sphere", r: UNIT }));
    for (const [n, name] of ["x", "y", "z"].entries()) {
      const [x, y] = seen([0, 1, 2].map((m) => (m === n ? 1.45 : 0)));
      still.append(s("line", { class: "axis3", x2: x, y2: y }), s("text", { class: "axisname", x: x * 1.08, y: y * 1.08 + 4 }, name));
    }
    const all = vectors();
    for (const [name, handle] of handles) if (!all.some((v) => v.name === name)) { handle.remove(); handles.delete(name); }
    for (const vector of all) {
      if (!handles.has(vector.name)) handles.set(vector.name, handleOf(vector.name));
      const group = handles.get(vector.name);
      const [x, y] = seen(squeeze(vector.at));
      const size = 6 + 13 * Math.sqrt(Math.max(0, vector.weight || 0));
      const long = Math.hypot(x, y);
      const head = vector.kind === "query" && long > 12 ? `M${x},${y}l${rotated(x, y, long, 2.7)}M${x},${y}l${rotated(x, y, long, -2.7)}` : "";
      replace(group, s("line", { x2: x, y2: y }), s("path", { d: head }), s("circle", { class: "knob", cx: x, cy: y, r: vector.kind === "query" ? 7 : size }),
        s("circle", { class: "reach", cx: x, cy: y, r: 20 }), s("text", { x: x + (x < 0 ? -1 : 1) * (size + 8), y: y + (y < 0 ? -size - 2 : size + 10) }, vector.name));
      group.setAttribute("class", `vector ${vector.kind} ${vector.colour || ""} ${vector.move ? "movable" : ""}`);
      group.setAttribute("aria-label", `${vector.name}: ${vector.at.map((c) => c.toFixed(2)).join(", ")}${vector.move ? ". Arrow keys move it; Page Up and Page Down change its length" : ""}`);
      if (vector.move) group.setAttribute("tabindex", "0");
      else group.removeAttribute("tabindex");
      if (layer.children[all.indexOf(vector)] !== group) layer.insertBefore(group, layer.children[all.indexOf(vector)] || null);
    }
  }

  function rotated(x, y, long, by) {
    const [ux, uy] = [(9 * x) / long, (9 * y) / long];
    return `${ux * Math.cos(by) - uy * Math.sin(by)},${ux * Math.sin(by) + uy * Math.cos(by)}`;
  }

  function handleOf(name) {
    const group = s("g", { role: "button", "data-vector": name });
    group.addEventListener("keydown", (event) => keys(event, name));
    layer.append(group);
    return group;
  }

  const find = (name) => vectors().find((v) => v.name === name);

  // Move the drawn tip in the plane of the view; its depth stays.
  function shift(name, right, down) {
    const vector = find(name);
    if (!vector || !vector.move) return;
    const [x, y, near] = seen(squeeze(vector.at));
    vector.move(stretch(space([x + right, y + down, near])));
  }

  function keys(event, name) {
    const by = event.shiftKey ? 12 : 3;
    const ways = { ArrowLeft: [-by, 0], ArrowRight: [by, 0], ArrowUp: [0, -by], ArrowDown: [0, by] };
    const vector = find(name);
    if (ways[event.key]) shift(name, ...ways[event.key]);
    else if (event.key === "PageUp" && vector && vector.move) vector.move(times(vector.at, 1.1));
    else if (event.key === "PageDown" && vector && vector.move) vector.move(times(vector.at, 1 / 1.1));
    else return;
    event.preventDefault();
  }

  svg.addEventListener("pointerdown", (event) => {
    const group = event.target.closest("[data-vector]");
    held = group && find(group.dataset.vector).move ? group.dataset.vector : "";
    svg.setPointerCapture(event.pointerId);
    if (held && group.focus) group.focus({ preventScroll: true });
    event.preventDefault();
  });
  svg.addEventListener("pointermove", (event) => {
    if (held === null) return;
    const scale = SIZE / (svg.getBoundingClientRect().width || SIZE);
    if (held) shift(held, event.movementX * scale, event.movementY * scale);
    else turn(-0.008 * event.movementX, 0.008 * event.movementY);
  });
  for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, () => { held = null; });
  draw();
  return { element: h("div", { class: "space" }, svg, turns), draw };
}
