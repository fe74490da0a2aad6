// A small trained encoder, run again in the page at every change.
import { frame, h, onChange, put } from "../../../../taken_apart/views/js/shared/dom.js";
import { forward, guess, influence, readModel, withEdits } from "./encoder_math.js";
import { once } from "../../../../taken_apart/views/js/shared/later.js";
import { flow, switches } from "./lab_flow.js";
import { guessBars, taskList } from "./lab_guess.js";
import { headTable } from "./lab_heads.js";
import { twoMaps } from "./lab_maps.js";
import { stagePanel } from "./lab_panel.js";
import { examples, sentenceRow, typeLine } from "./lab_sentence.js";
import { placeToRead } from "./lab_words.js";

const SHARED = ["tokens", "padding", "norm_first", "off", "edits", "read"];

// The step that is open at first, and the layer whose attention is shown.
function opening(stage, nLayers) {
  const layer = Number.parseInt(stage, 10);
  return { stage, layer: Number.isNaN(layer) ? nLayers - 1 : layer };
}

// What the parts share: the trained model, the state, and where the reader looks.
function makeScene(model, redraw) {
  const bytes = model.get("weights");
  const trained = readModel(JSON.parse(new TextDecoder().decode(bytes)));
  const vocabulary = Object.values(trained.kinds).flat();
  const start = Object.fromEntries(SHARED.map((name) => [name, model.get(name)]));
  const dModel = trained.parameters["embedding.weight"].cols;
  const scene = {
    model,
    trained,
    vocabulary,
    start,
    kinds: trained.kinds,
    blank: vocabulary[0],
    longest: trained.max_length,
    examples: model.get("examples"),
    nHeads: trained.n_heads,
    nLayers: trained.n_layers,
    dHead: dModel / trained.n_heads,
    view: { ...opening(model.get("opened"), trained.n_layers), side: "numbers", head: 1 },
    state: () => Object.fromEntries(SHARED.map((name) => [name, model.get(name)])),
    read: () => placeToRead(model.get("tokens"), model.get("read"), scene.blank),
    setSentence(tokens) {
      put(model, {
        padding: tokens.map(() => false),
        tokens,
        read: placeToRead(tokens, 0, scene.blank),
      });
    },
    setWord(place, word) {
      const tokens = model.get("tokens").with(place, word);
      const asked = word === scene.blank ? place : model.get("read");
      put(model, { tokens, read: placeToRead(tokens, asked, scene.blank) });
    },
    ask(place) {
      if (placeToRead(model.get("tokens"), place, scene.blank) === place)
        put(model, { read: place });
    },
    toggle(part) {
      const off = model.get("off");
      put(model, {
        off: off.includes(part) ? off.filter((other) => other !== part) : [...off, part],
      });
    },
    reset: () => put(model, structuredClone(start)),
    look(changes) {
      Object.assign(scene.view, changes);
      redraw();
    },
    // Opening a step of a layer also shows that layer's attention.
    open(stage) {
      const layer = Number.parseInt(stage, 10);
      scene.look(Number.isNaN(layer) ? { stage } : { stage, layer });
    },
  };
  return scene;
}

// The whole forward pass for the state as it is. Throws an Error a reader can read.
function runOf(scene) {
  const { tokens, padding, norm_first: normFirst, off, edits } = scene.state();
  const ids = tokens.map((word) => scene.vocabulary.indexOf(word));
  const unknown = tokens[ids.indexOf(-1)];
  if (unknown !== undefined)
    throw new Error(`\u201c${unknown}\u201d is not a word this encoder knows.`);
  const hides = tokens.map((_, i) => Boolean(padding[i]));
  const model = withEdits(scene.trained, edits);
  const options = { normFirst, off };
  const steps = forward(model, ids, hides, options);
  const said = { ids, words: tokens, padding: hides, vocabulary: scene.vocabulary, ...options };
  return { ...steps, ...guess(model, steps.output), model, ...said };
}

function render({ model, el }) {
  const { box, signal, end } = frame(el, "lab", "A small trained encoder to change");
  let run = null;
  const afterFrame = (work) => requestAnimationFrame(() => setTimeout(work));
  const measure = once(afterFrame, () => {
    if (signal.aborted) return;
    maps.drawInfluence(influence(run.model, run.ids, run.padding, run));
  });
  const redraw = once(queueMicrotask, () => !signal.aborted && draw());
  const scene = makeScene(model, () => redraw());
  const words = sentenceRow(scene, signal);
  const line = typeLine(scene);
  const bars = guessBars(scene);
  const tasks = taskList(scene);
  const bar = switches(scene);
  const machine = flow(scene);
  const panel = stagePanel(scene);
  const maps = twoMaps(scene);
  const heads = headTable(scene);
  const onlyHeads = model.get("part") === "heads";
  const parts = onlyHeads
    ? [words, line, bars, heads]
    : [words, line, bars, tasks, bar, machine, panel, maps];

  function draw() {
    const started = performance.now();
    try {
      run = runOf(scene);
    } catch (error) {
      line.say(error.message);
      return;
    }
    for (const part of parts) part.draw(run);
    box.dataset.ms = (performance.now() - started).toFixed(2);
    if (!onlyHeads) measure();
  }
  const title = (text, kind = "") => h("p", { class: `lab-title ${kind}`, text });
  const sentence = [words.node, line.node, examples(scene)];
  const top = (beside) => h("div", { class: "lab-top" }, bars.node, beside);
  if (onlyHeads) {
    box.append(title("Switch a head off, and watch the blank."), ...sentence, top(heads.node));
  } else {
    box.append(title("Change a word, and watch the blank."), ...sentence, top(tasks.node));
    const inside = title("Inside: open a step, cut a wire, switch a head off", "lab-part");
    box.append(inside, bar.node, machine.node, panel.node, maps.node);
  }
  onChange(model, SHARED, signal, redraw);
  draw();
  return end;
}

export default { render };
