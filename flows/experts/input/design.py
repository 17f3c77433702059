"""How columns become the model's: their scale, the rows that are fitted, and the arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa

from flows import storage
from flows.experts.input.encoding import Encoding, Target, exposures_in, levels_in, raw_of, strange
from flows.experts.input.labels import Labels, signs
from flows.experts.input.units import Units, read_units
from flows.experts.settings import ExpertSettings
from flows.faults import Fault, InputError, missing_columns, shown
from flows.records import json_files
from flows.records.runs import RunPaths
from flows.records.states import read_state
from flows.tables.mixed import CATEGORY
from flows.tables.names import digests_of, listed
from flows.tables.roles import ID, LABEL, WEIGHT, bounded, merge_levels
from vbmodels.core.state import BoolArray, FloatArray, IntArray, State, to_bytes
from vbmodels.experts.additive.counts import CountPosterior
from vbmodels.experts.additive.gaussian import GaussianPosterior
from vbmodels.experts.additive.one_vs_rest import ClassRows, OrderedRows
from vbmodels.experts.additive.posterior import AdditivePosterior
from vbmodels.experts.effects import (
    Effect,
    GroupEffect,
    PairEffect,
    correlated,
    effects_of,
    group_effects,
    pair_effects_of,
)
from vbmodels.experts.forms import AnyPosterior, has_process, landmarks_for
from vbmodels.experts.rows import Rows
from vbmodels.experts.terms.knots import Basis, RowSample, coded
from vbmodels.experts.terms.step_rows import CodedRows, CountRows, TargetRows, basis_of
from vbmodels.tables.columns import Rule
from vbmodels.tables.encoding import (
    FURTHEST,
    LARGEST,
    SPARSE,
    ColumnSums,
    blocks_of,
    encoded,
    encoded_sums,
    scaled,
    too_large,
)
from vbmodels.tables.levels import Levels


@dataclass(frozen=True)
class Design(State, kind="flows/experts.Design"):
    """How columns become the model's: names, what is taken off, what they are divided by.

    What has one value in the fit is divided by infinity: it is 0 in new rows too.
    ``weights`` are those of the labels in the fit, in order; ``mean_weight`` is that of the rows.
    """

    columns: np.ndarray
    centre: FloatArray
    scale: FloatArray
    sparse: bool
    weights: FloatArray
    mean_weight: float


_MEND = "mend the cell or leave it empty"


def alike_columns(
    sample: RowSample | None, kinds: Sequence[str], encoding: Encoding
) -> list[dict[str, float]]:
    """Group the columns of numbers that measure much the same in fitted rows of a sample."""
    names = [column.name for column in encoding.columns if column.kind in ("number", "date")]
    positions = [kinds.index(name) for name in names]
    fitted = None if sample is None else sample.x[sample.classes.sum(axis=1) > 0.0]
    return [] if fitted is None else correlated(fitted[:, positions], names)


@dataclass(frozen=True)
class Summed:
    """A partition's columns summed up.

    Attributes
    ----------
    columns
        Sums of the columns of numbers.
    levels
        Counts of the columns of categories.
    sample
        Raw cells of some rows with their labels, for the additive form.
    classes
        Rows of every class in the fit; [K].
    target
        Sums of the numbers in the fit, where the label is one.
    """

    columns: ColumnSums
    levels: Mapping[str, Levels]
    sample: RowSample | None
    classes: IntArray
    target: ColumnSums | None = None

    def __add__(self, other: Summed) -> Summed:
        """Add another partition's."""
        sample = None
        if self.sample is not None and other.sample is not None:
            sample = self.sample + other.sample
        levels = bounded(merge_levels([self.levels, other.levels]))
        return Summed(
            self.columns + other.columns,
            levels,
            sample,
            self.classes + other.classes,
            _added(self.target, other.target),
        )


def _added(one: ColumnSums | None, other: ColumnSums | None) -> ColumnSums | None:
    return one + other if one is not None and other is not None else one or other


def choose_basis(
    settings: ExpertSettings,
    sample: RowSample | None,
    kinds: Mapping[str, Rule],
    encoding: Encoding,
    sums: ColumnSums,
    design: Design,
    units: Units,
) -> Basis | None:
    """Return the knots of the additive form; None for another.

    Parameters
    ----------
    settings
        The settings.
    sample
        Raw cells of some rows.
    kinds
        How the columns of these are read.
    encoding, sums, design
        What became of the columns, and the sums of those that they became.
    units
        The units of rows, by which folds go.
    """
    if sample is None:
        return None
    used = [list(kinds).index(name) for name in encoding.kinds]
    x = encoded(np.take(sample.x, used, axis=1), encoding.columns, filled=False)
    number = encoding.target is not None
    is_count = encoding.target is not None and encoding.target.count
    missing = np.full((1, len(encoding.columns)), np.nan)
    return basis_of(
        replace(sample, x=x, group=units.number_of(sample.group)),
        (design.centre, design.scale),
        sums.binary | sums.constant,
        design.sparse,
        FURTHEST if settings.standardise else np.inf,
        encoded(missing, encoding.columns)[0] if np.isnan(x).any() else None,
        landmarks_for(
            has_process(settings) and not is_count,
            number,
            sums.positive + sums.negative,
            len(encoding.columns),
            repeats_of(sample, units),
        ),
        blocks_of(encoding.columns),
        number,
    )


