// One token under the norm: drag its numbers, shift and scale it, and see what stays.
import { button, frame, h, onChange, put } from "../../../../taken_apart/views/js/shared/dom.js";
import { picker } from "../../../../taken_apart/views/js/shared/inputs.js";
import {
  apart,
  mean,
  meanSquare,
  movedText,
  normalise,
  roundUp,
  shortText,
  variance,
} from "./norm_math.js";
import { holdFinger } from "../../../../taken_apart/views/js/shared/finger.js";
import { onWidth } from "../../../../taken_apart/views/js/shared/page.js";
import { s } from "../../../../taken_apart/views/js/shared/svg.js";

const HEIGHT = 190;
const PAD = 22;
const LEFT = 46;
const KINDS = ["LayerNorm", "RMSNorm"];
const PARTS = [
  ["x", "x"],
  ["gamma", "γ"],
  ["beta", "β"],
];
const STEP = { ArrowUp: 1, ArrowDown: -1, PageUp: 10, PageDown: -10 };

function signed(value) {
  return `${value < 0 ? "−" : "+"} ${Math.abs(value)}`;
}

function shortEps(eps) {
  return eps >= 0.1 ? String(eps) : eps.toExponential().replace("e+", "e");
}

// The token as the norm sees it, and what comes out; `moved` is how far shift and scale
// have moved the output.
function makeScene(model) {
  const token = () => {
    const shift = model.get("shift");
    const scale = model.get("scale");
    return model.get("x").map((value) => value * scale + shift);
  };
  const out = (x) => {
    const [kind, gamma, beta, eps] = ["kind", "gamma", "beta", "eps"].map((n) => model.get(n));
    return normalise(kind, x, gamma, beta, eps);
  };
  const vector = () => (model.get("part") === "x" ? token() : model.get(model.get("part")));
  const write = (i, value) => {
    const part = model.get("part");
    const shift = model.get("shift");
    const scale = model.get("scale");
    const given = part === "x" ? (value - shift) / scale : value;
    const tidy = Number(given.toPrecision(9)); // 3, not 3.000000000000001
    put(model, { [part]: model.get(part).with(i, tidy) });
  };
  return {
    model,
    token,
    vector,
    write,
    output: () => out(token()),
    moved: () => apart(out(token()), out(model.get("x"))),
  };
}

// --- What to change ------------------------------------------------------------------

function slider(scene, name, label, range, read, write, text) {
  const shown = h("output", { class: "eta-num" });
  const input = h("input", {
    type: "range",
    "aria-label": label,
    ...range,
    oninput: () => put(scene.model, { [name]: write(Number(input.value)) }),
  });
  return {
    node: h("label", {}, label, input, shown),
    sync() {
      input.value = read(scene.model.get(name));
      shown.textContent = text(scene.model.get(name));
      input.setAttribute("aria-valuetext", shown.textContent);
    },
  };
}

function controls(scene, start) {
  const { model } = scene;
  const choice = (name, label, options) =>
    picker(
      label,
      options,
      () => model.get(name),
      (value) => put(model, { [name]: value }),
    );
  const parts = [
    choice(
      "kind",
      "norm",
      KINDS.map((kind) => [kind, kind]),
    ),
    slider(
      scene,
      "shift",
      "shift all",
      { min: -10, max: 10, step: 0.5 },
      (value) => value,
      (value) => value,
      signed,
    ),
    slider(
      scene,
      "scale",
      "scale all",
      { min: -3, max: 2, step: 0.25 },
      Math.log10,
      (power) => 10 ** power,
      (value) => `× ${shortText(value)}`,
    ),
    choice(
      "eps",
      "ε",
      model.get("eps_choices").map((eps) => [eps, shortEps(eps)]),
    ),
    choice("part", "bars are", PARTS),
  ];
  const reset = button("reset", () => put(model, { ...start }));
  return {
    node: h("div", { class: "eta-bar" }, ...parts.map((part) => part.node), reset),
    draw: () => parts.forEach((part) => part.sync()),
  };
}

