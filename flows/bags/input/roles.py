"""The roles of columns: features, as settings or the input say, and what became of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from flows import storage
from flows.bags.input.labels import FILES, with_positive
from flows.bags.schema import INSTANCES_IN
from flows.bags.settings import BagSettings
from flows.faults import InputError
from flows.storage import InputFile, StorageError
from flows.tables import mixed, reading
from flows.tables.cells import is_list, is_number, is_single, is_text
from flows.tables.column_table import FEATURE, suggestions
from flows.tables.mixed import CATEGORY, FLAG, NUMBER
from flows.tables.names import listed, option, row_of
from flows.tables.roles import ColumnContents, column_rules, read_columns
from flows.tables.table import levels_by_column, matches
from vbmodels.bags.places import find_places, is_called_place
from vbmodels.core.state import IntArray
from vbmodels.tables.column_table import ColumnRead, column_read
from vbmodels.tables.columns import Reason, names_rows
from vbmodels.tables.seen import Seen

LOOKED = 20_000
"""Rows that say what columns hold."""
LOOKED_FOR_LISTS = 50
"""Rows that say how long lists are."""
MOST_AXES = 3
"""Numbers of a list up to which these may be coordinates."""
OWN = tuple(column.name for column in INSTANCES_IN.columns)
_LISTS = ("features", "bag_features")


@dataclass(frozen=True)
class Bags:
    """The bags of some rows: the number of each row's, and the first row of each."""

    of_row: IntArray
    first: IntArray

    def have_one_value(self, codes: IntArray) -> bool:
        """Whether all rows of a bag have the same code."""
        return bool((codes == codes[self.first][self.of_row]).all())


@dataclass(frozen=True)
class FirstRows:
    """The first rows of a file, read as settings say; whatever is asked of them is read once."""

    file: InputFile
    settings: BagSettings

    @cached_property
    def schema(self) -> pa.Schema:
        """All columns of the file by our names; patterns and lists of features as they come."""
        return self._named(storage.parquet_file(self.file.url).schema_arrow.empty_table()).schema

    @cached_property
    def rows(self) -> pa.Table:
        """The rows, without columns of ours but for bags and labels; none without any other."""
        file = storage.parquet_file(self.file.url)
        schema = file.schema_arrow
        theirs = self.settings.columns
        ours = {name if name in _LISTS else theirs.get(name, name) for name in OWN}
        single = [field.name for field in schema if not pa.types.is_nested(field.type)]
        others = [name for name in single if name not in ours]
        read = schema.empty_table()
        if others:
            named = {theirs.get(name, name) for name in ("bag_id", "label")}
            names = [*others, *(name for name in single if name in named)]
            batch = next(storage.read_batches(self.file.url, LOOKED, names, file.metadata), None)
            if batch is not None:
                read = pa.Table.from_batches([batch]).replace_schema_metadata(schema.metadata)
        return self._named(read)

    def _named(self, rows: pa.Table) -> pa.Table:
        if len({*rows.column_names}) < rows.num_columns:
            twice = max(rows.column_names, key=rows.column_names.count)
            raise InputError([reading.repeated_name(self.file.url, twice)])
        single = {k: v for k, v in self.settings.columns.items() if k not in _LISTS}
        columns = type(self.settings.columns)(single)
        plain = self.settings.model_copy(update={"columns": columns})
        return reading.given(INSTANCES_IN.of(plain), rows)

    @cached_property
    def bags(self) -> Bags | None:
        """The bags of the rows; None where no column names them."""
        if "bag_id" not in self.rows.column_names:
            return None
        coded = mixed.texts(mixed.parse(self.rows["bag_id"])[0]).dictionary_encode()
        bag = coded.indices.fill_null(0).to_numpy()
        first = np.full(len(coded.dictionary), -1)
        first[bag[::-1]] = np.arange(len(bag))[::-1]
        return Bags(bag, first)

    @cached_property
    def columns(self) -> dict[str, ColumnContents]:
        """What columns without a role of ours hold, of those that settings include."""
        names = [
            name
            for name in self.rows.column_names
            if name not in OWN and self.is_included(name) and is_single(self.rows[name].type)
        ]
        return read_columns(self.rows, names, self.settings, row_of(self.file.url))

    @cached_property
    def lists(self) -> dict[str, int]:
        """How many numbers the columns of lists have that have no role of ours."""
        parquet = storage.parquet_file(self.file.url)
        roles = {self.settings.columns.get(name, name) for name in OWN if name != "features"}
        excluded = self.settings.exclude
        names = [
            field.name
            for field in parquet.schema_arrow
            if (is_text(field.type) or pa.types.is_nested(field.type))
            and field.name not in roles
            and not any(matches(field.name, left) for left in excluded)
            and self.is_included(field.name)
        ]
        if not names:
            return {}
        batches = storage.read_batches(self.file.url, LOOKED_FOR_LISTS, names, parquet.metadata)
        batch = next(batches, None)
        if batch is None:
            return {}
        rows, separator = pa.Table.from_batches([batch]), self.settings.list_separator
        lengths = {name: reading.length_of_lists(rows[name], separator) for name in names}
        return {
            name: length
            for name, length in lengths.items()
            if length > MOST_AXES or (length and not is_called_place(name))
        }

    @cached_property
    def places(self) -> dict[str, str]:
        """The columns of numbers that say where instances are, with why; none included by name."""
        if self.bags is None or not len(self.rows):
            return {}
        bag = self.bags.of_row
        whole = bag != bag[-1] if len(bag) == LOOKED else np.ones(len(bag), bool)
        columns = {
            name: mixed.numbers(contents.cells, contents.rule)[0][whole]
            for name, contents in self.columns.items()
            if contents.rule.kind == NUMBER and name not in self.settings.include
        }
        return find_places(columns, bag[whole])

    def is_included(self, name: str) -> bool:
        """Whether settings name a column among those that are used, or name none."""
        include = self.settings.include
        return not include or any(matches(name, pattern) for pattern in include)

    def why_of_rows(self, name: str) -> Reason | None:
        """Say that a column has names or numbers of rows; None where it has none or is wanted."""
        if name in self.settings.include:
            return None
        contents = self.columns[name]
        return names_rows(name, contents.seen, len(contents.levels.counts), contents.rule.kind)


