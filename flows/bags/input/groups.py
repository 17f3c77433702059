"""The groups of bags that are held out together: named ones, and exact copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from flows import storage
from flows.bags.settings import BagSettings
from flows.family import Each
from flows.records.runs import RunPaths
from flows.tables.names import digests_of
from vbmodels.bags.bags import UNLABELLED, Bags
from vbmodels.bags.multilabel import ONE_GROUP, join_groups, row_hash
from vbmodels.core.state import BoolArray, IntArray


@dataclass(frozen=True)
class Groups:
    """The groups of a partition's bags, and which of these are held out; see `groups_of`."""

    number: IntArray
    held: BoolArray


def groups_of(
    count: int, paths: RunPaths, each: Each, settings: BagSettings
) -> tuple[list[Groups], list[int], list[str]]:
    """Return every partition's groups, the fitted bags with the labels 0 and 1, and what to say.

    Copies of a bag are of one group with it; where one bag of a group is held out, all are.
    """
    read = each(_bag_columns, list(range(count)), paths)
    name, prints, label, held = (np.concatenate(column) for column in zip(*read, strict=True))
    number = join_groups(prints, name)
    said: list[str] = []
    if number.size:
        _, of = np.unique(number, return_inverse=True)
        held = np.bincount(of, held)[of] > 0
        sides = np.full_like(label, UNLABELLED) if settings.numeric else label
        said = _said_of_groups(number, settings)
        said += _said_of_copies(prints, sides, [len(part[0]) for part in read], paths)
        if number.size > 1 and np.all(number == number[0]):
            said.append(f"{ONE_GROUP[0].upper()}{ONE_GROUP[1:]}.")
    held &= label >= 0
    ends = np.cumsum([len(part[0]) for part in read])[:-1]
    numbers = np.split(number, ends) if number.size else [number] * count
    groups = [Groups(*one) for one in zip(numbers, np.split(held, ends), strict=True)]
    return groups, [int(np.count_nonzero((label == y) & ~held)) for y in (0, 1)], said


def _said_of_groups(number: IntArray, settings: BagSettings) -> list[str]:
    """Say what groups bags, where settings do, and how many groups there are."""
    if not (settings.group_parts or "group" in settings.columns):
        return []
    by = f"column {settings.columns.get('group', 'group')}"
    if parts := settings.group_parts:
        by = f"the beginning of their names (group_parts={parts})"
    return [
        f"{number.size:,} bags are {np.unique(number).size:,} groups by {by}, held out together "
        "(--set group_parts=0: not grouped)."
    ]


def _bag_columns(index: int, paths: RunPaths) -> tuple[IntArray, IntArray, IntArray, BoolArray]:
    """Return a digest of the group, the print, the label and whether it is held out of each bag."""
    rows = storage.read_table(paths.part("bag_rows", index))
    return (
        digests_of(rows["group"].to_pylist()),
        rows["print"].to_numpy(),
        rows["label"].cast("int64").fill_null(UNLABELLED).to_numpy(),
        rows["held_out"].to_numpy(zero_copy_only=False),
    )


def _said_of_copies(
    prints: IntArray, label: IntArray, sizes: Sequence[int], paths: RunPaths
) -> list[str]:
    """Say which bags are exact copies of others, and of how many the labels differ."""
    _, first, of, count = np.unique(
        prints, return_index=True, return_inverse=True, return_counts=True
    )
    copied = (count[of] > 1) & (prints != 0)
    if not copied.any():
        return []
    some = int(np.flatnonzero(copied)[0])
    pair = np.flatnonzero(of == of[some])[:2].tolist()
    ends = np.cumsum(sizes)
    names = []
    for place in pair:
        part = int(np.searchsorted(ends, place, side="right"))
        ids = storage.read_table(paths.part("bag_rows", part), ["bag_id"])["bag_id"]
        names.append(ids[place - int(ends[part]) + sizes[part]].as_py())
    text = (
        f"{int(copied.sum()):,} bags are exact copies of one another ({names[0]} and "
        f"{names[1]}, say), held out together."
    )
    low, high = (np.full(len(first), value) for value in (2, -1))
    known = copied & (label >= 0)
    np.minimum.at(low, of[known], label[known])
    np.maximum.at(high, of[known], label[known])
    if differ := int(np.count_nonzero((low == 0) & (high == 1))):
        text += f" {differ:,} of these have copies with the other label."
    return [text]


def instance_prints(data: Bags) -> pa.Table:
    """Return a number of what each instance is, equal for copies, and its bag's number."""
    prints, bag = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
    for place, of in enumerate(data.modalities):
        if of.n_features:
            prints.append(row_hash(of.features.astype(float), place))
            bag.append(of.bag)
    return pa.table({"print": np.concatenate(prints), "bag": np.concatenate(bag)})


def said_of_copied_instances(count: int, paths: RunPaths, each: Each) -> list[str]:
    """Say how many instances are exact copies of others, and in how many bags they are."""
    tables = each(_read_prints, list(range(count)), paths)
    prints, bag = (
        np.concatenate([table[name].to_numpy() for table in tables]) for name in ("print", "bag")
    )
    part = np.repeat(np.arange(count), [len(table) for table in tables])
    _, of, times = np.unique(prints, return_inverse=True, return_counts=True)
    copied = times[of] > 1
    if not copied.any():
        return []
    bags = len(np.unique(np.column_stack([part, bag])[copied], axis=0))
    return [
        f"{np.count_nonzero(copied):,} of {copied.size:,} instances, in {bags:,} bags, are exact "
        "copies of others."
    ]


def _read_prints(index: int, paths: RunPaths) -> pa.Table:
    return storage.read_table(paths.part("prints", index))
