// Recorded results to switch in and out: curves, a cursor, and the values under it.
import { roving } from "../shared/controls.js";
import {
  isNumber,
  logTicks,
  nearest,
  rangeOf,
  scaleOf,
  spread,
  stopOf,
  ticks,
  valueText,
  visible,
} from "./curve_math.js";
import { button, frame, h, onChange, put } from "../shared/dom.js";
import { onWidth } from "../shared/page.js";
import { s } from "../shared/svg.js";

const HEIGHT = 300;
const TOP = 12;
const BOTTOM = 42;
const LETTER = 7.4; // pixels
const KINDS = [2, 5, 4, 3, 6]; // of the page's kinds, in an order that tells neighbours apart
const DASHES = ["", "7 3", "2 3", "9 3 2 3"];
const STEPS = {
  ArrowLeft: -1,
  ArrowDown: -1,
  ArrowRight: 1,
  ArrowUp: 1,
  PageDown: -10,
  PageUp: 10,
  Home: -Infinity,
  End: Infinity,
};

// How a curve is drawn, in the plot and in the list: colour and dashes.
function penOf(scene, i) {
  if (i === scene.reference) return { stroke: "currentColor", "stroke-width": 2.5 };
  const colour = `var(--kind-${KINDS[i % KINDS.length]})`;
  const round = Math.floor(i / KINDS.length); // colours come again with other dashes
  const dashes = DASHES[(i + round) % DASHES.length];
  return { stroke: colour, "stroke-dasharray": dashes, "stroke-width": 2 };
}

function makeScene(model) {
  const curves = model.get("curves");
  const at = model.get("at");
  const lines = model.get("lines");
  const heights = [...curves, ...lines].flatMap(([, values]) => values);
  const shown = () => visible(curves, model.get("on"), model.get("picked"));
  return {
    model,
    at,
    lines,
    names: model.get("names"),
    settings: model.get("settings"),
    reference: model.get("reference"),
    canLog: heights.every((value) => !isNumber(value) || value > 0),
    shown,
    curve: (i) => shown().find(([key]) => key[0] === i)?.[1],
    move: (i) => put(model, { cursor: Math.max(0, Math.min(at.length - 1, i)) }),
  };
}

// --- Above the plot: the settings that the reader picks, and the scale ---------------

function controls(scene) {
  const { model, settings } = scene;
  const groups = settings.map(([name, values], place) => {
    const inputs = values.map((value, i) =>
      h("input", {
        type: "radio",
        name,
        value,
        onchange: () => put(model, { picked: model.get("picked").with(place, i) }),
      }),
    );
    const choices = values.map((value, i) => h("label", {}, inputs[i], value));
    const node = h("fieldset", {}, h("legend", { text: name }), ...choices);
    return { node, sync: () => (inputs[model.get("picked")[place]].checked = true) };
  });
  const log = button("powers of ten", () => put(model, { log: !model.get("log") }));
  log.hidden = !scene.canLog;
  // A form of its own keeps the radio buttons of two views on one page apart.
  const form = h("form", { class: "eta-bar" }, ...groups.map((g) => g.node), log);
  return {
    node: form,
    sync() {
      for (const group of groups) group.sync();
      log.setAttribute("aria-pressed", model.get("log"));
    },
  };
}

// --- The plot ------------------------------------------------------------------------

function plot(scene) {
  const { model, at } = scene;
  const svg = s("svg", {
    class: "eta-plot",
    tabindex: 0,
    role: "slider",
    height: HEIGHT,
    "aria-label": `${model.get("y")} over ${model.get("x")}: the cursor`,
    "aria-valuemin": at[0],
    "aria-valuemax": at.at(-1),
  });
  const state = { width: 600, first: at[0], last: at.at(-1), edge: 500, left: 52 };
  const xOf = (event) => {
    const { left, edge, first, last } = state;
    const along = event.clientX - svg.getBoundingClientRect().left;
    const part = (along - left) / (edge - left);
    scene.move(nearest(at, first + part * (last - first)));
  };
  svg.addEventListener("pointermove", xOf);
  svg.addEventListener("pointerdown", xOf);
  svg.addEventListener("keydown", (event) => {
    if (!(event.key in STEPS)) return;
    event.preventDefault();
    scene.move(model.get("cursor") + STEPS[event.key]);
  });
  return {
    node: svg,
    resize: (width) => (state.width = width),
    draw: () => drawPlot(scene, svg, state),
    point: () => drawCursor(scene, svg, state),
  };
}

