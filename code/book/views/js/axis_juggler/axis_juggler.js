// Split, move, attend, move back, merge: the reader picks the steps, the numbers move.
import {
  button,
  frame,
  h,
  letter,
  onChange,
  put,
} from "../../../../taken_apart/views/js/shared/dom.js";
import { CHOICES, RIGHT, codeOf, follow, inOrder, takeStep } from "./axis_juggler_math.js";
import { board, placeOf, walk } from "./juggler_board.js";
import { LEGEND, REFUSAL, numberInWords, stateInWords } from "./juggler_words.js";

// What the parts share: the sentence, the way of its tensor so far, and what to do next.
// `draw` is called after each change that no other view has to know of.
function sceneOf(model, draw) {
  const scene = {
    values: model.get("values"),
    nHeads: model.get("n_heads"),
    depths: model.get("depths"),
    tokens: model.get("tokens"),
    steps: [], // those that torch takes
    way: [], // a tensor before the first step, and one after each
    chosen: null, // where in x the number in focus comes from
    refused: "",
    now: () => scene.way.at(-1),
    read() {
      scene.way = follow(scene.values, scene.nHeads, model.get("steps"));
      scene.steps = model.get("steps").slice(0, scene.way.length - 1);
      scene.refused = "";
      draw();
    },
    go: (steps) => put(model, { steps }),
    take(step) {
      if (takeStep(scene.now(), step, scene.nHeads)) return scene.go([...scene.steps, step]);
      scene.refused = `${codeOf(scene.now(), step, scene.nHeads)} is refused. ${REFUSAL}`;
      draw();
    },
    aim(from) {
      if (from === scene.chosen) return;
      scene.chosen = from;
      draw();
    },
  };
  return scene;
}

// The shape in letters and sizes, the strides, and how memory lies.
function headline(tensor) {
  const parts = tensor.axes.flatMap((axis, i) => [
    i ? ", " : "",
    letter(axis),
    h("span", { class: "eta-num", text: ` ${tensor.shape[i]}` }),
  ]);
  const order = inOrder(tensor)
    ? "memory is in this order"
    : "memory is in another order: view would refuse";
  return [
    h("div", { class: "jug-shape" }, "(", ...parts, ")"),
    h("div", {
      class: "eta-quiet eta-num",
      text: `strides (${tensor.strides.join(", ")}); ${order}`,
    }),
  ];
}

function controls(scene) {
  const undo = button("undo", () => scene.go(scene.steps.slice(0, -1)));
  const next = button("the right step", () => scene.take(RIGHT[scene.now().stage]));
  const again = button("start again", () => scene.go([]));
  return {
    node: h("div", { class: "jug-keys" }, undo, " ", next, " ", again),
    draw() {
      undo.disabled = again.disabled = !scene.steps.length;
      next.disabled = !RIGHT[scene.now().stage];
    },
  };
}

function codeNode(scene, tensor, step, inLetters) {
  const text = codeOf(tensor, step, scene.nHeads, inLetters);
  return step === "attend" ? h("span", { text }) : h("code", { text: `.${text}` });
}

// The steps taken, as code, each with the shape that it leads to.
function history(scene) {
  const node = h("ol", { class: "jug-code" });
  const line = (tensor, i) => {
    const code = i
      ? codeNode(scene, scene.way[i - 1], scene.steps[i - 1], true)
      : h("code", { text: "x" });
    const axes = tensor.axes.flatMap((axis, a) => [a ? ", " : "", letter(axis)]);
    const isNew = i > 0 && tensor.copied;
    const wrote = isNew ? h("span", { class: "eta-quiet", text: " new memory" }) : "";
    return h("li", {}, code, h("span", {}, "(", ...axes, ")", wrote));
  };
  return { node, draw: () => node.replaceChildren(...scene.way.map(line)) };
}

// The steps that can be written now, to press or to take by their number.
function options(scene) {
  const node = h("div", { class: "jug-options", role: "group", "aria-label": "next step" });
  const option = (step, i) => {
    const made = button("", () => scene.take(step));
    const key = h("span", { class: "eta-quiet", text: `${i + 1}\u2002` });
    made.append(key, codeNode(scene, scene.now(), step));
    return made;
  };
  const draw = () => node.replaceChildren(...CHOICES[scene.now().stage].map(option));
  return { node, draw };
}

// Point at a number, in the block or in memory, to bring it into focus.
function pointAt(node, scene) {
  let last = "";
  const point = ({ target, clientX, clientY }) => {
    const from = target.closest("[data-from]")?.dataset.from;
    const where = `${clientX} ${clientY}`;
    // A number that moves under a resting pointer does not take the focus.
    if (from !== undefined && where !== last) scene.aim(Number(from));
    last = where;
  };
  for (const kind of ["pointermove", "pointerdown"]) node.addEventListener(kind, point);
}

// Walk from number to number with the arrow keys.
function walkIn(node, scene) {
  node.addEventListener("keydown", (event) => {
    const from = walk(scene.now(), scene.chosen, event.key);
    if (from === undefined) return;
    event.preventDefault();
    scene.aim(from);
  });
}

// Take a step by its number, and take it back.
function stepByKey(node, scene) {
  node.addEventListener("keydown", (event) => {
    const step = CHOICES[scene.now().stage][Number(event.key) - 1];
    if (step) scene.take(step);
    if (event.key === "Backspace" && scene.steps.length) scene.go(scene.steps.slice(0, -1));
    if (event.key === "Backspace" || step) event.preventDefault();
  });
}

function render({ model, el }) {
  const { box, signal, end } = frame(el, "juggler", "Axes of several heads, to move");
  const scene = sceneOf(model, () => draw());
  const { block, memory, draw: drawNumbers } = board(scene);
  const bar = controls(scene);
  const code = history(scene);
  const next = options(scene);
  const shape = h("div");
  const told = h("p", { class: "jug-told", role: "status" });
  const fact = h("p", { class: "jug-fact eta-num", "aria-live": "polite" });

  function draw() {
    const tensor = scene.now();
    const [kind, text] = scene.refused ? ["no", scene.refused] : stateInWords(scene, tensor);
    drawNumbers(tensor, scene.chosen);
    for (const part of [bar, code, next]) part.draw();
    shape.replaceChildren(...headline(tensor));
    told.textContent = text;
    told.dataset.kind = kind;
    fact.textContent = numberInWords(scene, tensor, placeOf(tensor, scene.chosen));
  }

  const legend = h("div", { class: "eta-quiet jug-label", text: LEGEND });
  const hint = h("div", { class: "eta-quiet", text: "next step: press a button, or its number" });
  box.append(
    h("div", { class: "jug-top" }, bar.node, shape),
    h(
      "div",
      { class: "jug-columns" },
      h("div", { class: "jug-left" }, block, legend, memory, told),
      h("div", { class: "jug-right" }, hint, next.node, code.node),
    ),
    fact,
  );
  for (const node of [block, memory]) pointAt(node, scene);
  walkIn(block, scene);
  stepByKey(box, scene);
  onChange(model, ["steps"], signal, () => {
    box.dataset.moves = ""; // from now on: the first picture is not flown in
    scene.read();
  });
  scene.read();
  return end;
}

export default { render };
