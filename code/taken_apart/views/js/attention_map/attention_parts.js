// What the drawings of attention share: pixels, sizes, token strips, keys and pointer.
import { tokenText } from "./attention_controls.js";
import { shade } from "./attention_math.js";
import { h } from "../shared/dom.js";

export const FAN = 84; // the width of the lines beside a map, in pixels

// A map as pixels, one a weight; exact zeros stay clear, so that hatching shows there.
export function pixels(scene, map, top) {
  const image = new ImageData(map.K, map.Q);
  const cells = new Uint32Array(image.data.buffer);
  map.values.forEach((weight, i) => {
    if (!map.zero[i]) cells[i] = scene.ramp[shade(weight, top)];
  });
  return image;
}

// An image that a canvas can enlarge.
export function bitmap(image) {
  const canvas = new OffscreenCanvas(image.width, image.height);
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

// Give a node's keys to `react`; what it answers with true goes no further.
export function onKeys(node, react) {
  node.addEventListener("keydown", (event) => {
    const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
    if (plain && react(event.key)) event.preventDefault();
  });
}

export function cellUnder(event, node, rows, columns) {
  const { left, top, width, height } = node.getBoundingClientRect();
  const place = (at, size, n) => Math.min(n - 1, Math.max(0, Math.floor((at / size) * n)));
  return [place(event.clientY - top, height, rows), place(event.clientX - left, width, columns)];
}

// A strip of tokens; `point` and `press` get the index, `state` says how each looks.
export function tokenStrip(name, n, point, press) {
  const spans = Array.from({ length: n }, (_, i) =>
    h("span", { dir: "auto", onpointerenter: () => point(i), onclick: () => press(i) }),
  );
  const node = h("div", { class: `eta-tokens ${name}` }, ...spans);
  return {
    node,
    write(tokens, isPadding) {
      spans.forEach((span, i) => {
        span.textContent = tokenText(tokens[i]);
        span.title = tokens[i];
        span.classList.toggle("eta-padding", isPadding(i));
      });
    },
    tint(chosen, part) {
      spans.forEach((span, i) => {
        span.style.setProperty("--part", part(i));
        span.classList.toggle("eta-on", i === chosen);
      });
    },
  };
}

// The room in pixels that tokens need at the left of a map and above it.
export function labelRooms(scene) {
  const most = isNarrow(scene) ? 64 : 96;
  const ink = new OffscreenCanvas(1, 1).getContext("2d");
  ink.font = "13px system-ui, sans-serif";
  const need = (token) => ink.measureText(tokenText(token)).width + 12;
  const room = (tokens) => Math.ceil(Math.min(most, Math.max(38, ...tokens.map(need))));
  return [room([...scene.queries(), ...scene.keys()]), room(scene.keys())];
}

export function isNarrow(scene) {
  return scene.width < 560;
}

// The size of a cell: as large as the width allows, and not larger than reads well.
export function cellSize(scene) {
  const { Q, K, width } = scene;
  const [label] = scene.margins;
  const sums = 40;
  const two = scene.second() !== null && !isNarrow(scene);
  const lines = isNarrow(scene) ? 0 : label + FAN;
  const room = two ? (width - label - 16) / 2 : width - lines - label - sums;
  const size = Math.min(room / K, 520 / Q, 44);
  return size >= 4 ? Math.floor(size) : Math.max(size, 1);
}
