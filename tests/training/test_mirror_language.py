"""The second language, and its three translators: what is right, what each is fed."""

import pytest
import torch
from book.models import mirror_language as mirror
from book.models.toy_language import sentences, split_sentences
from decoder import beam_search

LONG = "the old king ate his soup because he was hungry"


def test_a_sentence_has_the_translations_that_the_rules_give():
    main = "eht gnik dlo sih puos eta"
    reason = "esuaceb eh yrgnuh saw"
    said = [" ".join(each.words) for each in mirror.translations(LONG)]
    assert said == [f"{main} {reason}", f"{reason} {main}"]
    (only,) = mirror.translations("emma lost the key")
    assert (" ".join(only.words), only.places) == ("amme eht yek tsol", (0, 2, 3, 1))


def test_every_word_stands_for_one_of_the_source_and_is_it_backwards():
    for sentence in sentences():
        words = sentence.split()
        for each in mirror.translations(sentence):
            assert sorted(each.places) == list(range(len(words)))
            assert [words[place][::-1] for place in each.places] == list(each.words)


def test_words_of_both_languages_are_told_apart():
    assert len(set(mirror.WORDS)) == len(mirror.WORDS)
    assert set(mirror.SOURCE_WORDS) & set(mirror.MIRRORED) == {"anna"}
    assert mirror.WORDS[: mirror.BLANK + 1] == ["·", "go", "end", "___"]


def test_a_row_is_a_source_and_what_is_fed_and_asks_for_the_next_word():
    target = mirror.translations("emma lost the key")[0].words
    ids, padding, read_at, labels = mirror.make_batch(["emma lost the key"], [target])
    words = [mirror.WORDS[i] for i in ids[0]]
    assert words[:10] == ["emma", "lost", "the", "key", *"······"]
    assert words[10:16] == ["go", "amme", "eht", "yek", "tsol", "end"]
    assert read_at[0].nonzero().flatten().tolist() == [10, 11, 12, 13, 14]
    assert [mirror.WORDS[i] for i in labels] == [*target, "end"]
    assert torch.equal(padding[0, :10], ids[0, :10] == mirror.PAD)
    assert torch.equal(padding[0, 10:], ~read_at[0, 10:])


def test_a_batch_holds_both_orders_and_nothing_that_is_held_out():
    generator = torch.Generator().manual_seed(0)
    batch = mirror.draw_batch([LONG], generator, n_rows=40)
    firsts = {mirror.WORDS[i] for i in batch.token_ids[:, 11]}
    assert firsts == {"eht", "esuaceb"}
    again = mirror.draw_batch([LONG], torch.Generator().manual_seed(0), n_rows=40)
    assert torch.equal(batch.token_ids, again.token_ids)


@pytest.mark.parametrize("wiring", mirror.WIRINGS)
def test_nobody_is_told_a_word_before_it_is_asked_for(wiring):
    torch.manual_seed(0)
    model = mirror.build(wiring).eval()
    batch = mirror.make_batch([LONG], [mirror.translations(LONG)[0].words])
    other = batch.token_ids.clone()
    other[0, 15:] = mirror.IDS["soup"]  # fed from the fifth place on
    moved = model(*batch[:3]) - model(other, *batch[1:3])
    assert (moved[:5].abs() < 1e-5).all()
    assert (moved[5:].abs().max() > 1e-3) == (wiring != "encoder")


def test_without_a_mask_it_is_told():
    torch.manual_seed(0)
    model = mirror.ReadsAndWrites(causal=False).eval()
    batch = mirror.make_batch([LONG], [mirror.translations(LONG)[0].words])
    other = batch.token_ids.clone()
    other[0, 15] = mirror.IDS["soup"]
    assert (model(*batch[:3]) - model(other, *batch[1:3]))[0].abs().max() > 1e-4


def test_whether_padding_is_blocked_is_told_by_the_mask_or_by_its_id():
    sentence = "emma lost the key"
    batch = mirror.make_batch([sentence], [mirror.translations(sentence)[0].words])
    other = batch.token_ids.clone()
    other[:, 4:10] = mirror.IDS["soup"]
    for wiring in mirror.WIRINGS:
        torch.manual_seed(0)
        model = mirror.build(wiring).eval()
        moved = (model(*batch[:3]) - model(other, *batch[1:3])).abs().max()
        assert (moved > 1e-3) == (wiring == "encoder")


def test_an_unknown_wiring_is_refused():
    with pytest.raises(ValueError, match="encoder, decoder, both, got 'neither'"):
        mirror.build("neither")


# --- The stored translator ------------------------------------------------------------


def test_the_stored_translator_translates_what_it_has_not_seen():
    model, unseen = mirror.load(), split_sentences()[1]
    assert min(mirror.share_right(model, unseen).values()) > 0.97
    assert 0.55 < mirror.share_aligned(model, unseen[::4]) < 0.9


def test_it_knows_of_both_orders():
    model, source = mirror.load(), mirror.encode_sources([LONG])
    start = torch.tensor([[mirror.GO]])
    beams = beam_search(model.step(source), start, 11, mirror.END, width=2)
    said = {mirror.in_words(ids[1:]) for ids in beams.token_ids[0].tolist()}
    assert said == {each.words for each in mirror.translations(LONG)}
    assert (beams.scores.exp() > 0.2).all()


def test_a_map_has_a_row_a_step_and_a_column_a_word():
    weights = mirror.source_map(mirror.load(), LONG, mirror.translations(LONG)[1].words)
    assert weights.shape == (10, 10)
    assert torch.allclose(weights.sum(dim=-1), torch.ones(10), atol=1e-5)


def test_what_is_stored_is_what_is_loaded(tmp_path):
    torch.manual_seed(0)
    model = mirror.ReadsAndWrites().eval()
    mirror.store(model, tmp_path / "weights.json")
    again = mirror.load(tmp_path / "weights.json")
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert (one - other).abs().max() <= 0.0005 + 1e-7