def repeats_of(sample: RowSample | None, units: Units) -> float:
    """Return how many times the whole table repeats: once, unless rows have copies."""
    return sample.repeats if sample is not None and units.copies else 1.0


def sums_of(
    index: int,
    kinds: Mapping[str, Rule],
    labels: Labels | Target,
    settings: ExpertSettings,
    paths: RunPaths,
    fold: int | None = None,
) -> Summed:
    """Sum up a partition's columns, read as they were found to be; labels without a ``fold``."""
    table = storage.read_table(paths.part("rows", index))
    raw, _ = raw_of(table, kinds)
    y = None
    if isinstance(labels, Target):
        y, _ = labels.values(_labels(table))
        codes = np.where(np.isnan(y), -1, 0)
    else:
        codes = labels.of_rows(_labels(table))
    t = signs(codes) if y is None else (codes + 1).astype(np.float64)
    n_classes = 1 if isinstance(labels, Target) else len(labels.names)
    keys, units = read_units(paths, index)
    numbers = [i for i, rule in enumerate(kinds.values()) if rule.kind != CATEGORY]
    x = raw if len(numbers) == raw.shape[1] else raw[:, numbers]
    fitted = (t != 0.0) & ~units.held_out(keys, fold)
    sums = ColumnSums.of(x, t * fitted)
    classes = np.bincount(codes[fitted], minlength=n_classes)
    sample = None
    if settings.inference == "additive":
        sample = RowSample.of(raw, keys.cells, np.where(fitted, codes, -1), n_classes, y)
    target = None
    if y is not None and fitted.any():
        target = ColumnSums.of(np.column_stack([y, *exposures_in(table)])[fitted], t[fitted])
    return Summed(sums, levels_in(table, kinds), sample, classes, target)


def _labels(table: pa.Table) -> pa.Array:
    return table[LABEL].combine_chunks()


def choose_scale(
    columns: list[str],
    sums: ColumnSums,
    classes: IntArray,
    settings: ExpertSettings,
    mean_weight: float = 1.0,
) -> tuple[Design, tuple[str, ...]]:
    """Return the scale of every column, and what the user should know of them."""
    centre, scale = sums.scaling(settings.standardise)
    weights = np.ones(len(classes))
    if settings.class_weight == "balanced":
        weights = classes.sum() / (float(len(classes)) * classes)
    warnings = []
    if sums.constant.any():
        named = [columns[i] for i in np.flatnonzero(sums.constant)]
        warnings.append(
            "Columns with one value predict nothing and are left out, in new rows too: "
            f"{listed(named)}."
        )
    first: dict[str, str] = {}
    same = [
        f"{column} (as {first[key]})"
        for column, key in zip(columns, sums.prints, strict=True)
        if first.setdefault(key, column) != column
    ]
    if same:
        warnings.append(f"Columns that repeat another share its weight: {listed(same)}.")
    fitted = sums.positive + sums.negative
    if fitted <= len(columns):
        warnings.append(
            f"{fitted} labelled rows for {len(columns)} columns: the fit rests on its prior."
        )
    design = Design(
        np.array(columns), centre, scale, sums.density(centre) < SPARSE, weights, mean_weight
    )
    return design, tuple(warnings)


def build(
    index: int, paths: RunPaths, new: bool, copies: float
) -> tuple[str, dict[str, tuple[int, int]]]:
    """Make one partition's arrays; rows of new data are scored only, so all weigh the same.

    ``copies`` is how many times the whole table repeats: rows weigh that much less.

    Returns
    -------
    url, counts
        Where the arrays are, and cells that the fit knew nothing of (`encoding.strange`).
    """
    forms = replace(Forms.read(paths), copies=copies)
    design, encoding = forms.design, forms.encoding
    table = storage.read_table(paths.part("rows", index))
    kinds = encoding.kinds
    there = [name.removeprefix("c.") for name in table.column_names if name.startswith("c.")]
    if lacks := missing_columns("experts", list(kinds), there):
        raise lacks
    names = table[ID].to_pylist()
    raw, wrong = raw_of(table, kinds)
    _refuse_unreadable(table, kinds, wrong, names)
    cell = too_large(scaled(encoded(raw, encoding.columns), design.centre, design.scale))
    if cell:
        row, column = cell
        name = str(design.columns[column])
        value = raw[row, list(kinds).index(name)]
        raise InputError.of(
            file="the new data" if new else "the data",
            column=name,
            expected=f"cells within {LARGEST:g} after scaling",
            found=f"{float(value)!r} in the row {names[row]!r}",
            remedy="give the column in another unit, or leave it out",
        )
    url = paths.part("partitions", index, "npz")
    if new:
        storage.write_bytes(url, to_bytes(forms.batch(table, raw)))
        return url, strange(raw, encoding)
    keys, units = read_units(paths, index)
    groups, fitted = units.number_of(keys.cells, keys.names), ~units.held_out(keys)
    storage.write_bytes(url, to_bytes(forms.batch(table, raw, groups, fitted)))
    return url, {}


