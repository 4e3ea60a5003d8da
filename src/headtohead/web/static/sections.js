// Sections of a page that is drawn again while somebody reads it: only what has changed is replaced, and what was open,
// focused or scrolled in it stays so.

import { h, replace } from "./dom.js";

const FOCUSABLE = "a, button, input, select, summary, [tabindex]";

export function sections(body) {
  const drawn = new Map(); // name → { place, key }

  // Draw a section if its key is not that of the last time.
  function section(name, key, make) {
    const text = JSON.stringify(key);
    const known = drawn.get(name);
    if (known && known.key === text) return;
    const place = known ? known.place : h("div");
    if (!known) body.append(place);
    drawn.set(name, { place, key: text });
    keeping(place, () => replace(place, make()));
  }

  return section;
}

function keeping(place, work) {
  const all = (what) => [...place.querySelectorAll(what)];
  const open = all("details").map((one) => one.open);
  const left = all(".wide").map((one) => one.scrollLeft);
  const focused = all(FOCUSABLE).indexOf(document.activeElement);
  work();
  all("details").forEach((one, n) => { one.open = open[n] ?? one.open; });
  all(".wide").forEach((one, n) => { one.scrollLeft = left[n] ?? 0; });
  if (focused >= 0) all(FOCUSABLE)[focused]?.focus({ preventScroll: true });
}
