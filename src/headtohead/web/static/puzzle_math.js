// The attention of the puzzles, computed in the page as an answer changes. The server computes the same in the models of
// headtohead when an answer is checked, and the page says so if the two differ.

export const dot = (a, b) => a.reduce((sum, x, n) => sum + x * b[n], 0);
export const length = (a) => Math.sqrt(dot(a, a));

export function softmax(scores) {
  const top = Math.max(...scores);
  const e = scores.map((x) => Math.exp(x - top));
  const sum = e.reduce((a, b) => a + b, 0);
  return e.map((x) => x / sum);
}

const apart = (a, b) => 0.5 * a.reduce((sum, x, n) => sum + Math.abs(x - b[n]), 0);
const oneHot = (n, at) => Array.from({ length: n }, (_, i) => (i === at ? 1 : 0));
const clip = (x) => Math.min(1, Math.max(0, x));

// The attention that an answer gives: { weights, target, distance } with rows of queries, and what else is drawn.
export function measure(puzzle, answer) {
  return (KINDS[puzzle.name] || byKeys)(puzzle, answer);
}

// -- a query and its keys ---------------------------------------------------------------------------------------------

export const THIRD = 2; // the key that puzzles 5 and 6 replace

export function keysOf(puzzle, answer) {
  return answer.key ? puzzle.given.keys.map((key, n) => (n === THIRD ? answer.key : key)) : puzzle.given.keys;
}

export function queriesOf(puzzle, answer) {
  if (answer.key) return [puzzle.given.query];
  return Array.isArray(answer.query[0]) ? answer.query : [answer.query];
}

function byKeys(puzzle, answer) {
  const keys = keysOf(puzzle, answer);
  const scores = queriesOf(puzzle, answer).map((q) => keys.map((k) => dot(q, k)));
  const weights = scores.map(softmax);
  const target = Array.isArray(puzzle.target[0]) ? puzzle.target : [puzzle.target];
  const distance = Math.max(...weights.map((row, n) => clip(apart(row, target[n]))));
  const long = answer.key ? length(answer.key) : 1;
  const fault = puzzle.name === "unit-key" && Math.abs(long - 1) > 0.005 ? `the key has length ${long.toPrecision(4)}, but must have length 1` : "";
  return { weights, target, scores, distance, fault };
}

// -- places -----------------------------------------------------------------------------------------------------------

// Causal attention in texts of T tokens; `score(text, i, j)`; every query i should attend to `place(i)`, if not negative.
function byPlaces(T, texts, score, place, curve) {
  let worst = 1;
  let weights = null;
  for (let text = 0; text < texts; text++) {
    const map = [];
    for (let i = 0; i < T; i++) {
      const row = softmax(Array.from({ length: i + 1 }, (_, j) => score(text, i, j)));
      if (place(i) >= 0) worst = Math.min(worst, row[place(i)]);
      if (!text) map.push([...row, ...new Array(T - 1 - i).fill(0)]);
    }
    if (!text) weights = map;
  }
  const target = weights.map((row, i) => (place(i) >= 0 ? oneHot(T, place(i)) : row));
  return { weights, target, distance: clip(1 - worst), places: weights.map((_, i) => place(i)), curve };
}

const waves = (frequencies, at) => frequencies.flatMap((w) => [Math.sin(at * w), Math.cos(at * w)]);

function previous({ material }, { shift, scale }) {
  const { texts, vectors, frequencies } = material;
  const T = texts[0].length;
  const at = Array.from({ length: T }, (_, i) => waves(frequencies, i));
  const turned = frequencies.map((w) => [Math.cos(shift * w), Math.sin(shift * w)]);
  const keys = texts.map((ids) => ids.map((id, i) => vectors[id].map((x, n) => x + at[i][n])));
  const queries = keys.map((rows) => rows.map((x) => turned.flatMap(([c, s], m) => [scale * (c * x[2 * m] - s * x[2 * m + 1]), scale * (s * x[2 * m] + c * x[2 * m + 1])])));
  const curve = (back) => scale * frequencies.reduce((sum, w) => sum + Math.cos((back - shift) * w), 0);
  return byPlaces(T, texts.length, (text, i, j) => dot(queries[text][i], keys[text][j]), (i) => i - 1, curve);
}

