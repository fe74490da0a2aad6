// A game: encoders shown by what they do, beside the right one. Pick the fault.
import { frame, h, onChange, put } from "../../../../taken_apart/views/js/shared/dom.js";

const SHADES = 8, WIDE = 260, HIGH = 96;

function s(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// The shade, 0 to 8, of each cell of a square of levels 0 to 99.
export function shades(square) {
  return square.map((row) => row.map((level) => Math.ceil((SHADES * level) / 99 - 1e-6)));
}

// The points of a curve in a box, lowest loss at the bottom; nothing after a null.
export function points(losses, top, wide = WIDE, high = HIGH) {
  const stop = losses.findIndex((value) => value === null);
  const kept = stop < 0 ? losses : losses.slice(0, stop);
  const step = wide / Math.max(1, losses.length - 1);
  return kept.map((value, i) => [i * step, high * (1 - Math.min(value, top) / top)]);
}

// How many of the answers given so far are right.
export function scoreOf(rounds, answers) {
  return answers.filter((answer, i) => answer !== null && answer === rounds[i].right).length;
}

function heat(square, label) {
  const n = square.length, m = square[0].length;
  const svg = s("svg", { viewBox: `0 0 ${m} ${n}`, role: "img", "aria-label": label, class: "eta-heat" });
  const cells = shades(square);
  for (let shade = 0; shade <= SHADES; shade += 1) {
    const line = cells.flatMap((row, i) => row.flatMap((each, j) => (each === shade ? [`M${j} ${i + 0.5}h1`] : [])));
    if (line.length) svg.append(s("path", { d: line.join(""), style: `stroke:var(--seq-${shade})` }));
  }
  return svg;
}

function plot(right, broken, label) {
  const top = Math.max(0.75, ...[...right, ...broken].filter((value) => value !== null));
  const svg = s("svg", { viewBox: `-2 -4 ${WIDE + 4} ${HIGH + 8}`, role: "img", "aria-label": label, class: "eta-losses" });
  const coin = HIGH * (1 - Math.LN2 / top);
  svg.append(s("line", { x1: 0, x2: WIDE, y1: HIGH, y2: HIGH }), s("line", { x1: 0, x2: WIDE, y1: coin, y2: coin, class: "eta-coin" }));
  for (const [losses, name] of [[right, "eta-right"], [broken, "eta-broken"]]) {
    svg.append(s("polyline", { class: name, points: points(losses, top).map((p) => p.map((v) => v.toFixed(1)).join()).join(" ") }));
  }
  return svg;
}

// What a curve does, in words, for those who do not see it.
export function courseOf(losses) {
  const last = losses.at(-1);
  if (last === null) return "ends in nan";
  const fell = losses.findIndex((value) => value < 0.35);
  return fell < 0 ? `stays above 0.35 and ends at ${last.toFixed(2)}` : `falls and ends at ${last.toFixed(2)}`;
}

function panel(title, right, broken) {
  const pair = (which, node) => h("figure", {}, node, h("figcaption", { text: which }));
  return h("div", { class: "eta-pair" }, h("p", { text: title }), pair("right", right), pair("this one", broken));
}

function render({ model, el }) {
  const { box, signal, end } = frame(el, "spot", "Spot the bug: choose the fault with the keys 1 to 4");
  const rounds = model.get("rounds"), right = model.get("right"), perPoint = model.get("per_point");
  const status = h("output", { class: "eta-num" });
  const shown = h("div", { class: "eta-shown" });
  const choices = h("div", { class: "eta-choices", role: "group", "aria-label": "Which fault is it?" });
  const verdict = h("div", { class: "eta-verdict", role: "status", "aria-live": "polite" });
  const next = h("button", { class: "eta-button", type: "button", onclick: go });
  const again = h("button", { class: "eta-button", type: "button", text: "Start again", onclick: restart });
  box.append(h("div", { class: "eta-bar" }, status, next, again), shown, choices, verdict);

  const here = () => model.get("round");

  function draw() {
    const i = here(), asked = rounds[i], answers = model.get("answers"), answer = answers[i];
    const given = answers.filter((each) => each !== null).length;
    status.textContent = `Round ${i + 1} of ${rounds.length} · ${scoreOf(rounds, answers)} of ${given} right`;
    next.textContent = i + 1 < rounds.length ? "Next (n)" : "First (n)";
    shown.replaceChildren(
      panel("First map: rows are queries, columns keys", heat(right.map, "Map of the right encoder"), heat(asked.map, "Map of this encoder")),
      panel("What moves what: rows are outputs, columns inputs", heat(right.moved, "Influence in the right encoder"), heat(asked.moved, "Influence in this encoder")),
      h("div", { class: "eta-pair eta-wide" },
        h("p", { text: `Loss over ${perPoint * asked.losses.length} steps: solid this one, thin the right one, dotted a coin` }),
        plot(right.losses, asked.losses, `The loss of this encoder ${courseOf(asked.losses)}; that of the right one ${courseOf(right.losses)}`)),
    );
    choices.replaceChildren(...asked.choices.map(([name, cause], k) => choice(asked, name, cause, k, answer)));
    verdict.replaceChildren(...(answer === null ? [] : explain(asked, answer)));
  }

  function choice(asked, name, cause, k, answer) {
    const done = answer !== null;
    const mark = !done ? "" : k === asked.right ? " ✓" : k === answer ? " ✗" : "";
    const text = [h("b", { text: `${k + 1} ${name}${mark}` }), h("span", { text: cause })];
    const button = h("button", { class: "eta-button", type: "button", "aria-disabled": done && "true", "aria-pressed": String(k === answer), onclick: () => choose(k) }, ...text);
    return button;
  }

  function explain(asked, answer) {
    const said = answer === asked.right ? "Right." : `No: ${asked.choices[asked.right][0]}.`;
    const link = h("a", { href: `#exhibit-${asked.choices[asked.right][0].replaceAll(" ", "-")}`, text: "the exhibit" });
    return [h("p", {}, h("b", { text: `${said} ` }), `${asked.why}. Cure: ${asked.fix} (`, link, ").")];
  }

  function choose(k) {
    const answers = [...model.get("answers")], i = here();
    if (answers[i] !== null || k >= rounds[i].choices.length) return;
    answers[i] = k;
    put(model, { answers });
    choices.children[k].focus();
  }

  function go() {
    put(model, { round: (here() + 1) % rounds.length });
  }

  function restart() {
    put(model, { round: 0, answers: rounds.map(() => null) });
  }

  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if ("1234".includes(event.key)) choose(Number(event.key) - 1);
    else if (event.key === "n") {
      go();
      choices.children[0].focus(); // the button that had the focus is gone
    } else return;
    event.preventDefault();
  });
  onChange(model, ["round", "answers"], signal, draw);
  draw();
  return end;
}

export default { render };
