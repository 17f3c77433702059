"""Rows with the levels of their columns: what curves, the mixture and the process see.

The additive form is a line for each column and, where there are any, functions of its level
(`curves`). Coefficients have the order [columns, functions, intercept]. Products with single
vectors go through the levels; only second moments need the columns themselves, a few rows at a
time. The mixture has lines and steps of its own, at fewer knots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from vbmodels.core.linalg import cholesky, inverse, solve_lower
from vbmodels.core.state import BoolArray, FloatArray, IntArray, Memory, State
from vbmodels.experts.rows import Rows, never_held
from vbmodels.experts.terms.curves import Curves, Terms
from vbmodels.experts.terms.interactions import InteractionGP
from vbmodels.experts.terms.knots import Basis, RowSample, coded
from vbmodels.experts.terms.pairs import pair_tables
from vbmodels.tables.encoding import scaled

_CHUNK = 2048
FEW_ROWS, FEW_PARTITIONS = 4000, 2
"""Rows of a partition up to which all columns of a fit are kept for its next evaluation, and of how
many partitions."""
PARTS: Memory[list[tuple[slice, Rows]]] = Memory()
FEW_COLUMNS = 12
"""Up to this many columns the mixture sees lines and steps; of more, each column's quantile."""
MOST_OFFSETS = 6
"""Sums of additive parts that a partition keeps from one evaluation to the next."""
SMALLEST_SCALE = 1e-6


