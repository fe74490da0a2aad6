// Paint a mask, and see what each convention and each function makes of it.
import { button, frame, h, onChange, put } from "../../../../taken_apart/views/js/shared/dom.js";
import { picker } from "../../../../taken_apart/views/js/shared/inputs.js";
import { once } from "../../../../taken_apart/views/js/shared/later.js";
import { HANDED, WRITTEN, callCode, maskCode } from "./mask_code.js";
import { numberTable, paintGrid } from "./mask_grid.js";
import {
  CONTENTS,
  attend,
  drift,
  emptyAnswers,
  emptyRow,
  fillOf,
  outcome,
  presets,
  withContent,
} from "./mask_math.js";
import { cellText } from "../../../../taken_apart/views/js/shared/shades.js";

const STATE = ["blocked", "is_cross", "content", "written", "handed", "fill", "number_format"];
const AS_CHOSEN = ["written", "handed", "fill"];
const AS_MEANT = { written: "blocked", handed: "attention", fill: "lowest" };
const FILLS = {
  "-inf": "\u2212inf",
  "-1e9": "\u22121e9",
  lowest: "lowest of the format",
  none: "none: nothing is filled",
};
const FORMATS = { float32: "float32", float16: "float16" };

const quoted = (name) => `\u201c${name}\u201d`;

// What became of the mask, for a reader.
function verdictText({ kind, text, most }, unseeing) {
  return {
    meant: "\u2713 The function reads this mask as it was meant.",
    unseeing:
      `\u2248 The function reads this mask as it was meant, and ${unseeing} sees nothing: ` +
      "its output is all zeros, as if it were no word.",
    inverted:
      "\u2717 Inverted: what the mask hides is all that is seen. " +
      "No error, and every shape is right.",
    leak: `\u2717 Not hidden: a hidden key gets ${cellText(most ?? 0)} of a query\u2019s attention.`,
    other: "\u2717 What is hidden stays hidden, but the scores of the rest are lost.",
    nan: "\u2717 nan: a query that may see nothing has no softmax.",
    error: `\u2717 Refused, which is the kind thing to do. ${text}`,
  }[kind];
}

// The verdict in words, and whether it is good, bad, or open: right, and yet no use.
function judged({ verdict, rows, blocked }) {
  const row = emptyRow(blocked);
  const isMeant = verdict.kind === "meant";
  if (!isMeant) return { kind: "bad", text: verdictText(verdict) };
  if (row < 0) return { kind: "good", text: verdictText(verdict) };
  return { kind: "open", text: verdictText({ kind: "unseeing" }, quoted(rows[row])) };
}

function paddingText(moved, rows, padded) {
  if (!moved) return "";
  if (Number.isNaN(moved.by))
    return `\u2717 The output of ${quoted(rows[moved.row])} is nan, whatever stands in ${padded}.`;
  if (moved.by < 1e-6)
    return `\u2713 Whatever stands in ${padded}: the outputs of the real tokens stay the same.`;
  const output = `the output of ${quoted(rows[moved.row])}`;
  return `\u2717 Change what stands in ${padded}, and ${output} moves by ${cellText(moved.by)}.`;
}

// All that is shown, from the state alone.
function readScene(model) {
  const get = (name) => model.get(name);
  const isCross = get("is_cross");
  const padding = get("padding");
  const data = {
    query: get(isCross ? "cross_query" : "query"),
    key: get("key"),
    value: get("value"),
  };
  const format = get("number_format");
  const blocked = get("blocked");
  const options = { written: get("written"), handed: get("handed"), fill: get("fill"), format };
  const shown = withContent(data, padding, get("content"), isCross);
  const result = attend(shown, blocked, options);
  return {
    blocked,
    options,
    data: shown,
    result,
    cols: get("tokens"),
    rows: get(isCross ? "cross_tokens" : "tokens"),
    verdict: outcome(result, blocked, attend(shown, blocked, { ...AS_MEANT, format })),
    moved: padding.length ? drift(data, blocked, padding, isCross, options) : null,
  };
}

function presetBar(model) {
  const masks = presets(
    model.get("tokens").length,
    model.get("padding"),
    model.get("cross_query").length,
  );
  const buttons = Object.entries(masks).map(([name, blocked]) =>
    button(name, () => put(model, { blocked, is_cross: name === "cross" })),
  );
  const node = h("div", {
    class: "eta-bar mask-presets",
    role: "group",
    "aria-label": "masks to start from",
  });
  node.append(...buttons);
  const draw = () => {
    const now = JSON.stringify([model.get("blocked"), model.get("is_cross")]);
    for (const each of buttons) {
      const name = each.textContent;
      each.setAttribute("aria-pressed", JSON.stringify([masks[name], name === "cross"]) === now);
    }
  };
  return { node, draw };
}

