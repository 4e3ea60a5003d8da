// The frame of the workbench: pages by their address, theme, connection.

import { connect, forget, isSaved, on, saved } from "./api.js";
import { busy, errorBox, h, replace } from "./dom.js";
import { figureButtons, saveButton } from "./share.js";

const PAGES = [
  { path: "board", title: "Verdicts", load: () => import("./board.js") },
  { path: "study", title: "Study", hidden: true, load: () => import("./study.js") },
  { path: "compose", title: "Compose", load: () => import("./compose.js") },
  { path: "inside", title: "Inside", load: () => import("./inside.js") },
  { path: "audit", title: "Audit", load: () => import("./audit.js") },
  { path: "puzzles", title: "Puzzles", load: () => import("./puzzles.js") },
  { path: "ledger", title: "Ledger", load: () => import("./ledger.js") },
];

const main = document.getElementById("main");
let shown = null; // the visit of the page that is shown
let shownBefore = false;
let failed = false; // the page could not be shown: it is shown again when the server answers

// An address is #/page/name?key=value: everything that a page shows is in it.
export function here() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [page, ...rest] = path.split("/");
  return { page: page || "board", name: decoded(rest.join("/")), query: new URLSearchParams(query || "") };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // not written by this page
  }
}

export function address(page, name, query) {
  const text = new URLSearchParams(Object.entries(query || {}).filter(([, v]) => v !== "" && v !== null && v !== undefined));
  return `#/${page}${name ? `/${encodeURIComponent(name)}` : ""}${String(text) ? `?${text}` : ""}`;
}

// One visit of a page, which may be left while the page still waits for an answer: from then on it changes nothing.
function visit() {
  const ends = [];
  const made = {
    ...here(),
    isOver: false,
    onLeave: (end) => { // called at once if the page has been left already
      if (made.isOver) end();
      else ends.push(end);
    },
    remember: (page, name, query) => { // change the address without showing the page again
      if (!made.isOver) history.replaceState(null, "", address(page, name, query));
    },
    leave: () => {
      made.isOver = true;
      for (const end of ends.splice(0)) end();
    },
  };
  return made;
}

async function show() {
  const at = visit();
  const known = PAGES.find((p) => p.path === at.page);
  const page = known || PAGES[0];
  if (shown) shown.leave();
  shown = at;
  forget(); // a saved page holds the answers of this page alone
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.dataset.page === page.path) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const stage = h("div"); // of this visit alone
  replace(main, known ? null : h("p", { class: "note", role: "status" }, `There is no page '${at.page}': ${page.title} is shown.`), stage);
  failed = false;
  const byKeyboard = document.activeElement === document.body || !document.contains(document.activeElement);
  if (!isSaved) document.title = at.name ? `${at.name} · headtohead` : `${page.title} · headtohead`;
  try {
    const module = await busy(stage, "Loading …", page.load);
    if (at.isOver) return;
    const end = await module.show(stage, at);
    if (end) at.onLeave(end);
    if (at.isOver) return;
    const title = stage.querySelector("h1");
    if (byKeyboard && title && shownBefore) {
      title.tabIndex = -1; // a screen reader says where it is now
      title.focus({ preventScroll: true });
    }
    shownBefore = true;
  } catch (error) {
    if (at.isOver) return;
    at.leave();
    failed = true;
    const unreachable = error instanceof TypeError && /import/.test(error.message);
    replace(stage, errorBox(unreachable ? new Error("The server does not answer: this page is shown when it does.") : error));
  }
}

function theme() {
  const toggle = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const kept = () => { try { return localStorage.getItem("h2h-theme"); } catch { return null; } };
  const apply = () => {
    const known = kept() || (isSaved && saved.theme);
    const dark = known ? known === "dark" : system.matches;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    toggle.textContent = dark ? "☀" : "☾";
  };
  toggle.addEventListener("click", () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("h2h-theme", next); } catch { /* kept for this page only */ }
    document.documentElement.dataset.theme = next;
    toggle.textContent = next === "dark" ? "☀" : "☾";
  });
  system.addEventListener("change", apply);
  apply();
}

// A link to the address that is there already changes no hash: show its page all the same.
function again(event) {
  if (event.currentTarget.getAttribute("href") === location.hash) show();
}

function nav() {
  const place = document.getElementById("nav");
  if (isSaved) return; // the other pages are not in the file
  for (const page of PAGES.filter((p) => !p.hidden)) place.append(h("a", { href: `#/${page.path}`, "data-page": page.path, onclick: again }, page.title));
}

theme();
nav();
const connection = document.getElementById("connection");
if (isSaved) {
  document.querySelector(".brand").removeAttribute("href"); // the file has one page
  connection.textContent = `saved ${saved.when} UTC`;
  document.documentElement.dataset.saved = "";
  if (!location.hash) history.replaceState(null, "", saved.hash || "#/board");
} else document.getElementById("theme").before(saveButton(here));
on("connected", (yes) => {
  connection.textContent = yes ? "" : "connecting again …";
  connection.className = yes ? "" : "lost";
  if (yes && failed) show();
});
figureButtons(main, here);
connect();
addEventListener("hashchange", show);
show();
