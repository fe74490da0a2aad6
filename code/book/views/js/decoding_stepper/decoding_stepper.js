// Write a text word by word: the shares of the next word, where the step looks in the
// source, and what a search with several beams holds after as many words.
import { button, frame, h, onChange, put } from "../../../../taken_apart/views/js/shared/dom.js";
import { picker } from "../../../../taken_apart/views/js/shared/inputs.js";
import { level } from "../../../../taken_apart/views/js/shared/shades.js";

// Follow the choices from the root: the words, the weights of each step that said one,
// their joint share, and the node that is reached; after the end there is none.
export function walk(nodes, path) {
  const words = [];
  const rows = [];
  let share = 1;
  let node = nodes[0];
  for (const choice of path) {
    const [word, part, child] = node.candidates[choice];
    words.push(word);
    rows.push(node.weights);
    share *= part;
    node = child === null ? null : nodes[child];
  }
  return { words, rows, share, node };
}

// Which candidates can be followed: the end, and what has been computed beforehand.
export function isOpen([word, , child]) {
  return word === "end" || child !== null;
}

export function percent(share) {
  if (share > 0 && share < 0.001) return "< 0.1 %";
  return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
}

// What became of a text that has ended.
export function judged(words, right) {
  const text = words.slice(0, -1).join(" ");
  return right.includes(text) ? "a right translation" : "no right translation";
}

function bar(share) {
  const fill = h("i", { style: `width: ${(100 * share).toFixed(1)}%` });
  return h("span", { class: "dec-bar" }, fill);
}

// The steps so far, a row each, and the one that is to come; columns are the source.
function mapOf(source, words, rows, node) {
  const head = source.map((word) => h("th", { scope: "col" }, h("span", { text: word })));
  const cellOf = (weight, n) => {
    const shade = level(weight);
    const style = `background: var(--seq-${shade}); color: ${shade > 4 ? "var(--seq-0)" : "inherit"}`;
    const text = weight >= 0.095 ? (100 * weight).toFixed(0) : "";
    return h("td", { style, text, title: `${source[n]} ${percent(weight)}` });
  };
  const line = (word, weights, attributes) =>
    h("tr", attributes, h("th", { scope: "row", text: word }), ...weights.map(cellOf));
  const done = rows.map((weights, t) => line(words[t], weights, {}));
  const next = node ? [line("next", node.weights, { class: "dec-next" })] : [];
  const caption = h("caption", { text: "where each step looks in the source, in %" });
  const corner = h("td", { class: "dec-corner" });
  return [caption, h("tr", {}, corner, ...head), ...done, ...next];
}

function render({ model, el }) {
  const { box, signal, end } = frame(el, "decoding", "Write a translation word by word");
  const trees = model.get("trees");
  const tree = () => trees[model.get("text")];
  const here = () => walk(tree().nodes, model.get("path"));
  const go = (path) => put(model, { path });
  const take = (choice) => go([...model.get("path"), choice]);
  const back = () => go(model.get("path").slice(0, -1));
  const next = button("next word", () => here().node && take(0));
  const undo = button("back", back);
  const anew = button("start again", () => go([]));
  const text = picker(
    "translate",
    trees.map(({ source }, n) => [n, source.join(" ")]),
    () => model.get("text"),
    (n) => put(model, { text: n, path: [] }),
  );
  const width = picker(
    "beams",
    [1, 2, 3].map((n) => [n, String(n)]),
    () => model.get("width"),
    (n) => put(model, { width: n }),
  );
  const says = h("p", { class: "dec-says", role: "status" });
  const choices = h("div", { class: "dec-choices", role: "group", "aria-label": "next word" });
  const table = h("table", { class: "dec-map eta-num" });
  const beams = h("ol", { class: "dec-beams eta-num" });

  function choiceOf(candidate, choice) {
    const [word, share] = candidate;
    const open = isOpen(candidate);
    const label = `${word}, ${percent(share)}`;
    const attributes = { class: "eta-button dec-choice", "aria-label": label, disabled: !open };
    const node = button("", () => take(choice), attributes);
    node.append(h("b", { text: word }), bar(share), h("span", { text: percent(share) }));
    return node;
  }
  function drawBeams(nWords) {
    const steps = tree().beams[model.get("width")];
    const kept = nWords ? steps[Math.min(nWords, steps.length) - 1] : [];
    const rows = kept.map(([said, share]) =>
      h("li", {}, bar(share), h("span", { text: percent(share) }), h("b", { text: said })),
    );
    const nothing = h("li", { class: "eta-quiet", text: "nothing is written yet" });
    beams.replaceChildren(...(rows.length ? rows : [nothing]));
  }
  function draw() {
    const { words, rows, share, node } = here();
    const focus = [...choices.children].indexOf(document.activeElement);
    text.sync();
    width.sync();
    next.disabled = !node;
    undo.disabled = anew.disabled = !words.length;
    const said = words.length ? `${words.join(" ")}: ${percent(share)}` : "Nothing is written yet";
    says.textContent = node ? `${said}.` : `${said}, ${judged(words, tree().right)}.`;
    choices.replaceChildren(...(node ? node.candidates.map(choiceOf) : []));
    if (focus >= 0) (choices.children[0] ?? anew).focus();
    table.replaceChildren(...mapOf(tree().source, words, rows, node));
    drawBeams(words.length);
  }
  box.addEventListener("keydown", (event) => {
    if (event.target.matches("select")) return;
    const act = { ArrowRight: () => here().node && take(0), ArrowLeft: back, Home: () => go([]) };
    if (!act[event.key]) return;
    event.preventDefault();
    act[event.key]();
  });
  box.append(
    h("div", { class: "eta-bar" }, text.node),
    h("div", { class: "eta-bar" }, next, undo, anew),
    says,
    choices,
    h("div", { class: "dec-scroll", tabindex: 0, role: "group", "aria-label": "map" }, table),
    h("div", { class: "eta-bar" }, width.node, h("span", { class: "eta-quiet", text: "kept" })),
    beams,
  );
  onChange(model, ["path", "text", "width"], signal, draw);
  draw();
  return end;
}

export default { render };