function fourMaps(model, signal) {
  const hide = (i, j, on) =>
    put(model, {
      blocked: model
        .get("blocked")
        .map((row, r) => row.map((was, c) => ((i ?? r) === r && (j ?? c) === c ? on : was))),
    });
  const painted = paintGrid(hide, signal);
  const [masked, weights, output] = [0, 1, 2].map(numberTable);
  const panel = (number, name, says, node) => {
    const title = h("p", {}, h("strong", { text: `${number} ${name}` }), ` ${says}`);
    // What scrolls must be reached by keys; the first map holds buttons that are.
    const scroll = h("div", { class: "mask-scroll", role: "group", "aria-label": name }, node);
    if (number > 1) scroll.tabIndex = 0;
    return h("div", { class: "mask-panel" }, title, scroll);
  };
  const node = h(
    "div",
    { class: "mask-flow" },
    panel(
      1,
      "Scores",
      "click a cell, a column\u2019s name or a row\u2019s name to hide it",
      painted.node,
    ),
    panel(2, "Masked scores", "what the softmax gets", masked.node),
    panel(3, "Weights", "each row should sum to one", weights.node),
    panel(4, "Outputs", "what each query takes home", output.node),
  );
  // As high as the sequence is long, also where the queries of another one are fewer.
  node.style.setProperty("--rows", model.get("tokens").length + 1);
  const draw = ({ rows, cols, result, blocked, data }) => {
    painted.draw(rows, cols, result.scores, blocked);
    masked.draw(rows, cols, result.masked);
    weights.draw(rows, cols, result.weights, true);
    output.draw(
      rows,
      data.value[0].map((_, c) => String(c)),
      result.output,
    );
  };
  return { node, draw };
}

function choices(model) {
  const options = () => Object.fromEntries(AS_CHOSEN.map((name) => [name, model.get(name)]));
  const choose = (label, name, names, read = () => model.get(name)) =>
    picker(label, Object.entries(names), read, (value) => put(model, { [name]: value }));
  const fill = choose("fill", "fill", FILLS, () => fillOf(options()).fill);
  const all = [
    choose("written as", "written", WRITTEN),
    choose("handed to", "handed", HANDED),
    fill,
    choose("numbers", "number_format", FORMATS),
  ];
  const node = h("div", { class: "eta-bar mask-choices" }, ...all.map((each) => each.node));
  const list = fill.node.control;
  const note = h("span", { class: "eta-quiet mask-note" });
  node.append(note);
  const draw = () => {
    for (const each of all) each.sync();
    list.disabled = !fillOf(options()).isChosen;
    list.lastChild.hidden = list.disabled === false;
    note.textContent = list.disabled ? "The function itself decides on the fill." : "";
  };
  return { node, draw };
}

function emptyPanel() {
  const node = h("section", { class: "mask-empty", "aria-label": "a query that may see nothing" });
  const draw = ({ rows, blocked, data }) => {
    const row = emptyRow(blocked);
    node.hidden = row < 0;
    if (row < 0) return;
    const line = ({ says, weights }) =>
      h(
        "tr",
        {},
        h("th", { scope: "row", text: says }),
        ...weights.map((w) => h("td", { class: "eta-num", text: cellText(w) })),
      );
    const title = h("p", {
      class: "mask-title",
      text: `${quoted(rows[row])} may see nothing. Its weights, in four ways:`,
    });
    const table = h("table", { class: "mask-answers" }, ...emptyAnswers(data, blocked).map(line));
    node.replaceChildren(
      title,
      h(
        "div",
        { class: "mask-scroll", tabindex: 0, role: "group", "aria-label": "four ways" },
        table,
      ),
    );
  };
  return { node, draw };
}

function render({ model, el }) {
  const { box, signal, end } = frame(el, "mask", "A mask to paint");
  const tokens = model.get("tokens");
  const padding = model.get("padding");
  const padded = [...new Set(padding.map((i) => tokens[i]))].join(" and ");
  const bar = presetBar(model);
  const maps = fourMaps(model, signal);
  const chosen = choices(model);
  const empty = emptyPanel();
  const content = picker(
    `${padded} holds`,
    Object.keys(CONTENTS).map((text) => [text, text]),
    () => model.get("content"),
    (text) => put(model, { content: text }),
  );
  const verdict = h("p", { class: "mask-verdict", role: "status" });
  const stays = h("p", { class: "mask-verdict", role: "status" });
  const code = h("pre", {
    class: "mask-code",
    tabindex: 0,
    "aria-label": "the mask as Python",
    role: "group",
  });
  const holds = h("div", { class: "eta-bar" }, content.node);
  holds.hidden = padding.length === 0;

  function draw() {
    const scene = readScene(model);
    const { options, blocked } = scene;
    for (const part of [bar, maps, chosen, empty]) part.draw(scene);
    content.sync();
    code.textContent = `${maskCode(blocked, options)}\n${callCode(blocked, options)}`;
    const { kind, text } = judged(scene);
    verdict.textContent = text;
    verdict.dataset.kind = kind;
    stays.textContent = paddingText(scene.moved, scene.rows, padded);
    stays.dataset.kind = scene.moved && scene.moved.by < 1e-6 ? "good" : "bad";
  }
  box.append(
    bar.node,
    holds,
    stays,
    maps.node,
    h("p", { class: "mask-title", text: "The same mask, written down and handed over" }),
    chosen.node,
    code,
    verdict,
    empty.node,
  );
  onChange(
    model,
    STATE,
    signal,
    once(queueMicrotask, () => !signal.aborted && draw()),
  );
  draw();
  return end;
}

export default { render };
