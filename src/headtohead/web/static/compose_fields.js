// Fields of the page Compose: settings of the control, and the values that are compared.

import { button, h, replace } from "./dom.js";

// -- parts as text: Rope(theta=500) ----------------------------------------------------------------------------------

// The name and knobs of a part's text; null if it is anything else, such as Causal & Local(8).
export function readPart(text) {
  const found = /^\s*([A-Za-z]\w*)\s*(?:\((.*)\))?\s*$/.exec(text);
  if (!found) return null;
  const knobs = {};
  for (const piece of splitValues(found[2] || "")) {
    const given = /^([a-z_]\w*)\s*=\s*(.*)$/.exec(piece);
    if (!given) return null;
    knobs[given[1]] = given[2].replace(/^'(.*)'$/, "$1");
  }
  return { name: found[1], knobs };
}

export function writePart(name, knobs) {
  const given = Object.entries(knobs).filter(([, value]) => value.trim() !== "");
  return given.length ? `${name}(${given.map(([k, v]) => `${k}=${quoted(v.trim())}`).join(", ")})` : name;
}

// Words with dashes are quoted: content-to-position would be read as a subtraction.
const quoted = (value) => (/^[a-z]+(-[a-z]+)+$/.test(value) ? `'${value}'` : value);

// Values separated by commas outside parentheses.
export function splitValues(text) {
  const parts = [""];
  let depth = 0;
  for (const letter of text) {
    if ("([".includes(letter)) depth += 1;
    if (")]".includes(letter)) depth -= 1;
    if (letter === "," && depth === 0) parts.push("");
    else parts[parts.length - 1] += letter;
  }
  return parts.map((part) => part.trim()).filter(Boolean);
}

// -- one field -------------------------------------------------------------------------------------------------------

let count = 0;
export const newId = () => `field-${++count}`;

// Problems are shown beside their field: `problems` maps the name of a field to its element and input.
export function problemPlace(problems, name, input) {
  const place = h("p", { class: "problem", id: newId(), hidden: true });
  if (input) input.setAttribute("aria-describedby", place.id);
  problems.set(name, { place, input });
  return place;
}

export function showProblems(problems, found) {
  for (const [name, { place, input }] of problems) {
    const text = found[name] || "";
    if (place.textContent !== text) place.textContent = text;
    place.hidden = !text;
    if (input) input.setAttribute("aria-invalid", String(Boolean(text)));
  }
}

// An input for a value of this type: a list of words where there are few, else text.
export function valueInput(setting, value, usual, onchange, props) {
  const choices = choicesOf(setting.type);
  if (choices) {
    const shown = value || usual;
    return h("select", { onchange: (event) => onchange(event.target.value === usual ? "" : event.target.value), ...props },
      choices.map((word) => h("option", { value: word, selected: word.toLowerCase() === shown.toLowerCase() }, word)));
  }
  const number = /int|float/.test(setting.type);
  return h("input", { type: "text", inputmode: number ? "decimal" : null, value, placeholder: usual, size: 9, spellcheck: "false", autocomplete: "off",
    oninput: (event) => onchange(event.target.value.trim()), ...props });
}

function choicesOf(type) {
  if (type === "bool") return ["True", "False"];
  return / or /.test(type) && !type.includes("|") ? type.split(" or ") : null;
}

// -- settings of the control -----------------------------------------------------------------------------------------

// A setting: its name, its value, what it means. A part also has its knobs.
export function settingRow(page, setting) {
  const path = setting.name;
  const usual = page.usual(path);
  const family = page.there.families[setting.type];
  const row = h("div", { class: "setting" });
  const draw = () => {
    const id = newId();
    const value = page.state.settings[path] || "";
    const changed = (text) => {
      if (text === "" || text === usual.text) delete page.state.settings[path];
      else page.state.settings[path] = text;
      mark();
      page.changed();
    };
    const choose = (kind) => {
      for (const key of Object.keys(page.state.settings)) if (key === path || key.startsWith(`${path}.`)) delete page.state.settings[key];
      if (kind !== usual.kind) page.state.settings[path] = kind;
      page.changed();
      draw();
      row.querySelector("select").focus();
    };
    const shown = readPart(value || usual.text);
    const input = family && shown
      ? h("select", { id, onchange: (event) => choose(event.target.value) }, family.map((part) => h("option", { value: part.name, selected: part.name === shown.name }, part.name)))
      : valueInput(setting, value, usual.text, changed, { id });
    const reset = button("Reset", () => {
      for (const key of Object.keys(page.state.settings)) if (key === path || key.startsWith(`${path}.`)) delete page.state.settings[key];
      page.changed();
      draw();
      row.querySelector("input, select").focus();
    }, { class: "small", "aria-label": `Reset ${path} to ${usual.text}` });
    const mark = () => {
      const own = Object.keys(page.state.settings).some((key) => key === path || key.startsWith(`${path}.`));
      row.classList.toggle("changed", own);
      reset.hidden = !own;
    };
    const part = family && shown && family.find((one) => one.name === shown.name);
    replace(row,
      h("label", { for: id }, path.split(".").slice(1).join(".") || path, h("span", { class: "quiet" }, ` ${setting.help}`)),
      h("div", { class: "value" }, input, reset),
      problemPlace(page.problems, path, input),
      part ? partDetails(part) : null,
      part ? folded(part, usual, (knob) => page.state.settings[`${path}.${knob.name}`], knobFields(page, part, (knob) => page.state.settings[`${path}.${knob.name}`] || "", (knob) => usualKnob(usual, part, knob), (knob, text) => {
        if (text === "" || text === usualKnob(usual, part, knob)) delete page.state.settings[`${path}.${knob.name}`];
        else page.state.settings[`${path}.${knob.name}`] = text;
        mark();
        page.changed();
      }, path)) : null);
    mark();
  };
  draw();
  return row;
}

