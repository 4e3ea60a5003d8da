// The verdict board: a row for each question. Only rows near the window are drawn.

import { address } from "./app.js";
import { ask, isSaved, on } from "./api.js";
import { axis, intervalChart, marginText, pairsText, spanOf, verdictMark } from "./charts.js";
import { busy, button, h, replace } from "./dom.js";

const NARROW = 700; // pixels of a window in which figures are below the interval
const HEAD = () => (innerWidth <= NARROW ? 122 : 88); // pixels of a row without its arms
const ERROR = () => (innerWidth <= NARROW ? 150 : 104); // pixels of a row that cannot be read; a longer text is cut
const ARM = () => (innerWidth <= NARROW ? 100 : 40); // pixels of an arm
const MOST_ARMS = 8; // of a row; the study's page has the others
const BEYOND = 600; // pixels above and below the window that are drawn too

const SORTS = {
  changed: ["newest first", (a, b) => b.changed - a.changed],
  name: ["by name", (a, b) => a.name.localeCompare(b.name)],
  open: ["undecided first", (a, b) => open(b) - open(a) || b.changed - a.changed],
  effect: ["largest effect first", (a, b) => effect(b) - effect(a)],
};
const WORDS = ["better", "worse", "equivalent", "unresolved"];

const open = (row) => (row.arms || []).filter((arm) => arm.verdict === "unresolved").length;
const effect = (row) => Math.max(0, ...(row.arms || []).map((arm) => Math.abs(arm.difference / (row.control_mean || 1)) || 0));

