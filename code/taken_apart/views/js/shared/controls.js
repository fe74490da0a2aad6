// Many buttons as one: one tab stop, and one stroke of the pointer.

const ARROW = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };

// One stop for the tab key among many buttons; the arrow keys move inside. Returns a
// function that makes the first button the stop again.
export function roving(node, selector) {
  const all = () => [...node.querySelectorAll(selector)];
  node.addEventListener("keydown", (event) => {
    const buttons = all();
    const now = buttons.indexOf(event.target);
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

// Press on one button and draw over others: all become what the first became. `set`
// gets a button and whether it is to be pressed; a key presses one at a time. A finger
// may be about to scroll: what it touched first waits until it lifts or goes sideways.
export function paintOver(node, selector, set, signal) {
  const buttonOf = (event) => event.target.closest?.(selector);
  const isPressed = (each) => each.getAttribute("aria-pressed") === "true";
  let brush = null;
  let first = null;
  let start = null;
  const isUpright = ({ clientX, clientY }) =>
    Math.abs(clientY - start.clientY) > Math.abs(clientX - start.clientX);
  const begin = () => {
    if (first) set(first, brush);
    first = null;
  };
  node.addEventListener("pointerdown", (event) => {
    first = buttonOf(event);
    if (!first) return;
    first.releasePointerCapture?.(event.pointerId);
    brush = !isPressed(first);
    start = event;
    if (event.pointerType !== "touch") begin();
  });
  node.addEventListener("pointerover", (event) => {
    const other = buttonOf(event);
    if (!other || brush === null || other === first) return;
    if (first && isUpright(event)) return;
    begin();
    set(other, brush);
  });
  const lift = () => {
    brush = null;
    first = null;
  };
  const end = () => {
    begin();
    lift();
  };
  window.addEventListener("pointerup", end, { signal });
  window.addEventListener("pointercancel", lift, { signal });
  node.addEventListener("click", (event) => {
    const one = buttonOf(event);
    if (one && event.detail === 0) set(one, !isPressed(one)); // by key
  });
}
