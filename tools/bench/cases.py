"""What is measured: each function returns {against whom: figures of the quotient}.

Sizes are B sequences of T tokens at the paper's base size. Half padding means that half
of all tokens are padding, in sequences of different lengths.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch
from encoder import TransformerEncoder
from measure import interleave, quotient
from rivals import BASE, BERT, FAST, HAND, NESTED, OURS, PACKED, SLOW, build
from taken_apart.tracer import trace
from torch.testing import assert_close

GEMM, UNTRACED = "GEMM peak", "the untraced call"
FUSED = f"{SLOW}, fused AdamW"


@dataclass
class Case:
    """A name, run(device, seconds), and the targets: {against whom: figure}."""

    name: str
    run: Callable
    targets: dict = field(default_factory=dict)

    @property
    def is_fraction(self):
        return GEMM in self.targets  # of the peak: the more, the better


def forward(device, seconds, batch, tokens, half_padded):
    """Time of our forward pass, without gradients, over that of each rival."""
    x, mask = inputs(device, batch, tokens, half_padded)
    rivals = contenders(device, x, mask)
    with torch.no_grad():
        calls = {n: partial(rival.call, x, mask) for n, rival in rivals.items()}
        return first_over_others(interleave(calls, seconds))


def step(device, seconds, batch, tokens, half_padded):
    """Time of our training step at dropout 0.1 over that of each rival.

    We take AdamW(fused=True), the others AdamW as it comes, and one takes ours.
    """
    x, mask = inputs(device, batch, tokens, half_padded)
    rivals = contenders(device, x, mask, dropout=0.1)
    for name in (FAST, NESTED):  # torch trains on its slow path
        rivals.pop(name, None)
    ours = next(iter(rivals))
    calls = {n: training(rival, x, mask, n == ours) for n, rival in rivals.items()}
    calls[FUSED] = training(rivals[SLOW], x, mask, fused=True)
    return first_over_others(interleave(calls, seconds))


def inputs(device, batch, tokens, half_padded):
    """Random x (B, T, D), and a mask with evenly spread lengths of mean T / 2."""
    torch.manual_seed(1)
    x = torch.randn(batch, tokens, BASE.d_model, device=device)
    if not half_padded:
        return x, None
    lengths = (torch.arange(batch, device=device) * 2 + 1) * tokens // (2 * batch)
    return x, torch.arange(tokens, device=device) >= lengths[:, None]


def contenders(device, x, mask, dropout=0.0):
    """All rivals, ours first; each must give our numbers on the real tokens."""
    rivals = build(device, dropout)
    first = OURS if mask is None else PACKED
    for name in {OURS, PACKED} - {first} | ({NESTED} if mask is None else set()):
        del rivals[name]
    real = slice(None) if mask is None else ~mask
    with torch.no_grad():
        expected = rivals[first].call(x, mask)[real]
        for name, rival in rivals.items():
            hidden = rival.call(x, mask)[real]
            told = partial("{}: {}".format, name)
            assert_close(hidden, expected, atol=1e-3, rtol=1e-3, msg=told)
    return {first: rivals[first], **rivals}


def training(rival, x, mask, fused):
    """A training step as a function; the loss is any that reaches every parameter."""
    module = rival.module.train()
    optimiser = torch.optim.AdamW(module.parameters(), lr=1e-5, fused=fused or None)

    def step():
        optimiser.zero_grad()
        hidden = rival.call(x, mask)
        (hidden if mask is None else hidden[~mask]).square().mean().backward()
        optimiser.step()

    return step


def first_over_others(times):
    ours, *others = times
    return {name: quotient(times[ours], times[name]) for name in others}


def peak(device, seconds, batch, tokens, dtype):
    """Fraction of the multiplications a second that this machine's own GEMM reaches."""
    x, _ = inputs(device, batch, tokens, half_padded=False)
    rival, x = build(device)[OURS], x.to(dtype)
    rival.module.to(dtype)
    side = 2048
    matrix = torch.randn(side, side, device=device, dtype=dtype)
    calls = {
        OURS: partial(rival.call, x, None),
        GEMM: partial(torch.mm, matrix, matrix),
    }
    with torch.no_grad():
        times = interleave(calls, seconds)
    work = forward_multiplications(batch, tokens) / side**3
    return {GEMM: quotient(times[GEMM], times[OURS], work)}


def forward_multiplications(batch, tokens):
    linear = 4 * BASE.d_model**2 + 2 * BASE.d_model * BASE.d_ff  # for each token
    attention = 2 * tokens * BASE.d_model  # query key^T, and weights value
    return BASE.n_layers * batch * tokens * (linear + attention)


def traced(device, seconds, batch, tokens):
    """Time of a forward pass under `tracer.trace` over that of the pass alone."""
    module = TransformerEncoder(101, **vars(BASE)).to(device).eval()
    ids = torch.randint(101, (batch, tokens), device=device)
    watched = partial(trace, module, ids, names=False)
    calls = {"traced": watched, UNTRACED: partial(module, ids)}
    with torch.no_grad():
        return first_over_others(interleave(calls, seconds))


def missing(case, device):
    """Say what this machine lacks for a case, or nothing."""
    if "bf16" in case.name and device == "cpu" and not fast_bf16():
        return "this CPU has no bf16 instructions"
    return ""


def fast_bf16():
    able = torch.cpu.get_capabilities()
    return able.get("avx512_bf16") or able.get("amx_bf16") or able.get("bf16")


def compare(kind, batch, tokens, half_padded, *limits):
    name = f"{kind.__name__} {batch}x{tokens}{', half padding' * half_padded}"
    run = partial(kind, batch=batch, tokens=tokens, half_padded=half_padded)
    return Case(
        name, run, dict(zip((SLOW, HAND, BERT, FAST, NESTED), limits, strict=False))
    )


def use_of_peak(batch, tokens, dtype, least):
    name = f"fraction {batch}x{tokens}, {'bf16' if dtype.itemsize == 2 else 'fp32'}"
    run = partial(peak, batch=batch, tokens=tokens, dtype=dtype)
    return Case(name, run, {GEMM: least})


def overhead(batch, tokens, most):
    run = partial(traced, batch=batch, tokens=tokens)
    return Case(f"traced {batch}x{tokens}", run, {UNTRACED: most})


PADDED, FULL = True, False
CASES = [  # limits against: torch slow, by hand, Bert, torch fast, torch nested
    compare(forward, 8, 128, FULL, 1.00, 0.80, 1.05, 1.08),
    compare(forward, 1, 2048, FULL, 1.05, 0.50, 1.05, 0.80),
    compare(forward, 8, 128, PADDED, 0.60, 0.45, 0.60, 0.65, 0.74),
    compare(forward, 2, 512, PADDED, 0.55, 0.40, 0.60, 0.45, 0.74),
    compare(forward, 1, 2048, PADDED, 0.45, 0.20, 0.45, 0.25, 0.74),
    compare(step, 8, 128, FULL, 1.00, 0.85, 1.05),
    compare(step, 1, 16, FULL, 0.60, 0.60, 0.60),
    compare(step, 8, 128, PADDED, 0.65, 0.55, 0.65),
    use_of_peak(8, 128, torch.float32, 0.80),
    use_of_peak(2, 512, torch.float32, 0.75),
    use_of_peak(1, 2048, torch.float32, 0.65),
    use_of_peak(8, 128, torch.bfloat16, 0.40),
    overhead(8, 128, 1.10),
    overhead(1, 16, 2.00),
]
