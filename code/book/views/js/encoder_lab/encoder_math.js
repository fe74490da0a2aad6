// The forward pass of encoder.py for one sentence, in float64, with every number kept.
// A matrix is { rows, cols, data }, row after row; a vector is a matrix of one row.
// Letters as in the book: T tokens, D = d_model, H heads, K = d_head, F = d_ff, V words.

export function matrix(rows, cols) {
  return { rows, cols, data: new Float64Array(rows * cols) };
}

// From nested arrays, as JSON holds them: a list of rows, or one list of numbers.
export function toMatrix(values) {
  const rows = Array.isArray(values[0]) ? values : [values];
  const cols = rows[0].length;
  return { rows: rows.length, cols, data: Float64Array.from(rows.flat()) };
}

export const at = (m, row, col) => m.data[row * m.cols + col];

export function add(a, b) {
  return { ...a, data: a.data.map((value, index) => value + b.data[index]) };
}

export function times(a, factor) {
  return { ...a, data: a.data.map((value) => value * factor) };
}

export function relu(a) {
  return { ...a, data: a.data.map((value) => Math.max(value, 0)) };
}

// The dot product of `count` numbers of two arrays, from one place in each.
export function dot(a, startA, b, startB, count) {
  let sum = 0;
  for (let k = 0; k < count; k++) sum += a[startA + k] * b[startB + k];
  return sum;
}

// torch's linear map: a row of `weight` (out, in) makes one number out.
export function linear(x, weight, bias) {
  const y = matrix(x.rows, weight.rows);
  const n = x.cols;
  for (let t = 0; t < y.rows; t++) {
    for (let o = 0; o < y.cols; o++) {
      y.data[t * y.cols + o] = dot(x.data, t * n, weight.data, o * n, n) + bias.data[o];
    }
  }
  return y;
}

// The angle at place t: each pair of columns is one clock, the last one the slowest.
export function angle(t, column, dModel) {
  return t / 10000 ** ((column - (column % 2)) / dModel);
}

export function sinusoid(t, column, dModel) {
  return column % 2 ? Math.cos(angle(t, column, dModel)) : Math.sin(angle(t, column, dModel));
}

export function sinusoidalPositions(nTokens, dModel) {
  const table = matrix(nTokens, dModel);
  return {
    ...table,
    data: table.data.map((_, i) => sinusoid(Math.floor(i / dModel), i % dModel, dModel)),
  };
}

// The mean and the biased variance of one row.
export function moments(x, row) {
  const values = x.data.subarray(row * x.cols, (row + 1) * x.cols);
  const mean = values.reduce((sum, value) => sum + value, 0) / x.cols;
  return { mean, variance: values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.cols };
}

export function layerNorm(x, gain, bias) {
  const y = matrix(x.rows, x.cols);
  for (let t = 0; t < x.rows; t++) {
    const { mean, variance } = moments(x, t);
    const deviation = Math.sqrt(variance + 1e-5);
    for (let d = 0; d < x.cols; d++) {
      y.data[t * x.cols + d] = ((at(x, t, d) - mean) / deviation) * gain.data[d] + bias.data[d];
    }
  }
  return y;
}

// Scores (T, T) of one head, which owns the columns from head * K to (head + 1) * K.
export function scoresOf(query, key, head, dHead, divisor) {
  const scores = matrix(query.rows, key.rows);
  const from = head * dHead;
  for (let i = 0; i < query.rows; i++) {
    for (let j = 0; j < key.rows; j++) {
      const fit = dot(query.data, i * query.cols + from, key.data, j * key.cols + from, dHead);
      scores.data[i * key.rows + j] = fit / divisor;
    }
  }
  return scores;
}

// Softmax over the keys that are not padding; a row without any stays zero.
export function softmaxRows(scores, padding) {
  const weights = matrix(scores.rows, scores.cols);
  const visible = [...padding.keys()].filter((j) => !padding[j]);
  for (let i = 0; i < scores.rows; i++) {
    const top = Math.max(...visible.map((j) => at(scores, i, j)));
    const strength = visible.map((j) => Math.exp(at(scores, i, j) - top));
    const total = strength.reduce((sum, value) => sum + value, 0);
    visible.forEach((j, n) => (weights.data[i * scores.cols + j] = strength[n] / total));
  }
  return weights;
}

// Mix the values of one head into its columns of the context.
function mixInto(context, weights, value, head, dHead) {
  for (let i = 0; i < weights.rows; i++) {
    for (let j = 0; j < weights.cols; j++) {
      const weight = at(weights, i, j);
      for (let c = head * dHead; c < (head + 1) * dHead; c++) {
        context.data[i * context.cols + c] += weight * at(value, j, c);
      }
    }
  }
}

// Attention of all heads. A head that is off hands on zeros in place of its mix.
export function attend(x, part, nHeads, padding, isOff) {
  const dHead = x.cols / nHeads;
  const divisor = isOff("scale") ? 1 : Math.sqrt(dHead);
  const [query, key, value] = ["query", "key", "value"].map((name) => part(name, x));
  const scores = [];
  const weights = [];
  const context = matrix(x.rows, x.cols);
  for (let head = 0; head < nHeads; head++) {
    scores.push(scoresOf(query, key, head, dHead, divisor));
    weights.push(softmaxRows(scores[head], padding));
    if (!isOff(`head${head}`)) mixInto(context, weights[head], value, head, dHead);
  }
  return { query, key, value, scores, weights, context, mixed: part("output", context) };
}

