// Rows of signed numbers as coloured cells: red below zero, blue above, as in "RdBu".
import { h } from "./dom.js";

// One row. The largest numbers have the full colour where `top` is the largest of all.
export function strip(values, top, digits) {
  const cells = values.map((value) => {
    const amount = Math.min(100, Math.round((Math.abs(value) / top) * 100));
    const colour = `var(--${value < 0 ? "neg" : "pos"}) ${amount}%`;
    const style = `background: color-mix(in srgb, ${colour}, transparent)`;
    return h("i", { style, title: value.toFixed(digits) });
  });
  return h("span", { class: "eta-strip" }, ...cells);
}

// The largest absolute value in rows of numbers.
export function extreme(...blocks) {
  return Math.max(1e-9, ...blocks.flat(2).map(Math.abs));
}

export function sums(words, places) {
  return words.map((row, i) => row.map((value, j) => value + places[i][j]));
}
