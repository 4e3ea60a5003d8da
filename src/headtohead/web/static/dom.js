// Elements from values. Text is always text: nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, props, children) {
  for (const [key, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.setAttribute("class", value);
    else if (key === "style") for (const [name, v] of Object.entries(value)) element.style.setProperty(name, v);
    else if (key === "value") element.value = value;
    else if (key === "checked" || key === "selected" || key === "disabled" || key === "hidden") element[key] = Boolean(value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  add(element, children);
  return element;
}

export function add(element, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);
export const s = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);

export function replace(element, ...children) {
  element.replaceChildren();
  return add(element, children);
}

export function button(label, onclick, props) {
  return h("button", { type: "button", onclick, ...props }, label);
}

// A table with a head; cells are texts or elements. The first column is the row's heading.
export function table(head, rows, props) {
  return h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": (props && props.label) || "Table" },
    h("table", { class: props && props.class },
      h("thead", null, h("tr", null, head.map((cell) => h("th", { scope: "col" }, cell)))),
      h("tbody", null, rows.map((row) =>
        h("tr", { class: row.class }, (row.cells || row).map((cell, n) =>
          n === 0 ? h("th", { scope: "row" }, cell) : h("td", null, cell)))))));
}

export function toast(text, kind) {
  const place = document.getElementById("toasts");
  const shown = h("p", { class: `toast ${kind || ""}` }, text);
  place.append(shown);
  setTimeout(() => shown.remove(), kind === "error" ? 9000 : 4000);
}

// Wait for something that may take longer than half a second, and say so.
export async function busy(place, text, work) {
  const note = h("p", { class: "busy", role: "status" }, h("span", { class: "spinner", "aria-hidden": "true" }), text);
  const timer = setTimeout(() => place.append(note), 300);
  try {
    return await work();
  } finally {
    clearTimeout(timer);
    note.remove();
  }
}

export function errorBox(error) {
  return h("p", { class: "alarm", role: "alert" }, error.message || String(error));
}
