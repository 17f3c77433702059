"""Bags: labels, features, classes and settings that cannot be."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.flows.bags.bag_files import instances, written
from tests.flows.bags.test_bags_gp import multi_label
from tests.sentences.said import Said, command, nth, table

GP = "model=gp_probit"
LISTS = instances()["features"].to_pylist()
LABELS = instances()["label"].to_pylist()
NUMBERS = [int(name[1:]) + 0.5 for name in instances()["bag_id"].to_pylist()]
MODALITIES = ["image", "text", "text"] * 40


def bags(*settings: str, **columns: object) -> Said:
    return table("check bags", instances(**columns), *settings)


def classes(change: pa.Table, *settings: str) -> Said:
    return table("check bags", change, *settings)


def with_column(made: pa.Table, name: str, values: object) -> pa.Table:
    place = made.column_names.index(name)
    return made.set_column(place, name, pa.array(values, made.schema.field(name).type))


def two(one: pa.Table, other: pa.Table, words: str = "") -> Said:
    def files(folder: Path) -> None:
        written(folder, one, "a.parquet")
        written(folder, other, "b.parquet")

    return command(f"check bags @ {words}", files)


def halves(column: pa.Array, name: str, changed: pa.Array, words: str = "") -> Said:
    """Cut bags over two files; the second has other values of a column."""
    half = pa.array(np.arange(120) % 3 == 0)
    made = instances().drop_columns("label") if name == "labels" else instances()
    one, other = (made.append_column(name, values) for values in (column, changed))
    return two(one.filter(half), other.filter(pa.compute.invert(half)), words)


def several_files() -> Said:
    """Instances of a bag may differ in name or in modality; no name is compared with none."""
    made = instances(modality=["m"] * 120)
    other = made.set_column(4, "modality", pa.array(["other"] * 120))
    nameless = made.set_column(1, "instance_id", pa.nulls(120, pa.string()))

    def files(folder: Path) -> None:
        for name, part in zip("abcd", (made[:61], made[61:], other, nameless), strict=True):
            written(folder, part, f"{name}.parquet")

    return command("check bags @", files)


OWN = [[float(bag[1:])] for bag in instances()["bag_id"].to_pylist()]
OTHERS = [[own[0] + (own[0] == 7)] for own in OWN]
NAMES = pa.array([["x"] if int(own[0]) % 2 else [] for own in OWN])
CHANGED = pa.array([["y"] if own[0] == 7 else n for own, n in zip(OWN, NAMES.to_pylist(),
                                                                  strict=True)])  # fmt: skip
LISTED = multi_label().drop_columns("own")
WIDE = np.zeros((60, 5001))
WIDE[np.arange(60), np.arange(60) * 80] = 1.0
CONSTANT = np.column_stack([np.random.default_rng(0).normal(size=(120, 30)), np.full(120, 5.0)])
SWAMPED = np.column_stack([np.array(LISTS), np.arange(120) == 3])
SWAMPED[7, 1] = 1e9

CASES = {
    "two labels": bags(label=pa.array(nth(LABELS, 4, 0), pa.int8())),
    "no label": bags(label=pa.nulls(120, pa.int8())),
    "half a label": bags(label=pa.array(nth(map(float, LABELS), 3, 0.5), pa.float64())),
    "labels of other words": bags(GP, label=[2 * x - 1 for x in LABELS]),
    "two numbers of a bag": bags(label=nth(NUMBERS, 4, 0.25)),
    "a number for vmmic": bags("model=vmmic", label=NUMBERS),
    "a number for a Gaussian process": bags(GP, label=NUMBERS),
    "an infinite number": bags(label=[float("inf") if x == 0.5 else x for x in NUMBERS]),
    "flags as numbers": bags("target=number", label=[x > 9 for x in NUMBERS]),
    "a level twice": bags("target=ordered", "label_order=[a,b,b,c]", label=NUMBERS),
    "no name of bags": table("check bags", {"patient": ["a", "b"], "cd3": [1.0, 2], "f": [0, 1]}),
    "lengths of a modality": bags(
        modality=nth(["a"] * 120, 7, "b"), features=nth(nth(LISTS, 7, [1.0, 2.0, 3.0]), 8, [1.0])
    ),
    "no modality": bags(modality=nth(["a"] * 120, 7, None)),
    "nan": bags(features=nth(LISTS, 9, [0.0, float("nan")])),
    "huge": bags(features=nth(LISTS, 9, [1e200, 1.0])),
    "an instance twice": bags(instance_id=nth(instances()["instance_id"].to_pylist(), 1, "0")),
    "features of a bag": bags(bag_features=nth([[1.0]] * 120, 1, [2.0])),
    "a type": bags(features=["x"] * 120),
    "two faults": bags(
        label=pa.array(nth(LABELS, 3, 7), pa.int8()), features=nth(LISTS, 9, [0.0, float("inf")])
    ),
    "no instance": bags(features=pa.nulls(120, pa.list_(pa.float64()))),
    "no instance for a Gaussian process": bags(GP, features=pa.nulls(120, pa.list_(pa.float64()))),
    "too many words": table("check bags", instances(20, features=pa.array(list(WIDE)))),
    "constant, and few bags": bags("model=vmmic", features=CONSTANT.tolist()),
    "a value that swamps its feature": bags("model=embedding", features=SWAMPED.tolist()),
    "a file copied": two(instances(2), instances(2)),
    "files that differ": two(
        instances(2), instances(2, features=[[1.0] * 3] * 6, label=[1, 1, 1, 0, 0, 0])
    ),
    "a bag in several files": several_files(),
    "features of bags over files": halves(pa.array(OWN), "bag_features", pa.array(OTHERS)),
    "the same features over files": halves(pa.array(OWN), "bag_features", pa.array(OWN)),
    "classes of bags over files": halves(NAMES, "labels", CHANGED, f"--set {GP}"),
    "mean field of a Gaussian process": bags(GP, "inference=mean_field"),
    "modalities of a Gaussian process": bags(GP, modality=MODALITIES),
    "direct of vmmic": bags("model=vmmic", "inference=direct"),
    "too many draws": bags("model=vmmic", "inference=gibbs", "draws=2000"),
    "gibbs of auto": bags("model=auto", "inference=gibbs"),
    "a kernel": bags("model=auto", "kernel=cubic"),
    "classes without the model": classes(LISTED),
    "classes of a bag": classes(
        with_column(LISTED, "labels", nth(LISTED["labels"].to_pylist(), 2, ["z"])), GP
    ),
}
