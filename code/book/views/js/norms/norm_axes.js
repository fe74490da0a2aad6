// A small batch under two norms: which numbers share a mean, and what padding does.
import { MOVES } from "../../../../taken_apart/views/js/shared/arrows.js";
import { button, frame, h, onChange, put } from "../../../../taken_apart/views/js/shared/dom.js";
import { picker } from "../../../../taken_apart/views/js/shared/inputs.js";
import { apart, movedText, normaliseBatch, shares, shortText } from "./norm_math.js";

const KINDS = ["LayerNorm", "BatchNorm"].map((kind) => [kind, kind]);

function makeScene(model) {
  const start = model.get("rows");
  const length = model.get("length");
  const rows = () =>
    start.map((row, r) => {
      if (model.get("padding")[r]) return row.map(() => 0);
      return model.get("others") && r >= length ? row.map((value) => -2 * value) : row;
    });
  const isReal = (_, r) => !model.get("padding")[r];
  const first = (batch) => batch.slice(0, length).filter(isReal).flat();
  return {
    model,
    rows,
    length,
    names: model.get("names"),
    // How far the outputs of sequence A's real tokens are from those at the start.
    moved() {
      const now = first(normaliseBatch(model.get("kind"), rows()).out);
      const before = first(normaliseBatch(model.get("kind"), start).out);
      return now.length ? apart(now, before) : 0;
    },
  };
}

function controls({ model }) {
  const choose = (kind) => put(model, { kind });
  const kind = picker("norm", KINDS, () => model.get("kind"), choose);
  const turn = () => put(model, { others: !model.get("others") });
  const others = button("other neighbours", turn);
  return {
    node: h("div", { class: "eta-bar" }, kind.node, others),
    draw() {
      kind.sync();
      others.setAttribute("aria-pressed", model.get("others"));
    },
  };
}

// Input on the left, output on the right: the arrow keys go through both.
function table(scene) {
  const { model, names, length } = scene;
  const width = model.get("rows")[0].length;
  const at = (r, c) => put(model, { here: [r, c] });
  const cell = (r, c) =>
    h("button", {
      class: "eta-axes-cell eta-num",
      type: "button",
      onpointerenter: () => at(r, c),
      onfocus: () => at(r, c),
    });
  const lines = names.map((name, r) => {
    const turn = () => {
      const padding = model.get("padding");
      put(model, { padding: padding.with(r, !padding[r]) });
    };
    const pad = button(name, turn, { "aria-label": `${name} is padding` });
    const both = [0, 1].map(() => Array.from({ length: width }, (_, c) => cell(r, c)));
    const cells = both.flat().map((each) => h("td", {}, each));
    cells.splice(width, 0, h("td", { "aria-hidden": "true", text: "→" }));
    const node = h("tr", {}, h("th", { scope: "row" }, pad), ...cells);
    node.classList.toggle("eta-axes-first", r > 0 && r % length === 0);
    return { node, pad, both };
  });
  const body = h("tbody", {}, ...lines.map((line) => line.node));
  body.addEventListener("keydown", (event) => {
    const move = MOVES[event.key];
    const places = lines.map((line) => line.both.flat());
    const r = places.findIndex((row) => row.includes(event.target));
    if (!move || r < 0) return;
    event.preventDefault();
    const c = places[r].indexOf(event.target) + move[1];
    places[r + move[0]]?.[c]?.focus();
  });
  const title = (text) => h("th", { colspan: width, scope: "colgroup", text });
  const output = title("");
  const head = h("thead", {}, h("tr", {}, h("td"), title("input"), h("td"), output));
  return {
    node: h("table", {}, head, body),
    draw() {
      const kind = model.get("kind");
      const rows = scene.rows();
      const { out } = normaliseBatch(kind, rows);
      const [row, column] = model.get("here");
      const isWith = shares(kind, row, column);
      output.textContent = kind;
      lines.forEach(({ node: line, pad, both }, r) => {
        const padded = model.get("padding")[r];
        line.classList.toggle("eta-axes-pad", padded);
        pad.setAttribute("aria-pressed", padded);
        [rows, out].forEach((values, side) =>
          both[side].forEach((node, c) => {
            node.textContent = shortText(values[r][c]);
            node.tabIndex = side === 0 && r === row && c === column ? 0 : -1;
            node.classList.toggle("eta-axes-with", side === 0 && isWith(r, c));
            node.classList.toggle("eta-axes-here", r === row && c === column);
            const told = `${side ? "output" : "input"} ${node.textContent}`;
            node.setAttribute("aria-label", `${names[r]}, feature ${c + 1}, ${told}`);
          }),
        );
      });
    },
  };
}

function readout(scene) {
  const { model, names } = scene;
  const told = h("p", { "aria-live": "polite" });
  return {
    node: told,
    draw() {
      const kind = model.get("kind");
      const rows = scene.rows();
      const [r, c] = model.get("here");
      const { mean, variance } = normaliseBatch(kind, rows);
      const pads = model.get("padding").filter(Boolean).length;
      const among = pads ? `, ${pads} of them padding` : "";
      const from =
        kind === "LayerNorm"
          ? `the ${rows[r].length} numbers of token ${names[r]}`
          : `feature ${c + 1} of all ${rows.length} tokens${among}`;
      const figures = `mean ${shortText(mean[r][c])}, variance ${shortText(variance[r][c])}`;
      told.textContent =
        `${kind} takes ${figures} from ${from}. ` +
        `The outputs of sequence A have moved ${movedText(scene.moved())} since the start.`;
    },
  };
}

function render({ model, el }) {
  const { box, signal, end } = frame(el, "axes", "Two norms on one batch");
  const scene = makeScene(model);
  const parts = [controls(scene), table(scene), readout(scene)];
  const draw = () => parts.forEach((part) => part.draw());
  box.append(...parts.map((part) => part.node));
  onChange(model, ["kind", "padding", "others", "here"], signal, draw);
  draw();
  return end;
}

export default { render };
