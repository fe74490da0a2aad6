// The open step: its numbers and how each came about, and its weights, to be changed.
import { h, put } from "./dom.js";
import { at } from "./encoder_math.js";
import { numberGrid } from "./lab_grid.js";
import { explain, mapsOf, number, stage } from "./lab_stages.js";

const LETTERS = { T: "words", D: "d_model", F: "d_ff", V: "vocabulary" };

export function stagePanel(scene) {
  const title = h("strong"), shape = h("span", { class: "lab-shape" }), says = h("span", { class: "eta-quiet" });
  const sides = ["numbers", "weights"].map((side) => h("button", { class: "eta-button", type: "button", text: side,
    onclick: () => scene.look({ side }) }));
  const line = h("p", { class: "lab-line eta-num", "aria-live": "polite" });
  const values = h("div", { class: "lab-maps" }), weights = h("div", { class: "lab-weights" });
  const editor = weightEditor(scene);
  const grids = [0, 1].map((n) => numberGrid((i, j) => point(n, i, j)));
  const tables = [0, 1].map((n) => numberGrid((i, j) => editor.aim(n, i, j), () => editor.focus()));
  const captions = [0, 1].map(() => h("p", { class: "lab-caption eta-quiet" }));
  grids.forEach(({ node }, n) => values.append(h("div", {}, captions[n], node)));
  weights.append(editor.node, ...tables.map(({ node }) => node));
  let run = null, spot = [0, scene.read(), 0];

  function point(...where) {
    spot = where;
    const [head, i, j] = where, maps = mapsOf(run, scene.view.stage);
    if (maps[head] && i < maps[head].rows && j < maps[head].cols) line.textContent = explain(run, scene.view.stage, ...where);
    else point(0, 0, 0);
  }

  function drawValues(info) {
    const maps = mapsOf(run, info.id), square = info.axes === "TT";
    grids.forEach(({ node, show }, n) => {
      node.parentElement.hidden = n >= maps.length;
      if (n >= maps.length) return;
      captions[n].textContent = info.heads ? `head ${n}` : "";
      captions[n].hidden = !info.heads;
      const group = "QKV".includes(info.name) || info.step === "context" ? scene.dHead : 0;
      show({ map: maps[n], label: `${title.textContent}${info.heads ? `, head ${n}` : ""}`, rows: run.words, group,
        cols: square ? run.words : info.step === "guess" ? scene.vocabulary : [...Array(maps[n].cols).keys()],
        shares: info.shares, struck: square ? run.padding : null });
    });
    point(...spot);
  }

  function drawWeights(info) {
    tables.forEach(({ node, show }, n) => {
      const name = info.parameters[n], map = run.model.parameters[name];
      node.hidden = !map;
      if (!map) return;
      const rows = map.rows === scene.vocabulary.length ? scene.vocabulary : [...Array(map.rows).keys()];
      const cols = map.cols === scene.vocabulary.length ? scene.vocabulary : [...Array(map.cols).keys()];
      show({ map, label: name, rows: map.rows === 1 ? [name.endsWith("bias") ? "bias" : "gain"] : rows, cols, group: 0 });
    });
    editor.draw(run, info);
  }

  function draw(next) {
    run = next;
    const info = stage(scene.view.stage), hasWeights = info.parameters.length > 0;
    const side = hasWeights ? scene.view.side : "numbers";
    title.textContent = info.layer === undefined ? info.title : `Layer ${info.layer}: ${info.title.toLowerCase()}`;
    says.textContent = info.says;
    shape.replaceChildren(...shapeOf(info, mapsOf(run, info.id)[0]));
    sides.forEach((button) => {
      button.hidden = !hasWeights;
      button.setAttribute("aria-pressed", button.textContent === side);
    });
    values.hidden = line.hidden = side !== "numbers";
    weights.hidden = side !== "weights";
    if (side === "numbers") drawValues(info);
    else drawWeights(info);
  }
  const head = h("div", { class: "lab-panel-head" }, h("span", {}, title, " ", shape), h("span", { class: "lab-pair" }, ...sides));
  return { node: h("section", { class: "lab-panel", "aria-label": "the open step" }, head, says, line, values, weights), draw };
}

// "(T 8, D 16)", each letter in the colour of its axis.
function shapeOf({ axes, heads }, map) {
  const [rows, cols] = [...axes].map((letter, n) => [h("b", { class: `axis-${letter}`, text: letter,
    title: LETTERS[letter] }), ` ${n ? map.cols : map.rows}`]);
  return [`${heads ? "each head: " : ""}(`, ...rows, ", ", ...cols, ")"];
}

