// The machine as rows of buttons: each step opens its numbers, each wire can be cut.
import { button, h, put } from "../../../../taken_apart/views/js/shared/dom.js";
import { roving } from "../../../../taken_apart/views/js/shared/controls.js";
import { layerPlan, stage } from "./lab_stages.js";

export function switches(scene) {
  const { model } = scene;
  const orders = [
    ["Post-LN", false],
    ["Pre-LN", true],
  ].map(([text, value]) => [value, button(text, () => put(model, { norm_first: value }))]);
  const toggles = [
    ["scale", `\u00f7 \u221a${scene.dHead}`],
    ["positions", "positions"],
  ].map(([part, text]) => [part, button(text, () => scene.toggle(part))]);
  const note = h("span", { class: "eta-quiet", role: "status" });
  const reset = button("reset", scene.reset, { class: "eta-button lab-reset" });

  function draw() {
    const { off, norm_first, edits } = scene.state();
    for (const [value, node] of orders) node.setAttribute("aria-pressed", value === norm_first);
    for (const [part, node] of toggles) node.setAttribute("aria-pressed", !off.includes(part));
    note.textContent = noteOn(norm_first, edits.length);
  }
  const pair = h("span", { class: "lab-pair" }, ...orders.map(([, node]) => node));
  const bar = h("div", { class: "eta-bar lab-switches", role: "group", "aria-label": "switches" });
  bar.append(pair, ...toggles.map(([, node]) => node), note, reset);
  return { node: bar, draw };
}

function noteOn(normFirst, nEdits) {
  const notes = [];
  if (normFirst) notes.push("Pre-LN, with weights trained as Post-LN");
  if (nEdits) notes.push(`${nEdits} weight${nEdits > 1 ? "s" : ""} changed`);
  return notes.join("; ");
}

export function flow(scene) {
  const label = { role: "group", "aria-label": "steps of the encoder" };
  const node = h("div", { class: "lab-flow", ...label });
  const restart = roving(node, "button");
  let built = null;

  const step = (id) =>
    button(stage(id).name, () => scene.open(id), {
      class: "lab-step",
      "data-stage": id,
      "aria-label": labelOf(id),
    });
  const cut = (part, text, kind, spoken) =>
    button(text, () => scene.toggle(part), {
      class: kind,
      "data-part": part,
      "aria-label": spoken,
    });

  function block(layer, { residual, inside, after }) {
    const part = residual === "residual1" ? "attention" : "feed-forward";
    const spoken = `layer ${layer}, residual around ${part}`;
    const steps = (names) => names.map((name) => step(`${layer}.${name}`));
    return h(
      "div",
      { class: "lab-block" },
      cut(`layers.${layer}.${residual}`, "residual", "lab-wire", spoken),
      h("div", { class: "lab-steps" }, ...steps(inside)),
      h("div", { class: "lab-after" }, ...steps(after)),
      h("span", { class: "lab-block-name", text: part }),
    );
  }

  function layerBox(layer, normFirst) {
    const heads = Array.from({ length: scene.nHeads }, (_, i) =>
      cut(`layers.${layer}.head${i}`, `head ${i}`, "lab-head", `layer ${layer}, head ${i}`),
    );
    return h(
      "div",
      { class: "lab-layer" },
      h("div", { class: "lab-layer-name" }, h("span", { text: `layer ${layer}` }), ...heads),
      h("div", { class: "lab-blocks" }, ...layerPlan(normFirst).map((part) => block(layer, part))),
    );
  }

  function build(normFirst) {
    const ends = (names) => h("div", { class: "lab-ends" }, ...names.map(step));
    const layers = Array.from({ length: scene.nLayers }, (_, l) => layerBox(l, normFirst));
    const last = normFirst ? ["final", "guess"] : ["guess"];
    node.replaceChildren(ends(["embedded", "positions", "input"]), ...layers, ends(last));
    built = normFirst;
    restart();
  }

  function draw(run) {
    if (built !== run.normFirst) build(run.normFirst);
    for (const each of node.querySelectorAll("[data-stage]")) {
      each.setAttribute("aria-pressed", each.dataset.stage === scene.view.stage);
    }
    for (const each of node.querySelectorAll("[data-part]")) {
      each.setAttribute("aria-pressed", !run.off.includes(each.dataset.part));
    }
  }
  return { node, draw };
}

function labelOf(id) {
  const { layer, title } = stage(id);
  return layer === undefined ? title : `layer ${layer}: ${title}`;
}
