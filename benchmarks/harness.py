"""What benchmarks share: the public sets, rows of a table, CPU of commands, calibration."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
"""Public sets by family; docs/claims.md says where they are from."""


def head(columns: Sequence[object]) -> str:
    """Return the head of a table in Markdown."""
    return f"{row(columns)}\n{'|---' * len(columns)}|"


def row(cells: Iterable[object]) -> str:
    """Return a row of a table in Markdown."""
    return f"| {' | '.join(map(str, cells))} |"


def calibration_error(expected: np.ndarray, realised: np.ndarray) -> float:
    """Return the expected calibration error in ten bins.

    >>> round(calibration_error(np.array([0.2, 0.2, 0.9]), np.array([0.0, 1.0, 1.0])), 3)
    0.233
    """
    place = np.minimum((expected * 10).astype(int), 9)
    gaps = np.bincount(place, realised - expected, minlength=10)
    return float(np.abs(gaps).sum() / expected.size)


def seconds(words: Sequence[str], threads: int | None = 1) -> tuple[float, float]:
    """Return the CPU and the wall seconds of a command and its processes.

    By default OpenMP has one thread, as idle ones of it count too.
    """
    limit = {} if threads is None else {"OMP_NUM_THREADS": str(threads)}
    before, begun = os.times(), time.perf_counter()
    subprocess.run(words, check=True, capture_output=True, env=os.environ | limit)
    after, wall = os.times(), time.perf_counter() - begun
    used = after.children_user + after.children_system
    return used - before.children_user - before.children_system, wall
