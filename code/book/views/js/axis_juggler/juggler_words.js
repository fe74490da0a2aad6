// The axis juggler in words: what stands in the rows, and where a number comes from.
import { indicesOf, listed, offsetOf, rowsOf, verdict } from "./axis_juggler_math.js";

export const LEGEND = "In memory. Colour: token. Depth: head. 1,4 was x[1, 4].";

export const REFUSAL =
  "torch: view size is not compatible with input tensor\u2019s size and stride. " +
  "A view never moves numbers, and here they lie in another order.";

const SAYS = {
  whole: "Every row is a token.",
  cut:
    "Each token is cut into pieces, one a head. " +
    "Nothing has moved: the same memory is read in another shape.",
  heads:
    "Each head holds its piece of every token. " +
    "Memory has still not moved: only the strides changed places.",
  mixed:
    "Inside each head, every row is now a mixture of that head\u2019s rows. " +
    "The numbers are new, the places are not.",
  back: "The pieces of a token stand together again. " + "Memory still has the order of the heads.",
};

// How many numbers stand in a row of another token, with the first row as an example.
function mixUp(rows, tokens) {
  const wrong = rows.filter((row) => row.wrong);
  if (!wrong.length) return "";
  const named = wrong[0].tokens.map((i) => `\u201c${tokens[i]}\u201d`);
  const held = named.join(named.length > 2 ? ", " : " and ");
  return (
    `${wrong.length} of ${rows.length} rows hold numbers of another token. ` +
    `The row of \u201c${tokens[wrong[0].wanted]}\u201d holds numbers of ${held}.`
  );
}

// Heads and their width exchanged: no token is mixed, but the heads are not those wanted.
function exchange({ axes, shape }, nHeads) {
  const order = axes.join("");
  if (!order.endsWith("KTH") && !order.endsWith("TKH")) return "";
  const [many, wide] = axes[1] === "K" ? [shape[1], shape[3]] : shape.slice(2);
  return (
    `No token is mixed, but these are ${many} \u201cheads\u201d of ${wide} numbers, ` +
    `where ${nHeads} of ${(many * wide) / nHeads} were wanted.`
  );
}

function verdictOf({ values, nHeads, steps }, mixed) {
  const { astray, gap } = verdict(values, nHeads, steps);
  if (astray) return ["no", `Wrong, and the shape is right. ${mixed}`];
  if (gap <= 1e-9) return ["yes", "Right: every number is back in the row of its token."];
  return [
    "no",
    "Wrong. Every number is back in the row of its token, yet the result is " +
      `off by up to ${gap.toFixed(2)}: attention ran inside the wrong heads.`,
  ];
}

// What stands in the rows now: [kind, text], where kind is "yes", "no" or "".
export function stateInWords(scene, tensor) {
  const mixed = mixUp(rowsOf(tensor, scene.nHeads), scene.tokens);
  if (tensor.stage === "done") return verdictOf(scene, mixed);
  const trouble = mixed || exchange(tensor, scene.nHeads);
  return trouble ? ["no", trouble] : ["", SAYS[tensor.stage]];
}

// A number: where it comes from, where it is, how its place in memory is found.
export function numberInWords({ values, nHeads, tokens, steps }, tensor, place) {
  if (place === null) return "Point at a number, or walk to it with the arrow keys.";
  const index = indicesOf(tensor.shape)[place];
  const { value, from } = listed(tensor)[place];
  const features = values[0].length;
  const token = Math.floor(from / features);
  const feature = from % features;
  const head = Math.floor((feature * nHeads) / features);
  const isMixed = tensor.stage !== "whole" && steps.includes("attend");
  const shown = value.toFixed(2).replace("-", "\u2212");
  const terms = index.map((i, axis) => `${i}\u00b7${tensor.strides[axis]}`).join(" + ");
  return (
    `${shown}: x[${token}, ${feature}]${isMixed ? ", mixed" : ""}, ` +
    `of \u201c${tokens[token]}\u201d, head ${head}. ` +
    `Now at [${index.join(", ")}]; memory ${terms} = ${offsetOf(tensor, index)}.`
  );
}
