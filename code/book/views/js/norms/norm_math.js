// LayerNorm, RMSNorm and BatchNorm on a few numbers: no page, no drawing.

export function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

// The mean square around the mean: divided by the count, not by one less.
export function variance(values) {
  const middle = mean(values);
  return mean(values.map((value) => (value - middle) ** 2));
}

export function meanSquare(values) {
  return mean(values.map((value) => value * value));
}

// Normalise one token; `kind` is "LayerNorm" or "RMSNorm", which has no beta.
export function normalise(kind, x, gamma, beta, eps) {
  const rms = kind === "RMSNorm";
  const middle = rms ? 0 : mean(x);
  const root = Math.sqrt((rms ? meanSquare(x) : variance(x)) + eps);
  return x.map((value, i) => (gamma[i] * (value - middle)) / root + (rms ? 0 : beta[i]));
}

// Every number that shares its mean and variance with the one at (row, column): all of
// its token in LayerNorm, all of its feature, over the whole batch, in BatchNorm.
export function shares(kind, row, column) {
  return kind === "LayerNorm" ? (r) => r === row : (_, c) => c === column;
}

// Normalise a batch, one row a token, padding and all. Returns { mean, variance, out }
// of the shape of the batch.
export function normaliseBatch(kind, rows, eps = 1e-5) {
  const columns = rows[0].map((_, c) => rows.map((row) => row[c]));
  const group = (r, c) => (kind === "LayerNorm" ? rows[r] : columns[c]);
  const each = (make) => rows.map((row, r) => row.map((value, c) => make(value, r, c)));
  const means = each((_, r, c) => mean(group(r, c)));
  const variances = each((_, r, c) => variance(group(r, c)));
  const out = each((value, r, c) => (value - means[r][c]) / Math.sqrt(variances[r][c] + eps));
  return { mean: means, variance: variances, out };
}

// The largest difference between two lists of numbers.
export function apart(a, b) {
  return Math.max(...a.map((value, i) => Math.abs(value - b[i])));
}

// The least of 1, 2 or 5 times a power of ten that is not below `size`.
export function roundUp(size) {
  if (!(size > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(size));
  return power * [1, 2, 5, 10].find((nice) => nice * power >= size * (1 - 1e-12));
}

// How far something has moved, in words.
export function movedText(size) {
  if (size < 1e-9) return "not at all";
  return size < 5e-3 ? "by less than 0.005" : `by up to ${shortText(size)}`;
}

// A number in few characters.
export function shortText(value) {
  const size = Math.abs(value);
  if (size < 1e-9) return "0.00"; // what is left of a zero by rounding
  if (size >= 1e4 || size < 5e-3) {
    return value.toExponential(1).replace("e+", "e");
  }
  return value.toFixed(size >= 100 ? 0 : 2);
}
