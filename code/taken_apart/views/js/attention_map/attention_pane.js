// One head, large, with its tokens in the margins.
import { MOVES } from "../shared/arrows.js";
import { headName } from "./attention_controls.js";
import { columnMeans, largest } from "./attention_math.js";
import { bitmap, cellSize, cellUnder, onKeys, pixels, tokenStrip } from "./attention_parts.js";
import { h, put } from "../shared/dom.js";

// One head, large: tokens in the margins, row sums at the right, column means below.
export function mapPane(scene, chosen) {
  const { model, Q, K } = scene;
  const title = h("div", { class: "eta-title" });
  const press = (k) => (model.get("editable") ? scene.mask(k) : scene.pin(null, k));
  const keys = tokenStrip("eta-keys", K, (k) => scene.point(null, k), press);
  const queries = tokenStrip(
    "eta-queries",
    Q,
    (q) => scene.point(q, null),
    (q) => scene.pin(q, null),
  );
  const field = mapField(scene);
  const edges = margins(scene);
  const node = h(
    "div",
    { class: "eta-map" },
    title,
    keys.node,
    queries.node,
    field.node,
    ...edges.nodes,
  );
  return {
    node,
    paint() {
      queries.write(scene.queries(), scene.isPaddingQuery);
      keys.write(scene.keys(), scene.isPadding);
    },
    choose() {
      node.hidden = chosen() === null;
      if (node.hidden) return;
      const map = scene.map(chosen());
      const cell = cellSize(scene);
      node.style.setProperty("--cell", `${cell}px`);
      node.classList.toggle("eta-tiny", cell < 9);
      title.textContent = headName(chosen());
      field.draw(map, cell);
      edges.draw(map, chosen());
    },
    point() {
      if (node.hidden) return;
      const [q, k] = scene.focus();
      const map = scene.map(chosen());
      const top = scene.top(map);
      keys.tint(k, (i) => (q === null ? 0 : map.values[q * K + i] / top));
      queries.tint(q, (i) => (k === null ? 0 : map.values[i * K + k] / top));
      field.point(q, k);
    },
  };
}

// Beside the map the sum of each row, marked where it is not 1; below, each key's mean.
function margins(scene) {
  const { Q, K } = scene;
  const sums = Array.from({ length: Q }, () => h("span"));
  const means = Array.from({ length: K }, () => h("i"));
  const nodes = [
    h("span", { class: "eta-sums-name eta-quiet", text: "sum" }),
    h("div", { class: "eta-sums eta-num" }, ...sums),
    h("span", { class: "eta-means-name eta-quiet", text: "mean" }),
    h("div", { class: "eta-means" }, ...means),
  ];
  return {
    nodes,
    draw(map, head) {
      sums.forEach((node, q) => {
        const sum = scene.sum(head, q);
        node.textContent = sum.toFixed(2);
        node.className = Math.abs(sum - 1) > 0.005 ? "eta-off" : "";
      });
      const received = columnMeans(map);
      const most = largest(received) || 1;
      means.forEach((node, k) => {
        node.style.setProperty("--part", received[k] / most);
        node.title = scene.show(received[k]);
      });
    },
  };
}

// The cells themselves. Arrow keys move, Enter pins, Escape frees, page keys change head.
function mapField(scene) {
  const { model, Q, K } = scene;
  const canvas = h("canvas");
  const row = h("i", { class: "eta-row" });
  const column = h("i", { class: "eta-column" });
  const node = h(
    "div",
    {
      class: "eta-field eta-stack",
      tabindex: 0,
      role: "application",
      "aria-label":
        "Attention map, queries down, keys across. Arrow keys move, " +
        "Enter pins, Escape frees, page keys change the head.",
    },
    canvas,
    row,
    column,
  );
  const under = (event) => cellUnder(event, canvas, Q, K);
  node.addEventListener("pointermove", (event) => scene.point(...under(event)));
  node.addEventListener("pointerleave", () => scene.point(null, null));
  node.addEventListener("click", (event) => scene.pin(...under(event)));
  onKeys(node, (key) => pressed(scene, key));
  return {
    node,
    draw(map, cell) {
      drawCells(canvas, scene, map, cell);
    },
    point(q, k) {
      row.hidden = q === null;
      column.hidden = k === null;
      row.style.top = `calc(var(--cell) * ${q})`;
      column.style.left = `calc(var(--cell) * ${k})`;
      node.classList.toggle("eta-pinned", model.get("pin") !== null);
    },
  };
}

// One key in the map; false where the key is not ours.
function pressed(scene, key) {
  const { model, Q, K } = scene;
  const [q, k] = scene.focus();
  const inside = (i, n) => Math.min(n - 1, Math.max(0, i));
  if (key in MOVES) {
    const [down, right] = q === null && k === null ? [0, 0] : MOVES[key];
    const next = [inside((q ?? 0) + down, Q), inside((k ?? 0) + right, K)];
    if (model.get("pin")) put(model, { pin: next });
    else scene.point(...next);
  } else if (key === "Enter" || key === " ") scene.pin(q ?? 0, k ?? 0);
  else if (key === "Escape") scene.free();
  else if (key === "PageDown") scene.step(0, 1);
  else if (key === "PageUp") scene.step(0, -1);
  else return false;
  return true;
}

function drawCells(canvas, scene, map, cell) {
  const sharp = window.devicePixelRatio || 1;
  const { Q, K } = scene;
  const ink = canvas.getContext("2d");
  [canvas.width, canvas.height] = [Math.round(K * cell * sharp), Math.round(Q * cell * sharp)];
  [canvas.style.width, canvas.style.height] = [`${K * cell}px`, `${Q * cell}px`];
  ink.imageSmoothingEnabled = false;
  const image = bitmap(pixels(scene, map, scene.top(map)));
  ink.drawImage(image, 0, 0, canvas.width, canvas.height);
  if (cell < 12) return;
  ink.fillStyle = scene.stops[0];
  for (let q = 1; q < Q; q++) ink.fillRect(0, Math.round(q * cell * sharp), canvas.width, 1);
  for (let k = 1; k < K; k++) ink.fillRect(Math.round(k * cell * sharp), 0, 1, canvas.height);
}