COLUMNS, _DESIGN, _KNOTS = "columns.json", "design.npz", "knots.npz"


@dataclass(frozen=True)
class Forms:
    """What columns become in a fit; ``copies`` is by how much less each row weighs."""

    encoding: Encoding
    design: Design
    basis: Basis | None
    copies: float = 1.0

    @classmethod
    def read(cls, paths: RunPaths, work: bool = True) -> Forms:
        """Return those of a run at work, or of a finished one, in which a row counts once."""
        knots = paths.kept(_KNOTS, work)
        return cls(
            json_files.read(paths.kept(COLUMNS, work), Encoding),
            read_state(paths.kept(_DESIGN, work), Design),
            read_state(knots, Basis) if storage.exists(knots) else None,
        )

    def write(self, paths: RunPaths, work: bool = True) -> None:
        """Keep them with a run at work, or a finished one: new rows are brought to them."""
        json_files.write(paths.kept(COLUMNS, work), self.encoding)
        storage.write_bytes(paths.kept(_DESIGN, work), to_bytes(self.design))
        if self.basis is not None:
            storage.write_bytes(paths.kept(_KNOTS, work), to_bytes(self.basis))

    def effects(
        self, posterior: AnyPosterior | GaussianPosterior | CountPosterior
    ) -> tuple[tuple[Effect, ...], tuple[PairEffect, ...]]:
        """Return what columns and pairs of columns add in the additive form; nothing in another."""
        how = self.encoding.columns, (self.design.centre, self.design.scale), self.basis
        if isinstance(posterior, GaussianPosterior | CountPosterior):
            sd = 1.0 if self.encoding.target is None else self.encoding.target.unit
            effects, pairs = effects_of(posterior.part, *how), pair_effects_of(posterior.part, *how)
            return (
                tuple(effect.times(sd) for effect in effects),
                tuple(pair.times(sd) for pair in pairs),
            )
        if not isinstance(posterior, AdditivePosterior):
            return (), ()
        return effects_of(posterior.additive, *how), pair_effects_of(posterior.pairs, *how)

    def groups(self, posterior: AnyPosterior) -> tuple[GroupEffect, ...]:
        """Return what groups of columns add in the additive form; nothing in another."""
        if not isinstance(posterior, AdditivePosterior):
            return ()
        how = self.encoding.columns, (self.design.centre, self.design.scale), self.basis
        return group_effects(posterior.additive, *how, self.encoding.groups)

    @classmethod
    def without(
        cls, fold: int, indices: Sequence[int], settings: ExpertSettings, paths: RunPaths
    ) -> Forms:
        """Return those of a fit without a fold: of its labels it knows nothing."""
        forms = cls.read(paths)
        encoding, design = forms.encoding, forms.design
        labels = encoding.target or encoding.classes
        kinds, units = encoding.kinds, read_units(paths, indices[0])[1]
        parts = [sums_of(index, kinds, labels, settings, paths, fold) for index in indices]
        summed = reduce(add, parts)
        if encoding.target is not None:
            encoding = replace_target(encoding, encoding.target, summed.target)
        sums = encoded_sums(summed.columns, encoding.columns)
        columns = [str(name) for name in design.columns]
        design, _ = choose_scale(columns, sums, summed.classes, settings, design.mean_weight)
        basis = choose_basis(settings, summed.sample, kinds, encoding, sums, design, units)
        return cls(encoding, design, basis, repeats_of(summed.sample, units) * units.design_effect)

    def batch(
        self,
        table: pa.Table,
        raw: FloatArray,
        groups: IntArray | None = None,
        fitted: BoolArray | None = None,
    ) -> Any:
        """Return rows of a table with cells [N, C] as the model's; of new data none is fitted."""
        encoding, names = self.encoding, table[ID].to_pylist()
        codes, t, y = _labels_in(table, encoding, names)
        is_fitted = np.zeros(len(t)) if fitted is None else ((t != 0.0) & fitted).astype(float)
        weighs = table[WEIGHT].combine_chunks().fill_null(0.0).to_numpy()
        classes = self.design.weights[np.maximum(codes, 0)]
        weight = is_fitted * weighs * classes / (self.copies * self.design.mean_weight)
        target, keys = encoding.target, digests_of(names)
        exposure = np.ones(len(t)) if target is None else target.exposures(table)
        rows = self.rows(raw, t, keys, weight * exposure, groups)
        if target is not None and y is not None and isinstance(rows, CodedRows):
            return CountRows(rows, y / exposure, exposure) if target.count else TargetRows(rows, y)
        if len(encoding.labels) > 2:
            kind = OrderedRows if encoding.ordered else ClassRows
            return kind(rows, codes, len(encoding.labels))
        return rows

    def rows(
        self,
        raw: FloatArray,
        signs: FloatArray,
        keys: IntArray,
        weight: FloatArray | None = None,
        groups: IntArray | None = None,
    ) -> Rows | CodedRows:
        """Return raw cells [N, C] as rows of the model; ``keys`` are digests of their names."""
        x = encoded(raw, self.encoding.columns)
        lines = scaled(x, self.design.centre, self.design.scale)
        if self.basis is None:
            return Rows.of(lines, signs, keys, weight, self.design.sparse, groups)
        lines = np.clip(lines, -self.basis.limit, self.basis.limit)
        rows = Rows.of(lines, signs, keys, weight, self.design.sparse, groups)
        missing = np.isnan(encoded(raw, self.encoding.columns, filled=False))
        return CodedRows(rows, coded(x, self.basis.knots), self.basis, missing, self.copies)


