"""Train the encoder on a task, and say how well it does on data it has not seen.

    python code/train.py --check-only      is the structure right? trains nothing
    python code/train.py                   do the first and the last token match?
    python code/train.py --task mlm        find the hidden words of a real text

`Reader` puts an output layer on the encoder, `train` is the loop, `evaluate` the score;
the chapters import these three. Shapes: B rows, T tokens, D = d_model, V vocabulary,
L layers, H heads, N = the number of places that are read.
"""

import argparse
import os
import platform
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from types import EllipsisType
from typing import NamedTuple, TextIO

import torch
from encoder import EncoderLayer, TransformerEncoder
from tasks import (
    LONGEST,
    MATCH_CLASSES,
    MATCH_LENGTHS,
    MATCH_VOCAB,
    Batch,
    FirstTokenBaseline,
    MaskedText,
    NeighbourBaseline,
    Tokenizer,
    UnigramBaseline,
    match_batch,
    read_documents,
    split_sentences,
)
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

TRAINING_RATE = 0.3  # of words hidden: a small text gives away twice what BERT's did
HELD_OUT_SEED = 20_170_612  # one held-out set for all runs, whatever their seed


class Reader(nn.Module):
    """An encoder with an output layer, read at chosen places.

    With `n_classes`, a linear map to that many classes. Without, a score for each word
    of the vocabulary: the output against the word's embedding, plus a bias of its own,
    so that input and output share one matrix (Press and Wolf, 2017).
    """

    def __init__(self, encoder: TransformerEncoder, n_classes: int | None = None):
        super().__init__()
        vocab_size, d_model = encoder.embedding.weight.shape
        self.encoder = encoder
        self.head = nn.Linear(d_model, n_classes or vocab_size)
        if n_classes is None:
            self.head.weight = encoder.embedding.weight
        nn.init.zeros_(self.head.bias)

    def forward(
        self, token_ids: Tensor, key_padding_mask: Tensor, read_at: Tensor
    ) -> Tensor:
        """Map ids (B, T), and where to read (B, T) bool, to scores (N, classes)."""
        hidden, _ = self.encoder(token_ids, key_padding_mask)
        return self.head(hidden[read_at])


class Score(NamedTuple):
    """Mean loss in nats, share of right answers, and the number of answers."""

    loss: float
    accuracy: float
    n: int


