"""Which bags belong together, by a column or by the beginning of their names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from flows import storage
from flows.bags.input.input_columns import (
    LOOKED,
    FoundColumn,
    bags_of,
    codes_of,
    others_in,
    read_given,
)
from flows.bags.settings import HELD_OUT, BagSettings
from flows.storage import InputFile
from flows.tables import mixed
from flows.tables.mixed import CATEGORY, NUMBER
from flows.tables.table import matches
from vbmodels.bags.shared_labels import (
    find_group_parts,
    first_parts,
    is_measured,
    measure_agreement,
    repeats_enough,
)
from vbmodels.core.cells import number_of
from vbmodels.core.state import IntArray

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
        found = self.labels if column == "label" else self.cells[column]
        texts = [found.get(bag) for bag in self.labels]
        given = list(dict.fromkeys(text for text in texts if text is not None))
        numbers = [number_of(text) for text in given]
        values = np.array([text.casefold() for text in given])
        if None not in numbers:
            values = np.array(numbers, float)
        places = np.unique(values, return_inverse=True)[1].tolist()
        place = dict(zip(given, places, strict=True))
        return np.array([-1 if text is None else place[text] for text in texts], np.int64)


def with_groups(files: Sequence[InputFile], settings: BagSettings) -> BagSettings:
    """Return the settings with what groups bags, and the share that is held out by default."""
    schema = read_given(files[0].url, settings, 0).schema
    is_open = "group" not in schema.names and settings.group_parts is None
    if not is_open and settings.held_out is not None:
        return settings
    candidates = _candidates(files[0], settings) if is_open else {}
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
    bags: LabelledBags, candidates: dict[str, FoundColumn], settings: BagSettings
) -> BagSettings:
    """Return the settings with the group by which labels agree most."""
    label = bags.codes_of("label")
    parts, clearest = find_group_parts(list(bags.labels), label)
    column = ""
    for name, one in candidates.items():
        found = _measure_column(name, one, bags.codes_of(name), label)
        if found and found >= clearest:
            column, clearest = name, found
    if not column:
        return settings.model_copy(update={"group_parts": parts})
    columns = type(settings.columns)({**settings.columns, "group": column})
    return settings.model_copy(update={"group_parts": 0, "columns": columns})


def _candidates(file: InputFile, settings: BagSettings) -> dict[str, FoundColumn]:
    """Return the columns of text, and of whole numbers, that have one value in each bag."""
    every = settings.model_copy(update={"include": ()})
    given = read_given(file.url, every, LOOKED)
    if "bag_id" not in given.column_names:
        return {}
    bag, first = bags_of(given)
    features = settings.columns.get("features", "")
    found = {}
    for name, one in others_in(file, given, every).items():
        codes = codes_of(one)
        same = bool((codes == codes[first][bag]).all())
        whole = one.rule.kind == NUMBER and not one.seen.fractions
        if same and (whole or one.rule.kind == CATEGORY) and not matches(name, features):
            found[name] = one
    return found


def _measure_column(name: str, one: FoundColumn, group: IntArray, label: IntArray) -> float:
    """Return how clearly a column names groups of bags, 0 where it does not."""
    if _GROUP_NAME.fullmatch(name.strip()):
        return np.inf if repeats_enough(group) else 0.0
    if group.max(initial=-1) < FEWEST_VALUES - 1:
        return 0.0
    if one.rule.kind == NUMBER and is_measured(group, label):
        return 0.0
    return measure_agreement(group, label)


def _read_labelled_bags(
    files: Sequence[InputFile], others: Sequence[str], settings: BagSettings
) -> LabelledBags:
    """Read the first bags with a label, and their cells in other columns; a bag may be in files."""
    found = LabelledBags(cells={name: {} for name in others})
    roles = {name: settings.columns.get(name, name) for name in ("bag_id", "label", *others)}
    for file in files:
        parquet = storage.parquet_file(file.url)
        there = {role: name for role, name in roles.items() if name in parquet.schema_arrow.names}
        if "bag_id" not in there:
            continue
        for batch in storage.read_batches(
            file.url, LOOKED, list(dict.fromkeys(there.values())), parquet.metadata
        ):
            rows = pa.Table.from_batches([batch])
            texts = {
                role: mixed.texts(mixed.taken(rows[name], settings.missing)[0])
                for role, name in there.items()
            }
            keys = [(role, "first") for role in texts if role != "bag_id"]
            table = pa.table(texts).group_by("bag_id", use_threads=False).aggregate(keys)
            ids = table["bag_id"].to_pylist()
            for role, _ in keys:
                of = found.labels if role == "label" else found.cells[role]
                cells = zip(ids, table[f"{role}_first"].to_pylist(), strict=True)
                for bag, cell in cells:
                    if bag is not None and cell is not None:
                        of.setdefault(bag, cell)
            if len(found.labels) >= MOST_BAGS:
                return found
    return found
