// The bar above a table: choose, search, and see how many rows are left.
import { h, frame } from "./dom.js";

// A row is { text, verdict, ... }; an empty choice fits every row, each word must occur.
export function matches(row, chosen, words) {
  const fits = Object.entries(chosen).every(([name, value]) => !value || row[name] === value);
  return fits && words.every((word) => row.text.includes(word));
}

export function wordsOf(query) {
  return query.toLowerCase().split(" ").filter(Boolean);
}

function readRow(node) {
  return { ...node.dataset, text: node.textContent.toLowerCase() };
}

// A select of the values that occur, each with the number of its rows.
function facet(name, rows, onchange) {
  const values = rows.map((row) => row[name]);
  const options = [...new Set(values)].sort().map((value) => {
    const count = values.filter((other) => other === value).length;
    return h("option", { value, text: `${value} (${count})` });
  });
  return h(
    "select",
    { class: "eta-button", name, onchange },
    h("option", { value: "", text: "all" }),
    ...options,
  );
}

// Put the bar into `el`, for the rows of the table beside it: `facets` maps a name in
// their data to its label, `noun` is what a row is, `react` is told the rows when some
// have been hidden or shown. Return the box, and its end.
export function filterBar(el, { name, label, facets, noun, react = () => {} }) {
  const { box, signal, end } = frame(el, name, label);
  const nodes = [...el.parentElement.querySelectorAll(".eta-claims tbody tr")];
  const rows = nodes.map(readRow);
  const search = h("input", { class: "eta-button", type: "search", oninput: filter });
  const selects = Object.keys(facets).map((facetName) => facet(facetName, rows, filter));
  const status = h("output", { class: "eta-num" });

  function filter() {
    const chosen = Object.fromEntries(selects.map((select) => [select.name, select.value]));
    const words = wordsOf(search.value);
    nodes.forEach((node, i) => {
      node.hidden = !matches(rows[i], chosen, words);
    });
    const shown = nodes.filter((node) => !node.hidden).length;
    status.textContent = `${shown} of ${nodes.length} ${noun}`;
    react(nodes);
  }

  function reset() {
    for (const control of [search, ...selects]) control.value = "";
    filter();
  }

  const labelled = selects.map((select) => h("label", {}, `${facets[select.name]} `, select));
  const button = h("button", {
    class: "eta-button",
    type: "button",
    text: "Show all",
    onclick: reset,
  });
  box.append(
    h("div", { class: "eta-bar" }, h("label", {}, "Search ", search), ...labelled, button, status),
  );
  filter();
  return { box, signal, end };
}
