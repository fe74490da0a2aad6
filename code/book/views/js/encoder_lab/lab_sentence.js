// The sentence: a list to pick each word from, padding to paint, and a line to type in.
import { button, h, put } from "../../../../taken_apart/views/js/shared/dom.js";
import { at } from "./encoder_math.js";
import { paintOver, roving } from "../../../../taken_apart/views/js/shared/controls.js";
import { percent } from "./lab_stages.js";
import { bestWords, parseSentence } from "./lab_words.js";

export function sentenceRow(scene, signal) {
  const { model } = scene;
  const words = h("div", { class: "lab-words" });
  const legend = h("p", { class: "lab-legend eta-quiet" });
  let slots = [];

  const setPadding = (i, hides) =>
    put(model, {
      padding: model
        .get("tokens")
        .map((_, k) => (k === i ? hides : Boolean(model.get("padding")[k]))),
    });

  function slot(i) {
    const list = h("select", {
      "aria-label": `word ${i}`,
      onchange: () => scene.setWord(i, list.value),
      onfocus: () => scene.ask(i),
    });
    for (const [label, some] of Object.entries(scene.kinds)) {
      const options = some.map((word) => h("option", { value: word, text: word }));
      list.append(h("optgroup", { label }, ...options));
    }
    const says = h("span", { class: "lab-says" });
    const shares = Array.from({ length: scene.nHeads }, () => h("span", { class: "lab-share" }));
    const pad = button("pad", null, { class: "lab-pad", "data-i": i, tabindex: i ? -1 : 0 });
    const node = h("div", { class: "lab-word" }, says, list, ...shares, pad);
    return { node, list, says, shares, pad };
  }

  function build(count) {
    slots = Array.from({ length: count }, (_, i) => slot(i));
    words.replaceChildren(...slots.map(({ node }) => node));
  }

  function draw(run) {
    if (slots.length !== run.words.length) build(run.words.length);
    const { layer } = scene.view;
    legend.textContent = legendOf(run, layer);
    slots.forEach(({ node, list, says, shares, pad }, i) => {
      const word = run.words[i];
      const isBlank = word === scene.blank;
      if (list.value !== word) list.value = word;
      list.style.width = `${word.length + 2.6}ch`; // where CSS cannot fit a list to its word
      node.dataset.state = run.padding[i] ? "padding" : isBlank ? "blank" : "word";
      node.toggleAttribute("data-read", i === scene.read());
      says.textContent = isBlank ? sayBest(run, i) : "";
      shares.forEach((share, head) => showShare(share, run.layers[layer].weights[head], i));
      pad.setAttribute("aria-pressed", run.padding[i]);
      pad.setAttribute("aria-label", `padding: ${word}`);
    });
  }

  // Each head has a bar of its own: which one finds the word is not the same for all words.
  function showShare(share, weights, i) {
    const weight = at(weights, scene.read(), i);
    share.textContent = percent(weight);
    share.style.setProperty("--share", `${(weight * 100).toFixed(1)}%`);
    share.toggleAttribute("data-most", weight > 0.5);
  }
  const legendOf = (run, layer) =>
    `Under the words: where \u201c${run.words[scene.read()]}\u201d looks in layer ${layer}, ` +
    `a bar for each head, head 0 above. ` +
    "\u201cpad\u201d hides a word from all.";
  const sayBest = (run, i) => {
    const [[word, chance]] = bestWords(run.chances, i, scene.vocabulary, 1);
    return `${word} ${percent(chance)}`;
  };

  paintOver(words, ".lab-pad", (pad, hides) => setPadding(Number(pad.dataset.i), hides), signal);
  roving(words, ".lab-pad");
  return { node: h("div", {}, words, legend), draw };
}

export function typeLine(scene) {
  const input = h("input", {
    type: "text",
    "aria-label": "type a sentence",
    maxlength: 400,
    placeholder: "or type a sentence, ___ for a blank",
    autocomplete: "off",
    spellcheck: "false",
  });
  const message = h("p", { class: "lab-message", role: "status" });
  const shorter = button("\u2212 word", () => resize(-1));
  const longer = button("+ word", () => resize(1));

  function resize(by) {
    const tokens = scene.model.get("tokens");
    scene.setSentence(by > 0 ? [...tokens, scene.blank] : tokens.slice(0, -1));
  }
  function read(event) {
    event.preventDefault();
    const { tokens, error } = parseSentence(input.value, scene.vocabulary, scene.longest);
    message.textContent = error ?? "";
    if (tokens) scene.setSentence(tokens);
  }
  function draw(run) {
    shorter.disabled = run.words.length === 1;
    longer.disabled = run.words.length === scene.longest;
  }
  const send = h("button", { class: "eta-button", text: "read it" });
  const form = h("form", { class: "lab-type", onsubmit: read }, shorter, longer, input, send);
  return { node: h("div", {}, form, message), draw, say: (text) => (message.textContent = text) };
}

export function examples(scene) {
  const show = (text) => () => scene.setSentence(text.split(" "));
  const list = scene.examples.map((text) =>
    button(text, show(text), { class: "eta-button lab-example" }),
  );
  const title = h("span", { class: "eta-quiet", text: "More to read: " });
  return h("div", { class: "lab-examples" }, title, ...list);
}
