// Attention beside influence: what a word looks at, and what can change it.
import { button, h } from "../../../../taken_apart/views/js/shared/dom.js";
import { at } from "./encoder_math.js";
import { numberGrid } from "./lab_grid.js";
import { number } from "./lab_stages.js";

export function twoMaps(scene) {
  const line = h("p", { class: "lab-line eta-num", "aria-live": "polite" });
  const attention = numberGrid(point);
  const influence = numberGrid(point);
  const pick = (key, count) =>
    Array.from({ length: count }, (_, n) =>
      button(`${key} ${n}`, () => scene.look({ [key]: n }), { "data-key": key, "data-n": n }),
    );
  const picks = [...pick("layer", scene.nLayers), ...pick("head", scene.nHeads)];
  let run = null;
  let moves = null;
  let spot = [scene.read(), 0];

  function point(i, j) {
    spot = [i, j];
    line.textContent = compare(run, moves, scene.view, i, j);
  }
  function draw(next) {
    run = next;
    const { layer, head } = scene.view;
    const map = run.layers[layer].weights[head];
    for (const each of picks) {
      const { key, n } = each.dataset;
      each.setAttribute("aria-pressed", scene.view[key] === Number(n));
    }
    const label = `attention, layer ${layer}, head ${head}`;
    const struck = run.padding;
    attention.show({ map, label, rows: run.words, cols: run.words, shares: true, struck });
  }
  function drawInfluence(map) {
    moves = map;
    const shares = map.data.reduce((most, value) => Math.max(most, value), 1e-9);
    influence.show({ map, label: "influence", rows: run.words, cols: run.words, shares });
    const isThere = spot.every((place) => place < map.rows);
    point(...(isThere ? spot : [scene.read(), 0]));
  }
  const left = captioned(
    "Attention",
    " how much of its attention a row\u2019s word gives to the column\u2019s",
    attention.node,
  );
  left.firstChild.after(h("div", { class: "lab-picks" }, ...picks));
  const says =
    " how far a row\u2019s output moves, as a part of its length, when the column\u2019s word " +
    "is swapped (mean of four swaps)";
  const right = captioned("Influence", says, influence.node);
  const node = h("section", { "aria-label": "attention and influence" });
  node.append(h("div", { class: "lab-maps lab-two" }, left, right), line);
  return { node, draw, drawInfluence };
}

function captioned(name, says, node) {
  const caption = h("p", { class: "lab-caption" }, h("strong", { text: name }), says);
  return h("div", {}, caption, node);
}

function compare(run, moves, { layer, head }, i, j) {
  const [query, key] = [run.words[i], run.words[j]].map((word) => `\u201c${word}\u201d`);
  const weight = number(at(run.layers[layer].weights[head], i, j));
  const looks = `${query} gives ${key} ${weight} of its attention in layer ${layer}, head ${head}`;
  if (!moves || moves.rows !== run.words.length) return `${looks}.`;
  const move = number(at(moves, i, j));
  const swapped = `swap ${key} for other words`;
  return `${looks}; ${swapped}, and the output of ${query} moves by ${move} of its length.`;
}
