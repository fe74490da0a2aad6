// What a reader may type, and the three small tasks: pure functions on the lab's state.

// Signs about a word, but no underscore, which stands for a blank.
const SIGNS = /^[^\P{P}_]+|[^\P{P}_]+$/gu;

// Returns { tokens } or { error }: a sentence that says what is wrong and what is wanted.
export function parseSentence(text, vocabulary, longest) {
  const tokens = text
    .toLowerCase()
    .split(/\s+/)
    .map((word) => word.replace(SIGNS, ""))
    .filter(Boolean)
    .map((word) => (/^_+$/.test(word) ? "___" : word));
  if (tokens.length === 0) return { error: "Type at least one word." };
  if (tokens.length > longest) {
    return {
      error: `That is ${tokens.length} words; this encoder was trained on at most ${longest}.`,
    };
  }
  const unknown = tokens.find((word) => !vocabulary.includes(word));
  if (unknown === undefined) return { tokens };
  const short = [...unknown].length > 24 ? `${[...unknown].slice(0, 24).join("")}\u2026` : unknown;
  const known = `one of the ${vocabulary.length} words this encoder knows`;
  return {
    error:
      `\u201c${short}\u201d is not ${known}. ` +
      "Click a word above to see them all; ___ is a blank.",
  };
}

const differing = (a, b) => a.filter((word, i) => word !== b[i]).length;
const isIntact = (state) => !state.norm_first && state.edits.length === 0 && state.off.length === 0;
const hidden = (state) => state.padding.filter(Boolean).length;

// The tasks are about this sentence, also with one word changed. `best` gives the chance
// of a word at its blank, `whole` what it would be with nothing cut and nothing hidden.
export const TASK_SENTENCE = "emma ate the soup because ___ was hungry";
const START = TASK_SENTENCE.split(" ");
const isAbout = (state, whole) =>
  differing(state.tokens, START) <= 1 && Math.max(whole("she"), whole("he")) > 0.75;

export const TASKS = [
  {
    text: "Change one word so that the blank becomes \u201che\u201d.",
    isDone: (state, best) =>
      isIntact(state) &&
      hidden(state) === 0 &&
      differing(state.tokens, START) === 1 &&
      best("he") > 0.5,
  },
  {
    text:
      "Hide one word (pad) so that \u201cshe\u201d and \u201che\u201d are a toss-up: " +
      "neither above 75 %.",
    isDone: (state, best, whole) =>
      isIntact(state) &&
      hidden(state) === 1 &&
      isAbout(state, whole) &&
      Math.max(best("she"), best("he")) < 0.75,
  },
  {
    text: "Cut a single residual wire so that the answer, \u201cshe\u201d or \u201che\u201d, is lost.",
    isDone: (state, best, whole) =>
      state.off.length === 1 &&
      state.off[0].includes("residual") &&
      !state.norm_first &&
      state.edits.length === 0 &&
      hidden(state) === 0 &&
      isAbout(state, whole) &&
      best(whole("she") > whole("he") ? "she" : "he") < 0.5,
  },
];

// The place whose guess is shown: the one asked for, but a blank where there is one.
export function placeToRead(tokens, asked, blank) {
  const place = Math.min(asked, tokens.length - 1);
  const first = tokens.indexOf(blank);
  return first < 0 || tokens[place] === blank ? place : first;
}

// The k most likely words of one row of chances, as [word, chance].
export function bestWords(chances, row, vocabulary, k = 5) {
  const values = chances.data.subarray(row * chances.cols, (row + 1) * chances.cols);
  const ranked = [...values.keys()].sort((a, b) => values[b] - values[a]);
  return ranked.slice(0, k).map((id) => [vocabulary[id], values[id]]);
}
