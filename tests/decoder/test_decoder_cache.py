"""A cache changes the work and nothing else."""

from itertools import pairwise

import decoder
import pytest
import torch
from small import MODEL, B, D, H, K, L, T, assert_near, build, ragged, random_ids
from torch.utils.flop_counter import FlopCounterMode

S = 5
ORDERS = pytest.mark.parametrize("norm_first", [False, True])
SOURCES = pytest.mark.parametrize("cross_attention", [True, False])
CUTS = pytest.mark.parametrize("cuts", [(1,) * T, (3, 1, 5, 2), (T,), (T - 1, 1)])


def build_decoder(**options):
    return build(decoder.TransformerDecoder, **MODEL, **options)


def memory_for(model):
    reads = model.layers[0].cross_attention is not None
    return torch.randn(B, S, D, dtype=model.embedding.weight.dtype) if reads else None


def in_pieces(model, ids, memory, cuts, **masks):
    """Feed a text piece by piece; return all vectors, all maps, and the last cache."""
    hidden, maps, cache, n_done = [], [], None, 0
    for n_new in cuts:
        n_done += n_new
        cut = {name: so_far(name, mask, n_done) for name, mask in masks.items()}
        piece, weights, cache = model(
            ids[:, :n_done], memory, need_weights=True, **cut, cache=cache
        )
        hidden.append(piece)
        maps.append(weights)
    return torch.cat(hidden, dim=1), maps, cache


def so_far(name, mask, n_tokens):
    """Cut a mask to what concerns the first tokens of the text."""
    if name == "memory_padding_mask":
        return mask
    if name == "memory_blocked":
        return mask[..., :n_tokens, :]
    if name == "blocked":
        return mask[..., :n_tokens, :n_tokens]
    return mask[:, :n_tokens]


@CUTS
@ORDERS
@SOURCES
def test_a_text_in_pieces_gives_the_vectors_of_the_whole(
    cross_attention, norm_first, cuts
):
    model = build_decoder(cross_attention=cross_attention, norm_first=norm_first)
    ids, memory = random_ids(), memory_for(model)
    whole, _, _ = model(ids, memory)
    assert_near(in_pieces(model, ids, memory, cuts)[0], whole)


@CUTS
def test_so_it_does_in_double_precision_with_all_masks(cuts):
    model = build_decoder().double()
    ids, memory = random_ids(), memory_for(model)
    lengths = torch.tensor([5, 4, 3, 2, 1])
    masks = {
        "key_padding_mask": ragged().flip(1),
        "memory_padding_mask": torch.arange(S) >= lengths[:, None],
        "blocked": torch.rand(B, 1, T, T) < 0.2,
        "memory_blocked": torch.rand(H, T, S) < 0.2,
    }
    whole, whole_maps, _ = model(ids, memory, need_weights=True, **masks)
    pieces, maps, _ = in_pieces(model, ids, memory, cuts, **masks)
    assert_near(pieces, whole, 1e-13)
    last = cuts[-1]  # the rows of the last piece have as many keys as the whole
    for one, other in zip(maps[-1], whole_maps, strict=True):
        assert_near(one.own, other.own[:, :, -last:], 1e-13)
        assert_near(one.source, other.source[:, :, -last:], 1e-13)


@pytest.mark.parametrize("shape", [(S,), (1, S)])
def test_a_row_that_serves_all_queries_serves_the_new_ones(shape):
    model, ids = build_decoder(), random_ids()
    memory, blocked = memory_for(model), torch.rand(shape) < 0.4
    whole, _, _ = model(ids, memory, memory_blocked=blocked)
    _, _, cache = model(ids[:, :4], memory, memory_blocked=blocked)
    rest, _, _ = model(ids, memory, memory_blocked=blocked, cache=cache)
    assert_near(rest, whole[:, 4:])


def test_with_a_cache_the_source_is_not_asked_again():
    model, ids = build_decoder(), random_ids()
    memory = memory_for(model)
    _, _, cache = model(ids[:, :4], memory)
    expected = model(ids, memory, cache=cache)[0]
    assert torch.equal(model(ids, cache=cache)[0], expected)
    assert torch.equal(model(ids, torch.zeros_like(memory), cache=cache)[0], expected)


def test_a_cache_is_given_back_and_never_changed_or_kept():
    model, ids = build_decoder(), random_ids()
    memory = memory_for(model)
    before = set(model.state_dict()), set(vars(model.layers[0].self_attention))
    _, _, cache = model(ids[:, :4], memory)
    copies = [of.own.key.clone() for of in cache]
    once, again = (model(ids, memory, cache=cache)[0] for _ in range(2))
    assert torch.equal(once, again)
    assert all(map(torch.equal, (of.own.key for of in cache), copies))
    after = set(model.state_dict()), set(vars(model.layers[0].self_attention))
    assert before == after


def test_bytes_are_two_vectors_a_token_and_a_layer():
    model, ids = build_decoder(), random_ids()
    _, _, cache = model(ids, memory_for(model))
    a_token = 2 * L * B * D * 4  # keys and values, float32
    assert decoder.cache_bytes(cache) == (T * a_token, S * a_token)
    assert [tuple(of.own.key.shape) for of in cache] == [(B, H, T, K)] * L
    assert decoder.cache_bytes(None) == (0, 0)
    alone = build_decoder(cross_attention=False).double()
    _, _, cache = alone(ids)
    assert decoder.cache_bytes(cache) == (T * 2 * a_token, 0)


def test_rows_of_a_cache_can_be_chosen():
    model, ids = build_decoder(), random_ids()
    memory, rows = memory_for(model), torch.tensor([3, 3, 0])
    _, _, cache = model(ids[:, :4], memory)
    chosen = decoder.select_rows(cache, rows)
    expected = model(ids, memory, cache=cache)[0][rows]
    assert_near(model(ids[rows], memory[rows], cache=chosen)[0], expected)
    assert decoder.select_rows(None, rows) is None
    alone = build_decoder(cross_attention=False)
    _, _, cache = alone(ids)
    assert decoder.select_rows(cache, rows)[0].source is None


def work(model, ids, memory, use_cache):
    """Count the floating-point operations of each step of writing."""
    counts, cache = [], None
    for n in range(1, ids.shape[1] + 1):
        with FlopCounterMode(display=False) as counter:
            # The weights are asked for so that attention runs as plain products.
            _, _, now = model(ids[:, :n], memory, need_weights=True, cache=cache)
        cache = now if use_cache else None
        counts.append(counter.get_total_flops())
    return counts


def test_a_step_costs_the_same_but_for_the_keys_it_reads():
    model, ids = build_decoder(), random_ids(1, 8)
    memory = memory_for(model)[:1]
    cached, uncached = (work(model, ids, memory, use) for use in (True, False))
    assert cached[0] == uncached[0]
    steps = {after - before for before, after in pairwise(cached[1:])}
    assert steps == {L * 2 * 2 * D}  # one key more, one value more, 2 operations each
    growth = [after - before for before, after in pairwise(uncached)]
    assert growth == sorted(growth)  # ever more: it is a square
    assert uncached[-1] > 5 * cached[-1]
