// What canvases need to know of the page around them.

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