// One number of the weights to change; the page runs again at every key.
function weightEditor(scene) {
  const name = h("span"), input = h("input", { type: "number", step: 0.1, "aria-label": "value of the weight", oninput: change });
  const back = h("button", { class: "eta-button", type: "button", text: "as trained", onclick: () => write(null) });
  const node = h("p", { class: "lab-line eta-num" }, name, " ", input, " ", back);
  let run = null, info = null, spot = [0, 0, 0];

  const parameter = () => info.parameters[spot[0]];
  function write(value) {
    const [, row, col] = spot, own = parameter();
    const others = scene.model.get("edits").filter(([n, r, c]) => n !== own || r !== row || c !== col);
    put(scene.model, { edits: value === null ? others : [...others, [own, row, col, value]] });
  }
  function change() {
    const value = Number.parseFloat(input.value);
    if (Number.isFinite(value)) write(value);
  }
  function label() {
    const [, row, col] = spot, map = run.model.parameters[parameter()];
    name.textContent = `${parameter()}[${map.rows === 1 ? col : `${row}, ${col}`}] =`;
    const value = String(Number(at(map, row, col).toFixed(4)));
    if (Number.parseFloat(input.value) !== Number(value)) input.value = value;
    back.disabled = at(scene.trained.parameters[parameter()], row, col) === at(map, row, col);
  }
  function aim(...where) {
    if (document.activeElement === input) return; // while typing, a passing pointer changes nothing
    spot = where;
    label();
  }
  function draw(nextRun, nextInfo) {
    if (info?.id !== nextInfo.id) spot = [0, 0, 0];
    [run, info] = [nextRun, nextInfo];
    label();
  }
  return { node, aim, draw, focus: () => input.focus() };
}

// Attention beside influence: what a word looks at, and what can change it.
export function twoMaps(scene) {
  const line = h("p", { class: "lab-line eta-num", "aria-live": "polite" });
  const point = (i, j) => {
    scene.pointed = [i, j];
    if (last) line.textContent = compare(last, influenceNow, scene.view, i, j);
  };
  const attention = numberGrid(point), influence = numberGrid(point);
  const pick = (key, count) => Array.from({ length: count }, (_, n) => h("button", { class: "eta-button", type: "button",
    text: `${key} ${n}`, "data-key": key, "data-n": n, onclick: () => scene.look({ [key]: n }) }));
  const picks = [...pick("layer", scene.nLayers), ...pick("head", scene.nHeads)];
  let last = null, influenceNow = null;

  function draw(run) {
    last = run;
    const { layer, head } = scene.view;
    for (const button of picks) {
      button.setAttribute("aria-pressed", String(scene.view[button.dataset.key]) === button.dataset.n);
    }
    attention.show({ map: run.layers[layer].weights[head], label: `attention, layer ${layer}, head ${head}`,
      rows: run.words, cols: run.words, shares: true, struck: run.padding });
  }
  function drawInfluence(map) {
    influenceNow = map;
    const most = map.data.reduce((max, value) => Math.max(max, value), 1e-9);
    influence.show({ map, label: "influence", rows: last.words, cols: last.words, shares: most });
    const [i, j] = scene.pointed ?? [scene.read(), 0];
    point(Math.min(i, map.rows - 1), Math.min(j, map.cols - 1));
  }
  const left = h("div", {}, h("p", { class: "lab-caption" }, h("strong", { text: "Attention" }), " what a row\u2019s word looks at"),
    h("div", { class: "lab-picks" }, ...picks), attention.node);
  const right = h("div", {}, h("p", { class: "lab-caption" }, h("strong", { text: "Influence" }), " how far a row\u2019s output moves when the column\u2019s word is swapped"),
    influence.node);
  return { node: h("section", { "aria-label": "attention and influence" }, h("div", { class: "lab-maps lab-two" }, left, right), line), draw, drawInfluence };
}

function compare(run, influenceMap, { layer, head }, i, j) {
  const [query, key] = [run.words[i], run.words[j]].map((word) => `\u201c${word}\u201d`);
  const weight = number(at(run.layers[layer].weights[head], i, j));
  const looks = `${query} gives ${key} ${weight} of its attention in layer ${layer}, head ${head}`;
  if (!influenceMap || influenceMap.rows <= Math.max(i, j)) return `${looks}.`;
  return `${looks}; swap ${key} for other words, and the output of ${query} moves by ${number(at(influenceMap, i, j))} of its length.`;
}