function drawPlot(scene, svg, state) {
  const { model, at } = scene;
  const log = model.get("log");
  const shown = scene.shown();
  const longest = Math.max(1, ...shown.map(([, values]) => values.length));
  const letters = Math.max(0, ...shown.map(([[i]]) => scene.names[i].length));
  state.last = at[longest - 1];
  state.edge = state.width - Math.min(letters * LETTER + 14, 0.34 * state.width);
  const range = rangeOf([...shown.map(([, v]) => v), scene.lines.map(([, v]) => v)]);
  if (range[0] === range[1]) range[1] = range[0] + (Math.abs(range[0]) || 1);
  if (log && range[0] <= 0) range.splice(0, 2, 1, 10); // nothing is shown
  const levels = (log ? logTicks : ticks)(...range, 6);
  const digits = Math.max(...levels.map((level) => valueText(level).length));
  state.left = Math.max(52, 24 + digits * LETTER); // beside the name of the axis
  state.x = scaleOf([state.first, state.last], [state.left, state.edge]);
  state.y = scaleOf(range, [HEIGHT - BOTTOM, TOP], log);
  svg.setAttribute("width", state.width);
  svg.setAttribute("viewBox", `0 0 ${state.width} ${HEIGHT}`);
  svg.replaceChildren(
    ...axes(scene, state, levels),
    ...scene.lines.flatMap((line) => levelLine(line, state)),
    ...shown.map(([key, values]) => curveLine(scene, key[0], values, state)),
    ...labels(scene, shown, state),
    s("g", { class: "eta-cursor" }),
  );
}

