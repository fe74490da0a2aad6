// What is wider than a phone scrolls by itself; keys must reach it as a finger does.
const WIDE = "main .pst-scrollable-table-container, main mjx-container[display]";

function letKeysScroll() {
  for (const box of document.querySelectorAll(WIDE)) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

addEventListener("resize", letKeysScroll);
addEventListener("load", async () => {
  await window.MathJax?.startup?.promise;
  letKeysScroll();
});

// From the disk a page may not read others, so search lists them without an excerpt.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

// Paper is white, and nobody can unfold a hint on it.
const folded = new Set();
let theme = "";
addEventListener("beforeprint", () => {
  theme = document.documentElement.dataset.theme;
  document.documentElement.dataset.theme = "light";
  for (const details of document.querySelectorAll("article details:not([open])")) {
    folded.add(details);
    details.open = true;
  }
});
addEventListener("afterprint", () => {
  document.documentElement.dataset.theme = theme;
  for (const details of folded) details.open = false;
  folded.clear();
});
