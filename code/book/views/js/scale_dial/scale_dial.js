// One row of attention at any divisor, and any cell of the map spelled out.
import { MOVES } from "../../../../taken_apart/views/js/shared/arrows.js";
import { entropy } from "../../../../taken_apart/views/js/attention_map/attention_math.js";
import {
  button,
  frame,
  h,
  letter,
  onChange,
  put,
} from "../../../../taken_apart/views/js/shared/dom.js";

const SMALL = -2;
const LARGE = 5; // the divisor runs from 2^-2 to 2^5

export function terms(query, key) {
  return query.map((value, i) => value * key[i]);
}

export function dot(query, key) {
  return terms(query, key).reduce((sum, term) => sum + term, 0);
}

export function softmax(scores) {
  const most = Math.max(...scores);
  const grown = scores.map((score) => Math.exp(score - most));
  const sum = grown.reduce((a, b) => a + b, 0);
  return grown.map((each) => each / sum);
}

// The weights that one query gives to the keys.
export function weightsOf(query, keys, divisor) {
  return softmax(keys.map((key) => dot(query, key) / divisor));
}

// Entropy over its maximum: 1 where all weigh the same, 0 where one has everything.
export function evenness(weights) {
  return weights.length > 1 ? entropy(weights) / Math.log2(weights.length) : 0;
}

// The Frobenius norm of diag(w) - w w^T, the derivative of softmax.
export function slope(weights) {
  const power = (n) => weights.reduce((sum, w) => sum + w ** n, 0);
  return Math.sqrt(Math.max(0, power(2) - 2 * power(3) + power(2) ** 2));
}

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
