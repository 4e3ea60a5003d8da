// Puzzles about attention: change the answer and watch the weights. Answers are checked by the server.

import { address } from "./app.js";
import { ask, tell } from "./api.js";
import { add, busy, button, errorBox, h, replace } from "./dom.js";
import { keysPlay } from "./puzzle_keys.js";
import { measure } from "./puzzle_math.js";
import { settingsPlay } from "./puzzle_settings.js";

const PLACE = "h2h-puzzles"; // progress, in the browser
const SAME = 1e-3; // the page and the server may differ by this much

function progress() {
  try {
    return JSON.parse(localStorage.getItem(PLACE)) || {};
  } catch {
    return {};
  }
}

function keep(name, more) {
  const all = progress();
  all[name] = { ...all[name], ...more };
  try {
    localStorage.setItem(PLACE, JSON.stringify(all));
  } catch { /* the browser keeps nothing: progress lasts as long as the page */ }
}

const numbers = (text) => {
  const rows = text.split(";").map((row) => row.split(",").map(Number));
  return rows.flat().every(Number.isFinite) ? (rows.length > 1 ? rows : rows[0]) : null;
};
const written = (value) => [value].flat().map((row) => (Array.isArray(row) ? row.join(",") : row)).join(Array.isArray(value) && Array.isArray(value[0]) ? ";" : ",");

