// The bar above the ledger's table. What is chosen stands in the address, so that a row
// (#A075) or a choice (#verdict=refuted&search=norm) can be linked.
import { filterBar } from "../../../../taken_apart/views/js/shared/rows.js";

const facets = { verdict: "Verdict", evidence: "Evidence", chapter: "Chapter", source: "Article" };

// Read { verdict, search, ... } out of an address's hash; a row's own has none of them.
export function chosenIn(hash) {
  const wanted = new URLSearchParams(hash.replace(/^#/, ""));
  const names = [...Object.keys(facets), "search"];
  return Object.fromEntries(
    names.filter((name) => wanted.has(name)).map((name) => [name, wanted.get(name)]),
  );
}

// Write what is chosen as a hash, "" for nothing.
export function hashOf(chosen) {
  const filled = Object.entries(chosen).filter(([, value]) => value);
  return filled.length ? `#${new URLSearchParams(filled)}` : "";
}

function render({ el }) {
  const { box, signal, end } = filterBar(el, {
    name: "ledger",
    label: "Filter the claims",
    facets,
    noun: "claims",
  });
  const controls = [...box.querySelectorAll("input, select")];
  const name = (control) => control.name || "search";

  let following = false;

  // Bring the bar to what the address says, and a linked row into sight.
  function follow() {
    const chosen = chosenIn(location.hash);
    const id = CSS.escape(decodeURIComponent(location.hash.slice(1)));
    const row = id && el.parentElement.querySelector(`#${id}`);
    if (!row && !Object.keys(chosen).length) return;
    for (const control of controls) control.value = chosen[name(control)] ?? "";
    following = true;
    controls[0].dispatchEvent(new Event("input"));
    following = false;
    if (row) row.scrollIntoView({ block: "center" });
  }

  function remember() {
    if (following) return;
    const hash = hashOf(
      Object.fromEntries(controls.map((control) => [name(control), control.value])),
    );
    history.replaceState(history.state, "", hash || `${location.pathname}${location.search}`);
  }

  for (const type of ["input", "change", "click"]) {
    box.addEventListener(type, remember, { signal });
  }
  window.addEventListener("hashchange", follow, { signal });
  follow();
  return end;
}

export default { render };