@dataclass(frozen=True)
class CodedRows(State, kind="experts/additive.CodedRows"):
    """Rows with the number of knots that each cell is above.

    Attributes
    ----------
    rows
        The columns on the scale of the fit, with labels.
    codes
        [N, D], 0 to 8.
    basis
        The knots, and the scale of the mixture's columns.
    missing
        Which cells have their column's mean for want of a number; [N, D].
    copies
        How many times the whole table repeats (`RowSample.repeats`): rows weigh that much less,
        and all copies of one are left out together.
    """

    rows: Rows
    codes: np.ndarray
    basis: Basis
    missing: BoolArray
    copies: float = 1.0

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.rows.size

    def relabelled(self, t: FloatArray) -> CodedRows:
        """Return the rows with other labels [N], which share what depends on the cells alone."""
        found = replace(self, rows=self.rows.relabelled(t))
        vars(found).update(mixing=self.mixing.relabelled(t))
        if self.basis.curves is not None:
            vars(found).update(levels=self.levels)
        if self.basis.interaction is not None:
            vars(found).update(interaction=self.interaction)
        return found

    @property
    def t(self) -> FloatArray:
        """1 and -1 for the labels 1 and 0; 0 where there is none; [N]."""
        return self.rows.t

    @property
    def coded(self) -> CodedRows:
        """The rows themselves; see `FittedRows`."""
        return self

    @property
    def target(self) -> FloatArray:
        """The labels, `t`."""
        return self.rows.t

    @property
    def weight(self) -> FloatArray:
        """Weight of each row in the likelihood; [N]."""
        return self.rows.weight

    @cached_property
    def levels(self) -> np.ndarray:
        """The level of every row in every column of the table; [N, S]."""
        if self.basis.curves is None:
            raise ValueError("expected levels of curves, the basis has none")
        return self.basis.curves.levels_of(self.rows.lines(slice(None)))

    @cached_property
    def interaction(self) -> FloatArray:
        """What a Gaussian process sees of the rows; [N, P]."""
        if self.basis.interaction is None:
            raise ValueError("expected columns of a Gaussian process, the basis has none")
        return self.basis.interaction.columns(self.rows.lines(slice(None)))

    def project(
        self, coefficients: FloatArray, joint: bool = False, terms: Terms | None = None
    ) -> FloatArray:
        """Return the sum of every row; [N].

        ``joint``: the coefficients of lines are followed by those of `interaction`. ``terms``: by
        those of curves.
        """
        lines = self.rows.n_columns - 1
        linear = np.append(coefficients[:lines], coefficients[-1])
        total: FloatArray = self.rows.project(linear[None])[0]
        if joint:
            return np.asarray(total + self.interaction @ coefficients[lines:-1])
        if terms is not None and self.basis.curves is not None:
            for s, heights in self.basis.curves.heights(coefficients, terms).items():
                total += heights[self.levels[:, s]]
            tables, at = pair_tables(self.basis.curves, terms), len(coefficients) - 1
            at -= sum(a.shape[1] for _, a, _ in tables)
            for (d, e), a, b in tables:
                surface = (a * coefficients[at : at + a.shape[1]]) @ b.T
                total += surface[self.levels[:, d], self.levels[:, e]]
                at += a.shape[1]
        return total

    def offset(self, coefficients: FloatArray, terms: Terms | None) -> FloatArray:
        """Return `project` of coefficients that many evaluations have in common."""
        kept, key = self._offsets, coefficients.tobytes()
        if key not in kept:
            if len(kept) >= MOST_OFFSETS:
                kept.clear()
            kept[key] = self.project(coefficients, terms=terms)
        return kept[key]

    @cached_property
    def _offsets(self) -> dict[bytes, FloatArray]:
        return {}

    def collect(
        self, slopes: FloatArray, joint: bool = False, terms: Terms | None = None
    ) -> FloatArray:
        """Return the sum over rows of slopes [N] times every column, intercept last."""
        linear: FloatArray = self.rows.collect(slopes[None])[0]
        more: list[FloatArray] = []
        if joint:
            more = [slopes @ self.interaction]
        elif terms is not None and self.basis.curves is not None:
            held: dict[int, FloatArray] = {}
            for s, table in self.basis.curves.tables(terms):
                if s not in held:
                    held[s] = np.asarray(np.bincount(self.levels[:, s], slopes, len(table)), float)
                more.append(held[s] @ table)
            for (d, e), a, b in pair_tables(self.basis.curves, terms):
                cell = self.levels[:, d] * len(b) + self.levels[:, e].astype(np.int64)
                cells = np.bincount(cell, slopes, len(a) * len(b)).reshape(len(a), len(b))
                more.append(np.einsum("aq,ab,bq->q", a, cells, b, optimize=True))
        return np.concatenate([linear[:-1], *more, linear[-1:]])

    def gram(
        self, weights: FloatArray, joint: bool = False, terms: Terms | None = None
    ) -> FloatArray:
        """Return sum_n weights_n x_n x_n', packed."""
        if not joint and terms is None:
            return np.asarray(self.rows.gram(weights[None])[0])
        return np.asarray(
            np.sum(
                [x.gram(weights[None, rows])[0] for rows, x in self._parts(joint, terms)], axis=0
            )
        )

    def spread(
        self, hessian: FloatArray, joint: bool = False, terms: Terms | None = None
    ) -> FloatArray:
        """Return x' H^-1 x of every row: |L^-1 x|^2 with H = L L'; [N]."""
        factor = cholesky(hessian, "the second moments")
        if not joint and terms is None:
            return np.asarray(self.rows.quadratic(inverse(factor)[None])[0])
        return np.concatenate(
            [
                np.sum(solve_lower(factor, np.asarray(part.dense).T) ** 2, axis=0)
                for _, part in self._parts(joint, terms)
            ]
        )

    def _more(self, rows: slice, joint: bool, terms: Terms | None) -> FloatArray:
        """Return the columns between lines and intercept of some rows; [n, P]."""
        if joint:
            return self.interaction[rows]
        assert terms is not None
        assert self.basis.curves is not None
        levels = self.levels[rows]
        tables = self.basis.curves.tables(terms)
        pairs = pair_tables(self.basis.curves, terms)
        return np.hstack(
            [
                np.zeros((len(levels), 0)),
                *(f[levels[:, s]] for s, f in tables),
                *(a[levels[:, d]] * b[levels[:, e]] for (d, e), a, b in pairs),
            ]
        )

    def _parts(self, joint: bool, terms: Terms | None) -> Iterable[tuple[slice, Rows]]:
        """Return the rows with all their columns in parts; those of few rows are kept."""
        if self.size > FEW_ROWS or (
            len(PARTS.kept) >= FEW_PARTITIONS and id(self) not in PARTS.kept
        ):
            return self._cut(joint, terms)
        key = () if terms is None else (terms.refined.tobytes(), terms.pairs.tobytes())
        return PARTS.of(self, b"|".join(key), lambda: list(self._cut(joint, terms)))

    def _cut(self, joint: bool, terms: Terms | None) -> Iterator[tuple[slice, Rows]]:
        for start in range(0, max(1, self.size), _CHUNK):
            rows = slice(start, start + _CHUNK)
            t = self.rows.t[rows]
            more = self._more(rows, joint, terms)
            x = np.hstack([self.rows.lines(rows), more, np.ones((len(t), 1))])
            key = self.rows.key[rows]
            yield rows, Rows(t, np.ones(len(t)), key, key, x, None, None, None, x.shape[1])

    @cached_property
    def mixing(self) -> Rows:
        """The rows as gates and experts see them: centred columns of one scale."""
        own, everything = self.rows, slice(None)
        if own.dense is None and not self.basis.steps.any():
            return own
        u = unscaled(own.lines(everything), self.codes, self.basis.steps)
        u = (u - self.basis.centre) / self.basis.scale
        return Rows.of(u, own.t, own.key, own.weight, False, own.group)


