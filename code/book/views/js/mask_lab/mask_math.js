// One attention under a mask, as six functions compute it, in float32 or float16.

export const LOWEST = { float32: -3.4028234663852886e38, float16: -65504 };

// The nearest number that float16 has: 11 bits, nothing beyond 65504.
export function half(x) {
  const size = Math.abs(x);
  if (size === 0 || !Number.isFinite(x)) return x;
  if (size >= 65520) return Math.sign(x) * Infinity;
  let exponent = Math.max(Math.floor(Math.log2(size)), -14);
  if (2 ** exponent > size && exponent > -14) exponent -= 1;
  const step = 2 ** (exponent - 10);
  const steps = size / step;
  const low = Math.floor(steps);
  const up = steps - low > 0.5 || (steps - low === 0.5 && low % 2 === 1);
  return Math.sign(x) * (low + (up ? 1 : 0)) * step;
}

const ROUND = { float32: Math.fround, float16: half };

// The number that a fill stands for in a format; "lowest" is the format's own.
export const fillValue = (fill, format) =>
  ({ "-inf": -Infinity, "-1e9": -1e9, lowest: LOWEST[format] })[fill];

const times = (n, make) => Array.from({ length: n }, (_, i) => make(i));
const grid = (rows, cols, make) => times(rows, (i) => times(cols, (j) => make(i, j)));

// The masks of the buttons: does the query i not see the key j?
export function presets(nTokens, padding, nCross) {
  const padded = (i) => padding.includes(i);
  const self = (rule) => grid(nTokens, nTokens, rule);
  const first = times(nTokens, (i) => i).find((i) => !padded(i)) ?? 0;
  const all = {
    nothing: self(() => false),
    padding: self((_, j) => padded(j)),
    "queries instead": self((i) => padded(i)),
    causal: self((i, j) => j > i),
    "causal + padding": self((i, j) => j > i || padded(j)),
    window: self((i, j) => Math.abs(i - j) > 1),
    "nobody for one": self((i, j) => i === first || padded(j)),
  };
  if (nCross) all.cross = grid(nCross, nTokens, (_, j) => padded(j));
  return all;
}

// A mask that says the same for every query needs one row only.
export const isPerKey = (blocked) => blocked.every((row) => `${row}` === `${blocked[0]}`);

// What each convention writes for a pair: the type of its numbers, and the number.
const CONVENTIONS = {
  blocked: { dtype: "bool", write: (hides) => hides },
  mha: { dtype: "bool", write: (hides) => hides },
  sdpa: { dtype: "bool", write: (hides) => !hides },
  added: { dtype: "float", write: (hides, fill) => (hides ? fill : 0) },
  ones: { dtype: "int", write: (hides) => (hides ? 0 : 1) },
};

const TOO_LOW = "RuntimeError: value cannot be converted to type c10::Half without overflow";
const overflows = (fill, format) => fill === "-1e9" && format === "float16";

// A mask as one convention writes it: { dtype, rows }, or { error }.
export function writeMask(blocked, { written, fill, format }) {
  const { dtype, write } = CONVENTIONS[written];
  if (written === "added" && overflows(fill, format)) return { error: TOO_LOW };
  const shown = isPerKey(blocked) ? [blocked[0]] : blocked;
  return {
    dtype,
    rows: shown.map((row) => row.map((hides) => write(hides, fillValue(fill, format)))),
  };
}

// What each function does with a mask: the types it takes, the truth value that hides,
// the number it puts in. `empty`: zeros for a query that sees nothing.
const FUNCTIONS = {
  attention: { takes: ["bool"], hides: true, fill: "lowest", empty: true, zeros: true },
  mha: { takes: ["bool", "float"], hides: true, fill: "-inf" },
  sdpa: { takes: ["bool", "float"], hides: false, fill: "-inf", empty: true, wide: true },
  filled: { takes: ["bool"], hides: true },
  added: { takes: ["bool", "float", "int"] },
  rule: { takes: ["bool", "float", "int"], ones: true },
};

const LONG = { bool: "torch.bool", int: "torch.int64" };
const REFUSALS = {
  attention: (dtype, format) =>
    `TypeError: blocked must be bool, True = unseen, got ${LONG[dtype] ?? `torch.${format}`}`,
  mha: (_, __, perKey) => {
    const name = perKey ? "key_padding_mask" : "attn_mask";
    return `AssertionError: only bool and floating types of ${name} are supported`;
  },
  sdpa: () => "RuntimeError: Expected attn_mask dtype to be bool or float or to match query dtype",
  filled: () => "RuntimeError: masked_fill_ only supports boolean masks",
};

// Which number stands in the place of hidden scores, and whether the reader chooses it.
export function fillOf({ written, handed, fill }) {
  if (written === "added" || handed === "filled") return { fill, isChosen: true };
  const { fill: own, ones } = FUNCTIONS[handed];
  return { fill: own ?? (ones ? "lowest" : "none"), isChosen: false };
}

// The score of one pair once the function has read its entry m of the mask.
function maskScore(rules, dtype, score, m, { fill, format }) {
  const round = ROUND[rules.wide ? "float32" : format];
  if (rules.ones) return round(score + round(round(1 - m) * LOWEST[format]));
  if (dtype !== "bool" || rules.hides === undefined) return round(score + Number(m));
  return m === rules.hides ? fillValue(rules.fill ?? fill, format) : score;
}

function softmax(row) {
  const top = Math.max(...row);
  const strengths = row.map((score) => Math.exp(score - top));
  const total = strengths.reduce((sum, strength) => sum + strength, 0);
  return strengths.map((strength) => strength / total);
}

