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

// The box of a view inside `el`. `signal` aborts when the view ends: give it to every
// listener outside the box. Return `end` from render: it leaves nothing behind.
export function frame(el, name, label) {
  const ends = new AbortController();
  const box = h("div", {
    class: `eta-box eta-${name}`,
    role: "group",
    "aria-label": label,
    "data-lm-suppress-shortcuts": true,
  });
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

// Call `react` when the page turns dark or light: book, JupyterLab, VS Code, Colab.
export function onTheme(signal, react) {
  const observer = new MutationObserver(react);
  const attributeFilter = ["data-theme", "theme", "class", "data-jp-theme-light"];
  for (const node of [document.documentElement, document.body]) {
    observer.observe(node, { attributeFilter });
  }
  signal.addEventListener("abort", () => observer.disconnect());
}

// Call `react(width)` when the width of a node changes, and once at the start.
export function onWidth(node, signal, react) {
  const observer = new ResizeObserver(([entry]) => react(entry.contentRect.width));
  observer.observe(node);
  signal.addEventListener("abort", () => observer.disconnect());
}

// The value of a CSS variable, as the browser resolves it in this node.
export function cssValue(node, name) {
  return getComputedStyle(node).getPropertyValue(name).trim();
}

// Copy text, also where pages from file:// have no clipboard of their own.
export async function copyText(box, text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { class: "eta-away", "aria-hidden": "true" });
    area.value = text;
    box.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

// A labelled choice: options are [value, text] pairs; `sync()` shows the value of `get`.
export function picker(label, options, get, choose) {
  const select = h("select", { onchange: () => choose(options[select.selectedIndex][0]) });
  select.append(...options.map(([, text]) => h("option", { text })));
  const sync = () => {
    select.selectedIndex = options.findIndex(([value]) => value === get());
  };
  return { node: h("label", {}, `${label} `, select), sync };
}
