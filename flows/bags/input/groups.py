"""Which bags belong together: what names their groups, and exact copies, are held out together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flows import storage
from flows.bags.input.roles import LOOKED, FirstRows
from flows.bags.settings import HELD_OUT, LAST, BagSettings
from flows.family import Each
from flows.faults import InputError
from flows.records.runs import RunPaths
from flows.storage import InputFile
from flows.tables import mixed
from flows.tables.mixed import CATEGORY, NUMBER
from flows.tables.names import digests_of
from flows.tables.roles import ColumnContents, column_rules, unclear_faults
from flows.tables.table import matches
from vbmodels.bags.bags import UNLABELLED, Bags
from vbmodels.bags.multilabel import ONE_GROUP, join_groups, row_hash
from vbmodels.core.state import BoolArray, IntArray
from vbmodels.tables.cells import number_of
from vbmodels.tables.shared_labels import (
    find_group_parts,
    first_parts,
    is_measured,
    measure_agreement,
    repeats_enough,
)

MANY_BAGS, MANY_GROUPS = 500, 50  # with a label, from which some are held out by default
MOST_BAGS = 5_000  # with a label, that are looked at
FEWEST_VALUES = 10  # of a column that names groups: fewer are a grade, a stage or a subtype

_GROUP_NAME = re.compile(
    r"(patient|subject|participant|donor|animal|mouse|individual|family|case|specimen|block)"
    r"([ _.-]?(id|no|nr|number|code|key|name|barcode))?",
    re.IGNORECASE,
)


@dataclass
class LabelledBags:
    """Bags of the input with their labels, and what columns that may name groups say of them."""

    labels: dict[str, str] = field(default_factory=dict)
    cells: dict[str, dict[str, str]] = field(default_factory=dict)

    def codes_of(self, column: str) -> IntArray:
        """Return the place of each bag's cell, or label, among all, [B]; -1 where it is missing."""
        cells = self.labels if column == "label" else self.cells[column]
        texts = [cells.get(bag) for bag in self.labels]
        distinct = list(dict.fromkeys(text for text in texts if text is not None))
        numbers = [number_of(text) for text in distinct]
        values = np.array([text.casefold() for text in distinct])
        if None not in numbers:
            values = np.array(numbers, float)
        places = np.unique(values, return_inverse=True)[1].tolist()
        place_of = dict(zip(distinct, places, strict=True))
        return np.array([-1 if text is None else place_of[text] for text in texts], np.int64)


def with_groups(files: Sequence[InputFile], settings: BagSettings) -> BagSettings:
    """Return the settings with what groups bags, and the share that is held out by default."""
    if isinstance(settings.held_out, str) and settings.held_out != LAST:
        named = {**settings.columns, "held_out": settings.held_out}
        settings = settings.model_copy(update={"columns": type(settings.columns)(named)})
    first = FirstRows(files[0], settings.model_copy(update={"include": ()}))
    is_open = "group" not in first.schema.names and settings.group_parts is None
    if not is_open and settings.held_out is not None:
        return settings
    candidates = _candidates(first) if is_open else {}
    bags = _read_labelled_bags(files, ["group", *candidates], settings)
    if is_open:
        settings = _with_found_group(bags, candidates, settings)
    if settings.held_out is not None:
        return settings
    many = len(bags.labels) >= MANY_BAGS
    if cells := bags.cells.get(settings.columns.get("group", "group")):
        many &= len(set(cells.values())) >= MANY_GROUPS
    if parts := settings.group_parts:
        many &= len({first_parts(bag, parts) for bag in bags.labels}) >= MANY_GROUPS
    return settings.model_copy(update={"held_out": HELD_OUT if many else 0.0})


def _with_found_group(
    bags: LabelledBags, candidates: dict[str, ColumnContents], settings: BagSettings
) -> BagSettings:
    """Return the settings with the group by which labels agree most."""
    label = bags.codes_of("label")
    parts, clearest = find_group_parts(list(bags.labels), label)
    column = ""
    for name, contents in candidates.items():
        measured = _measure_column(name, contents, bags.codes_of(name), label)
        if measured and measured >= clearest:
            column, clearest = name, measured
    if not column:
        return settings.model_copy(update={"group_parts": parts})
    columns = type(settings.columns)({**settings.columns, "group": column})
    return settings.model_copy(update={"group_parts": 0, "columns": columns})


def _candidates(first: FirstRows) -> dict[str, ColumnContents]:
    """Return the columns of text, and of whole numbers, that have one value in each bag."""
    if first.bags is None:
        return {}
    features, candidates = first.settings.columns.get("features", ""), {}
    for name, contents in first.columns.items():
        may_name = contents.rule.kind == CATEGORY
        may_name |= contents.rule.kind == NUMBER and not contents.seen.fractions
        if may_name and first.bags.have_one_value(contents.codes) and not matches(name, features):
            candidates[name] = contents
    return candidates


