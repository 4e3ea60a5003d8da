// What operations on heads do to the loss of the text and of a held-out set: of a sample first, then of the whole set.

import { h, replace } from "./dom.js";
import { follow, isAbort } from "./stream.js";

// A change with four digits, as h2h heads prints it.
export const signed = (x) => (x.toFixed(4) === "0.0000" || x.toFixed(4) === "-0.0000" ? "0.0000" : `${x < 0 ? "−" : "+"}${Math.abs(x).toFixed(4)}`);
const HEADINGS = ["", "text", "change of the text", "held-out set", "change of the set (95 % over texts)", "read"];

export function effectsView(page) {
  const set = h("select", { "aria-label": "Held-out set", onchange: () => page.change({ set: set.value }) });
  const body = h("tbody");
  const title = h("div", { class: "controls" }, h("span", null, "Effect on the text, and on the set "), set);
  const element = h("div", { class: "effects", hidden: true }, title, h("div", { class: "wide" }, h("table", null,
    h("thead", null, h("tr", null, HEADINGS.map((text) => h("th", { scope: "col" }, text)))), body)));
  let running = "";
  let abort = null;

  function show(found) {
    element.hidden = !page.state.ops;
    if (!page.state.ops) return stop();
    const sets = [...new Set(found.filter(Boolean).flatMap((a) => a.sets))];
    replace(set, sets.map((name) => h("option", { value: name, selected: name === page.state.set }, name)));
    const key = JSON.stringify([page.side(0), page.side(1), page.state.set]);
    const rows = found.map((a, n) => (a && page.side(n).operations ? row(a, n) : null));
    if (key === running) {
      rows.forEach((one, n) => one && kept[n] && one.set(kept[n]));
      replace(body, rows.filter(Boolean).map((one) => one.element));
      current = rows;
      return undefined;
    }
    stop();
    kept = [null, null];
    current = rows;
    replace(body, rows.filter(Boolean).map((one) => one.element));
    if (page.isPlaying()) return undefined; // the set is evaluated when the training stands still
    running = key;
    abort = new AbortController();
    const { signal } = abort;
    rows.forEach((one, n) => one && measure(n, signal));
    return undefined;
  }

  let kept = [null, null]; // the newest news of each side
  let current = [null, null];

  async function measure(n, signal) {
    const tell = (said) => {
      if (signal.aborted) return;
      kept[n] = "share" in said ? { ...(kept[n] || {}), share: said.share } : { ...said, share: said.items < said.of ? 0 : null };
      if (current[n]) current[n].set(kept[n]);
    };
    try {
      await follow("api/inside/effect/look", { ...page.side(n), set: page.state.set }, tell, signal);
    } catch (error) {
      if (!isAbort(error)) tell({ ...(kept[n] || {}), wrong: error.message });
    }
  }

  function row(a, n) {
    const cells = HEADINGS.slice(1).map((text) => h("td", { "data-label": text }));
    const before = a.before || a.says;
    if (a.task === "classifier") {
      const [p, q] = [before.classes[before.label], a.says.classes[before.label]];
      cells[0].textContent = `p(${before.label}) ${p.toFixed(3)} → ${q.toFixed(3)}`;
      cells[1].textContent = signed(q - p);
    } else if (a.says.loss !== null && before.loss !== null) {
      cells[0].textContent = `${before.loss.toFixed(4)} → ${a.says.loss.toFixed(4)} nats`;
      cells[1].textContent = signed(a.says.loss - before.loss);
    } else cells[0].textContent = "too short";
    function show(said) {
      if (said.wrong) return replace(cells[2], h("span", { class: "alarm" }, said.wrong));
      if (said.before !== undefined) {
        cells[2].textContent = `${said.before.toFixed(4)} → ${said.after.toFixed(4)} nats`;
        cells[3].textContent = `${signed(said.difference)}${said.low === null || said.low === undefined ? "" : ` (${signed(said.low)} … ${signed(said.high)})`}`;
      }
      const what = a.task === "classifier" ? "texts" : "windows";
      const read = said.items === undefined ? "" : said.items < said.of ? `a sample: ${said.items} of ${said.of} ${what}` : `all ${said.items} ${what}`;
      const going = said.share === null || said.share === undefined ? null : h("progress", { max: 1, value: said.share, "aria-label": "Evaluation" });
      return replace(cells[4], going, going && read ? " " : "", read);
    }
    return { element: h("tr", null, h("th", { scope: "row" }, page.names()[n]), cells), set: show };
  }

  function stop() {
    if (abort) abort.abort();
    abort = null;
    running = "";
  }

  return { element, show, stop };
}
