// Small inputs of views.
import { h } from "./dom.js";

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
export function picker(label, options, get, choose, name = label) {
  const select = h("select", {
    class: "eta-button",
    "aria-label": name,
    onchange: () => choose(options[select.selectedIndex][0]),
  });
  select.append(...options.map(([, text]) => h("option", { text })));
  const sync = () => {
    select.selectedIndex = options.findIndex(([value]) => value === get());
  };
  return { node: h("label", {}, `${label} `, select), sync };
}