const usualKnob = (usual, part, knob) => (usual.kind === part.name && usual.knobs[knob.name] !== undefined ? usual.knobs[knob.name] : knob.default);

// Knobs behind a line that shows their values; open where one was changed.
function folded(part, usual, given, fields) {
  if (!fields) return null;
  const shown = part.knobs.map((knob) => `${knob.name} = ${given(knob) || usualKnob(usual, part, knob)}`);
  return h("details", { class: "folded", open: part.knobs.some((knob) => given(knob)) }, h("summary", null, shown.join(", ")), fields);
}

function partDetails(part) {
  return h("div", { class: "part-details" }, h("p", null, part.says), h("p", null, h("code", { class: "equation" }, part.equation)), h("p", { class: "quiet" }, part.reference));
}

function knobFields(page, part, given, usual, changed, path) {
  if (!part.knobs.length) return null;
  return h("div", { class: "knobs" }, part.knobs.filter((knob) => knob.name !== "content").map((knob) => {
    const id = newId();
    const input = valueInput(knob, given(knob), usual(knob), (text) => changed(knob, text), { id, title: knob.help });
    return h("div", { class: "knob" }, h("label", { for: id }, knob.name), input, h("span", { class: "quiet" }, knob.help), path ? problemPlace(page.problems, `${path}.${knob.name}`, input) : null);
  }));
}

// -- what is compared ------------------------------------------------------------------------------------------------

// The values of one field: rows of chosen values, then all parts of the family with their equations.
export function variedField(page, path, redraw) {
  const setting = page.setting(path);
  const family = page.there.families[setting.type];
  const values = splitValues(page.state.vary[path] || "");
  const keep = (list) => {
    page.state.vary[path] = list.join(",");
    page.changed();
  };
  const remove = button("Remove", () => {
    delete page.state.vary[path];
    page.changed();
    redraw();
  }, { class: "small", "aria-label": `Do not vary ${path}` });
  const problem = problemPlace(page.problems, `vary.${path}`, null);
  const head = h("div", { class: "varied-head" }, h("h3", null, path), h("span", { class: "quiet" }, `the control has ${page.controlText(path)}`), remove);
  if (!family) {
    const id = newId();
    const input = h("input", { id, type: "text", value: values.join(", "), spellcheck: "false", autocomplete: "off", placeholder: exampleOf(setting),
      oninput: (event) => keep(splitValues(event.target.value)) });
    problem.id = problem.id || newId();
    input.setAttribute("aria-describedby", problem.id);
    page.problems.set(`vary.${path}`, { place: problem, input });
    return h("section", { class: "varied", "aria-label": path }, head, h("div", { class: "setting" }, h("label", { for: id }, "Values, separated by commas ", h("span", { class: "quiet" }, setting.help)), input, problem));
  }
  const rows = values.map((text, n) => chosenRow(page, family, text, (next) => {
    const now = splitValues(page.state.vary[path] || "");
    now[n] = next;
    keep(now);
  }, () => {
    keep(splitValues(page.state.vary[path]).filter((_, m) => m !== n));
    redraw(path);
  }));
  const control = readPart(page.controlText(path));
  const gallery = h("div", { class: "gallery" }, family.map((part) => h("article", { class: "part" },
    h("div", { class: "part-head" }, h("h4", null, part.name),
      control && control.name === part.name ? h("span", { class: "tag" }, "control") : null,
      button(values.some((text) => (readPart(text) || {}).name === part.name) || (control && control.name === part.name) ? "Add another" : "Add", () => {
        keep([...splitValues(page.state.vary[path] || ""), part.name]);
        redraw(path);
      }, { class: "small", "aria-label": `Compare ${part.name}` })),
    partDetails(part))));
  return h("section", { class: "varied", "aria-label": path }, head,
    rows.length ? h("ul", { class: "chosen", "aria-label": `Chosen values of ${path}` }, rows) : h("p", { class: "quiet" }, "Add the parts that the control is compared with:"),
    problem,
    h("details", { open: values.length === 0 || page.openGallery.has(path), ontoggle: (event) => (event.target.open ? page.openGallery.add(path) : page.openGallery.delete(path)) },
      h("summary", null, `All ${family.length} parts of ${setting.type}`), gallery));
}

function exampleOf(setting) {
  const choices = choicesOf(setting.type);
  if (choices) return choices.join(", ");
  if (/float/.test(setting.type)) return "0.001, 0.01";
  return /int/.test(setting.type) ? "2, 4" : "";
}

function chosenRow(page, family, text, changed, remove) {
  const read = readPart(text);
  const part = read && family.find((one) => one.name === read.name);
  if (!part) {
    const id = newId();
    return h("li", null, h("div", { class: "chosen-head" }, h("label", { for: id }, "Value "), h("input", { id, type: "text", value: text, spellcheck: "false", oninput: (event) => changed(event.target.value.trim()) }),
      button("Remove", remove, { class: "small", "aria-label": `Remove ${text}` })));
  }
  const knobs = { ...read.knobs };
  return h("li", { tabindex: -1, "aria-label": part.name },
    h("div", { class: "chosen-head" }, h("strong", null, part.name), h("code", { class: "equation" }, part.equation), button("Remove", remove, { class: "small", "aria-label": `Remove ${part.name}` })),
    knobFields(page, part, (knob) => knobs[knob.name] || "", (knob) => knob.default, (knob, value) => {
      knobs[knob.name] = value;
      changed(writePart(part.name, knobs));
    }, null));
}