function axes({ model }, { x, y, first, last, left, edge }, levels) {
  const low = HEIGHT - BOTTOM;
  const middle = (left + edge) / 2;
  const height = -(TOP + low) / 2;
  const across = levels.flatMap((value) => [
    s("path", { d: `M${left} ${y(value)}H${edge}`, class: "eta-grid" }),
    s("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, valueText(value)),
  ]);
  const steps = ticks(first, last, Math.max(3, Math.min(6, (edge - left) / 70)));
  const along = steps.map((value) =>
    s("text", { x: x(value), y: low + 17, "text-anchor": "middle" }, valueText(value)),
  );
  const name = { "text-anchor": "middle", class: "eta-name" };
  const turned = { ...name, transform: "rotate(-90)" };
  return [
    ...across,
    s("path", { d: `M${left} ${low}H${edge}`, class: "eta-axis" }),
    ...along,
    s("text", { x: middle, y: HEIGHT - 6, ...name }, model.get("x")),
    s("text", { x: height, y: 11, ...turned }, model.get("y")),
  ];
}

function levelLine([name, value], { y, left, edge }) {
  if (!isNumber(value)) return [];
  return [
    s("path", { d: `M${left} ${y(value)}H${edge}`, class: "eta-level" }),
    s("text", { x: edge - 6, y: y(value) - 5, "text-anchor": "end" }, name),
  ];
}

function curveLine(scene, i, values, { x, y }) {
  const point = (value, j) => `${x(scene.at[j]).toFixed(1)} ${y(value).toFixed(1)}`;
  const points = values.slice(0, stopOf(values)).map(point);
  const d = points.length ? `M${points.join("L")}` : "";
  return s("path", { d, class: "eta-curve", ...penOf(scene, i) });
}

// Each curve's name at its end; a curve that stopped says so where it did.
function labels(scene, shown, state) {
  const { x, y, edge, width } = state;
  const { at } = scene;
  const ends = shown.map(([key, values]) => {
    const stop = stopOf(values);
    const last = Math.max(0, stop - 1);
    const high = stop === 0 ? HEIGHT - BOTTOM : y(values[last]);
    return { i: key[0], stopped: stop < values.length, x: x(at[last]), y: high };
  });
  const places = spread(
    ends.map((end) => end.y),
    15,
    TOP,
    HEIGHT - BOTTOM,
  );
  const letters = Math.max(4, Math.floor((width - edge - 12) / LETTER));
  return ends.flatMap((end, j) => {
    const fill = penOf(scene, end.i).stroke;
    const name = scene.names[end.i];
    const short = name.length > letters ? `${name.slice(0, letters - 1)}…` : name;
    const text = s("text", { x: edge + 10, y: places[j] + 4, fill }, short);
    const d = `M${end.x} ${end.y}L${edge + 7} ${places[j]}`;
    const lead = s("path", { d, stroke: fill, class: "eta-lead" });
    return end.stopped ? [lead, text, ...cross(end, fill, state)] : [lead, text];
  });
}

function cross({ x, y }, stroke, { edge, left }) {
  const d = `M${x - 5} ${y - 5}l10 10m0 -10l-10 10`;
  const late = x > (left + edge) / 2;
  const side = late ? { x: x - 10, "text-anchor": "end" } : { x: x + 10 };
  const text = s("text", { ...side, y: Math.max(TOP + 8, y - 8), fill: stroke });
  text.textContent = "stopped here";
  return [s("path", { d, stroke, class: "eta-cross" }), text];
}

function drawCursor(scene, svg, { x, y }) {
  const place = scene.model.get("cursor");
  const across = x(scene.at[place]);
  const told = scene.shown();
  const dots = told
    .filter(([, values]) => place < stopOf(values))
    .map(([[i], values]) => {
      const fill = penOf(scene, i).stroke;
      return s("circle", { cx: across, cy: y(values[place]), r: 3.5, fill });
    });
  const d = `M${across} ${TOP}V${HEIGHT - BOTTOM}`;
  const needle = s("path", { d, class: "eta-needle" });
  svg.querySelector(".eta-cursor").replaceChildren(needle, ...dots);
  const words = told.map(([[i], v]) => `${scene.names[i]} ${valueAt(v, place)}`);
  svg.setAttribute("aria-valuenow", scene.at[place]);
  svg.setAttribute("aria-valuetext", `${scene.at[place]}: ${words.join(", ")}`);
}

// What a curve has at a place: a value, nan or inf, or nothing after its end.
function valueAt(values, place) {
  if (!values || place >= values.length) return "none";
  const stop = stopOf(values);
  return place < stop ? valueText(values[place]) : `stopped (${values[stop]})`;
}

// --- Below the plot: every curve with its switch and its value -----------------------

function list(scene) {
  const { model } = scene;
  const title = h("p", { class: "eta-quiet eta-num" });
  const rows = scene.names.map((name, i) => {
    const pen = s("svg", { width: 34, height: 12, "aria-hidden": "true" });
    pen.append(s("path", { d: "M1 6H33", class: "eta-curve", ...penOf(scene, i) }));
    const value = h("span", { class: "eta-num" });
    const parts = [pen, h("span", { text: name }), value];
    const fixed = i === scene.reference;
    const turn = () => put(model, { on: model.get("on").with(i, !model.get("on")[i]) });
    const node = fixed ? h("div") : button("", turn);
    node.classList.add("eta-switch");
    node.append(...parts);
    return { value, node };
  });
  const all = (on) => () =>
    put(model, { on: scene.names.map((_, i) => on || i === scene.reference) });
  const box = h("div", { class: "eta-switches" }, ...rows.map((row) => row.node));
  const first = roving(box, "button");
  const both = [button("all in", all(true)), button("all out", all(false))];
  const bar = h("div", { class: "eta-bar" }, title, ...both);
  first();
  return {
    node: h("div", {}, bar, box),
    point() {
      const place = model.get("cursor");
      title.textContent = `${model.get("y")} at ${model.get("x")} ${scene.at[place]}`;
      rows.forEach(({ node, value }, i) => {
        const on = model.get("on")[i];
        if (i !== scene.reference) node.setAttribute("aria-pressed", on);
        value.textContent = on ? valueAt(scene.curve(i), place) : "";
      });
    },
  };
}

// What the plot shows, for those who do not see that it has changed.
function statusText({ model, names, settings }) {
  const count = model.get("on").filter(Boolean).length;
  const picked = settings.map(([name, values], i) => `${name} ${values[model.get("picked")[i]]}`);
  const scale = model.get("log") ? ["in powers of ten"] : [];
  return [`${count} of ${names.length} curves`, ...picked, ...scale].join(", ");
}

function render({ model, el }) {
  const name = `${model.get("y")} over ${model.get("x")}`;
  const { box, signal, end } = frame(el, "curves", name);
  const scene = makeScene(model);
  const bar = controls(scene);
  const drawing = plot(scene);
  const rows = list(scene);
  const said = h("p", { class: "eta-quiet eta-said", role: "status" });
  const point = () => [drawing, rows].forEach((part) => part.point());
  const draw = () => {
    bar.sync();
    drawing.draw();
    said.textContent = statusText(scene);
    point();
  };
  box.append(bar.node, drawing.node, said, rows.node);
  onChange(model, ["on", "picked", "log"], signal, draw);
  onChange(model, ["cursor"], signal, point);
  onWidth(box, signal, (width) => {
    drawing.resize(Math.max(260, width));
    draw();
  });
  return end;
}

export default { render };