const first = (puzzle, { score }) => byPlaces(64, 1, (_, i, j) => (j ? 0 : score), () => 0, null);

function rotary({ material, given }, { angle, scale }) {
  const curve = (back) => scale * material.frequencies.reduce((sum, w, m) => sum + Math.cos(back * w - angle[m]), 0);
  return byPlaces(32, 1, (_, i, j) => curve(i - j), (i) => i - given.back, curve);
}

function linear({ given }, { slope }) {
  const curve = (back) => -slope * back;
  return byPlaces(32, 1, (_, i, j) => curve(i - j), (i) => i - given.back, curve);
}

// -- contents ---------------------------------------------------------------------------------------------------------

function copy({ material }, { scale }) {
  const { texts, vectors } = material;
  const n = vectors.length;
  const like = vectors.map((u) => vectors.map((v) => dot(u, v)));
  let worst = 1;
  let right = 0;
  const weights = [];
  const target = [];
  const worstOf = new Array(n).fill(1);
  texts.forEach((items, text) => {
    const asked = text % n;
    const row = softmax([...items.map((item) => scale * like[item][asked]), 0]); // the last token has no item
    const at = items.indexOf(asked);
    worst = Math.min(worst, row[at]);
    worstOf[asked] = Math.min(worstOf[asked], row[at]);
    const logits = vectors.map((_, m) => items.reduce((sum, item, i) => sum + row[i] * like[item][m], 0));
    right += logits.indexOf(Math.max(...logits)) === asked;
    if (text < n) {
      weights.push(row);
      target.push(oneHot(n + 1, at));
    }
  });
  return { weights, target, distance: clip(1 - worst), worstOf, right: right / texts.length };
}

function majority({ material, given }, { tilt }) {
  const n = given.length;
  let worst = 0;
  let right = 0;
  let closest = null;
  const shares = new Map(); // of b in the output, by its count
  for (const ids of material.texts) {
    const count = ids.reduce((a, b) => a + b, 0);
    const row = softmax(ids.map((id) => (id ? 0 : tilt)));
    const share = row.reduce((sum, w, i) => sum + w * ids[i], 0);
    const other = row.reduce((sum, w, i) => sum + w * (1 - ids[i]), 0);
    right += (share > other) === (count > n / 2);
    shares.set(count, share);
    worst = Math.max(worst, apart(row, row.map(() => 1 / n)));
    if (closest === null && count === (n + 1) / 2) closest = { ids, row };
  }
  return { weights: [closest.row], target: [closest.row.map(() => 1 / n)], distance: worst, accuracy: right / material.texts.length, shares, ids: closest.ids };
}

function induction({ material }, { scale }) {
  const T = material.texts[0].length;
  let worst = 1;
  let right = 0;
  let asked = 0;
  let kept = null;
  material.texts.forEach((ids, text) => {
    const layer1 = ids.map((_, i) => softmax(Array.from({ length: i + 1 }, (_x, j) => (j === i - 1 ? scale[0] : 0))));
    const before = layer1.map((row) => row.reduce((held, w, j) => { held[ids[j]] = (held[ids[j]] || 0) + w; return held; }, {}));
    const layer2 = ids.map((id, i) => softmax(Array.from({ length: i + 1 }, (_, j) => scale[1] * (before[j][id] || 0))));
    const places = ids.map((id, i) => (ids.slice(0, i).filter((x) => x === id).length === 1 ? ids.indexOf(id) + 1 : -1));
    places.forEach((place, i) => {
      if (place < 0) return;
      asked += 1;
      worst = Math.min(worst, layer2[i][place]);
      const votes = new Array(16).fill(0);
      layer2[i].forEach((w, j) => { votes[ids[j]] += w; });
      right += votes.indexOf(Math.max(...votes)) === ids[place];
    });
    const whole = (map) => map.map((row) => [...row, ...new Array(T - row.length).fill(0)]);
    if (!text) kept = { weights: whole(layer2), first: whole(layer1), places, ids };
  });
  const target = kept.weights.map((row, i) => (kept.places[i] >= 0 ? oneHot(T, kept.places[i]) : row));
  return { ...kept, target, distance: clip(1 - worst), accuracy: right / asked };
}

const KINDS = { previous, first, copy, majority, induction, rotary, linear };
