"""One thing that a probe found, and the kinds of faults that there are."""

import dataclasses
from dataclasses import dataclass
from typing import Literal, get_args

# The kinds of faults, and the chapter of the book that explains each.
CHAPTERS = {
    "head split/merge": "03_multi_head",
    "projections": "03_multi_head",
    "batch/sequence layout": "07_encoder",
    "mask meaning": "06_masks",
    "mask axis/shape": "06_masks",
    "nan / precision": "06_masks",
    "softmax / scale": "02_attention",
    "positional encoding": "01_inputs",
    "norm / residual / FFN": "05_layer_norm",
    "registration / sharing": "07_encoder",
    "train/eval and fast path": "08_training",
    "attention weights": "02_attention",
    "loss and training": "08_training",
    "dtype / compile": "06_masks",
    "notebook / display": "09_pitfalls",
}

Severity = Literal["fault", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)  # the gravest first


@dataclass(frozen=True)
class Finding:
    """One thing found: what, how surely, measured how, where, and the smallest cure.

    `kind` is one of CHAPTERS. A "fault" is surely wrong, a "warning" probably, a "note"
    is right by some designs. `where` is the reader's own line, `part` the piece of it
    that matters, `file` and `line` the same for programs. Raises ValueError for an
    unknown kind or severity.
    """

    kind: str
    severity: Severity
    title: str
    evidence: str
    where: str = ""
    fix: str = ""
    part: str = ""
    file: str = ""
    line: int = 0

    def __post_init__(self) -> None:
        if self.kind not in CHAPTERS or self.severity not in SEVERITIES:
            raise ValueError(f"no such kind or severity: {self.kind}, {self.severity}")

    def to_dict(self) -> dict[str, str | int]:
        return {**dataclasses.asdict(self), "chapter": self.chapter}

    @property
    def chapter(self) -> str:
        return CHAPTERS[self.kind]
