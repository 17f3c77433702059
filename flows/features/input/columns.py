"""Which columns of a table are modelled, as which categories, and what ties them to each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from flows.faults import Fault, InputError, did_you_mean
from flows.features.input.categories import (
    DIGITS,
    RARE,
    Column,
    classes_of,
    halve,
    order_levels,
    recoded,
)
from flows.features.input.pairs import Survey, best_cut, by_no_chance, place_of_yes, reason_of_gaps
from flows.features.settings import FeatureSettings
from flows.one_table import CheckedColumns
from flows.settings.tables import words_by_column
from flows.storage import InputFile
from flows.tables.column_table import suggestions
from flows.tables.mixed import NUMBER
from flows.tables.names import in_files, listed, option, shown_names
from flows.tables.roles import column_rules, merge_seen, unclear_faults
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.features.table import (
    is_measured,
    long_format,
    take_codes,
    why_left_out,
    why_measured,
)
from vbmodels.tables.answers import split_questions
from vbmodels.tables.column_table import USED, ColumnRead, column_read
from vbmodels.tables.columns import Reason, Rule, Unclear
from vbmodels.tables.levels import LEAST, NUMBERS, Levels, Scale, numbers_of, scale_of
from vbmodels.tables.seen import Seen


def rules_of(
    seen: Mapping[str, Seen], settings: FeatureSettings
) -> tuple[dict[str, Rule], dict[str, Unclear]]:
    """Return how columns are read, and which cannot be.

    Codes among which some cells are words are categories.
    """
    return take_codes(seen, *column_rules(seen, settings), cut=bool(settings.bins))


NO_COLUMN = "none"
"""In the setting ``ordered``: no column has an order."""


def faults_of_fit(files: Sequence[InputFile], checked: Sequence[CheckedColumns]) -> list[Fault]:
    """List the columns that cannot be read."""
    settings: FeatureSettings = checked[0].settings
    seen = merge_seen([of_file.about.contents.seen for of_file in checked])
    orders = words_by_column(settings.ordered)
    named = {
        "categories": settings.categories,
        "ordered": [name for name in (*orders[""], *orders) if name not in ("", NO_COLUMN)],
        "missing": settings.missing_columns(),
    }
    faults = [
        Fault(
            "settings",
            f"a column of the input, such as {', '.join(list(seen)[:5])}",
            name,
            setting,
            remedy=did_you_mean(name, seen),
        )
        for setting, names in named.items()
        for name in names
        if name not in seen
    ]
    return faults + unclear_faults(
        in_files([file.url for file in files]), rules_of(seen, settings)[1], settings
    )


@dataclass(frozen=True)
class FoundColumns:
    """What became of a table's columns.

    Attributes
    ----------
    kept
        The columns to model.
    reasons
        Why each other one is left out.
    table
        All of them, as they are shown.
    warnings
        What else to say.
    """

    kept: tuple[Column, ...]
    reasons: Mapping[str, Reason]
    table: tuple[ColumnRead, ...]
    warnings: tuple[str, ...]


def columns_of(
    seen: Mapping[str, Seen],
    levels: Mapping[str, Levels],
    settings: FeatureSettings,
    numbers_of: Callable[[str, Rule], FloatArray],
) -> FoundColumns:
    """Return the columns to model, and why others are left out.

    Parameters
    ----------
    seen, levels
        What the columns hold, and their categories as text.
    settings
        The settings.
    numbers_of
        Returns some numbers of a column.

    Raises
    ------
    InputError
        If no column is left.
    """
    least, most = settings.rare_below, settings.max_levels
    split = split_questions(
        rules_of(seen, settings)[0], seen, levels, settings.categories, least, most
    )
    rules, seen, levels = split.rules, split.seen, split.levels
    columns: list[Column] = []
    reasons: dict[str, Reason] = {}
    shown: dict[str, Levels] = {}
    for name, rule in rules.items():
        answers = recoded(levels[name], rule) if not levels[name].many else levels[name]
        cuts: tuple[float, ...] = ()
        wanted = name in settings.include or name in settings.categories
        why = why_left_out(name, rule, seen[name], answers, wanted)
        measured = is_measured(seen[name], answers, rule)
        if measured and settings.bins and not why:
            cuts = cuts_of(numbers_of(name, rule), settings.bins)
            answers = answers if levels[name].many else recoded(levels[name], rule, cuts)
            why = None if cuts else Reason("other", "one value")
            rule = replace(rule, remark=_with(rule.remark, f"cut into {len(cuts) + 1} classes"))
        elif measured and not why:
            why = why_measured(rule)
        shown[name] = answers
        if cuts and answers.many:  # classes of many values are counted once more, in the survey
            answers = Levels(dict.fromkeys(_names_of_classes(cuts), 1), answers.missing)
        if why:
            reasons[name] = why
            continue
        scale = _scale(name, answers, seen[name], settings, cuts)
        column = order_levels(name, answers, 0 if scale else least, most)
        if scale is not None and not column.joined:
            column = replace(column, ordered=scale.levels, scale=scale.kind)
            if not cuts:
                ends = f"{scale.levels[0]} to {scale.levels[-1]}"
                rule = replace(rule, remark=_with(rule.remark, ends))
        columns.append(replace(column, rule=rule, cuts=cuts, question=split.source.get(name, "")))
        rules[name] = rule
    _refuse_long({name: shown[name] for name in rules}, reasons, settings)
    if not columns:
        _refuse(reasons)
    ordered = {column.name for column in columns if column.ordered}
    table = [
        _shown_as(name, rule, seen[name], shown[name], reasons.get(name), name in ordered)
        for name, rule in rules.items()
    ]
    used_names = [column.name for column in columns]
    columns = [
        replace(column, label=name)
        for column, name in zip(columns, shown_names(used_names), strict=True)
    ]
    warnings = [
        *map(split.in_words, split.several),
        *_on_repeated(reasons, shown),
        *_on_measured(reasons),
        *_on_rare(columns, settings),
        *_on_zeros(columns),
    ]
    warnings += suggestions(
        seen,
        {name: shown[name] for name in used_names},
        used_names,
        [name for name in reasons if rules[name].kind == NUMBER],
        weighs=True,
    )
    return FoundColumns(tuple(columns), reasons, tuple(table), tuple(warnings))


def _shown_as(
    name: str, rule: Rule, seen: Seen, levels: Levels, reason: Reason | None, is_ordered: bool
) -> ColumnRead:
    """Return how a column is read; ``reason``: why it is left out."""
    read = column_read(name, rule, seen, levels, reason or USED, not reason)
    plain = read.read_as.removeprefix("ordered ")
    if not plain.startswith("category"):
        return read
    return replace(read, read_as=f"ordered {plain}" if is_ordered else plain)


def _scale(
    name: str, answers: Levels, seen: Seen, settings: FeatureSettings, cuts: Sequence[float]
) -> Scale | None:
    """Return the order of a column's answers; None where they have none, or shall have none."""
    if cuts:
        return Scale(NUMBERS, tuple(c for c in _names_of_classes(cuts) if c in answers.counts))
    orders = words_by_column(settings.ordered)
    levels, order = list(answers.counts), orders.get(name, seen.order)
    wanted = name in (*orders[""], *orders)
    if orders[""] and not wanted:
        return None
    scale = None if name in orders else scale_of(levels, 2 if wanted else LEAST)
    if set(levels) <= set(order):  # the user or the file says so
        kind = NUMBERS if scale is None else scale.kind
        return Scale(kind, tuple(level for level in order if level in answers.counts))
    if name in orders[""] and scale is None and (numbers := numbers_of(levels)) is not None:
        scale = Scale(NUMBERS, tuple(levels[i] for i in np.argsort(numbers)))
    if wanted and scale is None:
        raise InputError.of(
            file="the data",
            column=name,
            expected="answers of a known scale, or numbers (setting ordered)",
            found=listed([repr(level) for level in levels], 4),
            remedy="name all from the lowest to the highest "
            f"({option('--set', f'ordered={name}:LOW,...,HIGH')})",
        )
    return scale


