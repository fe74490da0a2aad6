// Runs the lab's modules under node: cases as JSON on stdin, results as JSON on stdout.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, command] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(`${folder}/${name}`));
const math = await load("encoder_math.js");
const stages = await load("lab_stages.js");
const words = await load("lab_words.js");

const plain = (value) => {
  if (value?.data)
    return Array.from({ length: value.rows }, (_, i) =>
      Array.from({ length: value.cols }, (_, j) => math.at(value, i, j)),
    );
  if (Array.isArray(value)) return value.map(plain);
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, plain(each)]));
};
const options = (job) => ({ normFirst: job.norm_first, off: job.off });

function runOf(job) {
  const model = math.withEdits(math.readModel(job.model), job.edits ?? []);
  const steps = math.forward(model, job.ids, job.padding, options(job));
  const vocabulary = job.model.kinds ? Object.values(job.model.kinds).flat() : [];
  return {
    ...steps,
    ...math.guess(model, steps.output),
    model,
    ids: job.ids,
    padding: job.padding,
    vocabulary,
    words: job.ids.map((id) => vocabulary[id]),
    ...options(job),
  };
}

const commands = {
  forward: (job) =>
    plain(math.forward(math.readModel(job.model), job.ids, job.padding, options(job))),
  influence: (job) =>
    plain(math.influence(math.readModel(job.model), job.ids, job.padding, options(job))),
  parse: ([text, vocabulary, longest]) => words.parseSentence(text, vocabulary, longest),
  tasks(job) {
    const run = runOf(job);
    const blank = job.tokens.indexOf("___");
    const best = (word) => math.at(run.chances, blank, run.vocabulary.indexOf(word));
    const intact = runOf({ ...job, padding: job.ids.map(() => false), off: [], norm_first: false });
    const whole = (word) => math.at(intact.chances, blank, run.vocabulary.indexOf(word));
    return words.TASKS.map((task) => task.isDone(job, best, whole));
  },
  sentence: () => words.TASK_SENTENCE,
  explain(job) {
    const run = runOf(job);
    return job.stages.map((id) => {
      const maps = stages.mapsOf(run, id);
      return plain(maps).map((map, head) =>
        map.map((row, i) => row.map((value, j) => [value, stages.explain(run, id, head, i, j)])),
      );
    });
  },
};
const jobs = JSON.parse(readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(jobs.map(commands[command])));
