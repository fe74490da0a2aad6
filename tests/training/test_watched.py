"""Promises of the watched trainings: complete, and what a run gives again."""

import torch
from book.experiments import match_reader, toy_training
from matplotlib import pyplot

TOY, MATCH = toy_training.load(), match_reader.load()


def test_every_seed_was_recorded_to_its_end():
    assert tuple(TOY) == toy_training.SEEDS
    for losses, shares in TOY.values():
        assert len(losses) == toy_training.STEPS // toy_training.MEAN
        assert tuple(shares) == toy_training.ASKED
    assert tuple(MATCH) == match_reader.SEEDS
    for told in MATCH.values():
        lengths = {len(told[name]) for name in ("losses", "copy", "end")}
        assert lengths == {match_reader.STEPS // match_reader.EVERY}
        assert len(told["heads"]) == 4


def test_the_toy_run_again_begins_as_recorded():
    told = toy_training.run(0, until=250)
    losses, shares = TOY[0]
    torch.testing.assert_close(told["losses"][:2], losses[:2], rtol=0.02, atol=0.02)
    assert (
        max(abs(a - b) for a, b in zip(told["shares"][250], shares[250], strict=True))
        < 0.1
    )


def test_the_match_run_again_begins_as_recorded():
    told = match_reader.run(7, until=80)
    for name in ("losses", "copy", "end"):
        torch.testing.assert_close(told[name], MATCH[7][name][:4], rtol=0, atol=0.02)


def test_heads_are_named_and_told_by_the_mean_of_both_kinds_of_row():
    heads = [
        {"layer": 0, "head": 0, "copy": 0.1, "right": [1.0, 0.75]},
        {"layer": 0, "head": 1, "copy": 0.6, "right": [0.75, 0.25]},
        {"layer": 1, "head": 0, "copy": 0.2, "right": [1.0, 0.5]},
    ]
    wanted = {
        "the finder": 0.5,
        "layer 0, the other": 0.875,
        "layer 1, head 0": 0.75,
    }
    assert list(match_reader.compare_heads(heads).items()) == list(wanted.items())


def test_a_drawing_shows_every_curve_of_a_record():
    pyplot.switch_backend("agg")
    match_reader.draw(MATCH)
    toy_training.draw(TOY)
    numbers = pyplot.get_fignums()[-2:]
    watched, toy = ([axes.lines for axes in pyplot.figure(n).axes] for n in numbers)
    assert [len(lines) for lines in watched] == [4] * len(MATCH)
    assert [len(lines) for lines in toy] == [len(TOY), 2 * len(TOY)]
    for lines, told in zip(watched, MATCH.values(), strict=True):
        assert list(lines[1].get_ydata()) == told["copy"]
    pyplot.close("all")


def test_one_head_is_needed_more_than_any_other():
    """What chapter 8 says of its table, for each seed."""
    for told in MATCH.values():
        finder, *others = match_reader.compare_heads(told["heads"]).values()
        assert finder < 0.56
        assert min(others) > 0.75
