// Attention maps in a notebook: a small map of every head, one enlarged, and the text coloured by its weights.
// The model is anywidget's; this file loads nothing and uses no other script.
// n: rows and columns of a map. Each is a token, or a bin of tokens if the text is long.

// The colours of the workbench (web/static/heatmap.js): brightness changes in one direction only.
const WEIGHT = { light: ["#ffffff", "#cfe0f3", "#86b3de", "#3a78b8", "#0c2f5e"], dark: ["#14171e", "#1d3a5f", "#3673b0", "#8fc0ee", "#f4fbff"] };
const NO_NUMBER = [208, 28, 139];
const LONG = 128; // tokens; the weights of a longer text are small, and get the whole scale
const SHOWN = 5; // weights that are named
const FONT = 11; // pixels

function h(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat());
  return made;
}

// -- numbers, colours, words ------------------------------------------------------------------------------------------

function float16(view) {
  const found = new Float32Array(view.byteLength >> 1);
  for (let n = 0; n < found.length; n++) {
    const code = view.getUint16(2 * n, true);
    const [power, rest] = [(code >> 10) & 31, code & 1023];
    found[n] = power === 31 ? NaN : power ? (1 + rest / 1024) * 2 ** (power - 15) : rest * 2 ** -24;
  }
  return found;
}

const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

function ramp(stops) {
  const colours = stops.map(rgb);
  return Array.from({ length: 256 }, (_, n) => {
    const x = (n / 255) * (colours.length - 1);
    const low = Math.min(Math.floor(x), colours.length - 2);
    return colours[low].map((c, k) => Math.round(c + (x - low) * (colours[low + 1][k] - c)));
  });
}

const RAMP = { light: ramp(WEIGHT.light), dark: ramp(WEIGHT.dark) };

// The colour is the root of the weight, up to the weight `top`.
const colourOf = (w, top, theme) => (Number.isNaN(w) ? NO_NUMBER : RAMP[theme][Math.round(255 * Math.sqrt(Math.min(1, w / top)))]);

// Black or white, whichever is easier to read on a colour.
function inkOn(colour) {
  const [r, g, b] = colour.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}

// The weight that only two of a hundred exceed, of all that are not zero.
function mostOf(weights) {
  const some = weights.filter((w) => w > 0).sort();
  return some.length ? Number(some[Math.floor(0.98 * (some.length - 1))].toPrecision(1)) : 1;
}

function number(w) {
  if (Number.isNaN(w)) return "not a number";
  return w === 0 ? "0" : w >= 0.01 ? w.toFixed(3) : w.toPrecision(2);
}

// A token with its invisible characters.
function visible(token) {
  if (token === "") return "∅";
  const shown = token.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, "�");
  return shown.trim() ? shown.trim() : "␣".repeat(shown.length);
}

