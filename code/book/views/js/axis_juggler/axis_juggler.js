// Split, move, attend, move back, merge: the reader picks the steps, the numbers move.
import { frame, h, letter, onChange, put } from "../../../../taken_apart/views/js/shared/dom.js";
import { CHOICES, RIGHT, codeOf, follow, indicesOf, inOrder, listed, offsetOf, rowsOf, takeStep, verdict } from "./axis_juggler_math.js";

const CELL = [44, 36], LABEL = 54, GAP = 18, TITLE = 20, MEMORY = [28, 22];
const MOVES = { ArrowLeft: [2, -1], ArrowRight: [2, 1], ArrowUp: [1, -1], ArrowDown: [1, 1] };

const depthOf = (head, nHeads) => Math.round(35 + (65 * head) / Math.max(nHeads - 1, 1));
const moveTo = (node, x, y) => (node.style.transform = `translate(${x}px, ${y}px)`);
const short = (value) => (Math.abs(value) < 0.05 ? "0.0" : value.toFixed(1).replace("-", "\u2212"));
const inWords = (words) => words.join(words.length > 2 ? ", " : " and ");

// Where panel, row and column of a block lie: as many panels side by side as D is wide.
function layoutOf(tensor, features) {
  const [panels, rows, columns] = tensor.shape.length === 4 ? tensor.shape.slice(1) : [1, ...tensor.shape.slice(1)];
  const beside = Math.floor(features / columns), line = TITLE + rows * CELL[1] + 6;
  const corner = (p) => [LABEL + (p % beside) * (columns * CELL[0] + GAP), Math.floor(p / beside) * line + TITLE];
  return {
    panels, rows, columns, beside, corner,
    height: Math.ceil(panels / beside) * line,
    at: (p, r, c) => [corner(p)[0] + c * CELL[0], corner(p)[1] + r * CELL[1]],
  };
}

// The block and the memory below it. Each number is one node that moves; names are new.
function board(scene) {
  const cells = new Map(), words = scene.tokens, features = scene.values[0].length;
  const numberNode = (from, kind) => {
    const token = Math.floor(from / features), feature = from % features;
    const head = Math.floor((feature * scene.nHeads) / features);
    const style = `--depth: ${depthOf(head, scene.nHeads)}%`;
    return h("span", { class: `jug-cell ${kind}`, "data-token": token, "data-from": from, style });
  };
  const block = h("div", { class: "jug-block", tabindex: 0, role: "group", "aria-label": "numbers: the arrow keys walk through them" });
  const memory = h("div", { class: "jug-memory", "aria-hidden": "true" });
  const names = h("div", { "aria-hidden": "true" });
  block.append(names);
  scene.values.flat().forEach((_, from) => {
    const tag = `${Math.floor(from / features)},${from % features}`;
    const big = numberNode(from, "jug-number"), small = numberNode(from, "jug-slot");
    const value = h("span", { class: "eta-num" });
    big.append(value, h("small", { text: tag }));
    small.textContent = tag;
    cells.set(from, { big, small, value });
    block.append(big);
    memory.append(small);
  });
  const sizes = scene.values.flat().length;
  const perLine = Math.min(12, sizes);
  memory.style.height = `${Math.ceil(sizes / perLine) * MEMORY[1]}px`;

  function drawNames(tensor, layout) {
    const [, outer, inner] = tensor.axes, four = tensor.shape.length === 4;
    const nameOf = (axis, i) => (axis === "T" ? words[i] : axis === "H" ? `head ${i}` : `\u201chead\u201d ${i}`);
    const name = (text, kind, x, y) => {
      const node = h("span", { class: `jug-name ${kind}`, text });
      moveTo(node, x, y);
      return node;
    };
    const parts = [];
    for (let p = 0; p < layout.panels; p++) {
      const [x, y] = layout.corner(p);
      if (four) parts.push(name(nameOf(outer, p), "jug-title", x, y - TITLE));
      if (p % layout.beside) continue;
      const axis = four ? inner : "T";
      const rowName = (r) => (axis === "T" || axis === "H" ? nameOf(axis, r) : `${r}`);
      for (let r = 0; r < layout.rows; r++) parts.push(name(rowName(r), "jug-row", 0, y + r * CELL[1] + 8));
    }
    for (const { index, wrong } of rowsOf(tensor, scene.nHeads)) {
      if (!wrong) continue;
      const [p, r] = four ? index.slice(1) : [0, index[1]], [x, y] = layout.at(p, r, 0);
      const mark = name("", "jug-wrong", x - 1, y - 1);
      mark.style.width = `${layout.columns * CELL[0]}px`;
      parts.push(mark, name("\u2717", "jug-cross", x + layout.columns * CELL[0] + 2, y + 8));
    }
    names.replaceChildren(...parts);
  }

  function draw(tensor, chosen) {
    const layout = layoutOf(tensor, features), numbers = listed(tensor);
    block.style.height = `${Math.max(layout.height, scene.tallest)}px`;
    indicesOf([layout.panels, layout.rows, layout.columns]).forEach((index, i) => {
      const { big, value } = cells.get(numbers[i].from);
      moveTo(big, ...layout.at(...index));
      value.textContent = short(numbers[i].value);
    });
    tensor.memory.forEach(({ from }, i) => {
      moveTo(cells.get(from).small, (i % perLine) * MEMORY[0], Math.floor(i / perLine) * MEMORY[1]);
    });
    drawNames(tensor, layout);
    for (const [from, { big, small }] of cells) {
      for (const node of [big, small]) node.toggleAttribute("data-chosen", from === chosen);
    }
  }
  return { block, memory, draw };
}

