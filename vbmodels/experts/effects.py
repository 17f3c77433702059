"""What every column, and every pair of columns, adds to a prediction: curves, bars and heat maps.

An effect is on the scale of the sum that the model adds up (log odds, or the target itself), less
its mean over the rows of a sample. Its standard deviation is that of the fit's Gaussian
approximation with the variances of blocks as chosen. What each cell of one row adds to its log odds
is beyond a usual cell of its column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.special import logit

from vbmodels.core.linalg import unpack
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.experts.additive.posterior import Part
from vbmodels.experts.terms.curves import Curves
from vbmodels.experts.terms.knots import Basis
from vbmodels.experts.terms.pairs import coarse_levels, pair_tables
from vbmodels.tables.encoding import Encoded, blocks_of

MIDDLE = 2.56
"""Standard deviations from the 10 % to the 90 % quantile."""
QUANTILES = np.linspace(0.02, 0.98, 49)
"""Quantiles of columns at which a group's effect is shown."""
_FEW = 3
"""Levels of the reference that are named one by one."""
ALIKE, MOST_ALIKE = 0.9, 1_000
"""Correlation beyond which columns are a group, and columns beyond which there is none."""


@dataclass(frozen=True)
class Effect:
    """What a column adds.

    Attributes
    ----------
    column
        Its name.
    kind
        "number" or "date" for a curve, "levels" for a bar each; "quantiles" for the curve of a
        group, whose points are quantiles.
    at
        Points of a curve in the column's unit, from the smallest to the largest cell; [n].
    levels
        Names of the bars; [n].
    mean, sd
        At every point, or of every level; [n].
    data
        Quantiles of the column of a curve; rows of every level, where they are counted.
    spread
        Standard deviation over rows, by which effects are ordered.
    change, change_sd
        What a high cell adds beyond a low one, the 90 % and the 10 % quantile of a curve; what one
        of two levels adds beyond the other; of more levels, what one adds that moves rows most.
    level
        That one of the levels; empty for a curve.
    """

    column: str
    kind: Literal["number", "date", "levels", "quantiles"]
    at: FloatArray
    levels: tuple[str, ...]
    mean: FloatArray
    sd: FloatArray
    data: FloatArray
    spread: float
    change: float = 0.0
    change_sd: float = 0.0
    level: str = ""

    @property
    def sure(self) -> bool:
        """Whether the 95 % interval of the change leaves out zero."""
        return abs(self.change) > 1.96 * self.change_sd

    @property
    def size(self) -> float:
        """The size of the change; of what rises and falls, what a line of its spread would have."""
        return abs(self.change) if abs(self.change) >= self.spread else MIDDLE * self.spread

    def times(self, factor: float) -> Effect:
        """Return the effect in another unit of the sum."""
        scaled = ("mean", "sd", "spread", "change", "change_sd")
        return replace(self, **{name: factor * getattr(self, name) for name in scaled})


class GroupEffect(NamedTuple):
    """What ``columns`` that measure much the same add together, -1 for reversed; see `Effect`.

    ``mean`` and ``sd`` are where all of them have the same quantile, those of `QUANTILES`; [Q].
    """

    columns: Mapping[str, float]
    change: float
    change_sd: float
    mean: FloatArray
    sd: FloatArray


@dataclass(frozen=True)
class PairEffect:
    """What a pair of columns adds beyond their curves.

    ``rows`` and ``across`` name few levels of the first and the second column; ``mean`` and ``sd``
    [R, C] are of means over the rows of a sample.
    """

    columns: tuple[str, str]
    rows: tuple[str, ...]
    across: tuple[str, ...]
    mean: FloatArray
    sd: FloatArray
    spread: float

    def times(self, factor: float) -> PairEffect:
        """Return the effect in another unit of the sum."""
        scaled = (factor * self.mean, factor * self.sd, factor * self.spread)
        return replace(self, mean=scaled[0], sd=scaled[1], spread=scaled[2])


