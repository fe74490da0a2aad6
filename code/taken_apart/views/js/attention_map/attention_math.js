// The numbers behind an attention map: no page, no drawing.

// Weights travel as round(weight * 10^digits) in 16 bits: all low bytes, then all high
// bytes, an order that deflates better. A weight that is exactly 0 (masked, as a rule)
// has a code of its own, `exactZero`, which tells it from one that rounds to 0.
export function decodeWeights(view, digits, exactZero) {
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  const n = bytes.length / 2;
  const unit = 10 ** -digits;
  const values = new Float32Array(n);
  const zero = new Uint8Array(n);
  for (let i = 0; i < n; i++) {
    const code = bytes[i] + 256 * bytes[n + i];
    if (code === exactZero) zero[i] = 1;
    else values[i] = code * unit;
  }
  return { values, zero };
}

// One head's map, a window into the decoded weights of [samples, layers, heads, Q, K].
export function headMap({ values, zero }, shape, sample, layer, head) {
  const [, layers, heads, Q, K] = shape;
  const size = Q * K;
  const start = ((sample * layers + layer) * heads + head) * size;
  return {
    Q,
    K,
    values: values.subarray(start, start + size),
    zero: zero.subarray(start, start + size),
  };
}

export function rowOf(map, q) {
  return map.values.subarray(q * map.K, (q + 1) * map.K);
}

export function columnOf(map, k) {
  return Float32Array.from({ length: map.Q }, (_, q) => map.values[q * map.K + k]);
}

// A smaller map: in each of rows x columns blocks the largest weight; a block is an exact
// zero where all its weights are.
export function pool(map, rows, columns) {
  const values = new Float32Array(rows * columns);
  const zero = new Uint8Array(values.length).fill(1);
  map.values.forEach((weight, i) => {
    const q = Math.floor((Math.floor(i / map.K) * rows) / map.Q);
    const place = q * columns + Math.floor(((i % map.K) * columns) / map.K);
    values[place] = Math.max(values[place], weight);
    zero[place] &= map.zero[i];
  });
  return { Q: rows, K: columns, values, zero };
}

// The mean weight that each key gets from the queries.
export function columnMeans(map) {
  const means = new Float32Array(map.K);
  map.values.forEach((weight, i) => (means[i % map.K] += weight / map.Q));
  return means;
}

export function total(weights) {
  return weights.reduce((sum, weight) => sum + weight, 0);
}

export function largest(weights) {
  return weights.reduce((most, weight) => Math.max(most, weight), 0);
}

// Entropy in bits of the weights taken as shares of their sum: 0 when one has all, and
// log2(n) when n share alike.
export function entropy(weights) {
  const sum = total(weights);
  const term = (weight) => (weight > 0 ? (weight / sum) * Math.log2(sum / weight) : 0);
  return weights.reduce((bits, weight) => bits + term(weight), 0);
}

// The places of the n largest weights above zero, largest first.
export function strongest(weights, n) {
  const places = Array.from(weights.keys()).filter((i) => weights[i] > 0);
  return places.sort((i, j) => weights[j] - weights[i] || i - j).slice(0, n);
}

// 256 colours between stops such as "#f7fbff", each as the four bytes of a pixel.
export function colourRamp(stops) {
  const points = stops.map((hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)));
  const bytes = Array.from({ length: 256 }, (_, i) => {
    const place = (i / 255) * (points.length - 1);
    const left = Math.min(Math.floor(place), points.length - 2);
    const part = place - left;
    return [...points[left].map((c, j) => c + part * (points[left + 1][j] - c)), 255];
  });
  return new Uint32Array(Uint8ClampedArray.from(bytes.flat()).buffer);
}

// The index of a weight's colour when `top` has the last colour.
export function shade(weight, top) {
  return top > 0 ? Math.round(255 * Math.min(1, weight / top)) : 0;
}

// One head as a table for a spreadsheet: tabs between columns, tokens in the margins.
export function toTable(map, queries, keys, digits) {
  const cell = (token) => token.replace(/\s+/g, " ");
  const line = (token, q) =>
    [cell(token), ...Array.from(rowOf(map, q), (w) => w.toFixed(digits))].join("\t");
  return [["", ...keys.map(cell)].join("\t"), ...queries.map(line)].join("\n");
}
