"""Promises about training: the loop, the score, the checks and the command line."""

import io
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
import train as train_module
from book.pitfalls import PITFALLS, become
from encoder import MultiHeadAttention, TransformerEncoder
from tasks import (
    Batch,
    MaskedText,
    Tokenizer,
    match_batch,
    read_documents,
    split_sentences,
)
from torch import nn
from torch.nn import functional
from train import (
    Progress,
    Reader,
    build_encoder,
    build_parser,
    check_options,
    check_structure,
    choose_device,
    evaluate,
    fill_defaults,
    learning_rate_factor,
    main,
    train,
)

SCRIPT = Path(train_module.__file__)
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}  # small models gain from no more
TINY = [
    "--d-model",
    "22",
    "--n-heads",
    "2",
    "--d-ff",
    "13",
    "--n-layers",
    "1",
    "--batch-size",
    "7",
]


def generator(seed):
    return torch.Generator().manual_seed(seed)


def tiny_reader(seed=0, vocab_size=32, n_classes=2, dropout=0.0):
    torch.manual_seed(seed)
    encoder = TransformerEncoder(
        vocab_size, d_model=22, n_heads=2, d_ff=13, n_layers=1, dropout=dropout
    )
    return Reader(encoder, n_classes)


def options(*arguments):
    return fill_defaults(build_parser().parse_args(arguments))


def fresh_encoder(*arguments):
    return build_encoder(options(*arguments), vocab_size=32, max_length=12)


# --- Reader ---


def test_scores_come_in_reading_order():
    model, batch = tiny_reader(), match_batch(5, generator(1))
    read_at = torch.zeros(5, 12, dtype=torch.bool)
    read_at[1, 4] = read_at[1, 7] = read_at[3, 0] = True
    hidden, _ = model.encoder(batch.token_ids, batch.key_padding_mask)
    wanted = model.head(torch.stack((hidden[1, 4], hidden[1, 7], hidden[3, 0])))
    scores = model(batch.token_ids, batch.key_padding_mask, read_at)
    torch.testing.assert_close(scores, wanted)


def test_a_word_is_scored_by_its_own_embedding():
    model = tiny_reader(n_classes=None)
    assert model.head.weight is model.encoder.embedding.weight
    assert model.head.bias.shape == (32,)


def test_neither_the_amount_nor_the_content_of_padding_changes_the_loss():
    model, batch = tiny_reader().eval(), match_batch(7, generator(2))
    ids, padding, read_at, labels = batch
    longer = functional.pad(ids.masked_fill(padding, 17), (0, 3), value=11)
    masks = functional.pad(padding, (0, 3), value=True), functional.pad(read_at, (0, 3))
    other = Batch(longer, *masks, labels)
    assert evaluate(model, [other]).loss == pytest.approx(evaluate(model, [batch]).loss)


# --- train and evaluate ---


def test_the_learning_rate_climbs_then_falls_to_almost_nothing():
    factors = [learning_rate_factor(s, steps=200, warmup=50) for s in range(200)]
    assert 0 < factors[0] < 0.03
    assert factors[:50] == sorted(factors[:50])
    assert factors[50:] == sorted(factors[50:], reverse=True)
    assert max(factors) > 0.7
    assert 0 < factors[-1] < 0.01


@pytest.fixture(scope="module")
def texts():
    seen, held_out = split_sentences(read_documents()[1])
    tokenizer = Tokenizer(seen, min_count=10)
    return MaskedText(seen, tokenizer), MaskedText(held_out, tokenizer)


def test_a_short_training_lowers_the_held_out_loss(texts):
    text, held_out = texts
    model = tiny_reader(vocab_size=text.vocab_size, n_classes=None)
    batches = held_out.batches(64, generator(3))
    before = evaluate(model, batches)
    draw = generator(5)
    losses = train(model, lambda: text.draw(13, draw), 60, 1e-2, warmup=5)
    after = evaluate(model, batches)
    assert len(losses) == 60
    assert after.loss < before.loss - 0.5
    assert after.accuracy > before.accuracy


def test_a_run_is_the_same_for_a_seed_and_another_for_another_seed():
    def run(seed):
        model, draw = tiny_reader(seed, dropout=0.1), generator(seed)
        return train(model, lambda: match_batch(7, draw), 11)

    assert run(7) == run(7)
    assert run(7) != run(11)


