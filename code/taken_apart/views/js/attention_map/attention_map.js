// Attention weights to touch: what a click or a key changes lives in the model.
import { controls, legend, readout } from "./attention_controls.js";
import { colourRamp, decodeWeights, headMap, largest } from "./attention_math.js";
import { headGrid } from "./attention_heads.js";
import { linesPane } from "./attention_lines.js";
import { mapPane } from "./attention_pane.js";
import { labelRooms } from "./attention_parts.js";
import { frame, h, onChange, put } from "../shared/dom.js";
import { cssValue, onTheme, onWidth } from "../shared/page.js";

const STEPS = ["paint", "choose", "point"]; // a part redraws from one of these on
const SEQUENTIAL = Array.from({ length: 9 }, (_, i) => `--seq-${i}`);

// What the parts share: the weights, the selection, and where the reader points.
function makeScene(model) {
  const shape = model.get("shape");
  const [, L, H, Q, K] = shape;
  const digits = model.get("digits");
  const sample = () => model.get("sample");
  let decoded, sums, most;
  const scene = {
    model,
    L,
    H,
    Q,
    K,
    digits,
    hover: null, // [query, key] under the pointer or the keys; null stands for any
    load() {
      const { buffer, byteOffset, byteLength } = model.get("sums");
      sums = new Float32Array(buffer.slice(byteOffset, byteOffset + byteLength));
      decoded = decodeWeights(model.get("weights"), digits, model.get("exact_zero"));
      most = largest(decoded.values);
    },
    queries: () => model.get("query_tokens")[sample()],
    keys: () => (model.get("key_tokens") ?? model.get("query_tokens"))[sample()],
    isPadding: (k) => model.get("padding")[sample()][k] === 1,
    isPaddingQuery: (q) => model.get("key_tokens") === null && scene.isPadding(q),
    first: () => [model.get("layer"), model.get("head")],
    second: () => model.get("compare"),
    map: ([layer, head]) => headMap(decoded, shape, sample(), layer, head),
    sum: ([layer, head], q) => sums[((sample() * L + layer) * H + head) * Q + q],
    top: (map) => ({ all: most, one: 1 })[model.get("scale")] ?? largest(map.values),
    focus: () => model.get("pin") ?? scene.hover ?? [null, null],
    show: (weight) => weight.toFixed(digits),
  };
  scene.load();
  return scene;
}

// Redraw the parts once, however many changes a click makes, from the earliest step.
function redrawer(parts, signal) {
  let earliest = STEPS.length;
  const redraw = () => {
    const steps = STEPS.slice(earliest);
    earliest = STEPS.length;
    if (signal.aborted) return;
    for (const step of steps) for (const part of parts) part[step]?.();
  };
  return (step) => {
    if (earliest === STEPS.length) queueMicrotask(redraw);
    earliest = Math.min(earliest, STEPS.indexOf(step));
  };
}

// What the reader can do, said once for the pointer and the keys.
function addActions(scene, redraw) {
  const { model, L, H } = scene;
  const same = (a, b) => a?.[0] === b[0] && a?.[1] === b[1];
  const wrap = (i, n) => (i + n) % n;
  scene.point = (q, k) => {
    if (same(scene.focus(), [q, k])) return;
    scene.hover = [q, k];
    redraw("point");
  };
  scene.pin = (q, k) => put(model, { pin: same(model.get("pin"), [q, k]) ? null : [q, k] });
  scene.free = () => {
    scene.hover = null;
    put(model, { pin: null });
    redraw("point");
  };
  scene.choose = ([layer, head], beside = false) =>
    put(model, beside ? { compare: [layer, head] } : { layer, head });
  scene.step = (layers, heads) => {
    const [layer, head] = scene.first();
    scene.choose([wrap(layer + layers, L), wrap(head + heads, H)]);
  };
  scene.mask = (k) =>
    put(model, {
      padding: model
        .get("padding")
        .map((row, i) => (i === model.get("sample") ? row.with(k, 1 - row[k]) : row)),
    });
}

function render({ model, el }) {
  const { box, signal, end } = frame(el, "attention", "Attention map");
  const scene = makeScene(model);
  const parts = [];
  const redraw = redrawer(parts, signal);
  addActions(scene, redraw);
  const bar = controls(scene, box);
  const colours = legend(scene);
  const told = readout(scene);
  const heads = headGrid(scene);
  const lines = linesPane(scene);
  const maps = [mapPane(scene, scene.first), mapPane(scene, scene.second)];
  const page = {
    paint() {
      scene.stops = SEQUENTIAL.map((name) => cssValue(box, name));
      scene.ramp = colourRamp(scene.stops);
      scene.margins = labelRooms(scene);
      box.style.setProperty("--label", `${scene.margins[0]}px`);
      box.style.setProperty("--top", `${scene.margins[1]}px`);
    },
    choose() {
      box.classList.toggle("eta-comparing", model.get("compare") !== null);
    },
  };
  parts.push(page, bar, colours, heads, lines, ...maps, told);
  box.append(
    bar.node,
    h("div", { class: "eta-top" }, h("div", {}, heads.node, colours.node), told.node),
    h("div", { class: "eta-panes" }, lines.node, ...maps.map((map) => map.node)),
  );
  const reload = () => (scene.load(), redraw("paint"));
  onChange(model, ["weights"], signal, reload);
  onChange(model, ["sample", "scale", "padding"], signal, () => redraw("paint"));
  onChange(model, ["layer", "head", "compare"], signal, () => redraw("choose"));
  onChange(model, ["pin"], signal, () => redraw("point"));
  onTheme(signal, () => redraw("paint"));
  onWidth(box, signal, (width) => {
    scene.width = width;
    redraw("paint");
  });
  return end;
}

export default { render };
