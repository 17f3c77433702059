"""What settings leave open and the input says: which columns are features, which label is positive.

Columns of numbers that are nothing else are the features; of two labels the positive one is known
by its word. What was found is a setting of the run, so that new data are read in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from shlex import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flows import storage
from flows.bags.schema import INSTANCES_IN
from flows.bags.settings import NUMBER_MODELS, BagSettings
from flows.faults import InputError
from flows.storage import InputFile, StorageError
from flows.tables import mixed, reading
from flows.tables.cells import is_number, is_text
from flows.tables.column_rules import column_rules
from flows.tables.levels import count_levels
from flows.tables.mixed import CATEGORY, FLAG, NUMBER
from flows.tables.names import row_of
from flows.tables.table import levels_by_column, matches
from vbmodels.bags.places import find_places, is_called_place
from vbmodels.core.cells import number_of
from vbmodels.core.columns import Rule, Unclear, names_rows
from vbmodels.core.levels import NO, YES, Levels, positive_of
from vbmodels.core.scales import scale_of
from vbmodels.core.seen import Seen
from vbmodels.core.state import IntArray

LOOKED = 20_000
"""Rows of the first file that say what its columns hold."""
FILES = 20
"""Files whose labels are looked at."""
MOST_GRADES = 10
"""Values of a label up to which whole numbers are classes."""
MOST_FRACTIONS = 3
"""Values up to which those with fractions are."""
LEAST_LEVELS, MOST_ORDERED = 3, 7
"""Levels of a label from which on, and up to which, they are taken as ordered."""
MOST_LEVELS = 20
"""Levels of a column of text beyond which it is no feature."""
MOST_AXES = 3
"""Numbers of a list up to which these may be coordinates."""
FEWEST_ROWS = 5
"""Rows with a level from which it is a feature."""

OWN = tuple(column.name for column in INSTANCES_IN.columns)


@dataclass(frozen=True)
class FoundColumn:
    """A column of the first file that is none of ours: how it is read, and its first cells."""

    rule: Rule
    seen: Seen
    levels: Levels
    cells: pa.Array
    unclear: Unclear | None = None


def settings_from_input(files: Sequence[InputFile], settings: BagSettings) -> BagSettings:
    """Return the settings with features and positive label as the input says.

    Raises
    ------
    InputError
        If labels are not of two classes.
    """
    try:
        schema = read_given(files[0].url, settings, 0).schema
        if "features" not in schema.names and "features" not in settings.columns:
            names = list(lists_in(files[0], settings))
            names += feature_names(files[0], settings)
            names += categories_of(files[0], settings)
            if names:
                together = ",".join(name.replace(",", "?") for name in names)
                columns = {**settings.columns, "features": together}
                settings = settings.model_copy(update={"columns": type(settings.columns)(columns)})
        if not settings.levels and "features" in settings.columns:
            settings = _with_levels(files[0], settings)
        texts = {one.name for one in schema if is_text(one.type)}
        if not settings.decimal_comma and texts - (set(OWN) - {"label"}):
            settings = _with_commas(files, settings)
        return _with_positive(files, settings)
    except StorageError:
        return settings  # the check says it


def names_of_features(file: InputFile, settings: BagSettings) -> list[str]:
    """Return the columns that are features, in their order; none where lists hold them."""
    wanted = settings.columns.get("features", "")
    schema = read_given(file.url, settings, 0).schema
    if not wanted or "features" in schema.names:
        return []
    levels = levels_by_column(settings.levels)
    lists = lists_in(file, settings)
    if wanted in lists:
        return []
    found: list[str] = []
    for name in schema.names:
        if not matches(name, wanted):
            continue
        if name in lists:
            found += [f"{name} {i + 1}" for i in range(lists[name])]
        else:
            found += [f"{name}={level}" for level in levels[name]] if name in levels else [name]
    return found


def lists_in(file: InputFile, settings: BagSettings) -> dict[str, int]:
    """Return how many numbers the columns of lists have that have no role of ours."""
    parquet = storage.parquet_file(file.url)
    roles = {settings.columns.get(name, name) for name in OWN if name != "features"}
    names = [
        one.name
        for one in parquet.schema_arrow
        if (is_text(one.type) or pa.types.is_nested(one.type))
        and one.name not in roles
        and not any(matches(one.name, left) for left in settings.exclude)
        and (not settings.include or any(matches(one.name, kept) for kept in settings.include))
    ]
    batch = None
    if names:
        batch = next(storage.read_batches(file.url, 50, names, parquet.metadata), None)
    if batch is None:
        return {}
    rows = pa.Table.from_batches([batch])
    lengths = {n: reading.length_of_lists(rows[n], settings.list_separator) for n in names}
    return {
        name: length
        for name, length in lengths.items()
        if length > MOST_AXES or (length and not is_called_place(name))
    }


def categories_of(file: InputFile, settings: BagSettings) -> list[str]:
    """Return the columns of text that may be features: of few levels, which vary within bags."""
    given = read_given(file.url, settings, LOOKED)
    if "bag_id" not in given.column_names:
        return []
    bag, first = bags_of(given)
    found = []
    for name, one in others_in(file, given, settings).items():
        codes = codes_of(one)
        varies = bool((codes != codes[first][bag]).any())
        few = len(_kept_levels(one)) > 1 and len(one.levels.counts) <= MOST_LEVELS
        if one.rule.kind in (CATEGORY, FLAG) and few and varies and "=" not in name:
            found.append(name)
    return found


def _kept_levels(one: FoundColumn) -> list[str]:
    return sorted(name for name, count in one.levels.counts.items() if count >= FEWEST_ROWS)


def _with_levels(file: InputFile, settings: BagSettings) -> BagSettings:
    """Return the settings with the levels of the features that are text."""
    wanted = settings.columns["features"]
    levels = [
        f"{name}={level}"
        for name, one in other_columns(file, settings).items()
        if matches(name, wanted) and one.rule.kind in (CATEGORY, FLAG) and "=" not in name
        if not any(settings.list_separator in level for level in one.levels.counts)
        for level in _kept_levels(one)
    ]
    return settings.model_copy(update={"levels": tuple(levels)})


def _with_commas(files: Sequence[InputFile], settings: BagSettings) -> BagSettings:
    """Return the settings with the features, and the label, whose numbers have a decimal comma."""
    wanted = settings.columns.get("features", "")
    names = [
        name
        for name, one in other_columns(files[0], settings).items()
        if matches(name, wanted) and one.rule.kind == NUMBER and one.rule.decimal == ","
    ]
    label = settings.columns.get("label", "label")
    seen = sum((_label_cells(file, label, settings) for file in files[:FILES]), Seen())
    rules, _ = column_rules({label: seen}, settings)
    if rules[label].kind == NUMBER and rules[label].decimal == ",":
        names.append(label)
    return settings.model_copy(update={"decimal_comma": tuple(names)})


def _label_cells(file: InputFile, name: str, settings: BagSettings) -> Seen:
    """Return what a file's labels hold, where they are text."""
    parquet = storage.parquet_file(file.url)
    place = parquet.schema_arrow.get_field_index(name)
    if place < 0 or not is_text(parquet.schema_arrow.field(place).type):
        return Seen()
    column = storage.read_table(file.url, [name])
    semicolons = reading.separator_of(parquet.schema_arrow) == ";"
    return mixed.taken(column[name], settings.missing, semicolons)[1]


