// Elements of a drawing: s("text", { x: 3, y: 5 }, "words"), s("g", {}, ...children).
export function s(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}
