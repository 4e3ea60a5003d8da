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
let leave = null; // what the shown page wants to do before another is shown
let turn = 0;

// An address is #/page/name?key=value: everything that a page shows is in it.
export function here() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [page, ...rest] = path.split("/");
  return { page: page || "board", name: decodeURIComponent(rest.join("/")), query: new URLSearchParams(query || "") };
}

export function address(page, name, query) {
  const text = new URLSearchParams(Object.entries(query || {}).filter(([, v]) => v !== "" && v !== null && v !== undefined));
  return `#/${page}${name ? `/${encodeURIComponent(name)}` : ""}${String(text) ? `?${text}` : ""}`;
}

// Change the address without showing the page again.
export function remember(page, name, query) {
  history.replaceState(null, "", address(page, name, query));
}

async function show() {
  const at = here();
  const page = PAGES.find((p) => p.path === at.page) || PAGES[0];
  const mine = ++turn;
  if (leave) leave();
  leave = null;
  forget(); // a saved page holds the answers of this page alone
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.dataset.page === page.path) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  replace(main);
  if (!isSaved) document.title = at.name ? `${at.name} · headtohead` : `${page.title} · headtohead`;
  try {
    const module = await busy(main, "Loading …", page.load);
    if (mine !== turn) return;
    leave = await module.show(main, at);
  } catch (error) {
    if (mine === turn) replace(main, errorBox(error));
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

function nav() {
  const place = document.getElementById("nav");
  if (isSaved) return; // the other pages are not in the file
  for (const page of PAGES.filter((p) => !p.hidden)) place.append(h("a", { href: `#/${page.path}`, "data-page": page.path }, page.title));
}

theme();
nav();
const connection = document.getElementById("connection");
if (isSaved) {
  connection.textContent = `saved ${saved.when} UTC`;
  document.documentElement.dataset.saved = "";
  if (!location.hash) history.replaceState(null, "", saved.hash || "#/board");
} else document.getElementById("theme").before(saveButton(here));
on("connected", (yes) => {
  connection.textContent = yes ? "" : "connecting again …";
  connection.className = yes ? "" : "lost";
});
figureButtons(main, here);
connect();
addEventListener("hashchange", show);
show();
