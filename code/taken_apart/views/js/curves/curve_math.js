// The numbers behind curves: no page, no drawing. Values are numbers; nan and inf,
// which JSON does not have, arrive as text.

export function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

// How many values a curve has before the first nan or inf.
export function stopOf(values) {
  const stop = values.findIndex((value) => !isNumber(value));
  return stop < 0 ? values.length : stop;
}

// The smallest and largest finite value before each curve's stop; [0, 1] without any.
export function rangeOf(curves) {
  let low = Infinity;
  let high = -Infinity;
  for (const values of curves) {
    for (const value of values.slice(0, stopOf(values))) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  return low > high ? [0, 1] : [low, high];
}

// A map from values in [low, high] to places in [from, to], straight or by logarithms.
export function scaleOf([low, high], [from, to], log = false) {
  const bend = log ? Math.log10 : (value) => value;
  const start = bend(low);
  const span = bend(high) - start || 1;
  return (value) => from + ((bend(value) - start) / span) * (to - from);
}

// Round values in [low, high], about `wanted` of them, apart by 1, 2 or 5 times 10^n.
export function ticks(low, high, wanted = 5) {
  if (low === high) return [low];
  const raw = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5].find((nice) => nice * power >= raw) ?? 10);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => tidy((first + i) * step));
}

// The powers of ten in [low, high], thinned to `wanted`; where there are fewer than
// two, round values as `ticks` has them.
export function logTicks(low, high, wanted = 5) {
  const first = Math.ceil(Math.log10(low) - 1e-9);
  const last = Math.floor(Math.log10(high) + 1e-9);
  if (last - first < 1) return ticks(low, high, wanted).filter((value) => value > 0);
  const stride = Math.ceil((last - first + 1) / wanted);
  const found = [];
  for (let power = first; power <= last; power += stride) found.push(tidy(10 ** power));
  return found;
}

function tidy(value) {
  return Number(value.toPrecision(12));
}

// A value as the data have it; what is very large or small by its power of ten.
export function valueText(value) {
  if (!isNumber(value)) return String(value ?? "");
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e5 || size < 1e-3)) {
    return value.toExponential().replace("e+", "e");
  }
  return String(value);
}

// The place in `at` whose x is nearest.
export function nearest(at, x) {
  let best = 0;
  at.forEach((value, i) => {
    if (Math.abs(value - x) < Math.abs(at[best] - x)) best = i;
  });
  return best;
}

// Move places apart until neighbours have `gap` between them, in [low, high] if they
// fit; their order stays.
export function spread(places, gap, low, high) {
  const order = places.map((_, i) => i).sort((i, j) => places[i] - places[j] || i - j);
  const found = [...places];
  let edge = low;
  for (const i of order) edge = (found[i] = Math.max(found[i], edge)) + gap;
  edge = Math.max(high, low + gap * (places.length - 1));
  for (const i of order.reverse()) edge = (found[i] = Math.min(found[i], edge)) - gap;
  return found;
}

// The curves of the chosen settings whose name is switched on, in the order of names.
export function visible(curves, on, picked) {
  return curves
    .filter(([key]) => on[key[0]] && picked.every((value, i) => key[i + 1] === value))
    .sort(([a], [b]) => a[0] - b[0]);
}