// Dark if the notebook is: Jupyter and VS Code say so; elsewhere the first background that is painted.
export function theme(el) {
  const { body, documentElement: root } = document;
  const said = body.dataset.jpThemeLight ?? root.dataset.jpThemeLight;
  if (said !== undefined) return said === "false" ? "dark" : "light";
  const kind = body.dataset.vscodeThemeKind || body.className;
  if (/vscode-(high-contrast-)?light/.test(kind)) return "light";
  if (/vscode-(dark|high-contrast)/.test(kind)) return "dark";
  for (let at = el.parentElement; at; at = at.parentElement) {
    const [r, g, b, alpha = 1] = (getComputedStyle(at).backgroundColor.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
    if (alpha > 0.5) return 0.2126 * r + 0.7152 * g + 0.0722 * b < 128 ? "dark" : "light";
  }
  return "light";
}

function onTheme(el, changed) {
  const seen = new MutationObserver(changed);
  for (const watched of [document.body, document.documentElement]) seen.observe(watched, { attributes: true, attributeFilter: ["class", "data-jp-theme-light", "data-vscode-theme-kind"] });
  return () => seen.disconnect();
}

// Arrow keys as a step in rows and columns; null for other keys.
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
function stepOf(event) {
  const step = STEPS[event.key];
  if (!step) return null;
  event.preventDefault();
  event.stopPropagation(); // or the notebook goes to another cell
  return step;
}

const within = (x, most) => Math.max(0, Math.min(most, x));

// -- what is shown ----------------------------------------------------------------------------------------------------

// The values of the model, and one head's weights as rows.
class Maps {
  constructor(model) {
    for (const name of ["title", "answer", "notes", "layers", "heads", "tokens", "edges", "parts", "start"]) this[name] = model.get(name);
    this.weights = float16(model.get("weights"));
    this.n = this.tokens.length;
    this.words = this.tokens.map(visible);
    const long = this.edges[this.n] - this.edges[0] > LONG;
    this.top = long ? mostOf(this.weights) : 1;
    this.binned = this.edges[this.n] - this.edges[0] > this.n;
  }

  head(layer, head) {
    const at = this.layers.indexOf(layer) * this.heads.length + this.heads.indexOf(head);
    return this.weights.subarray(at * this.n ** 2, (at + 1) * this.n ** 2);
  }

  // The row that has a token; the last row if the token is not shown.
  rowOf(token) {
    const found = this.edges.findIndex((edge) => edge > token) - 1;
    return found >= 0 ? found : this.n - 1;
  }

  label(row) {
    return this.binned ? `${this.edges[row]}: ${this.words[row]}` : this.words[row];
  }

  // “people” (2), or for a bin: tokens 12–17, “people …”
  name(row) {
    const [first, last] = [this.edges[row], this.edges[row + 1] - 1];
    return last > first ? `tokens ${first}–${last}, “${this.words[row]} …”` : `“${this.words[row]}” (${first})`;
  }
}

function paint(canvas, weights, n, top, dark) {
  canvas.width = canvas.height = n;
  const context = canvas.getContext("2d");
  const image = context.createImageData(n, n);
  for (let k = 0; k < n * n; k++) image.data.set([...colourOf(weights[k], top, dark), 255], 4 * k);
  context.putImageData(image, 0, 0);
  return canvas;
}

// The small maps: a radio group in which arrow keys choose.
class Heads {
  constructor(choose) {
    this.choose = choose;
    this.element = h("div", { class: "heads", role: "radiogroup", "aria-label": "Head" });
  }

  show(maps, dark) {
    const { layers, heads } = maps;
    this.maps = maps;
    this.element.style.setProperty("--columns", heads.length);
    this.cards = layers.flatMap((layer, row) => heads.map((head, column) => {
      const canvas = paint(h("canvas", { "aria-hidden": "true" }), maps.head(layer, head), maps.n, maps.top, dark);
      const chosen = () => this.choose(layer, head);
      const name = h("span", null, `${layer}.${head}`);
      return h("button", { type: "button", role: "radio", title: `layer ${layer}, head ${head}`, "aria-label": `layer ${layer}, head ${head}`, onclick: chosen, onkeydown: (event) => this.key(event, row, column) }, canvas, name);
    }));
    this.element.replaceChildren(...this.cards);
  }

  key(event, row, column) {
    const step = stepOf(event);
    if (!step) return;
    const { layers, heads } = this.maps;
    const [to, at] = [within(row + step[0], layers.length - 1), within(column + step[1], heads.length - 1)];
    this.choose(layers[to], heads[at]);
    this.cards[to * heads.length + at].focus();
  }

  mark(layer, head) {
    const at = this.maps.layers.indexOf(layer) * this.maps.heads.length + this.maps.heads.indexOf(head);
    this.cards.forEach((card, n) => {
      card.setAttribute("aria-checked", n === at);
      card.tabIndex = n === at ? 0 : -1;
    });
  }
}

// One head with tokens on both axes. `pointed(row, column)` is called for the cell under the pointer or the arrow keys,
// and with nothing when the pointer leaves; `chosen(row)` for a click or Enter.
class Enlarged {
  constructor(pointed, chosen) {
    this.caption = h("figcaption");
    this.canvas = h("canvas", { class: "map", tabindex: 0, role: "application", "aria-roledescription": "attention map" });
    this.element = h("figure", null, this.caption, this.canvas);
    const cell = (event) => {
      const box = this.canvas.getBoundingClientRect();
      const [row, column] = [event.clientY - box.top - this.y, event.clientX - box.left - this.x].map((d) => Math.floor(d / this.cell));
      return Math.min(row, column) >= 0 && Math.max(row, column) < this.maps.n ? [row, column] : null;
    };
    this.canvas.addEventListener("pointermove", (event) => pointed(...(cell(event) || [])));
    this.canvas.addEventListener("pointerleave", () => pointed());
    this.canvas.addEventListener("click", (event) => cell(event) && chosen(cell(event)[0]));
    this.canvas.addEventListener("keydown", (event) => {
      const step = stepOf(event);
      const [row, column] = this.at;
      if (step) pointed(...[row + step[0], (column ?? row) + step[1]].map((x) => within(x, this.maps.n - 1)));
      else if (event.key === "Enter") chosen(row);
    });
  }

  show(maps, weights, name, dark) {
    Object.assign(this, { maps, cells: paint(h("canvas"), weights, maps.n, maps.top, dark) });
    this.caption.textContent = name;
    this.canvas.setAttribute("aria-label", `${name}. Rows are queries, columns are keys. Arrow keys move, Enter keeps the query.`);
  }

  // Draw the map with the row of the query and, if given, one cell marked.
  draw(row, column) {
    this.at = [row, column];
    const { maps, canvas } = this;
    const { n } = maps;
    const style = getComputedStyle(this.element);
    const [ink, quiet, mark] = ["--ink", "--quiet", "--focus"].map((name) => style.getPropertyValue(name));
    const width = Math.max(220, this.element.clientWidth || 360);
    const context = canvas.getContext("2d");
    const font = `${FONT}px system-ui, sans-serif`;
    context.font = font;
    const labels = maps.words.map((_, k) => maps.label(k));
    const most = Math.min(90, 10 + labels.reduce((wide, text) => Math.max(wide, context.measureText(text).width), 0));
    [this.x, this.y] = [most, most];
    this.cell = Math.min(32, (width - this.x - 2) / n);
    const side = this.cell * n;
    const dense = window.devicePixelRatio || 1;
    [canvas.width, canvas.height] = [this.x, this.y].map((edge) => Math.round((edge + side + 2) * dense));
    canvas.style.width = canvas.style.height = `${this.x + side + 2}px`;
    context.scale(dense, dense);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.cells, this.x, this.y, side, side);
    context.strokeStyle = quiet;
    context.strokeRect(this.x - 0.5, this.y - 0.5, side + 1, side + 1);
    context.textBaseline = "middle";
    const every = Math.ceil((FONT + 2) / this.cell);
    for (const [marked, across] of [[row, false], [column, true]]) {
      for (let k = 0; k < n; k++) {
        const near = marked !== undefined && k !== marked && Math.abs(k - marked) < every;
        if (k !== marked && (k % every || near)) continue; // the label of the marked one needs the room
        context.save();
        context.translate(across ? this.x + (k + 0.5) * this.cell : this.x - 4, across ? this.y - 4 : this.y + (k + 0.5) * this.cell);
        if (across) context.rotate(-Math.PI / 2);
        context.textAlign = across ? "left" : "right";
        context.font = k === marked ? `bold ${font}` : font;
        context.fillStyle = k === marked ? ink : quiet;
        context.fillText(this.short(context, labels[k], most - 8), 0, 0);
        context.restore();
      }
    }
    context.lineWidth = 2;
    context.strokeStyle = mark;
    context.strokeRect(this.x, this.y + row * this.cell, side, this.cell);
    if (column !== undefined) context.strokeRect(this.x + column * this.cell - 1, this.y + row * this.cell - 1, this.cell + 2, this.cell + 2);
  }

  short(context, text, room) {
    let shown = text;
    while (shown.length > 1 && context.measureText(shown).width > room) shown = `${shown.replace(/…$/, "").slice(0, -1)}…`;
    return shown;
  }
}

