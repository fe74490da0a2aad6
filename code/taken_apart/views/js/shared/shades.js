// The colours of numbers, and their text in a narrow cell.

// Eight steps of the sequential map. The fifth is skipped: no ink is legible on it.
export function level(share) {
  return [0, 1, 2, 3, 4, 6, 7, 8][Math.min(7, Math.floor(Math.max(0, share) * 8))];
}

// Two decimals, or what a float holds instead of a number of that size.
export function cellText(x) {
  if (Number.isNaN(x)) return "nan";
  const size = Math.abs(x);
  const sign = x < 0 ? "\u2212" : "";
  if (size === Infinity) return `${sign}\u221e`;
  if (size >= 1e6) return sign + size.toExponential(0).replace("e+", "e");
  return sign + (size >= 1000 ? String(Math.round(size)) : size.toFixed(2));
}
