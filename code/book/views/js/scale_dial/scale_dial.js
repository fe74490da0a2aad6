// One row of attention at any divisor, and any cell of the map spelled out.
import { MOVES } from "../../../../taken_apart/views/js/shared/arrows.js";
import {
  button,
  frame,
  h,
  letter,
  onChange,
  put,
} from "../../../../taken_apart/views/js/shared/dom.js";
import { s } from "../../../../taken_apart/views/js/shared/svg.js";
import { dot, evenness, mixed, slope, terms, weightsOf } from "./scale_math.js";

const SMALL = -2;
const LARGE = 5; // the divisor runs from 2^-2 to 2^5
const SIDE = 240; // of the drawing of the values
const EDGE = 44; // around its outermost values

const two = (value) => (Number.isInteger(value) ? String(value) : value.toFixed(2));

// The map as a grid of buttons: one stop for the tab key, arrow keys inside.
function mapPane(scene) {
  const { model, tokens } = scene;
  const n = tokens.length;
  const row = (...cells) => h("tr", { role: "row" }, ...cells);
  const cells = tokens.map((_, q) =>
    tokens.map((_, k) =>
      h("td", { role: "gridcell", onclick: () => scene.choose(q, k) }, h("b"), h("small")),
    ),
  );
  const heads = tokens.map((text) => h("th", { scope: "col", role: "columnheader", text }));
  const corner = h("td", { role: "gridcell", class: "eta-quiet", text: "asks ↓" });
  const names = tokens.map((text) => h("th", { scope: "row", role: "rowheader", text }));
  const look = { class: "scale-map", role: "grid", "aria-label": "weights; below each, its score" };
  const rows = cells.map((line, q) => row(names[q], ...line));
  const node = h("table", look, row(corner, ...heads), ...rows);
  node.addEventListener("keydown", (event) => {
    const step = MOVES[event.key];
    if (!step) return;
    event.preventDefault();
    const [q, k] = model.get("cell").map((at, i) => Math.min(n - 1, Math.max(0, at + step[i])));
    scene.choose(q, k);
    cells[q][k].focus();
  });
  function draw() {
    const [atQ, atK] = model.get("cell");
    cells.forEach((line, q) => {
      const weights = scene.weights(q);
      line.forEach((cell, k) => {
        const here = q === atQ && k === atK;
        const [weight, score] = cell.children;
        cell.tabIndex = here ? 0 : -1;
        cell.setAttribute("aria-selected", here);
        cell.style.setProperty("--amount", `${Math.round(60 * weights[k])}%`);
        weight.textContent = weights[k].toFixed(3);
        score.textContent = two(scene.score(q, k));
      });
    });
  }
  return { node, draw };
}

// The chosen cell: each product, their sum, the division, the power, the share.
function cellPane(scene) {
  const { model, tokens, columns, query, key } = scene;
  const title = h("strong");
  const table = h("table", { class: "scale-terms eta-num" });
  const steps = h("p", { class: "eta-num", "aria-live": "polite" });
  const line = (name, values, look = "") =>
    h(
      "tr",
      { class: look },
      h("th", { scope: "row", text: name }),
      ...values.map((text) => h("td", { text })),
    );
  function draw() {
    const [q, k] = model.get("cell");
    const divisor = model.get("divisor");
    const score = scene.score(q, k);
    const products = terms(query[q], key[k]).map(two);
    const grown = tokens.map((_, j) => Math.exp(scene.score(q, j) / divisor));
    const sum = grown.reduce((a, b) => a + b, 0);
    title.textContent = `“${tokens[q]}” asks “${tokens[k]}”`;
    table.replaceChildren(
      h("tr", {}, h("td"), ...columns.map((text) => h("th", { scope: "col", text }))),
      line("query", query[q].map(two)),
      line("key", key[k].map(two)),
      line("product", products, "scale-sum"),
    );
    steps.replaceChildren(
      `${products.join(" + ")} = `,
      h("b", { text: two(score) }),
      h("br"),
      `${two(score)} / ${divisor.toFixed(2)} = ${(score / divisor).toFixed(3)}`,
      h("br"),
      `e to that: ${grown[k].toPrecision(4)}, of ${sum.toPrecision(4)} in the row`,
      h("br"),
      "share: ",
      h("b", { text: scene.weights(q)[k].toFixed(3) }),
    );
  }
  const next = button("next cell", scene.next);
  const node = h("section", { class: "scale-cell", "aria-label": "the chosen cell" });
  node.append(h("div", { class: "scale-head" }, title, next), table, steps);
  return { node, draw };
}

// The chosen row: a bar a key, and two numbers that say how open it is.
function rowPane(scene) {
  const { model, tokens } = scene;
  const title = h("strong");
  const meters = [...tokens, "evenness", "slope"].map((text, i) => {
    const fill = h("i");
    const value = h("span", { class: "eta-num" });
    const look = i < tokens.length ? "scale-bar" : "scale-bar scale-measure";
    const track = h("span", { class: "scale-track" }, fill);
    return { fill, value, node: h("div", { class: look }, h("span", { text }), track, value) };
  });
  function draw() {
    const q = model.get("cell")[0];
    const weights = scene.weights(q);
    const shown = [...weights, evenness(weights), slope(weights)];
    title.textContent = `the row of “${tokens[q]}”`;
    meters.forEach(({ fill, value }, i) => {
      fill.style.width = `${100 * Math.min(1, shown[i])}%`;
      value.textContent = shown[i].toFixed(3);
    });
  }
  const node = h("section", { class: "scale-row", "aria-label": "the row of weights" });
  node.append(title, ...meters.map((meter) => meter.node));
  return { node, draw };
}

