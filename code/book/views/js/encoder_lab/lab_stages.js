// The steps of the encoder as the lab shows them: what each is called, which numbers it
// holds, and how one of its numbers came about, in words. No drawing here.
import { angle, at, dot, moments } from "./encoder_math.js";

export const number = (value) => {
  if (Number.isNaN(value)) return "nan";
  return (Math.abs(value) < 0.005 ? 0 : value).toFixed(2).replace("-", "\u2212");
};
export const percent = (share) => `${Math.round(share * 100)} %`;

// name: on the button. title, says: above the map. axes: of rows and columns.
const OUTSIDE = {
  embedded: {
    name: "embedding",
    title: "Embedding",
    axes: "TD",
    parameters: ["embedding.weight"],
    says: "Each word has a row of its own in a table of D numbers, times \u221aD.",
  },
  positions: {
    name: "positions",
    title: "Positions",
    axes: "TD",
    says: "Waves that depend on the place alone: fast on the left, slow on the right.",
  },
  input: {
    name: "+",
    title: "Word + position",
    axes: "TD",
    says: "What enters the first layer: one row of D numbers a word.",
  },
  final: {
    name: "norm",
    title: "Final norm",
    axes: "TD",
    says: "Pre-LN leaves the last sum as it is, so one more norm closes the stack.",
  },
  guess: {
    name: "guess",
    title: "Guess",
    axes: "TV",
    shares: true,
    parameters: ["embedding.weight", "head.bias"],
    says: "Compare each output with the row of every word; softmax makes chances of it.",
  },
};
const INSIDE = {
  query: {
    name: "Q",
    title: "Queries",
    axes: "TD",
    map: "attention.query",
    says: "What each word asks for. The D columns are split into heads.",
  },
  key: {
    name: "K",
    title: "Keys",
    axes: "TD",
    map: "attention.key",
    says: "What each word can be found by.",
  },
  value: {
    name: "V",
    title: "Values",
    axes: "TD",
    map: "attention.value",
    says: "What each word hands over to those who find it.",
  },
  scores: {
    name: "scores",
    title: "Scores",
    axes: "TT",
    heads: true,
    says: "How well the query of a row fits the key of a column: a dot product over \u221aK.",
  },
  weights: {
    name: "weights",
    title: "Attention weights",
    axes: "TT",
    heads: true,
    shares: true,
    says: "Softmax turns each row of scores into shares of 1. Padding gets none.",
  },
  context: {
    name: "mix",
    title: "Context",
    axes: "TD",
    says: "Each word's mix of the values, by its shares. Each head fills its own columns.",
  },
  mixed: {
    name: "out",
    title: "Attention output",
    axes: "TD",
    map: "attention.output",
    says: "One linear map stirs the heads together.",
  },
  sum1: {
    name: "+",
    title: "Residual sum",
    axes: "TD",
    says: "What went into the attention is added to what came out.",
  },
  norm1: {
    name: "norm",
    title: "LayerNorm",
    axes: "TD",
    norm: 1,
    says: "Each row gets mean 0 and variance 1, then a gain and a bias of its own a column.",
  },
  hidden: {
    name: "up",
    title: "Feed-forward, widened",
    axes: "TF",
    map: "feed_forward.up",
    says: "Each word alone: F numbers, and ReLU sets those below 0 to 0.",
  },
  fed: {
    name: "down",
    title: "Feed-forward, back to D",
    axes: "TD",
    map: "feed_forward.down",
    says: "Back from F to D numbers.",
  },
  sum2: {
    name: "+",
    title: "Residual sum",
    axes: "TD",
    says: "What went into the feed-forward part is added to what came out.",
  },
  norm2: {
    name: "norm",
    title: "LayerNorm",
    axes: "TD",
    norm: 2,
    says: "Each row gets mean 0 and variance 1, then a gain and a bias of its own a column.",
  },
};

// "1.query" is the query step of the second layer.
export function stage(id) {
  const [layer, step] = id.split(".");
  if (step === undefined) return { id, step: id, parameters: [], ...OUTSIDE[id] };
  const info = INSIDE[step];
  const path = `layers.${layer}.${info.map ?? `norm${info.norm}`}`;
  const parameters = info.map || info.norm ? [`${path}.weight`, `${path}.bias`] : [];
  return { id, step, layer: Number(layer), parameters, ...info };
}

// The order of the steps in one layer, with what stands inside each residual wire.
export function layerPlan(normFirst) {
  const attention = ["query", "key", "value", "scores", "weights", "context", "mixed"];
  const feed = ["hidden", "fed"];
  if (normFirst) {
    return [
      { residual: "residual1", inside: ["norm1", ...attention], after: ["sum1"] },
      { residual: "residual2", inside: ["norm2", ...feed], after: ["sum2"] },
    ];
  }
  return [
    { residual: "residual1", inside: attention, after: ["sum1", "norm1"] },
    { residual: "residual2", inside: feed, after: ["sum2", "norm2"] },
  ];
}

// The matrices a stage shows: one, or one a head.
export function mapsOf(run, id) {
  const { step, layer, heads } = stage(id);
  if (step === "guess") return [run.chances];
  if (step === "final") return [run.output];
  if (layer === undefined) return [run[step]];
  return heads ? run.layers[layer][step] : [run.layers[layer][step]];
}

// How entry (i, j) of a map came about. `run` has model, words, padding, normFirst, off.
export function explain(run, id, head, i, j) {
  const info = stage(id);
  const value = number(at(mapsOf(run, id)[head], i, j));
  const how = info.map
    ? throughLinear
    : info.norm || info.step === "final"
      ? throughNorm
      : HOW[info.step];
  return `${how(run, info, i, j, head)} = ${value}`;
}

