"""Small runs of features, one of each kind of answer."""

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.flows.features.test_filled_cells import survey
from tests.flows.features.test_ordered import likert

DUTIES = [42, 23, 6, 25, 6, 24, 7, 38, 1, 4, 1, 6, 2, 9, 2, 20]
"""Rows of each pattern of four answers, society before friend (Stouffer and Toby 1951)."""


def duties() -> dict[str, list[object]]:
    patterns = itertools.product(["society", "friend"], repeat=4)
    rows = [answers for answers, n in zip(patterns, DUTIES, strict=True) for _ in range(n)]
    names = ("accident", "play", "secret", "board")
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def weighted() -> dict[str, list[object]]:
    """Two groups by answers on a scale, of which one counts twice."""
    z, columns = likert()
    return columns | {"w": np.where(z, 2.0, 1.0).tolist()}


def unrelated(n: int) -> dict[str, list[object]]:
    rng = np.random.default_rng(0)
    return {f"c{d}": rng.choice(["left", "right"], n).tolist() for d in range(4)}


SOURCES = {
    "duties": duties,
    "survey": lambda: survey()[0],
    "new": lambda: survey(40)[0],
    "weighted": weighted,
    "unrelated": lambda: unrelated(400),
    "few": lambda: unrelated(20),
}
RUNS = {
    "undecided": ("features", "duties.parquet"),
    "several": ("features", "survey.parquet", "--set", "n_features=4"),
    "weighted": ("features", "weighted.parquet", "--column", "weight=w"),
    "none": ("features", "unrelated.parquet"),
    "too_few": ("features", "few.parquet"),
    "score": ("score", "several", "new.parquet"),
    "score_seen": ("score", "several", "survey.parquet"),
    "score_none": ("score", "none", "unrelated.parquet"),
}  # fmt: skip
"""The command of each kind of answer: a pipeline with its input, or a score of a run's fit."""


def write_sources(folder: Path) -> None:
    for name, table in SOURCES.items():
        pq.write_table(pa.table(table()), folder / f"{name}.parquet")
