// Maps of attention weights on canvases. All maps of a text have one scale: the colour is the root of the weight, from 0
// to 1, or to a smaller weight that is written beside the colours.

import { h } from "./dom.js";

// Brightness changes in one direction only, so that the maps need no colour vision.
const WEIGHT = { light: ["#ffffff", "#cfe0f3", "#86b3de", "#3a78b8", "#0c2f5e"], dark: ["#14171e", "#1d3a5f", "#3673b0", "#8fc0ee", "#f4fbff"] };
const DIFFERENCE = {
  light: ["#08407c", "#4a8bc6", "#b5d3ec", "#ffffff", "#f7cfa6", "#dd8030", "#8a3d00"],
  dark: ["#a9d4ff", "#4b90d8", "#1f446e", "#14171e", "#66380f", "#d07a28", "#ffd2a3"],
};

const rgb = (hex) => [1, 3, 5].map((n) => parseInt(hex.slice(n, n + 2), 16));

function table(stops, size) {
  const made = new Uint32Array(size);
  const colours = stops.map(rgb);
  for (let n = 0; n < size; n++) {
    const x = (n / (size - 1)) * (stops.length - 1);
    const low = Math.min(Math.floor(x), stops.length - 2);
    const [r, g, b] = [0, 1, 2].map((c) => Math.round(colours[low][c] + (x - low) * (colours[low + 1][c] - colours[low][c])));
    made[n] = (255 << 24) | (b << 16) | (g << 8) | r;
  }
  return made;
}

const tables = {};
export const isDark = () => document.documentElement.dataset.theme === "dark";

// Colours by level: 0 … 255 for weights, 0 … 510 for differences, whose middle is no difference.
function colours(difference) {
  const key = `${difference} ${isDark()}`;
  return (tables[key] ||= table((difference ? DIFFERENCE : WEIGHT)[isDark() ? "dark" : "light"], difference ? 511 : 256));
}

export function bytes(text) {
  const raw = atob(text);
  const made = new Uint8Array(raw.length);
  for (let n = 0; n < raw.length; n++) made[n] = raw.charCodeAt(n);
  return made;
}

export const floats = (text) => new Float32Array(bytes(text).buffer);

const level = (d) => 255 + Math.sign(d) * Math.round(255 * Math.sqrt(Math.min(1, Math.abs(d))));

function paint(canvas, columns, rows, colour) {
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  for (let n = 0; n < pixels.length; n++) pixels[n] = colour(n);
  context.putImageData(image, 0, 0);
}

// A small map: the cells of one head are levels of √weight.
export function paintCells(canvas, cells, size, top) {
  const of = colours(false);
  const by = 1 / Math.sqrt(top);
  paint(canvas, size, size, (n) => of[Math.min(255, Math.round(cells[n] * by))]);
}

export function paintCellDifference(canvas, a, b, size, top) {
  const of = colours(true);
  paint(canvas, size, size, (n) => of[level(((a[n] / 255) ** 2 - (b[n] / 255) ** 2) / top)]);
}

// The weight that only two of a hundred cells exceed, of all cells that are not zero.
export function mostOf(all) {
  const counts = new Uint32Array(256);
  for (const cells of all) for (let n = 0; n < cells.length; n++) counts[cells[n]] += 1;
  let left = 0.02 * (counts.reduce((sum, count) => sum + count, 0) - counts[0]);
  let top = 255;
  while (top > 1 && left >= counts[top]) left -= counts[top--];
  return (top / 255) ** 2;
}

export const levels = (values) => Uint8Array.from(values, (x) => Math.round(255 * Math.sqrt(Math.min(1, Math.max(0, x)))));

export const label = (token) => (token.trim() ? token.trim() : token.includes("\n") ? "⏎" : token === "" ? "∅" : "␣");

// The bar of colours with its ends.
export function scaleBar(difference) {
  const [left, right] = [h("span"), h("span")];
  const canvas = h("canvas", { class: "scale", "aria-hidden": "true" });
  const draw = () => {
    const of = colours(difference);
    paint(canvas, of.length, 1, (n) => of[n]);
  };
  const element = h("span", { class: "scalebar" }, left, canvas, right);
  element.draw = (from, to) => {
    left.textContent = from;
    right.textContent = to;
    draw();
  };
  return element;
}

const FONT = 11;

// A large map with tokens on both axes. `pointed(row, column)` is called for the cell under the pointer or the cursor.
export class LargeMap {
  constructor(name, pointed, key) {
    this.canvas = h("canvas", { class: "map", tabindex: 0, role: "application", "aria-roledescription": "attention map", "aria-label": name });
    this.title = h("figcaption", null, name);
    this.element = h("figure", { class: "large" }, this.title, this.canvas);
    this.at = null;
    this.canvas.addEventListener("pointermove", (event) => this.point(event, pointed));
    this.canvas.addEventListener("pointerdown", (event) => this.point(event, pointed));
    this.canvas.addEventListener("keydown", key);
  }

