"""Small runs of features, one of each kind of answer.

``python -m tests.answers.feature_runs`` keeps their records, with their answers as results.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flows.data.runs import open_run
from tests.answers.snapshots import HERE
from tests.flows.commands import succeed
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
    "undecided": ("features", "duties"),
    "several": ("features", "survey", "--set", "n_features=4"),
    "weighted": ("features", "weighted", "--column", "weight=w"),
    "laplace": ("features", "few", "--set", "inference=laplace", "--set", "warmup=4", "--set",
                "draws=4", "--set", "n_features=3", "--set", "least_rows=1"),
    "none": ("features", "unrelated"),
    "too_few": ("features", "few"),
    "score": ("score", "several", "new"),
    "score_seen": ("score", "several", "survey"),
    "score_none": ("score", "none", "unrelated"),
}  # fmt: skip
"""The command of each kind of answer: a pipeline with its input, or a score of a run's fit."""


def command(folder: Path, name: str) -> list[str]:
    """Return the words of a run's command, below a folder."""
    what, first, *rest = RUNS[name]
    if what == "score":
        return [what, str(folder / first), str(folder / f"{rest[0]}.parquet"), str(folder / name)]
    return [what, str(folder / f"{first}.parquet"), str(folder / name), *rest]


def write_sources(folder: Path) -> None:
    for name, table in SOURCES.items():
        pq.write_table(pa.table(table()), folder / f"{name}.parquet")


def keep() -> None:
    """Run all kinds, and keep their records without what names this machine."""
    HERE.joinpath("features").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_sources(folder)
        for name in RUNS:
            succeed(*command(folder, name))
            _, record = open_run(str(folder / name))
            text = record.model_dump_json(indent=1).replace(f"{folder}/", "")
            fields = json.loads(text) | {"versions": {"vbflows": "0"}}
            kept = HERE / "features" / f"{name}.json"
            kept.write_text(json.dumps(fields, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    keep()
