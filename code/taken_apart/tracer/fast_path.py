"""Let torch's encoder layers run as they would, compiled or fused, while we watch."""

import contextlib
import sys
import threading
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

FAST_PATHS = "_transformer_encoder_layer_fwd", "_native_multi_head_attention"
_has_torch_function = torch.overrides.has_torch_function
_lock = threading.Lock()
_users: list[int] = []


def eager() -> contextlib.AbstractContextManager:
    """Let compiled parts run as they are written: their kernels could not be seen."""
    if "torch._dynamo" not in sys.modules:  # then nothing can be compiled
        return contextlib.nullcontext()
    return torch.compiler.set_stance("force_eager")


@contextlib.contextmanager
def fast_path_kept() -> Iterator[None]:
    """Let torch's encoder take its fast path although a recorder is watching.

    The encoder asks `has_torch_function` and keeps off while any mode is active, so
    tracing would change what runs. While a trace runs, a mode that says
    `keeps_fast_path` does not count.
    """
    with _lock:
        _users.append(1)
        torch.overrides.has_torch_function = overridden
    try:
        yield
    finally:
        with _lock:
            _users.pop()
            if not _users:
                torch.overrides.has_torch_function = _has_torch_function


def overridden(values: Iterable) -> bool:
    modes = torch.overrides._get_current_function_mode_stack()
    if not all(getattr(mode, "keeps_fast_path", False) for mode in modes):
        return _has_torch_function(values)
    plain = Tensor, nn.Parameter
    return any(isinstance(v, Tensor) and type(v) not in plain for v in values)
