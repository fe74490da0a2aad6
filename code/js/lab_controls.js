// What the parts of the lab share: a button, and one tab stop among many.
import { h } from "./dom.js";

export function button(text, onclick, attributes = {}) {
  return h("button", { class: "eta-button", type: "button", text, onclick, ...attributes });
}

const ARROW = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };

// One stop for the tab key among many buttons; the arrow keys move inside. Returns a
// function that makes the first button the stop again.
export function roving(node, selector) {
  const all = () => [...node.querySelectorAll(selector)];
  node.addEventListener("keydown", (event) => {
    const buttons = all(), now = buttons.indexOf(event.target);
    if (now < 0 || !ARROW[event.key]) return;
    event.preventDefault();
    buttons[(now + ARROW[event.key] + buttons.length) % buttons.length].focus();
  });
  node.addEventListener("focusin", (event) => {
    if (!event.target.matches(selector)) return;
    for (const each of all()) each.tabIndex = each === event.target ? 0 : -1;
  });
  return () => all().forEach((each, i) => (each.tabIndex = i ? -1 : 0));
}
