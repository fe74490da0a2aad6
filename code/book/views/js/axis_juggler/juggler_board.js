// The numbers of a tensor twice: as the block that its shape says, and as memory has them.
import { MOVES } from "../../../../taken_apart/views/js/shared/arrows.js";
import { h } from "../../../../taken_apart/views/js/shared/dom.js";
import { indicesOf, listed, rowsOf } from "./axis_juggler_math.js";

// Pixels: a number in the block and in memory, the margins of a panel.
const CELL = { width: 44, height: 36 };
const SLOT = { width: 28, height: 22, perLine: 12 };
const LABEL = 54;
const GAP = 18;
const TITLE = 20;

const moveTo = (node, x, y) => (node.style.transform = `translate(${x}px, ${y}px)`);

function shortValue(value) {
  return Math.abs(value) < 0.05 ? "0.0" : value.toFixed(1).replace("-", "\u2212");
}

// A shape as panels, rows and columns: (B, T, D) is one panel.
function panelsOf(shape) {
  return shape.length === 4 ? shape.slice(1) : [1, ...shape.slice(1)];
}

// Where panel, row and column lie: as many panels side by side as D is wide.
function layoutOf(shape, features) {
  const [panels, rows, columns] = panelsOf(shape);
  const beside = Math.floor(features / columns);
  const line = TITLE + rows * CELL.height + 6;
  const corner = (p) => [
    LABEL + (p % beside) * (columns * CELL.width + GAP),
    Math.floor(p / beside) * line + TITLE,
  ];
  return {
    panels,
    rows,
    beside,
    corner,
    width: columns * CELL.width,
    height: Math.ceil(panels / beside) * line,
    at: (p, r, c) => [corner(p)[0] + c * CELL.width, corner(p)[1] + r * CELL.height],
  };
}

function nameNode(text, kind, x, y) {
  const node = h("span", { class: `jug-name ${kind}`, text });
  moveTo(node, x, y);
  return node;
}

// The names of panels and rows: a token, a head, or what is taken for one.
function namesOf({ tokens }, { axes, shape }, layout) {
  const [, outer, inner] = axes;
  const isFour = shape.length === 4;
  const rowAxis = isFour ? inner : "T";
  const nameOf = (axis, i) => ({ T: tokens[i], H: `head ${i}`, K: `\u201chead\u201d ${i}` })[axis];
  const rowName = (r) => (rowAxis === "K" ? String(r) : nameOf(rowAxis, r));
  const names = [];
  for (let p = 0; p < layout.panels; p++) {
    const [x, y] = layout.corner(p);
    if (isFour) names.push(nameNode(nameOf(outer, p), "jug-title", x, y - TITLE));
    if (p % layout.beside) continue; // the panel on its left has named the rows
    for (let r = 0; r < layout.rows; r++) {
      names.push(nameNode(rowName(r), "jug-row", 0, y + r * CELL.height + 8));
    }
  }
  return names;
}

// A frame and a cross at each row that holds numbers of another token.
function marksOf({ nHeads }, tensor, layout) {
  const wrong = rowsOf(tensor, nHeads).filter((row) => row.wrong);
  return wrong.flatMap(({ index }) => {
    const [p, r] = index.length === 3 ? index.slice(1) : [0, index[1]];
    const [x, y] = layout.at(p, r, 0);
    const mark = nameNode("", "jug-wrong", x - 1, y - 1);
    mark.style.width = `${layout.width}px`;
    return [mark, nameNode("\u2717", "jug-cross", x + layout.width + 2, y + 8)];
  });
}

// Each number has one node in the block and one in memory, which move; names are new.
export function board(scene) {
  const features = scene.values[0].length;
  const numberNode = (from, kind) => {
    const feature = from % features;
    const head = Math.floor((feature * scene.nHeads) / features);
    return h("span", {
      class: `jug-cell ${kind}`,
      "data-token": Math.floor(from / features),
      "data-from": from,
      style: `--depth: ${scene.depths[head]}%`,
    });
  };
  const cells = scene.values.flat().map((_, from) => {
    const tag = `${Math.floor(from / features)},${from % features}`;
    const value = h("span", { class: "eta-num" });
    const big = numberNode(from, "jug-number");
    big.append(value, h("small", { text: tag }));
    const small = numberNode(from, "jug-slot");
    small.textContent = tag;
    return { big, small, value };
  });
  const names = h("div", { "aria-hidden": "true" });
  const block = h(
    "div",
    {
      class: "jug-block",
      tabindex: 0,
      role: "group",
      "aria-label": "numbers: the arrow keys walk through them",
    },
    names,
    ...cells.map(({ big }) => big),
  );
  const slots = cells.map(({ small }) => small);
  const memory = h("div", { class: "jug-memory", "aria-hidden": "true" }, ...slots);
  const perLine = Math.min(SLOT.perLine, cells.length);
  memory.style.height = `${Math.ceil(cells.length / perLine) * SLOT.height}px`;
  const tallest = tallestOf(scene, features);

  function draw(tensor, chosen) {
    const layout = layoutOf(tensor.shape, features);
    const numbers = listed(tensor);
    block.style.height = `${Math.max(layout.height, tallest)}px`;
    indicesOf(panelsOf(tensor.shape)).forEach((index, i) => {
      const { big, value } = cells[numbers[i].from];
      moveTo(big, ...layout.at(...index));
      value.textContent = shortValue(numbers[i].value);
    });
    tensor.memory.forEach(({ from }, i) => {
      const line = Math.floor(i / perLine);
      moveTo(cells[from].small, (i % perLine) * SLOT.width, line * SLOT.height);
    });
    names.replaceChildren(...namesOf(scene, tensor, layout), ...marksOf(scene, tensor, layout));
    cells.forEach(({ big, small }, from) => {
      for (const node of [big, small]) node.toggleAttribute("data-chosen", from === chosen);
    });
  }
  return { block, memory, draw };
}

// The height that both shapes of the right way need, so that the page does not jump.
function tallestOf({ tokens, nHeads }, features) {
  const dHead = features / nHeads;
  const shapes = [
    [1, nHeads, tokens.length, dHead],
    [1, tokens.length, nHeads, dHead],
  ];
  return Math.max(...shapes.map((shape) => layoutOf(shape, features).height));
}

// The place of the number in focus, in the order of the tensor; null without one.
export function placeOf(tensor, chosen) {
  if (chosen === null) return null;
  return listed(tensor).findIndex(({ from }) => from === chosen);
}

// Where x has the number to which an arrow key leads, or undefined for another key.
export function walk(tensor, chosen, key) {
  const move = MOVES[key];
  if (!move) return undefined;
  const sizes = panelsOf(tensor.shape);
  const numbers = listed(tensor);
  if (chosen === null) return numbers[0].from;
  const [p, r, c] = neighbour(indicesOf(sizes)[placeOf(tensor, chosen)], sizes, move);
  return numbers[(p * sizes[1] + r) * sizes[2] + c].from;
}

// One step on; over the edge of a panel it goes on in the next one, if there is one.
function neighbour(index, sizes, [down, right]) {
  const axis = down ? 1 : 2;
  const by = down || right;
  const next = index.with(axis, index[axis] + by);
  if (next[axis] >= 0 && next[axis] < sizes[axis]) return next;
  const panel = index[0] + by;
  if (panel < 0 || panel >= sizes[0]) return index;
  return index.with(0, panel).with(axis, by > 0 ? 0 : sizes[axis] - 1);
}
