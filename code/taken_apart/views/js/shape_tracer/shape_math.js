// Shapes with names: "D", "B*H", "3*D", "K/2", "T+1"; a plain number does not vary.

// The size of one axis; `relations` says which names follow from others.
export function sizeOf(axis, sizes, relations = {}) {
  const factor = (text) => {
    if (/^\d+\??$/.test(text)) return parseInt(text);
    return text in relations ? sizeOf(relations[text], sizes, relations) : sizes[text];
  };
  const term = (text) =>
    text
      .match(/[*/]?[^*/]+/g)
      .reduce(
        (made, part) =>
          part[0] === "/" ? made / factor(part.slice(1)) : made * factor(part.replace("*", "")),
        1,
      );
  const terms = axis.replace(/\s/g, "").match(/[+-]?[^+-]+/g);
  return terms.reduce(
    (sum, text) =>
      text[0] === "-" ? sum - term(text.slice(1)) : sum + term(text.replace("+", "")),
    0,
  );
}

// The names in an axis: "B*H" holds B and H.
export function namesIn(axis) {
  return axis.match(/[A-Za-z_]\w*/g) ?? [];
}

// The names that live inside a name through relations: D = H*K holds H and K.
export function namesInside(name, relations) {
  const inner = name in relations ? namesIn(relations[name]) : [];
  return inner.flatMap((other) => [other, ...namesInside(other, relations)]);
}

export function product(numbers) {
  return numbers.reduce((so_far, n) => so_far * n, 1);
}

// 640 -> "640 B", 2_621_440 -> "2.5 MiB"
export function bytesText(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, n)) / 10));
  const amount = n / 1024 ** power;
  return `${amount < 10 && power ? amount.toFixed(1) : Math.round(amount)} ${units[power]}`;
}

// What an event does to a small block of the numbers 0 to 5: the blocks before and
// after, each as rows. A move shows two of the axes that change places, 2 by 3. A kind
// that is not known leaves the block as it is.
export function illustrate({ kind, pieces }) {
  const row = [[0, 1, 2, 3, 4, 5]];
  const block = [
    [0, 1, 2],
    [3, 4, 5],
  ];
  const moved = [
    [0, 3],
    [1, 4],
    [2, 5],
  ];
  const recut = [
    [0, 1],
    [2, 3],
    [4, 5],
  ];
  const kinds = {
    split: [[row], [block]],
    merge: [[block], [row]],
    join: [[block], [row]],
    move: [[block], [moved]],
    regroup: [[block], [recut]],
    cut: [[row], (pieces > 2 ? recut : block).map((piece) => [piece])],
    normalise: [[block], [block.map(softmax)]],
    standardise: [[block], [block.map(standardise)]],
    product: [[block, moved], [multiply(block, moved)]],
  };
  const [before, after] = kinds[kind] ?? [[block], [block]];
  return { before, after };
}

function softmax(row) {
  const powers = row.map(Math.exp);
  return powers.map((power) => power / powers.reduce((sum, x) => sum + x));
}

function standardise(row) {
  const mean = row.reduce((sum, x) => sum + x) / row.length;
  const spread = Math.hypot(...row.map((x) => x - mean)) / Math.sqrt(row.length);
  return row.map((x) => (x - mean) / spread);
}

function multiply(left, right) {
  return left.map((row) =>
    right[0].map((_, j) => row.reduce((sum, x, i) => sum + x * right[i][j], 0)),
  );
}

// The two axes of a move that change places, as places in the input: the first pair
// that stands the other way round in the output.
export function movedPair(order) {
  const place = order.findIndex((axis, i) => axis > order[i + 1]);
  return [order[place + 1], order[place]];
}