def _measure_column(name: str, contents: ColumnContents, group: IntArray, label: IntArray) -> float:
    """Return how clearly a column names groups of bags, 0 where it does not."""
    if _GROUP_NAME.fullmatch(name.strip()):
        return np.inf if repeats_enough(group) else 0.0
    if group.max(initial=-1) < FEWEST_VALUES - 1:
        return 0.0
    if contents.rule.kind == NUMBER and is_measured(group, label):
        return 0.0
    return measure_agreement(group, label)


def _read_labelled_bags(
    files: Sequence[InputFile], others: Sequence[str], settings: BagSettings
) -> LabelledBags:
    """Read the first bags with a label, and their cells in other columns; a bag may be in files."""
    bags = LabelledBags(cells={name: {} for name in others})
    roles = {name: settings.columns.get(name, name) for name in ("bag_id", "label", *others)}
    for file in files:
        parquet = storage.parquet_file(file.url)
        there = {
            role: name
            for role, name in roles.items()
            if parquet.schema_arrow.names.count(name) == 1
        }
        if "bag_id" not in there:
            continue
        for batch in storage.read_batches(
            file.url, LOOKED, list(dict.fromkeys(there.values())), parquet.metadata
        ):
            rows = pa.Table.from_batches([batch])
            texts = {
                role: mixed.texts(mixed.parse(rows[name], settings.missing)[0])
                for role, name in there.items()
            }
            keys = [(role, "first") for role in texts if role != "bag_id"]
            table = pa.table(texts).group_by("bag_id", use_threads=False).aggregate(keys)
            ids = table["bag_id"].to_pylist()
            for role, _ in keys:
                by_bag = bags.labels if role == "label" else bags.cells[role]
                cells = zip(ids, table[f"{role}_first"].to_pylist(), strict=True)
                for bag, cell in cells:
                    if bag is not None and cell is not None:
                        by_bag.setdefault(bag, cell)
            if len(bags.labels) >= MOST_BAGS:
                return bags
    return bags


@dataclass(frozen=True)
class Groups:
    """The groups of a partition's bags, and which of these are held out; see `groups_of`."""

    number: IntArray
    held: BoolArray


def groups_of(
    count: int, paths: RunPaths, each: Each, settings: BagSettings, is_new: bool
) -> tuple[list[Groups], list[int], list[str]]:
    """Return every partition's groups, the fitted bags with the labels 0 and 1, and what to say.

    Copies of a bag are of one group with it; where one bag of a group is held out, all are.
    ``is_new``: the bags are scored, none is fitted.
    """
    read = each(_bag_columns, list(range(count)), paths, settings)
    name, prints, label, held_out, time = (
        np.concatenate(column) for column in zip(*read, strict=True)
    )
    number = join_groups(prints, name)
    warnings: list[str] = []
    if isinstance(settings.held_out, str) and not is_new:
        held_out, warnings = _last_of(time, label >= 0, settings)
    if number.size:
        _, group = np.unique(number, return_inverse=True)
        held_out = np.bincount(group, held_out)[group] > 0
        sides = np.full_like(label, UNLABELLED) if settings.numeric else label
        warnings += _said_of_groups(number, name, settings)
        warnings += _said_of_copies(prints, sides, [len(part[0]) for part in read], paths)
        if number.size > 1 and np.all(number == number[0]):
            warnings.append(f"{ONE_GROUP[0].upper()}{ONE_GROUP[1:]}.")
    held_out &= label >= 0
    ends = np.cumsum([len(part[0]) for part in read])[:-1]
    numbers = np.split(number, ends) if number.size else [number] * count
    groups = [Groups(*arrays) for arrays in zip(numbers, np.split(held_out, ends), strict=True)]
    return groups, [int(np.count_nonzero((label == y) & ~held_out)) for y in (0, 1)], warnings


def _said_of_groups(number: IntArray, name: IntArray, settings: BagSettings) -> list[str]:
    """Say what groups bags, where several have one name of a group, and how many there are."""
    if np.unique(name).size == name.size:
        return []
    by = f"column {settings.columns.get('group', 'group')}"
    if parts := settings.group_parts:
        by = f"the beginning of their names (group_parts={parts})"
    # A column that the user names is none that group_parts turns off.
    return [
        f"{number.size:,} bags are {np.unique(number).size:,} groups by {by}, held out together"
        + (" (--set group_parts=0: not grouped)." if settings.group_parts is not None else ".")
    ]