MOST_LEVELS = 20
"""Levels of a column of text beyond which it is no feature."""
FEWEST_ROWS = 5
"""Rows with a level from which it is a feature."""
NOT_NAMED = Reason("other", "not named as a feature")


def settings_from_input(files: Sequence[InputFile], settings: BagSettings) -> BagSettings:
    """Return the settings with features and the positive label as the input says.

    Raises
    ------
    InputError
        If labels are not of two classes.
    """
    try:
        first = FirstRows(files[0], settings)
        if "features" not in first.schema.names and "features" not in settings.columns:
            settings = _with_features(first, settings)
        if not settings.levels and "features" in settings.columns:
            levels = _feature_levels(first, settings.columns["features"])
            settings = settings.model_copy(update={"levels": levels})
        texts = {field.name for field in first.schema if is_text(field.type)}
        if not settings.decimal_comma and texts - (set(OWN) - {"label"}):
            settings = _with_commas(first, files, settings)
        return with_positive(files, settings)
    except StorageError:
        return settings  # the check says it


def _with_features(first: FirstRows, settings: BagSettings) -> BagSettings:
    """Return the settings with the columns that may be features; as they are without any."""
    names = [*first.lists, *_number_features(first), *_text_features(first)]
    if not names:
        return settings
    together = ",".join(name.replace(",", "?") for name in names)
    columns = type(settings.columns)({**settings.columns, "features": together})
    return settings.model_copy(update={"columns": columns})


def _number_features(first: FirstRows) -> list[str]:
    """Return the columns of numbers that say what instances are like.

    Those that say where instances are count only where there are no others.
    """
    names = []
    for name, contents in first.columns.items():
        if contents.unclear is not None:
            remedy = contents.unclear.mend or contents.unclear.remedy.replace(
                "--set categories=COLUMN", option("--set", f"categories={name}")
            )
            raise InputError.of(
                file=first.file.url,
                column=name,
                expected=contents.unclear.expected,
                found=contents.unclear.found,
                remedy=f"{remedy}, or leave the column out ({option('--exclude', name)})",
            )
        if contents.rule.kind == NUMBER and not first.why_of_rows(name):
            names.append(name)
    return [name for name in names if name not in first.places] or names