def train(
    model: nn.Module,
    draw: Callable[[], Batch],
    steps: int,
    learning_rate: float = 3e-3,
    warmup: int = 50,
    clip: float = 1.0,
    watch: Callable[[int, float], bool | None] | None = None,
) -> list[float]:
    """Train with AdamW on the batches that `draw()` returns; return each step's loss.

    The learning rate climbs for `warmup` steps and then falls to zero in a line; the
    gradient's norm is cut to `clip`. `watch(step, loss)` is called after each step, and
    ends the training by returning True. Ctrl-C ends it too: the model keeps what it has
    learned, and the losses so far are returned.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, fused=True)
    rate = partial(learning_rate_factor, steps=steps, warmup=warmup)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    losses = []
    model.train()
    try:
        for step in range(1, steps + 1):
            losses.append(train_step(model, draw(), optimizer, clip))
            schedule.step()
            if watch and watch(step, losses[-1]):
                break
    except KeyboardInterrupt:
        pass
    return losses


def train_step(
    model: nn.Module, batch: Batch, optimizer: torch.optim.Optimizer, clip: float
) -> float:
    """Change the weights once, against the gradient; return the loss before it."""
    batch = batch.to(device_of(model))
    loss = cross_entropy(model(*batch[:3]), batch.labels)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    return loss.item()


def learning_rate_factor(step: int, steps: int, warmup: int) -> float:
    """Return the share of the full learning rate that step 0, 1, ... gets."""
    return min(1.0, (step + 1) / max(1, warmup)) * (1 - step / max(1, steps))


@torch.no_grad()
def evaluate(model: nn.Module, batches: Iterable[Batch]) -> Score:
    """Score a model, or a baseline that is called like one, without dropout."""
    was_training = model.training
    model.eval()
    loss = hits = n = 0
    for batch in batches:
        batch = batch.to(device_of(model))
        scores = model(*batch[:3])
        loss += cross_entropy(scores, batch.labels, reduction="sum").item()
        hits += (scores.argmax(dim=1) == batch.labels).sum().item()
        n += len(batch.labels)
    model.train(was_training)
    return Score(loss / max(1, n), hits / max(1, n), n)


def device_of(model: nn.Module) -> torch.device:
    return next((p.device for p in model.parameters()), torch.device("cpu"))


def choose_device(name: str = "auto") -> torch.device:
    """Return the device called `name`; "auto" is $DEVICE, else the best there is."""
    available = {"cpu": True, "cuda": torch.cuda.is_available()}
    available["mps"] = torch.backends.mps.is_available()
    if name == "auto":
        best = next(d for d in ("cuda", "mps", "cpu") if available[d])
        name = os.environ.get("DEVICE") or best
    kind = name.partition(":")[0]
    if kind not in available:
        raise ValueError(f"the device is one of {', '.join(available)}, got {name!r}")
    if not available[kind]:
        raise ValueError(f"this torch sees no {kind} device; --device cpu always works")
    return torch.device(name)


# --- The tasks, ready to run ---------------------------------------------------------

DEFAULTS = {
    "match": {
        "d_model": 64,
        "n_heads": 2,
        "d_ff": 128,
        "n_layers": 2,
        "norm_first": False,
        "dropout": 0.0,
        "steps": 600,
        "batch_size": 64,
        "learning_rate": 3e-3,
    },
    "mlm": {
        "d_model": 128,
        "n_heads": 4,
        "d_ff": 256,
        "n_layers": 1,
        "norm_first": True,
        "dropout": 0.0,
        "steps": 2500,
        "batch_size": 32,
        "learning_rate": 6e-3,
    },
}


class Task(NamedTuple):
    """A model, its training batches, its held-out batches, and what it must beat."""

    model: Reader
    draw: Callable[[], Batch]
    held_out: list[Batch]
    baselines: dict[str, nn.Module]
    about: str


def build_match(options: Namespace) -> Task:
    encoder = build_encoder(options, MATCH_VOCAB, MATCH_LENGTHS[1])
    generator = torch.Generator().manual_seed(options.seed)
    unseen = torch.Generator().manual_seed(HELD_OUT_SEED)
    baseline = FirstTokenBaseline(match_batch(5000, generator))
    return Task(
        Reader(encoder, MATCH_CLASSES),
        partial(match_batch, options.batch_size, generator),
        [match_batch(2000, unseen, held_out=True)],
        {"position-blind": baseline},
        f"sequences of {MATCH_LENGTHS[0]} to {MATCH_LENGTHS[1]} symbols",
    )


def build_mlm(options: Namespace) -> Task:
    name, documents = read_documents()
    seen, unseen = split_sentences(documents)
    tokenizer = Tokenizer(seen)
    text, held_out = MaskedText(seen, tokenizer), MaskedText(unseen, tokenizer)
    generator = torch.Generator().manual_seed(options.seed)
    fixed = torch.Generator().manual_seed(HELD_OUT_SEED)
    return Task(
        Reader(build_encoder(options, len(tokenizer), LONGEST)),
        partial(text.draw, options.batch_size, generator, TRAINING_RATE),
        held_out.batches(64, fixed),
        {"unigram": UnigramBaseline(text), "neighbour": NeighbourBaseline(text)},
        f"{name}: {len(seen)} sentences, {len(unseen)} held out, {len(tokenizer)} ids",
    )


def build_encoder(
    options: Namespace, vocab_size: int, max_length: int
) -> TransformerEncoder:
    names = "d_model", "n_heads", "d_ff", "n_layers", "dropout", "norm_first"
    sizes = {name: getattr(options, name) for name in names}
    return TransformerEncoder(vocab_size, **sizes, max_length=max_length)


BUILDERS = {"match": build_match, "mlm": build_mlm}


# --- The structure, before any training ----------------------------------------------


class Check(NamedTuple):
    name: str
    figure: str
    passed: bool


def check_structure(encoder: TransformerEncoder) -> list[Check]:
    """Check an encoder as it is, without dropout; a vocabulary of 32 ids is enough.

    Shapes and sums are necessary and weak; the last four checks are the strong ones.
    """
    encoder = deepcopy(encoder).eval()
    ids = torch.tensor([[5, 3, 7, 2, 11], [13, 2, 17, 0, 0]], device=device_of(encoder))
    with torch.no_grad():
        hidden, maps = encoder(ids, ids == 0, need_weights=True)
        return [
            check_shapes(encoder, hidden, maps),
            check_row_sums(maps),
            check_masked_keys(maps, ids == 0),
            check_layers_differ(encoder),
            check_parity(encoder.layers[0], hidden),
            check_padding_is_ignored(encoder, ids, hidden),
            check_far_token(encoder, ids, hidden),
            check_gradients(encoder, ids),
        ]


def check_shapes(
    encoder: TransformerEncoder, hidden: Tensor, maps: list[Tensor]
) -> Check:
    n_heads, d_model = encoder.layers[0].attention.n_heads, hidden.shape[-1]
    shapes = [tuple(hidden.shape), *(tuple(m.shape) for m in maps)]
    wanted = [(2, 5, d_model)] + [(2, n_heads, 5, 5)] * len(encoder.layers)
    figure = f"{shapes[0]}, {len(maps)} maps {shapes[-1]}"
    return Check(
        "the output is (B, T, D), each map (B, H, T, T)", figure, shapes == wanted
    )


def check_row_sums(maps: list[Tensor]) -> Check:
    error = max((m.sum(dim=-1) - 1).abs().max().item() for m in maps)
    return Check(
        "every row of every map sums to 1", f"off by {error:.0e}", error < 1e-5
    )


def check_masked_keys(maps: list[Tensor], padding: Tensor) -> Check:
    hidden = padding[:, None, None]  # (B, 1, 1, T)
    largest = max(m[hidden.expand_as(m)].max().item() for m in maps)
    return Check("a masked key gets the weight 0", f"largest {largest}", largest == 0)


def check_layers_differ(encoder: TransformerEncoder) -> Check:
    weights = [layer.feed_forward.up.weight.flatten() for layer in encoder.layers]
    n = len({tuple(w[:8].tolist()) for w in weights})
    return Check(
        "every layer has weights of its own",
        f"{n} of {len(weights)}",
        n == len(weights),
    )


def check_parity(layer: EncoderLayer, x: Tensor) -> Check:
    torchs = nn.TransformerEncoderLayer(
        d_model=x.shape[-1],
        nhead=layer.attention.n_heads,
        dim_feedforward=layer.feed_forward.up.out_features,
        activation=layer.feed_forward.activation,
        norm_first=layer.norm_first,
        batch_first=True,
    )
    torchs = torchs.to(x).eval()
    padding = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
    padding[1, 3:] = True
    ours, _ = type(layer).from_torch(torchs)(x, padding)
    error = furthest(ours - torchs(x, src_key_padding_mask=padding), where=~padding)
    name, figure = "one layer equals torch's, weights copied", f"off by {error:.0e}"
    return Check(name, figure, error < 1e-5)


def check_padding_is_ignored(
    encoder: TransformerEncoder, ids: Tensor, hidden: Tensor
) -> Check:
    longer = nn.functional.pad(ids, (0, 3), value=0)
    other = longer.masked_fill(longer == 0, 19)  # other content, and more of it
    moved = furthest(encoder(other, longer == 0)[0][:, :5] - hidden, where=ids != 0)
    return Check(
        "padding cannot matter", f"moves the rest by {moved:.0e}", moved < 1e-5
    )


def check_far_token(encoder: TransformerEncoder, ids: Tensor, hidden: Tensor) -> Check:
    changed = ids.clone()
    changed[0, -1] = 23
    moved = furthest(encoder(changed, ids == 0)[0][0, 0] - hidden[0, 0])
    return Check(
        "the last token matters to the first", f"moves it by {moved:.0e}", moved > 1e-4
    )


def check_gradients(encoder: TransformerEncoder, ids: Tensor) -> Check:
    with torch.enable_grad():
        hidden, _ = encoder(ids, ids == 0)
        hidden.pow(3).mean().backward()  # the sum or square of a LayerNorm is constant
    # A key's bias adds the same to all scores of a query: softmax does not see it.
    named = [(n, p) for n, p in encoder.named_parameters() if "key.bias" not in n]
    missed = [n for n, p in named if p.grad is None or not p.grad.any()]
    figure = (
        f"{len(named) - len(missed)} of {len(named)} tensors (a key's bias has none)"
    )
    return Check("gradients reach every parameter", figure, not missed)


def furthest(difference: Tensor, where: Tensor | EllipsisType = ...) -> float:
    return difference[where].abs().max().item()


# --- The command line ----------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    parser = build_parser()
    options = fill_defaults(parser.parse_args(arguments))
    try:
        check_options(options)
        device = choose_device(options.device)
        if options.check_only:
            encoder = build_encoder(options, MATCH_VOCAB, LONGEST).to(device)
            return report_checks(check_structure(encoder))
        return train_and_score(options, device)
    except ValueError as error:
        parser.error(str(error))


def train_and_score(options: Namespace, device: torch.device) -> int:
    """Train, score, and print the record; the last line is the held-out score."""
    torch.manual_seed(options.seed)
    task = BUILDERS[options.task](options)
    task.model.to(device)
    print(f"{task.about}; training on {device}")
    settings = options.steps, options.learning_rate
    progress = Progress(options.steps)
    losses = train(task.model, task.draw, *settings, watch=progress)
    progress.close()
    if len(losses) < options.steps:
        print(f"stopped after {len(losses)} of {options.steps} steps")
    if options.plot:
        plot_losses(losses, options.plot)
    if options.save:
        torch.save(task.model.state_dict(), options.save)
    print_record(options, task.model, device, len(losses))
    print_scores(options.task, task)
    return 0


def print_scores(name: str, task: Task) -> None:
    score = evaluate(task.model, task.held_out)
    others = {kind: evaluate(b, task.held_out) for kind, b in task.baselines.items()}
    if name == "match":
        print(f"position-blind baseline {others['position-blind'].accuracy:.2f}")
        print(f"held-out accuracy {score.accuracy:.2f}")
    else:
        parts = [f"held-out loss {score.loss:.2f}, accuracy {score.accuracy:.2f}"]
        for kind, other in others.items():
            parts.append(f"{kind} baseline {other.loss:.2f}, {other.accuracy:.2f}")
        print(", ".join(parts))


def print_record(
    options: Namespace, model: nn.Module, device: torch.device, n_steps: int
) -> None:
    """Print what another person needs to repeat the run."""
    given = {k: v for k, v in vars(options).items() if k not in ("plot", "save")}
    given |= {"device": device, "steps": n_steps, "check_only": None}
    settings = ", ".join(f"{k} {v}" for k, v in given.items() if v is not None)
    parameters = sum(p.numel() for p in model.parameters())
    print(f"settings: {settings}")
    print(f"model: {parameters} parameters, float32; AdamW, warm-up 50, clip 1.0")
    versions = f"Python {platform.python_version()}, torch {torch.__version__}"
    print(f"versions: {versions}, {torch.get_num_threads()} threads, commit {commit()}")


def commit() -> str:
    """Return the commit of this file's checkout, or say that there is none."""
    command = "git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"
    here = Path(__file__).resolve().parent
    try:
        done = subprocess.run(command, cwd=here, capture_output=True, text=True)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


