// Move the words of a sentence: do its rows only move along, or do they change?
import { button, frame, h, onChange, put } from "../../../../taken_apart/views/js/shared/dom.js";
import { extreme, strip, sums } from "../../../../taken_apart/views/js/shared/strips.js";

// The rows of the words in this order: each word's own, plus that of its place if asked.
export function rowsOf(words, places, order, add) {
  const rows = order.map((n) => words[n]);
  return add ? sums(rows, places) : rows;
}

// For each row, whether it is one of the others, up to rounding.
export function known(rows, others) {
  const same = (a, b) => a.every((value, j) => Math.abs(value - b[j]) < 1e-6);
  return rows.map((row) => others.some((other) => same(row, other)));
}

// The rows as a set, each by its number: in an order that tells nothing of where they stand.
export function sorted(rows) {
  const before = (a, b) => {
    const j = a.findIndex((value, n) => Math.abs(value - b[n]) > 1e-9);
    return j < 0 ? 0 : b[j] - a[j];
  };
  return rows.map((_, i) => i).sort((i, j) => before(rows[i], rows[j]));
}

export function moved(order, from, to) {
  const rest = order.filter((_, i) => i !== from);
  return [...rest.slice(0, to), order[from], ...rest.slice(to)];
}

// Another order, by the numbers from 0 to 1 that `random` gives.
export function shuffled(order, random = Math.random) {
  const keys = order.map(() => random());
  const next = order
    .map((_, i) => i)
    .sort((i, j) => keys[i] - keys[j])
    .map((i) => order[i]);
  return next.every((n, i) => n === order[i]) ? moved(order, 0, order.length - 1) : next;
}

function verdict(hits, isStart) {
  const fresh = hits.filter((hit) => !hit).length;
  if (isStart) return "The sentence as it was. Move a word.";
  if (!fresh)
    return `The same ${hits.length} rows in another order: as a set, nothing has changed.`;
  return `${fresh} of ${hits.length} rows are new: these words have become other vectors.`;
}

// A row of the sentence that is pointed at lights its twin in the set.
function lightTwins(list, set, twins) {
  const light = ({ target }) => {
    const row = [...list.children].findIndex((li) => li.contains(target));
    set.querySelectorAll(".eta-strip").forEach((line, i) => {
      line.toggleAttribute("data-lit", twins()[i] === row);
    });
  };
  for (const name of ["pointerover", "focusin"]) list.addEventListener(name, light);
}

function render({ model, el }) {
  const { box, signal, end } = frame(el, "order", "Shuffle the words");
  const tokens = model.get("tokens");
  const words = model.get("words");
  const places = model.get("places");
  const start = tokens.map((_, i) => i);
  const add = button("add positions", () => put(model, { add: !model.get("add") }));
  const says = h("p", { class: "eta-num", "aria-live": "polite" });
  const list = h("ol", { class: "order-list" });
  const set = h("div", { class: "order-set" });
  const go = (order) => put(model, { order });
  let twins = []; // the place in the sentence of each row of the set
  let held = null; // the place of the word that the pointer drags

  function item(row, i, hit, top) {
    const word = tokens[model.get("order")[i]];
    const label = `${word}, place ${i}; arrow keys move it`;
    const grip = button(word, null, { class: "eta-button order-word", "aria-label": label });
    const mark = h("span", { class: "order-mark", text: hit ? "" : "new" });
    const number = h("span", { class: "eta-quiet", text: i });
    return h("li", { "data-new": !hit }, number, grip, strip(row, top, 2), mark);
  }
  function draw() {
    const order = model.get("order");
    const plus = model.get("add");
    const rows = rowsOf(words, places, order, plus);
    const first = rowsOf(words, places, start, plus);
    const hits = known(rows, first);
    const top = extreme(words, places);
    const focus = [...list.children].findIndex((li) => li.contains(document.activeElement));
    add.setAttribute("aria-pressed", plus);
    list.replaceChildren(...rows.map((row, i) => item(row, i, hits[i], top)));
    const named = (i) => [h("small", { text: tokens[order[i]] }), strip(rows[i], top, 2)];
    twins = sorted(rows);
    set.replaceChildren(...twins.flatMap(named));
    says.textContent = verdict(
      hits,
      order.every((n, i) => n === i),
    );
    if (focus >= 0) list.querySelectorAll("button")[focus].focus();
  }
  function carry(from, to) {
    if (from === null || to < 0 || to >= tokens.length || from === to) return;
    go(moved(model.get("order"), from, to));
    list.querySelectorAll("button")[to].focus();
  }
  const placeOf = (node) => [...list.children].findIndex((li) => li.contains(node));
  const placeAt = (y) =>
    [...list.children].findIndex((li) => {
      const { top, bottom } = li.getBoundingClientRect();
      return y >= top && y < bottom;
    });
  list.addEventListener("keydown", (event) => {
    const step = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    carry(placeOf(event.target), placeOf(event.target) + step);
  });
  list.addEventListener("pointerdown", (event) => {
    if (!event.target.matches("button")) return;
    held = placeOf(event.target);
    list.setPointerCapture(event.pointerId);
    event.preventDefault();
    event.target.focus();
  });
  list.addEventListener("pointermove", (event) => {
    const to = held === null ? -1 : placeAt(event.clientY);
    if (to < 0 || to === held) return;
    carry(held, to);
    held = to;
  });
  for (const name of ["pointerup", "pointercancel"]) {
    list.addEventListener(name, () => (held = null));
  }
  lightTwins(list, set, () => twins);
  const legend = h("div", {
    class: "eta-quiet order-legend",
    text: "A row is the vector of its word: blue above zero, red below.",
  });
  const shuffle = button("shuffle", () => go(shuffled(model.get("order"))));
  const title = h("span", { class: "eta-quiet", text: "the rows as a set, sorted" });
  box.append(
    h(
      "div",
      { class: "eta-bar" },
      shuffle,
      button("as it was", () => go(start)),
      add,
    ),
    says,
    legend,
    h("div", { class: "order-panes" }, list, h("div", { class: "order-side" }, title, set)),
  );
  onChange(model, ["order", "add"], signal, draw);
  draw();
  return end;
}

export default { render };
