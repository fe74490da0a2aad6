// The numbers of one row of attention: no page, no drawing.
import { entropy } from "../../../../taken_apart/views/js/attention_map/attention_math.js";

export function terms(query, key) {
  return query.map((value, i) => value * key[i]);
}

export function dot(query, key) {
  return terms(query, key).reduce((sum, term) => sum + term, 0);
}

export function softmax(scores) {
  const most = Math.max(...scores);
  const grown = scores.map((score) => Math.exp(score - most));
  const sum = grown.reduce((a, b) => a + b, 0);
  return grown.map((each) => each / sum);
}

// The weights that one query gives to the keys.
export function weightsOf(query, keys, divisor) {
  return softmax(keys.map((key) => dot(query, key) / divisor));
}

// Entropy over its maximum: 1 where all weigh the same, 0 where one has everything.
export function evenness(weights) {
  return weights.length > 1 ? entropy(weights) / Math.log2(weights.length) : 0;
}

// The Frobenius norm of diag(w) - w w^T, the derivative of softmax.
export function slope(weights) {
  const power = (n) => weights.reduce((sum, w) => sum + w ** n, 0);
  return Math.sqrt(Math.max(0, power(2) - 2 * power(3) + power(2) ** 2));
}

// What the query receives: the values, each times its weight, added up.
export function mixed(weights, values) {
  return values[0].map((_, i) => weights.reduce((sum, w, k) => sum + w * values[k][i], 0));
}