def effects_of(
    part: Part,
    columns: Sequence[Encoded],
    scaling: tuple[FloatArray, FloatArray],
    basis: Basis | None,
) -> tuple[Effect, ...]:
    """Return the effect of every column with more than one value, the largest first.

    Parameters
    ----------
    part
        The fit.
    columns
        What every column of the table becomes.
    scaling
        What is taken off the model's columns and what they are divided by; [D] each.
    basis
        The knots and levels of the fit.
    """
    covariance = None if part.covariance is None else unpack(part.covariance)
    found = []
    for one, piece, x in _placed(part, columns, scaling, basis):
        mean, sd = x @ part.coefficients, np.zeros(len(x))
        if covariance is not None:
            sd = np.sqrt(np.maximum(np.sum(x @ covariance * x, axis=1), 0.0))
        spread = float(np.sqrt(piece.share @ mean**2))
        high, low = _ends(piece, mean, one.kind == "category")
        change = _change(part, covariance, x[high] - (0.0 if low is None else x[low]))
        level = piece.levels[high] if piece.levels else ""
        found.append(
            Effect(
                piece.name,
                piece.kind,
                piece.at,
                piece.levels,
                mean,
                sd,
                piece.data,
                spread,
                *change,
                level,
            )
        )
    return tuple(sorted(found, key=lambda effect: -effect.spread))


def group_effects(
    part: Part,
    columns: Sequence[Encoded],
    scaling: tuple[FloatArray, FloatArray],
    basis: Basis | None,
    groups: Sequence[Mapping[str, float]],
) -> tuple[GroupEffect, ...]:
    """Return what the columns of each group add where all go from low to high cells.

    Parameters
    ----------
    part, columns, scaling, basis
        See `effects_of`.
    groups
        See `correlated`.
    """
    covariance = None if part.covariance is None else unpack(part.covariance)
    wanted = {name for group in groups for name in group}
    places = {
        piece.name: (np.cumsum(piece.share), x)
        for _, piece, x in _placed(part, columns, scaling, basis)
        if piece.name in wanted and piece.kind != "levels"
    }
    found = []
    for group in groups:
        own = {name: sign for name, sign in group.items() if name in places}
        if len(own) < 2:
            continue
        x = np.zeros((QUANTILES.size, part.coefficients.size))
        step = np.zeros(part.coefficients.size)
        for name, sign in own.items():
            if sign == 0.0:  # no row has both it and the first: which way it goes is not known
                continue
            share, cells = places[name]
            at = np.append(QUANTILES, [0.1, 0.9])
            at = at if sign > 0.0 else 1.0 - at
            where = np.minimum(np.searchsorted(share, at), len(share) - 1)
            x += cells[where[:-2]]
            step += cells[where[-1]] - cells[where[-2]]
        sd = np.zeros(QUANTILES.size)
        if covariance is not None:
            sd = np.sqrt(np.maximum(np.sum(x @ covariance * x, axis=1), 0.0))
        mean = x @ part.coefficients
        found.append(GroupEffect(own, *_change(part, covariance, step), mean, sd))
    return tuple(found)


