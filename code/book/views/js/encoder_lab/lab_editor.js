// One number of the weights to change; the page runs again at every key.
import { button, h, put } from "../../../../taken_apart/views/js/shared/dom.js";
import { at } from "./encoder_math.js";

export function weightEditor(scene) {
  const name = h("span");
  const back = button("as trained", () => write(null));
  const spoken = { "aria-label": "value of the weight" };
  const input = h("input", { type: "number", step: 0.1, ...spoken, oninput: change });
  const node = h("p", { class: "lab-line eta-num" }, name, " ", input, " ", back);
  let run = null;
  let info = null;
  let spot = [0, 0, 0]; // which parameter, row, column

  const parameter = () => info.parameters[spot[0]];
  function write(value) {
    const [, row, col] = spot;
    const own = parameter();
    const isOther = ([n, r, c]) => n !== own || r !== row || c !== col;
    const others = scene.model.get("edits").filter(isOther);
    put(scene.model, { edits: value === null ? others : [...others, [own, row, col, value]] });
  }
  function change() {
    const value = Number.parseFloat(input.value);
    if (Number.isFinite(value)) write(value);
  }
  function label() {
    const [, row, col] = spot;
    const map = run.model.parameters[parameter()];
    const value = Number(at(map, row, col).toFixed(4));
    name.textContent = `${parameter()}[${map.rows === 1 ? col : `${row}, ${col}`}] =`;
    if (Number.parseFloat(input.value) !== value) input.value = value;
    back.disabled = at(scene.trained.parameters[parameter()], row, col) === at(map, row, col);
  }
  function aim(...where) {
    if (document.activeElement === input) return; // a passing pointer does not disturb typing
    spot = where;
    label();
  }
  function draw(nextRun, nextInfo) {
    if (info?.id !== nextInfo.id) spot = [0, 0, 0];
    [run, info] = [nextRun, nextInfo];
    label();
  }
  return { node, aim, draw, focus: () => input.focus() };
}
