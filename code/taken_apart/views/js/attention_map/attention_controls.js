// Around the maps: what to show, what the colours mean, and the numbers in words.
import {
  columnMeans,
  columnOf,
  entropy,
  largest,
  rowOf,
  strongest,
  toTable,
  total,
} from "./attention_math.js";
import { h, put } from "../shared/dom.js";
import { copyText, picker } from "../shared/inputs.js";

const SCALES = [
  ["all", "largest of all heads"],
  ["map", "largest here"],
  ["one", "1"],
];
const LISTED = 5; // tokens in a list of the strongest

export function headName([layer, head]) {
  return `layer ${layer}, head ${head}`;
}

// Whatever a token holds, show something: blanks stand in quotation marks.
export function tokenText(token) {
  return token.trim() === "" ? `“${token}”` : token;
}

function brief(token) {
  return token.length > 24 ? `${token.slice(0, 23)}…` : token;
}

export function controls(scene, box) {
  const { model, L, H } = scene;
  const count = (n) => Array.from({ length: n }, (_, i) => [i, String(i)]);
  const own = (name, options) =>
    picker(
      name,
      options,
      () => model.get(name),
      (value) => put(model, { [name]: value }),
    );
  const other = (name, place, n) =>
    picker(
      name,
      count(n),
      () => scene.second()?.[place],
      (value) => put(model, { compare: scene.second().with(place, value) }),
      `second ${name}`,
    );
  const samples = model
    .get("query_tokens")
    .map((tokens, i) => [i, `${i}: ${tokens.join(" ").slice(0, 30)}`]);
  const pickers = [own("sample", samples), own("layer", count(L)), own("head", count(H))];
  const others = [other("layer", 0, L), other("head", 1, H)];
  [samples.length, L, H].forEach((n, i) => (pickers[i].node.hidden = n < 2));
  const compare = h("button", {
    class: "eta-button",
    text: "compare",
    onclick() {
      const next = [model.get("layer"), (model.get("head") + 1) % H];
      put(model, { compare: scene.second() ? null : next });
    },
  });
  compare.hidden = L * H < 2;
  const beside = h("span", { class: "eta-beside" }, "with", ...others.map(({ node }) => node));
  const bar = [...pickers.map(({ node }) => node), compare, beside, copyButton(scene, box)];
  return {
    node: h("div", { class: "eta-bar" }, ...bar),
    choose() {
      for (const { sync } of [...pickers, ...others]) sync();
      compare.setAttribute("aria-pressed", scene.second() !== null);
    },
  };
}

function copyButton(scene, box) {
  const button = h("button", {
    class: "eta-button",
    text: "copy values",
    async onclick() {
      const map = scene.map(scene.first());
      await copyText(box, toTable(map, scene.queries(), scene.keys(), scene.digits));
      button.textContent = "copied";
      setTimeout(() => (button.textContent = "copy values"), 1500);
    },
  });
  return button;
}

// The colours, what they mean at both ends, and where the weight in focus lies.
export function legend(scene) {
  const scale = picker(
    "colours end at",
    SCALES,
    () => scene.model.get("scale"),
    (value) => put(scene.model, { scale: value }),
  );
  const end = h("span", { class: "eta-num" });
  const needle = h("i");
  const ramp = h("span", { class: "eta-ramp" }, needle);
  const zero = h("span", {}, h("i", { class: "eta-hatch" }), " exactly 0");
  const node = h(
    "div",
    { class: "eta-legend" },
    h("span", {}, "0 ", ramp, " ", end),
    zero,
    scale.node,
  );
  return {
    node,
    choose() {
      scale.sync();
      end.textContent = scene.show(scene.top(scene.map(scene.first())));
    },
    point() {
      const [q, k] = scene.focus();
      const map = scene.map(scene.first());
      needle.hidden = q === null || k === null;
      const part = map.values[q * map.K + k] / scene.top(map);
      needle.style.left = `${100 * Math.min(1, part)}%`;
    },
  };
}

// A heading, the strongest tokens as bars, and one line of figures.
function rankedList() {
  const head = h("div", { class: "eta-quiet" });
  const foot = h("div", { class: "eta-quiet eta-num" });
  const rows = Array.from({ length: LISTED }, () => {
    const parts = [h("span", { dir: "auto" }), h("i"), h("span", { class: "eta-num" })];
    return { parts, node: h("div", { class: "eta-rank" }, ...parts) };
  });
  const node = h("div", { class: "eta-list" }, head, ...rows.map((row) => row.node), foot);
  const fill = (title, ranked, figures) => {
    head.textContent = title;
    foot.textContent = figures;
    rows.forEach((row, i) => {
      const [name, bar, amount] = row.parts;
      const [text, weight, shown] = ranked[i] ?? ["", 0, ""];
      row.node.style.visibility = ranked[i] ? "visible" : "hidden";
      name.textContent = text;
      bar.style.setProperty("--part", Math.min(1, weight));
      amount.textContent = shown;
    });
  };
  return { node, fill };
}

