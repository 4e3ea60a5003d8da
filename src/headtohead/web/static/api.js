// Questions to the server, and its events. Addresses are relative, so that the page works behind any proxy path.

const held = document.getElementById("saved"); // inside a page that was saved as one file
export const saved = held ? JSON.parse(held.textContent) : null; // its answers, address and theme

export const isSaved = saved !== null;

function key(path, query) {
  const text = new URLSearchParams(query || {}).toString();
  return text ? `${path}?${text}` : path;
}

export async function ask(path, query) {
  const name = key(path, query);
  if (saved) {
    if (name in saved.answers) return saved.answers[name];
    throw new Error("This saved page does not have that. Open it in h2h serve.");
  }
  return answer(await reach(name, {}), name);
}

export async function tell(path, body) {
  if (saved) throw new Error("A saved page changes nothing. Open it in h2h serve.");
  const options = { method: "POST", headers: { "content-type": "application/json", "x-h2h": "1" }, body: JSON.stringify(body || {}) };
  return answer(await reach(path, options), null);
}

// Send a file as it is.
export async function send(path, query, file) {
  if (saved) throw new Error("A saved page changes nothing. Open it in h2h serve.");
  const options = { method: "POST", headers: { "content-type": "application/octet-stream", "x-h2h": "1" }, body: file };
  return answer(await reach(key(path, query), options), null);
}

async function reach(name, options) {
  try {
    return await fetch(name, options);
  } catch {
    throw new Error("The server does not answer. Start it again with h2h serve; this page connects by itself.");
  }
}

const asked = new Map(); // what the page was answered, for saving it as one file

export const answers = () => Object.fromEntries(asked);
export const forget = () => asked.clear();

async function answer(response, name) {
  let value = null;
  try {
    value = await response.json();
  } catch {
    throw new Error(`The server answered ${response.status} without a text. Its terminal may say more.`);
  }
  if (!response.ok) throw new Error(value && value.error ? sentence(value.error) : `The server answered ${response.status}.`);
  if (name !== null) {
    asked.set(name, value);
    if (asked.size > 200) asked.delete(asked.keys().next().value);
  }
  return value;
}

// A message as a sentence. A name at its beginning, such as Bin.txt, keeps its letters.
const sentence = (text) => (/^[\w-]+\.\w/.test(text) ? text : text.charAt(0).toUpperCase() + text.slice(1)) + (/[.!?]$/.test(text) ? "" : ".");

// Events of the store: listeners by kind. The browser connects again by itself when the server comes back.
const listeners = new Map();
let progress = null; // the last one that was told

export function on(kind, listener) {
  if (!listeners.has(kind)) listeners.set(kind, new Set());
  listeners.get(kind).add(listener);
  if (kind === "progress" && progress) queueMicrotask(() => listener(progress)); // told before this page was there
  return () => listeners.get(kind).delete(listener);
}

function emit(kind, value) {
  if (kind === "progress") progress = value;
  for (const listener of listeners.get(kind) || []) listener(value);
}

// A browser has six connections to a server for all its tabs, so a tab in the background gives its own up. After a gap
// pages are told to read everything again: "again".
export function connect() {
  if (saved) return;
  let source = null;
  let opened = 0;
  let waiting = null;
  const close = () => {
    clearTimeout(waiting);
    if (source) source.close();
    source = null;
  };
  const open = () => {
    close();
    const mine = new EventSource("events");
    source = mine;
    mine.onopen = () => {
      emit("connected", true);
      if (opened++) emit("again", true);
    };
    mine.onerror = () => {
      if (mine !== source) return;
      emit("connected", false);
      if (mine.readyState === EventSource.CLOSED) waiting = setTimeout(open, 2000);
    };
    for (const kind of ["hello", "ready", "study", "progress"]) {
      mine.addEventListener(kind, (event) => emit(kind, JSON.parse(event.data)));
    }
  };
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "hidden") close();
    else if (!source) open();
  });
  open();
}
