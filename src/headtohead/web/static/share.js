// Save what is shown: a figure as PNG, SVG or CSV, the page as one HTML file. Names of files say what is inside.

import { answers, ask } from "./api.js";
import { button, h, toast } from "./dom.js";
import { imageData, picture, pngOf, svgText } from "./picture.js";

const LIVE = ["board", "study", "ledger", "puzzles"]; // pages whose scripts work on without a server

function fileName(...parts) {
  const clean = parts.filter(Boolean).map((part) => part.normalize("NFKD").replace(/[^\w.-]+/g, "-").replace(/^[-.]+|[-.]+$/g, ""));
  return clean.filter(Boolean).join("-").slice(0, 120) || "headtohead";
}

function download(content, type, name) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
  toast(`Saved as ${name}`);
}

// -- figures -------------------------------------------------------------------------------------------------------------

export function csv({ columns, rows }) {
  const cell = (value) => {
    const text = value === null || value === undefined || Number.isNaN(value) ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

function bar(figure, here) {
  const name = figure.dataset.figure;
  const save = (kind, work) => button(kind, async () => {
    try {
      const at = here();
      await work(fileName(at.name || at.page, name));
    } catch (error) {
      toast(error.message, "error");
    }
  }, { "aria-label": `Save figure ${name} as ${kind}` });
  return h("div", { class: "save-figure", role: "group", "aria-label": `Save figure ${name}`, "data-unsaved": true }, h("span", { "aria-hidden": "true" }, "save"),
    save("PNG", async (file) => download(await pngOf(picture(figure, name)), "image/png", `${file}.png`)),
    save("SVG", (file) => download(svgText(picture(figure, name)), "image/svg+xml", `${file}.svg`)),
    save("CSV", (file) => {
      if (!figure.figureData || !figure.figureData.rows.length) throw new Error("This figure has no numbers yet.");
      download(csv(figure.figureData), "text/csv", `${file}.csv`);
    }));
}

// Give every figure its buttons, now and whenever the page draws one.
export function figureButtons(main, here) {
  const bars = new Map(); // figure → its buttons
  let asked = false;
  function refresh() {
    asked = false;
    for (const [figure, made] of bars) {
      if (figure.isConnected) continue;
      made.remove();
      bars.delete(figure);
    }
    for (const figure of main.querySelectorAll("[data-figure]")) {
      const made = bars.get(figure) || bar(figure, here);
      bars.set(figure, made);
      const inside = figure.tagName === "FIGURE" || /flex|grid/.test(getComputedStyle(figure.parentElement).display);
      if (inside && made.parentElement !== figure) figure.append(made);
      else if (!inside && made.previousElementSibling !== figure) figure.after(made);
      made.hidden = figure.hidden || !(figure.childElementCount > (inside ? 1 : 0));
    }
  }
  new MutationObserver(() => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(refresh);
  }).observe(main, { childList: true, subtree: true, attributes: true, attributeFilter: ["hidden", "data-figure"] });
}

// -- pages ---------------------------------------------------------------------------------------------------------------

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

export async function savePage(at) {
  const templates = await ask("api/share");
  const live = LIVE.includes(at.page);
  const [before, after] = templates[live ? "live" : "still"];
  const when = new Date().toISOString().slice(0, 16).replace("T", " ");
  const theme = document.documentElement.dataset.theme;
  const head = before.replace("<title>headtohead</title>", () => `<title>${escaped(document.title)}</title>`).replace("<html ", `<html data-theme="${theme}" ${live ? "" : "data-still "}`);
  const content = live ? await data(at, when) : markup(when);
  download([head, content, after].join(""), "text/html", `${fileName(at.page, at.name, when.slice(0, 10))}.html`);
}

// Everything that the page was answered. A study also gets the curves of its other figures.
async function data(at, when) {
  if (at.page === "study") {
    const study = await ask("api/study", { name: at.name });
    for (const metric of study.curves) await ask("api/curves", { name: at.name, metric });
  }
  const held = Object.entries(answers()).filter(([name]) => name !== "api/share" && name !== "api/about");
  const saved = { when, hash: location.hash, theme: document.documentElement.dataset.theme, answers: Object.fromEntries(held) };
  return JSON.stringify(saved).replaceAll("<", "\\u003c").replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");
}

// The page as it is shown, without its scripts.
function markup(when) {
  const copy = document.body.cloneNode(true);
  const originals = [...document.body.querySelectorAll("*")];
  for (const [n, element] of [...copy.querySelectorAll("*")].entries()) {
    const original = originals[n];
    if (original instanceof HTMLCanvasElement || original instanceof HTMLImageElement) {
      const text = original.getAttribute("aria-label") || original.getAttribute("alt") || "";
      const image = h("img", { src: original.width ? imageData(original) : null, alt: text, width: original.clientWidth || null, height: original.clientHeight || null, class: original.getAttribute("class") });
      image.style.cssText = original.style.cssText;
      element.replaceWith(image);
    } else if (original instanceof HTMLInputElement) {
      if (original.type !== "file") element.setAttribute("value", original.value);
      element.toggleAttribute("checked", original.checked);
    } else if (original instanceof HTMLOptionElement) element.toggleAttribute("selected", original.selected);
    else if (original instanceof HTMLTextAreaElement) element.textContent = original.value;
    if (element.matches("button, input, select, textarea")) element.setAttribute("disabled", "");
    if (element.matches("a") && element.getAttribute("href")?.startsWith("#/")) element.removeAttribute("href");
  }
  for (const element of copy.querySelectorAll("script, noscript, [data-unsaved], #nav, #theme, #toasts, .busy")) element.remove();
  copy.querySelector("#connection").textContent = `saved ${when} UTC`;
  return copy.innerHTML;
}

export function saveButton(here) {
  const made = button("Save page", async () => {
    made.disabled = true;
    try {
      await savePage(here());
    } catch (error) {
      toast(error.message, "error");
    } finally {
      made.disabled = false;
      made.focus();
    }
  }, { id: "save", "data-unsaved": true, title: "Save this page as one HTML file that opens anywhere", "aria-label": "Save page as one HTML file" });
  return made;
}
