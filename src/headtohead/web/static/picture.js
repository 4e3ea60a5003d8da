// A part of the page as one SVG picture: its text, boxes, drawings and canvases at the places where they are shown.
// Styles become attributes, so that the picture looks the same in other programs.

import { s } from "./dom.js";

const DRAWN = ["stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity", "font-size", "font-weight", "font-family", "text-anchor", "dominant-baseline"];
const pixel = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const known = new Map(); // colours as CSS says them → [#rrggbb, opacity]

function colour(text) {
  if (!known.has(text)) {
    pixel.clearRect(0, 0, 1, 1);
    pixel.fillStyle = text;
    pixel.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pixel.getImageData(0, 0, 1, 1).data;
    known.set(text, [`#${[r, g, b].map((x) => x.toString(16).padStart(2, "0")).join("")}`, Number((a / 255).toFixed(3))]);
  }
  return known.get(text);
}

const LINE = 18; // pixels of a line of the title and of the caption

// `element.figureText` has the title above the picture and the caption below it: a saved picture has no page around it.
export function picture(element, title) {
  const box = element.getBoundingClientRect();
  const width = Math.ceil(Math.max(box.width, element.scrollWidth)) + 16;
  const { title: above = "", caption = "" } = element.figureText || {};
  const [head, foot] = [wrapped(above, width / 8.5), wrapped(caption, width / 7)];
  const inner = Math.ceil(Math.max(box.height, element.scrollHeight)) + 16;
  const top = head.length ? head.length * LINE + 8 : 0;
  const height = top + inner + (foot.length ? foot.length * LINE + 6 : 0);
  const made = s("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}` }, s("title", null, above || title));
  made.append(s("rect", { width, height, fill: colour(getComputedStyle(document.body).backgroundColor)[0] }));
  const letter = letters(getComputedStyle(document.body));
  head.forEach((line, n) => made.append(s("text", { ...letter, x: 8, y: 20 + n * LINE, "font-size": "15px", "font-weight": 600 }, line)));
  foot.forEach((line, n) => made.append(s("text", { ...letter, x: 8, y: top + inner + 10 + n * LINE, "font-size": "13px" }, line)));
  walk(element, made, box.left - 8, box.top - 8 - top);
  return made;
}

function wrapped(text, most) {
  const found = [];
  for (const word of text.split(/\s+/).filter(Boolean)) {
    if (found.length && found.at(-1).length + word.length < most) found[found.length - 1] += ` ${word}`;
    else found.push(word);
  }
  return found;
}

function walk(node, made, left, top) {
  if (node.nodeType === Node.TEXT_NODE) {
    made.append(...lines(node, left, top));
    return;
  }
  if (node.nodeType !== Node.ELEMENT_NODE || node.hasAttribute("data-unsaved")) return;
  const style = getComputedStyle(node);
  const box = node.getBoundingClientRect();
  if (style.display === "none" || style.visibility === "hidden" || (style.clipPath !== "none" && box.width <= 1)) return;
  const at = { x: box.left - left, y: box.top - top, width: box.width, height: box.height };
  if (node.namespaceURI === made.namespaceURI) {
    made.append(drawing(node, at));
    return;
  }
  if (style.display !== "contents") made.append(...frame(style, at));
  if (node instanceof HTMLCanvasElement || node instanceof HTMLImageElement) {
    if (node.width) made.append(s("image", { ...at, href: imageData(node), preserveAspectRatio: "none", "image-rendering": style.imageRendering }));
  } else if (node instanceof HTMLProgressElement) {
    made.append(s("rect", { ...at, fill: "#8888", rx: 3 }), s("rect", { ...at, width: at.width * Math.max(0, node.position), fill: colour(style.accentColor)[0], rx: 3 }));
  } else if (node instanceof HTMLInputElement || node instanceof HTMLSelectElement || node instanceof HTMLTextAreaElement) {
    const text = node.type === "checkbox" || node.type === "radio" ? (node.checked ? "✓" : "") : node.value;
    made.append(s("text", { ...letters(style), x: at.x + 8, y: at.y + at.height / 2 + 5 }, text));
  } else for (const child of node.childNodes) walk(child, made, left, top);
}

export function imageData(node) {
  if (node instanceof HTMLCanvasElement) return node.toDataURL();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [node.naturalWidth, node.naturalHeight];
  canvas.getContext("2d").drawImage(node, 0, 0);
  return canvas.toDataURL();
}

function frame(style, at) {
  const made = [];
  const [fill, opacity] = colour(style.backgroundColor);
  if (opacity && at.width && at.height) made.push(s("rect", { ...at, fill, "fill-opacity": opacity, rx: parseFloat(style.borderTopLeftRadius) || 0 }));
  for (const [side, x1, y1, x2, y2] of [["Top", 0, 0, 1, 0], ["Right", 1, 0, 1, 1], ["Bottom", 0, 1, 1, 1], ["Left", 0, 0, 0, 1]]) {
    const width = parseFloat(style[`border${side}Width`]);
    const [stroke, seen] = colour(style[`border${side}Color`]);
    if (!width || !seen || style[`border${side}Style`] === "none") continue;
    made.push(s("line", { x1: at.x + x1 * at.width, y1: at.y + y1 * at.height, x2: at.x + x2 * at.width, y2: at.y + y2 * at.height, stroke, "stroke-width": width, "stroke-opacity": seen }));
  }
  return made;
}

const letters = (style) => ({ "font-family": style.fontFamily.replaceAll('"', "'"), "font-size": style.fontSize, "font-weight": style.fontWeight, fill: colour(style.color)[0] });

// The text of a node, line by line as the browser broke it.
function lines(node, left, top) {
  if (!node.data.trim() || !node.parentElement) return [];
  const style = getComputedStyle(node.parentElement);
  const range = document.createRange();
  const found = [];
  for (const { index, 0: word } of node.data.matchAll(/\S+|\s+/gu)) {
    range.setStart(node, index);
    range.setEnd(node, index + word.length);
    const rect = range.getClientRects()[0];
    if (!rect || !rect.width) continue;
    const last = found.at(-1);
    if (last && Math.abs(last.rect.top - rect.top) < 3) last.text += /^\s+$/.test(word) ? " " : word;
    else if (word.trim()) found.push({ rect, text: word });
  }
  return found.filter((line) => line.text.trim()).map(({ rect, text }) => s("text", { ...letters(style), x: rect.left - left, y: rect.top - top + rect.height * 0.78, "xml:space": "preserve" }, text));
}

// A copy of a drawing with its computed styles as attributes.
function drawing(node, at) {
  const copy = node.cloneNode(true);
  const copies = [copy, ...copy.querySelectorAll("*")];
  for (const [n, original] of [node, ...node.querySelectorAll("*")].entries()) {
    const style = getComputedStyle(original);
    const target = copies[n];
    target.removeAttribute("class");
    target.removeAttribute("style");
    for (const name of DRAWN) {
      const value = style.getPropertyValue(name);
      if (value && value !== "none" && value !== "auto") target.setAttribute(name, value.replaceAll('"', "'"));
    }
    for (const name of ["fill", "stroke"]) {
      const value = style.getPropertyValue(name);
      if (value === "none" || value.startsWith("url(")) {
        target.setAttribute(name, value);
        continue;
      }
      const [paint, opacity] = colour(value);
      target.setAttribute(name, paint);
      target.setAttribute(`${name}-opacity`, String(Number((opacity * parseFloat(style.getPropertyValue(`${name}-opacity`) || 1)).toFixed(3))));
    }
    if (style.display === "none" && original.tagName !== "title") target.setAttribute("display", "none");
  }
  for (const [name, value] of Object.entries(at)) copy.setAttribute(name, String(value));
  return copy;
}

// Letters that XML does not have become a sign for an unknown letter.
export function svgText(made) {
  return new XMLSerializer().serializeToString(made).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "�");
}

export async function pngOf(made) {
  const [width, height] = ["width", "height"].map((name) => Number(made.getAttribute(name)));
  const scale = Math.min(2, 8000 / Math.max(width, height));
  const image = new Image();
  const url = URL.createObjectURL(new Blob([svgText(made)], { type: "image/svg+xml" }));
  try {
    await new Promise((done, failed) => {
      image.onload = done;
      image.onerror = () => failed(new Error("The browser cannot draw this figure. Save it as SVG instead."));
      image.src = url;
    });
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done) => { canvas.toBlob(done, "image/png"); });
  } finally {
    URL.revokeObjectURL(url);
  }
}
