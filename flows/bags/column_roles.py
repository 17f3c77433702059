"""The table of columns of a run's bags, and columns that are the same in all rows of a bag."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa

from flows.bags import input_columns
from flows.bags.input_columns import (
    OWN,
    FoundColumn,
    bags_of,
    codes_of,
    names_of_rows,
    others_in,
    read_given,
)
from flows.bags.settings import BagSettings
from flows.data import mixed
from flows.data.arrow_types import is_number
from flows.data.column_table import FEATURE, suggestions
from flows.data.mixed import CATEGORY, FLAG, NUMBER
from flows.data.storage import InputFile
from flows.data.table import matches
from vbmodels.core.cells import number_of
from vbmodels.core.column_table import ColumnRead, column_read
from vbmodels.core.columns import Rule
from vbmodels.core.state import IntArray

FEWEST_GROUPS = 10
"""Values of a column of numbers that may be names of groups: fewer are a grade or a stage."""
REPEATS = 8
"""Bags beyond one a value from which values that decide all labels do so by no chance."""


def describe(
    file: InputFile,
    settings: BagSettings,
    gaps: Mapping[str, tuple[int, bool]],
    labels: Sequence[int],
    constant: Collection[str],
) -> tuple[tuple[ColumnRead, ...], list[str]]:
    """Return the table of columns of the first file, and what to say of them.

    Parameters
    ----------
    file
        The file.
    settings
        The settings.
    gaps
        Missing values of each feature, and whether it has a column for them.
    labels
        Bags with the labels 0 and 1 that are fitted.
    constant
        Features that have one value.
    """
    own = {theirs: ours for ours, theirs in settings.columns.items()}
    rows: list[ColumnRead] = []
    header = read_given(file.url, settings, 0)
    given = read_given(file.url, settings, input_columns.LOOKED)
    found = others_in(file, given, settings)
    features = settings.columns.get("features", "")
    for name in header.column_names:
        if name in OWN:
            theirs = settings.columns.get(name, name)
            rows.append(_own_column(name, theirs, header[name].type, settings, labels))
    used: list[str] = []
    for name, one in found.items():
        is_feature = bool(features) and matches(name, features)
        role = own.get(name, FEATURE if is_feature else "")
        if is_feature and name in constant:
            role = "left out: constant"
        why = names_of_rows(name, one, settings) if not is_feature else ""
        if not role:
            role = f"left out: {why or _plain_kind(one.rule)}"
        row = column_read(name, one.rule, one.seen, one.levels, role)
        filled, _ = gaps.get(name, (0, False))
        rows.append(row if not filled else ColumnRead(**{**row.as_json(), "missing": filled}))
        used += [name] if is_feature else []
    warnings = suggestions({n: one.seen for n, one in found.items()}, {}, used)
    warnings += _on_bags(given, found, used, settings)
    return tuple(rows), warnings


def _own_column(
    name: str, theirs: str, kind: pa.DataType, settings: BagSettings, labels: Sequence[int]
) -> ColumnRead:
    """Describe a column with a role of ours."""
    if name != "label":
        return ColumnRead(theirs, _type(kind), 0, "", name)
    if settings.numeric:
        held = f"{sum(labels):,} bags are fitted"
        if settings.label_order:
            held += f"; {' < '.join(settings.label_order)}"
            return ColumnRead(theirs, "ordered category", 0, held, "label: the level is predicted")
        return ColumnRead(theirs, "number", 0, held, "label: the number is predicted")
    held = f"{labels[1]:,} positive, {labels[0]:,} negative bags"
    role = f"label: positive is {settings.positive_word}"
    return ColumnRead(theirs, "yes/no", 0, held, role)


def _type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return "list of numbers"
    return "number" if is_number(kind) else "text"


def _plain_kind(rule: Rule) -> str:
    return {CATEGORY: "text", FLAG: "yes/no", NUMBER: "not named as a feature"}.get(
        rule.kind, rule.kind
    )


def _on_bags(
    given: pa.Table, found: dict[str, FoundColumn], used: Sequence[str], settings: BagSettings
) -> list[str]:
    """Say which columns are the same in all rows of a bag: groups of bags, or labels."""
    if "bag_id" not in given.column_names:
        return []
    bag, first = bags_of(given)
    bags = len(first)
    if bags < 4 or len(bag) == bags:
        return []
    same: dict[str, IntArray] = {}
    for name, one in found.items():
        codes = codes_of(one)
        if (codes == codes[first][bag]).all():
            same[name] = np.unique(codes[first], return_inverse=True)[1]
    said = []
    counts = {name: int(codes.max()) + 1 for name, codes in same.items()}
    groups = [
        name
        for name, values in counts.items()
        if 2 < values <= 0.8 * bags
        and name not in set(settings.columns.values()) - {settings.columns.get("features")}
        and (name not in used or (_whole(found[name]) and values >= FEWEST_GROUPS))
    ]
    groups = [] if "group" in settings.columns or "group" in given.column_names else groups
    label = _labels_of(given, first)
    decide = [name for name in groups if _decides(same[name], label)]
    if decide:
        name = max(decide, key=lambda one: counts[one])
        said.append(
            f"{name} has one label per value ({counts[name]:,} values in {bags:,} bags): set "
            f"--column group={name}, so that bags of one {name} are left out together; figures on "
            "held-out bags are too good otherwise."
        )
    constant = [name for name in used if counts.get(name, 0) > 1 and name not in decide]
    if constant:
        said.append(
            f"{', '.join(constant)}: one value in every bag. If they are labels or outcomes rather "
            f"than measurements of the bag, --exclude {','.join(constant)}."
        )
    groups = [name for name in groups if name not in used]
    if groups and not decide:
        name = max(groups, key=lambda one: counts[one])
        said.append(
            f"Column {name} repeats: {counts[name]:,} values in {bags:,} bags. If bags of one "
            f"{name} are alike, figures on held-out bags are too good: --column group={name} holds "
            f"all bags of one {name} out together."
        )
    return said


def _whole(one: FoundColumn) -> bool:
    """Whether a column of numbers has whole ones alone, as numbers of patients are."""
    numbers = [number_of(text, one.rule.decimal) for text in one.levels.counts]
    return all(number is not None and number % 1.0 == 0.0 for number in numbers)


def _labels_of(given: pa.Table, first: IntArray) -> IntArray:
    """Return a number of each bag's label, by its first row; -1 where it is missing."""
    if "label" not in given.column_names:
        return np.full(len(first), -1)
    cells = mixed.texts(mixed.taken(given["label"])[0])
    return cells.dictionary_encode().indices.fill_null(-1).to_numpy()[first]


def _decides(codes: IntArray, label: IntArray) -> bool:
    """Whether values [bags] decide the labels, where that is no chance: they repeat often."""
    known = label >= 0
    pairs = np.unique(np.column_stack([codes, label])[known], axis=0)
    values = len(np.unique(codes[known]))
    varied = len(np.unique(label[known])) > 1
    repeats = int(np.count_nonzero(known)) - values
    return varied and len(pairs) == values and repeats >= REPEATS