def ask_for_the_end(step, loss):
    return step == 5


def press_ctrl_c(step, loss):
    if step == 5:
        raise KeyboardInterrupt


@pytest.mark.parametrize("stop", [ask_for_the_end, press_ctrl_c])
def test_a_training_that_ends_early_keeps_what_was_learned(stop):
    model, draw, steps = tiny_reader(), generator(7), []
    before = model.head.weight.clone()

    def watch(step, loss):
        steps.append((step, loss))
        return stop(step, loss)

    losses = train(model, lambda: match_batch(7, draw), 1000, watch=watch)
    assert steps == list(enumerate(losses, start=1))
    assert len(losses) == 5
    assert not torch.equal(before, model.head.weight)


def test_the_gradient_is_clipped():
    model, draw = tiny_reader(), generator(11)
    train(model, lambda: match_batch(7, draw), 1, clip=1e-3)
    gradients = torch.cat([p.grad.flatten() for p in model.parameters()])
    assert gradients.norm() == pytest.approx(1e-3, rel=1e-3)


def test_the_score_is_a_mean_over_answers_not_over_batches():
    model = tiny_reader()
    small, large = match_batch(3, generator(13)), match_batch(19, generator(17))
    scores = [evaluate(model, [b]) for b in (small, large)]
    both = evaluate(model, [small, large])
    assert both.n == 22
    for kind in "loss", "accuracy":
        parts = [getattr(s, kind) * s.n for s in scores]
        assert getattr(both, kind) == pytest.approx(sum(parts) / 22)


def test_an_evaluation_uses_no_dropout_and_leaves_the_model_as_it_was():
    model, batch = tiny_reader(dropout=0.5), match_batch(19, generator(19))
    model.train()
    assert evaluate(model, [batch]) == evaluate(model, [batch])
    assert model.training
    model.eval()
    evaluate(model, [batch])
    assert not model.training


def test_a_model_that_knows_scores_everything_right():
    class Oracle(nn.Module):
        def forward(self, ids, padding, read_at):
            last = (~padding).sum(1) - 1
            match = ids[:, 0] == ids[torch.arange(len(ids)), last]
            return functional.one_hot(match.long(), 2) * 100.0

    score = evaluate(Oracle(), [match_batch(23, generator(23))])
    assert score.accuracy == 1
    assert score.loss < 1e-6
    assert score.n == 23


# --- Devices ---


def test_auto_takes_the_device_that_is_set_or_the_best_there_is(monkeypatch):
    monkeypatch.setenv("DEVICE", "cpu")
    assert choose_device() == torch.device("cpu")
    monkeypatch.delenv("DEVICE")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device() == torch.device("cuda")


def test_a_device_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="sees no cuda device"):
        choose_device("cuda")
    monkeypatch.setenv("DEVICE", "toaster")
    with pytest.raises(ValueError, match="one of cpu, cuda, mps, got 'toaster'"):
        choose_device()


# --- The structure checks ---


@pytest.mark.parametrize("norm", ["--norm-first", "--no-norm-first"])
@pytest.mark.parametrize("task", ["match", "mlm"])
def test_a_sound_encoder_passes_all_checks(task, norm):
    checks = check_structure(fresh_encoder("--task", task, norm))
    assert len(checks) == 8
    assert all(c.passed for c in checks)


class NoAttention(MultiHeadAttention):
    """Tokens get nothing from one another."""

    def forward(self, x, *args, **kwargs):
        out, weights = super().forward(x, *args, **kwargs)
        return torch.zeros_like(out), weights