def other_levels(file: InputFile, settings: BagSettings) -> list[str]:
    """Say which levels of a file's first rows are no features, with their counts."""
    levels = levels_by_column(settings.levels)
    if not levels:
        return []
    said = []
    for name, one in other_columns(file, settings).items():
        counts = one.levels.counts
        others = sorted(set(counts) - set(levels.get(name, counts)))
        if others:
            listed = ", ".join(f"{level} ({counts[level]:,})" for level in others[:8])
            said.append(f"Levels of {name} that are no features (rows): {listed}.")
    return said


def read_given(url: str, settings: BagSettings, rows: int) -> pa.Table:
    """Return the first rows of a file by our names, without lists; patterns stay single columns.

    Where a file has no other columns than ours, no rows are read.
    """
    file = storage.parquet_file(url)
    schema = file.schema_arrow
    of_lists = ("features", "bag_features")
    mapped = {name if name in of_lists else settings.columns.get(name, name) for name in OWN}
    kept = [one.name for one in schema if not pa.types.is_nested(one.type)]
    others = [name for name in kept if name not in mapped]
    found = schema.empty_table()
    if rows and others:
        ours = [settings.columns.get(name, name) for name in ("bag_id", "label")]
        names = [*others, *(name for name in kept if name in ours)]
        batch = next(storage.read_batches(url, rows, names, file.metadata), None)
        if batch is not None:
            found = pa.Table.from_batches([batch]).replace_schema_metadata(schema.metadata)
    single = {k: v for k, v in settings.columns.items() if k not in ("features", "bag_features")}
    plain = settings.model_copy(update={"columns": type(settings.columns)(single)})
    return reading.given(INSTANCES_IN.of(plain), found)


