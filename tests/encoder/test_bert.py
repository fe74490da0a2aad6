"""Our layers in BERT's place: the same numbers, the same weights."""

import pytest
import torch
from book.models.bert import layers_from_bert

transformers = pytest.importorskip("transformers")


@pytest.fixture
def bert():
    torch.manual_seed(0)
    sizes = {"hidden_size": 15, "num_attention_heads": 3, "intermediate_size": 23}
    settings = transformers.BertConfig(vocab_size=31, num_hidden_layers=3, **sizes)
    made = transformers.BertModel(settings).eval().requires_grad_(False)
    for parameter in made.parameters():
        parameter += 0.1 * torch.randn_like(parameter)
    return made


def test_our_layers_compute_what_berts_do_at_every_real_token(bert):
    ids, padding = (
        torch.randint(31, (2, 7)),
        torch.arange(7) >= torch.tensor([[7], [4]]),
    )
    x = bert.embeddings(ids)
    for layer in layers_from_bert(bert):
        x, _ = layer(x, padding)
    wanted = bert(ids, attention_mask=(~padding).long())[0]
    torch.testing.assert_close(x[~padding], wanted[~padding])


def test_weights_and_epsilon_are_berts_own(bert):
    first, theirs = layers_from_bert(bert)[0], bert.encoder.layer[0]
    assert first.attention.query.weight is theirs.attention.self.query.weight
    assert first.norm2.eps == 1e-12
    assert not first.training
