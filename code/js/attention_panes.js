// The drawings: all heads small, one head large, and lines from queries to keys.
import { headName, tokenText } from "./attention_controls.js";
import { columnMeans, largest, pool, shade } from "./attention_math.js";
import { h, letter, put } from "./dom.js";

const FAN = 84; // the width of the lines beside a map, in pixels
const MOVES = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

// A map as pixels, one a weight; exact zeros stay clear, so that hatching shows there.
function pixels(scene, map, top) {
  const image = new ImageData(map.K, map.Q),
    cells = new Uint32Array(image.data.buffer);
  map.values.forEach((weight, i) => {
    if (!map.zero[i]) cells[i] = scene.ramp[shade(weight, top)];
  });
  return image;
}

// All heads on one canvas, layers down. A small map shows the largest weight of a block.
export function headGrid(scene) {
  const { L, H, Q, K } = scene,
    gap = 3;
  const canvas = h("canvas"),
    first = h("i", { class: "eta-here" }),
    second = h("i", { class: "eta-there" });
  const stack = h(
    "div",
    {
      class: "eta-stack",
      tabindex: 0,
      role: "application",
      "aria-label": `All heads, ${L} layers by ${H} heads. Arrow keys and clicks choose, a click with shift compares.`,
      onclick: (event) => scene.choose(cellUnder(event, stack, L, H), event.shiftKey),
    },
    canvas,
    second,
    first
  );
  onKeys(stack, (key) => key in MOVES && (scene.step(...MOVES[key]), true));
  const caption = h(
    "div",
    { class: "eta-quiet" },
    letter("L"),
    " layers down, ",
    letter("H"),
    " heads across"
  );
  let pitch;
  const mark = (node, head) => {
    node.hidden = head === null;
    if (head) [node.style.top, node.style.left] = head.map((n) => `${n * pitch}px`);
    node.style.width = node.style.height = `${pitch - gap}px`;
  };
  const node = h("div", { class: "eta-heads", hidden: L * H < 2 }, caption, stack);
  return {
    node,
    paint() {
      const room = Math.min(scene.width, isNarrow(scene) ? 340 : 300);
      pitch = Math.max(4 + gap, Math.min(64, Math.floor(room / H)));
      [canvas.width, canvas.height] = [H * pitch, L * pitch];
      stack.style.width = `${canvas.width}px`;
      const ink = canvas.getContext("2d"),
        size = pitch - gap;
      ink.imageSmoothingEnabled = false;
      for (let l = 0; l < L; l++)
        for (let n = 0; n < H; n++) {
          const map = scene.map([l, n]),
            small = pool(map, Math.min(Q, size), Math.min(K, size));
          ink.drawImage(
            bitmap(pixels(scene, small, scene.top(map))),
            n * pitch,
            l * pitch,
            size,
            size
          );
        }
    },
    choose() {
      mark(first, scene.first());
      mark(second, scene.second());
    },
  };
}

