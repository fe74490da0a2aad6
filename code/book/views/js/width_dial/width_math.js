// Queries and keys drawn at random, the same at every visit: no page, no drawing.
import { evenness, slope, softmax } from "../scale_dial/scale_math.js";

// Number i of the sequence of a seed, from 0 to 1: the generator "mulberry32", whose
// state grows by the same step at every draw, so that any number can be asked for.
export function uniform(seed, i) {
  const state = (seed + Math.imul(i + 1, 1831565813)) | 0;
  let mixture = Math.imul(state ^ (state >>> 15), state | 1);
  mixture ^= mixture + Math.imul(mixture ^ (mixture >>> 7), mixture | 61);
  return ((mixture ^ (mixture >>> 14)) >>> 0) / 2 ** 32;
}

// Number i of a sequence with mean 0 and variance 1 (Box and Muller).
export function normal(seed, i) {
  const far = Math.sqrt(-2 * Math.log(1 - uniform(seed, 2 * i)));
  return far * Math.cos(2 * Math.PI * uniform(seed, 2 * i + 1));
}

// Scores [width][query][key]: a width takes the first entries of the widest vectors.
export function drawScores({ seed, widths, n_queries: Q, n_keys: N }) {
  const widest = Math.max(...widths);
  const vector = (start) =>
    Float64Array.from({ length: widest }, (_, i) => normal(seed, start + i));
  const scores = widths.map(() => []);
  for (let q = 0; q < Q; q++) {
    const first = q * (N + 1) * widest;
    const query = vector(first);
    for (const line of scores) line.push([]);
    for (let k = 1; k <= N; k++) {
      const key = vector(first + k * widest);
      let sum = 0;
      for (let i = 0; i < widest; i++) {
        sum += query[i] * key[i];
        const at = widths.indexOf(i + 1);
        if (at >= 0) scores[at][q].push(sum);
      }
    }
  }
  return scores;
}

export const RULES = { 1: () => 1, "√K": Math.sqrt, K: (width) => width };

// What 100 rows are like at one width, under one divisor: means, but for `closed`.
export function measured(scores, divisor) {
  const rows = scores.map((line) => softmax(line.map((score) => score / divisor)));
  const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
  return {
    spread: Math.sqrt(mean(scores.flat().map((score) => score ** 2))),
    evenness: mean(rows.map(evenness)),
    slope: mean(rows.map(slope)),
    closed: rows.filter((row) => Math.max(...row) > 0.99).length,
  };
}
