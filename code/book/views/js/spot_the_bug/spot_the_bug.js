// A game: encoders shown by what they do, beside the right one. Pick the fault.
import { button, frame, h, onChange, put } from "../../../../taken_apart/views/js/shared/dom.js";
import { s } from "../../../../taken_apart/views/js/shared/svg.js";

const SHADES = 8;
const WIDE = 260;
const HIGH = 96;

// The shade, 0 to 8, of each cell of a square of whole numbers, 0 to `levels`.
export function shades(square, levels) {
  return square.map((row) => row.map((level) => Math.ceil((SHADES * level) / levels - 1e-6)));
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

function heat(square, levels, label) {
  const n = square.length;
  const m = square[0].length;
  const svg = s("svg", {
    viewBox: `0 0 ${m} ${n}`,
    role: "img",
    "aria-label": label,
    class: "eta-heat",
  });
  const cells = shades(square, levels);
  for (let shade = 0; shade <= SHADES; shade += 1) {
    const line = cells.flatMap((row, i) =>
      row.flatMap((each, j) => (each === shade ? [`M${j} ${i + 0.5}h1`] : [])),
    );
    if (line.length)
      svg.append(s("path", { d: line.join(""), style: `stroke:var(--seq-${shade})` }));
  }
  return svg;
}

function plot(right, broken, label) {
  const top = Math.max(0.75, ...[...right, ...broken].filter((value) => value !== null));
  const svg = s("svg", {
    viewBox: `-2 -4 ${WIDE + 4} ${HIGH + 8}`,
    role: "img",
    "aria-label": label,
    class: "eta-losses",
  });
  const coin = HIGH * (1 - Math.LN2 / top);
  svg.append(
    s("line", { x1: 0, x2: WIDE, y1: HIGH, y2: HIGH }),
    s("line", { x1: 0, x2: WIDE, y1: coin, y2: coin, class: "eta-coin" }),
  );
  for (const [losses, name] of [
    [right, "eta-right"],
    [broken, "eta-broken"],
  ]) {
    svg.append(
      s("polyline", {
        class: name,
        points: points(losses, top)
          .map((p) => p.map((v) => v.toFixed(1)).join())
          .join(" "),
      }),
    );
  }
  return svg;
}

// What a curve does, in words, for those who do not see it.
export function courseOf(losses) {
  const last = losses.at(-1);
  if (last === null) return "ends in nan";
  const fell = losses.findIndex((value) => value < 0.35);
  return fell < 0
    ? `stays above 0.35 and ends at ${last.toFixed(2)}`
    : `falls and ends at ${last.toFixed(2)}`;
}

function panel(title, right, broken) {
  const pair = (which, node) => h("figure", {}, node, h("figcaption", { text: which }));
  return h(
    "div",
    { class: "eta-pair" },
    h("p", { text: title }),
    pair("right", right),
    pair("this one", broken),
  );
}

// What the encoder of this round does, beside the right one.
function comparison({ right, levels, perPoint }, asked) {
  const maps = (name, label) => [
    heat(right[name], levels, `${label} the right encoder`),
    heat(asked[name], levels, `${label} this encoder`),
  ];
  const steps = perPoint * asked.losses.length;
  const curves =
    `The loss of this encoder ${courseOf(asked.losses)}; ` +
    `that of the right one ${courseOf(right.losses)}`;
  return [
    panel("First map: rows are queries, columns keys", ...maps("map", "Map of")),
    panel("What moves what: rows are outputs, columns inputs", ...maps("moved", "Influence in")),
    h(
      "div",
      { class: "eta-pair eta-wide" },
      h("p", {
        text: `Loss over ${steps} steps: solid this one, thin the right one, dotted a coin`,
      }),
      plot(right.losses, asked.losses, curves),
    ),
  ];
}

// The faults to choose among; once one is chosen, the marks say which was right.
function choiceButtons(asked, answer, choose) {
  const done = answer !== null;
  const markOf = (k) => (k === asked.right ? " \u2713" : k === answer ? " \u2717" : "");
  return asked.choices.map(([name, cause], k) => {
    const node = button("", () => choose(k), {
      "aria-disabled": done && "true",
      "aria-pressed": String(k === answer),
    });
    const title = h("b", { text: `${k + 1} ${name}${done ? markOf(k) : ""}` });
    node.append(title, h("span", { text: cause }));
    return node;
  });
}

function explanation(asked, answer) {
  const [name] = asked.choices[asked.right];
  const said = answer === asked.right ? "Right." : `No: ${name}.`;
  const link = h("a", { href: `#exhibit-${name.replaceAll(" ", "-")}`, text: "the exhibit" });
  const why = `${asked.why}. Cure: ${asked.fix} (`;
  return h("p", {}, h("b", { text: `${said} ` }), why, link, ").");
}

function render({ model, el }) {
  const label = "Spot the bug: choose the fault with the keys 1 to 4";
  const { box, signal, end } = frame(el, "spot", label);
  const rounds = model.get("rounds");
  const scene = {
    right: model.get("right"),
    levels: model.get("levels"),
    perPoint: model.get("per_point"),
  };
  const status = h("output", { class: "eta-num" });
  const next = button("", go);
  const again = button("Start again", restart);
  const bar = h("div", { class: "eta-bar" }, status, next, again);
  const shown = h("div", { class: "eta-shown" });
  const choices = h("div", {
    class: "eta-choices",
    role: "group",
    "aria-label": "Which fault is it?",
  });
  const verdict = h("div", { class: "eta-verdict", role: "status", "aria-live": "polite" });

  function draw() {
    const i = model.get("round");
    const answers = model.get("answers");
    const given = answers.filter((each) => each !== null).length;
    const score = `${scoreOf(rounds, answers)} of ${given} right`;
    status.textContent = `Round ${i + 1} of ${rounds.length} \u00b7 ${score}`;
    next.textContent = i + 1 < rounds.length ? "Next (n)" : "First (n)";
    shown.replaceChildren(...comparison(scene, rounds[i]));
    choices.replaceChildren(...choiceButtons(rounds[i], answers[i], choose));
    verdict.replaceChildren();
    if (answers[i] !== null) verdict.append(explanation(rounds[i], answers[i]));
  }

  function choose(k) {
    const i = model.get("round");
    const answers = model.get("answers");
    if (answers[i] !== null || k >= rounds[i].choices.length) return;
    put(model, { answers: answers.with(i, k) });
    choices.children[k].focus();
  }

  function go() {
    put(model, { round: (model.get("round") + 1) % rounds.length });
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
  box.append(bar, shown, choices, verdict);
  onChange(model, ["round", "answers"], signal, draw);
  draw();
  return end;
}

export default { render };