export async function show(main, at) {
  const rows = new Map(); // by study
  let progress = {};
  let order = []; // names, in the order that is shown; it changes only when the user asks
  let waiting = 0; // changes that may belong elsewhere in the order
  let selected = at.query.get("select") || "";
  const state = { q: at.query.get("q") || "", sort: at.query.get("sort") || "changed", word: at.query.get("word") || "" };

  const search = h("input", { type: "search", placeholder: "Search questions, arms, corpora", "aria-label": "Search", value: state.q, oninput: () => changed({ q: search.value }) });
  const sort = h("select", { "aria-label": "Order", onchange: () => changed({ sort: sort.value }) },
    Object.entries(SORTS).map(([key, [text]]) => h("option", { value: key, selected: key === state.sort }, text)));
  const word = h("select", { "aria-label": "Verdict", onchange: () => changed({ word: word.value }) },
    h("option", { value: "" }, "every verdict"), WORDS.map((w) => h("option", { value: w, selected: w === state.word }, w)));
  const count = h("span", { class: "quiet", role: "status" });
  const again = button("", () => { reorder(); }, { class: "again", hidden: true });
  const list = h("div", { class: "board", role: "grid", "aria-label": "Studies", tabindex: 0, onkeydown: keys });
  replace(main, h("h1", null, "Verdicts"), h("div", { class: "controls" }, search, word, sort, count, again), list);

  const drawn = new Map(); // name → element
  let places = []; // { name, top, height }

  function changed(more) {
    Object.assign(state, more);
    reorder();
  }

  function note() {
    at.remember("board", "", { q: state.q, sort: state.sort === "changed" ? "" : state.sort, word: state.word, select: selected });
  }

  function matches(row) {
    if (state.word && !(row.arms || []).some((arm) => arm.verdict === state.word)) return false;
    const text = [row.name, row.question, row.corpus, row.metric, row.control, ...(row.arms || []).map((arm) => arm.arm)].join(" ").toLowerCase();
    return state.q.toLowerCase().split(/\s+/).every((part) => text.includes(part));
  }

  function reorder() {
    waiting = 0;
    again.hidden = true;
    order = [...rows.values()].filter(matches).sort((SORTS[state.sort] || SORTS.changed)[1]).map((row) => row.name);
    place();
    note();
  }

  // Where every row is. Rows have different heights, so they are placed one by one.
  function place() {
    let top = 0;
    places = order.filter((name) => rows.has(name)).map((name) => {
      const height = heightOf(rows.get(name));
      const at = { name, top, height };
      top += height;
      return at;
    });
    list.style.setProperty("height", `${Math.max(top, 1)}px`);
    const all = rows.size;
    count.textContent = places.length === all ? `${all} ${all === 1 ? "study" : "studies"}` : `${places.length} of ${all} studies`;
    if (!all) empty();
    draw(true);
  }

  const heightOf = (row) => row.error ? ERROR() : HEAD() + ARM() * Math.min((row.arms || []).length, MOST_ARMS) + ((row.arms || []).length ? 28 : 10);

  function empty() {
    list.style.setProperty("height", "auto");
    replace(list, h("p", { class: "empty" }, "There are no studies yet. Ask a question under Compose, or run ", h("code", null, "h2h demo"), " in a terminal: it appears here while it trains."));
  }

  function draw(all) {
    list.setAttribute("role", places.length ? "grid" : "group");
    if (!places.length) {
      if (rows.size) replace(list, h("p", { class: "empty" }, `No study matches. ${state.word ? (state.q ? "Clear the search and choose every verdict" : "Choose every verdict") : "Clear the search"} to see all.`));
      drawn.clear();
      return;
    }
    const from = -list.getBoundingClientRect().top - BEYOND;
    const to = from + innerHeight + 2 * BEYOND;
    const wanted = new Set();
    let low = 0;
    let high = places.length;
    while (low < high) { // the first row that ends below `from`
      const middle = (low + high) >> 1;
      if (places[middle].top + places[middle].height < from) low = middle + 1;
      else high = middle;
    }
    for (let n = low; n < places.length && places[n].top < to; n++) {
      const { name, top } = places[n];
      wanted.add(name);
      if (all || !drawn.has(name)) {
        const made = rowOf(rows.get(name));
        if (drawn.has(name)) drawn.get(name).replaceWith(made);
        else list.append(made);
        drawn.set(name, made);
      }
      drawn.get(name).style.setProperty("transform", `translateY(${top}px)`);
    }
    for (const [name, element] of drawn) {
      if (!wanted.has(name)) {
        element.remove();
        drawn.delete(name);
      }
    }
    for (const child of [...list.children]) if (child.tagName === "P") child.remove();
  }

  function rowOf(row) {
    const link = address("study", row.name);
    const title = isSaved ? h("span", { class: "question" }, row.question || row.name) : h("a", { class: "question", href: link, tabindex: -1 }, row.question || row.name); // a saved board has no other page
    const props = { class: "row", role: "row", id: `row-${row.name}`, "aria-selected": String(row.name === selected), onclick: () => select(row.name) };
    if (row.error) return h("div", props, h("div", { role: "gridcell" }, title, h("p", { class: "alarm", title: row.error }, row.error)));
    const width = Math.max(180, Math.min(460, list.clientWidth - (innerWidth <= NARROW ? 26 : 640)));
    const span = spanOf(row.arms, row.floors);
    const arms = row.arms.slice(0, MOST_ARMS).map((arm) =>
      h("div", { class: "arm" },
        h("span", { class: "name", title: arm.arm }, arm.arm),
        intervalChart(arm, span, { width, floors: row.floors, unit: row.unit, scaleBy: row.scale, better: row.better }),
        arm.pairs ? h("span", { class: `word ${arm.verdict}` }, verdictMark(arm.verdict), arm.word) : h("span", { class: "word" }),
        h("span", { class: "figures", title: arm.interval_text }, !arm.pairs ? "" : `${arm.difference_text}${arm.pairs ? ` (${arm.interval_text})` : ""}`),
        h("span", { class: "quiet pairs" }, pairsText(arm))));
    const more = row.arms.length - MOST_ARMS;
    const live = progress[row.name];
    return h("div", props, h("div", { role: "gridcell" },
      h("div", { class: "head" }, title, live ? h("span", { class: "live" }, liveText(live)) : null),
      h("p", { class: "quiet scope" }, `${row.name} · ${row.metric}, ${row.better} is better · control ${row.control} · ${row.scope}`),
      arms,
      row.arms.length ? h("div", { class: "arm" }, h("span", { class: "name quiet" }, more > 0 ? `and ${more} more arms` : ""), row.arms.some((arm) => arm.pairs) ? axis(span, width, row.scale, row.unit) : null, h("span", { class: "quiet margin-text" }, marginText(row, span))) : null));
  }

  function liveText(live) {
    if (live.stage === "audit") return "checking the models …";
    const left = Math.max(0, ...Object.values(live.running || {}).map((run) => run.seconds_left || 0));
    return `training: ${live.done} of ${live.runs} runs${left ? `, this run ${Math.ceil(left)} s` : ""}`;
  }

  function select(name, scroll) {
    const before = drawn.get(selected);
    if (before) before.setAttribute("aria-selected", "false");
    selected = name;
    const now = drawn.get(name);
    if (now) now.setAttribute("aria-selected", "true");
    list.setAttribute("aria-activedescendant", `row-${name}`);
    if (scroll) {
      const at = places.find((p) => p.name === name);
      const top = list.getBoundingClientRect().top + at.top;
      if (top < 70 || top + at.height > innerHeight) scrollBy(0, top - 90);
    }
    note();
  }

  function keys(event) {
    const n = places.findIndex((p) => p.name === selected);
    const to = { ArrowDown: n + 1, ArrowUp: n - 1, Home: 0, End: places.length - 1, PageDown: n + 5, PageUp: n - 5 }[event.key];
    if (event.key === "Enter" && n >= 0 && !isSaved) location.hash = address("study", selected);
    if (to === undefined || !places.length) return;
    event.preventDefault();
    select(places[Math.min(Math.max(to, 0), places.length - 1)].name, true);
    draw(false);
  }

  // A row that changes is drawn again in its place. The order stays until the user asks for a new one.
  function update({ name, row }) {
    told.add(name);
    const known = rows.has(name);
    if (row === null) {
      rows.delete(name);
      order = order.filter((one) => one !== name);
    }
    else rows.set(name, row);
    if (row !== null && known) {
      const at = places.find((p) => p.name === name);
      if (at && at.height === heightOf(row)) {
        if (drawn.has(name)) {
          const made = rowOf(row);
          made.style.setProperty("transform", `translateY(${at.top}px)`);
          drawn.get(name).replaceWith(made);
          drawn.set(name, made);
        }
      } else place();
    } else if (row !== null && matches(row)) {
      order.push(name);
      place();
    } else place();
    waiting += 1;
    if (order.length > 1 && ready) {
      again.hidden = false;
      again.textContent = `${waiting} changed: sort again`;
    }
  }

  let ready = false;
  let told = new Set(); // studies that events have told of since the board was asked for
  const stops = [
    on("study", update),
    on("ready", () => { ready = true; reorder(); }),
    on("progress", (now) => {
      const names = new Set([...Object.keys(now), ...Object.keys(progress)]);
      progress = now;
      for (const name of names) if (drawn.has(name) && rows.has(name)) {
        const made = rowOf(rows.get(name));
        made.style.setProperty("transform", drawn.get(name).style.getPropertyValue("transform"));
        drawn.get(name).replaceWith(made);
        drawn.set(name, made);
      }
    }),
  ];
  const scroll = () => requestAnimationFrame(() => draw(false));
  const resize = () => place();
  addEventListener("scroll", scroll, { passive: true });
  addEventListener("resize", resize);
  at.onLeave(() => {
    stops.forEach((stop) => stop());
    removeEventListener("scroll", scroll);
    removeEventListener("resize", resize);
  });
  async function read() {
    told = new Set();
    const found = await busy(main, "Reading the store …", () => ask("api/board"));
    const there = new Set(found.rows.map((row) => row.name));
    for (const name of [...rows.keys()]) if (!there.has(name) && !told.has(name)) rows.delete(name);
    for (const row of found.rows) if (!told.has(row.name)) rows.set(row.name, row); // an event is newer than the answer
    ready = found.ready;
    reorder();
  }
  stops.push(on("again", () => read().catch(() => null))); // the frame says that the server does not answer
  await read();
}