// Scores, masked scores, weights and output of `handed` when it is given a mask as
// `written` writes it, all as nested lists; or { scores, error }, as torch says it.
// data: { query, key, value }; options: { written, handed, fill, format }.
export function attend({ query, key, value }, blocked, options) {
  const { handed, fill, format } = options;
  const rules = FUNCTIONS[handed];
  const round = ROUND[format];
  const inner = ROUND[rules.wide ? "float32" : format];
  const ready = (rows) => rows.map((row) => row.map(round));
  const [q, k, v] = [query, key, value].map(ready);
  const root = Math.sqrt(k[0].length);
  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
  const scores = q.map((a) => k.map((b) => inner(dot(a, b) / root)));
  const mask = writeMask(blocked, options);
  if (mask.error) return { scores, error: mask.error };
  if (!rules.takes.includes(mask.dtype)) {
    return { scores, mask, error: REFUSALS[handed](mask.dtype, format, mask.rows.length === 1) };
  }
  if (handed === "filled" && overflows(fill, format)) return { scores, mask, error: TOO_LOW };
  const entry = (i, j) => mask.rows[mask.rows.length === 1 ? 0 : i][j];
  const masked = scores.map((row, i) =>
    row.map((score, j) => maskScore(rules, mask.dtype, score, entry(i, j), options)),
  );
  const weights = masked.map((row, i) => share(row, (j) => entry(i, j), rules).map(inner));
  const mix = (row) =>
    times(v[0].length, (c) => round(row.reduce((sum, w, j) => sum + w * v[j][c], 0)));
  return {
    scores,
    mask,
    masked,
    weights: weights.map((row) => row.map(round)),
    output: weights.map(mix),
  };
}

function share(row, entry, rules) {
  if (rules.empty && row.every((score) => score === -Infinity)) return row.map(() => 0);
  return softmax(row).map((weight, j) => (rules.zeros && entry(j) === rules.hides ? 0 : weight));
}

// What may stand in the places of padding, made of its row and of all rows. Queries,
// keys and values are linear in it.
export const CONTENTS = {
  "its own vector": (row) => row,
  zeros: (row) => row.map(() => 0),
  "a copy of the first token": (_, rows) => rows[0],
  "its own vector, times ten": (row) => row.map((x) => 10 * x),
};

export function withContent({ query, key, value }, padding, content, isCross) {
  const put = CONTENTS[content];
  const change = (rows) => rows.map((row, i) => (padding.includes(i) ? put(row, rows) : row));
  return { query: isCross ? query : change(query), key: change(key), value: change(value) };
}

// How far the outputs of real tokens move when the content of the padding changes:
// { row, by }, the token that moves most; `by` is NaN where an output is.
export function drift(data, blocked, padding, isCross, options) {
  const outputs = Object.keys(CONTENTS).map(
    (content) => attend(withContent(data, padding, content, isCross), blocked, options).output,
  );
  if (!outputs[0]) return null;
  const moves = outputs.flatMap((output) =>
    output.map((row, i) => ({
      row: i,
      by: Math.max(...row.map((x, c) => Math.abs(x - outputs[0][i][c]))),
    })),
  );
  const real = moves.filter(({ row }) => isCross || !padding.includes(row));
  const isNan = real.find(({ by }) => Number.isNaN(by));
  return isNan ?? real.reduce((most, move) => (move.by > most.by ? move : most), { row: 0, by: 0 });
}

// What became of the mask, from the numbers alone: "error", "nan", "meant", "inverted",
// "leak" (with the largest weight of a hidden pair) or "other".
export function outcome(result, blocked, meant) {
  if (result.error) return { kind: "error", text: result.error };
  const pairs = result.weights.flatMap((row, i) =>
    row.map((weight, j) => ({ weight, hides: blocked[i][j], wanted: meant.weights[i][j] })),
  );
  if (pairs.some(({ weight }) => Number.isNaN(weight))) return { kind: "nan" };
  if (pairs.every(({ weight, wanted }) => Math.abs(weight - wanted) < 2e-3))
    return { kind: "meant" };
  const isHidden = ({ weight }) => weight < 1e-6;
  const hasVisible = pairs.filter(({ hides }) => !hides);
  if (hasVisible.length && hasVisible.every(isHidden)) return { kind: "inverted" };
  const most = Math.max(0, ...pairs.filter(({ hides }) => hides).map(({ weight }) => weight));
  return most > 1e-6 ? { kind: "leak", most } : { kind: "other" };
}

// The four ways to answer a query that may see nothing, for the first such row.
export const EMPTY_WAYS = [
  {
    says: "filled with \u2212inf",
    written: "blocked",
    handed: "filled",
    fill: "-inf",
    format: "float32",
  },
  {
    says: "filled with the lowest number",
    written: "blocked",
    handed: "filled",
    fill: "lowest",
    format: "float32",
  },
  {
    says: "the lowest of float16, added in the fused function",
    written: "added",
    handed: "sdpa",
    fill: "lowest",
    format: "float16",
  },
  {
    says: "this book, and the fused function with True and False",
    written: "blocked",
    handed: "attention",
    fill: "lowest",
    format: "float32",
  },
];

export const emptyRow = (blocked) => blocked.findIndex((row) => row.every(Boolean));

export function emptyAnswers(data, blocked) {
  const row = emptyRow(blocked);
  return EMPTY_WAYS.map((way) => ({ ...way, weights: attend(data, blocked, way).weights[row] }));
}