// The text: a button for each token, in the colour of its weight for the query, with the weight below it.
class Text {
  constructor(pointed, chosen) {
    Object.assign(this, { pointed, chosen });
    this.element = h("div", { class: "text", role: "group", "aria-label": "Text: point at a token to see where it looks" });
    this.element.addEventListener("pointerleave", () => pointed());
  }

  show(maps) {
    this.maps = maps;
    this.buttons = maps.words.map((word, k) => {
      const events = { onpointerenter: () => this.pointed(k), onfocus: () => this.pointed(k), onblur: () => this.pointed(), onclick: () => this.chosen(k), onkeydown: (event) => this.key(event, k) };
      return h("button", { type: "button", title: maps.name(k), ...events }, h("span", { dir: "auto" }, word), h("small"));
    });
    this.element.replaceChildren(...this.buttons);
  }

  key(event, k) {
    const step = stepOf(event);
    if (step) this.buttons[within(k + step[0] + step[1], this.maps.n - 1)].focus();
  }

  mark(row, weights, pinned, dark) {
    const { maps } = this;
    this.buttons.forEach((button, k) => {
      const w = weights[row * maps.n + k];
      const colour = colourOf(w, maps.top, dark);
      button.style.background = `rgb(${colour.join(" ")})`;
      button.style.color = inkOn(colour);
      button.tabIndex = k === row ? 0 : -1;
      button.classList.toggle("query", k === row);
      button.setAttribute("aria-pressed", k === pinned);
      button.setAttribute("aria-label", `${maps.name(k)}: ${number(w)}${k === row ? ", the query" : ""}`);
      button.lastChild.textContent = w === 0 ? "" : w < 0.005 ? "·" : w.toFixed(2).replace(/^0/, "");
    });
  }
}

// -- the widget -------------------------------------------------------------------------------------------------------

