// All heads, small, to choose from.
import { MOVES } from "../shared/arrows.js";
import { pool } from "./attention_math.js";
import { bitmap, cellUnder, isNarrow, onKeys, pixels } from "./attention_parts.js";
import { h, letter } from "../shared/dom.js";

// All heads on one canvas, layers down. A small map shows the largest weight of a block.
export function headGrid(scene) {
  const { L, H, Q, K } = scene;
  const gap = 3;
  const canvas = h("canvas");
  const first = h("i", { class: "eta-here" });
  const second = h("i", { class: "eta-there" });
  const stack = h(
    "div",
    {
      class: "eta-stack",
      tabindex: 0,
      role: "application",
      "aria-label":
        `All heads, ${L} layers by ${H} heads. ` +
        "Arrow keys and clicks choose, a click with shift compares.",
      onclick: (event) => scene.choose(cellUnder(event, stack, L, H), event.shiftKey),
    },
    canvas,
    second,
    first,
  );
  onKeys(stack, (key) => key in MOVES && (scene.step(...MOVES[key]), true));
  const caption = h(
    "div",
    { class: "eta-quiet" },
    letter("L"),
    " layers down, ",
    letter("H"),
    " heads across",
  );
  let pitch;
  const mark = (node, head) => {
    node.hidden = head === null;
    if (head) [node.style.top, node.style.left] = head.map((n) => `${n * pitch}px`);
    node.style.width = node.style.height = `${pitch - gap}px`;
  };
  const node = h("div", { class: "eta-heads", hidden: L * H < 2 }, caption, stack);
  return {
    node,
    paint() {
      const room = Math.min(scene.width, isNarrow(scene) ? 340 : 300);
      pitch = Math.max(4 + gap, Math.min(64, Math.floor(room / H)));
      [canvas.width, canvas.height] = [H * pitch, L * pitch];
      stack.style.width = `${canvas.width}px`;
      const ink = canvas.getContext("2d");
      const size = pitch - gap;
      ink.imageSmoothingEnabled = false;
      for (let l = 0; l < L; l++)
        for (let n = 0; n < H; n++) {
          const map = scene.map([l, n]);
          const small = pool(map, Math.min(Q, size), Math.min(K, size));
          ink.drawImage(
            bitmap(pixels(scene, small, scene.top(map))),
            n * pitch,
            l * pitch,
            size,
            size,
          );
        }
    },
    choose() {
      mark(first, scene.first());
      mark(second, scene.second());
    },
  };
}