// The shape in letters and sizes, the strides, and how memory lies.
function headline(tensor) {
  const parts = tensor.axes.flatMap((axis, i) => [i ? ", " : "", letter(axis), h("span", { class: "eta-num", text: ` ${tensor.shape[i]}` })]);
  const order = inOrder(tensor) ? "memory is in this order" : "memory is in another order: view would refuse";
  return [
    h("div", { class: "jug-shape" }, "(", ...parts, ")"),
    h("div", { class: "eta-quiet eta-num", text: `strides (${tensor.strides.join(", ")}); ${order}` }),
  ];
}

// What stands in the rows now, in words.
function toldOf(scene, tensor) {
  const { steps, tokens, nHeads, values } = scene, rows = rowsOf(tensor, nHeads);
  const wrong = rows.filter((row) => row.wrong), quoted = (all) => inWords(all.map((i) => `\u201c${tokens[i]}\u201d`));
  const first = wrong[0];
  const example = first ? ` The row of ${quoted([first.wanted])} holds numbers of ${quoted(first.tokens)}.` : "";
  const count = `${wrong.length} of ${rows.length} rows hold numbers of another token.${example}`;
  if (tensor.stage === "done") {
    const { astray, gap } = verdict(values, nHeads, steps), off = `off by up to ${gap.toFixed(2)}`;
    if (astray) return ["no", `Wrong, and the shape is right. ${count}`];
    if (gap > 1e-9) return ["no", `Wrong. Every number is back in the row of its token, yet the result is ${off}: attention ran inside the wrong heads.`];
    return ["yes", "Right: every number is back in the row of its token."];
  }
  if (wrong.length) return ["no", count];
  if (tensor.axes.join("").endsWith("KTH") || tensor.axes.join("").endsWith("TKH")) {
    const [many, wide] = tensor.axes[1] === "K" ? [tensor.shape[1], tensor.shape[3]] : tensor.shape.slice(2);
    return ["no", `No token is mixed, but these are ${many} \u201cheads\u201d of ${wide} numbers, where ${nHeads} of ${(many * wide) / nHeads} were wanted.`];
  }
  return ["", SAYS[tensor.stage]];
}

const LEGEND = "In memory. Colour: token. Depth: head. 1,4 was x[1, 4].";
const SAYS = {
  whole: "Every row is a token.",
  cut: "Each token is cut into pieces, one a head. Nothing has moved: the same memory is read in another shape.",
  heads: "Each head holds its piece of every token. Memory has still not moved: only the strides changed places.",
  mixed: "Inside each head, every row is now a mixture of that head\u2019s rows. The numbers are new, the places are not.",
  back: "The pieces of a token stand together again. Memory still has the order of the heads.",
};

const placeOf = (tensor, chosen) => (chosen === null ? null : listed(tensor).findIndex(({ from }) => from === chosen));

// The number in focus: where it comes from, where it is, how its place in memory is found.
function factOf(scene, tensor, spot) {
  if (spot === null) return "Point at a number, or walk to it with the arrow keys.";
  const index = indicesOf(tensor.shape)[spot], { value, from } = listed(tensor)[spot];
  const features = scene.values[0].length, token = Math.floor(from / features), feature = from % features;
  const terms = index.map((i, axis) => `${i}\u00b7${tensor.strides[axis]}`).join(" + ");
  const mixed = tensor.stage === "whole" || !scene.steps.includes("attend") ? "" : ", mixed";
  return `${value.toFixed(2).replace("-", "\u2212")}: x[${token}, ${feature}]${mixed}, of \u201c${scene.tokens[token]}\u201d, head ${Math.floor((feature * scene.nHeads) / features)}. ` +
    `Now at [${index.join(", ")}]; memory ${terms} = ${offsetOf(tensor, index)}.`;
}

