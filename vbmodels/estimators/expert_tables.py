"""Tables as they come for the estimators of experts: how columns are read, and what they become."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import (
    check_array,
    check_is_fitted,
    check_X_y,
    validate_data,
)

from vbmodels.core.state import FloatArray, IntArray
from vbmodels.estimators.base import (
    NO_TARGET,
    TableEstimator,
    warn_of_columns,
)
from vbmodels.experts.rows import Rows
from vbmodels.experts.terms.knots import Basis, RowSample, coded
from vbmodels.experts.terms.step_rows import CodedRows, basis_of
from vbmodels.tables.column_table import USED, ColumnRead, column_read
from vbmodels.tables.columns import Reason, names_rows, rules_of
from vbmodels.tables.encoding import (
    FURTHEST,
    LARGEST,
    ONE_VALUE,
    SPARSE,
    ColumnSums,
    Encoded,
    blocks_of,
    cell_keys,
    encoded,
    encoded_sums,
    read_categories,
    read_numbers,
    scaled,
    too_large,
    unseen,
    why_no_column,
)
from vbmodels.tables.frames import is_frame, native
from vbmodels.tables.levels import Levels
from vbmodels.tables.readers import (
    CellReader,
    all_numbers,
    as_numbers,
    columns_in,
    declared,
    one_gap,
    readers_of,
    seen_of,
)
from vbmodels.tables.seen import Seen, seen_numbers


@dataclass(frozen=True)
class RowLabels:
    """The class of every row, from 0, or its number, which is of one class; [N]."""

    code: IntArray
    n_classes: int
    numbers: FloatArray | None = None


@dataclass(eq=False, repr=False)
class ExpertTable(TableEstimator):
    """An estimator whose rows are tables of numbers, categories and dates, with gaps.

    Those derived from it have the options ``standardise``, ``rare_below`` and ``max_levels``.
    """

    def _kept(self, raw: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return the cells of the columns that are used, and a number of each row's cells."""
        keys = cell_keys(raw[:, self._keyed] if len(self._keyed) < raw.shape[1] else raw)
        return raw[:, self._used] if len(self._used) < raw.shape[1] else raw, keys

    def _designed(self, raw: FloatArray, t: FloatArray) -> tuple[FloatArray, ColumnSums]:
        """Return the model's columns and their sums, and keep their scale."""
        X = encoded(raw, self._encoded)
        numbers = np.array([column.kind != "category" for column in self._encoded])
        sums = ColumnSums.of(raw if numbers.all() else raw[:, numbers], t)
        sums = encoded_sums(sums, self._encoded)
        self.centre_, self.scale_ = sums.scaling(self.standardise)
        self._sparse = sums.density(self.centre_) < SPARSE
        return X, sums

    def _based(
        self,
        raw: FloatArray,
        design: tuple[FloatArray, IntArray, ColumnSums],
        labels: RowLabels,
        landmarks: Callable[[float], int],
        copied: bool,
    ) -> float:
        """Keep the knots of the additive form; return how many times the whole table repeats.

        ``landmarks`` is how many a Gaussian process has for so many repeats. Rows that are not
        ``copied`` are no repeats of others with the same cells.
        """
        X, keys, sums = design
        if not self.standardise:
            self._scaled(X)  # before knots and their moments overflow
        gaps = np.isnan(encoded(raw, self._encoded, filled=False))
        cells = np.where(gaps, np.nan, X) if gaps.any() else X
        sample = RowSample.of(cells, keys, labels.code, labels.n_classes, labels.numbers)
        repeats = sample.repeats if copied else 1.0
        self._basis: Basis | None = basis_of(
            sample,
            (self.centre_, self.scale_),
            sums.binary | sums.constant,
            self._sparse,
            FURTHEST if self.standardise else np.inf,
            encoded(np.full((1, raw.shape[1]), np.nan), self._encoded)[0],
            landmarks(repeats),
            blocks_of(self._encoded),
            labels.numbers is not None,
        )
        return repeats

    def _partitions(
        self, raw: FloatArray, t: FloatArray, units: IntArray, weight: FloatArray
    ) -> list[Any]:
        """Return raw cells as partitions of rows; those of a unit [N] are held out together."""
        key = np.arange(len(t))
        parts = np.array_split(key, min(self.n_partitions, len(t)))
        return [self._rows(raw[p], t[p], key[p], weight[p], units[p]) for p in parts]

    def _unlabelled(self, X: Any) -> Any:
        check_is_fitted(self)
        raw = self._raw_again(X)
        keys = cell_keys(raw)
        return self._rows(raw, np.zeros(len(raw)), keys, np.ones(len(raw)), keys)

    def _raw(self, X: Any, y: Any) -> tuple[FloatArray, Any]:
        """Return raw cells and labels; decide what every column becomes."""
        common: dict[str, Any] = {"ensure_all_finite": "allow-nan", "ensure_min_samples": 2}
        X = as_numbers(native(X))
        cells: list[Any]
        if numbers := all_numbers(X):
            raw, y = self._table(X, y, reset=True, dtype=np.float64, order="C", **common)
            cells = list(raw.T)
            seen = [seen_numbers(x[~np.isnan(x)], int(np.isnan(x).sum())) for x in cells]
        else:
            cells, y = self._mixed(X, y, reset=True)
            orders = [declared(X, position) for position in range(len(cells))]
            seen = [seen_of(*one) for one in zip(self._names, cells, orders, strict=True)]
        rules, unclear = rules_of({str(d): one for d, one in enumerate(seen)}, names=self._names)
        self._readers = readers_of(self._names, cells, seen, rules, unclear)
        read = CellReader.filled if numbers else CellReader.raw
        pairs = zip(self._readers, cells, strict=True)
        raw = one_gap(np.column_stack([read(one, column) for one, column in pairs]))
        levels = {
            d: Levels({}, len(raw)) if numbers else one.levels(cells[d])[1]
            for d, one in enumerate(self._readers)
            if one.rule.kind == "category"
        }
        self._encoded, self._used, self._keyed = [], [], []
        self._columns: list[ColumnRead] = []
        for d, (reader, column_seen) in enumerate(zip(self._readers, seen, strict=True)):
            encoded_column, why = self._encoding_of(reader, column_seen, raw[:, d], levels.get(d))
            if encoded_column is not None:
                self._encoded.append(encoded_column)
                self._used.append(d)
            if reader.rule.kind == "category" or encoded_column is not None:
                self._keyed.append(d)
            self._columns.append(
                column_read(reader.name, reader.rule, column_seen, levels.get(d), why or USED)
            )
        if not self._encoded:
            listed = "; ".join(f"{one.name}: {one.used}" for one in self._columns[:5])
            raise ValueError(f"expected at least one column that predicts, found none ({listed})")
        warn_of_columns(self._columns, 5)
        return raw, y

    def _encoding_of(
        self, reader: CellReader, seen: Seen, raw: FloatArray, levels: Levels | None
    ) -> tuple[Encoded | None, Reason | None]:
        """Return what a column becomes, and why it is left out."""
        name, kind = reader.name, reader.rule.kind
        gone, column = np.isnan(raw), None
        missing, cells = int(gone.sum()), raw[~gone]
        if levels is None:
            if why := names_rows(name, seen, None, kind):
                return None, why
            mean = float(ColumnSums.of(cells[:, None], np.zeros(len(cells))).mean[0])
            column = read_numbers(name, kind, mean, len(cells), missing, self.rare_below)
        else:
            if not levels.many and (why := names_rows(name, seen, len(levels.counts), kind)):
                return None, why
            counts = {} if levels.many else levels.counts
            column = read_categories(name, counts, missing, self.rare_below, self.max_levels)
            if column is None:
                return None, why_no_column(levels, self.rare_below)
        same = not column.missing and bool((cells == cells[0]).all())
        return column, ONE_VALUE if same else None

    def _raw_again(self, X: Any) -> FloatArray:
        """Return raw cells of new rows in the columns that the fit uses."""
        X = as_numbers(native(X))
        if all_numbers(X) and all(column.kind != "category" for column in self._encoded):
            raw = self._table(
                X, reset=False, dtype=np.float64, order="C", ensure_all_finite="allow-nan"
            )
            used = [self._readers[d].filled(raw[:, d]) for d in self._used]
        else:
            cells, _ = self._mixed(X, reset=False)
            used = [self._readers[d].raw(cells[d]) for d in self._used]
        raw = one_gap(np.column_stack(used))
        strange = {
            column.name: n
            for cells, column in zip(raw.T, self._encoded, strict=True)
            if (n := int(np.count_nonzero(unseen(cells, column))))
        }
        if strange:
            counts = ", ".join(f"{name} ({n})" for name, n in strange.items())
            warnings.warn(
                f"cells with levels that the fit never saw count as the reference: {counts}",
                stacklevel=4,
            )
        return raw

    def _mixed(self, X: Any, y: Any = NO_TARGET, *, reset: bool) -> tuple[list[list[Any]], Any]:
        """Return the cells of every column of a table that is not all numbers, and labels."""
        if not is_frame(X):
            common: dict[str, Any] = {"dtype": None, "ensure_all_finite": False}
            if isinstance(y, str) and y == NO_TARGET:
                return columns_in(self._table(X, reset=reset, **common)), None
            X, y = self._table(X, y, reset=reset, ensure_min_samples=2, **common)
            return columns_in(X), y
        validate_data(self, X, reset=reset, skip_check_array=True)
        cells = columns_in(X)
        objects = np.empty((len(cells[0]) if cells else 0, len(cells)), object)
        for d, column in enumerate(cells):
            objects[:, d] = column
        options: dict[str, Any] = {"dtype": None, "ensure_all_finite": False, "estimator": self}
        if isinstance(y, str) and y == NO_TARGET:
            check_array(objects, **options)
            return cells, None
        _, y = check_X_y(objects, y, ensure_min_samples=2, **options)
        return cells, y

    def _scaled(self, X: FloatArray) -> FloatArray:
        """Return rows on the scale of the fit, and refuse cells that would overflow there."""
        x = scaled(X, self.centre_, self.scale_)
        cell = too_large(x)
        if cell:
            row, column = cell
            raise ValueError(
                f"expected cells within {LARGEST:g} after scaling, got {X[row, column]:g} in "
                f"column {column}: give the column in another unit, or leave it out"
            )
        return x

    def _rows(
        self, raw: FloatArray, t: FloatArray, key: IntArray, weight: FloatArray, group: IntArray
    ) -> Rows | CodedRows:
        X = encoded(raw, self._encoded)
        x = self._scaled(X)
        if self._basis is None:
            return Rows.of(x, t, key, weight, self._sparse, group)
        x = np.clip(x, -self._basis.limit, self._basis.limit)
        rows = Rows.of(x, t, key, weight, self._sparse, group)
        missing = np.isnan(encoded(raw, self._encoded, filled=False))
        return CodedRows(rows, coded(X, self._basis.knots), self._basis, missing)