function scaleBar() {
  const [canvas, end] = [h("canvas", { "aria-hidden": "true" }), h("span")];
  const element = h("p", { class: "scale" }, h("span", null, "weight 0"), canvas, end);
  const show = (top, dark) => {
    [canvas.width, canvas.height] = [256, 1];
    const context = canvas.getContext("2d");
    RAMP[dark].forEach((colour, k) => {
      context.fillStyle = `rgb(${colour.join(" ")})`;
      context.fillRect(k, 0, 1, 1);
    });
    end.textContent = top === 1 ? "1" : `${top} or more`;
  };
  return { element, show };
}

function partChoice(model) {
  const select = h("select", { onchange: () => { model.set("start", Number(select.value)); model.save_changes(); } });
  const element = h("label", { class: "part" }, "Show ", select);
  const show = (maps) => {
    element.hidden = !maps.parts.length;
    const end = (k) => (k + 1 < maps.parts.length ? `to ${maps.parts[k + 1] - 1}` : "to the end");
    const values = [[-1, "the whole text, in bins"], ...maps.parts.map((first, k) => [first, `tokens ${first} ${end(k)}`])];
    if (maps.start >= 0 && !maps.parts.includes(maps.start)) values.push([maps.start, `tokens from ${maps.start}`]);
    select.replaceChildren(...values.map(([value, says]) => h("option", { value, selected: value === maps.start }, says)));
  };
  return { element, show };
}

// What a query looks at, in words.
function said(maps, weights, row, column) {
  const of = weights.subarray(row * maps.n, (row + 1) * maps.n);
  if (column !== undefined) return `${maps.name(row)} → ${maps.name(column)}: ${number(of[column])}`;
  const order = [...of.keys()].filter((k) => of[k] > 0).sort((a, b) => of[b] - of[a]).slice(0, SHOWN);
  const seen = order.map((k) => `${maps.name(k)} ${number(of[k])}`);
  const outside = 1 - of.reduce((sum, w) => sum + w, 0);
  const rest = maps.start >= 0 && outside > 0.005 ? `; ${outside.toFixed(2)} on tokens that are not shown` : "";
  return `${maps.name(row)} looks at ${seen.join(", ") || "nothing"}${rest}`;
}

function render({ model, el }) {
  let [maps, dark, pointed, waiting] = [null, "light", [], 0];
  const set = (values) => {
    for (const [name, value] of Object.entries(values)) model.set(name, value);
    model.save_changes();
  };
  const point = (...cell) => { pointed = cell; mark(); };
  const choose = (row) => { pointed = []; set({ query: maps.edges[row] }); mark(); };
  const heads = new Heads((layer, head) => set({ layer, head }));
  const [large, text] = [new Enlarged(point, choose), new Text(point, choose)];
  const [scale, part] = [scaleBar(), partChoice(model)];
  const [title, notes] = [h("p", { class: "title" }), h("p", { class: "quiet" })];
  const readout = h("p", { class: "readout", role: "status" });
  const left = h("div", { class: "left" }, heads.element, scale.element);
  const all = h("section", { class: "h2h-attention", "aria-label": "Attention maps" }, title, part.element, h("div", { class: "both" }, left, large.element), readout, text.element, notes);
  el.append(all);

  const chosen = () => maps.head(model.get("layer"), model.get("head"));

  function show() {
    maps = new Maps(model);
    pointed = [];
    dark = theme(el);
    all.dataset.theme = dark;
    title.replaceChildren(h("b", null, maps.title), ` ${maps.answer}`);
    notes.textContent = [...maps.notes, maps.binned ? "a cell is what the queries of a bin, on average, give to all keys of a bin" : ""].filter(Boolean).join(" · ");
    heads.show(maps, dark);
    scale.show(maps.top, dark);
    part.show(maps);
    text.show(maps);
    enlarge();
  }

  function enlarge() {
    const [layer, head] = [model.get("layer"), model.get("head")];
    heads.mark(layer, head);
    large.show(maps, chosen(), `layer ${layer}, head ${head}`, dark);
    mark();
  }

  function mark() {
    const pinned = maps.rowOf(model.get("query"));
    const [row = pinned, column] = pointed;
    large.at = [row, column]; // now: the next key may come before the next frame
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => {
      large.draw(row, column);
      text.mark(row, chosen(), pinned, dark);
      readout.textContent = said(maps, chosen(), row, column);
    });
  }

  show();
  const sized = new ResizeObserver(() => mark());
  sized.observe(all);
  const stop = onTheme(el, () => theme(el) !== dark && show());
  const events = { "change:weights": show, "change:layer": enlarge, "change:head": enlarge, "change:query": mark };
  for (const [name, hear] of Object.entries(events)) model.on(name, hear);
  return () => {
    for (const [name, hear] of Object.entries(events)) model.off(name, hear);
    cancelAnimationFrame(waiting);
    sized.disconnect();
    stop();
  };
}

export default { render };
