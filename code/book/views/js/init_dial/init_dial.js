// How large a word's vector is beside the vector of its place: pick an initialisation,
// turn d_model, multiply by the root or leave it.
import { frame, h, letter, onChange, put } from "../../../../taken_apart/views/js/shared/dom.js";
import { picker } from "../../../../taken_apart/views/js/shared/inputs.js";
import { extreme, strip, sums } from "../../../../taken_apart/views/js/shared/strips.js";
import { s } from "../../../../taken_apart/views/js/shared/svg.js";

const LEFT = 46;
const RIGHT = 82;
const TOP = 14;
const BOTTOM = 34;
const WIDE = 420;
const HIGH = 250;

export function scaled(rms, width, root) {
  return root ? rms * Math.sqrt(width) : rms;
}

// The part of the sum's squared length that comes from the word: of two unrelated
// vectors the squares add up.
export function wordShare(word, place) {
  return word ** 2 / (word ** 2 + place ** 2);
}

// Three digits that say something, for numbers from 0.001 to 1000.
export function short(value) {
  return value.toFixed(Math.max(0, Math.min(3, 1 - Math.floor(Math.log10(value)))));
}

// What the ratio means: beyond three either way, one of the two is faint in the sum.
export function judge(ratio) {
  if (ratio > 3) return `${short(ratio)} times as large as places: the places drown`;
  if (ratio < 1 / 3) return `${short(1 / ratio)} times smaller than places: the words drown`;
  return `${short(ratio)} times as large as places: both are heard`;
}

// Where a width and an RMS lie in the drawing; `low` and `high` are powers of ten.
export function spots(widths, low, high) {
  const across = (width) => Math.log2(width / widths[0]) / Math.log2(widths.at(-1) / widths[0]);
  return {
    x: (width) => LEFT + across(width) * (WIDE - LEFT - RIGHT),
    y: (rms) => TOP + ((high - Math.log10(rms)) / (high - low)) * (HIGH - TOP - BOTTOM),
  };
}

// Where labels stand whose lines end at `levels`: at least `gap` apart, none below `bottom`.
export function spread(levels, gap, bottom) {
  const order = levels.map((_, i) => i).sort((a, b) => levels[a] - levels[b]);
  const found = [...levels];
  order.forEach((i, k) => {
    if (k) found[i] = Math.max(found[i], found[order[k - 1]] + gap);
  });
  let limit = bottom;
  for (const i of order.reverse()) {
    found[i] = Math.min(found[i], limit);
    limit = found[i] - gap;
  }
  return found;
}

function reader(model) {
  const names = model.get("names");
  const widths = model.get("widths");
  const rms = model.get("rms");
  const place = model.get("place_rms");
  const at = () => widths.indexOf(model.get("d_model"));
  return {
    model,
    names,
    widths,
    at,
    size: (init, i, root = model.get("root")) => scaled(rms[init][i], widths[i], root),
    place: (i) => place[i],
    words() {
      const rows = model.get("words")[model.get("init")][at()];
      const factor = scaled(1, widths[at()], model.get("root"));
      return model.get("row_of").map((n) => rows[n].map((value) => value * factor));
    },
    places: () => model.get("places")[at()],
  };
}

// The chart: RMS against d_model, both in steps of equal factors.
function chart(scene) {
  const { model, names, widths } = scene;
  const every = names.flatMap((_, n) =>
    widths.flatMap((_, i) => [scene.size(n, i, false), scene.size(n, i, true)]),
  );
  const low = Math.floor(Math.log10(Math.min(...every)));
  const high = Math.ceil(Math.log10(Math.max(...every)));
  const { x, y } = spots(widths, low, high);
  const node = s("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", class: "dial-chart" });
  const line = (sizes, look) =>
    s("polyline", { class: look, points: widths.map((w, i) => [x(w), y(sizes(i))]).join(" ") });

  function draw() {
    const i = scene.at();
    const init = model.get("init");
    const root = model.get("root");
    const word = scene.size(init, i);
    const place = scene.place(i);
    const here = x(widths[i]);
    const parts = [];
    for (let power = low; power <= high; power++) {
      const level = y(10 ** power);
      const ends = { x1: LEFT, x2: WIDE - RIGHT, y1: level, y2: level };
      parts.push(s("line", { class: "dial-grid", ...ends }));
      parts.push(s("text", { x: LEFT - 5, y: level + 4, "text-anchor": "end" }, 10 ** power));
    }
    for (const width of widths) {
      parts.push(s("text", { x: x(width), y: HIGH - 18, "text-anchor": "middle" }, width));
    }
    const middle = { x: (LEFT + WIDE - RIGHT) / 2, y: HIGH - 4, "text-anchor": "middle" };
    parts.push(s("text", middle, "width D = d_model"));
    const upwards = { transform: `rotate(-90) translate(${-(TOP + HIGH - BOTTOM) / 2} 11)` };
    parts.push(s("text", { ...upwards, "text-anchor": "middle" }, "size (RMS)"));
    names.forEach((_, n) => n !== init && parts.push(line((k) => scene.size(n, k), "dial-other")));
    parts.push(line((k) => scene.size(init, k, !root), "dial-undone"));
    parts.push(
      line(scene.place, "dial-place"),
      line((k) => scene.size(init, k), "dial-word"),
    );
    parts.push(s("line", { class: "dial-gap", x1: here, x2: here, y1: y(word), y2: y(place) }));
    const end = widths.length - 1;
    const labels = [
      ...names.map((name, n) => [name, scene.size(n, end), n === init ? "dial-word" : ""]),
      ["places", scene.place(end), "dial-place"],
      [root ? "without × √D" : "with × √D", scene.size(init, end, !root), "dial-word"],
    ];
    const levels = spread(
      labels.map((label) => y(label[1]) + 4),
      12,
      HIGH - BOTTOM,
    );
    labels.forEach(([text, , look], k) => {
      const spot = { x: WIDE - RIGHT + 6, y: levels[k] };
      parts.push(s("text", { class: `dial-name ${look}`, ...spot }, text));
    });
    parts.push(s("circle", { class: "dial-word", cx: here, cy: y(word), r: 5 }));
    parts.push(s("circle", { class: "dial-place", cx: here, cy: y(place), r: 5 }));
    node.replaceChildren(...parts);
    node.setAttribute(
      "aria-label",
      `RMS against d_model, log scale: word ${short(word)}, place ${short(place)}`,
    );
  }
  const turn = (event) => {
    const box = node.getBoundingClientRect();
    const wanted = ((event.clientX - box.left) / box.width) * WIDE;
    const off = (width) => Math.abs(x(width) - wanted);
    put(model, { d_model: widths.reduce((a, b) => (off(b) < off(a) ? b : a)) });
  };
  node.addEventListener("pointerdown", (event) => {
    node.setPointerCapture(event.pointerId);
    turn(event);
  });
  node.addEventListener("pointermove", (event) => event.buttons && turn(event));
  return { node, draw };
}