const HOW = {
  embedded(run, info, i, j) {
    const d = run.embedded.cols;
    const root = Math.sqrt(d);
    const entry = number(at(run.embedded, i, j) / root);
    return `table[${run.words[i]}, ${j}] \u00b7 \u221a${d} = ${entry} \u00b7 ${number(root)}`;
  },
  positions(run, info, i, j) {
    if (run.off.includes("positions")) return "positions are left out";
    const d = run.positions.cols;
    const wave = j % 2 ? "cos" : "sin";
    return `${wave}(${i} / 10000^(${j - (j % 2)}/${d})), ${wave} of ${number(angle(i, j, d))}`;
  },
  input(run, info, i, j) {
    const [word, place] = [run.embedded, run.positions].map((map) => number(at(map, i, j)));
    return `${run.words[i]}[${j}]: embedding + position = ${word} + ${place}`;
  },
  scores(run, info, i, j, head) {
    const { query, key } = run.layers[info.layer];
    const k = query.cols / run.model.n_heads;
    const fit = dot(query.data, i * query.cols + head * k, key.data, j * key.cols + head * k, k);
    const product = `score[${i}, ${j}] = q(${run.words[i]}) \u00b7 k(${run.words[j]})`;
    if (run.off.includes("scale")) return product;
    return `${product} / \u221a${k} = ${number(fit)} / ${number(Math.sqrt(k))}`;
  },
  weights(run, info, i, j, head) {
    if (run.padding[j]) return `${run.words[j]} is padding: no query may see it, weight`;
    const scores = run.layers[info.layer].scores[head];
    const strengths = run.words.map((_, t) => (run.padding[t] ? 0 : Math.exp(at(scores, i, t))));
    const total = strengths.reduce((sum, each) => sum + each, 0);
    const share = `${number(strengths[j])} / ${number(total)}`;
    return `weight[${i}, ${j}] = e^${number(at(scores, i, j))} / sum of the row = ${share}`;
  },
  context(run, info, i, j) {
    const { weights, value } = run.layers[info.layer];
    const k = value.cols / run.model.n_heads;
    const head = Math.floor(j / k);
    if (run.off.includes(`layers.${info.layer}.head${head}`)) return `head ${head} is zeroed`;
    const terms = run.words.map((word, t) => [at(weights[head], i, t), at(value, t, j), word]);
    const largest = terms.sort((a, b) => b[0] - a[0]).slice(0, 3);
    const shown = largest
      .map(([w, v, word]) => `${number(w)} \u00b7 ${number(v)} (${word})`)
      .join(" + ");
    return `mix(${run.words[i]})[${j}] = ${shown}${terms.length > 3 ? " + \u2026" : ""}`;
  },
  sum1: (run, info, i, j) => sumOf(run, info, i, j, "residual1", run.layers[info.layer].x, "mixed"),
  sum2(run, info, i, j) {
    const steps = run.layers[info.layer];
    return sumOf(run, info, i, j, "residual2", run.normFirst ? steps.sum1 : steps.norm1, "fed");
  },
  guess(run, info, i, j) {
    const logit = number(at(run.logits, i, j));
    const guessed = `\u201c${run.vocabulary[j]}\u201d at ${run.words[i]}`;
    return `chance of ${guessed}: e^${logit} / sum over all words`;
  },
};

function sumOf(run, info, i, j, residual, kept, made) {
  const came = number(at(run.layers[info.layer][made], i, j));
  if (run.off.includes(`layers.${info.layer}.${residual}`))
    return `the wire is cut: only what came out`;
  return `${run.words[i]}[${j}]: in + out = ${number(at(kept, i, j))} + ${came}`;
}

// Where the input of a linear map or a norm comes from.
function inputOf(run, { layer, step, norm }) {
  const steps = run.layers[layer ?? run.layers.length - 1];
  if (step === "final") return steps.output;
  if (norm) return run.normFirst ? (norm === 1 ? steps.x : steps.sum1) : steps[`sum${norm}`];
  if (step === "mixed") return steps.context;
  if (step === "fed") return steps.hidden;
  if (step === "hidden") return run.normFirst ? steps.norm2 : steps.norm1;
  return run.normFirst ? steps.norm1 : steps.x;
}

function throughLinear(run, info, i, j) {
  const x = inputOf(run, info);
  const [weight, bias] = info.parameters.map((name) => run.model.parameters[name]);
  const products = Array.from({ length: x.cols }, (_, c) => at(x, i, c) * at(weight, j, c));
  const shown = products
    .sort((a, b) => Math.abs(b) - Math.abs(a))
    .slice(0, 3)
    .map(number)
    .join(" + ");
  const terms = `${shown} + \u2026 (${x.cols} products) + ${number(bias.data[j])}`;
  const sum = terms.replaceAll("+ \u2212", "\u2212 ");
  const whole = info.step === "hidden" ? `ReLU(${sum})` : sum;
  return `${info.name.toLowerCase()}(${run.words[i]})[${j}] = ${whole}`;
}

function throughNorm(run, info, i, j) {
  const x = inputOf(run, info);
  const { mean, variance } = moments(x, i);
  const [gain, bias] = info.parameters.map((name) => run.model.parameters[name].data[j]);
  const deviation = number(Math.sqrt(variance + 1e-5));
  const scaled = `(${number(at(x, i, j))} \u2212 ${number(mean)}) / ${deviation}`;
  const after = gain === undefined ? "" : ` \u00b7 ${number(gain)} + ${number(bias)}`;
  const whole = `norm(${run.words[i]})[${j}] = (x \u2212 mean) / deviation = ${scaled}${after}`;
  return whole.replace("\u2212 \u2212", "+ ").replace("+ \u2212", "\u2212 ");
}
