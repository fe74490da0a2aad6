"""What the encoder's tests share: sizes that cannot be confused, and small helpers."""

import torch

# Distinct primes: no two axes can be swapped without a shape, or a number, changing.
H, L, B, K, T, F, V = 2, 3, 5, 7, 11, 13, 17
D = H * K
LAYER = {"d_model": D, "n_heads": H, "d_ff": F}
MODEL = {"vocab_size": V, **LAYER, "n_layers": L, "max_length": 19}

DEVICES = ["cpu"]
DEVICES += ["cuda"] if torch.cuda.is_available() else []
DEVICES += ["mps"] if torch.backends.mps.is_available() else []


def build(part, **options):
    """Make a part in eval mode, every parameter moved off its first value.

    Biases start at 0 and norms at 1, where a forgotten one would not be seen.
    """
    torch.manual_seed(0)
    module = part(**options).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return module


def random_ids(rows=B, tokens=T):
    return torch.randint(V, (rows, tokens))


def ragged(tokens=T):
    """Padding (B, T) at the end of every row but the first; the last keeps one token"""
    lengths = torch.tensor([tokens, tokens - 2, 5, 3, 1])
    return torch.arange(tokens) >= lengths[:, None]


def assert_near(ours, theirs, tolerance=1e-6):
    """Accept differences up to a share `tolerance` of the largest number expected."""
    ours, theirs = torch.as_tensor(ours), torch.as_tensor(theirs)
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    ours, theirs = ours.detach().cpu().double(), theirs.detach().cpu().double()
    scale = max([1.0, *theirs.abs().flatten().tolist()])
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance * scale)