// --- Bars ----------------------------------------------------------------------------

function ruler(width, top, count) {
  const y = (value) => HEIGHT / 2 - (value / top) * (HEIGHT / 2 - PAD);
  const space = (width - LEFT) / count;
  return {
    y,
    space,
    x: (i) => LEFT + (i + 0.15) * space,
    value: (down) => ((HEIGHT / 2 - down) / (HEIGHT / 2 - PAD)) * top,
    place: (along) => Math.max(0, Math.min(count - 1, Math.floor((along - LEFT) / space))),
  };
}

function drawBars(svg, values, rule, top, width, marked) {
  svg.setAttribute("width", width);
  svg.setAttribute("height", HEIGHT);
  svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  const levels = [top, 0, -top].flatMap((value) => [
    s("path", { d: `M${LEFT - 4} ${rule.y(value)}H${width}`, class: "eta-norm-grid" }),
    s("text", { x: LEFT - 8, y: rule.y(value) + 4, "text-anchor": "end" }, shortText(value)),
  ]);
  const bars = values.flatMap((value, i) => {
    const x = rule.x(i);
    const wide = rule.space * 0.7;
    const end = rule.y(value);
    const zero = rule.y(0);
    const place = { x, y: Math.min(end, zero), width: wide, height: Math.abs(end - zero) };
    const kind = i === marked ? "eta-norm-bar eta-norm-held" : "eta-norm-bar";
    const above = end + (value < 0 ? 14 : -5);
    return [
      s("rect", { ...place, class: kind }),
      s("text", { x: x + wide / 2, y: above, "text-anchor": "middle" }, shortText(value)),
    ];
  });
  svg.replaceChildren(...levels, ...bars);
}

// The numbers that the reader drags, or changes with the arrow keys.
function held(scene) {
  const { model } = scene;
  const svg = s("svg", { class: "eta-norm-bars", tabindex: 0, role: "slider" });
  const state = { width: 300, chosen: 0, dragging: false, top: 1 };
  const rule = () => ruler(state.width, state.top, scene.vector().length);
  const drag = (event) => {
    const { top } = svg.getBoundingClientRect();
    const fine = state.top / 50;
    const value = rule().value(event.clientY - top);
    const inside = Math.max(-state.top, Math.min(state.top, value));
    scene.write(state.chosen, Math.round(inside / fine) * fine);
  };
  const placeOf = ({ clientX }) => rule().place(clientX - svg.getBoundingClientRect().left);
  // A finger scrolls the page, but where it takes a bar by its end.
  const isEnd = (touch) => {
    const end = rule().y(scene.vector()[placeOf(touch)]);
    return Math.abs(touch.clientY - svg.getBoundingClientRect().top - end) < 22;
  };
  holdFinger(svg, isEnd);
  svg.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch" && !isEnd(event)) return;
    svg.setPointerCapture(event.pointerId);
    state.dragging = true;
    state.chosen = placeOf(event);
    drag(event);
    draw();
  });
  svg.addEventListener("pointermove", (event) => state.dragging && drag(event));
  for (const name of ["pointerup", "pointercancel"]) {
    svg.addEventListener(name, () => {
      state.dragging = false;
      draw();
    });
  }
  svg.addEventListener("keydown", (event) => {
    const values = scene.vector();
    const count = values.length;
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const step = STEP[event.key];
    if (!move && !step) return;
    event.preventDefault();
    if (move) state.chosen = (state.chosen + move + count) % count;
    else scene.write(state.chosen, values[state.chosen] + (step * state.top) / 50);
    draw();
  });
  function draw() {
    const values = scene.vector();
    const [, name] = PARTS.find(([part]) => part === model.get("part"));
    if (!state.dragging) state.top = roundUp(Math.max(...values.map(Math.abs)));
    drawBars(svg, values, rule(), state.top, state.width, state.chosen);
    if (model.get("part") === "x") svg.append(...band(values, rule(), state.width));
    svg.setAttribute("aria-label", `${name}, number ${state.chosen + 1} of ${values.length}`);
    svg.setAttribute("aria-valuemin", -state.top);
    svg.setAttribute("aria-valuemax", state.top);
    svg.setAttribute("aria-valuenow", values[state.chosen]);
    title.textContent = `${name}: drag a bar, or use the arrow keys`;
  }
  const title = h("div", { class: "eta-quiet" });
  return { node: h("div", {}, title, svg), resize: (width) => (state.width = width), draw };
}