@dataclass(frozen=True)
class TargetRows(State, kind="experts/additive.TargetRows"):
    """Rows with a number each, [N]; t of a row without one is 0.

    Of a number ``y`` has mean 0 and variance 1.
    """

    rows: CodedRows
    y: FloatArray

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.rows.size

    @property
    def weight(self) -> FloatArray:
        """Weight of each row in the likelihood; [N]."""
        return self.rows.weight

    @property
    def used(self) -> FloatArray:
        """The same, 0 for rows without a number; [N]."""
        return self.rows.rows.used

    @property
    def coded(self) -> CodedRows:
        """The rows without their numbers."""
        return self.rows

    @property
    def target(self) -> FloatArray:
        """The numbers, `y`."""
        return self.y


@dataclass(frozen=True)
class CountRows(TargetRows, kind="experts/additive.CountRows"):
    """Rows with a count each; t of a row without one is 0.

    Counts y* with the mean e exp(f), e their ``exposure`` [N] (1 where there is none), have the
    likelihood of ``y`` = y* / e with the mean exp(f) and e times the weight: rows have both so.
    """

    exposure: FloatArray


FittedRows = CodedRows | TargetRows
"""Rows (``coded``), and what is fitted to them: the label or the number of each (``target``)."""


def steps_of(steps: IntArray) -> tuple[IntArray, IntArray]:
    """Return column and number, from 0, of every step of all columns."""
    column = np.repeat(np.arange(len(steps)), steps)
    first = np.repeat(np.cumsum(steps) - steps, steps)
    return column, np.arange(len(column)) - first


def unscaled(lines: FloatArray, codes: np.ndarray, steps: IntArray) -> FloatArray:
    """Return the mixture's columns before they are centred; [N, U].

    Of few columns lines and steps; else each column's share of knots passed, which is its
    quantile, or the column where it has none.
    """
    if lines.shape[1] <= FEW_COLUMNS:
        column, number = steps_of(steps)
        return np.hstack([lines, codes[:, column] > number])
    return np.where(steps > 0, codes / np.maximum(steps, 1), lines)


def basis_of(
    sample: RowSample,
    design: tuple[FloatArray, FloatArray],
    fixed: BoolArray,
    sparse: bool,
    limit: float,
    fill: FloatArray | None = None,
    landmarks: int = 0,
    blocks: IntArray | None = None,
    bare: bool = False,
) -> Basis:
    """Return the knots, with the scale of the mixture's columns.

    Parameters
    ----------
    sample
        Rows in their own units.
    design
        What is taken off every column, and what it is divided by; [D] each.
    fixed
        Columns without knots: those of 0 and 1, and those of one value; [D].
    sparse
        Whether the rows are kept sparse; without steps the mixture's columns stay as they are.
    limit
        Largest size of a column on the scale of the fit.
    fill
        The values of missing cells once the knots are known; [D].
    landmarks
        By how many rows a Gaussian process is to see all columns together; 0 for none.
    blocks
        Column of the table that each column is of (`Curves.blocks`); None: each is one.
    bare
        Whether the label is a number, so that there are levels where no column has a curve, too
        (`Curves.of`).
    """
    knots = sample.knots(fixed)
    steps = np.sum(~np.isnan(knots), axis=1)
    x = sample.x if fill is None else np.where(np.isnan(sample.x), fill, sample.x)
    lines = np.clip(scaled(x, *design), -limit, limit)
    u = unscaled(lines, coded(x, knots), steps)
    interaction = None
    if landmarks:
        chosen_by = never_held(sample.group)
        interaction = InteractionGP.of(
            lines,
            sample.copies,
            sample.classes * chosen_by[:, None],
            landmarks,
            sample.numbers * chosen_by if bare else None,
        )
    blocks = np.arange(lines.shape[1]) if blocks is None else blocks
    curves = Curves.of(lines, ~np.isnan(sample.x), sample.copies, fixed, blocks, bare)
    if sparse and not steps.any():
        return Basis(knots, np.zeros(u.shape[1]), np.ones(u.shape[1]), limit, interaction, curves)
    share = sample.copies / sample.copies.sum()
    centre = share @ u
    scale = np.sqrt(share @ (u - centre) ** 2)
    scale = np.where(scale > SMALLEST_SCALE, scale, 1.0)
    return Basis(knots, centre, scale, limit, interaction, curves)
