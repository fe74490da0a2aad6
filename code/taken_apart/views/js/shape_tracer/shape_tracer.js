// The lines that ran, with the shapes that met there; sliders change the sizes.
import { frame, h, letter, onChange, put } from "../shared/dom.js";
import {
  bytesText,
  illustrate,
  movedPair,
  namesIn,
  namesInside,
  product,
  sizeOf,
} from "./shape_math.js";

const CEILINGS = { B: 64, T: 512, H: 16, K: 128, F: 4096, L: 48 };
const STEPS = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 };

// The state packs rows as lists, and names each array once, as "float32 B,T,D".
function readTrace(model) {
  const arrays = model.get("arrays").map((text) => {
    const [dtype, axes] = text.split(" ");
    const bits = dtype.match(/\d+/) ?? 8;
    return { axes: axes ? axes.split(",") : [], itemBytes: bits / 8 };
  });
  return model
    .get("rows")
    .map(([line, part, op, module, deep, inputs, outputs, note, event, repeated]) => ({
      line,
      part,
      op,
      module,
      deep,
      note,
      event,
      repeated,
      inputs: inputs.map((i) => arrays[i]),
      outputs: outputs.map((i) => arrays[i]),
    }));
}

// An axis such as D or B·H, each letter in its colour.
function axisNode(axis, relations) {
  const names = namesIn(axis);
  const inner = names.flatMap((name) => namesInside(name, relations));
  const parts = axis
    .split(/([A-Za-z_]\w*)/)
    .map((text, i) => (i % 2 ? letter(text) : text.replaceAll("*", "·")));
  return h("span", { "data-axis": names.join(" "), "data-inner": inner.join(" ") }, ...parts);
}

// What goes in and what comes out: in letters, and below them in the numbers of now.
function shapesNode({ inputs, outputs }, relations) {
  const counts = [];
  const tuple = ({ axes }, write) => [
    "(",
    ...axes.flatMap((axis, i) => (i ? [", ", write(axis)] : [write(axis)])),
    ") ",
  ];
  const line = (write) => [
    ...inputs.flatMap((array) => tuple(array, write)),
    "→ ",
    ...(outputs.length ? outputs.flatMap((array) => tuple(array, write)) : ["error"]),
  ];
  const count = (axis) => {
    counts.push([h("span"), axis]);
    return counts.at(-1)[0];
  };
  const letters = h("div", {}, ...line((axis) => axisNode(axis, relations)));
  const numbers = h("div", { class: "eta-quiet eta-num" }, ...line(count));
  return {
    node: h("td", {}, letters, numbers),
    draw(size) {
      for (const [node, axis] of counts) {
        const text = String(size(axis));
        node.className = node.textContent && node.textContent !== text ? "eta-new" : "";
        node.textContent = text;
      }
    },
  };
}

// One operation: its name, its shapes, and what its result costs.
function rowNode(row, relations) {
  const shapes = shapesNode(row, relations);
  const cost = h("td", { class: "eta-quiet eta-num" });
  const node = h(
    "tr",
    { class: row.deep ? "eta-deep" : "" },
    h("td"),
    h("th", { scope: "row", text: row.op }),
    shapes.node,
    cost,
  );
  return {
    node,
    draw(size) {
      shapes.draw(size);
      cost.textContent =
        row.outputs
          .map(({ axes, itemBytes }) => {
            const n = product(axes.map(size));
            return `${n.toLocaleString("en")} · ${bytesText(n * itemBytes)}`;
          })
          .join(", ") + (row.repeated ? " × L" : "");
    },
  };
}

// A line of the source; the piece that runs in the current step is underlined.
function lineNode([file, number, code]) {
  const text = h("code");
  const node = h(
    "tr",
    { class: "eta-line" },
    h("td", { class: "eta-quiet", title: file, text: number }),
    h("td", { colspan: 3 }, text),
  );
  return {
    node,
    mark(part) {
      const start = part ? code.indexOf(part) : -1;
      const end = start + part.length;
      if (start < 0) text.textContent = code;
      else text.replaceChildren(code.slice(0, start), h("u", { text: part }), code.slice(end));
    },
  };
}

// The table: rows that one line of the source ran stand below it.
function listing(rows, lines, relations) {
  const body = h("tbody");
  const parts = [];
  for (const row of rows) {
    const same = parts.at(-1)?.row.line === row.line;
    const line = same ? parts.at(-1).line : lineNode(lines[row.line]);
    if (!same) body.append(line.node);
    parts.push({ row, line, ...rowNode(row, relations) });
    body.append(parts.at(-1).node);
  }
  return {
    body,
    parts,
    step(current) {
      parts.forEach(({ line }) => line.mark(""));
      parts.forEach(({ node, line, row }, i) => {
        node.tabIndex = i === current ? 0 : -1;
        node.toggleAttribute("aria-current", i === current);
        if (i === current) line.mark(row.part);
      });
    },
  };
}

// A small block of numbers, its rows and columns named.
function blockNode(cells, rows, columns) {
  const spans = cells.flat().map((n) => h("span", { class: n < 3 ? "eta-low" : "", text: n }));
  const grid = h("div", { class: "eta-cells", style: `--columns: ${cells[0].length}` }, ...spans);
  return h("div", { class: "eta-block" }, h("i"), columns, rows, grid);
}

