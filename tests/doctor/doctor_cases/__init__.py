"""Small encoders to examine: faults that the museum lacks, and unusual right designs.

Each is a function that returns (module, inputs, kwargs), written as a learner would
write it; many are faults that people met in their own code, written anew. `BROKEN` maps
a name to its kind, its function and, for some, the museum's exhibit with the same fault
in other words: the doctor must not depend on how the museum spells it.
"""

from . import (
    architectures,
    blocks,
    calls,
    heads,
    layouts,
    masks,
    modes,
    outputs,
    positions,
    precision,
    registration,
    returned_weights,
    softmax,
    strangers,
)
from .parts import BROKEN, RIGHT

__all__ = ["BROKEN", "RIGHT"]

# Whoever is imported has registered its cases.
SUBJECTS = (
    architectures,
    calls,
    heads,
    layouts,
    masks,
    precision,
    softmax,
    positions,
    blocks,
    registration,
    modes,
    returned_weights,
    outputs,
    strangers,
)