def _with(remark: str, added: str) -> str:
    return f"{remark}, {added}" if remark else added


def _names_of_classes(cuts: Sequence[float]) -> list[str]:
    inside = [cuts[0] - 1.0, *cuts]
    return [str(name) for name in classes_of(np.array(inside), cuts).to_pylist()]


def cuts_of(values: FloatArray, bins: int) -> tuple[float, ...]:
    """Return where numbers are cut into classes of about as many each.

    They have few digits, as far as these set the numbers apart.

    >>> cuts_of(np.arange(100.0), 4), cuts_of(np.array([1.0, 1.0, 1.0, 5.0]), 2)
    ((25.0, 50.0, 75.0), (5.0,))
    >>> cuts_of(1.7e9 + np.arange(100.0), 2)
    (1700000050.0,)
    """
    if not values.size or bins < 2:
        return ()
    ordered = np.sort(values)
    positions = np.arange(1, bins) * len(ordered) // bins
    cuts = np.unique(ordered[positions])
    cuts = cuts[cuts > ordered[0]]
    if not cuts.size and ordered[-1] > ordered[0]:
        cuts = ordered[ordered > ordered[0]][:1]
    rounded = ([float(f"{cut:.{digits}g}") for cut in cuts] for digits in DIGITS)
    return next(
        tuple(ends)
        for ends in rounded
        if ends[-1:] <= [ordered[-1]] and all(a < b for a, b in pairwise([ordered[0], *ends]))
    )