class Progress:
    """Show how far training is: a bar on a terminal, ten plain lines elsewhere."""

    def __init__(self, n_steps: int, out: TextIO | None = None):
        self.n_steps, self.out = n_steps, out or sys.stdout
        self.is_terminal = self.out.isatty()
        self.every = max(1, n_steps // (100 if self.is_terminal else 10))

    def __call__(self, step: int, loss: float) -> None:
        if step % self.every and step != self.n_steps:
            return
        text = (
            f"step {step:>{len(str(self.n_steps))}} of {self.n_steps}, loss {loss:.3f}"
        )
        if self.is_terminal:
            done = 30 * step // self.n_steps
            text = f"\r[{'#' * done}{'.' * (30 - done)}] {text}"
        print(text, end="" if self.is_terminal else "\n", file=self.out, flush=True)

    def close(self) -> None:
        if self.is_terminal:
            print(file=self.out)


def plot_losses(losses: Sequence[float], path: str) -> None:
    from matplotlib.figure import Figure  # only a plot needs it

    axes = Figure(figsize=(6, 3.5), layout="constrained").subplots()
    axes.plot(range(1, len(losses) + 1), losses, linewidth=0.8)
    axes.set(xlabel="step", ylabel="training loss (nats)", ylim=(0, None))
    axes.figure.savefig(path)
    print(f"the losses are drawn in {path}")


def report_checks(checks: Sequence[Check]) -> int:
    for check in checks:
        verdict = "ok  " if check.passed else "FAIL"
        print(f"{verdict}  {check.name:<46}  {check.figure}")
    n_failed = sum(not check.passed for check in checks)
    print(
        f"{n_failed} of {len(checks)} checks failed" if n_failed else "all checks pass"
    )
    return 1 if n_failed else 0


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="train.py", description="Train the book's encoder and score it."
    )
    add = parser.add_argument
    add("--check-only", action="store_true", help="check the structure, train nothing")
    add("--task", choices=BUILDERS, default="match", help="match (default) or mlm")
    add("--steps", type=int, help="training steps")
    add("--seed", type=int, default=7)
    add("--device", default="auto", help="auto (default), cpu, cuda or mps")
    add("--batch-size", type=int)
    add("--learning-rate", type=float)
    add("--d-model", type=int)
    add("--n-heads", type=int)
    add("--d-ff", type=int)
    add("--n-layers", type=int)
    add("--dropout", type=float)
    norm = argparse.BooleanOptionalAction
    add("--norm-first", action=norm, help="Pre-LN, or with --no-norm-first Post-LN")
    add("--plot", metavar="FILE", help="draw the training loss, such as loss.png")
    add("--save", metavar="FILE", help="keep the weights, such as weights.pt")
    return parser


def fill_defaults(options: Namespace) -> Namespace:
    """Give every option that was not set the default of its task."""
    for name, value in DEFAULTS[options.task].items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


def check_options(options: Namespace) -> None:
    """Raise ValueError, with a sentence, for an option that cannot be."""
    for name in "batch_size", "d_model", "n_heads", "d_ff", "n_layers":
        if getattr(options, name) < 1:
            raise ValueError(
                f"{flag(name)} is at least 1, got {getattr(options, name)}"
            )
    if options.steps < 0:
        raise ValueError(f"--steps is 0 or more, got {options.steps}")
    if not options.learning_rate > 0:
        raise ValueError(f"--learning-rate is above 0, got {options.learning_rate}")
    if not 0 <= options.dropout < 1:
        raise ValueError(f"--dropout is at least 0 and below 1, got {options.dropout}")
    for name in "plot", "save":
        path = getattr(options, name)
        if path and not Path(path).resolve().parent.is_dir():
            raise ValueError(f"{flag(name)} {path}: there is no such folder")


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # before or after the training, which handles its own
        sys.exit("stopped")