export async function show(outer, at) {
  const main = h("div", { class: "puzzles-page" });
  replace(outer, main);
  const { puzzles } = await busy(main, "Loading …", () => ask("api/puzzles"));
  if (at.isOver) return;
  const known = puzzles.find((p) => p.name === at.name) || puzzles[0];
  const list = h("nav", { class: "puzzlelist", "aria-label": "Puzzles" });
  const body = h("section", { class: "puzzle" });
  const count = h("p", { class: "quiet" });
  replace(main, h("h1", null, "Puzzles"), h("p", { class: "quiet lead" }, "What can a query, a key or a head do? Change the answer and watch where the attention goes. ", count),
    h("div", { class: "puzzles" }, list, body));
  drawList();

  function drawList() {
    const done = progress();
    const solved = puzzles.filter((p) => done[p.name] && done[p.name].solved).length;
    count.textContent = `${solved} of ${puzzles.length} solved in this browser.`;
    replace(list, h("ol", null, puzzles.map((p) => h("li", null,
      h("a", { href: address("puzzles", p.name), "aria-current": p.name === known.name ? "page" : null, class: done[p.name] && done[p.name].solved ? "solved" : "" },
        h("span", { class: "tick", "aria-hidden": "true" }, done[p.name] && done[p.name].solved ? "✓" : p.number), p.title, done[p.name] && done[p.name].solved ? h("span", { class: "hidden" }, " (solved)") : null)))));
    const here = list.querySelector("[aria-current]");
    if (here && list.scrollWidth > list.clientWidth) list.scrollLeft = here.parentElement.offsetLeft - 40;
  }

  let puzzle = null;
  let trouble = null; // why the question of the address is not shown
  try {
    puzzle = await busy(body, "Loading the puzzle …", () => ask("api/puzzles/one", { which: known.name }));
    const changes = given(puzzle);
    if (Object.keys(changes).length) puzzle = await changedPuzzle(changes);
  } catch (error) {
    if (!puzzle) {
      replace(body, errorBox(error));
      return;
    }
    trouble = errorBox(error);
  }
  if (at.isOver) return;

  // Inputs of the question that the address changes: keys, weights, back, theta, width, length.
  function given(original) {
    const found = {};
    for (const name of Object.keys(original.given)) {
      const value = at.query.has(`given-${name}`) ? numbers(at.query.get(`given-${name}`)) : null;
      if (value !== null) found[name] = Array.isArray(value) && value.length === 1 ? value[0] : value;
    }
    return found;
  }

  async function changedPuzzle(changes) {
    const made = await tell("api/puzzles/changed/look", { which: known.name, given: changes });
    return { ...made, changes };
  }

  const result = h("div", { class: "checked", role: "status", "aria-live": "polite" });
  const hints = h("ol", { class: "hints" });
  const explained = h("div", { class: "explained" });
  const live = h("p", { class: "meter" });
  const play = puzzle.given.keys ? keysPlay : settingsPlay;
  const answer = start();
  const field = play(puzzle, answer, { changed, change });

  function start() {
    const usual = field0();
    const stored = progress()[known.name];
    const found = {};
    for (const name of Object.keys(puzzle.answer)) {
      const typed = at.query.has(name) ? numbers(at.query.get(name)) : null;
      const kept = !puzzle.changes && stored && stored.answer ? stored.answer[name] : null;
      found[name] = fits(typed, usual[name]) ? typed : fits(kept, usual[name]) ? kept : usual[name];
      if (!Array.isArray(usual[name]) && Array.isArray(found[name])) found[name] = found[name][0];
    }
    return found;
  }

  function fits(value, usual) {
    if (value === null || value === undefined) return false;
    if (!Array.isArray(usual)) return Number.isFinite([value].flat()[0]) && [value].flat().length === 1;
    return Array.isArray(value) && value.length === usual.length && value.every((v, n) => Array.isArray(v) === Array.isArray(usual[n]) && (!Array.isArray(v) || v.length === usual[n].length));
  }

  function field0() {
    const d = puzzle.given.keys ? puzzle.given.keys[0].length : 0;
    const some = [1, 0.5, -0.5];
    const vector = Array.from({ length: d }, (_, n) => some[n % 3]);
    const first = {
      select: { query: vector }, average: { query: vector }, "average-two": { query: vector }, weights: { query: vector },
      identity: d ? { query: puzzle.given.keys.map(() => vector) } : {}, "third-key": { key: d ? puzzle.given.keys[2] : null }, "unit-key": { key: d ? puzzle.given.keys[2] : null },
      previous: { shift: 0, scale: 1 }, first: { score: 1 }, copy: { scale: 1 }, majority: { tilt: 0.5 }, induction: { scale: [1, 1] },
      rotary: { angle: (puzzle.material.frequencies || []).map(() => 0), scale: 1 }, linear: { slope: 0.5 },
    };
    return structuredClone(first[puzzle.name]);
  }

  // The answer has changed: draw everything again, and keep it.
  function changed() {
    const measured = measure(puzzle, answer);
    field.draw(measured);
    const good = measured.fault ? false : measured.accuracy === undefined ? measured.distance <= puzzle.within : measured.accuracy === 1;
    live.className = `meter ${good ? "better" : ""}`;
    replace(live, h("progress", { value: measured.accuracy ?? 1 - measured.distance, max: 1, "aria-label": "How much is right" }),
      measured.fault ? sentence(measured.fault)
        : measured.accuracy === undefined ? `${figureText(measured.distance)} of the attention is in the wrong place; at most ${puzzle.within} is allowed.`
          : `${(100 * measured.accuracy).toFixed(1)} % of the predictions are right.`);
    replace(result);
    const query = Object.fromEntries(Object.entries(answer).map(([name, value]) => [name, written(rounded(value))]));
    for (const [name, value] of Object.entries(puzzle.changes || {})) query[`given-${name}`] = written(value);
    at.remember("puzzles", puzzle.name, query);
    if (!puzzle.changes) keep(puzzle.name, { answer: rounded(answer) });
    return measured;
  }

  const rounded = (value) => (Array.isArray(value) ? value.map(rounded) : typeof value === "object" ? Object.fromEntries(Object.entries(value).map(([k, v]) => [k, rounded(v)])) : Number(value.toPrecision(6)));

  // The question itself is changed: the whole page is shown again, with the new question in its address.
  function change(changes) {
    const all = { ...(puzzle.changes || {}), ...changes };
    const query = Object.fromEntries(Object.entries(all).filter(([, v]) => v !== null).map(([name, value]) => [`given-${name}`, written(rounded(value))]));
    const next = address("puzzles", puzzle.name, query);
    if (location.hash === next) dispatchEvent(new HashChangeEvent("hashchange"));
    else location.hash = next;
  }

  async function check() {
    replace(result);
    checkButton.disabled = true;
    try {
      const said = await busy(result, "Checking in the model …", () => tell("api/puzzles/check/look", { which: puzzle.name, given: puzzle.changes || {}, answer: rounded(answer) }));
      const mine = measure(puzzle, rounded(answer));
      const apart = Math.max(Math.abs(said.distance - mine.distance), ...said.weights.flatMap((row, i) => row.map((w, j) => Math.abs(w - mine.weights[i][j]))));
      const solved = said.ok || said.is_best;
      replace(result, h("p", { class: `verdict ${solved ? "better" : "worse"}` }, h("strong", null, said.ok ? "Right: " : said.is_best ? "As near as possible: " : "Not yet: "), `${said.says}.`,
        said.is_best ? " No answer reaches what is asked for, and none does better than yours. Explain says why." : !said.possible && !said.ok ? ` No answer is within ${puzzle.within}; the best one leaves ${figureText(said.best)} in the wrong place.` : ""),
      apart > SAME ? h("p", { class: "alarm" }, `The page computed other weights than the model, by up to ${apart.toPrecision(2)}. The model is right; please report this puzzle and answer.`) : h("p", { class: "quiet agree" }, "The model's weights equal those of the page."));
      if (solved && !puzzle.changes) {
        keep(puzzle.name, { solved: true });
        drawList();
      }
    } catch (error) {
      replace(result, errorBox(error));
    } finally {
      checkButton.disabled = false;
    }
  }

  let told = 0;
  function hint() {
    if (told < puzzle.hints.length) hints.append(h("li", null, puzzle.hints[told++]));
    hintButton.disabled = told >= puzzle.hints.length;
    hintButton.textContent = told >= puzzle.hints.length ? "No more hints" : "Another hint";
    if (hintButton.disabled) explainButton.focus();
  }

  async function explain() {
    if (explained.children.length) {
      replace(explained);
      explainButton.setAttribute("aria-expanded", "false");
      return;
    }
    explainButton.setAttribute("aria-expanded", "true");
    explained.append(h("h2", null, "Explanation"), h("p", null, puzzle.explanation));
    try {
      const best = await busy(explained, "Solving …", () => tell("api/puzzles/solve/look", { which: puzzle.name, given: puzzle.changes || {} }));
      const use = button("Try this answer", () => {
        for (const [name, value] of Object.entries(best.answer)) answer[name] = structuredClone(value);
        changed();
        body.scrollIntoView({ block: "start" });
      });
      add(explained, [h("h3", null, "The best answer"), h("p", null, Object.entries(best.answer).map(([name, value]) => h("code", { class: "answer" }, `${name} ${written(rounded(value))}`))),
        h("p", null, `How it is found: ${best.method}. It leaves ${figureText(best.distance)} of the attention in the wrong place.`),
        h("p", null, h("strong", null, { exact: "Exact: ", "in the limit": "Only in the limit: ", impossible: "Impossible: " }[best.kind]), `${best.reason}.`),
        best.notes.map((note) => h("p", { class: "quiet" }, sentence(note))), use]);
    } catch (error) {
      explained.append(errorBox(error));
    }
  }

  const checkButton = button("Check", check, { class: "primary" });
  const hintButton = button("Hint", hint);
  const explainButton = button("Explain", explain, { "aria-expanded": "false" });
  const n = puzzles.indexOf(known);
  replace(body, h("h2", { class: "title" }, `${puzzle.number}. ${puzzle.title}`), h("p", { class: "question-text" }, puzzle.question.replaceAll("`", "")),
    puzzle.changes ? h("p", { class: "note" }, "You changed the question. ", h("a", { href: address("puzzles", puzzle.name) }, "Back to the original")) : null,
    trouble, field.element, live,
    h("div", { class: "controls" }, checkButton, hintButton, explainButton, button("Start again", () => { Object.assign(answer, field0()); changed(); })),
    result, hints, explained,
    h("p", { class: "neighbours" }, n > 0 ? h("a", { href: address("puzzles", puzzles[n - 1].name) }, `← ${puzzles[n - 1].title}`) : h("span"), n + 1 < puzzles.length ? h("a", { href: address("puzzles", puzzles[n + 1].name) }, `${puzzles[n + 1].title} →`) : null));
  changed();
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
const figureText = (x) => (x >= 0.001 ? Number(x.toPrecision(3)).toString() : x > 1e-12 ? x.toExponential(1) : "0");
