// The five likeliest words for the place that is read, and the three tasks.
import { h } from "../../../../taken_apart/views/js/shared/dom.js";
import { at, forward, guess } from "./encoder_math.js";
import { percent } from "./lab_stages.js";
import { TASKS, TASK_SENTENCE, bestWords } from "./lab_words.js";

export function guessBars(scene) {
  const title = h("p", { class: "lab-title" });
  const rows = Array.from({ length: 5 }, () => {
    const word = h("span", { class: "lab-guess-word" });
    const share = h("span", { class: "eta-num" });
    const bar = h("span", { class: "lab-bar" }, h("i"));
    return { node: h("li", {}, word, bar, share), word, bar, share };
  });
  const list = h("ol", { class: "lab-guesses" }, ...rows.map(({ node }) => node));

  function draw(run) {
    const read = scene.read();
    const isBlank = run.words[read] === scene.blank;
    title.textContent = isBlank
      ? `What belongs into the blank (word ${read})?`
      : `What the encoder would put at word ${read}, \u201c${run.words[read]}\u201d:`;
    bestWords(run.chances, read, scene.vocabulary).forEach(([word, chance], i) => {
      rows[i].word.textContent = word;
      rows[i].share.textContent = percent(chance);
      rows[i].bar.style.setProperty("--share", chance.toFixed(3));
    });
  }
  return { node: h("section", { class: "lab-guess", "aria-label": "guesses" }, title, list), draw };
}

export function taskList(scene) {
  const items = TASKS.map(({ text }) => {
    const mark = h("span", {
      class: "lab-mark",
      text: "\u25cb",
      "aria-label": "to do",
      role: "img",
    });
    return { node: h("li", {}, mark, h("span", { text })), mark };
  });
  const done = new Set();

  function tick(i, isDone) {
    items[i].node.toggleAttribute("data-done", isDone);
    items[i].mark.textContent = isDone ? "\u2713" : "\u25cb";
    items[i].mark.setAttribute("aria-label", isDone ? "done" : "to do");
  }
  function draw(run) {
    const state = scene.state();
    const blank = state.tokens.indexOf(scene.blank);
    const chanceIn = (chances) => (word) =>
      blank < 0 ? 0 : at(chances, blank, scene.vocabulary.indexOf(word));
    const best = chanceIn(run.chances);
    const whole = chanceIn(wholeChances(scene, run));
    TASKS.forEach((task, i) => {
      if (task.isDone(state, best, whole)) done.add(i);
      tick(i, done.has(i));
    });
  }
  const title = h("p", { class: "lab-title", text: "Can you \u2026" });
  const from = `Each from \u201c${TASK_SENTENCE}\u201d: reset brings it back.`;
  const list = h("ul", { class: "lab-tasks" }, ...items.map(({ node }) => node));
  const node = h("section", { "aria-label": "three tasks" }, title, list);
  node.append(h("p", { class: "lab-legend eta-quiet", text: from }));
  node.hidden = scene.start.tokens.join(" ") !== TASK_SENTENCE;
  return { node, draw };
}

// The chances of the trained encoder as it is, no word hidden.
function wholeChances({ trained }, { ids }) {
  const shown = ids.map(() => false);
  return guess(trained, forward(trained, ids, shown).output).chances;
}
