"""Small runs of bags, one of each kind of answer; ``python -m tests.answers.bag_runs`` keeps them.

Slides of cells: in a malignant slide one cell of six is large. What is kept is each run's record,
with its answer as results.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flows.data.runs import open_run
from tests.answers.snapshots import HERE
from tests.flows.commands import succeed

COLUMNS = ("--column", "bag_id=slide", "--column", "instance_id=cell")
OF_LABEL = (*COLUMNS, "--column", "label=diagnosis")
GP = ("--set", "model=gp_probit", "--set", "held_out=0.3")


def slides(n=100, seed=0, size=2.6):
    """Return a table of cells, and of each slide whether it is malignant and its largest cell."""
    rng = np.random.default_rng(seed)
    malignant = rng.permutation(np.arange(n) % 2)
    slide = np.repeat(np.arange(n), 6)
    cells = rng.normal(size=(6 * n, 4))
    cells[::6, 1] += size * malignant
    table = {
        "slide": [f"S{i:03d}" for i in slide],
        "cell": [f"c{i}" for i in np.tile(np.arange(6), n)],
        "area": cells[:, 0], "nucleus": cells[:, 1], "colour": cells[:, 2], "edge": cells[:, 3],
    }  # fmt: skip
    return pa.table(table), malignant, cells[:, 1].reshape(n, 6).max(axis=1)


def with_label(values, name="diagnosis", **more):
    """Return slides with a label each."""
    table, *_ = slides(**more)
    return table.append_column(name, pa.array(np.repeat(values, 6)))


def sources():
    """Return the tables of the runs, by name."""
    table, malignant, largest = slides()
    words = np.array(["benign", "malignant"])
    new, new_labels, _ = slides(40, 1)
    ids = pa.array([f"N{name[1:]}" for name in new["slide"].to_pylist()])
    new = new.set_column(0, "slide", ids)
    grade = np.array(["low", "medium", "high"])[np.digitize(largest, [1.5, 2.8])]
    _, _, largest_of_60 = slides(60, 3, 3.5)
    rng = np.random.default_rng(7)
    thickness = (largest_of_60 + 0.5 * rng.normal(size=60)).round(2)
    several = [[name for name, on in zip(("large", "dark"), row, strict=True) if on]
               for row in (rng.random((100, 2)) < 0.5)]  # fmt: skip
    labels = pa.array([several[i] for i in np.repeat(np.arange(100), 6)], pa.list_(pa.string()))
    shifted = {name: table[name].to_numpy().copy() for name in ("nucleus", "colour")}
    for name, of in (("nucleus", "large"), ("colour", "dark")):
        shifted[name][::6] += [4.0 * (of in one) for one in several]
    marked = table.drop_columns([*shifted]).append_column("labels", labels)
    for name, values in shifted.items():
        marked = marked.append_column(name, pa.array(values))
    kinds = np.array(["duct", "lobe", "fat"])[rng.integers(0, 3, 100)]
    coloured = table["colour"].to_numpy() + 2.0 * np.repeat(kinds == "duct", 6)
    nuclei = table["edge"].to_numpy() + 2.0 * np.repeat(kinds == "lobe", 6)
    one_each = pa.table({
        "slide": table["slide"], "cell": table["cell"], "tissue": np.repeat(kinds, 6),
        "colour": coloured, "edge": nuclei,
    })  # fmt: skip
    return {
        "label": with_label(words[malignant]),
        "new": new,
        "new_labels": new.append_column("diagnosis", pa.array(np.repeat(words[new_labels], 6))),
        "number": with_label(thickness, "thickness", n=60, seed=3, size=3.5),
        "levels": with_label(grade, "grade"),
        "classes": one_each,
        "several": marked,
        "noise": with_label(words[rng.permutation(np.arange(60) % 2)], n=60, seed=5, size=0.0),
    }


RUNS = {
    "held_out": ("bags", "label", *OF_LABEL, "--set", "held_out=0.4"),
    "left_out": ("bags", "label", *OF_LABEL, "--set", "show_bags=[S003]"),
    "vmmic": ("bags", "label", *OF_LABEL, "--set", "model=vmmic"),
    "number": ("bags", "number", *COLUMNS, "--column", "label=thickness"),
    "levels": ("bags", "levels", *COLUMNS, "--column", "label=grade"),
    "classes": ("bags", "classes", *COLUMNS, "--column", "labels=tissue", *GP),
    "several": ("bags", "several", *COLUMNS, *GP),
    "noise": ("bags", "noise", *OF_LABEL),
    "score": ("score", "held_out", "new"),
    "score_labels": ("score", "held_out", "new_labels"),
    "score_seen": ("score", "held_out", "label"),
    "score_number": ("score", "number", "new"),
}
"""The command of each kind of answer: a pipeline with its input, or a score of a run's fit."""


def command(folder: Path, name: str) -> list[str]:
    """Return the words of a run's command, below a folder."""
    what, first, *rest = RUNS[name]
    if what == "score":
        source = folder / f"{rest[0]}.parquet"
        return ["score", str(folder / first), str(source), str(folder / name)]
    return [what, str(folder / f"{first}.parquet"), str(folder / name), *rest]


def write_sources(folder: Path) -> None:
    for name, table in sources().items():
        pq.write_table(table, folder / f"{name}.parquet")


def keep(names=tuple(RUNS)) -> None:
    """Run all kinds, and keep their records without what names this machine."""
    HERE.joinpath("bags").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_sources(folder)
        for name in names:
            succeed(*command(folder, name))
            _, record = open_run(str(folder / name))
            text = record.model_dump_json(indent=1).replace(f"{folder}/", "")
            fields = json.loads(text) | {"versions": {"vbflows": "0"}}
            kept = HERE / "bags" / f"{name}.json"
            kept.write_text(json.dumps(fields, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    keep()