  point(event, pointed) {
    if (!this.shown) return;
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - this.left) / this.cell);
    const row = Math.floor((event.clientY - box.top - this.top) / this.cellHeight);
    const { rows, columns } = this.shown;
    if (row >= 0 && column >= 0 && row < rows && column < columns) pointed(row, column);
  }

  // { values, rows, columns, queries, keys (texts of the bins), difference, top (the weight of the last colour) }
  show(shown) {
    this.shown = shown;
    this.draw();
  }

  draw() {
    const { shown, canvas } = this;
    if (!shown) return;
    const width = Math.max(200, this.element.clientWidth || 300);
    const dense = window.devicePixelRatio || 1;
    const style = getComputedStyle(document.documentElement);
    const context = canvas.getContext("2d");
    const font = `${FONT}px system-ui, "DejaVu Sans", sans-serif`;
    context.font = font;
    const longest = (texts) => Math.max(0, ...texts.map((text) => context.measureText(text).width));
    const few = (texts, cell) => texts.filter((_, n) => n % Math.ceil((FONT + 2) / cell) === 0);
    const guess = (width - 60) / shown.columns;
    this.left = Math.min(96, 10 + longest(few(shown.queries, guess)), width * 0.3);
    this.top = Math.min(84, 10 + longest(few(shown.keys, guess)));
    this.cell = Math.min((width - this.left - 2) / shown.columns, 40);
    this.cellHeight = this.cell * Math.min(1, Math.max(shown.columns / shown.rows, 0.2));
    const [w, t] = [this.cell * shown.columns, this.cellHeight * shown.rows];
    const full = [this.left + w + 2, this.top + t + 2];
    canvas.width = Math.round(full[0] * dense);
    canvas.height = Math.round(full[1] * dense);
    canvas.style.setProperty("width", `${full[0]}px`);
    canvas.style.setProperty("height", `${full[1]}px`);
    context.scale(dense, dense);
    const cells = document.createElement("canvas");
    const of = colours(shown.difference);
    const colour = shown.difference ? (n) => of[level(shown.values[n] / shown.top)] : (n) => of[Math.round(255 * Math.sqrt(Math.min(1, Math.max(0, shown.values[n] / shown.top))))];
    paint(cells, shown.columns, shown.rows, colour);
    context.imageSmoothingEnabled = false;
    context.drawImage(cells, this.left, this.top, w, t);
    context.strokeStyle = style.getPropertyValue("--line");
    context.strokeRect(this.left - 0.5, this.top - 0.5, w + 1, t + 1);
    context.font = font;
    context.fillStyle = style.getPropertyValue("--quiet");
    context.textBaseline = "middle";
    context.textAlign = "right";
    const down = Math.ceil((FONT + 2) / this.cellHeight);
    for (let n = 0; n < shown.rows; n += down) this.word(context, shown.queries[n], this.left - 5, this.top + (n + 0.5) * this.cellHeight, this.left - 8);
    context.textAlign = "left";
    const along = Math.ceil((FONT + 2) / this.cell);
    for (let n = 0; n < shown.columns; n += along) {
      context.save();
      context.translate(this.left + (n + 0.5) * this.cell, this.top - 5);
      context.rotate(-Math.PI / 2);
      this.word(context, shown.keys[n], 0, 0, this.top - 8);
      context.restore();
    }
    this.frame(context, style);
  }

  word(context, text, x, y, room) {
    let shown = text;
    while (shown.length > 1 && context.measureText(shown).width > room) shown = `${shown.replace(/…$/, "").slice(0, -1)}…`;
    context.fillText(shown, x, y);
  }

  frame(context, style) {
    if (!this.at) return;
    const [row, column] = this.at;
    const { rows, columns } = this.shown;
    if (row >= rows || column >= columns) return;
    const [x, y] = [this.left + column * this.cell, this.top + row * this.cellHeight];
    context.strokeStyle = style.getPropertyValue("--quiet");
    context.globalAlpha = 0.5;
    context.strokeRect(this.left, y, columns * this.cell, this.cellHeight);
    context.strokeRect(x, this.top, this.cell, rows * this.cellHeight);
    context.globalAlpha = 1;
    context.lineWidth = 2;
    context.strokeStyle = style.getPropertyValue("--focus");
    context.strokeRect(x - 1, y - 1, this.cell + 2, this.cellHeight + 2);
    context.lineWidth = 1;
    this.name(context, style, row, column);
  }

  // The tokens of the marked cell, over labels that may be in their place.
  name(context, style, row, column) {
    const clear = (room) => {
      context.fillStyle = style.getPropertyValue("--paper");
      context.fillRect(0, -FONT / 2 - 2, room, FONT + 4);
      context.fillStyle = style.getPropertyValue("--ink");
      context.font = `bold ${FONT}px system-ui, "DejaVu Sans", sans-serif`;
    };
    context.save();
    context.translate(0, this.top + (row + 0.5) * this.cellHeight);
    clear(this.left - 2);
    context.textAlign = "right";
    this.word(context, this.shown.queries[row], this.left - 5, 0, this.left - 8);
    context.restore();
    context.save();
    context.translate(this.left + (column + 0.5) * this.cell, this.top - 2);
    context.rotate(-Math.PI / 2);
    clear(this.top - 2);
    context.textAlign = "left";
    this.word(context, this.shown.keys[column], 3, 0, this.top - 8);
    context.restore();
  }

  mark(row, column) {
    this.at = [row, column];
    cancelAnimationFrame(this.waiting);
    this.waiting = requestAnimationFrame(() => this.draw());
  }
}
