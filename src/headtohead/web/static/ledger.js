// The ledger: claims of published reports with their verdicts, and published figures beside measured ones.

import { address } from "./app.js";
import { ask } from "./api.js";
import { axis, finite, intervalChart, scale, spanOf, verdictMark } from "./charts.js";
import { errorBox, h, replace, s, table } from "./dom.js";

const DRAWN = { holds: "better", "does not hold": "worse", unresolved: "unresolved" };
const MARKS = { matches: "equivalent", better: "better", worse: "worse", "not comparable": "unresolved" };

export async function show(outer, at) {
  const main = h("div", { class: "ledger-page" });
  replace(outer, main);
  const all = await wait();
  if (at.isOver) return;

  // Judging takes seconds the first time: say how far it is.
  async function wait() {
    const bar = h("progress", { max: 1, "aria-label": "Studies judged" });
    const now = h("span");
    const note = h("div", { class: "working", role: "status" }, h("p", null, "Judging the stored results. This takes some seconds the first time."), bar, now);
    const timer = setTimeout(() => replace(main, h("h1", null, "Ledger"), note), 250);
    try {
      for (;;) {
        const state = await ask("api/ledger");
        if (state.state === "done") return state.value;
        if (state.state === "failed") throw new Error(sentence(state.error));
        if (state.total) {
          bar.value = state.done / state.total;
          now.textContent = `${state.done} of ${state.total} experiments: ${state.now}`;
        }
        await new Promise((go) => { setTimeout(go, 300); });
        if (at.isOver) return null;
      }
    } finally {
      clearTimeout(timer);
    }
  }

  const claim = all.claims.find((c) => c.id === at.name);
  if (claim) replace(main, detail(claim));
  else if (at.name) replace(main, h("p", null, h("a", { href: address("ledger") }, "← all claims")), errorBox(new Error(`There is no claim '${at.name}'. It may be untested, or belong to another version.`)));
  else overview();

  // -- all claims ------------------------------------------------------------------------------------------------------------

  function overview() {
    const state = { q: at.query.get("q") || "", report: at.query.get("report") || "", verdict: at.query.get("verdict") || "", view: at.query.get("view") === "figures" ? "figures" : "claims" };
    const search = h("input", { type: "search", placeholder: "Search claims and explanations", "aria-label": "Search", value: state.q, oninput: () => changed({ q: search.value }) });
    const reports = h("select", { "aria-label": "Report", onchange: () => changed({ report: reports.value }) }, h("option", { value: "" }, "every report"), all.reports.map((r) => h("option", { value: r.number, selected: r.number === state.report }, `${r.number}: ${r.title}`)));
    const verdicts = h("select", { "aria-label": "Verdict", onchange: () => changed({ verdict: verdicts.value }) }, h("option", { value: "" }, "every verdict"), Object.keys(DRAWN).map((w) => h("option", { value: w, selected: w === state.verdict }, w)));
    const count = h("span", { class: "quiet", role: "status" });
    const list = h("div", { class: "ledger" });
    const tabs = h("div", { class: "tabs", role: "group", "aria-label": "What to show" }, [["claims", "Claims"], ["figures", "Published beside measured"]].map(([key, label]) =>
      h("button", { type: "button", "aria-pressed": String(state.view === key), "data-view": key, onclick: () => changed({ view: key }) }, label)));
    replace(main, h("h1", null, "Ledger"), h("p", { class: "verdict" }, all.lines[all.lines.length - 1] || ""), h("p", { class: "quiet lead" }, "Claims of published reports, tested again in pairs over seeds."), tabs,
      h("div", { class: "controls" }, search, reports, verdicts, count), list);
    draw();

    function changed(more) {
      Object.assign(state, more);
      at.remember("ledger", "", { ...state, view: state.view === "claims" ? "" : state.view });
      draw();
    }

    function draw() {
      for (const tab of tabs.children) tab.setAttribute("aria-pressed", String(tab.dataset.view === state.view));
      verdicts.hidden = state.view === "figures";
      search.hidden = state.view === "figures";
      if (state.view === "figures") {
        const shown = all.reports.filter((r) => !state.report || r.number === state.report);
        count.textContent = "";
        replace(list, h("p", { class: "quiet" }, all.legend), shown.map(reportOf));
        return;
      }
      const words = state.q.toLowerCase().split(/\s+/);
      const found = all.claims.filter((c) => (!state.report || c.report === state.report) && (!state.verdict || c.verdict === state.verdict)
        && words.every((w) => `${c.id} ${c.claim} ${c.because} ${c.findings.map((f) => f.says).join(" ")}`.toLowerCase().includes(w)));
      count.textContent = found.length === all.claims.length ? `${found.length} claims` : `${found.length} of ${all.claims.length} claims`;
      replace(list, found.length ? found.map(card) : h("p", { class: "empty" }, "No claim matches. Clear the search and the filters to see all."),
        !state.q && !state.verdict && all.untested.length ? h("p", { class: "quiet" }, `Not tested yet: ${all.untested.join(", ")}. h2h reproduce trains their studies.`) : null);
    }
  }

  function card(c) {
    const decides = c.findings.filter((f) => f.decides && f.numbers);
    return h("article", { class: "claim" },
      h("h2", null, h("span", { class: "quiet id" }, c.id), h("a", { href: address("ledger", c.id) }, c.claim)),
      h("p", { class: `word ${DRAWN[c.verdict]}` }, verdictMark(DRAWN[c.verdict]), h("span", null, c.verdict, c.only ? h("span", { class: "quiet" }, `, ${c.only}`) : null)),
      decides.length ? intervals(decides.slice(0, 3), c.id, true) : null,
      c.because ? h("p", { class: "because" }, c.because) : null,
      h("p", { class: "quiet small" }, `${c.findings.length} comparison${c.findings.length === 1 ? "" : "s"} · ${Object.keys(c.scopes).join(", ")}`));
  }

  // -- one claim ---------------------------------------------------------------------------------------------------------------

  function detail(c) {
    const n = all.claims.indexOf(c);
    const [before, after] = [all.claims[n - 1], all.claims[n + 1]];
    const report = all.reports.find((r) => r.number === c.report);
    document.title = `${c.id} · headtohead`;
    const own = c.findings.filter((f) => f.decides);
    const also = c.findings.filter((f) => !f.decides);
    return [
      h("p", null, h("a", { href: address("ledger") }, "← all claims")),
      h("h1", null, `${c.claim}`),
      h("p", { class: "quiet" }, `Claim ${c.id} of report ${c.report}${report ? `: ${report.title}` : ""}`),
      h("p", { class: `verdict ${DRAWN[c.verdict]}` }, verdictMark(DRAWN[c.verdict]), " ", h("strong", null, c.verdict), c.only ? `, ${c.only}` : ""),
      c.because ? h("p", { class: "because" }, c.because) : null,
      h("h2", null, own.length === 1 ? "The comparison that decides" : "The comparisons that decide"), findings(own, c.id),
      also.length ? [h("h2", null, "Further comparisons"), findings(also, `${c.id}-also`)] : null,
      c.revised ? [h("h2", null, "What was changed after results had been seen"), h("p", null, c.revised)] : null,
      Object.keys(c.tuned).length ? [h("h2", null, "Learning rates chosen"), Object.entries(c.tuned).map(([study, text]) => h("p", null, h("strong", null, `${study}: `), text))] : null,
      h("h2", null, "Studies"), table(["study", "scope", "command"], Object.keys(c.scopes).map((study) => [study, c.scopes[study], h("code", null, c.commands[study])]), { class: "texts", label: "Studies" }),
      h("p", { class: "neighbours" }, before ? h("a", { href: address("ledger", before.id) }, `← ${before.id} ${before.claim}`) : h("span"), after ? h("a", { href: address("ledger", after.id) }, `${after.id} ${after.claim} →`) : null),
    ];
  }

  function findings(found, name) {
    return [intervals(found, name, false), found.filter((f) => !f.numbers).map((f) => h("p", { class: "plainfinding" }, h("span", { class: DRAWN[f.word] }, verdictMark(DRAWN[f.word]), ` ${f.word}: `), f.says, f.effect ? `: ${f.effect}` : ""))];
  }

  // Intervals of comparisons in the same unit share an axis.
  function intervals(found, name, brief) {
    const drawable = found.filter((f) => f.numbers && finite(f.numbers.difference));
    const groups = new Map();
    for (const f of drawable) {
      const key = `${f.metric.split("/").pop()}|${f.unit}`;
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(f);
    }
    const width = Math.max(200, Math.min(innerWidth - 60, brief ? 340 : 460));
    return [...groups.values()].map((group, g) => {
      const arms = group.map((f) => ({ ...f.numbers, arm: f.says, word: f.word, verdict: DRAWN[f.word], difference_text: f.effect.split(" (")[0], interval_text: (f.effect.match(/\((.*)\)/) || ["", ""])[1], dots: [] }));
      const span = spanOf(arms, []);
      const element = h("div", { class: "intervals", "data-figure": `claim-${name}-${g + 1}` }, group.map((f, k) => h("div", { class: "comparison" },
        h("p", { class: "says" }, f.says, brief ? null : h("span", { class: "quiet" }, ` (${f.design})`)),
        intervalChart(arms[k], span, { width, unit: f.unit, scaleBy: f.scale }),
        h("p", { class: `word ${DRAWN[f.word]}` }, verdictMark(DRAWN[f.word]), f.word, h("span", { class: "figures" }, ` ${f.effect}`)))),
      h("div", { class: "comparison" }, axis(span, width, group[0].scale, group[0].unit), h("p", { class: "quiet small" }, `difference in ${group[0].metric}${group[0].unit ? `, ${group[0].unit}` : ""}`)));
      element.figureData = { columns: ["comparison", "metric", "difference", "low", "high", "margin", "pairs", "p", "word"], rows: group.map((f) => [f.says, f.metric, f.numbers.difference, f.numbers.low, f.numbers.high, f.numbers.margin, f.numbers.pairs, f.numbers.p, f.word]) };
      return element;
    });
  }

  // -- published beside measured ---------------------------------------------------------------------------------------------------

  function reportOf(report) {
    return h("section", { class: "report" }, h("h2", null, `${report.number}: ${report.title}`), strip(report),
      report.tables.map((t) => [h("h3", null, t.title), table(t.head, t.rows.map((row) => ({ cells: row, class: row[1] === "verdict" ? "verdictrow" : row[1] === "published" ? "published" : "" })), { label: t.title, class: "figures-table" })]),
      report.notes.map((note) => h("p", { class: "quiet small" }, note)),
      h("p", null, all.claims.filter((c) => c.report === report.number).map((c) => [h("a", { href: address("ledger", c.id) }, `Claim ${c.id}`), " "])));
  }

  // Every published figure that can be compared, in units of where one more run of ours would fall.
  function strip(report) {
    const found = report.figures.filter((f) => finite(f.reach) && f.reach > 0 && finite(f.mean));
    if (!found.length) return null;
    const most = 4;
    const width = Math.max(280, Math.min(innerWidth - 40, 760));
    const left = Math.min(230, width * 0.42);
    const x = scale(-most, most, left + 8, width - 12);
    const row = 20;
    const height = found.length * row + 34;
    const place = (f) => Math.min(most, Math.max(-most, (f.published - f.mean) / f.reach));
    const svg = s("svg", { class: "strip", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `${found.filter((f) => f.mark === "matches").length} of ${found.filter((f) => f.mark !== "not comparable").length} comparable published figures lie where one more run of ours would fall` },
      s("rect", { class: "floor", x: x(-1), y: 0, width: x(1) - x(-1), height: found.length * row }), s("line", { class: "zero", x1: x(0), x2: x(0), y1: 0, y2: found.length * row }),
      found.map((f, n) => {
        const far = Math.abs(f.published - f.mean) / f.reach > most;
        return s("g", { class: MARKS[f.mark] }, s("title", null, `${f.name}: published ${f.published}, measured ${Number(f.mean.toPrecision(4))} ± ${Number(f.reach.toPrecision(2))} (${f.runs} runs), ${f.mark}${f.why ? `: ${f.why}` : ""}`),
          s("text", { class: "end", x: left, y: n * row + 14 }, f.name.length > left / 6 ? `${f.name.slice(0, left / 6 - 1)}…` : f.name),
          f.mark === "not comparable" ? s("path", { class: "open", d: `M${x(place(f))},${n * row + 4}l6,6l-6,6l-6,-6z` }) : s("circle", { class: "point", cx: x(place(f)), cy: n * row + 10, r: 5 }),
          far ? s("path", { class: "beyond", d: place(f) > 0 ? `M${x(most) + 4},${n * row + 6}l5,4l-5,4` : `M${x(-most) - 4},${n * row + 6}l-5,4l5,4` }) : null);
      }),
      [-1, 0, 1].map((v) => s("text", { x: x(v), y: found.length * row + 14 }, v === 0 ? (x(1) - x(0) > 60 ? "our mean" : "0") : v < 0 ? "−1" : "+1")), s("text", { x: (x(-most) + x(most)) / 2, y: found.length * row + 30 }, "published − our mean, in our 95 % ranges"));
    const element = h("figure", { class: "stripfigure", "data-figure": `published-${report.number}` }, svg, h("figcaption", { class: "quiet small" }, "In the band, where one more run of ours falls in 95 of 100 cases: matches. Open marks: not comparable, see the notes."));
    element.figureData = { columns: ["figure", "published", "mean", "reach", "runs", "mark", "why"], rows: found.map((f) => [f.name, f.published, f.mean, f.reach, f.runs, f.mark, f.why]) };
    return element;
  }
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
