// The maps of the lab: one to paint, and three that follow.
import { MOVES } from "../../../../taken_apart/views/js/shared/arrows.js";
import { h } from "../../../../taken_apart/views/js/shared/dom.js";
import { paintOver } from "../../../../taken_apart/views/js/shared/controls.js";
import { cellText, level } from "../../../../taken_apart/views/js/shared/shades.js";

// A table whose every cell, row name and column name is a switch: pressed is hidden.
// `hide(i, j, on)` gets null for a whole row or column. One stop for the tab key, and
// the arrow keys inside.
export function paintGrid(hide, signal) {
  const table = h("table", { class: "mask-grid" });
  let stops = [];
  let shown = "";

  const stop = (i, j, label) =>
    h("button", {
      type: "button",
      class: "mask-cell",
      "aria-label": label,
      tabindex: -1,
      "data-i": i,
      "data-j": j,
    });

  function build(rows, cols) {
    const tops = cols.map((key, j) => stop("", j, `hide ${key} from all`));
    const sides = rows.map((query, i) => stop(i, "", `hide all from ${query}`));
    const cells = rows.map((query, i) =>
      cols.map((key, j) => stop(i, j, `hide ${key} from ${query}`)),
    );
    tops.forEach((node, j) => (node.textContent = cols[j]));
    sides.forEach((node, i) => (node.textContent = rows[i]));
    stops = [[null, ...tops], ...cells.map((row, i) => [sides[i], ...row])];
    stops[1][1].tabIndex = 0;
    const head = h("tr", {}, h("td"), ...tops.map((node) => h("th", { scope: "col" }, node)));
    const body = cells.map((row, i) =>
      h("tr", {}, h("th", { scope: "row" }, sides[i]), ...row.map((node) => h("td", {}, node))),
    );
    table.replaceChildren(head, ...body);
  }

  function draw(rows, cols, scores, blocked) {
    const key = JSON.stringify([rows, cols]);
    if (key !== shown) build(rows, cols);
    shown = key;
    for (const node of stops.flat().filter(Boolean)) {
      const { i, j } = node.dataset;
      const hidden = pairs(i, j, blocked);
      node.setAttribute("aria-pressed", hidden.length > 0 && hidden.every(Boolean));
      if (i !== "" && j !== "") node.textContent = cellText(scores[i][j]);
    }
  }

  table.addEventListener("keydown", (event) => {
    const step = MOVES[event.key];
    const row = stops.findIndex((some) => some.includes(event.target));
    if (!step || row < 0) return;
    event.preventDefault();
    const column = stops[row].indexOf(event.target);
    stops[row + step[0]]?.[column + step[1]]?.focus();
  });
  table.addEventListener("focusin", (event) => {
    for (const node of stops.flat().filter(Boolean)) node.tabIndex = node === event.target ? 0 : -1;
  });
  const place = (text) => (text === "" ? null : Number(text));
  paintOver(
    table,
    ".mask-cell",
    ({ dataset }, on) => hide(place(dataset.i), place(dataset.j), on),
    signal,
  );
  return { node: table, draw };
}

// The entries of a mask that a switch stands for.
function pairs(i, j, blocked) {
  if (i === "") return blocked.map((row) => row[j]);
  return j === "" ? blocked[i] : [blocked[i][j]];
}

// A table of numbers. Shares are coloured by amount, others by sign; null is no number.
export function numberTable() {
  const node = h("table", { class: "mask-grid mask-follows" });

  function draw(rows, cols, values, isShare) {
    const most = Math.max(...(values ?? [[1]]).flat().filter(Number.isFinite).map(Math.abs), 1e-9);
    const cell = (x) =>
      h("td", { ...look(x, most, isShare), text: x === null ? "\u2014" : cellText(x) });
    const heads = cols.map((text) => h("th", { scope: "col", text }));
    const body = rows.map((text, i) =>
      h(
        "tr",
        {},
        h("th", { scope: "row", text }),
        ...cols.map((_, j) => cell(values ? values[i][j] : null)),
      ),
    );
    node.replaceChildren(h("tr", {}, h("td"), ...heads), ...body);
  }
  return { node, draw };
}

function look(x, most, isShare) {
  if (x === null) return {};
  if (Number.isNaN(x)) return { "data-nan": true };
  if (isShare) return { "data-level": level(x) };
  const amount =
    Number.isFinite(x) && Math.abs(x) < 1000
      ? Math.round((44 * Math.abs(x)) / Math.min(most, 4))
      : 0;
  return { "data-sign": x < 0 ? "neg" : "pos", style: `--amount: ${Math.min(amount, 44)}%` };
}