def feature_names(file: InputFile, settings: BagSettings) -> list[str]:
    """Return the columns of a file that are numbers and say what instances are like.

    Those that say where instances are count only where there are no others.
    """
    given = read_given(file.url, settings, LOOKED)
    found = others_in(file, given, settings)
    names = []
    for name, one in found.items():
        if one.unclear is not None:
            leave = f"leave the column out (--exclude {name})"
            remedy = f"{one.unclear.remedy.rpartition(', or ')[0]}, or {leave}"
            if not one.unclear.has_odd:
                remedy = f"{one.unclear.remedy.replace('COLUMN', name)}, or {leave}"
            raise InputError.of(
                file=file.url, column=name, expected=one.unclear.expected,
                found=one.unclear.found, remedy=remedy,
            )  # fmt: skip
        if one.rule.kind == NUMBER and not names_of_rows(name, one, settings):
            names.append(name)
    places = places_in(given, found, settings)
    return [name for name in names if name not in places] or names


def places_in(
    given: pa.Table, found: Mapping[str, FoundColumn], settings: BagSettings
) -> dict[str, str]:
    """Return the columns of numbers that say where instances are, with why; none included."""
    if "bag_id" not in given.column_names or not len(given):
        return {}
    bag, _ = bags_of(given)
    whole = bag != bag[-1] if len(bag) == LOOKED else np.ones(len(bag), bool)
    columns = {
        name: mixed.numbers(one.cells, one.rule)[0][whole]
        for name, one in found.items()
        if one.rule.kind == NUMBER and name not in settings.include
    }
    return find_places(columns, bag[whole])


def names_of_rows(name: str, one: FoundColumn, settings: BagSettings) -> str:
    """Say that a column has names or numbers of rows; empty where it has none or is included."""
    if name in settings.include:
        return ""
    return names_rows(name, one.seen, len(one.levels.counts), one.rule.kind)


def other_columns(file: InputFile, settings: BagSettings) -> dict[str, FoundColumn]:
    """Return what the first rows of a file hold in columns that are none of ours."""
    return others_in(file, read_given(file.url, settings, LOOKED), settings)


def others_in(file: InputFile, given: pa.Table, settings: BagSettings) -> dict[str, FoundColumn]:
    """Return the columns of some rows that have no role of ours."""
    semicolons = reading.separator_of(given.schema) == ";"
    names = [
        name
        for name in given.column_names
        if name not in OWN
        and (is_text(given[name].type) or is_number(given[name].type) or _single(given[name]))
        and (not settings.include or any(matches(name, one) for one in settings.include))
    ]
    where = row_of(file.url)
    taken = {name: mixed.taken(given[name], settings.missing, semicolons, where) for name in names}
    rules, unclear = column_rules({name: seen for name, (_, seen) in taken.items()}, settings)
    return {
        name: FoundColumn(
            rules[name], seen, count_levels(mixed.texts(cells)), cells, unclear.get(name)
        )
        for name, (cells, seen) in taken.items()
    }


def _single(column: pa.ChunkedArray) -> bool:
    kind = column.type
    return bool(
        pa.types.is_boolean(kind) or pa.types.is_dictionary(kind) or pa.types.is_temporal(kind)
    )