def _text_features(first: FirstRows) -> list[str]:
    """Return the columns of text that may be features: of few levels, which vary within bags."""
    if first.bags is None:
        return []
    return [
        name
        for name, contents in first.columns.items()
        if _may_have_levels(name, contents)
        and len(_kept_levels(contents)) > 1
        and len(contents.levels.counts) <= MOST_LEVELS
        and not first.bags.have_one_value(contents.codes)
    ]


def _may_have_levels(name: str, contents: ColumnContents) -> bool:
    return contents.rule.kind in (CATEGORY, FLAG) and "=" not in name


def _kept_levels(contents: ColumnContents) -> list[str]:
    return sorted(name for name, count in contents.levels.counts.items() if count >= FEWEST_ROWS)


def _feature_levels(first: FirstRows, wanted: str) -> tuple[str, ...]:
    """Return the levels of the features that are text."""
    separator = first.settings.list_separator
    return tuple(
        f"{name}={level}"
        for name, contents in first.columns.items()
        if matches(name, wanted) and _may_have_levels(name, contents)
        if not any(separator in level for level in contents.levels.counts)
        for level in _kept_levels(contents)
    )


def _with_commas(
    first: FirstRows, files: Sequence[InputFile], settings: BagSettings
) -> BagSettings:
    """Return the settings with the features, and the label, whose numbers have a decimal comma."""
    wanted = settings.columns.get("features", "")
    label = settings.columns.get("label", "label")
    rules = {
        name: contents.rule for name, contents in first.columns.items() if matches(name, wanted)
    }
    seen = sum((_label_cells(file, label, settings) for file in files[:FILES]), Seen())
    of_label = column_rules({label: seen}, settings)[0][label]
    names = [name for name, rule in rules.items() if rule.kind == NUMBER and rule.decimal == ","]
    if of_label.kind == NUMBER and of_label.decimal == ",":
        names.append(label)
    return settings.model_copy(update={"decimal_comma": tuple(names)})


def _label_cells(file: InputFile, name: str, settings: BagSettings) -> Seen:
    """Return what a file's labels hold, where they are text."""
    schema = storage.parquet_file(file.url).schema_arrow
    position = schema.get_field_index(name)
    if position < 0 or not is_text(schema.field(position).type):
        return Seen()
    column = storage.read_table(file.url, [name])[name]
    return mixed.parse(column, settings.missing, reading.separator_of(schema) == ";")[1]


def feature_names(first: FirstRows) -> list[str]:
    """Return the columns that are features, in their order; none where lists hold them."""
    settings = first.settings
    wanted, lists = settings.columns.get("features", ""), first.lists
    if not wanted or "features" in first.schema.names or wanted in lists:
        return []
    levels = levels_by_column(settings.levels)
    names: list[str] = []
    for name in first.schema.names:
        if not matches(name, wanted):
            continue
        if name in lists:
            names += [f"{name} {i + 1}" for i in range(lists[name])]
        else:
            names += [f"{name}={level}" for level in levels[name]] if name in levels else [name]
    return names


def other_levels(first: FirstRows) -> list[str]:
    """Say which levels of a file's first rows are no features, with their counts."""
    levels = levels_by_column(first.settings.levels)
    sentences = []
    columns = first.columns if levels else {}
    for name in columns:
        counts = columns[name].levels.counts
        if others := sorted(set(counts) - set(levels.get(name, counts))):
            counted = ", ".join(f"{level} ({counts[level]:,})" for level in others[:8])
            sentences.append(f"Levels of {name} that are no features (rows): {counted}.")
    return sentences


