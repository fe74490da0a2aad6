// Axes of a tensor on their way through several heads: what each step does to the shape,
// to the strides, and to the order of the numbers in memory. As torch does it.

// The steps that can be written, by the place on the way. Only one order is right.
export const CHOICES = {
  whole: ["view", "split", "deal"],
  cut: ["move", "recut"],
  heads: ["out", "attend", "move"],
  mixed: ["out", "move"],
  back: ["viewout", "flatten"],
  done: [],
};
export const RIGHT = {
  whole: "split",
  cut: "move",
  heads: "attend",
  mixed: "move",
  back: "flatten",
};

export function stridesOf(shape) {
  return shape.map((_, i) => shape.slice(i + 1).reduce((size, n) => size * n, 1));
}

// A tensor of one sentence: `memory` holds numbers as { value, from }, where `from` is
// the place in x that a number comes from: token * D + feature.
export function startTensor(values) {
  const memory = values.flat().map((value, from) => ({ value, from }));
  return tensorOf(["B", "T", "D"], [1, values.length, values[0].length], memory, "whole");
}

function tensorOf(axes, shape, memory, stage) {
  return { axes, shape, strides: stridesOf(shape), memory, stage, copied: true };
}

// All indices of a shape, the last axis fastest.
export function indicesOf(shape) {
  return shape.reduce(
    (some, n) => some.flatMap((index) => Array.from({ length: n }, (_, i) => [...index, i])),
    [[]],
  );
}

export function offsetOf(tensor, index) {
  return index.reduce((sum, i, axis) => sum + i * tensor.strides[axis], 0);
}

// The numbers in the order in which the shape reads them.
export function listed(tensor) {
  return indicesOf(tensor.shape).map((index) => tensor.memory[offsetOf(tensor, index)]);
}

// Whether memory holds the numbers in the order of the shape: what `view` asks for.
export function inOrder(tensor) {
  const wanted = stridesOf(tensor.shape);
  return tensor.shape.every((n, axis) => n === 1 || tensor.strides[axis] === wanted[axis]);
}

// The same numbers under another shape. What is not in order has to be copied first.
function reshaped(tensor, axes, shape, stage) {
  const copied = !inOrder(tensor);
  return { ...tensorOf(axes, shape, copied ? listed(tensor) : tensor.memory, stage), copied };
}

function transposed(tensor, stage) {
  const swap = ([first, second, third, ...rest]) => [first, third, second, ...rest];
  const { axes, shape, strides, memory } = tensor;
  return {
    axes: swap(axes),
    shape: swap(shape),
    strides: swap(strides),
    memory,
    stage,
    copied: false,
  };
}

const total = (numbers) => numbers.reduce((sum, n) => sum + n, 0);

// softmax(x x^T / sqrt(K)) x in every block of axis 1: the rows ask, answer and are mixed.
export function attended(tensor) {
  const [, blocks, rows, width] = tensor.shape;
  const numbers = listed(tensor);
  const memory = [];
  for (let b = 0; b < blocks; b++) {
    const row = (i) => numbers.slice((b * rows + i) * width, (b * rows + i + 1) * width);
    for (let i = 0; i < rows; i++) {
      const own = row(i);
      const all = Array.from({ length: rows }, (_, j) => row(j));
      const scores = all.map(
        (other) => total(other.map(({ value }, k) => value * own[k].value)) / Math.sqrt(width),
      );
      const top = Math.max(...scores);
      const grown = scores.map((score) => Math.exp(score - top));
      own.forEach(({ from }, k) => {
        const mix = total(all.map((other, j) => grown[j] * other[k].value)) / total(grown);
        memory.push({ value: mix, from });
      });
    }
  }
  return tensorOf(tensor.axes, tensor.shape, memory, "mixed");
}

// Take one step. Returns a tensor, or null where torch refuses.
export function takeStep(tensor, step, nHeads) {
  const { stage } = tensor;
  const size = sizesOf(tensor, nHeads);
  const to = (axes, next) =>
    reshaped(
      tensor,
      axes,
      axes.map((axis) => size[axis]),
      next,
    );
  if (step === "split") return to(["B", "T", "H", "K"], "cut");
  if (step === "deal") return to(["B", "T", "K", "H"], "cut");
  if (step === "view") return to(["B", "H", "T", "K"], "heads");
  if (step === "attend") return attended(tensor);
  if (step === "move") return transposed(tensor, stage === "cut" ? "heads" : "back");
  if (step === "recut") return to(transposed(tensor).axes, "heads");
  if (step === "viewout" && !inOrder(tensor)) return null;
  return to(["B", "T", "D"], "done");
}

// The size behind each letter.
function sizesOf({ axes, shape }, nHeads) {
  const T = shape[axes.indexOf("T")];
  const D = shape.reduce((n, m) => n * m) / T;
  return { B: 1, T, D, H: nHeads, K: D / nHeads };
}

// A step as it stands in code: in letters, or in the numbers of this tensor.
export function codeOf(tensor, step, nHeads, inLetters = false) {
  const size = sizesOf(tensor, nHeads);
  const args = (...axes) => axes.map((axis) => (inLetters ? axis : size[axis])).join(", ");
  if (step === "split") return `unflatten(-1, (${args("H", "K")}))`;
  if (step === "deal") return `unflatten(-1, (${args("K", "H")}))`;
  if (step === "view") return `view(${args("B", "H", "T", "K")})`;
  if (step === "recut") return `reshape(${args(...transposed(tensor).axes)})`;
  if (step === "out") return `reshape(${args("B", "T", "D")})`;
  if (step === "viewout") return `view(${args("B", "T", "D")})`;
  return { move: "transpose(1, 2)", attend: "attention in each head", flatten: "flatten(-2)" }[
    step
  ];
}

// All tensors of a way, from x on. A step that torch refuses ends it.
export function follow(values, nHeads, steps) {
  const way = [startTensor(values)];
  for (const step of steps) {
    const next = takeStep(way.at(-1), step, nHeads);
    if (!next) break;
    way.push(next);
  }
  return way;
}

// The rows of a tensor: the token that the shape says stands there, the tokens and heads
// whose numbers stand there, and whether some belong to another token.
export function rowsOf(tensor, nHeads) {
  const width = tensor.shape.at(-1);
  const numbers = listed(tensor);
  const features = numbers.length / tensor.shape[tensor.axes.indexOf("T")];
  return indicesOf(tensor.shape.slice(0, -1)).map((index, r) => {
    const wanted = index[tensor.axes.indexOf("T")];
    const from = numbers.slice(r * width, (r + 1) * width).map((number) => number.from);
    const tokens = [...new Set(from.map((place) => Math.floor(place / features)))];
    const heads = [
      ...new Set(from.map((place) => Math.floor(((place % features) * nHeads) / features))),
    ];
    return { index, wanted, tokens, heads, wrong: tokens.some((token) => token !== wanted) };
  });
}

// At the end of a way: how many numbers stand in the row of another token, and how far
// the result is from what the right way gives.
export function verdict(values, nHeads, steps) {
  const result = listed(follow(values, nHeads, steps).at(-1));
  const features = values[0].length;
  const right = [
    "split",
    "move",
    ...(steps.includes("attend") ? ["attend"] : []),
    "move",
    "flatten",
  ];
  const wanted = listed(follow(values, nHeads, right).at(-1));
  const rowOf = (place) => Math.floor(place / features);
  return {
    astray: result.filter(({ from }, place) => rowOf(from) !== rowOf(place)).length,
    gap: Math.max(...result.map(({ value }, place) => Math.abs(value - wanted[place].value))),
  };
}