def replace_target(encoding: Encoding, target: Target, sums: ColumnSums | None) -> Encoding:
    """Return the encoding with a number as label, whose scale the sums say."""
    if sums is None or bool(sums.constant[0]):
        raise InputError.of(
            file="settings",
            column="test_share",
            expected="rows with different numbers left for the fit",
            found="one number" if sums is not None else "none",
            remedy="lower test_share or give more rows",
        )
    scale = {"mean": float(sums.mean[0]), "sd": float(sums.sd[0])}
    if sums.mean.size > 1:
        scale["exposure"] = float(sums.mean[1])
    return encoding.model_copy(update={"labels": [], "target": target.model_copy(update=scale)})


def _labels_in(
    table: pa.Table, encoding: Encoding, names: Sequence[str]
) -> tuple[IntArray, FloatArray, FloatArray | None]:
    """Return classes and signs of a partition's rows, and numbers of mean 0 and variance 1."""
    if encoding.target is None:
        codes = encoding.classes.of_rows(_labels(table))
        return codes, signs(codes), None
    target = encoding.target
    y, wrong = target.values(_labels(table))
    expected = "numbers, as in the fit"
    if target.count:
        wrong = wrong | (y < 0.0) | (np.floor(y) != y) & ~np.isnan(y)
        expected = "whole numbers from 0, as in the fit"
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError.of(
            file="the new data",
            column=LABEL,
            expected=expected,
            found=f"{shown(table[LABEL][row].as_py())} in the row {names[row]!r}",
            remedy=_MEND,
        )
    codes = np.where(np.isnan(y), -1, 0)
    y = np.where(codes < 0, 0.0, target.scaled(y))
    return codes, (codes + 1).astype(np.float64), y


def _refuse_unreadable(
    table: pa.Table, kinds: Mapping[str, Rule], wrong: Mapping[str, np.ndarray], names: list[str]
) -> None:
    """Refuse cells of new rows that are not what their column was in the fit."""
    faults = []
    for name, odd in wrong.items():
        row = int(np.flatnonzero(odd)[0])
        faults.append(
            Fault(
                file="the new data",
                column=name,
                expected=f"cells that are each a {kinds[name].kind}, as in the fit",
                found=f"{shown(table[f'c.{name}'][row].as_py())} in the row {names[row]!r}",
                remedy=_MEND,
            )
        )
    if faults:
        raise InputError(faults)


def read_batch(paths: RunPaths, index: int) -> Any:
    """Return one partition's arrays, of the class that they were built of."""
    url = paths.part("partitions", index, "npz")
    # Kept by version: a long-lived process may meet the same run again with other rows.
    return _batch_of(url, storage.fingerprint_of(url))


def unit_numbers(batch: Any) -> IntArray:
    """Return the number of each row's unit; [N]."""
    while not isinstance(batch, Rows):
        batch = batch.rows
    return batch.group


@lru_cache(maxsize=2)
def _batch_of(url: str, version: str) -> Rows | CodedRows | ClassRows | TargetRows:
    batch = read_state(url, State)
    if not isinstance(batch, Rows | CodedRows | ClassRows | TargetRows):
        raise TypeError(f"{url} holds a {type(batch).__name__}, expected rows")
    return batch
