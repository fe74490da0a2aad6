"""Runs that go side by side, stored one a line, so that a change can be read."""

import json
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch


def store_runs(runs: Iterable[dict], path: Path) -> None:
    """Write the runs to `path` as a JSON list."""
    path.write_text("[\n" + ",\n".join(map(json.dumps, runs)) + "\n]\n")


def record_side_by_side(
    path: Path, record: Callable[..., dict], *settings: Iterable
) -> None:
    """Map `record` over the settings, as `map` does, a process each, and store it."""
    torch.set_num_threads(1)  # a run is small
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        store_runs(pool.map(record, *settings), path)
