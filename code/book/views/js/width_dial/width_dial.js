// Random queries and keys of any width, and three divisors for their scores.
import {
  button,
  frame,
  h,
  letter,
  onChange,
  put,
} from "../../../../taken_apart/views/js/shared/dom.js";
import { softmax } from "../scale_dial/scale_math.js";
import { drawScores, measured, RULES } from "./width_math.js";

function bar(look, text) {
  const fill = h("i");
  const value = h("span", { class: "eta-num" });
  const track = h("span", { class: "scale-track" }, fill);
  return { fill, value, node: h("div", { class: look }, text, track, value) };
}

function fillBar({ fill, value }, share) {
  fill.style.width = `${100 * Math.min(1, share)}%`;
  value.textContent = share.toFixed(3);
}

// One query: each key's divided score, and its weight as a bar.
function rowPane(scene) {
  const title = h("strong");
  const keys = Array.from({ length: scene.model.get("n_keys") }, (_, k) => {
    const score = h("span", { class: "eta-num width-score" });
    const name = h("span", {}, `key ${k + 1}`);
    const made = bar("scale-bar width-key", name);
    name.after(score);
    return { ...made, score };
  });
  function draw() {
    const q = scene.model.get("query");
    const divided = scene.scores()[q].map((score) => score / scene.divisor());
    const weights = softmax(divided);
    title.textContent = `query ${q + 1}: divided scores, and weights`;
    keys.forEach((key, k) => {
      key.score.textContent = divided[k].toFixed(2);
      fillBar(key, weights[k]);
    });
  }
  const node = h("section", { class: "scale-row", "aria-label": "one row of weights" });
  node.append(title, ...keys.map((key) => key.node));
  return { node, draw };
}

// All queries: how far the scores spread, and how open the rows are.
function measurePane(scene) {
  const count = scene.model.get("n_queries");
  const spread = h("p", { class: "eta-num width-spread", "aria-live": "polite" });
  const closed = h("p", { class: "eta-num width-closed" });
  const even = bar("scale-bar scale-measure", h("span", { text: "evenness" }));
  const steep = bar("scale-bar scale-measure", h("span", { text: "slope" }));
  function draw() {
    const divisor = scene.divisor();
    const found = measured(scene.scores(), divisor);
    const left = (found.spread / divisor).toFixed(2);
    spread.textContent = `scores spread by ${found.spread.toFixed(1)}, divided by ${divisor.toFixed(1)}: ${left}`;
    closed.textContent = `rows in which one key has over 99 %: ${found.closed}`;
    fillBar(even, found.evenness);
    fillBar(steep, found.slope);
  }
  const node = h("section", { class: "scale-row", "aria-label": "all rows" });
  node.append(h("strong", { text: `all ${count} queries` }), spread, even.node, steep.node, closed);
  return { node, draw };
}

function render({ model, el }) {
  const { box, signal, end } = frame(el, "width", "Turn the width");
  const widths = model.get("widths");
  const drawn = drawScores({
    seed: model.get("seed"),
    widths,
    n_queries: model.get("n_queries"),
    n_keys: model.get("n_keys"),
  });
  const scene = {
    model,
    scores: () => drawn[widths.indexOf(model.get("width"))],
    divisor: () => RULES[model.get("rule")](model.get("width")),
  };
  const slider = h("input", {
    type: "range",
    min: 0,
    max: widths.length - 1,
    "aria-label": "width K",
    oninput: () => put(model, { width: widths[slider.value] }),
  });
  const value = h("span", { class: "eta-num scale-value" });
  const rules = Object.keys(RULES).map((rule) => {
    const choose = () => put(model, { rule });
    return { rule, node: button(rule, choose, { "aria-label": `divide by ${rule}` }) };
  });
  const other = button("another query", () =>
    put(model, { query: (model.get("query") + 1) % model.get("n_queries") }),
  );
  const parts = [rowPane(scene), measurePane(scene)];
  const draw = () => {
    slider.value = widths.indexOf(model.get("width"));
    slider.setAttribute("aria-valuetext", `K = ${model.get("width")}`);
    value.textContent = `= ${model.get("width")}`;
    for (const { rule, node } of rules)
      node.setAttribute("aria-pressed", rule === model.get("rule"));
    for (const part of parts) part.draw();
  };
  const head = h(
    "div",
    { class: "eta-bar" },
    h("label", {}, letter("K"), slider, value),
    "divide by",
  );
  head.append(...rules.map(({ node }) => node), other);
  box.append(head, h("div", { class: "scale-panes" }, ...parts.map((part) => part.node)));
  onChange(model, ["width", "rule", "query"], signal, draw);
  draw();
  return end;
}

export default { render };