function render({ model, el }) {
  const { box, signal, end } = frame(el, "juggler", "Axes of several heads, to move");
  const scene = { values: model.get("values"), nHeads: model.get("n_heads"), tokens: model.get("tokens"), steps: [] };
  const features = scene.values[0].length, dHead = features / scene.nHeads;
  const shapes = [[1, scene.nHeads, scene.tokens.length, dHead], [1, scene.tokens.length, scene.nHeads, dHead]];
  scene.tallest = Math.max(...shapes.map((shape) => layoutOf({ shape }, features).height));
  const numbers = board(scene), shape = h("div"), told = h("p", { class: "jug-told", role: "status" });
  const fact = h("p", { class: "jug-fact eta-num", "aria-live": "polite" });
  const code = h("ol", { class: "jug-code" }), options = h("div", { class: "jug-options", role: "group", "aria-label": "next step" });
  const button = (text, onclick) => h("button", { class: "eta-button", type: "button", text, onclick });
  const undo = button("undo", () => go(scene.steps.slice(0, -1))), again = button("start again", () => go([]));
  const next = button("the right step", () => choose(RIGHT[now().stage]));
  let chosen = null, refused = "", way = [];
  const now = () => way.at(-1);

  const go = (steps) => {
    box.dataset.moves = ""; // from now on: the first picture is not flown in
    put(model, { steps });
  };
  function choose(step) {
    if (!step) return;
    if (takeStep(now(), step, scene.nHeads)) return go([...scene.steps, step]);
    refused = `${codeOf(now(), step, scene.nHeads)} is refused. torch: view size is not compatible with input tensor\u2019s size and stride. A view never moves numbers, and here they lie in another order.`;
    draw();
  }
  function read() {
    scene.steps = model.get("steps");
    way = follow(scene.values, scene.nHeads, scene.steps);
    scene.steps = scene.steps.slice(0, way.length - 1);
    refused = "";
    draw();
  }
  function draw() {
    const tensor = now(), [kind, text] = refused ? ["no", refused] : toldOf(scene, tensor);
    numbers.draw(tensor, chosen);
    shape.replaceChildren(...headline(tensor));
    told.textContent = text;
    told.dataset.kind = kind;
    fact.textContent = factOf(scene, tensor, placeOf(tensor, chosen));
    drawCode();
    options.replaceChildren(...CHOICES[tensor.stage].map((step, i) => {
      const node = button("", () => choose(step));
      node.append(h("span", { class: "eta-quiet", text: `${i + 1}\u2002` }), codeNode(tensor, step));
      return node;
    }));
    undo.disabled = again.disabled = !scene.steps.length;
    next.disabled = !RIGHT[tensor.stage];
  }
  function codeNode(tensor, step, inLetters) {
    const text = codeOf(tensor, step, scene.nHeads, inLetters);
    return step === "attend" ? h("span", { text }) : h("code", { text: `.${text}` });
  }
  function drawCode() {
    const lines = way.map((tensor, i) => {
      const text = i ? codeNode(way[i - 1], scene.steps[i - 1], true) : h("code", { text: "x" });
      const axes = tensor.axes.flatMap((axis, a) => [a ? ", " : "", letter(axis)]);
      const wrote = i && tensor.copied ? h("span", { class: "eta-quiet", text: " new memory" }) : "";
      return h("li", {}, text, h("span", {}, "(", ...axes, ")", wrote));
    });
    code.replaceChildren(...lines);
  }

  // A number that moves under a resting pointer does not take the focus.
  let last = "";
  const point = ({ target, clientX, clientY }) => {
    const from = target.closest("[data-from]")?.dataset.from, where = `${clientX} ${clientY}`;
    if (from !== undefined && where !== last) aim(Number(from));
    last = where;
  };
  for (const node of [numbers.block, numbers.memory]) {
    for (const kind of ["pointermove", "pointerdown"]) node.addEventListener(kind, point);
  }
  // The focus stays with the number, wherever the steps take it.
  function aim(from) {
    if (from === chosen) return;
    chosen = from;
    draw();
  }
  numbers.block.addEventListener("keydown", (event) => {
    const move = MOVES[event.key];
    if (!move) return;
    event.preventDefault();
    const sizes = now().shape.length === 4 ? now().shape.slice(1) : [1, ...now().shape.slice(1)];
    const index = indicesOf(sizes)[placeOf(now(), chosen) ?? 0];
    if (chosen !== null) walk(index, sizes, ...move);
    aim(listed(now())[(index[0] * sizes[1] + index[1]) * sizes[2] + index[2]].from);
  });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Backspace" && scene.steps.length) undo.click();
    const step = CHOICES[now().stage][Number(event.key) - 1];
    if (step) choose(step);
    if (event.key === "Backspace" || step) event.preventDefault();
  });
  box.append(
    h("div", { class: "jug-top" }, shape, h("div", { class: "jug-keys" }, undo, " ", next, " ", again)),
    h("div", { class: "jug-columns" },
      h("div", { class: "jug-left" }, numbers.block, h("div", { class: "eta-quiet jug-label", text: LEGEND }), numbers.memory, told),
      h("div", { class: "jug-right" }, code, h("div", { class: "eta-quiet", text: "next step: press a button, or its number" }), options)),
    fact,
  );
  onChange(model, ["steps"], signal, read);
  read();
  return end;
}

// One step in the block; over the edge of a panel it goes on in the next one.
function walk(index, sizes, axis, by) {
  index[axis] += by;
  if (index[axis] >= 0 && index[axis] < sizes[axis]) return;
  const panel = index[0] + by;
  if (panel < 0 || panel >= sizes[0]) return void (index[axis] -= by);
  index[0] = panel;
  index[axis] = by > 0 ? 0 : sizes[axis] - 1;
}

export default { render };
