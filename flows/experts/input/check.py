"""What is wrong with tables before a fit: cells among numbers that are none, and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from flows.experts.input.encoding import named_labels
from flows.experts.input.ingest import AboutCells, merged, taken
from flows.experts.input.labels import (
    LABEL,
    MOST_CLASSES,
    in_order,
    is_whole,
    label_kind,
    lowest,
    number_rule,
)
from flows.experts.schema import ROWS_IN
from flows.experts.settings import ExpertSettings
from flows.family import Checked, CheckedPiece, names_of
from flows.faults import Fault, shown
from flows.storage import InputFile
from flows.tables import mixed, partition
from flows.tables.checks import MAX_ROWS, Checker
from flows.tables.column_rules import column_rules, unclear_faults, unknown_columns
from flows.tables.levels import bounded, merge_levels
from flows.tables.mixed import NUMBER
from flows.tables.mixed_rows import Taken, merge_seen
from flows.tables.names import as_text, listed
from flows.tables.partition import chunks
from flows.tables.row_weights import others_in, with_named
from vbmodels.core.columns import Rule
from vbmodels.core.levels import Levels
from vbmodels.core.seen import Seen

LEAST = 3
"""Rows of each label, where there are more than two."""
_EACH = 1000
"""Most labels of a file that may be classes."""


@dataclass(frozen=True)
class CheckedRows(Checked):
    """What the check of one file found.

    Attributes
    ----------
    seen
        What every column holds.
    odd
        The first cells of columns that are no numbers, as (row from 1, cell).
    labels, label_cells
        The labels, counted, and what they hold.
    settings
        The settings of the run.
    """

    seen: Mapping[str, Seen] = field(default_factory=dict)
    odd: Mapping[str, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    labels: Levels = field(default_factory=lambda: Levels({}, 0))
    label_cells: Seen = field(default_factory=Seen)
    settings: ExpertSettings = field(default_factory=ExpertSettings)


def rows_of(checked: Checked) -> CheckedRows:
    """Return what a check found, as this family has it."""
    return checked if isinstance(checked, CheckedRows) else CheckedRows(checked.rows)


def checked_file(file: InputFile, settings: ExpertSettings) -> CheckedRows:
    """Read a file once, piece by piece; list its faults and count what it holds."""
    checker = Checker(with_named(ROWS_IN, settings), file.url)
    odd: dict[str, tuple[tuple[int, str], ...]] = {}
    about = AboutCells(seen={}, labels=Levels({}, 0))
    for rows in checker.chunks(chunks(file.url)):
        found, _, own = taken(rows, checker, settings)
        about = merged([about, own])
        check_finite(checker, found)
        for name, cells in found.cells.items():
            one, before = own.seen[name], odd.get(name, ())
            if one.numbers < one.cells and not one.declared and len(before) < MAX_ROWS:
                rule = Rule(NUMBER, decimal="," if one.comma > one.point else ".")
                wrong = np.flatnonzero(mixed.numbers(cells, rule)[1])[: MAX_ROWS - len(before)]
                first = checker.found.first + 1
                odd[name] = (*before, *((first + int(i), cells[int(i)].as_py()) for i in wrong))
    faults = tuple(checker.found.faults())
    spoilt = {name: cells for name, cells in odd.items() if about.seen[name].numbers}
    return CheckedRows(
        checker.rows,
        faults,
        checker.names,
        about.seen,
        spoilt,
        about.labels,
        about.label_cells,
        settings,
    )


def read_header(file: InputFile, settings: ExpertSettings) -> CheckedRows:
    """List the faults of a file's columns."""
    checker, _ = partition.read_header(file.url, with_named(ROWS_IN, settings))
    keys = (file.url,) if checker.named else ()
    seen = dict.fromkeys(others_in(ROWS_IN, checker.columns, settings), Seen())
    return CheckedRows(checker.rows, tuple(checker.found.faults()), keys, seen, settings=settings)


def piece(checker: Checker, about: AboutCells) -> CheckedPiece:
    """Summarise some rows of a file for its check."""
    plain = about.model_dump(mode="json", exclude_defaults=True)
    return CheckedPiece(checker.found.file, checker.rows, as_text(checker.digests), plain)


def merge(pieces: Sequence[CheckedPiece], settings: ExpertSettings) -> CheckedRows:
    """Return what the pieces of a file say of it.

    Where cells are that are no numbers, a check of the whole file says.
    """
    about = merged([AboutCells.model_validate(one.about) for one in pieces])
    rows = sum(one.rows for one in pieces)
    names = names_of(pieces)
    return CheckedRows(rows, (), names, about.seen, {}, about.labels, about.label_cells, settings)


def check_finite(checker: Checker, found: Taken) -> None:
    """Report numbers that are infinite."""
    for name, cells in found.cells.items():
        _infinite(checker, name, cells)


def _infinite(checker: Checker, name: str, cells: mixed.Cells) -> None:
    if not mixed.typed(cells):
        return
    values = cells.to_numpy(zero_copy_only=False)
    checker.found.rows(
        np.flatnonzero(np.isinf(values)), name, "a finite number", lambda row: str(values[row]),
        "mend the cell or leave it empty",
    )  # fmt: skip


