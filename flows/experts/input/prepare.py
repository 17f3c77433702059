"""From ingested partitions to arrays: columns read over all of them, then each one built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from flows import storage
from flows.experts.input import encoding as of_encoding
from flows.experts.input.design import (
    COLUMNS,
    Design,
    Forms,
    Summed,
    alike_columns,
    build,
    choose_basis,
    choose_scale,
    repeats_of,
    replace_target,
    sums_of,
)
from flows.experts.input.encoding import AboutRows, Encoding, Target
from flows.experts.input.labels import (
    EXPOSURE,
    Labels,
    exposure_option,
    label_kind,
    label_read,
    label_warnings,
    named_labels,
    number_read,
    number_rule,
    number_warning,
    unlabelled_warning,
)
from flows.experts.input.units import (
    RowUnits,
    find_units,
    hold_out_warnings,
    said_of_units,
)
from flows.experts.settings import ExpertSettings
from flows.family import Each, Prepared
from flows.faults import InputError
from flows.records import json_files
from flows.records.runs import RunPaths
from flows.tables.column_table import doubtful_numbers, numbers_in_text, suggestions
from flows.tables.mixed import CATEGORY, NUMBER
from flows.tables.names import listed
from flows.tables.partition import Part
from flows.tables.roles import LABEL, Contents, column_rules
from vbmodels.core.state import BoolArray, FloatArray, IntArray, State
from vbmodels.experts.additive.model import MOST_COLUMNS
from vbmodels.experts.additive.one_vs_rest import ClassRows, OrderedRows
from vbmodels.experts.options import RARE_BELOW
from vbmodels.experts.rows import FOLDS, Rows, part_of
from vbmodels.experts.shared_rows import TEST_FOLDS
from vbmodels.experts.terms.knots import RowSample
from vbmodels.experts.terms.step_rows import CodedRows, CountRows, TargetRows
from vbmodels.tables.column_table import USED, ColumnRead, column_read
from vbmodels.tables.columns import Reason, Rule, names_rows
from vbmodels.tables.encoding import (
    FURTHEST,
    ONE_VALUE,
    constant_columns,
    encoded,
    encoded_sums,
    names_of,
    scaled,
)
from vbmodels.tables.seen import ends_of

LEAST_GAIN, LEAST_ROWS = 0.02, 40
"""Nats a row by which the log must predict better, and rows from which on that is looked at."""


def logged(target: Target, label: FloatArray) -> Target:
    """Return the target on the log, with the mean and sd of the logarithms of fitted labels."""
    logs = np.log(np.sort(label))
    return target.model_copy(
        update={"logged": True, "log_mean": float(logs.mean()), "log_sd": float(logs.std())}
    )


def logged_where_better(
    target: Target,
    sample: RowSample,
    columns: Sequence[int],
    encoding: Encoding,
    design: Design,
    units: RowUnits,
) -> Target:
    """Return the target, on the log where a sample of the fitted rows is predicted better by that.

    ``columns`` are those of the sample that ``encoding`` is of.
    """
    cells, first = np.unique(units.cells, return_index=True)
    if not cells.size or units.label.min() <= 0.0:
        return target
    positions = np.minimum(np.searchsorted(cells, sample.group), cells.size - 1)
    known = cells[positions] == sample.group
    x = encoded(np.take(sample.x[known], columns, axis=1), encoding.columns)
    x = np.clip(scaled(x, design.centre, design.scale), -FURTHEST, FURTHEST)
    y, group = units.label[first[positions[known]]], units.units.number_of(sample.group[known])
    return logged(target, units.label) if predicts_better(x, y, group) else target


def predicts_better(x: FloatArray, y: FloatArray, group: IntArray) -> bool:
    """Say whether positive numbers y [n] are predicted better on the log, from rows x [n, D].

    The predictions are those of ridge regressions on the columns and their squares, fitted without
    the rows that they are for; rows of one ``group`` [n] are left out together.
    """
    if y.size < LEAST_ROWS or y.min() <= 0.0 or y.min() == y.max():
        return False
    design = np.column_stack([x, x**2, np.ones(y.size)])
    fold, logs = part_of(group, FOLDS), np.log(y)
    gain = np.full(y.size, np.nan)
    for k in range(FOLDS):
        tested = fold == k
        if tested.any() and 2 * np.count_nonzero(~tested) > y.size:
            gain[tested] = _log_density(design, logs, tested) - _log_density(design, y, tested)
            gain[tested] -= logs[tested]
    gain = gain[~np.isnan(gain)]
    error = gain.std() / np.sqrt(max(gain.size, 1))
    return bool(gain.size and gain.mean() > max(LEAST_GAIN, 2.0 * error))


def _log_density(design: FloatArray, y: FloatArray, held_out: BoolArray) -> FloatArray:
    """Return the log density of held-out rows [m] under a ridge regression on the others."""
    centre, sd = y[~held_out].mean(), y[~held_out].std()
    z, x = (y - centre) / sd, design[~held_out]
    penalised = x.T @ x + np.eye(x.shape[1])
    weights = np.linalg.solve(penalised, x.T @ z[~held_out])
    used = float(np.trace(np.linalg.solve(penalised, x.T @ x)))
    noise = float(np.sum((z[~held_out] - x @ weights) ** 2)) / max(len(x) - used, 1.0)
    away = z[held_out] - design[held_out] @ weights
    return np.asarray(-0.5 * away**2 / noise - 0.5 * np.log(2.0 * np.pi * noise) - np.log(sd))


def prepared(
    parts: Sequence[Part],
    settings: ExpertSettings,
    paths: RunPaths,
    fitted: RunPaths | None,
    each: Each,
) -> Prepared:
    """Choose what every column becomes, or take it from a fit, and build every partition."""
    indices = [part.index for part in parts]
    urls = [paths.part("about", index, "json") for index in indices]
    about = reduce(add, (json_files.read(url, AboutRows).contents for url in urls))
    if fitted is None:
        chosen = _choose_columns(parts, about, settings, paths, each)
    else:
        chosen = ChosenColumns(_known_forms(fitted, about))
    encoding, warnings, notes = chosen.forms.encoding, chosen.warnings, chosen.notes
    chosen.forms.write(paths)
    built = each(build, indices, paths, fitted is not None, chosen.forms.copies)
    warnings += tuple(of_encoding.unseen_values([strange for _, strange in built]))
    batch: type[State] = Rows if chosen.forms.basis is None else CodedRows
    if encoding.target is not None:
        batch = CountRows if encoding.target.count else TargetRows
    elif len(encoding.labels) > 2:
        batch = OrderedRows if encoding.ordered else ClassRows
    missing = about.label_cells.missing
    if settings.strict and fitted is None and missing:
        raise InputError.of(
            file="the data",
            column=settings.columns.get(LABEL, LABEL),
            expected="a label in every row (strict)",
            found=f"{missing:,} without one",
            remedy="add the labels, or leave --strict out",
        )
    if missing and not (
        fitted is None and encoding.target is None and unlabelled_warning(about.labels)
    ):
        notes = (f"rows without a label, predicted: {missing:,}", *notes)
    partitions = tuple(url for url, _ in built)
    return Prepared(partitions, batch, warnings, (), chosen.columns, notes, chosen.further_fits)


@dataclass(frozen=True)
class ChosenColumns:
    """What every column becomes in a fit, and what is said of it."""

    forms: Forms
    warnings: tuple[str, ...] = ()
    columns: tuple[ColumnRead, ...] = ()
    notes: tuple[str, ...] = ()
    further_fits: float = 0.0


def _known_forms(fitted: RunPaths, about: Contents) -> Forms:
    """Return what columns became in a fit, whose labels new rows must have."""
    forms = Forms.read(fitted, work=False)
    encoding, names = forms.encoding, [str(name) for name in forms.design.columns]
    known = encoding.target is not None or len(encoding.labels) >= 2
    if names_of(encoding.columns) != names or not known:
        url = fitted.kept(COLUMNS)
        raise storage.DamagedError(f"{url} is damaged: its columns are not the fit's", url)
    unknown = [] if encoding.target else encoding.classes.unknown(about.labels.counts)
    if unknown:
        raise InputError.of(
            file="the new data",
            column=LABEL,
            expected=f"labels of the fit: {listed(encoding.labels)}",
            found=listed(unknown),
            remedy="correct the labels, or leave them empty",
        )
    return forms


def _choose_columns(
    parts: Sequence[Part],
    about: Contents,
    settings: ExpertSettings,
    paths: RunPaths,
    each: Each,
) -> ChosenColumns:
    seen = about.seen
    every, _ = column_rules(seen, settings)
    ids = {
        name: why
        for name, rule in every.items()
        if rule.kind == NUMBER and name not in settings.include
        if (why := names_rows(name, seen[name], None, rule.kind))
    }
    kinds = {name: rule for name, rule in every.items() if name not in ids}
    labels = _read_labels(about, settings)
    indices = [part.index for part in parts]
    named = {  # what may name groups
        name: rule
        for name, rule in every.items()
        if rule.kind == CATEGORY or (rule.kind == NUMBER and not seen[name].fractions)
    }
    row_units = find_units(parts, kinds, every, named, labels, settings, paths, each)
    units = row_units.units
    summed = reduce(add, each(sums_of, indices, kinds, labels, settings, paths))
    copies = repeats_of(summed.sample, units)
    # Of a table that is repeated twice, levels are as rare as in the table.
    rare = round(RARE_BELOW * copies)
    texts = {
        name: why
        for name, content in summed.levels.items()
        if name not in settings.include and not content.many
        if (why := names_rows(name, seen[name], len(content.counts), CATEGORY))
    }
    encoding, warnings = of_encoding.choose(
        kinds, summed.columns, summed.levels, labels, settings, rare, texts
    )
    columns = names_of(encoding.columns)
    reasons = of_encoding.why_left_out(encoding, summed.levels, rare) | ids | texts
    _refuse_columns(columns, reasons, settings)
    sums = encoded_sums(summed.columns, encoding.columns)
    reasons |= dict.fromkeys(constant_columns(encoding.columns, sums.constant), ONE_VALUE)
    if isinstance(labels, Target):
        encoding = replace_target(encoding, labels, summed.target)
    else:
        _refuse_classes(labels.names, summed.classes.tolist())
    weight = about.weights.mean(settings)
    design, remarks = choose_scale(columns, sums, summed.classes, settings, weight)
    basis = choose_basis(settings, summed.sample, kinds, encoding, sums, design, units)
    if encoding.target is not None and not encoding.target.count and summed.sample is not None:
        places = [list(kinds).index(column.name) for column in encoding.columns]
        target = logged_where_better(
            encoding.target, summed.sample, places, encoding, design, row_units
        )
        encoding = encoding.model_copy(update={"target": target})
    if copies > 1.0:
        remarks += (
            f"Every row occurs {copies:.0f} times (or a multiple): each counts 1/{copies:.0f}, "
            "and copies are left out together.",
        )
    used = [column.name for column in encoding.columns]
    encoding = encoding.model_copy(
        update={
            "ranges": {
                name: ends_of(seen[name], rule.decimal)
                for name, rule in encoding.kinds.items()
                if rule.kind == NUMBER and seen[name].cells
            },
            "groups": alike_columns(summed.sample, [*kinds], encoding),
            "repeated": f"{row_units.repeated} (first {row_units.parts_alike} parts)"
            if row_units.parts_alike
            else row_units.repeated,
            "design_effect": units.design_effect,
        }
    )
    warnings += [*hold_out_warnings(row_units), *_say_of_labels(about, labels, encoding, settings)]
    label, levels = settings.columns.get(LABEL, LABEL), {**summed.levels}
    read_as, cells = {name: every[name] for name in used}, {label: about.label_cells, **seen}
    if isinstance(labels, Target):
        read_as = {label: labels.rule, **read_as}
    else:
        levels[label] = about.labels
    warnings += suggestions(cells, levels, [label, *used], weighs=True)
    warnings += [
        *doubtful_numbers(cells, read_as, settings),
        *about.weights.said(settings),
        *remarks,
    ]
    table = _columns(every, about, summed, labels, reasons, settings)
    notes = (*said_of_units(units, settings), *numbers_in_text(cells, read_as))
    further = float(TEST_FOLDS - 1) if units.folds.size else 0.0  # each has four fifths of the rows
    forms = Forms(encoding, design, basis, copies * units.design_effect)
    return ChosenColumns(forms, tuple(warnings), table, notes, further)


def _say_of_labels(
    about: Contents, labels: Labels | Target, encoding: Encoding, settings: ExpertSettings
) -> list[str]:
    """Say what of labels could be meant otherwise."""
    if not isinstance(labels, Target):
        return [*label_warnings(labels, encoding.ordered), *unlabelled_warning(about.labels)]
    if EXPOSURE in settings.columns:
        return []
    is_logged = encoding.target is not None and encoding.target.logged
    is_chosen = settings.target == "auto" or is_logged
    sentences = [number_warning(about.labels, labels.count, is_logged)] if is_chosen else []
    option = exposure_option(about.seen) if labels.count else ""
    if option:
        sentences.append(f"If counts are of more or less time, area or people, name it:{option}.")
    return sentences


def _read_labels(about: Contents, settings: ExpertSettings) -> Labels | Target:
    kind = label_kind(about.labels, about.label_cells, settings)
    if kind == "classes":
        return named_labels(about.labels.counts, settings)
    rule = number_rule(about.label_cells, settings) or Rule(NUMBER)
    return Target(rule=rule, count=kind == "count")


def _columns(
    every: Mapping[str, Rule],
    about: Contents,
    summed: Summed,
    labels: Labels | Target,
    reasons: Mapping[str, Reason],
    settings: ExpertSettings,
) -> tuple[ColumnRead, ...]:
    """Return the table of columns: those that predict, the label, and the weight."""
    theirs = settings.columns
    name = theirs.get(LABEL, LABEL)
    table = [
        number_read(about.label_cells, name, labels.count)
        if isinstance(labels, Target)
        else label_read(about.labels, labels, name)
    ]
    table += about.weights.columns(settings)
    if EXPOSURE in theirs and summed.target is not None:
        mean = f"{summed.target.mean[1]:.4g} in the mean"
        table.append(ColumnRead(theirs[EXPOSURE], "number", 0, mean, "exposure of the count"))
    for name, rule in every.items():
        use = reasons.get(name, USED)
        table.append(column_read(name, rule, about.seen[name], summed.levels.get(name), use))
    return tuple(table)


def _refuse_classes(names: Sequence[str], rows: Sequence[int]) -> None:
    if all(rows):
        return
    counts = [f"{n} with {name}" for name, n in zip(names, rows, strict=True)]
    which = "both" if len(names) == 2 else "all"
    found = " and ".join(reversed(counts)) if len(names) == 2 else listed(counts)
    raise InputError.of(
        file="settings",
        column="test_share",
        expected=f"rows of {which} labels left for the fit",
        found=found,
        remedy="lower test_share or give more rows",
    )


def _refuse_columns(
    columns: Sequence[str], reasons: Mapping[str, Reason], settings: ExpertSettings
) -> None:
    if not columns:
        why = "; ".join(f"{name}: {reason}" for name, reason in list(reasons.items())[:5])
        raise InputError.of(
            file="the data",
            expected="at least one column that predicts",
            found=f"none ({why})" if why else "none",
            remedy="give other columns or more rows, or name columns in --include",
        )
    if settings.inference == "additive" and len(columns) > MOST_COLUMNS:
        raise InputError.of(
            file="settings",
            column="inference",
            expected=f"at most {MOST_COLUMNS} columns for inference=additive",
            found=f"{len(columns)}",
            remedy="give fewer columns, lower max_levels, or take inference=cavi",
        )
