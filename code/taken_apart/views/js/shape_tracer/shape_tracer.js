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

// A small block of numbers, its rows and columns named; the first three are dark, so that
// the eye can follow them. Numbers that are `made` are new, or parts of 1, drawn as bars.
function blockNode(cells, [rows, columns], made) {
  const spans = cells.flat().map((n) => {
    const kind = made ? `eta-${made}` : n < 3 ? "eta-low" : "";
    const text = Number.isInteger(n) ? n : n.toFixed(made === "part" ? 2 : 1).replace("0.", ".");
    return h("span", { class: kind, style: `--part: ${n}`, text });
  });
  const grid = h("div", { class: "eta-cells", style: `--columns: ${cells[0].length}` }, ...spans);
  return h("div", { class: "eta-block" }, h("i"), columns, rows, grid);
}

const MADE = { normalise: "part", standardise: "made", product: "made" };

// The names of the blocks before and after an event, each as [rows, columns].
function blockNames({ event, inputs, outputs }) {
  const join = ([first = "", ...rest]) => [first, rest.join("*")];
  const alone = (axes) => ["", axes.join("*")];
  const { kind, from, into } = event ?? {};
  if (kind === "product") return [[from, event.by], [into]];
  if (kind === "cut") return [[alone(from)], Array(3).fill(alone(into))];
  if (kind === "split") return [[alone(from)], [join(into)]];
  if (kind === "merge" || kind === "join") return [[join(from)], [alone(into)]];
  if (kind === "regroup") return [[join(from)], [join(into)]];
  const axes = (inputs[0] ?? outputs[0])?.axes ?? [];
  if (kind === "move") {
    const pair = movedPair(event.order).map((i) => axes[i]);
    return [[pair], [pair.toReversed()]];
  }
  const last = event?.axis ?? axes.length - 1;
  const pair = [axes[last ? last - 1 : 1] ?? "", axes[last] ?? ""];
  return [[pair], [event ? pair : join((outputs[0]?.axes ?? []).slice(-2))]];
}

// What the operation does to the numbers 0 to 5; nothing is drawn of one that raised.
function eventNode(row, relations) {
  if (!row.outputs.length) return "";
  const { before, after } = illustrate(row.event ?? {});
  const [from, into] = blockNames(row);
  const draw = (blocks, names, made) =>
    blocks.map((cells, i) =>
      blockNode(
        cells,
        names[i].map((axis) => axisNode(axis, relations)),
        made,
      ),
    );
  const result = draw(after, into, MADE[row.event?.kind]);
  const shown = row.event ? [...draw(before, from), "→", ...result] : result;
  return h("div", { class: "eta-event" }, ...shown);
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
      const stays = row.inputs[0]?.axes.join() === row.outputs[0]?.axes.join();
      const what = row.event?.text ?? (stays && "the axes stay as they are");
      const says = [what, row.note, error?.message, error?.axis, error?.cause];
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
      style: `accent-color: var(--axis-${name}, var(--axis-T))`,
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

// Scroll the box, and not the page, until a row can be seen.
function keepInSight(row, scroller) {
  const [inner, outer] = [row, scroller].map((node) => node.getBoundingClientRect());
  if (inner.top < outer.top) scroller.scrollTop -= outer.top - inner.top;
  if (inner.bottom > outer.bottom) scroller.scrollTop += inner.bottom - outer.bottom;
}

function render({ model, el }) {
  const { box, signal, end } = frame(el, "shapes", "Shapes, line by line");
  const rows = readTrace(model);
  const relations = model.get("relations");
  const size = (axis) => sizeOf(axis, model.get("sizes"), relations);
  const bar = sliders(model, relations, size);
  const told = stage(model, rows, relations);
  const { body, parts, step } = listing(rows, model.get("lines"), relations);
  // A box that scrolls must be reachable without a mouse.
  const scrolls = { class: "eta-scroll", tabindex: "0", role: "group", "aria-label": "steps" };
  const table = h("div", scrolls);
  const go = (by) => {
    const shown = [...rows.keys()].filter((i) => parts[i].node.offsetParent);
    const next = shown[shown.indexOf(model.get("step")) + by];
    if (next === undefined) return;
    put(model, { step: next });
    keepInSight(parts[next].node, table);
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
  const steps = [button("back", () => go(-1)), button("forward", () => go(1)), inner];
  table.append(h("table", {}, h("thead", {}, head), body));
  box.append(bar.node, h("div", { class: "eta-bar" }, ...steps), told.node, table);
  const resize = () => [bar, ...parts].forEach((part) => part.draw(size));
  const move = () => [told.draw(), step(model.get("step"))];
  onChange(model, ["sizes"], signal, resize);
  onChange(model, ["step"], signal, move);
  resize();
  move();
  return end;
}

export default { render };
