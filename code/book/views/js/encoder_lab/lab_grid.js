// A matrix as a table of coloured numbers: one stop for the tab key, arrow keys inside.
import { MOVES } from "../../../../taken_apart/views/js/shared/arrows.js";
import { h } from "../../../../taken_apart/views/js/shared/dom.js";
import { at } from "./encoder_math.js";
import { number } from "./lab_stages.js";
import { level } from "../../../../taken_apart/views/js/shared/shades.js";

// Returns { node, show }. `show` takes { map, label, rows, cols, shares, group, struck }:
// row and column labels, whether numbers are shares (of 1, or of that number), how many
// columns a head owns, and which columns are struck out. `point(i, j)` and `choose(i, j)`
// report where the reader is, and where a click or Enter was.
export function numberGrid(point, choose) {
  const table = h("table", { class: "lab-grid", role: "grid" });
  const node = h("div", { class: "lab-scroll" }, table);
  // Say so where columns are out of sight.
  const observer = new ResizeObserver(() =>
    node.toggleAttribute("data-cut", node.scrollWidth > node.clientWidth + 1),
  );
  for (const each of [node, table]) observer.observe(each);
  let cells = [];
  let shown = "";
  let current = [0, 0];

  function build({ map, rows, cols, group }) {
    const gap = (j) => (group && j && j % group === 0 ? "lab-gap" : "");
    const row = (...parts) => h("tr", { role: "row" }, ...parts);
    const names = cols.map((text, j) =>
      h("th", { scope: "col", class: gap(j) }, h("span", { text })),
    );
    cells = rows.map((_, i) =>
      cols.map((_, j) =>
        h("td", { role: "gridcell", tabindex: -1, class: gap(j), "data-i": i, "data-j": j }),
      ),
    );
    const body = rows.map((text, i) => row(h("th", { scope: "row", text }), ...cells[i]));
    const heads = group ? [row(h("td"), ...headNames(cols.length, group, gap))] : [];
    table.replaceChildren(...heads, row(h("td"), ...names), ...body);
    current = [Math.min(current[0], map.rows - 1), Math.min(current[1], map.cols - 1)];
    cells[current[0]]?.[current[1]]?.setAttribute("tabindex", 0);
  }

  // Most numbers stay when one word changes: only what differs is written.
  function paint({ map, shares, struck }) {
    const most = map.data.reduce((max, value) => Math.max(max, Math.abs(value)), 1e-9);
    cells.forEach((row, i) =>
      row.forEach((cell, j) => {
        const value = at(map, i, j);
        const text = number(value);
        const sign = shares ? "share" : value < 0 ? "neg" : "pos";
        const share = Math.abs(value) / (shares ? Number(shares) : most);
        const amount = shares ? level(share) : Math.round(share * 44);
        const look = `${text} ${sign} ${amount} ${struck?.[j]}`;
        if (look === cell.look) return;
        cell.look = look;
        cell.textContent = text;
        cell.dataset.sign = sign;
        if (shares) cell.dataset.level = amount;
        else cell.style.setProperty("--amount", `${amount}%`);
        cell.toggleAttribute("data-struck", Boolean(struck?.[j]));
      }),
    );
  }

  function show(view) {
    const key = JSON.stringify([view.rows, view.cols, view.group, Boolean(view.shares)]);
    if (key !== shown) build(view);
    shown = key;
    table.setAttribute("aria-label", view.label);
    table.toggleAttribute("data-words", typeof view.cols[0] === "string");
    paint(view);
  }

  const place = (event) => {
    const cell = event.target.closest?.("td[data-i]");
    return cell && [Number(cell.dataset.i), Number(cell.dataset.j)];
  };
  function move(i, j) {
    const [oldRow, oldCol] = current;
    if (!cells[i]?.[j]) return;
    cells[oldRow]?.[oldCol]?.setAttribute("tabindex", -1);
    current = [i, j];
    cells[i][j].setAttribute("tabindex", 0);
    cells[i][j].focus();
  }
  table.addEventListener("pointerover", (event) => place(event) && point(...place(event)));
  table.addEventListener("focusin", (event) => place(event) && point(...place(event)));
  table.addEventListener("click", (event) => {
    if (!place(event)) return;
    move(...place(event));
    choose?.(...place(event));
  });
  table.addEventListener("keydown", (event) => {
    const step = MOVES[event.key];
    if (step) move(current[0] + step[0], current[1] + step[1]);
    else if (event.key === "Enter") choose?.(...current);
    else return;
    event.preventDefault();
  });
  return { node, show, focus: () => cells[current[0]]?.[current[1]]?.focus() };
}

// One name above the columns of each head.
function headNames(nCols, group, gap) {
  return Array.from({ length: nCols / group }, (_, n) =>
    h("th", { colspan: group, class: `lab-head-name ${gap(n * group)}`, text: `head ${n}` }),
  );
}
