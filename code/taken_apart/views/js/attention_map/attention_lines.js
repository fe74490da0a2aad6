// Lines from queries to keys.
import { FAN, cellSize, isNarrow, tokenStrip } from "./attention_parts.js";
import { h } from "../shared/dom.js";

// Lines from each query, at the right beside the map's rows, to the keys at the left.
export function linesPane(scene) {
  const { Q, K } = scene;
  const canvas = h("canvas", { class: "eta-lines" });
  const keys = tokenStrip(
    "eta-queries",
    K,
    (k) => scene.point(null, k),
    (k) => scene.pin(null, k),
  );
  const queries = tokenStrip(
    "eta-narrow",
    Q,
    (q) => scene.point(q, null),
    (q) => scene.pin(q, null),
  );
  const title = h("div", { class: "eta-title" }, "keys ← queries");
  const node = h(
    "div",
    { class: "eta-map eta-fan", "aria-hidden": "true" },
    title,
    keys.node,
    canvas,
    queries.node,
  );
  return {
    node,
    paint() {
      keys.write(scene.keys(), scene.isPadding);
      queries.write(scene.queries(), scene.isPaddingQuery);
    },
    point() {
      if (scene.second()) return;
      const cell = cellSize(scene);
      const [q, k] = scene.focus();
      const map = scene.map(scene.first());
      const top = scene.top(map);
      node.style.setProperty("--cell", `${cell}px`);
      node.classList.toggle("eta-tiny", cell < 9);
      keys.tint(k, (i) => (q === null ? 0 : map.values[q * K + i] / top));
      queries.tint(q, (i) => (k === null ? 0 : map.values[i * K + k] / top));
      drawLines(canvas, scene, map, cell);
    },
  };
}

function drawLines(canvas, scene, map, cell) {
  const sharp = window.devicePixelRatio || 1;
  const { Q, K } = scene;
  const [q, k] = scene.focus();
  const width = isNarrow(scene) ? scene.width - 2 * scene.margins[0] : FAN;
  const height = Math.max(Q, K) * cell;
  const ink = canvas.getContext("2d");
  [canvas.width, canvas.height] = [width * sharp, height * sharp];
  [canvas.style.width, canvas.style.height] = [`${width}px`, `${height}px`];
  ink.scale(sharp, sharp);
  ink.strokeStyle = scene.stops[7];
  const top = scene.top(map);
  map.values.forEach((weight, i) => {
    const part = weight / top;
    const from = Math.floor(i / K);
    const to = i % K;
    if (part < 0.03) return;
    const meant = (q === null && k === null) || from === q || to === k;
    ink.globalAlpha = (meant ? 1 : 0.1) * Math.min(1, 0.08 + part);
    ink.lineWidth = 0.5 + 3 * part;
    ink.beginPath();
    ink.moveTo(width, (from + 0.5) * cell);
    ink.bezierCurveTo(
      width / 2,
      (from + 0.5) * cell,
      width / 2,
      (to + 0.5) * cell,
      0,
      (to + 0.5) * cell,
    );
    ink.stroke();
  });
}
