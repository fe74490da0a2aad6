"""What is refused: the error names what was given, and what is wanted."""

import decoder
import pytest
import torch
from small import MODEL, B, D, H, T, V, build, random_ids

S = 5


def build_decoder(**options):
    return build(decoder.TransformerDecoder, **MODEL, **options)


def build_attention():
    return build(decoder.CrossAttention, d_model=D, n_heads=H)


def cache_of(model, tokens=3):
    return model(random_ids(tokens=tokens), torch.randn(B, S, D))[2]


@pytest.mark.parametrize("shape", [(S, D), (B, S, D + 1), (1, B, S, D)])
def test_a_memory_of_another_shape(shape):
    with pytest.raises(ValueError, match=rf"memory must be \(B, S, {D}\), got \("):
        build_decoder()(random_ids(), torch.randn(shape))


def test_a_memory_of_ids():
    ids = torch.ones(B, S, D, dtype=torch.int64)
    with pytest.raises(TypeError, match="memory must hold floating.*got torch.int64"):
        build_decoder()(random_ids(), ids)


def test_a_memory_of_another_batch():
    with pytest.raises(ValueError, match=f"memory must have {B} rows.*got {B + 1}"):
        build_decoder()(random_ids(), torch.randn(B + 1, S, D))


def test_no_memory_where_one_is_wanted():
    with pytest.raises(ValueError, match=r"wants a memory \(B, S, D\), got None"):
        build_decoder()(random_ids())


def test_a_memory_where_none_is_wanted():
    model = build_decoder(cross_attention=False)
    with pytest.raises(ValueError, match=r"no memory is wanted, got \(5, 5, 14\)"):
        model(random_ids(), torch.randn(B, S, D))


@pytest.mark.parametrize("name", ["key_padding_mask", "memory_padding_mask"])
def test_padding_of_another_shape_or_dtype(name):
    model, memory = build_decoder(), torch.randn(B, S, D)
    n_keys = T if name == "key_padding_mask" else S
    wrong = torch.zeros(B, n_keys + 1, dtype=torch.bool)
    wanted = rf"a place for each key, \({B}, {n_keys}\), got \({B}, {n_keys + 1}\)"
    with pytest.raises(ValueError, match=wanted):
        model(random_ids(), memory, **{name: wrong})
    with pytest.raises(TypeError, match="True = padding, got torch.float32"):
        model(random_ids(), memory, **{name: torch.zeros(B, n_keys)})


@pytest.mark.parametrize("causal", [True, False])
def test_blocked_of_another_shape_or_dtype(causal):
    model, memory = build_decoder(causal=causal), torch.randn(B, S, D)
    for name, n_keys in (("blocked", T), ("memory_blocked", S)):
        wrong = torch.zeros(T, n_keys + 1, dtype=torch.bool)
        wanted = rf"blocked must broadcast to \({B}, {H}, {T}, {n_keys}\)"
        with pytest.raises(ValueError, match=wanted):
            model(random_ids(), memory, **{name: wrong})
        with pytest.raises(TypeError, match="blocked must be bool.*got torch.float32"):
            model(random_ids(), memory, **{name: torch.zeros(T, n_keys)})


def test_a_query_of_another_shape_or_dtype():
    part = build_attention()
    pair = part.project(torch.randn(B, S, D))
    with pytest.raises(ValueError, match=rf"x must be \(B, T, {D}\), got"):
        part(torch.randn(B, T, D + 1), pair)
    with pytest.raises(TypeError, match="x must hold floating-point"):
        part(torch.ones(B, T, D, dtype=torch.int64), pair)


def test_too_long_a_text_and_ids_out_of_range():
    model, memory = build_decoder(), torch.randn(B, S, D)
    with pytest.raises(ValueError, match="at most max_length = 19, got"):
        model(random_ids(tokens=20), memory)
    with pytest.raises(ValueError, match=rf"ids must lie in 0..{V - 1}"):
        model(random_ids() + V, memory)


def test_a_cache_that_does_not_fit():
    model = build_decoder()
    cache = cache_of(model)
    with pytest.raises(
        ValueError, match=r"\(5, more than 3\), the whole.*got \(5, 3\)"
    ):
        model(random_ids(tokens=3), cache=cache)
    with pytest.raises(
        ValueError, match=r"\(5, more than 3\), the whole.*got \(4, 7\)"
    ):
        model(random_ids(4, 7), cache=cache)
    with pytest.raises(ValueError, match="must have 3 layers, got 2"):
        model(random_ids(), cache=cache[:2])


def test_a_cache_without_causality():
    model = build_decoder(causal=False)
    with pytest.raises(
        ValueError, match="cache wants causal=True: .* changes the keys"
    ):
        model(random_ids(), cache=cache_of(model))


def test_no_layers_and_heads_that_do_not_divide():
    with pytest.raises(ValueError, match="n_layers must be at least 1, got 0"):
        decoder.TransformerDecoder(**MODEL | {"n_layers": 0})
    with pytest.raises(ValueError, match="n_heads=5 must divide d_model=14"):
        decoder.TransformerDecoder(**MODEL | {"n_heads": 5})


@pytest.mark.parametrize("ids", [torch.tensor([1, 2]), torch.ones(2, 0).long()])
def test_beginnings_of_another_shape(ids):
    step = decoder.next_word(build_decoder(cross_attention=False))
    wanted = r"token_ids must be \(B, T\), T at least 1, got \("
    for call in (
        lambda: decoder.shift_right(ids, 0),
        lambda: decoder.generate(step, ids, 3, 0),
        lambda: decoder.beam_search(step, ids, 3, 0),
    ):
        with pytest.raises(ValueError, match=wanted):
            call()


def test_beginnings_that_are_no_ids():
    with pytest.raises(TypeError, match="must be int64 or int32, got torch.float32"):
        decoder.shift_right(torch.ones(2, 3), 0)


def test_numbers_below_one():
    step, ids = decoder.next_word(build_decoder(cross_attention=False)), random_ids()
    with pytest.raises(ValueError, match="n_words must be at least 1, got 0"):
        decoder.generate(step, ids, 0, 0)
    with pytest.raises(ValueError, match="n_words must be at least 1, got -1"):
        decoder.beam_search(step, ids, -1, 0)
    with pytest.raises(ValueError, match="width must be at least 1, got 0"):
        decoder.beam_search(step, ids, 3, 0, width=0)
    with pytest.raises(ValueError, match="top_k must be at least 1, got 0"):
        decoder.draw_word(torch.zeros(2, 3), top_k=0)


@pytest.mark.parametrize("end", [-1, V])
def test_an_end_that_is_no_word(end):
    step, ids = decoder.next_word(build_decoder(cross_attention=False)), random_ids()
    for call in (decoder.generate, decoder.beam_search):
        with pytest.raises(ValueError, match=f"None or a word, 0..16, got {end}"):
            call(step, ids, 3, end)


@pytest.mark.parametrize("temperature", [0, -1.0, float("nan")])
def test_a_temperature_that_is_none(temperature):
    with pytest.raises(ValueError, match=f"must be above 0, got {temperature}"):
        decoder.draw_word(torch.zeros(2, 3), temperature)


def test_scores_and_ids_of_different_shapes():
    with pytest.raises(ValueError, match=r"wanted scores \(B, T, V\) and ids \(B, T\)"):
        decoder.next_word_loss(torch.zeros(2, 3, 4), torch.zeros(2, 4).long())
