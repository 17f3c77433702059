"""Labels of bags: which one is positive, numbers, levels in an order, or several classes a bag.

Of two labels the positive one is known by its word. Several classes are one multiple-instance
problem for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shlex import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from flows import storage
from flows.bags.settings import NUMBER_MODELS, BagSettings
from flows.faults import Fault, InputError
from flows.storage import InputFile
from flows.tables import mixed
from flows.tables.cells import is_number, is_text
from flows.tables.checks import FileFaults
from flows.tables.file_table import file_table_of
from flows.tables.names import in_files
from flows.tables.roles import count_levels
from vbmodels.bags.bags import UNLABELLED
from vbmodels.core.state import IntArray
from vbmodels.tables.cells import number_of
from vbmodels.tables.levels import NO, YES, positive_of, scale_of

FILES, MOST_FILES = 50, 1_000
"""Most files whose labels are read, and most while these have one label alone."""
MOST_LABELS = 1000
"""Different labels beyond which no more files are looked at."""
MOST_GRADES = 10
"""Values of a label up to which whole numbers are classes."""
MOST_FRACTIONS = 3
"""Values up to which those with fractions are."""
LEAST_LEVELS, MOST_ORDERED = 3, 7
"""Levels of a label from which on, and up to which, they are taken as ordered."""
MOST_NAMED = 8
"""Labels that are named."""


@dataclass(frozen=True)
class FoundLabels:
    """The labels of the files that were looked at.

    Attributes
    ----------
    where, column
        The file, or how many, and their name of the column.
    names
        The labels, sorted; of those that differ in case the most frequent spelling.
    numbers
        What they are as numbers, None for one that is none.
    """

    where: str
    column: str
    names: list[str]
    numbers: list[float | None]

    @property
    def are_numbers(self) -> bool:
        """Whether they are numbers to predict and no classes."""
        values = [value for value in self.numbers if value is not None]
        most = MOST_FRACTIONS if any(value % 1.0 for value in values) else MOST_GRADES
        return len(values) == len(self.numbers) and len(values) > most

    def refused(self, expected: str, found: str, remedy: str) -> InputError:
        """Return the error of labels that cannot be fitted."""
        return InputError.of(
            file=self.where, column=self.column, expected=expected, found=found, remedy=remedy
        )


def with_positive(files: Sequence[InputFile], settings: BagSettings) -> BagSettings:
    """Return the settings with the positive label, where words of two labels say it.

    Raises
    ------
    InputError
        If labels are not of two classes, and neither numbers nor levels in an order.
    """
    has_open_order = settings.target == "ordered" and not settings.label_order
    if settings.positive or (settings.threshold is not None and not has_open_order):
        return settings
    column = settings.columns.get("label", "label")
    if any(name == column and role != "label" for role, name in settings.columns.items()):
        return settings
    counts: Counter[str] = Counter()
    are_words = False  # yes and no, in a file that has types
    for place, file in enumerate(_one_of_each(files, column, settings)):
        if len(counts) > MOST_LABELS or place >= (MOST_FILES if len(counts) == 1 else FILES):
            break
        parquet = storage.parquet_file(file.url)
        if parquet.schema_arrow.names.count(column) != 1:
            continue
        kind = parquet.schema_arrow.field(column).type
        if not (is_text(kind) or is_number(kind) or pa.types.is_dictionary(kind)):
            return _with_other_type(file, column, kind, settings)
        are_words |= is_text(kind) and storage.CELLS not in (parquet.schema_arrow.metadata or {})
        if settings.numeric or not (bits := _bits_of(parquet, column)):
            cells = mixed.parse(storage.read_table(file.url, [column])[column], settings.missing)[0]
            counts += Counter(count_levels(mixed.texts(cells)).counts)
        else:
            counts.update(bits)
    spelt = {label.lower(): label for label, _ in reversed(counts.most_common())}
    names = sorted(spelt.values())
    labels = FoundLabels(
        in_files([file.url for file in files]),
        column,
        names,
        [number_of(name, "," if column in settings.decimal_comma else ".") for name in names],
    )
    if (order := _order_of(names, settings)) or settings.target == "ordered":
        return _with_order(labels, order, settings)
    if names and (settings.numeric or (settings.target == "auto" and labels.are_numbers)):
        return _with_number(labels, settings)
    return _with_word(labels, settings, are_words)


def _one_of_each(
    files: Sequence[InputFile], column: str, settings: BagSettings
) -> Iterator[InputFile]:
    """Yield a file of each label of a list of files, then all, the first of them far apart."""
    step = max(-(-len(files) // FILES), 1)
    spread = [file for start in range(step) for file in files[start::step]]
    table = file_table_of(settings)
    if table is not None and column in (lines := storage.lines_of_files(table)).texts.column_names:
        labels = lines.texts[column].to_pylist()
        yield from {
            labels[place]: file
            for file in reversed(spread)
            if (place := lines.place_of(file.url)) is not None
        }.values()
    yield from spread


def _with_other_type(
    file: InputFile, column: str, kind: pa.DataType, settings: BagSettings
) -> BagSettings:
    """Return the settings of labels that are true and false, or of no type of labels."""
    if not settings.numeric:
        return settings.written(["true"]) if pa.types.is_boolean(kind) else settings
    raise InputError.of(
        file=file.url,
        column=column,
        expected=f"numbers or levels (target={settings.target})",
        found=str(kind),
        remedy="take target=auto, or name another column (--column label=YOURS)",
    )


def _with_word(labels: FoundLabels, settings: BagSettings, are_words: bool) -> BagSettings:
    """Return the settings with the positive one of two labels, which its word says."""
    names = labels.names
    if all(name.lower() in (*YES, *NO) for name in names):
        yes = [name for name in names if name.lower() in YES]
        if are_words and yes:
            return settings.model_copy(update={"positive": tuple(yes)})
        return settings.written(yes)
    word = positive_of(names) if len(names) == 2 else None
    if names == ["-1", "1"]:
        word = "1"
    if not word:
        raise refusal(labels)
    return settings.model_copy(update={"positive": (word,)})


def _order_of(names: Sequence[str], settings: BagSettings) -> tuple[str, ...]:
    """Return the labels as levels in their order; none where they are not in one."""
    if settings.target == "ordered" and settings.label_order:
        return settings.label_order
    is_scale = LEAST_LEVELS <= len(names) <= MOST_ORDERED
    if settings.target not in ("auto", "ordered") or not is_scale:
        return ()
    scale = scale_of(names) if settings.model in NUMBER_MODELS else None
    return () if scale is None else scale.levels


def _with_order(labels: FoundLabels, order: Sequence[str], settings: BagSettings) -> BagSettings:
    """Return the settings of labels that are levels in an order."""
    odd = sorted(set(labels.names) - set(order))
    if not order or odd or len(order) < LEAST_LEVELS:
        raise labels.refused(
            f"levels in an order: {', '.join(order) or 'of a known scale'}",
            ", ".join(odd[:MOST_NAMED] or labels.names[:MOST_NAMED]) or "no label",
            "name three levels or more, the lowest first: --set label_order=[low,medium,high]",
        )
    half = 1.0 + len(order) // 2 if settings.threshold is None else settings.threshold
    update = {"target": "ordered", "label_order": tuple(order), "threshold": half}
    return settings.model_copy(update=update)


def _with_number(labels: FoundLabels, settings: BagSettings) -> BagSettings:
    """Return the settings of a label that is a number, with what halves its values."""
    values = sorted({number for number in labels.numbers if number is not None})
    if len(values) < 2:
        raise labels.refused(
            "numbers that differ (target=number)",
            f"{values[0]:g} alone" if values else "no number",
            "name the column of numbers (--column label=YOURS)",
        )
    if settings.model not in NUMBER_MODELS:
        raise labels.refused(
            f"labels of two classes with model={settings.model}",
            f"{len(values):,} different numbers from {values[0]:g} to {values[-1]:g}",
            "take model=auto, or say from which number on a bag is positive: --set "
            f"threshold={np.median(values):g} (the middle)",
        )
    return settings.model_copy(update={"target": "number", "threshold": values[len(values) // 2]})


def _bits_of(file: pq.ParquetFile, name: str) -> list[str]:
    """Return the ends of a column that has no other numbers than 0 and 1; of another none.

    A file's footer says so.
    """
    position = file.schema_arrow.get_field_index(name)
    if not pa.types.is_integer(file.schema_arrow.field(name).type):
        return []
    position = next((i for i, path in enumerate(file.schema.names) if path == name), position)
    groups = [
        file.metadata.row_group(number).column(position).statistics
        for number in range(file.metadata.num_row_groups)
    ]
    if any(of is None or not of.has_min_max or of.min < 0 or of.max > 1 for of in groups):
        return []
    return [str(end) for of in groups for end in (of.min, of.max)]


def refusal(labels: FoundLabels) -> InputError:
    """Say what labels are there, and how each kind of them can be fitted."""
    names, numbers = labels.names, labels.numbers
    expected = "labels of two classes: 1 and 0, or yes and no"
    against = f"--set {quote(f'positive={names[-1]}')} fits {names[-1]} against the others"
    odd = [name for name, number in zip(names, numbers, strict=True) if number is None]
    if 0 < len(odd) < len(names) / 2 and len(names) - len(odd) > MOST_FRACTIONS:
        return labels.refused(
            "numbers, as most labels are",
            f"{', '.join(odd[:MOST_NAMED])} ({len(odd)} of {len(names)} different labels)",
            "correct these, or name words for missing labels: --set missing=...",
        )
    if not odd and len(names) > 2:
        grades = [name for _, name in sorted(zip(numbers, names, strict=True))]
        return labels.refused(
            expected,
            f"{len(names)} grades: {', '.join(grades)}",
            "say from which grade on a bag is positive: --set "
            f"threshold={grades[len(grades) // 2]}, or {against}; --set target=number predicts the "
            "number",
        )
    if len(names) == 1:
        remedy = "give bags of both classes, or name another column (--column label=YOURS)"
        return labels.refused(expected, f"{names[0]} alone", remedy)
    if len(names) == 2:
        remedy = f"say which one is positive: --set {quote(f'positive={names[1]}')}"
        return labels.refused(expected, f"{names[0]} and {names[1]}", remedy)
    shown = [*names[:MOST_NAMED], "..."] if len(names) > MOST_NAMED else names
    return labels.refused(
        expected,
        f"{len(names)} classes: {', '.join(shown)}",
        f"{against}, --set {quote(f'positive={names[-2]},{names[-1]}')} these two; --column "
        f"{quote(f'labels={labels.column}')} --set model=gp_probit fits each class; levels in an "
        "order: --set target=ordered --set label_order=[LOWEST,...,HIGHEST]",
    )


def with_label(table: pa.Table) -> pa.Table:
    """Say in 'label' whether a bag has any of its classes, where that column says nothing.

    Without a column of labels no bag has one.
    """
    if "labels" not in table.column_names:
        if "label" in table.column_names:
            return table
        return table.append_column("label", pa.nulls(len(table), pa.int8()))
    has_any = pc.greater(pc.list_value_length(table["labels"]), 0).cast(pa.int8())
    if "label" not in table.column_names:
        return table.append_column("label", has_any)
    position = table.column_names.index("label")
    label = table["label"].cast(pa.int8())
    return table.set_column(position, "label", pc.coalesce(label, has_any))


def check_label_columns(columns: Sequence[str], several: bool, faults: FileFaults) -> None:
    """Report classes of bags that the model does not take.

    ``several`` says whether the model takes several classes.
    """
    if "label" in columns or several or "labels" not in columns:
        return
    remedy = "take model=gp_probit for labels, or give bags a label"
    listed = f"none; the columns are {', '.join(columns)}"
    faults.add(Fault(faults.file, "a column of labels", listed, "label", remedy=remedy))


def of_bags(table: pa.Table, number: IntArray, n: int) -> pa.Array:
    """Return the list of classes of each numbered bag, null where none is given."""
    lists: list[list[str] | None] = [None] * n
    for bag, classes in zip(number.tolist(), table["labels"].to_pylist(), strict=True):
        if classes is not None:
            lists[bag] = sorted(set(classes))
    return pa.array(lists, pa.list_(pa.string()))


def matrix(lists: Sequence[list[str] | None], classes: Sequence[str]) -> NDArray[np.int8]:
    """Return 1, 0 or ``UNLABELLED`` for each bag and class, [B, C]."""
    labels = np.zeros((len(lists), len(classes)), np.int8)
    column_of = {name: c for c, name in enumerate(classes)}
    for b, names in enumerate(lists):
        if names is None:
            labels[b] = UNLABELLED
        else:
            labels[b, [column_of[name] for name in names if name in column_of]] = 1
    return labels