// The mean as a line, and a band of one standard deviation on either side of it.
function band(values, rule, width) {
  const middle = mean(values);
  const deviation = Math.sqrt(variance(values));
  const top = rule.y(middle + deviation);
  const height = rule.y(middle - deviation) - top;
  return [
    s("rect", { x: LEFT, y: top, width: width - LEFT, height, class: "eta-norm-band" }),
    s("path", { d: `M${LEFT} ${rule.y(middle)}H${width}`, class: "eta-norm-mean" }),
  ];
}

function result(scene) {
  const svg = s("svg", { class: "eta-norm-bars eta-norm-out", role: "img" });
  const title = h("div", { class: "eta-quiet" });
  let width = 300;
  return {
    node: h("div", {}, title, svg),
    resize: (wide) => (width = wide),
    draw() {
      const values = scene.output();
      const top = roundUp(Math.max(1, ...values.map(Math.abs)));
      drawBars(svg, values, ruler(width, top, values.length), top, width, -1);
      svg.setAttribute("aria-label", `output: ${values.map(shortText).join(", ")}`);
      title.textContent = `${scene.model.get("kind")}(x)`;
    },
  };
}

// --- The numbers ---------------------------------------------------------------------

function figures(scene) {
  const rows = ["x", "output"].map((name) => {
    const cells = Array.from({ length: 3 }, () => h("td", { class: "eta-num" }));
    return { cells, node: h("tr", {}, h("th", { scope: "row", text: name }), ...cells) };
  });
  const names = ["mean", "variance", "mean square"];
  const head = names.map((text) => h("th", { scope: "col", text }));
  const lines = rows.map((row) => row.node);
  const table = h("table", {}, h("tr", {}, h("td"), ...head), ...lines);
  const told = h("p", { "aria-live": "polite" });
  return {
    node: h("div", { class: "eta-norm-figures" }, table, told),
    draw() {
      const pairs = [
        [rows[0], scene.token()],
        [rows[1], scene.output()],
      ];
      for (const [{ cells }, values] of pairs) {
        [mean, variance, meanSquare].forEach((of, i) => {
          cells[i].textContent = shortText(of(values));
        });
      }
      const moved = movedText(scene.moved());
      told.textContent = `Shift and scale have moved the output ${moved}.`;
    },
  };
}

function render({ model, el }) {
  const { box, signal, end } = frame(el, "norm", "One token and its norm");
  const names = ["x", "gamma", "beta", "shift", "scale", "eps", "kind", "part"];
  const start = Object.fromEntries(names.map((name) => [name, model.get(name)]));
  const scene = makeScene(model);
  const parts = [controls(scene, start), held(scene), result(scene), figures(scene)];
  const [bar, left, right, told] = parts;
  const draw = () => parts.forEach((part) => part.draw());
  box.append(bar.node, h("div", { class: "eta-norm-panes" }, left.node, right.node), told.node);
  onChange(model, names, signal, draw);
  onWidth(box, signal, (width) => {
    const each = Math.max(240, width < 560 ? width : (width - 24) / 2);
    left.resize(each);
    right.resize(each);
    draw();
  });
  return end;
}

export default { render };
