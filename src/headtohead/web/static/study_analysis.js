// "Analyse now" on the page of a study: its statistical cost is shown before it is done.

import { ask, isSaved, tell } from "./api.js";
import { busy, button, errorBox, h, replace, toast } from "./dom.js";

export function analyseNow(name, after) {
  const place = h("div", { class: "analyse" });
  const closed = () => replace(place, isSaved ? null : button("Analyse now …", open));

  async function open() {
    replace(place);
    try {
      const cost = await busy(place, "Counting the cost …", () => ask("api/study/analysis", { name }));
      const panel = h("div", { class: "cost-panel", role: "group", "aria-label": "What this analysis costs", tabindex: -1 },
        h("h3", null, cost.number ? `Planned analysis ${cost.number} of ${cost.of}` : "An analysis that is not planned"),
        h("ul", null, cost.says.map((line) => h("li", null, line))),
        h("div", { class: "controls" },
          cost.pairs ? button("Analyse and record it", record) : null,
          button("Cancel", closed)));
      replace(place, panel);
      panel.focus();
    } catch (error) {
      replace(place, errorBox(error), button("Try again", open));
    }
  }

  async function record() {
    try {
      await busy(place, "Analysing …", () => tell("api/study/analyse", { name }));
      toast("Recorded: the analysis is in the list.");
      closed();
      after();
    } catch (error) {
      toast(error.message, "error");
    }
  }

  closed();
  return place;
}
