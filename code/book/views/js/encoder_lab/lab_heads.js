// One line a head: a switch, where the word that is read looks in it, the guess without.
import { button, h } from "../../../../taken_apart/views/js/shared/dom.js";
import { at, forward, guess } from "./encoder_math.js";
import { percent } from "./lab_stages.js";
import { bestWords } from "./lab_words.js";

const COLUMNS = ["head", "looks most at", "guess without it"];

export function headTable(scene) {
  const columns = COLUMNS.map((text) => h("th", { scope: "col", text }));
  const table = h("table", { class: "lab-table" }, h("tr", {}, ...columns));
  const lines = Array.from({ length: scene.nLayers * scene.nHeads }, (_, i) => {
    const [layer, head] = [Math.floor(i / scene.nHeads), i % scene.nHeads];
    const part = `layers.${layer}.head${head}`;
    const label = `layer ${layer}, head ${head}`;
    const toggle = button(`${layer}.${head}`, () => scene.toggle(part), {
      class: "lab-head",
      "data-part": part,
      "aria-label": label,
    });
    const looks = h("td");
    const without = h("td");
    table.append(h("tr", {}, h("th", { scope: "row" }, toggle), looks, without));
    return { layer, head, part, toggle, looks, without };
  });

  function draw(run) {
    const read = scene.read();
    for (const { layer, head, part, toggle, looks, without } of lines) {
      const isOff = run.off.includes(part);
      const [word, weight] = strongest(run, layer, head, read);
      toggle.setAttribute("aria-pressed", !isOff);
      looks.textContent = `${word} ${percent(weight)}`;
      without.textContent = isOff ? "is off" : guessWithout(scene, run, part, read);
    }
  }
  return { node: table, draw };
}

function strongest(run, layer, head, query) {
  const weights = run.layers[layer].weights[head];
  const shares = run.words.map((word, key) => [word, at(weights, query, key)]);
  return shares.reduce((most, each) => (each[1] > most[1] ? each : most));
}

// The best guess when this head is off as well, besides those that are off already.
function guessWithout(scene, { model, ids, padding, normFirst, off }, part, read) {
  const { output } = forward(model, ids, padding, { normFirst, off: [...off, part] });
  const [[word, chance]] = bestWords(guess(model, output).chances, read, scene.vocabulary, 1);
  return `${word} ${percent(chance)}`;
}