// The sum of five words and five places, in sixteen of its columns.
function picture(scene) {
  const tokens = scene.model.get("tokens");
  const blocks = ["words", "+ places", "= what the encoder gets"].map((text) => {
    const rows = h("div", { class: "dial-rows" });
    return { rows, node: h("div", { class: "dial-block" }, h("span", { text }), rows) };
  });
  function draw() {
    const words = scene.words();
    const places = scene.places();
    const shown = [words, places, sums(words, places)];
    const top = extreme(...shown);
    blocks.forEach(({ rows }, n) => {
      const lines = shown[n].map((row, i) => {
        const label = n === 1 ? `place ${i}` : tokens[i];
        return [h("small", { text: label }), strip(row, top, 3)];
      });
      rows.replaceChildren(...lines.flat());
    });
  }
  const label = "The numbers of five words, of their places, and of the sums, as colours";
  const look = { class: "dial-picture", role: "img", "aria-label": label };
  return { node: h("div", look, ...blocks.map((block) => block.node)), draw };
}

function told(scene) {
  const says = h("p", { class: "dial-says eta-num", "aria-live": "polite" });
  const half = (look) => h("span", { class: look });
  const bar = h("div", { class: "dial-share" }, half("dial-word"), half("dial-place"));
  function draw() {
    const i = scene.at();
    const word = scene.size(scene.model.get("init"), i);
    const place = scene.place(i);
    const share = wordShare(word, place);
    const [left, right] = bar.children;
    left.style.flexGrow = share;
    right.style.flexGrow = 1 - share;
    left.textContent = share > 0.15 ? `word ${(100 * share).toFixed(0)} %` : "";
    right.textContent = share < 0.85 ? `place ${(100 * (1 - share)).toFixed(0)} %` : "";
    says.replaceChildren(
      h("span", { class: "dial-key dial-word", text: `words ${short(word)}` }),
      " ",
      h("span", { class: "dial-key dial-place", text: `places ${short(place)}` }),
      h("br"),
      `Words are ${judge(word / place)}.`,
    );
  }
  const title = h("span", { class: "eta-quiet", text: "the sum's squared length comes from" });
  const node = h("div", { class: "dial-told" }, says, title, bar);
  return { node, draw };
}

function render({ model, el }) {
  const { box, signal, end } = frame(el, "init-dial", "Size of words and of places");
  const scene = reader(model);
  const { widths } = scene;
  const init = picker(
    "embedding drawn from",
    scene.names.map((name, n) => [n, name]),
    () => model.get("init"),
    (n) => put(model, { init: n }),
  );
  const slider = h("input", {
    type: "range",
    min: 0,
    max: widths.length - 1,
    step: 1,
    "aria-label": "d_model",
    oninput: () => put(model, { d_model: widths[slider.value] }),
  });
  const shown = h("span", { class: "eta-num dial-width" });
  const root = h("button", {
    class: "eta-button",
    type: "button",
    text: "× √D",
    onclick: () => put(model, { root: !model.get("root") }),
  });
  const parts = [chart(scene), told(scene), picture(scene)];
  const draw = () => {
    init.sync();
    slider.value = scene.at();
    slider.setAttribute("aria-valuetext", model.get("d_model"));
    shown.textContent = model.get("d_model");
    root.setAttribute("aria-pressed", model.get("root"));
    for (const part of parts) part.draw();
  };
  box.append(
    h("div", { class: "eta-bar" }, init.node, h("label", {}, letter("D"), slider, shown), root),
    h("div", { class: "dial-top" }, parts[0].node, parts[1].node),
    parts[2].node,
  );
  onChange(model, ["init", "d_model", "root"], signal, draw);
  draw();
  return end;
}

export default { render };