def _with_positive(files: Sequence[InputFile], settings: BagSettings) -> BagSettings:
    """Return the settings with the positive label, where words of two labels say it."""
    open_order = settings.target == "ordered" and not settings.label_order
    if settings.positive or (settings.threshold is not None and not open_order):
        return settings
    theirs = settings.columns.get("label", "label")
    if any(name == theirs and own != "label" for own, name in settings.columns.items()):
        return settings
    labels: Counter[str] = Counter()
    for file in files[:FILES]:
        parquet = storage.parquet_file(file.url)
        if theirs not in parquet.schema_arrow.names:
            continue
        kind = parquet.schema_arrow.field(theirs).type
        if not (is_text(kind) or is_number(kind) or pa.types.is_dictionary(kind)):
            if settings.target in ("number", "ordered"):
                raise InputError.of(
                    file=file.url, column=theirs,
                    expected=f"numbers or levels (target={settings.target})", found=str(kind),
                    remedy="take target=auto, or name another column (--column label=YOURS)",
                )  # fmt: skip
            return settings.written(["true"]) if pa.types.is_boolean(kind) else settings
        if _only_bits(parquet, theirs) and not settings.numeric:
            continue
        column = storage.read_table(file.url, [theirs])[theirs]
        if column.null_count == len(column):
            continue
        cells = mixed.texts(mixed.taken(column, settings.missing)[0])
        for one in cells.drop_null().value_counts():
            labels[one["values"].as_py()] += one["counts"].as_py()
        if len(labels) > 1000:
            break
    spelt = {label.lower(): label for label, _ in reversed(labels.most_common())}
    names = sorted(spelt.values())
    if (order := _order_of(names, settings)) or settings.target == "ordered":
        return _with_order(files, theirs, names, order, settings)
    decimal = "," if theirs in settings.decimal_comma else "."
    numbers = [number_of(name, decimal) for name in names]
    if names and (settings.numeric or (settings.target == "auto" and _is_number(numbers))):
        return _with_number(files, theirs, numbers, settings)
    if not names or all(name.lower() in (*YES, *NO) for name in names):
        return settings.written([name for name in names if name.lower() in YES])
    word = positive_of(names) if len(names) == 2 else None
    if names == ["-1", "1"]:
        word = "1"
    if word:
        return settings.model_copy(update={"positive": (word,)})
    raise _refusal(files, theirs, names, numbers)


def _order_of(names: Sequence[str], settings: BagSettings) -> tuple[str, ...]:
    """Return the labels as levels in their order; none where they are not in one."""
    if settings.target == "ordered" and settings.label_order:
        return settings.label_order
    many = not LEAST_LEVELS <= len(names) <= MOST_ORDERED
    if settings.target not in ("auto", "ordered") or settings.model not in NUMBER_MODELS or many:
        return ()
    found = scale_of(names)
    return () if found is None else found.levels


def _with_order(
    files: Sequence[InputFile], column: str, names: Sequence[str], order: Sequence[str],
    settings: BagSettings,
) -> BagSettings:  # fmt: skip
    """Return the settings of labels that are levels in an order."""
    odd = sorted(set(names) - set(order))
    if not order or odd or len(order) < LEAST_LEVELS:
        listed = ", ".join(odd[:8] or names[:8])
        raise InputError.of(
            file=files[0].url if len(files) == 1 else f"{len(files)} files",
            column=column,
            expected=f"levels in an order: {', '.join(order) or 'of a known scale'}",
            found=listed or "no label",
            remedy="name three levels or more, the lowest first: --set "
            "label_order=[low,medium,high]",
        )
    half = 1.0 + len(order) // 2 if settings.threshold is None else settings.threshold
    update = {"target": "ordered", "label_order": tuple(order), "threshold": half}
    return settings.model_copy(update=update)


def _is_number(numbers: Sequence[float | None]) -> bool:
    """Say whether labels are numbers to predict and no classes."""
    values = [one for one in numbers if one is not None]
    fractions = any(one % 1.0 for one in values)
    most = MOST_FRACTIONS if fractions else MOST_GRADES
    return len(values) == len(numbers) and len(values) > most