def _refuse(reasons: Mapping[str, Reason]) -> None:
    found = "; ".join(f"{name}: {why}" for name, why in list(reasons.items())[:6])
    measured = [name for name, why in reasons.items() if why.kind == "measured"]
    remedy = "give a table whose columns vary"
    if measured:
        remedy = (
            "cut measurements (--set bins=4), or take values as categories "
            f"({option('--set', 'categories=' + ','.join(measured[:3]))})"
        )
    raise InputError.of(
        file="the data",
        expected="at least one column with two categories",
        found=f"none ({found})",
        remedy=remedy,
    )


def _on_repeated(reasons: Mapping[str, Reason], levels: Mapping[str, Levels]) -> list[str]:
    """Say which ids have several rows, which count as if they were of several respondents."""
    repeated = [
        f"{name} has {len(levels[name].counts):,} in {sum(levels[name].counts.values()):,} rows"
        for name, why in reasons.items()
        if why.kind == "repeated ids" and levels[name].counts
    ]
    if not repeated:
        return []
    return [
        f"Ids repeat: {listed(repeated)}. Their rows count as independent, so intervals are too "
        "narrow; give one row of each."
    ]


def _refuse_long(
    levels: Mapping[str, Levels], reasons: Mapping[str, Reason], settings: FeatureSettings
) -> None:
    """Refuse a table in the long format, of one row an answer."""
    roles = long_format(levels, reasons)
    if not roles or roles[1] in (*settings.include, *settings.categories):
        return
    ids, question, answer = roles
    ids, answer = ids or "the one who answers", answer or "the answers"
    raise InputError.of(
        file="the data",
        column=question,
        expected="one row for all answers of a respondent",
        found=f"a row for each of its {len(levels[question].counts)} values: "
        f"{listed(list(levels[question].counts), 3)}",
        remedy=f"pivot it (a row for each value of {ids}, a column for each of {question}, "
        f"{answer} as cells), or give the rows of one value. To describe each row, name the "
        f"columns to use ({option('--set', f'include={question},...')})",
    )


def _on_measured(reasons: Mapping[str, Reason]) -> list[str]:
    names = [name for name, why in reasons.items() if why.kind == "measured"]
    if not names:
        return []
    return [
        f"Measurements or dates are left out: {listed(names)}. --set bins=4 cuts them into "
        "classes; --set categories=NAME takes values as categories."
    ]


# Highest points of scales that begin at 1 rather than at 0.
ODD_SCALES = (5, 7)


def _on_zeros(columns: Sequence[Column]) -> list[str]:
    """Say which scales from 1 on have a 0 as well, which may be a code of missing cells."""
    highest = {
        column.name: len(column.levels) - 1
        for column in columns
        if set(column.levels) == {str(point) for point in range(len(column.levels))}
    }
    from_one = {
        len(column.levels)
        for column in columns
        if set(column.levels) == {str(point + 1) for point in range(len(column.levels))}
    }
    odd = [c for c in columns if highest.get(c.name, 0) in {*ODD_SCALES, *(from_one - {1, 2})}]
    if not odd:
        return []
    cells = sum(column.counts[column.levels.index("0")] for column in odd)
    names = listed([column.name for column in odd], 8)
    other = [c.name for c in columns if c not in odd and {"0", "no"} & set(c.levels)]
    remedy = f"leave these cells blank, as 0 is an answer of {listed(other, 4)}"
    return [
        f"These look like codes of missing cells, and are read as values: 0 ({cells:,} cells in "
        f"{names}). If they are, {remedy if other else '--set missing=0'}."
    ]


def _on_rare(columns: Sequence[Column], settings: FeatureSettings) -> list[str]:
    joined = [c for c in columns if c.joined]
    if not joined:
        return []
    names = listed([f"{c.name} ({len(c.joined):,})" for c in joined])
    where = "1 column" if len(joined) == 1 else f"{len(joined)} columns"
    return [
        f"Rare categories (fewer cells than rare_below = {settings.rare_below}, or beyond "
        f"max_levels = {settings.max_levels}) were joined into {RARE} in {where}: {names}."
    ]


