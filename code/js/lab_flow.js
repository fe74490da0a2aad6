// The machine as a row of buttons: each step opens its numbers, each wire can be cut.
import { h, put } from "./dom.js";
import { layerPlan, stage } from "./lab_stages.js";

const ARROW = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };

// One stop for the tab key among many buttons; the arrow keys move inside.
export function roving(node, selector) {
  const all = () => [...node.querySelectorAll(selector)];
  node.addEventListener("keydown", (event) => {
    const buttons = all(), now = buttons.indexOf(event.target);
    if (now < 0 || !ARROW[event.key]) return;
    event.preventDefault();
    buttons[(now + ARROW[event.key] + buttons.length) % buttons.length].focus();
  });
  node.addEventListener("focusin", (event) => {
    if (!event.target.matches(selector)) return;
    for (const button of all()) button.tabIndex = button === event.target ? 0 : -1;
  });
  return () => all().forEach((button, i) => (button.tabIndex = i ? -1 : 0));
}

export function switches(scene) {
  const { model } = scene;
  const order = [["Post-LN", false], ["Pre-LN", true]].map(([text, value]) => ({ value,
    node: h("button", { class: "eta-button", type: "button", text, onclick: () => put(model, { norm_first: value }) }) }));
  const toggles = [["scale", `\u00f7 \u221a${scene.dHead}`], ["positions", "positions"]].map(([part, text]) => ({ part,
    node: h("button", { class: "eta-button", type: "button", text, onclick: () => scene.toggle(part) }) }));
  const changed = h("span", { class: "eta-quiet", role: "status" });
  const reset = h("button", { class: "eta-button lab-reset", type: "button", text: "reset", onclick: scene.reset });

  function draw() {
    const { off, norm_first, edits } = scene.state();
    order.forEach(({ node, value }) => node.setAttribute("aria-pressed", value === norm_first));
    toggles.forEach(({ node, part }) => node.setAttribute("aria-pressed", !off.includes(part)));
    changed.textContent = noteOn(norm_first, edits.length);
  }
  const bar = h("div", { class: "eta-bar lab-switches", role: "group", "aria-label": "switches" },
    h("span", { class: "lab-pair" }, ...order.map(({ node }) => node)), ...toggles.map(({ node }) => node), changed, reset);
  return { node: bar, draw };
}

function noteOn(normFirst, nEdits) {
  const notes = [];
  if (normFirst) notes.push("Pre-LN, with weights trained as Post-LN");
  if (nEdits) notes.push(`${nEdits} weight${nEdits > 1 ? "s" : ""} changed`);
  return notes.join("; ");
}

export function flow(scene) {
  const node = h("div", { class: "lab-flow", role: "group", "aria-label": "steps of the encoder" });
  const restart = roving(node, "button");
  let built = null;

  const step = (id) => h("button", { class: "lab-step", type: "button", text: stage(id).name, "data-stage": id,
    "aria-label": labelOf(id), onclick: () => scene.open(id) });
  const cut = (part, text, kind) => h("button", { class: kind, type: "button", text, "data-part": part,
    onclick: () => scene.toggle(part) });

  function block(layer, { residual, inside, after }) {
    const id = (name) => `${layer}.${name}`;
    const part = residual === "residual1" ? "attention" : "feed-forward";
    const wire = cut(`layers.${layer}.${residual}`, "residual", "lab-wire");
    wire.setAttribute("aria-label", `layer ${layer}, residual around ${part}`);
    return h("div", { class: "lab-block" }, wire,
      h("div", { class: "lab-steps" }, ...inside.map((name) => step(id(name)))),
      h("div", { class: "lab-after" }, ...after.map((name) => step(id(name)))),
      h("span", { class: "lab-block-name", text: part }));
  }

  function layer(l, normFirst) {
    const heads = Array.from({ length: scene.nHeads }, (_, i) =>
      cut(`layers.${l}.head${i}`, `head ${i}`, "lab-head"));
    heads.forEach((button, i) => button.setAttribute("aria-label", `layer ${l}, head ${i}`));
    return h("div", { class: "lab-layer" },
      h("div", { class: "lab-layer-name" }, h("span", { text: `layer ${l}` }), ...heads),
      h("div", { class: "lab-blocks" }, ...layerPlan(normFirst).map((part) => block(l, part))));
  }

  function build(normFirst) {
    const into = h("div", { class: "lab-ends" }, ...["embedded", "positions", "input"].map(step));
    const out = h("div", { class: "lab-ends" }, ...(normFirst ? ["final"] : []).map(step), step("guess"));
    const layers = Array.from({ length: scene.nLayers }, (_, l) => layer(l, normFirst));
    node.replaceChildren(into, ...layers, out);
    built = normFirst;
    restart();
  }

  function draw(run) {
    if (built !== run.normFirst) build(run.normFirst);
    for (const button of node.querySelectorAll("[data-stage]")) {
      button.setAttribute("aria-pressed", button.dataset.stage === scene.view.stage);
    }
    for (const button of node.querySelectorAll("[data-part]")) {
      button.setAttribute("aria-pressed", !run.off.includes(button.dataset.part));
    }
  }
  return { node, draw };
}

function labelOf(id) {
  const { layer, title } = stage(id);
  return layer === undefined ? title : `layer ${layer}: ${title}`;
}