def correlated(x: FloatArray, names: Sequence[str]) -> list[dict[str, float]]:
    """Group columns [N, D] that correlate beyond `ALIKE`, directly or through others.

    Each has the sign of its correlation with the first of its group, of cells that both have.

    >>> a = np.array([0.0, 1.0, 2.0, 3.0])
    >>> correlated(np.stack([a, a**4 % 3, 5.0 - a], 1), ["a", "b", "c"])
    [{'a': 1.0, 'c': -1.0}]
    """
    if len(names) > MOST_ALIKE:
        return []
    there = ~np.isnan(x)
    mean = np.where(there, x, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    z = np.where(there, x - mean, 0.0)
    spread = np.sqrt((z.T**2 @ there) * (there.T @ z**2))
    r = z.T @ z / np.where(spread > 0.0, spread, np.inf)
    _, label = connected_components(np.abs(r) > ALIKE, directed=False)
    found = [np.flatnonzero(label == one) for one in np.unique(label)]
    return [
        {names[j]: float(np.sign(r[own[0], j])) for j in own.tolist()}
        for own in found
        if len(own) > 1
    ]


def _change(part: Part, covariance: FloatArray | None, step: FloatArray) -> tuple[float, float]:
    """Return what a step of the model's columns adds, and its standard deviation."""
    sd = 0.0
    if covariance is not None:
        sd = float(np.sqrt(np.maximum(step @ covariance @ step, 0.0)))
    return float(step @ part.coefficients), sd


def _placed(
    part: Part,
    columns: Sequence[Encoded],
    scaling: tuple[FloatArray, FloatArray],
    basis: Basis | None,
) -> Iterator[tuple[Encoded, _Piece, FloatArray]]:
    """Yield every piece of every column with the model's columns at its places [n, P]."""
    first = 0
    for one in columns:
        for piece in _pieces(one, first, scaling, basis):
            x = np.zeros((len(piece.z), part.coefficients.size))
            x[:, piece.lines] = piece.z
            if piece.curved and part.terms is not None and basis and basis.curves is not None:
                functions = basis.curves.functions(first, piece.z[:, 0], part.terms)
                x[:, scaling[0].size : scaling[0].size + functions.shape[1]] = functions
            yield one, piece, x - piece.share @ x
        first += len(one.names)


@dataclass(frozen=True)
class _Piece:
    """Where a column's effect is evaluated: cells z [n, L] of its lines, and their shares [n]."""

    name: str
    kind: Literal["number", "date", "levels"]
    lines: list[int]
    z: FloatArray
    share: FloatArray
    at: FloatArray
    levels: tuple[str, ...]
    data: FloatArray
    curved: bool = False


def _ends(piece: _Piece, mean: FloatArray, category: bool) -> tuple[int, int | None]:
    """Return the places whose difference is an effect's change; None for the mean over rows."""
    if not piece.levels:
        low, high = np.searchsorted(np.cumsum(piece.share), [0.1, 0.9])
        return min(int(high), len(mean) - 1), int(low)
    if len(mean) == 2:
        return (0, 1) if category else (1, 0)
    return int(np.argmax(piece.share * mean**2)), None


def _pieces(
    one: Encoded, first: int, scaling: tuple[FloatArray, FloatArray], basis: Basis | None
) -> Iterator[_Piece]:
    """Yield what is shown of a column: of numbers with gaps, where these are, too."""
    centre, scale = scaling
    nothing = np.zeros(0)
    if one.kind == "category":
        lines = [j for j in range(first, first + len(one.names)) if np.isfinite(scale[j])]
        if lines:
            names, rows, there = _levels_of(one)
            z = (there[:, [j - first for j in lines]] - centre[lines]) / scale[lines]
            share = rows / rows.sum()
            yield _Piece(one.name, "levels", lines, z, share, nothing, names, rows)
        return
    if np.isfinite(scale[first]):
        yield _number(one, first, (centre, scale), basis)
    if one.missing and np.isfinite(scale[first + 1]):
        z = ((np.array([[0.0], [1.0]]) - centre[first + 1]) / scale[first + 1]).reshape(2, 1)
        rows = np.array(one.cells[:2], np.float64)
        names = ("given", "missing")
        share = rows / rows.sum()
        yield _Piece(one.names[1], "levels", [first + 1], z, share, nothing, names, rows)


def _number(
    one: Encoded, j: int, scaling: tuple[FloatArray, FloatArray], basis: Basis | None
) -> _Piece:
    """Return a curve, or the bars of two values."""
    centre, scale = scaling[0][j], scaling[1][j]
    nothing, curves = np.zeros(0), None if basis is None else basis.curves
    block = -1 if curves is None else int(curves.blocks[j])
    if curves is not None and curves.counts[block]:
        z = curves.places(j)
        share = np.repeat(curves.share(block), 2) / 2.0
        at, data = centre + scale * z, centre + scale * curves.knots_of(block)
        kind: Literal["number", "date"] = "date" if one.kind == "date" else "number"
        return _Piece(one.name, kind, [j], z[:, None], share, at, (), data, True)
    steps = nothing if basis is None else basis.knots[j][~np.isnan(basis.knots[j])]
    if curves is None and steps.size > 1:  # a line: there are too many columns for curves
        at = steps[[0, -1]]
        z = (at - centre) / scale
        return _Piece(one.name, "number", [j], z[:, None], np.full(2, 0.5), at, (), steps)
    ends, share = (np.array([0.0, 1.0]) - centre) / scale, np.full(2, 0.5)
    if curves is not None:
        ends, share = np.array([curves.low[j], curves.high[j]]), curves.share(block)[::-1]
    names = tuple(f"{centre + scale * z:.6g}" for z in ends)
    names = ("no", "yes") if one.kind == "yes or no" else names
    return _Piece(one.name, "levels", [j], ends[:, None], share, nothing, names, nothing)


def _levels_of(one: Encoded) -> tuple[tuple[str, ...], FloatArray, FloatArray]:
    """Return the levels of a category with rows and cells [n, L] of its lines, the reference too.

    Cells that are missing are a level where they have a line, else of the reference.
    """
    names, rows = list(one.levels), list(one.cells[: len(one.levels)])
    there = [*np.eye(len(one.levels), len(one.names))]
    rest, missing = one.cells[len(one.levels)], one.cells[-1]
    if one.missing:
        names.append("missing")
        rows.append(missing)
        there.append(np.eye(len(one.names))[-1])
        missing = 0
    if rest + missing or one.reference:
        few = len(one.reference) <= _FEW
        listed = [*one.reference] if few else [f"{len(one.reference)} rare levels"]
        names.append(", ".join([*listed, *(["missing"] if missing else [])]))
        rows.append(rest + missing)
        there.append(np.zeros(len(one.names)))
    return tuple(names), np.array(rows, np.float64), np.array(there)


def pair_effects_of(
    part: Part | None,
    columns: Sequence[Encoded],
    scaling: tuple[FloatArray, FloatArray],
    basis: Basis | None,
) -> tuple[PairEffect, ...]:
    """Return the effect of every pair of a fit with pairs, the largest first; see `effects_of`."""
    curves = None if basis is None else basis.curves
    if part is None or part.terms is None or curves is None:
        return ()
    coarse, _ = coarse_levels(curves)
    tables = pair_tables(curves, part.terms)
    at = part.coefficients.size - 1 - sum(one.shape[1] for _, one, _ in tables)
    covariance = None if part.covariance is None else unpack(part.covariance)
    owners = _owners(columns)
    found = []
    for (d, e), one, other in tables:
        own = slice(at, at + one.shape[1])
        at = own.stop
        surface = (one * part.coefficients[own]) @ other.T
        spread = float(np.sqrt(curves.share(d) @ surface**2 @ curves.share(e)))
        a = _means(curves.share(d), coarse[d]) @ one
        b = _means(curves.share(e), coarse[e]) @ other
        functions = (a[:, None] * b[None]).reshape(-1, a.shape[1])
        mean, sd = functions @ part.coefficients[own], np.zeros(len(functions))
        if covariance is not None:
            sd = np.sqrt(np.maximum(np.sum(functions @ covariance[own, own] * functions, 1), 0.0))
        shape = len(a), len(b)
        (row, rows), (column, across) = (
            _named(s, owners[s], coarse[s], curves, scaling) for s in (d, e)
        )
        pair = PairEffect(
            (row, column), rows, across, mean.reshape(shape), sd.reshape(shape), spread
        )
        found.append(pair)
    return tuple(sorted(found, key=lambda one: -one.spread))


def _owners(columns: Sequence[Encoded]) -> list[tuple[Encoded, bool]]:
    """Return for every block of columns whose it is, and whether it says where cells are missing.

    The order is that of `blocks_of`.
    """
    found = []
    for one in columns:
        found.append((one, False))
        if one.kind != "category" and one.missing:
            found.append((one, True))
    assert len(found) == int(blocks_of(columns).max()) + 1
    return found


def _means(share: FloatArray, coarse: IntArray) -> FloatArray:
    """Return what makes means over coarse levels of values at levels; [B, L]."""
    member = (coarse == np.arange(int(coarse.max()) + 1)[:, None]) * share
    return np.asarray(member / member.sum(1, keepdims=True))


def _named(
    s: int,
    owner: tuple[Encoded, bool],
    coarse: IntArray,
    curves: Curves,
    scaling: tuple[FloatArray, FloatArray],
) -> tuple[str, tuple[str, ...]]:
    """Return the name of a block of columns, and of its coarse levels."""
    one, gaps = owner
    j = int(curves.lines[s][0])
    centre, scale = scaling[0][j], scaling[1][j]
    count = int(coarse.max()) + 1
    if curves.counts[s]:
        last = [np.flatnonzero(coarse == level)[-1] for level in range(count - 1)]
        tops = centre + scale * curves.knots_of(s)[last]
        said = [_cell(one, top) for top in tops]
        return one.name, (*(f"up to {top}" for top in said), f"above {said[-1]}")
    if gaps:
        return one.names[1], ("missing", "given")
    if one.kind == "category":
        names = [*one.levels, *(["missing"] if one.missing else [])]
        names.append(", ".join(one.reference) if 0 < len(one.reference) <= _FEW else "other")
    elif one.kind == "yes or no":
        names = ["yes", "no"]
    else:
        names = [_cell(one, centre + scale * z) for z in (curves.high[j], curves.low[j])]
    named = [[names[at] for at in np.flatnonzero(coarse == level)] for level in range(count)]
    return one.name, tuple(some[0] if len(some) == 1 else "the rest" for some in named)


def _cell(one: Encoded, value: float) -> str:
    """Write a number, or a date, as a label."""
    if one.kind == "date":
        return str(np.datetime64("1970-01-01") + np.timedelta64(round(value), "D"))
    return f"{value:.4g}"


def without_each(own: FloatArray, usual: FloatArray, units: Sequence[Sequence[int]]) -> FloatArray:
    """Return a row's cells [C] with each unit of cells in turn as it is usual, then the row itself.

    [U + 1, C].

    >>> without_each(np.array([1.0, 2.0, 3.0]), np.zeros(3), [[0, 2], [1]]).tolist()
    [[0.0, 2.0, 0.0], [1.0, 0.0, 3.0], [1.0, 2.0, 3.0]]
    """
    changed = np.tile(own, (len(units) + 1, 1))
    for row, unit in zip(changed, units, strict=False):
        row[unit] = usual[unit]
    return changed


def moves(probability: FloatArray) -> FloatArray:
    """Return how far each unit moves the log odds, from the probabilities of `without_each`; [U].

    Rounded, so that units that move them alike are.

    >>> moves(np.array([0.5, 0.9, 0.9])).round(1).tolist()
    [2.2, 0.0]
    """
    odds = log_odds(probability)
    return np.asarray(np.round(odds[-1] - odds[:-1], 6) + 0.0)


def log_odds(probability: FloatArray) -> FloatArray:
    """Return the log odds of probabilities, finite at 0 and 1 too."""
    return np.asarray(logit(np.clip(probability, 1e-15, 1.0 - 1e-15)))


def both_ways(moved: FloatArray, most: int, least: float) -> list[int]:
    """Return the largest move up, the largest down, then others, by size; none below ``least``.

    >>> both_ways(np.array([1.0, 2.0, 3.0, -0.5, 0.01]), 3, 0.05)
    [2, 1, 3]
    """
    order = [int(j) for j in np.argsort(-abs(moved), kind="stable") if abs(moved[j]) >= least]
    ends = [j for j in order if moved[j] > 0.0][:1] + [j for j in order if moved[j] < 0.0][:1]
    kept = {*ends, *[j for j in order if j not in ends][: most - len(ends)]}
    return [j for j in order if j in kept]