def compare_columns(
    chosen: FoundColumns, surveys: Sequence[Survey]
) -> tuple[list[Column], FoundColumns]:
    """Leave out repeated columns; say which gaps have a reason and which columns exclude others."""
    total = surveys[0]
    for survey in surveys[1:]:
        total = total + survey
    first: dict[int, str] = {}
    reasons = dict(chosen.reasons)
    for column, key in zip(chosen.kept, total.prints.tolist(), strict=True):
        before = first.setdefault(key, column.name)
        if before != column.name:
            reasons[column.name] = Reason("copy", f"says the same as {before}")
    warnings = list(chosen.warnings)
    bounds = np.concatenate([[0], np.cumsum([len(c.levels) for c in chosen.kept])])
    columns = [
        replace(column, weights=tuple(total.weights[i:j].tolist()))
        for column, (i, j) in zip(chosen.kept, pairwise(bounds), strict=True)
    ]
    if total.cells.size:
        columns = [
            replace(column, structural=reason_of_gaps(d, chosen.kept, bounds, total))
            for d, column in enumerate(columns)
        ]
        warnings += _on_structural(columns)
        warnings += _on_exclusive(chosen.kept, bounds, total, reasons)
    twice = [f"{name} ({why})" for name, why in reasons.items() if why.kind == "copy"]
    if twice:
        warnings.append(f"Repeated columns are used once: {listed(twice)}.")
    table = tuple(
        ColumnRead.of(
            row.name, row.read_as, row.missing, row.holds, reasons.get(row.name, row.used)
        )
        for row in chosen.table
    )
    columns = [column for column in columns if column.name not in reasons]
    if halved := _few_a_row(columns, total):
        warnings.append(
            f"Rows answer few columns, so scales are joined to two halves: {listed(halved)}."
        )
        span_of = {
            c.name: slice(i, j) for c, (i, j) in zip(chosen.kept, pairwise(bounds), strict=True)
        }
        joint = total.pairs.astype(np.float64)
        cuts = {
            column.name: best_cut(
                column,
                [(c, joint[span_of[column.name], span_of[c.name]]) for c in columns if c != column],
            )
            for column in columns
            if column.name in halved
        }
        columns = [halve(c, cuts[c.name]) if c.name in cuts else c for c in columns]
    return columns, FoundColumns(tuple(columns), reasons, table, tuple(warnings))


# Share of missing cells from which on it matters that rows answer few columns.
SPARSE = 0.3
# Pairs of a row's answers for each number that describes a group, below which answers on a scale
# are used as low and high: chosen on two tables, one where it is needed and one where it is not.
LEAST_PAIRS = 100.0


def _few_a_row(columns: Sequence[Column], total: Survey) -> list[str]:
    """Return the columns with an order of which rows answer too few to use all of their levels."""
    if not total.cells.size or not columns:
        return []
    gone = np.array([column.missing for column in columns]) / total.rows
    if gone.mean() < SPARSE:
        return []
    answered = float((1.0 - gone).sum())
    pairs = total.rows * answered * (answered - 1.0) / 2.0
    numbers = sum(len(column.levels) - 1 for column in columns)
    gates = {column.structural[0] for column in columns if column.structural}
    if pairs >= LEAST_PAIRS * numbers:
        return []
    return [c.name for c in columns if len(c.ordered) > 2 and c.name not in gates]


def _on_structural(columns: Sequence[Column]) -> list[str]:
    by_gate: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    cells = 0
    for column in columns:
        if column.structural is not None:
            by_gate.setdefault(column.structural, []).append(column.name)
            gate = next(c for c in columns if c.name == column.structural[0])
            cells += sum(gate.counts[gate.levels.index(name)] for name in column.structural[1])
    if not by_gate:
        return []
    skipped = "; ".join(
        f"{listed(names)} where {gate} = {' or '.join(levels[:4])}"
        for (gate, levels), names in by_gate.items()
    )
    return [f"Skipped questions are not filled ({cells:,} cells): {skipped}."]


def _on_exclusive(
    columns: Sequence[Column], bounds: IntArray, total: Survey, reasons: Mapping[str, Reason]
) -> list[str]:
    """Say which columns of yes and no have at most one yes in a row: dummies of one question."""
    ones = [
        (column.name, int(bounds[d]) + yes)
        for d, column in enumerate(columns)
        if column.name not in reasons and (yes := place_of_yes(column)) is not None
    ]
    groups: list[list[tuple[str, int]]] = []
    for name, index in ones:
        if groups and all(total.pairs[index, other] == 0 for _, other in groups[-1]):
            groups[-1].append((name, index))
        else:
            groups.append([(name, index)])
    dummies = [
        f"{listed([name for name, _ in group], 6)}{_rows_without(group, total)}"
        for group in groups
        if len(group) > 2 and by_no_chance([index for _, index in group], total)
    ]
    if not dummies:
        return []
    return [
        f"Columns exclude each other, with at most one yes in a row: {'; '.join(dummies[:6])}. If "
        "they are one question, give it as one column."
    ]


def _rows_without(group: Sequence[tuple[str, int]], total: Survey) -> str:
    none = total.rows - sum(int(total.cells[index]) for _, index in group)
    return f" ({none:,} of {total.rows:,} rows have none)" if none else ""