def _with_number(
    files: Sequence[InputFile], column: str, numbers: Sequence[float | None], settings: BagSettings
) -> BagSettings:
    """Return the settings of a label that is a number, with what halves its values."""
    values = sorted({one for one in numbers if one is not None})
    where = files[0].url if len(files) == 1 else f"{len(files)} files"
    if len(values) < 2:
        raise InputError.of(
            file=where, column=column, expected="numbers that differ (target=number)",
            found=f"{values[0]:g} alone" if values else "no number",
            remedy="name the column of numbers (--column label=YOURS)",
        )  # fmt: skip
    if settings.model not in NUMBER_MODELS:
        raise InputError.of(
            file=where,
            column=column,
            expected=f"labels of two classes with model={settings.model}",
            found=f"{len(values):,} different numbers from {values[0]:g} to {values[-1]:g}",
            remedy="take model=auto, or say from which number on a bag is positive: --set "
            f"threshold={np.median(values):g} (the middle)",
        )
    half = {"target": "number", "threshold": values[len(values) // 2]}
    return settings.model_copy(update=half)


def _only_bits(file: pq.ParquetFile, name: str) -> bool:
    """Whether a file's footer says that a column has no other numbers than 0 and 1."""
    place = file.schema_arrow.get_field_index(name)
    if not pa.types.is_integer(file.schema_arrow.field(name).type):
        return False
    if any(pa.types.is_nested(one.type) for one in list(file.schema_arrow)[:place]):
        place = next((i for i, path in enumerate(file.schema.names) if path == name), place)
    for number in range(file.metadata.num_row_groups):
        found = file.metadata.row_group(number).column(place).statistics
        if found is None or not found.has_min_max or found.min < 0 or found.max > 1:
            return False
    return True


def _refusal(
    files: Sequence[InputFile], column: str, names: Sequence[str], numbers: Sequence[float | None]
) -> InputError:
    """Say what labels are there, and how each kind of them can be fitted."""
    where = files[0].url if len(files) == 1 else f"{len(files)} files"
    listed = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    one = f"--set {quote(f'positive={names[-1]}')} fits {names[-1]} against the others"
    odd = [name for name, number in zip(names, numbers, strict=True) if number is None]
    if 0 < len(odd) < len(names) / 2 and len(names) - len(odd) > MOST_FRACTIONS:
        return InputError.of(
            file=where,
            column=column,
            expected="numbers, as most labels are",
            found=f"{', '.join(odd[:8])} ({len(odd)} of {len(names)} different labels)",
            remedy="correct these, or name words for missing labels: --set missing=...",
        )
    if None not in numbers and len(names) > 2:
        grades = [name for _, name in sorted(zip(numbers, names, strict=True))]
        found = f"{len(names)} grades: {', '.join(grades)}"
        remedy = (
            "say from which grade on a bag is positive: --set "
            f"threshold={grades[len(grades) // 2]}, or {one}; --set target=number predicts the "
            "number"
        )
    elif len(names) == 1:
        found = f"{names[0]} alone"
        remedy = "give bags of both classes, or name another column (--column label=YOURS)"
    elif len(names) == 2:
        found = f"{names[0]} and {names[1]}"
        remedy = f"say which one is positive: --set {quote(f'positive={names[1]}')}"
    else:
        found = f"{len(names)} classes: {listed}"
        remedy = (
            f"{one}, --set {quote(f'positive={names[-2]},{names[-1]}')} these two; --column "
            f"{quote(f'labels={column}')} --set model=gp_probit fits each class; levels in an "
            "order: --set target=ordered --set label_order=[LOWEST,...,HIGHEST]"
        )
    return InputError.of(
        file=where,
        column=column,
        expected="labels of two classes: 1 and 0, or yes and no",
        found=found,
        remedy=remedy,
    )


def bags_of(given: pa.Table) -> tuple[IntArray, IntArray]:
    """Return the number of each row's bag, and the first row of each bag."""
    coded = mixed.texts(mixed.taken(given["bag_id"])[0]).dictionary_encode()
    bag = coded.indices.fill_null(0).to_numpy()
    first = np.full(len(coded.dictionary), -1)
    first[bag[::-1]] = np.arange(len(bag))[::-1]
    return bag, first


def codes_of(one: FoundColumn) -> IntArray:
    """Return a number of each cell's value, -1 where it is missing."""
    codes: IntArray = mixed.texts(one.cells).dictionary_encode().indices.fill_null(-1).to_numpy()
    return codes
