"""The table of columns of a run's bags, and columns that are the same in all rows of a bag."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa

from flows.bags.input import input_columns
from flows.bags.input.input_columns import (
    OWN,
    FoundColumn,
    bags_of,
    codes_of,
    lists_in,
    names_of_rows,
    others_in,
    places_in,
    read_given,
)
from flows.bags.settings import BagSettings
from flows.storage import InputFile
from flows.tables import mixed
from flows.tables.cells import is_number
from flows.tables.column_table import FEATURE, suggestions
from flows.tables.mixed import CATEGORY, FLAG, NUMBER
from flows.tables.names import listed
from flows.tables.table import matches
from vbmodels.core.column_table import ColumnRead, column_read
from vbmodels.core.columns import Rule

NOT_NAMED = "not named as a feature"


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
    lists = {n: width for n, width in lists_in(file, settings).items() if n not in OWN}
    for name, width in lists.items():
        role = FEATURE if matches(name, features) else f"left out: {NOT_NAMED}"
        rows.append(ColumnRead(name, "list of numbers", 0, f"{width} numbers", role))
    for name in header.column_names:
        if name not in (*OWN, *lists, *found) and pa.types.is_nested(header[name].type):
            kind = str(header[name].type)
            rows.append(ColumnRead(name, kind, 0, "", f"left out: {kind}"))
    places = places_in(given, found, settings)
    for name, one in found.items():
        if name in lists:
            continue
        is_feature = bool(features) and matches(name, features)
        role = own.get(name, FEATURE if is_feature else "")
        if is_feature and name in constant:
            role = "left out: constant"
        if not role:
            why = names_of_rows(name, one, settings) or places.get(name)
            role = f"left out: {why or _plain_kind(one.rule)}"
        row = column_read(name, one.rule, one.seen, one.levels, role)
        filled, _ = gaps.get(name, (0, False))
        rows.append(row if not filled else ColumnRead(**{**row.as_json(), "missing": filled}))
        used += [name] if is_feature else []
    warnings = suggestions({n: one.seen for n, one in found.items()}, {}, used)
    warnings += _constant_in_bags(given, found, used)
    warnings += _copied_columns(found, used)
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
    return {CATEGORY: "text", FLAG: "yes/no", NUMBER: NOT_NAMED}.get(rule.kind, rule.kind)


def _constant_in_bags(
    given: pa.Table, found: dict[str, FoundColumn], used: Sequence[str]
) -> list[str]:
    """Say which features are the same in all rows of a bag."""
    if "bag_id" not in given.column_names:
        return []
    bag, first = bags_of(given)
    if len(first) < 4 or len(bag) == len(first):
        return []
    codes = {name: codes_of(found[name]) for name in used}
    constant = [
        name
        for name, one in codes.items()
        if (one == one[first][bag]).all() and np.unique(one[first]).size > 1
    ]
    if not constant:
        return []
    return [
        f"{', '.join(constant)}: one value in every bag. If that is a label or outcome, "
        f"--exclude {','.join(constant)}."
    ]


def _copied_columns(found: dict[str, FoundColumn], used: Sequence[str]) -> list[str]:
    """Say which features have the cells of another one."""
    first: dict[bytes, str] = {}
    copies = []
    for name in used:
        if found[name].rule.kind != NUMBER:
            continue
        values, _ = mixed.numbers(found[name].cells, found[name].rule)
        if (original := first.setdefault(values.tobytes(), name)) != name:
            copies.append(f"{name} (of {original})")
    return [f"Copied columns count twice: {listed(copies, 8)}."] if copies else []