def _last_of(
    cells: NDArray[np.object_], labelled: BoolArray, settings: BagSettings
) -> tuple[BoolArray, list[str]]:
    """Return which labelled bags are the last by these cells, and what to say of them.

    Raises
    ------
    InputError
        If cells are no dates or numbers, or all alike.
    """
    by = str(settings.held_out)
    # Places in the order of the input are no cells, of which some may mean missing.
    text, seen = mixed.parse(pa.array(cells, pa.string()), () if by == LAST else settings.missing)
    rules, unclear = column_rules({by: seen}, settings)
    if unclear:
        raise InputError(unclear_faults("the data", unclear, settings))
    time = mixed.numbers(text, rules[by])[0]
    timed = labelled & ~np.isnan(time)
    last = np.quantile(time[timed], 1.0 - HELD_OUT, method="lower") if timed.any() else np.inf
    held_out = timed & (time > last)
    if rules[by].kind == CATEGORY or not held_out.any():
        raise InputError.of(
            "settings", f"{LAST}, or a column of dates or numbers that differ", by, "held_out"
        )
    sentence = f"The last {held_out.sum():,} bags by {by} are held out"
    if without := int(np.count_nonzero(labelled & ~timed)):
        sentence += f"; {without:,} without it are fitted"
    return held_out, [f"{sentence}."]


def _bag_columns(
    index: int, paths: RunPaths, settings: BagSettings
) -> tuple[NDArray[np.generic], ...]:
    """Return of each bag a digest of its group, its print, its label, whether it is drawn to be
    held out, and its time."""
    rows = storage.read_table(paths.part("bag_rows", index))
    time = rows["time"]
    if settings.held_out == LAST:
        time = (rows["place"].to_numpy() + index * 2**32).astype(str)
    return (
        digests_of(rows["group"].to_pylist()),
        rows["print"].to_numpy(),
        rows["label"].cast("int64").fill_null(UNLABELLED).to_numpy(),
        rows["held_out"].to_numpy(zero_copy_only=False),
        np.asarray(time, object),
    )


def _said_of_copies(
    prints: IntArray, label: IntArray, sizes: Sequence[int], paths: RunPaths
) -> list[str]:
    """Say which bags are exact copies of others, and of how many the labels differ."""
    _, first, group, count = np.unique(
        prints, return_index=True, return_inverse=True, return_counts=True
    )
    copied = (count[group] > 1) & (prints != 0)
    if not copied.any():
        return []
    example = int(np.flatnonzero(copied)[0])
    pair = np.flatnonzero(group == group[example])[:2].tolist()
    ends = np.cumsum(sizes)
    names = []
    for bag in pair:
        part = int(np.searchsorted(ends, bag, side="right"))
        ids = storage.read_table(paths.part("bag_rows", part), ["bag_id"])["bag_id"]
        names.append(ids[bag - int(ends[part]) + sizes[part]].as_py())
    text = (
        f"{int(copied.sum()):,} bags are exact copies of one another ({names[0]} and "
        f"{names[1]}, say), held out together."
    )
    low, high = (np.full(len(first), value) for value in (2, -1))
    known = copied & (label >= 0)
    np.minimum.at(low, group[known], label[known])
    np.maximum.at(high, group[known], label[known])
    if differ := int(np.count_nonzero((low == 0) & (high == 1))):
        text += f" {differ:,} of these have copies with the other label."
    return [text]


def instance_prints(data: Bags) -> pa.Table:
    """Return a number of what each instance is, equal for copies, and its bag's number."""
    prints, bag = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
    for k, instances in enumerate(data.modalities):
        if instances.n_features:
            prints.append(row_hash(instances.features.astype(float), k))
            bag.append(instances.bag)
    return pa.table({"print": np.concatenate(prints), "bag": np.concatenate(bag)})


def said_of_copied_instances(count: int, paths: RunPaths, each: Each) -> list[str]:
    """Say how many instances are exact copies of others, and in how many bags they are."""
    tables = each(storage.read_table, [paths.part("prints", index) for index in range(count)])
    prints, bag = (
        np.concatenate([table[name].to_numpy() for table in tables]) for name in ("print", "bag")
    )
    part = np.repeat(np.arange(count), [len(table) for table in tables])
    _, group, times = np.unique(prints, return_inverse=True, return_counts=True)
    copied = times[group] > 1
    if not copied.any():
        return []
    bags = len(np.unique(np.column_stack([part, bag])[copied], axis=0))
    return [
        f"{np.count_nonzero(copied):,} of {copied.size:,} instances, in {bags:,} bags, are exact "
        "copies of others."
    ]
