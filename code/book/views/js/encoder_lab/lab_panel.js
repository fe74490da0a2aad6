// The open step: its numbers and how each came about, and its weights, to be changed.
import { button, h } from "../../../../taken_apart/views/js/shared/dom.js";
import { weightEditor } from "./lab_editor.js";
import { numberGrid } from "./lab_grid.js";
import { explain, mapsOf, stage } from "./lab_stages.js";

const count = (n) => [...Array(n).keys()];

export function stagePanel(scene) {
  const title = h("strong");
  const shape = h("span", { class: "lab-shape" });
  const says = h("span", { class: "eta-quiet" });
  const sides = ["numbers", "weights"].map((side) => button(side, () => scene.look({ side })));
  const numbers = numbersSide(scene);
  const weights = weightsSide(scene);

  function draw(run) {
    const info = stage(scene.view.stage);
    const hasWeights = info.parameters.length > 0;
    const side = hasWeights ? scene.view.side : "numbers";
    title.textContent = titleOf(info);
    says.textContent = info.says;
    shape.replaceChildren(...shapeOf(info, mapsOf(run, info.id)[0]));
    for (const each of sides) {
      each.hidden = !hasWeights;
      each.setAttribute("aria-pressed", each.textContent === side);
    }
    numbers.node.hidden = side !== "numbers";
    weights.node.hidden = side !== "weights";
    (side === "numbers" ? numbers : weights).draw(run, info);
  }
  const head = h("div", { class: "lab-panel-head" }, h("span", {}, title, " ", shape));
  head.append(h("span", { class: "lab-pair" }, ...sides));
  const node = h("section", { class: "lab-panel", "aria-label": "the open step" });
  node.append(head, says, numbers.node, weights.node);
  return { node, draw };
}

function titleOf({ layer, title }) {
  return layer === undefined ? title : `Layer ${layer}: ${title.toLowerCase()}`;
}

// "(T 8, D 16)", each letter in the colour of its axis.
function shapeOf({ axes, heads }, map) {
  const letters = [...axes].map((text) => h("b", { class: `axis-${text}`, text }));
  const sizes = [` ${map.rows}, `, ` ${map.cols})`];
  return [heads ? "each head: (" : "(", letters[0], sizes[0], letters[1], sizes[1]];
}

// One map, or one a head, and a line on the number the reader points at.
function numbersSide(scene) {
  const line = h("p", { class: "lab-line eta-num", "aria-live": "polite" });
  const grids = count(scene.nHeads).map((n) => numberGrid((i, j) => point(n, i, j)));
  const captions = grids.map(() => h("p", { class: "lab-caption eta-quiet" }));
  const frames = grids.map(({ node }, n) => h("div", {}, captions[n], node));
  let run = null;
  let spot = [0, scene.read(), 0];

  function point(head, i, j) {
    const map = mapsOf(run, scene.view.stage)[head];
    spot = map && i < map.rows && j < map.cols ? [head, i, j] : [0, 0, 0];
    line.textContent = explain(run, scene.view.stage, ...spot);
  }
  function draw(next, info) {
    run = next;
    const maps = mapsOf(run, info.id);
    frames.forEach((each, n) => (each.hidden = n >= maps.length));
    maps.forEach((map, n) => {
      captions[n].textContent = info.heads ? `head ${n}` : "";
      captions[n].hidden = !info.heads;
      grids[n].show(viewOf(scene, run, info, map, n));
    });
    point(...spot);
  }
  return { node: h("div", {}, line, h("div", { class: "lab-maps" }, ...frames)), draw };
}

// What a grid needs to show a map of this step.
function viewOf(scene, run, info, map, head) {
  const columns = { TT: run.words, TV: scene.vocabulary }[info.axes] ?? count(map.cols);
  const isSplit = ["query", "key", "value", "context"].includes(info.step);
  return {
    map,
    rows: run.words,
    cols: columns,
    shares: info.shares,
    label: info.heads ? `${titleOf(info)}, head ${head}` : titleOf(info),
    group: isSplit ? scene.dHead : 0,
    struck: info.axes === "TT" ? run.padding : null,
  };
}

// The parameters of the step; a click on a number, or Enter, goes on to change it.
function weightsSide(scene) {
  const editor = weightEditor(scene);
  const grids = [0, 1].map((n) => numberGrid((i, j) => editor.aim(n, i, j), editor.focus));
  const names = (n) => (n === scene.vocabulary.length ? scene.vocabulary : count(n));

  function draw(run, info) {
    grids.forEach(({ node, show }, n) => {
      const label = info.parameters[n];
      const map = run.model.parameters[label];
      node.hidden = !map;
      if (!map) return;
      const rows = map.rows > 1 ? names(map.rows) : [label.endsWith("bias") ? "bias" : "gain"];
      show({ map, label, rows, cols: names(map.cols), group: 0 });
    });
    editor.draw(run, info);
  }
  const node = h("div", { class: "lab-weights" }, editor.node, ...grids.map((grid) => grid.node));
  return { node, draw };
}
