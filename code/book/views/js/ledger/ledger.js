// The bar above the ledger's table.
import { filterBar } from "../../../../taken_apart/views/js/shared/rows.js";

const facets = { verdict: "Verdict", evidence: "Evidence", chapter: "Chapter", source: "Article" };

function render({ el }) {
  return filterBar(el, { name: "ledger", label: "Filter the claims", facets, noun: "claims" }).end;
}

export default { render };