FAULTS = {
    "softmax over queries": (PITFALLS["softmax over queries"].apply, "every row"),
    "mask forgotten": (PITFALLS["mask in first layer only"].apply, "masked key"),
    "residual twice": (PITFALLS["residual twice"].apply, "equals torch's"),
    "no attention": (partial(become, change=NoAttention), "last token"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_encoder_fails_the_check_made_for_it(name):
    change, wanted = FAULTS[name]
    encoder = fresh_encoder()
    change(encoder)
    failed = [c.name for c in check_structure(encoder) if not c.passed]
    assert any(wanted in check for check in failed)


def test_layers_that_share_weights_fail_the_check_made_for_it():
    encoder = fresh_encoder()
    encoder.layers[1] = encoder.layers[0]
    failed = [c.name for c in check_structure(encoder) if not c.passed]
    assert failed == ["every layer has weights of its own"]


def test_checking_leaves_the_encoder_as_it_was():
    encoder = fresh_encoder().train()
    check_structure(encoder)
    assert encoder.training
    assert all(p.grad is None for p in encoder.parameters())


# --- The command line ---


def test_check_only_prints_a_figure_for_each_check(capsys):
    assert main(["--check-only", "--device", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 9
    assert all(line.startswith("ok") for line in lines[:-1])
    assert lines[-1] == "all checks pass"


def test_a_failed_check_is_told_and_counted(monkeypatch, capsys):
    def broken(*args):
        encoder = build_encoder(*args)
        become(encoder, NoAttention)
        return encoder

    monkeypatch.setattr(train_module, "build_encoder", broken)
    assert main(["--check-only", "--device", "cpu"]) == 1
    out = capsys.readouterr().out
    assert "FAIL  the last token matters" in out
    assert "checks failed" in out


def test_a_run_ends_with_its_record_and_its_score(tmp_path, capsys):
    plot, weights = tmp_path / "loss.png", tmp_path / "weights.pt"
    files = ["--plot", str(plot), "--save", str(weights)]
    given = ["--device", "cpu", "--steps", "20", "--seed", "3", "--norm-first"]
    assert main([*given, *TINY, *files]) == 0
    out, err = capsys.readouterr()
    assert not err
    *_, settings, model, versions, baseline, score = out.splitlines()
    assert "task match" in settings
    assert "seed 3" in settings
    assert "steps 20" in settings
    assert "norm_first True" in settings
    assert "device cpu" in settings
    assert "parameters" in model
    assert torch.__version__ in versions
    assert "commit" in versions
    assert baseline.startswith("position-blind baseline 0.")
    assert score.startswith("held-out accuracy 0.")
    assert out.count("\nstep") == 10  # plain lines, as this is no terminal
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "head.weight" in torch.load(weights, weights_only=True)


def test_the_real_text_is_scored_beside_its_baselines(capsys):
    assert main(["--task", "mlm", "--steps", "2", "--device", "cpu", *TINY]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("held-out loss ")
    for part in ", accuracy 0.", ", unigram baseline ", ", neighbour baseline ":
        assert part in last


def test_ctrl_c_ends_with_what_was_learned_so_far():
    def listen():  # a shell's background jobs, and all they start, ignore Ctrl-C
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    command = [sys.executable, str(SCRIPT), "--device", "cpu", "--steps", "2000", *TINY]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env=ONE_THREAD,
        preexec_fn=listen,
    ) as process:
        assert any(line.startswith("step") for line in process.stdout)
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert process.returncode == 0
    assert "stopped after" in rest
    assert rest.splitlines()[-1].startswith("held-out accuracy 0.")


def test_a_terminal_gets_one_line_that_is_written_over():
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    progress = Progress(4, out=terminal)
    for step in range(1, 5):
        progress(step, loss=0.5)
    progress.close()
    *_, last = terminal.getvalue().split("\r")
    assert terminal.getvalue().count("\n") == 1
    assert last == f"[{'#' * 30}] step 4 of 4, loss 0.500\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--steps -1", "--steps is 0 or more, got -1"),
        ("--batch-size 0", "--batch-size is at least 1, got 0"),
        ("--learning-rate 0", "--learning-rate is above 0, got 0.0"),
        ("--dropout 1", "--dropout is at least 0 and below 1, got 1.0"),
        ("--n-heads 7", "n_heads=7 must divide d_model=64"),
        ("--plot no/such/loss.png", "--plot no/such/loss.png: there is no such folder"),
        ("--task sort", "invalid choice: 'sort'"),
        ("--device toaster", "one of cpu, cuda, mps, got 'toaster'"),
    ],
)
def test_bad_arguments_are_told_in_a_sentence(arguments, sentence, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments.split())
    assert stop.value.code == 2
    assert sentence in capsys.readouterr().err


def test_a_task_brings_defaults_and_an_option_beats_them():
    given = options("--task", "mlm", "--dropout", "0.3")
    check_options(given)
    assert given.dropout == 0.3
    assert given.d_model == train_module.DEFAULTS["mlm"]["d_model"]
    assert options("--no-norm-first").norm_first is False
