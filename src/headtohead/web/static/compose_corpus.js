// The corpus of a study: known ones, and texts of the user's with what was recognised in them.

import { ask, send } from "./api.js";
import { newId, problemPlace, showProblems } from "./compose_fields.js";
import { busy, errorBox, h, replace, toast } from "./dom.js";

export const TASKS = { lm: ["Language model", "predicts the next token of running text"], classifier: ["Classifier", "gives a text one of several labels"] };

export class Corpora {
  constructor(page) {
    this.page = page;
    this.place = h("div");
    this.previewPlace = h("div");
    this.draw();
    this.preview();
  }

  draw() {
    const { task } = this.page.state;
    const option = (name, title, says, quiet, fits) => h("label", { class: fits ? "choice" : "choice off" },
      h("input", { type: "radio", name: "corpus", value: name, checked: name === this.page.state.data, disabled: !fits, onchange: () => this.choose(name) }),
      h("span", null, h("strong", null, title), h("span", { class: "quiet" }, ` ${says}`), quiet ? h("span", { class: "lacks" }, ` ${quiet}`) : null));
    const known = this.page.there.corpora.map((one) => {
      const fits = one.tasks.includes(task);
      return option(one.name, one.name, one.says, fits ? (one.lacks ? `Not on this machine: ${one.lacks}.` : "") : `It is for a ${TASKS[one.tasks[0]][0].toLowerCase()}.`, fits);
    });
    const mine = this.page.there.uploads.map((one) => option(one.data, one.name, `your text, ${(one.bytes / 1000).toLocaleString("en", { maximumFractionDigits: 1 })} kB`, "", true));
    const id = newId();
    const file = h("input", { id, type: "file", accept: this.page.there.kinds.join(","), disabled: this.page.there.read_only, onchange: () => file.files[0] && this.upload(file.files[0]) });
    const drop = h("div", { class: "drop", ondragover: (event) => event.preventDefault(), ondrop: (event) => {
      event.preventDefault();
      if (event.dataTransfer.files[0] && !this.page.there.read_only) this.upload(event.dataTransfer.files[0]);
    } }, h("label", { for: id }, "Your own text: .txt, or .csv, .tsv, .jsonl with texts and labels, up to 20 MB"), file,
    this.page.there.read_only ? h("p", { class: "quiet" }, "This server is read-only: texts cannot be uploaded.") : null);
    const group = h("fieldset", { class: "choices" }, h("legend", null, "Corpus"), known, mine, drop);
    replace(this.place, group, problemPlace(this.page.problems, "data", null));
  }

  choose(name) {
    this.page.state.data = name;
    delete this.page.state.settings["data.corpus.text"];
    delete this.page.state.settings["data.corpus.label"];
    this.page.changed();
    this.preview();
  }

  async upload(file) {
    const kind = file.name.slice(file.name.lastIndexOf(".")).toLowerCase();
    try {
      if (!this.page.there.kinds.includes(kind)) throw new Error(`${file.name} cannot be used: give a file that ends in ${this.page.there.kinds.join(", ")}.`);
      if (file.size > 20 * 2 ** 20) throw new Error(`${file.name} is larger than 20 MB: train on it with h2h run … --data FILE.`);
      const kept = await busy(this.place, `Uploading ${file.name} …`, () => send("api/compose/upload", { name: file.name }, file));
      this.page.there.uploads = kept.uploads;
      this.page.state.data = kept.data;
      this.draw();
      this.choose(kept.data);
    } catch (error) {
      toast(error.message, "error");
      showProblems(new Map([["data", this.page.problems.get("data")]]), { data: error.message });
    }
  }

  async preview() {
    const { data, task, settings } = this.page.state;
    if (!data.startsWith("upload-")) {
      replace(this.previewPlace);
      return;
    }
    const columns = { text: settings["data.corpus.text"] || "", label: settings["data.corpus.label"] || "" };
    try {
      const seen = await busy(this.previewPlace, "Reading the text …", () => ask("api/compose/preview", { data, task, ...columns }));
      if (data === this.page.state.data) replace(this.previewPlace, this.previewBox(seen));
    } catch (error) {
      replace(this.previewPlace, errorBox(error));
    }
  }

  previewBox(seen) {
    const number = (value) => value.toLocaleString("en");
    if (seen.kind === "text") {
      return h("div", { class: "preview" }, h("p", null, h("strong", null, seen.name), `: running text, ${number(seen.characters)} characters, ${number(seen.words)} words, ${number(seen.lines)} lines. It is split in order: 80\u00a0% for training, 10\u00a0% for validation, 10\u00a0% for the test.`),
        h("pre", { tabindex: 0, "aria-label": "The beginning of the text" }, seen.start));
    }
    const column = (role) => {
      const id = newId();
      const path = `data.corpus.${role}`;
      const select = h("select", { id, onchange: () => {
        if (select.value) this.page.state.settings[path] = select.value;
        else delete this.page.state.settings[path];
        this.page.changed();
        this.preview();
      } }, h("option", { value: "" }, seen[role] ? `found: ${seen[role]}` : "choose"), (seen.columns || []).map((name) => h("option", { value: name, selected: this.page.state.settings[path] === name }, name)));
      return h("span", { class: "column" }, h("label", { for: id }, `${role} column `), select, problemPlace(this.page.problems, path, select));
    };
    return h("div", { class: "preview" }, h("p", null, h("strong", null, seen.name), seen.texts ? `: ${number(seen.texts)} texts, ${number(seen.words)} words${seen.label ? `, ${seen.class_count} classes` : ""}.` : ": a table."),
      seen.problem ? h("p", { class: "problem" }, seen.problem) : null,
      seen.columns ? h("div", { class: "columns" }, column("text"), this.page.state.task === "classifier" ? column("label") : null) : null,
      seen.rows ? h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "The first texts" }, h("table", { class: "texts" }, h("thead", null, h("tr", null, h("th", { scope: "col" }, seen.text), seen.label ? h("th", { scope: "col" }, seen.label) : null)),
        h("tbody", null, seen.rows.map((row) => h("tr", null, h("td", null, row[0]), seen.label ? h("td", null, row[1]) : null))))) : null,
      seen.label && seen.rows ? h("p", { class: "quiet" }, `Classes: ${Object.entries(seen.classes).map(([name, count]) => `${name} ${number(count)}`).join(", ")}${seen.class_count > 20 ? " …" : ""}`) : null);
  }
}
