// The bar above the table of symptoms, and exhibits that open when they are linked to.
import { filterBar } from "../../../../taken_apart/views/js/shared/rows.js";

const facets = { sign: "What you see", kind: "Kind" };

// The exhibit that a fragment such as "#exhibit-scale-forgotten" names.
function exhibitOf(home, hash) {
  return [...home.querySelectorAll("details")].find((node) => `#${node.id}` === hash);
}

function open(home, hash) {
  const found = exhibitOf(home, hash);
  if (!found) return;
  found.hidden = false;
  found.open = true;
  found.scrollIntoView({ block: "center" });
  found.querySelector("summary").focus({ preventScroll: true });
}

function render({ el }) {
  const home = el.parentElement;
  const react = (rows) => {
    for (const row of rows) {
      const link = row.querySelector("a").getAttribute("href");
      exhibitOf(home, link).hidden = row.hidden;
    }
  };
  const said = { name: "ledger", label: "Filter the symptoms", noun: "exhibits" };
  const { signal, end } = filterBar(el, { ...said, facets, react });
  home.addEventListener(
    "click",
    (event) => {
      const link = event.target.closest('a[href^="#exhibit-"]');
      if (!link) return;
      event.preventDefault();
      history.replaceState(null, "", link.getAttribute("href"));
      open(home, link.getAttribute("href"));
    },
    { signal },
  );
  const follow = () => open(home, location.hash);
  addEventListener("hashchange", follow, { signal });
  follow();
  return end;
}

export default { render };
