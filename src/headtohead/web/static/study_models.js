// Audit and samples on the page of a study. They load models, so they are computed when they come into view; while the
// study is trained, only if the user asks.

import { ask, isSaved } from "./api.js";
import { button, errorBox, h, replace, table } from "./dom.js";

const EVERY = 500; // milliseconds between two questions while the server computes

export function modelSections(study, isTraining) {
  const state = { prompt: "The", ended: false, started: false };
  const audits = h("div", null);
  const samples = h("div", null);
  const prompt = h("input", { type: "text", value: state.prompt, maxlength: 2000, "aria-label": "Beginning of the samples" });
  const form = h("form", { class: "controls", onsubmit: (event) => { event.preventDefault(); state.prompt = prompt.value || "The"; load(); } },
    h("label", null, "After the words ", prompt), h("button", { type: "submit" }, "Write again"));
  const newer = h("p", { class: "note", hidden: true }, "More runs have ended since the models were loaded. ", button("Load them again", () => load(), { class: "small" }));
  const place = h("section", { class: "models" }, h("h2", null, "Audit"), newer, audits,
    study.task === "lm" ? [h("h2", null, "Samples"), isSaved ? null : form, samples] : null);

  async function load() {
    state.started = true;
    newer.hidden = true;
    const asked = state.prompt;
    const wait = (text) => { for (const one of [audits, samples]) replace(one, h("p", { class: "busy", role: "status" }, h("span", { class: "spinner", "aria-hidden": "true" }), text)); };
    wait("Loading the models …");
    try {
      let answer = await ask("api/study/models", { name: study.name, prompt: asked });
      while (answer.state === "running" && !state.ended) {
        await new Promise((next) => setTimeout(next, EVERY));
        answer = await ask("api/study/models", { name: study.name, prompt: asked });
      }
      if (state.ended || asked !== state.prompt) return;
      if (answer.state === "failed") throw new Error(answer.error);
      draw(answer.value, answer.refused);
    } catch (error) {
      for (const one of [audits, samples]) replace(one, errorBox(error));
    }
  }

  function draw(found, refused) {
    const left = [...refused, found.absent.audit].filter(Boolean).map((line) => h("p", { class: "note" }, line));
    replace(audits, found.audits.length ? table(["arm", "checks"], found.audits.map((one) => [one.arm, one.summary]), { label: "Audit", class: "wraps" }) : null,
      found.audits.flatMap((one) => one.broken.map(([claim, evidence, meaning]) => h("p", { class: "alarm" }, `${one.arm}: ${claim} is broken. ${evidence}. ${meaning}`))), left);
    replace(samples, found.samples.map((one) => h("div", { class: "sample" }, h("h3", null, `${one.arm}, seed ${one.seed}`), h("p", null, h("strong", null, one.prompt), one.text))),
      found.samples.length ? null : h("p", { class: "empty" }, found.absent.samples || "No run is complete yet: samples need a trained model."));
  }

  const missing = () => { for (const one of [audits, samples]) replace(one, h("p", { class: "quiet" }, "Not in this file: the models were not loaded when the page was saved.")); };
  const start = () => { if (!state.started) load(); };
  const idle = () => { for (const one of [audits, samples]) replace(one, button("Load the models", start)); };
  if (isSaved) {
    ask("api/study/models", { name: study.name, prompt: state.prompt }).then((answer) => (answer.value ? draw(answer.value, answer.refused) : missing()), missing);
    return { place, changed: () => null, end: () => null };
  }
  idle();
  const seen = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting) || isTraining()) return;
    seen.disconnect();
    start();
  });
  seen.observe(place);
  // Runs have ended: other models. What is shown stays until the reader asks.
  function changed() {
    newer.hidden = !state.started;
    if (state.started) return;
    seen.unobserve(place);
    seen.observe(place); // tells whether it is in view now
  }
  return { place, changed, end: () => { state.ended = true; seen.disconnect(); } };
}