// The numbers in words: the cell, the row, the column; at rest, the head as a whole.
export function readout(scene) {
  const fact = h("div", { class: "eta-fact", "aria-live": "polite" });
  const lists = [rankedList(), rankedList()];
  const node = h(
    "div",
    { class: "eta-told" },
    fact,
    h("div", { class: "eta-lists" }, ...lists.map((list) => list.node)),
  );
  return {
    node,
    point() {
      const [q, k] = scene.focus();
      const heads = [scene.first(), scene.second()].filter(Boolean);
      fact.textContent = factText(scene, heads, q, k);
      const [left, right] = describe(scene, heads, q, k);
      lists[0].fill(...left);
      lists[1].fill(...right);
    },
  };
}

function quoted(tokens, i) {
  return `“${brief(tokens[i])}”`;
}

function factText(scene, heads, q, k) {
  const queries = scene.queries();
  const keys = scene.keys();
  if (q !== null && k !== null) {
    const weights = heads.map((head) => exactText(scene, scene.map(head), q * scene.K + k));
    return `${quoted(queries, q)} gives ${quoted(keys, k)} ${weights.join(" beside ")}`;
  }
  if (q !== null) return `${quoted(queries, q)}, query ${q}`;
  if (k !== null) return `${quoted(keys, k)}, key ${k}`;
  return heads.map(headName).join(" beside ");
}

// As exact as the data: a weight that rounds to 0 is not called 0.
function exactText(scene, map, i) {
  if (map.zero[i]) return "exactly 0";
  return map.values[i] ? scene.show(map.values[i]) : `less than ${0.5 / 10 ** scene.digits}`;
}

// Two lists: who the query looks at, and who looks at the key; or one list a head.
function describe(scene, heads, q, k) {
  const self = scene.model.get("key_tokens") === null;
  const row = q ?? (self ? k : null);
  const column = k ?? (self ? q : null);
  if (heads.length === 1)
    return [
      row === null ? pairList(scene, heads[0]) : rowList(scene, heads[0], row),
      column === null ? meanList(scene, heads[0]) : columnList(scene, heads[0], column),
    ];
  const list = q !== null ? rowList : k !== null ? columnList : pairList;
  return heads.map((head) => list(scene, head, q ?? k, `${headName(head)}: `));
}

function entries(scene, weights, name) {
  return strongest(weights, LISTED).map((i) => [name(i), weights[i], scene.show(weights[i])]);
}

function rowList(scene, head, q, where = "") {
  const map = scene.map(head);
  const row = rowOf(map, q);
  const visible = scene.K - total(map.zero.subarray(q * scene.K, (q + 1) * scene.K));
  const bits = `${entropy(row).toFixed(2)} of ${Math.log2(visible || 1).toFixed(2)} bits`;
  const figures = `entropy ${bits}, sum ${scene.sum(head, q).toFixed(3)}`;
  const title = `${where}${quoted(scene.queries(), q)} looks at`;
  return [title, entries(scene, row, (k) => tokenText(scene.keys()[k])), figures];
}

function columnList(scene, head, k, where = "") {
  const column = columnOf(scene.map(head), k);
  const mean = total(column) / scene.Q;
  const figures = `mean ${scene.show(mean)}, largest ${scene.show(largest(column))}`;
  const title = `${where}${quoted(scene.keys(), k)} is looked at by`;
  return [title, entries(scene, column, (q) => tokenText(scene.queries()[q])), figures];
}

function pairList(scene, head, _, where = "") {
  const map = scene.map(head);
  const { K, Q } = scene;
  const name = (i) =>
    `${tokenText(scene.queries()[Math.floor(i / K)])} → ${tokenText(scene.keys()[i % K])}`;
  const bits = Array.from({ length: Q }, (_, q) => entropy(rowOf(map, q)));
  const figures = `mean entropy of a row ${(total(bits) / Q).toFixed(2)} bits`;
  return [`${where}strongest pairs`, entries(scene, map.values, name), figures];
}

function meanList(scene, head) {
  const means = columnMeans(scene.map(head));
  const lost = total(means.filter((_, k) => scene.isPadding(k)));
  const name = (k) => tokenText(scene.keys()[k]);
  const figures = `share that goes to padding ${scene.show(lost)}`;
  return ["most looked at", entries(scene, means, name), figures];
}