def faults_of_fit(files: Sequence[InputFile], checked: Sequence[CheckedRows]) -> list[Fault]:
    """List what keeps these files from being fitted."""
    settings = checked[0].settings
    faults = unknown_columns([*checked[0].seen], settings)
    where = files[0].url if len(files) == 1 else f"{len(files)} files"
    seen = merge_seen([c.seen for c in checked])
    _, unclear = column_rules(seen, settings)
    for fault, name in zip(unclear_faults(where, unclear, settings), unclear, strict=True):
        cells = [
            replace(fault, file=file.url, row=row, found=shown(cell))
            for file, one in zip(files, checked, strict=True)
            for row, cell in one.odd.get(name, ())
            if unclear[name].has_odd
        ]
        faults += cells or [fault]
    return faults + _labels(where, checked, settings)


def _labels(where: str, checked: Sequence[CheckedRows], settings: ExpertSettings) -> list[Fault]:
    merged = bounded(merge_levels([{LABEL: c.labels} for c in checked]))[LABEL]
    cells = sum((c.label_cells for c in checked), Seen())
    if label_kind(merged, cells, settings) != "classes":
        return _numbers(where, merged, cells, settings)
    cut = _CUT if number_rule(cells, settings) else _CUT.partition(";")[0]
    if merged.many or len(merged.counts) > _EACH:
        found = f"more than {_EACH:,} different ones"
        return [_fault(where, f"labels of at most {MOST_CLASSES} classes", found, cut)]
    labels = named_labels(merged.counts, settings)
    if settings.target == "ordered" and len(labels.names) > 2 and in_order(labels) is None:
        found, expected = listed(labels.names), "numbers or words of a known scale (low, high)"
        return [_fault(where, f"{expected} for target=ordered", found, _NUMBERED)]
    rows = labels.counts(merged.counts)
    if len(labels.names) > MOST_CLASSES:
        found = f"{len(labels.names):,}"
        return [_fault(where, f"labels of at most {MOST_CLASSES} classes", found, cut)]
    positive = settings.positive
    if positive is not None and (len(rows) != 2 or labels.code(positive) < 0):
        expected = "one of two labels" if len(rows) != 2 else f"one of {' and '.join(labels.names)}"
        return [Fault("settings", expected, positive, "positive")]
    if len(rows) == 2 and all(rows):
        return []
    if not any(rows):
        seen = checked[0].seen  # words, which labels often are, come first
        others = listed(sorted(seen, key=lambda name: not seen[name].odd), 8)
        found = f"none; the other columns are {others}" if others else "none"
        return [_fault(where, "a label in some of the rows", found, _NAME)]
    if len(rows) <= 2:
        only = next(i for i, n in enumerate(rows) if n)
        found = f"{rows[only]} with {labels.names[only]} alone"
        return [_fault(where, "rows with two labels", found, "give rows of both classes")]
    if settings.inference != "additive":
        return [_not_additive(where, listed(labels.names), settings)]
    few = [name for name, n in zip(labels.names, rows, strict=True) if n < LEAST]
    if few:
        expected = f"at least {LEAST} rows of each of more than two labels"
        counts = number_rule(cells, settings) is not None and is_whole(cells)
        return [_fault(where, expected, f"fewer of {listed(few)}", _COUNT if counts else _JOIN)]
    return []


def _numbers(where: str, labels: Levels, cells: Seen, settings: ExpertSettings) -> list[Fault]:
    """List what keeps labels from being fitted as numbers."""
    faults = [
        Fault("settings", "classes", "a label that is a number", name, remedy=f"leave {name} out")
        for name, given in (
            ("positive", settings.positive is not None),
            ("class_weight", settings.class_weight != "none"),
        )
        if given
    ]
    if settings.inference != "additive":
        faults.append(_not_additive(where, "a number", settings))
    if not cells.cells:
        faults.append(_fault(where, "a number in some of the rows", "none", _NAME))
    elif number_rule(cells, settings) is None:
        odd = shown(cells.odd[0]) if cells.odd else "other cells"
        remedy = "mend the cells, or take target=classes"
        expected = f"numbers for target={settings.target}"
        faults.append(_fault(where, expected, odd, remedy))
    elif settings.target == "count" and not is_whole(cells):
        found = "fractions" if cells.fractions else f"{lowest(cells):g}"
        expected = "whole numbers from 0 for target=count"
        faults.append(_fault(where, expected, found, "take target=number"))
    elif not labels.many and len(labels.counts) < 2:
        found = f"{next(iter(labels.counts))} in every row"
        faults.append(_fault(where, "labels of several values", found, _NAME))
    return faults


def _not_additive(where: str, found: str, settings: ExpertSettings) -> Fault:
    expected = f"labels of two classes for inference={settings.inference}"
    return _fault(where, expected, found, "take inference=additive")


_NUMBERED = "number the labels by their order (1, 2, 3), or take target=classes"
_JOIN = "join rare labels or leave their rows without one"
_COUNT = "if they are counts, --set target=count; else join rare labels"
_NAME = "name the column that holds it (--column label=YOURS), or fill it"
_CUT = "join labels to fewer classes, or predict a number: target=number"


def _fault(where: str, expected: str, found: str, remedy: str) -> Fault:
    return Fault(where, expected, found, LABEL, remedy=remedy)
