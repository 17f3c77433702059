"""Labels by any names: which classes they are of, in order, and which is called positive."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from flows.experts.schema import ROW_EXPOSURE
from flows.experts.settings import ExpertSettings
from flows.faults import Fault, shown
from flows.tables.mixed import FLAG, NUMBER
from flows.tables.names import listed, number_of, same_label
from flows.tables.roles import LABEL, Contents, column_rules
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.tables.column_table import ColumnRead
from vbmodels.tables.columns import Rule, looks_like_exposure
from vbmodels.tables.levels import NO, YES, Levels, order_of
from vbmodels.tables.levels import positive_of as level_words
from vbmodels.tables.seen import Seen, ends_of, sentinels_of

MOST_CLASSES = 50
EXPOSURE = ROW_EXPOSURE.name


@dataclass(frozen=True)
class Labels:
    """The classes that labels name.

    Attributes
    ----------
    names
        Of the classes, in order: the probability of two is that of the second.
    codes
        The number of each label's class, from 0.
    why
        Why the second of two is the positive one.
    """

    names: tuple[str, ...]
    codes: Mapping[str, int]
    why: str = ""

    def counts(self, counts: Mapping[str, int]) -> list[int]:
        """Return the rows of every class, of those of every label."""
        totals = [0] * len(self.names)
        for label, rows in counts.items():
            totals[self.codes[label]] += rows
        return totals

    def unknown(self, counts: Mapping[str, int]) -> list[str]:
        """Return the labels that name none of the classes."""
        return sorted(label for label in counts if self.code(label) < 0)

    def code(self, label: str | None) -> int:
        """Return the number of a label's class, -1 of none."""
        if label is None:
            return -1
        number = self.codes.get(label)
        if number is None:
            number = self.codes.get(same_label(label, self.codes) or "", -1)
        return number

    def of_rows(self, labels: pa.Array) -> IntArray:
        """Return the number of each row's class, -1 where there is none; [N]."""
        coded = labels.dictionary_encode()
        codes = np.array([*map(self.code, coded.dictionary.to_pylist()), -1], np.int64)
        return np.asarray(codes[coded.indices.fill_null(len(codes) - 1).to_numpy()])


def signs(codes: IntArray) -> FloatArray:
    """Return -1 for the first class, 1 for another and 0 for none; [N]."""
    return np.where(codes < 0, 0.0, np.where(codes > 0, 1.0, -1.0))


def labels_of(texts: Sequence[str], positive: str | None = None) -> Labels:
    """Return the classes of the labels that were found.

    Yes, true, y, t and 1 are one class and no, false, n, f and 0 the other, in any case, where
    there is nothing else; numbers are sorted by size, other labels by alphabet. Of two, the second
    is the positive one: that which ``positive`` names, or its word says (case, abnormal, relapse),
    or the last.

    Examples
    --------
    >>> labels_of(["no", "Yes", "yes"]).names, labels_of(["10", "9"]).names
    (('no', 'yes'), ('9', '10'))
    >>> labels_of(["good", "bad"]).names, labels_of(["good", "bad"], "bad").names
    (('good', 'bad'), ('good', 'bad'))
    """
    words = {label: label.lower() for label in texts}
    by_word, why = None, ""
    if all(word in (*YES, *NO) for word in words.values()):
        groups = [[label for label in texts if words[label] in side] for side in (NO, YES)]
        names = [_name(group, str(code)) for code, group in enumerate(groups)]
        codes = {label: code for code, group in enumerate(groups) for label in group}
    else:
        numbers = {label: number_of(label) for label in texts}
        if None not in numbers.values():
            values = sorted(set(numbers.values()), key=lambda v: v or 0.0)
            codes = {label: values.index(number) for label, number in numbers.items()}
            names = [min(lb for lb in texts if numbers[lb] == value) for value in values]
            why = "" if values == [0.0, 1.0] else LARGER
        else:
            names = sorted(texts)
            by_word = level_words(names) if len(names) == 2 else None
            why = BY_ITS_WORD if by_word else LAST
            codes = {label: code for code, label in enumerate(names)}
    wanted = by_word if positive is None else positive
    why = why if positive is None else "named in positive"
    if len(names) == 2 and wanted is not None and codes.get(wanted) == 0:
        names, codes = names[::-1], {label: 1 - code for label, code in codes.items()}
    return Labels(tuple(names), codes, why if len(names) == 2 else "")


MOST_VALUES, MOST_FRACTIONS = 20, 10
"""Values of a label up to which numbers are classes; up to which those with fractions and counts
are."""


def label_kind(
    labels: Levels, cells: Seen, settings: ExpertSettings
) -> Literal["classes", "number", "count"]:
    """Say what labels are; counts are whole numbers from 0 with 0, 1 and 2 among them."""
    if settings.target != "auto":
        return "classes" if settings.target == "ordered" else settings.target
    if EXPOSURE in settings.columns:
        return "count"
    additive = settings.inference == "additive" and settings.positive is None
    if not additive or number_rule(cells, settings) is None:
        return "classes"
    values = {number_of(label) for label in labels.counts}
    counts = is_whole(cells) and (labels.many or values >= {0.0, 1.0, 2.0})
    most = MOST_FRACTIONS if cells.fractions or counts else MOST_VALUES
    if not labels.many and len(labels.counts) <= most:
        return "classes"
    return "count" if counts else "number"