// The values as points of a plane, and the output, which moves among them.
function outputPane(scene) {
  const { model, tokens, value, names } = scene;
  const spread = [0, 1].map((axis) => {
    const all = value.map((point) => point[axis]);
    return [Math.min(...all), Math.max(...all)];
  });
  const place = (x, [low, high]) => EDGE + ((x - low) / (high - low || 1)) * (SIDE - 2 * EDGE);
  const onPaper = ([x, y]) => [place(x, spread[0]), SIDE - place(y, spread[1])];
  const spots = value.map(onPaper);
  const threads = spots.map(() => s("path", { class: "scale-thread" }));
  const drawn = spots.map(([x, y], k) =>
    s(
      "g",
      {},
      s("circle", { cx: x, cy: y, r: 5 }),
      s("text", { class: "scale-name", x: x + 8, y: y - 8 }, tokens[k]),
    ),
  );
  const output = s("circle", { class: "scale-output", r: 8 });
  const title = h("strong");
  const said = h("p", { class: "eta-num", "aria-live": "polite" });
  const look = { class: "scale-plane", viewBox: `0 0 ${SIDE} ${SIDE}`, role: "img" };
  const label = "the values as points; lines as thick as their weights lead to the output";
  const drawing = s("svg", { ...look, "aria-label": label });
  drawing.append(
    s("text", { x: SIDE / 2, y: SIDE - 4 }, names[0]),
    s("text", { x: 12, y: SIDE / 2, transform: `rotate(-90 12 ${SIDE / 2})` }, names[1]),
    s("path", { class: "scale-axes", d: `M22 8V${SIDE - 22}H${SIDE - 8}` }),
    ...threads,
    ...drawn,
    output,
  );
  function draw() {
    const q = model.get("cell")[0];
    const weights = scene.weights(q);
    const made = mixed(weights, value);
    const [x, y] = onPaper(made);
    output.setAttribute("cx", x);
    output.setAttribute("cy", y);
    threads.forEach((thread, k) => {
      thread.setAttribute("d", `M${spots[k].join(" ")}L${x} ${y}`);
      thread.setAttribute("stroke-width", 14 * weights[k]);
    });
    title.textContent = `the output of “${tokens[q]}”`;
    said.textContent = made.map((each, i) => `${names[i]} ${each.toFixed(3)}`).join(", ");
  }
  const node = h("section", { class: "scale-output-pane", "aria-label": "the output" });
  node.append(title, drawing, said);
  return { node, draw };
}

function reader(model) {
  const tokens = model.get("tokens");
  const query = model.get("query");
  const key = model.get("key");
  const scene = {
    model,
    tokens,
    query,
    key,
    columns: model.get("columns"),
    value: model.get("value"),
    names: model.get("value_columns"),
    score: (q, k) => dot(query[q], key[k]),
    weights: (q) => weightsOf(query[q], key, model.get("divisor")),
    choose: (q, k) => put(model, { cell: [q, k] }),
    next() {
      const [q, k] = model.get("cell");
      const n = tokens.length;
      const i = (q * n + k + 1) % (n * n);
      scene.choose(Math.floor(i / n), i % n);
    },
  };
  return scene;
}

function render({ model, el }) {
  const { box, signal, end } = frame(el, "scale", "Turn the divisor");
  const scene = reader(model);
  const width = scene.columns.length;
  const slider = h("input", {
    type: "range",
    min: SMALL,
    max: LARGE,
    step: 0.05,
    "aria-label": "divisor",
    oninput: () => put(model, { divisor: 2 ** Number(slider.value) }),
  });
  const value = h("span", { class: "eta-num scale-value" });
  const stops = [
    ["1", 1],
    ["√K", Math.sqrt(width)],
    ["K", width],
  ].map(([text, divisor]) => {
    const node = button(text, () => put(model, { divisor }), { "aria-label": `divide by ${text}` });
    return { divisor, node };
  });
  const parts = [mapPane(scene), cellPane(scene), rowPane(scene)];
  if (scene.value) parts.push(outputPane(scene));
  const draw = () => {
    const divisor = model.get("divisor");
    if (Math.abs(2 ** slider.value - divisor) > 0.02 * divisor) slider.value = Math.log2(divisor);
    slider.setAttribute("aria-valuetext", `divided by ${divisor.toFixed(2)}`);
    value.textContent = divisor.toFixed(2);
    for (const stop of stops) {
      stop.node.setAttribute("aria-pressed", Math.abs(stop.divisor - divisor) < 0.005);
    }
    for (const part of parts) part.draw();
  };
  const bar = h("div", { class: "eta-bar" }, h("label", {}, "divide by", slider, value));
  bar.append(...stops.map((stop) => stop.node));
  bar.append(h("span", { class: "eta-quiet" }, letter("K"), ` = ${width}`));
  box.append(bar, h("div", { class: "scale-panes" }, ...parts.map((part) => part.node)));
  onChange(model, ["divisor", "cell"], signal, draw);
  draw();
  return end;
}

export default { render };