def describe(
    first: FirstRows,
    gaps: Mapping[str, tuple[int, bool]],
    labels: Sequence[int],
    constant: Collection[str],
) -> tuple[tuple[ColumnRead, ...], list[str]]:
    """Return the table of columns of the first file, and what to say of them.

    Parameters
    ----------
    first
        Its first rows.
    gaps
        Missing values of each feature, and whether it has a column for them.
    labels
        Bags with the labels 0 and 1 that are fitted.
    constant
        Features that have one value.
    """
    settings, names, lists = first.settings, first.schema.names, first.lists
    features = settings.columns.get("features", "")
    table = [_own_column(first.schema.field(n), settings, labels) for n in names if n in OWN]
    for name, width in lists.items():
        if name not in OWN:
            use = FEATURE if matches(name, features) else NOT_NAMED
            table.append(ColumnRead.of(name, "list of numbers", 0, f"{width} numbers", use))
    for field in first.schema:
        known = field.name in OWN or field.name in lists or field.name in first.columns
        if not known and pa.types.is_nested(field.type):
            kind = str(field.type)
            table.append(ColumnRead.of(field.name, kind, 0, "", Reason("other", kind)))
    others = {name: contents for name, contents in first.columns.items() if name not in lists}
    used_names = [name for name in others if features and matches(name, features)]
    for name, contents in others.items():
        role = _role(name, first, name in used_names, constant)
        row = column_read(name, contents.rule, contents.seen, contents.levels, role)
        missing, _ = gaps.get(name, (0, False))
        table.append(replace(row, missing=missing) if missing else row)
    warnings = suggestions(
        {n: contents.seen for n, contents in first.columns.items()}, {}, used_names
    )
    warnings += _constant_in_bags(first, used_names)
    warnings += _copied_columns(first.columns, [n for n in used_names if n not in constant])
    return tuple(table), warnings


def _role(name: str, first: FirstRows, is_feature: bool, constant: Collection[str]) -> str | Reason:
    """Return what a column is used as, or why it is left out."""
    if is_feature and name in constant:
        return Reason("other", "constant")
    ours = {theirs: ours for ours, theirs in first.settings.columns.items()}
    if name in ours or is_feature:
        return ours.get(name, FEATURE)
    kind = first.columns[name].rule.kind
    plain = {CATEGORY: Reason("text", "text"), FLAG: Reason("other", "yes/no"), NUMBER: NOT_NAMED}
    if why := first.places.get(name):
        plain[kind] = Reason("other", why)
    return first.why_of_rows(name) or plain.get(kind, Reason("other", kind))


def _own_column(field: pa.Field, settings: BagSettings, labels: Sequence[int]) -> ColumnRead:
    """Describe a column with a role of ours."""
    theirs = settings.columns.get(field.name, field.name)
    if field.name != "label":
        return ColumnRead(theirs, _kind_in_words(field.type), 0, "", field.name)
    fitted = f"{sum(labels):,} bags are fitted"
    if settings.numeric and settings.label_order:
        holds = f"{fitted}; {' < '.join(settings.label_order)}"
        return ColumnRead(theirs, "ordered category", 0, holds, "label: the level is predicted")
    if settings.numeric:
        return ColumnRead(theirs, "number", 0, fitted, "label: the number is predicted")
    holds = f"{labels[1]:,} positive, {labels[0]:,} negative bags"
    return ColumnRead(theirs, "yes/no", 0, holds, f"label: positive is {settings.positive_word}")


def _kind_in_words(kind: pa.DataType) -> str:
    if is_list(kind):
        return "list of numbers"
    return "number" if is_number(kind) else "text"


def _constant_in_bags(first: FirstRows, used: Sequence[str]) -> list[str]:
    """Say which features are the same in all rows of a bag."""
    bags = first.bags
    if bags is None or len(bags.first) < 4 or len(bags.of_row) == len(bags.first):
        return []
    codes = {name: first.columns[name].codes for name in used}
    constant = [
        name
        for name, values in codes.items()
        if bags.have_one_value(values) and np.unique(values[bags.first]).size > 1
    ]
    if not constant:
        return []
    return [
        f"{', '.join(constant)}: one value in every bag. If that is a label or outcome, "
        f"{option('--exclude', ','.join(constant))}."
    ]


def _copied_columns(columns: Mapping[str, ColumnContents], used: Sequence[str]) -> list[str]:
    """Say which features have the cells of another one."""
    first: dict[bytes, str] = {}
    copies = []
    for name in used:
        if columns[name].rule.kind == NUMBER:
            values, _ = mixed.numbers(columns[name].cells, columns[name].rule)
            original = first.setdefault(values.tobytes(), name)
            copies += [f"{name} (of {original})"] if original != name else []
    return [f"Copied columns count twice: {listed(copies, 8)}."] if copies else []