def exposure_option(seen: Mapping[str, Seen]) -> str:
    """Return how to name the column that looks like one of exposures; "" where none does."""
    named = [name for name in seen if looks_like_exposure(name) and (lowest(seen[name]) > 0.0)]
    return f" --column {EXPOSURE}={shlex.quote(named[0])}" if named else ""


def is_whole(cells: Seen) -> bool:
    """Say whether all numbers are whole and none is below 0."""
    return not cells.fractions and lowest(cells) >= 0.0


def lowest(cells: Seen) -> float:
    """Return the smallest number, NaN where there is none; what marks missing cells is none."""
    numbers = [
        float(sentinel) for sentinel in cells.sentinels if sentinel not in sentinels_of(cells)
    ]
    return min([*numbers, *([] if cells.low is None else [cells.low])], default=float("nan"))


def number_rule(cells: Seen, settings: ExpertSettings) -> Rule | None:
    """Return how labels are read as numbers; None where they are none."""
    rules, unclear = column_rules({LABEL: cells}, settings)
    if unclear or not cells.cells:
        return None
    if rules[LABEL].kind == FLAG and cells.typed_flags == 0:
        return Rule(NUMBER)
    return rules[LABEL] if rules[LABEL].kind == NUMBER else None


def number_read(cells: Seen, name: str, count: bool) -> ColumnRead:
    """Describe the column of labels that are numbers."""
    kind = "count" if count else "number"
    return ColumnRead(name, kind, cells.missing, _ends(cells), f"label: the {kind} is predicted")


def number_warning(labels: Levels, count: bool, logged: bool) -> str:
    """Say that labels are predicted as numbers."""
    values = "many" if labels.many else f"{len(labels.counts):,}"
    if logged:
        return (
            f"The label is a positive number ({values} different values), fitted on the log, "
            "which predicts held-out rows better; results are on its own scale."
        )
    if count:
        return (
            f"The label is a count (whole numbers from 0, {values} different ones): the "
            "logarithm of its mean is predicted (Poisson). For even noise, --set "
            "target=number; for classes, --set target=classes."
        )
    return f"The label is a number ({values} different values); for classes, --set target=classes."


def _ends(cells: Seen) -> str:
    low, high = ends_of(cells)
    return f"{low:.6g} to {high:.6g}" if cells.cells else ""


LARGER, LAST, BY_ITS_WORD = "the larger number", "the last by alphabet", "by its word"


def label_warnings(labels: Labels, ordered: bool) -> list[str]:
    """Say of labels what could be meant otherwise: which is positive, an order that is not used."""
    if labels.why in (LARGER, LAST):
        negative, positive = labels.names
        return [f"The probability is of label {positive} ({labels.why}), not of {negative}."]
    if len(labels.names) > 2 and not ordered and _ordered(labels.names):
        number = ", or --set target=number for a number" if _numbers(labels) else ""
        return [
            f"The label is ordered ({', '.join(labels.names[:8])}), but fitted as "
            f"{len(labels.names)} classes: for the order, --set target=ordered{number}."
        ]
    return []


def in_order(labels: Labels) -> Labels | None:
    """Return classes by their order, those of numbers by size; None where none is known."""
    if _numbers(labels):
        return labels
    names = tuple(order_of(labels.names))
    if len(names) != len(labels.names):
        return None
    return Labels(names, {label: names.index(labels.names[k]) for label, k in labels.codes.items()})


def _numbers(labels: Labels) -> bool:
    return all(number_of(name) is not None for name in labels.names)


def _ordered(names: Sequence[str]) -> bool:
    return all(number_of(name) is not None for name in names) or bool(order_of(names))


def label_read(levels: Levels, labels: Labels, name: str) -> ColumnRead:
    """Describe the column of labels."""
    counts = zip(labels.names, labels.counts(levels.counts), strict=True)
    listed = ", ".join(f"{label[:20]} {n:,}" for label, n in list(counts)[:5])
    kind = "yes/no" if len(labels.names) == 2 else "category"
    if len(labels.names) > 2 and _ordered(labels.names):
        kind = "ordered category"
    used = "label"
    if len(labels.names) == 2:
        used = f"label: the probability is of {labels.names[1]}"
    return ColumnRead(name, kind, levels.missing, listed, used)


def _name(group: Sequence[str], usual: str) -> str:
    """Name a side of yes and no by the word of its labels, where they have one in common."""
    words = {label.lower() for label in group}
    return next(iter(words)) if len(words) == 1 and "1.0" not in words else usual