// An image that a canvas can enlarge.
function bitmap(image) {
  const canvas = new OffscreenCanvas(image.width, image.height);
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

// Give a node's keys to `react`; what it answers with true goes no further.
function onKeys(node, react) {
  node.addEventListener("keydown", (event) => {
    const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
    if (plain && react(event.key)) event.preventDefault();
  });
}

function cellUnder(event, node, rows, columns) {
  const { left, top, width, height } = node.getBoundingClientRect();
  const place = (at, size, n) =>
    Math.min(n - 1, Math.max(0, Math.floor((at / size) * n)));
  return [
    place(event.clientY - top, height, rows),
    place(event.clientX - left, width, columns),
  ];
}

// A strip of tokens; `point` and `press` get the index, `state` says how each looks.
function tokenStrip(name, n, point, press) {
  const spans = Array.from({ length: n }, (_, i) =>
    h("span", {
      dir: "auto",
      onpointerenter: () => point(i),
      onclick: () => press(i),
    })
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
  const most = isNarrow(scene) ? 64 : 96,
    ink = new OffscreenCanvas(1, 1).getContext("2d");
  ink.font = "13px system-ui, sans-serif";
  const need = (token) => ink.measureText(tokenText(token)).width + 12;
  const room = (tokens) => Math.ceil(Math.min(most, Math.max(38, ...tokens.map(need))));
  return [room([...scene.queries(), ...scene.keys()]), room(scene.keys())];
}

function isNarrow(scene) {
  return scene.width < 560;
}

// The size of a cell: as large as the width allows, and not larger than reads well.
function cellSize(scene) {
  const { Q, K, width } = scene,
    [label] = scene.margins,
    sums = 40;
  const two = scene.second() !== null && !isNarrow(scene);
  const lines = isNarrow(scene) ? 0 : label + FAN;
  const room = two ? (width - label - 16) / 2 : width - lines - label - sums;
  const size = Math.min(room / K, 520 / Q, 44);
  return size >= 4 ? Math.floor(size) : Math.max(size, 1);
}

// One head, large: tokens in the margins, row sums at the right, column means below.
export function mapPane(scene, chosen) {
  const { model, Q, K } = scene,
    title = h("div", { class: "eta-title" });
  const press = (k) => (model.get("editable") ? scene.mask(k) : scene.pin(null, k));
  const keys = tokenStrip("eta-keys", K, (k) => scene.point(null, k), press);
  const queries = tokenStrip(
    "eta-queries",
    Q,
    (q) => scene.point(q, null),
    (q) => scene.pin(q, null)
  );
  const field = mapField(scene),
    edges = margins(scene);
  const node = h(
    "div",
    { class: "eta-map" },
    title,
    keys.node,
    queries.node,
    field.node,
    ...edges.nodes
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
      const map = scene.map(chosen()),
        cell = cellSize(scene);
      node.style.setProperty("--cell", `${cell}px`);
      node.classList.toggle("eta-tiny", cell < 9);
      title.textContent = headName(chosen());
      field.draw(map, cell);
      edges.draw(map, chosen());
    },
    point() {
      if (node.hidden) return;
      const [q, k] = scene.focus(),
        map = scene.map(chosen()),
        top = scene.top(map);
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
      const received = columnMeans(map),
        most = largest(received) || 1;
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
  const canvas = h("canvas"),
    row = h("i", { class: "eta-row" }),
    column = h("i", { class: "eta-column" });
  const node = h(
    "div",
    {
      class: "eta-field eta-stack",
      tabindex: 0,
      role: "application",
      "aria-label":
        "Attention map, queries down, keys across. Arrow keys move, Enter pins, Escape frees, page keys change the head.",
    },
    canvas,
    row,
    column
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
  const { model, Q, K } = scene,
    [q, k] = scene.focus();
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
  const sharp = window.devicePixelRatio || 1,
    { Q, K } = scene,
    ink = canvas.getContext("2d");
  [canvas.width, canvas.height] = [
    Math.round(K * cell * sharp),
    Math.round(Q * cell * sharp),
  ];
  [canvas.style.width, canvas.style.height] = [`${K * cell}px`, `${Q * cell}px`];
  ink.imageSmoothingEnabled = false;
  const image = bitmap(pixels(scene, map, scene.top(map)));
  ink.drawImage(image, 0, 0, canvas.width, canvas.height);
  if (cell < 12) return;
  ink.fillStyle = scene.stops[0];
  for (let q = 1; q < Q; q++)
    ink.fillRect(0, Math.round(q * cell * sharp), canvas.width, 1);
  for (let k = 1; k < K; k++)
    ink.fillRect(Math.round(k * cell * sharp), 0, 1, canvas.height);
}

// Lines from each query, at the right beside the map's rows, to the keys at the left.
export function linesPane(scene) {
  const { Q, K } = scene,
    canvas = h("canvas", { class: "eta-lines" });
  const keys = tokenStrip(
    "eta-queries",
    K,
    (k) => scene.point(null, k),
    (k) => scene.pin(null, k)
  );
  const queries = tokenStrip(
    "eta-narrow",
    Q,
    (q) => scene.point(q, null),
    (q) => scene.pin(q, null)
  );
  const title = h("div", { class: "eta-title" }, "keys ← queries");
  const node = h(
    "div",
    { class: "eta-map eta-fan", "aria-hidden": "true" },
    title,
    keys.node,
    canvas,
    queries.node
  );
  return {
    node,
    paint() {
      keys.write(scene.keys(), scene.isPadding);
      queries.write(scene.queries(), scene.isPaddingQuery);
    },
    point() {
      if (scene.second()) return;
      const cell = cellSize(scene),
        [q, k] = scene.focus();
      const map = scene.map(scene.first()),
        top = scene.top(map);
      node.style.setProperty("--cell", `${cell}px`);
      node.classList.toggle("eta-tiny", cell < 9);
      keys.tint(k, (i) => (q === null ? 0 : map.values[q * K + i] / top));
      queries.tint(q, (i) => (k === null ? 0 : map.values[i * K + k] / top));
      drawLines(canvas, scene, map, cell);
    },
  };
}

function drawLines(canvas, scene, map, cell) {
  const sharp = window.devicePixelRatio || 1,
    { Q, K } = scene,
    [q, k] = scene.focus();
  const width = isNarrow(scene) ? scene.width - 2 * scene.margins[0] : FAN,
    height = Math.max(Q, K) * cell,
    ink = canvas.getContext("2d");
  [canvas.width, canvas.height] = [width * sharp, height * sharp];
  [canvas.style.width, canvas.style.height] = [`${width}px`, `${height}px`];
  ink.scale(sharp, sharp);
  ink.strokeStyle = scene.stops[7];
  const top = scene.top(map);
  map.values.forEach((weight, i) => {
    const part = weight / top,
      from = Math.floor(i / K),
      to = i % K;
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
      (to + 0.5) * cell
    );
    ink.stroke();
  });
}
