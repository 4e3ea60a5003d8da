// Questions to models: answers are kept for a while; long work has news on the way, one value of JSON in each line.

import { ask, isSaved, tell } from "./api.js";

const SHORT = 4000; // characters of a question that goes into the address, so that a saved page has the answer
const KEPT = 60;
const known = new Map();

export function look(path, body) {
  const fields = Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null && value !== undefined && value !== ""));
  const key = path + JSON.stringify(fields);
  if (known.has(key)) {
    const kept = known.get(key);
    known.delete(key);
    known.set(key, kept); // the newest is the last
    return kept;
  }
  const answer = isSaved || key.length < SHORT ? ask(path, fields) : tell(path, fields);
  known.set(key, answer);
  if (known.size > KEPT) known.delete(known.keys().next().value);
  answer.catch(() => known.delete(key));
  return answer;
}

export async function follow(path, body, told, signal) {
  if (isSaved) throw new Error("A saved page computes nothing. Open it in h2h serve.");
  const headers = { "content-type": "application/json", "x-h2h": "1" };
  let response = null;
  try {
    response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal });
  } catch (error) {
    if (signal && signal.aborted) throw error;
    throw new Error("The server does not answer. Start it again with h2h serve.");
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    const lines = (rest + (value || "")).split("\n");
    rest = done ? "" : lines.pop();
    for (const line of lines.filter(Boolean)) {
      const said = JSON.parse(line);
      if (said.error) throw new Error(said.error.charAt(0).toUpperCase() + said.error.slice(1) + ".");
      told(said);
    }
    if (done) return;
  }
}

export const isAbort = (error) => error && error.name === "AbortError";
