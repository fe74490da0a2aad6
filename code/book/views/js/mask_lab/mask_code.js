// The masks of the lab as Python that can be run.
import { isPerKey } from "./mask_math.js";

export const WRITTEN = {
  blocked: "this book: True = blocked",
  mha: "nn.MultiheadAttention: True = ignore",
  sdpa: "scaled_dot_product_attention: True = may see",
  added: "added: 0 = may see, a very low number = not",
  ones: "tokenizers: 1 = token, 0 = padding",
};

export const HANDED = {
  attention: "attention of this book",
  mha: "nn.MultiheadAttention",
  sdpa: "F.scaled_dot_product_attention",
  filled: "masked_fill by hand",
  added: "an addition by hand",
  rule: "the 0/1 rule of BERT",
};

const FILL_CODE = { "-inf": 'float("-inf")', "-1e9": "-1e9" };
const fillCode = (fill, format) => FILL_CODE[fill] ?? `torch.finfo(torch.${format}).min`;

// True and False, or 1 and 0, as a tensor; one row where all queries see the same.
function literal(rows) {
  const word = (x) => (typeof x === "boolean" ? (x ? "True" : "False") : String(x));
  const lines = rows.map((row) => `[${row.map(word).join(", ")}]`);
  if (lines.length === 1) return `torch.tensor([${lines[0]}])`;
  return `torch.tensor([\n${lines.map((line) => `    ${line},\n`).join("")}])`;
}

// The lines that write the mask.
export function maskCode(blocked, { written, fill, format }) {
  const rows = isPerKey(blocked) ? [blocked[0]] : blocked;
  if (written === "added") {
    const zeros = `torch.zeros(${rows.length}, ${rows[0].length}, dtype=torch.${format})`;
    const filled = `mask.masked_fill(blocked, ${fillCode(fill, format)})`;
    return `blocked = ${literal(rows)}\nmask = ${zeros}\nmask = ${filled}`;
  }
  const write = { sdpa: (hides) => !hides, ones: (hides) => (hides ? 0 : 1) }[written];
  return `mask = ${literal(write ? rows.map((row) => row.map(write)) : rows)}`;
}

// The lines that hand it to a function; `mha` has one head and maps that change nothing.
export function callCode(blocked, { handed, fill, format }) {
  const scores = "scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])\n";
  const rest = "\noutput = weights @ value";
  const name = isPerKey(blocked) ? "key_padding_mask" : "attn_mask";
  return {
    attention: "output, weights = attention(query, key, value, mask)",
    mha:
      "# mha: one head, whose maps change nothing\n" +
      `output, weights = mha(query, key, value, ${name}=mask)`,
    sdpa: "output = F.scaled_dot_product_attention(query, key, value, mask)",
    filled:
      `${scores}weights = scores.masked_fill(mask, ${fillCode(fill, format)})` +
      `.softmax(-1)${rest}`,
    added: `${scores}weights = (scores + mask).softmax(-1)${rest}`,
    rule:
      `${scores}low = (1.0 - mask.to(scores.dtype)) * torch.finfo(scores.dtype).min\n` +
      `weights = (scores + low).softmax(-1)${rest}`,
  }[handed];
}