// One layer, every step by name. Post-LN normalises after each sum, Pre-LN before each part.
function runLayer(x, parameters, name, nHeads, padding, normFirst, isOff) {
  const map = (path, input) =>
    linear(input, parameters[`${path}.weight`], parameters[`${path}.bias`]);
  const norm = (n, input) =>
    layerNorm(input, parameters[`${name}.norm${n}.weight`], parameters[`${name}.norm${n}.bias`]);
  const join = (n, kept, made) => (isOff(`residual${n}`) ? made : add(kept, made));
  const steps = { x };
  if (normFirst) steps.norm1 = norm(1, x);
  const inside = (part, input) => map(`${name}.attention.${part}`, input);
  Object.assign(steps, attend(steps.norm1 ?? x, inside, nHeads, padding, isOff));
  steps.sum1 = join(1, x, steps.mixed);
  if (normFirst) steps.norm2 = norm(2, steps.sum1);
  else steps.norm1 = norm(1, steps.sum1);
  const middle = normFirst ? steps.norm2 : steps.norm1;
  steps.hidden = relu(map(`${name}.feed_forward.up`, middle));
  steps.fed = map(`${name}.feed_forward.down`, steps.hidden);
  steps.sum2 = join(2, normFirst ? steps.sum1 : middle, steps.fed);
  steps.output = normFirst ? steps.sum2 : norm(2, steps.sum2);
  if (!normFirst) steps.norm2 = steps.output;
  return steps;
}

// A norm without stored numbers, as in a fresh nn.LayerNorm: gain 1, bias 0.
function finalNorm(x, parameters) {
  const ones = { rows: 1, cols: x.cols, data: new Float64Array(x.cols).fill(1) };
  const gain = parameters["final_norm.weight"] ?? ones;
  return layerNorm(x, gain, parameters["final_norm.bias"] ?? matrix(1, x.cols));
}

export function embed(table, ids) {
  const rows = ids.map((id) => table.data.subarray(id * table.cols, (id + 1) * table.cols));
  const data = Float64Array.from(rows.flatMap((row) => [...row]));
  return times({ rows: ids.length, cols: table.cols, data }, Math.sqrt(table.cols));
}

// Run the encoder on one sentence: ids (T), padding (T) of true = padding. `off` names
// what is left out: "scale", "positions", "layers.0.residual1", "layers.1.head0".
export function forward(model, ids, padding, { normFirst = false, off = [] } = {}) {
  const { parameters, n_heads: nHeads, n_layers: nLayers } = model;
  const embedded = embed(parameters["embedding.weight"], ids);
  const positions = off.includes("positions")
    ? matrix(ids.length, embedded.cols)
    : sinusoidalPositions(ids.length, embedded.cols);
  const input = add(embedded, positions);
  const layers = [];
  for (let l = 0, x = input; l < nLayers; l++, x = layers.at(-1).output) {
    const name = `layers.${l}`;
    const isOff = (part) => off.includes(part === "scale" ? part : `${name}.${part}`);
    layers.push(runLayer(x, parameters, name, nHeads, padding, normFirst, isOff));
  }
  const last = layers.at(-1).output;
  return {
    embedded,
    positions,
    input,
    layers,
    output: normFirst ? finalNorm(last, parameters) : last,
  };
}

// Chances of every word at every place, (T, V): the head shares the embedding's numbers.
export function guess(model, output) {
  const { "embedding.weight": words, "head.bias": bias } = model.parameters;
  const logits = linear(output, words, bias);
  return { logits, chances: softmaxRows(logits, Array(words.rows).fill(false)) };
}

// Who can affect whom, (T, T): entry (i, j) is how far the output of token i moves when
// token j becomes another word, as a part of that output's own length (2-norms); the mean
// over `swaps` words, those that follow token j's in the word list.
export function influence(model, ids, padding, options, swaps = 4) {
  const base = forward(model, ids, padding, options).output;
  const total = matrix(ids.length, ids.length);
  const nWords = model.parameters["embedding.weight"].rows;
  for (let j = 0; j < ids.length; j++) {
    for (let swap = 1; swap <= swaps; swap++) {
      const changed = ids.with(j, (ids[j] + swap) % nWords);
      const moved = forward(model, changed, padding, options).output;
      for (let i = 0; i < ids.length; i++)
        total.data[i * ids.length + j] += distance(base, moved, i) / swaps;
    }
  }
  return total;
}

function distance(a, b, row) {
  let moved = 0;
  let length = 0;
  for (let d = 0; d < a.cols; d++) {
    moved += (at(a, row, d) - at(b, row, d)) ** 2;
    length += at(a, row, d) ** 2;
  }
  return Math.sqrt(moved / length);
}

// The model of the JSON file, with matrices in place of nested arrays.
export function readModel(stored) {
  const entries = Object.entries(stored.parameters).map(([name, values]) => [
    name,
    toMatrix(values),
  ]);
  return { ...stored, parameters: Object.fromEntries(entries) };
}

// A copy of the model with some of its numbers replaced: edits are [name, row, col, value].
export function withEdits(model, edits) {
  const parameters = { ...model.parameters };
  for (const [name, row, col, value] of edits) {
    const old = parameters[name];
    if (!(row < old?.rows && col < old?.cols))
      throw new Error(`There is no number ${name}[${row}, ${col}].`);
    const data = old.data.slice();
    data[row * old.cols + col] = value;
    parameters[name] = { ...old, data };
  }
  return { ...model, parameters };
}