def unlabelled_warning(labels: Levels) -> list[str]:
    """Say so where more than a tenth of the rows has no label, of which nothing is learned."""
    rows = labels.missing + sum(labels.counts.values())
    if 10 * labels.missing <= rows:
        return []
    return [
        f"{labels.missing:,} of {rows:,} rows ({100 * labels.missing / rows:.0f} %) have no "
        "label and are only predicted. If they should have one, check --column label=YOURS; "
        "blank cells, NA and the words of missing are none."
    ]


def named_labels(rows: Mapping[str, int], settings: ExpertSettings) -> Labels:
    """Return the classes of the labels that were found."""
    labels = labels_of(sorted(rows), settings.positive)
    return in_order(labels) or labels if settings.target == "ordered" else labels


LEAST = 3
"""Rows of each label, where there are more than two."""
MOST_LABELS = 1000
"""Different labels of a file that may be those of classes."""


def label_faults(where: str, contents: Contents, settings: ExpertSettings) -> list[Fault]:
    """List what keeps labels from being fitted."""
    kind = label_kind(contents.labels, contents.label_cells, settings)
    if EXPOSURE in settings.columns and kind != "count":
        remedy = f"leave target or the {EXPOSURE} out"
        return [Fault("settings", f"count with an {EXPOSURE}", kind, "target", remedy=remedy)]
    if kind != "classes":
        return _number_faults(where, contents, settings, kind == "count")
    few = "join labels to fewer classes"
    if number_rule(contents.label_cells, settings):
        few += ", or predict a number: target=number"
    classes = f"labels of at most {MOST_CLASSES} classes"
    levels = contents.labels
    if levels.many or len(levels.counts) > MOST_LABELS:
        return [_fault(where, classes, f"more than {MOST_LABELS:,} different ones", few)]
    labels = named_labels(levels.counts, settings)
    if settings.target == "ordered" and len(labels.names) > 2 and in_order(labels) is None:
        expected = "numbers or words of a known scale (low, high) for target=ordered"
        return [_fault(where, expected, listed(labels.names), _NUMBERED)]
    if len(labels.names) > MOST_CLASSES:
        return [_fault(where, classes, f"{len(labels.names):,}", few)]
    positive = settings.positive
    if positive is not None and (len(labels.names) != 2 or labels.code(positive) < 0):
        known = " and ".join(labels.names)
        expected = "one of two labels" if len(labels.names) != 2 else f"one of {known}"
        return [Fault("settings", expected, positive, "positive")]
    return _count_faults(where, labels, contents, settings)


def _count_faults(
    where: str, labels: Labels, contents: Contents, settings: ExpertSettings
) -> list[Fault]:
    """List the classes that have too few rows, or are too many."""
    rows = labels.counts(contents.labels.counts)
    if not any(rows):
        seen = contents.seen  # words, which labels often are, come first
        others = listed(sorted(seen, key=lambda name: not seen[name].odd), 8)
        found = f"none; the other columns are {others}" if others else "none"
        return [_fault(where, "a label in some of the rows", found, _NAME)]
    if len(rows) <= 2:
        only = next(i for i, n in enumerate(rows) if n)
        found = f"{rows[only]} with {labels.names[only]} alone"
        fault = _fault(where, "rows with two labels", found, "give rows of both classes")
        return [] if len(rows) == 2 and all(rows) else [fault]
    if settings.inference != "additive":
        return [_not_additive(where, listed(labels.names), settings)]
    few = [name for name, n in zip(labels.names, rows, strict=True) if n < LEAST]
    if not few:
        return []
    cells = contents.label_cells
    is_count = number_rule(cells, settings) is not None and is_whole(cells)
    expected = f"at least {LEAST} rows of each of more than two labels"
    remedy = _COUNT + exposure_option(contents.seen) if is_count else _JOIN
    return [_fault(where, expected, f"fewer of {listed(few)}", remedy)]


def _number_faults(
    where: str, contents: Contents, settings: ExpertSettings, is_count: bool
) -> list[Fault]:
    """List what keeps labels from being fitted as numbers."""
    labels, cells = contents.labels, contents.label_cells
    of_classes = {
        "positive": settings.positive is not None,
        "class_weight": settings.class_weight != "none",
    }
    faults = [
        Fault("settings", "classes", "a label that is a number", name, remedy=f"leave {name} out")
        for name, is_given in of_classes.items()
        if is_given
    ]
    if settings.inference != "additive":
        faults.append(_not_additive(where, "a number", settings))
    if not cells.cells:
        faults.append(_fault(where, "a number in some of the rows", "none", _NAME))
    elif number_rule(cells, settings) is None:
        odd = shown(cells.odd[0]) if cells.odd else "other cells"
        expected = f"numbers for target={'count' if is_count else 'number'}"
        faults.append(_fault(where, expected, odd, "mend the cells, or take target=classes"))
    elif is_count and not is_whole(cells):
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
_COUNT = "join rare labels, or if they are counts, --set target=count"
_NAME = "name the column that holds it (--column label=YOURS), or fill it"


def _fault(where: str, expected: str, found: str, remedy: str) -> Fault:
    return Fault(where, expected, found, LABEL, remedy=remedy)
