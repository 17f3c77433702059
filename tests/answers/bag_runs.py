"""Small runs of bags, one of each kind of answer.

Slides of cells: in a malignant slide one cell of six is large.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

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
    "held_out": ("bags", "label.parquet", *OF_LABEL, "--set", "held_out=0.4"),
    "left_out": ("bags", "label.parquet", *OF_LABEL, "--set", "show_bags=[S003]"),
    "vmmic": ("bags", "label.parquet", *OF_LABEL, "--set", "model=vmmic"),
    "number": ("bags", "number.parquet", *COLUMNS, "--column", "label=thickness"),
    "levels": ("bags", "levels.parquet", *COLUMNS, "--column", "label=grade"),
    "classes": ("bags", "classes.parquet", *COLUMNS, "--column", "labels=tissue", *GP),
    "several": ("bags", "several.parquet", *COLUMNS, *GP),
    "noise": ("bags", "noise.parquet", *OF_LABEL),
    "score": ("score", "held_out", "new.parquet"),
    "score_labels": ("score", "held_out", "new_labels.parquet"),
    "score_seen": ("score", "held_out", "label.parquet"),
    "score_number": ("score", "number", "new.parquet"),
}
"""The command of each kind of answer: a pipeline with its input, or a score of a run's fit."""


def write_sources(folder: Path) -> None:
    for name, table in sources().items():
        pq.write_table(table, folder / f"{name}.parquet")
