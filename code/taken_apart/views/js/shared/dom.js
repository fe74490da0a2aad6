// What every view needs: elements, a frame, and one signal that ends all listening.

// h("button", { class: "eta-button", text: "Copy", onclick: copy }, ...children)
export function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

export function button(text, onclick, attributes = {}) {
  return h("button", { class: "eta-button", type: "button", text, onclick, ...attributes });
}

// The letter of an axis, in its colour.
export function letter(axis) {
  return h("b", { style: `color: var(--axis-${axis})`, text: axis });
}

// The box of a view inside `el`. `signal` aborts when the view ends: give it to every
// listener outside the box. Return `end` from render: it leaves nothing behind.
export function frame(el, name, label) {
  const ends = new AbortController();
  const box = h("div", { class: `eta-box eta-${name}`, role: "group", "aria-label": label });
  // JupyterLab would take arrow keys and letters as its own commands.
  box.addEventListener("keydown", (event) => event.stopPropagation());
  el.replaceChildren(box);
  const end = () => {
    ends.abort();
    box.remove();
  };
  return { box, signal: ends.signal, end };
}

// Call `react` when any of the names in the model changes, until `signal` aborts.
export function onChange(model, names, signal, react) {
  for (const name of names) {
    model.on(`change:${name}`, react);
    signal.addEventListener("abort", () => model.off(`change:${name}`, react));
  }
}

// Set several names in the model and send them to the kernel, if there is one.
export function put(model, changes) {
  for (const [name, value] of Object.entries(changes)) model.set(name, value);
  model.save_changes();
}
