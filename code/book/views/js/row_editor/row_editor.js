// Push one token, and see which rows of two parts of the encoder move.
import { frame, h, onChange, put } from "../../../../taken_apart/views/js/shared/dom.js";
import { at, attend, linear, relu, toMatrix } from "../encoder_lab/encoder_math.js";

// The outputs of both parts for tokens that were pushed, each a matrix (T, D).
export function outputsOf(state, push) {
  const x = toMatrix(state.x.map((row, t) => row.map((value) => value + push[t])));
  const partOf = (names) => (name, rows) =>
    linear(rows, toMatrix(names[`${name}.weight`]), toMatrix(names[`${name}.bias`]));
  const feed = partOf(state.feed_forward);
  const visible = state.x.map(() => false);
  const nothing = () => false;
  const { mixed } = attend(x, partOf(state.attention), state.n_heads, visible, nothing);
  return { x, "feed-forward": feed("down", relu(feed("up", x))), attention: mixed };
}

// How far each row of a matrix has moved: the largest change of its numbers.
export function movesOf(before, after) {
  return Array.from({ length: before.rows }, (_, t) =>
    Math.max(
      ...Array.from({ length: before.cols }, (__, d) =>
        Math.abs(at(after, t, d) - at(before, t, d)),
      ),
    ),
  );
}

const signed = (value) =>
  Math.abs(value) < 0.05 ? "0.0" : value.toFixed(1).replace("-", "\u2212");

// A matrix as coloured numbers, with a mark beside each row that has moved.
function grid(title, tokens, first) {
  const cells = tokens.map(() =>
    Array.from({ length: first.cols }, () => h("td", { class: "eta-num" })),
  );
  const marks = tokens.map(() => h("td", { class: "row-mark eta-num" }));
  const rows = tokens.map((token, t) =>
    h("tr", {}, h("th", { scope: "row", text: token }), ...cells[t], marks[t]),
  );
  const node = h("table", { class: "row-grid" }, h("caption", { text: title }), ...rows);
  function draw(before, after) {
    const moved = movesOf(before, after);
    cells.forEach((row, t) =>
      row.forEach((cell, d) => {
        const value = at(after, t, d);
        cell.textContent = signed(value);
        cell.dataset.sign = value < 0 ? "neg" : "pos";
        cell.style.setProperty("--amount", `${Math.min(44, Math.round(Math.abs(value) * 22))}%`);
      }),
    );
    marks.forEach((mark, t) => {
      mark.textContent = moved[t] ? "\u25cf moves" : "";
      rows[t].toggleAttribute("data-moved", moved[t] > 0);
    });
    return moved.filter((by) => by > 0).length;
  }
  return { node, draw };
}

function render({ model, el }) {
  const { box, signal, end } = frame(el, "rows", "Tokens to push, and the rows that move");
  const names = ["x", "tokens", "n_heads", "feed_forward", "attention"];
  const state = Object.fromEntries(names.map((name) => [name, model.get(name)]));
  const before = outputsOf(
    state,
    state.tokens.map(() => 0),
  );
  const grids = Object.entries(before).map(([name, first]) => [
    name,
    grid(name === "x" ? "the tokens" : name, state.tokens, first),
  ]);
  const sliders = state.tokens.map((token, t) => {
    const input = h("input", {
      type: "range",
      min: -2,
      max: 2,
      step: 0.1,
      "aria-label": `push ${token}`,
    });
    input.addEventListener("input", () =>
      put(model, { push: model.get("push").with(t, Number(input.value)) }),
    );
    return input;
  });
  const told = h("p", { role: "status" });
  const back = h("button", {
    class: "eta-button",
    type: "button",
    text: "put back",
    onclick: () => put(model, { push: state.tokens.map(() => 0) }),
  });
  function draw() {
    const push = model.get("push");
    const after = outputsOf(state, push);
    sliders.forEach((slider, t) => (slider.value = push[t]));
    const counts = grids.map(([name, { draw: show }]) => [name, show(before[name], after[name])]);
    const T = state.tokens.length;
    const [, ...parts] = counts;
    const pushed = push.filter(Boolean).length;
    const moves = parts.map(([name, n]) => `${name} moves ${n} of ${T} rows`).join(", ");
    told.textContent = pushed
      ? `${pushed} of ${T} tokens pushed: ${moves}.`
      : "Nothing pushed yet.";
  }
  const label = (token, slider) => h("label", {}, `push ${token} `, slider);
  box.append(
    h(
      "div",
      { class: "eta-bar" },
      ...state.tokens.map((token, t) => label(token, sliders[t])),
      back,
    ),
    h("div", { class: "row-grids" }, ...grids.map(([, { node }]) => node)),
    told,
  );
  onChange(model, ["push"], signal, draw);
  draw();
  return end;
}

export default { render };