// What a split, a move or a merge does to the numbers 0 to 5.
function eventNode({ event, inputs }, relations) {
  if (!event) return "";
  const { before, after } = illustrate(event);
  const join = (axes) => axes.join("*");
  const pair = event.order && movedPair(event.order).map((i) => inputs[0].axes[i]);
  const [from, into] = pair ? [pair, pair.toReversed()] : [event.from, event.into];
  const draw = (cells, axes) => {
    const [first, ...rest] = cells.length > 1 ? axes : ["", ...axes];
    return blockNode(cells, axisNode(first, relations), axisNode(join(rest), relations));
  };
  return h("div", { class: "eta-event" }, draw(before, from), "→", draw(after, into));
}

// The step in focus: what ran where, why the sizes changed, what went wrong.
function stage(model, rows, relations) {
  const node = h("div", { class: "eta-stage", "aria-live": "polite" });
  return {
    node,
    draw() {
      const step = model.get("step");
      const row = rows[step];
      const error = row.outputs.length ? null : model.get("error");
      const says = [row.event?.text, row.note, error?.message, error?.axis, error?.cause];
      const where = `step ${step + 1} of ${rows.length}, ${row.module || "the module itself"}`;
      node.replaceChildren(
        h(
          "div",
          {},
          h("div", { class: "eta-quiet", text: where }),
          h("b", { text: row.op }),
          ...says.filter(Boolean).map((text) => h("div", { text })),
        ),
        eventNode(row, relations),
      );
      node.classList.toggle("eta-fault", error !== null);
    },
  };
}

function sliders(model, relations, size) {
  const free = Object.keys(model.get("sizes")).filter((name) => !(name in relations));
  const inputs = free.map((name) => {
    const start = model.get("sizes")[name];
    const input = h("input", {
      type: "range",
      "aria-label": name,
      min: 1,
      max: Math.max(CEILINGS[name] ?? 0, 4 * start),
      value: start,
      oninput: () => put(model, { sizes: { ...model.get("sizes"), [name]: Number(input.value) } }),
    });
    const shown = h("output");
    return { name, input, shown, node: h("label", {}, axisNode(name, relations), input, shown) };
  });
  const derived = Object.entries(relations).map(([name, text]) => {
    const shown = h("output");
    return {
      name,
      shown,
      node: h(
        "span",
        {},
        axisNode(name, relations),
        " = ",
        axisNode(text, relations),
        " = ",
        shown,
      ),
    };
  });
  const all = [...inputs, ...derived];
  return {
    node: h("div", { class: "eta-bar" }, ...all.map(({ node }) => node)),
    draw() {
      for (const { name, input, shown } of all) {
        shown.textContent = size(name);
        if (input) input.value = size(name);
      }
    },
  };
}

// The names under the pointer or at the focus: of a letter, or of a slider's label.
function axisUnder(target) {
  const node =
    target.closest("[data-axis]") ?? target.closest("label")?.querySelector("[data-axis]");
  return node ? node.dataset.axis.split(" ") : [];
}

// Light every place in which one of the names lives, and those that hold it inside.
function light(box, names) {
  for (const node of box.querySelectorAll("[data-axis]")) {
    const lives = (list) => list.split(" ").some((name) => name && names.includes(name));
    node.classList.toggle("eta-lit", lives(node.dataset.axis));
    node.classList.toggle("eta-lit-inner", lives(node.dataset.inner));
  }
}

function render({ model, el }) {
  const { box, signal, end } = frame(el, "shapes", "Shapes, line by line");
  const rows = readTrace(model);
  const relations = model.get("relations");
  const size = (axis) => sizeOf(axis, model.get("sizes"), relations);
  const bar = sliders(model, relations, size);
  const told = stage(model, rows, relations);
  const { body, parts, step } = listing(rows, model.get("lines"), relations);
  const go = (by) => {
    const shown = [...rows.keys()].filter((i) => parts[i].node.offsetParent);
    const next = shown[shown.indexOf(model.get("step")) + by];
    if (next !== undefined) put(model, { step: next });
  };
  parts.forEach(({ node }, i) => node.addEventListener("click", () => put(model, { step: i })));
  body.addEventListener("keydown", (event) => {
    if (!(event.key in STEPS)) return;
    event.preventDefault();
    go(STEPS[event.key]);
    parts[model.get("step")].node.focus();
  });
  for (const kind of ["pointerover", "focusin"]) {
    box.addEventListener(kind, ({ target }) => light(box, axisUnder(target)));
  }
  const button = (text, onclick) => h("button", { class: "eta-button", text, onclick });
  const inner = button("torch's own lines", () =>
    inner.setAttribute("aria-pressed", body.classList.toggle("eta-open")),
  );
  inner.hidden = !rows.some((row) => row.deep);
  const names = ["line", "operation", "shapes", "numbers"];
  const head = h("tr", { class: "eta-line" }, ...names.map((text) => h("th", { text })));
  bar.node.append(
    button("back", () => go(-1)),
    button("forward", () => go(1)),
    inner,
  );
  box.append(
    bar.node,
    told.node,
    // A box that scrolls must be reachable without a mouse.
    h(
      "div",
      { class: "eta-scroll", tabindex: "0", role: "group", "aria-label": "steps" },
      h("table", {}, h("thead", {}, head), body),
    ),
  );
  const resize = () => [bar, ...parts].forEach((part) => part.draw(size));
  const move = () => [told.draw(), step(model.get("step"))];
  onChange(model, ["sizes"], signal, resize);
  onChange(model, ["step"], signal, move);
  resize();
  move();
  return end;
}

export default { render };
