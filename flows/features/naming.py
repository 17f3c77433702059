"""What a feature is, in words: what it changes most, with what certainty, and what it explains.

The standardised contrast of feature k in category r of column d compares rows as they are:

    p1_kdr = mean over rows of P(x_d = r | z_k = 1, the row's other features),   p0 with z_k = 0,

for draws of the weights and of the rows' features. The information of a column on the feature is

    I_kd = sum_r pi_k p1 log(p1 / m) + (1 - pi_k) p0 log(p0 / m),  m = pi_k p1 + (1 - pi_k) p0,

nats a row; columns rank by the 10 % quantile of I_kd over the draws, so that doubt counts against
a column. All of it needs sums over rows only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.state import BoolArray, FloatArray, IntArray, Stats
from vbmodels.features.contrasts import contrast_sums, information, places
from vbmodels.features.draw_kernels import draw_uniform, row_keys

ROWS = 1000
"""About so many rows, drawn by their numbers, are compared; of fewer, all."""
NAMED = 4
ALIKE = 0.7
"""Share of the largest fall from which on a category that rises is shown in its place."""
SURE = 0.1
"""Rows with a probability nearer than that to 0 or 1 are sure."""
_STREAM = 7


@dataclass(frozen=True)
class MeaningSums(Stats):
    """Sums over rows; C categories of all D columns, F reported features.

    Parameters
    ----------
    rows, compared
        All rows, and those that the contrasts are means over, as often as each counts.
    with_it, without_it
        [S, F, C] sums of p1 and p0 over the rows that are compared.
    drawn
        [S, F] of the rows that are compared, those that have a feature by each draw.
    on, sure
        [F] sums of the probabilities nu, and of the rows whose probability is near 0 or 1.
    """

    rows: float
    compared: float
    with_it: FloatArray
    without_it: FloatArray
    drawn: FloatArray
    on: FloatArray
    sure: FloatArray


@dataclass(frozen=True)
class MeanAnswer:
    """The mean answer of a column whose answers have an order.

    Attributes
    ----------
    with_it, without_it, sd
        Means with a feature and without, and the posterior standard deviation of the difference.
    low, high
        Ends of the scale.
    """

    with_it: float
    without_it: float
    sd: float
    low: float
    high: float

    @property
    def shift(self) -> float:
        """The difference as a share of the scale, from -1 to 1."""
        return (self.with_it - self.without_it) / (self.high - self.low)

    @property
    def clear(self) -> bool:
        """Whether the difference has a direction: beyond doubt, and a twentieth of the scale."""
        return abs(self.with_it - self.without_it) > 2.0 * self.sd and abs(self.shift) > 0.05


@dataclass(frozen=True)
class ColumnContrast:
    """What a feature does to one column: the category that it changes most.

    Attributes
    ----------
    column, category
        Numbers of both.
    with_it, without_it, sd
        p1, p0 and the posterior standard deviation of their difference.
    nats, sure_nats
        I_kd a row: mean, and the quantile that ranks columns.
    differences
        p1 - p0 of every category of the column.
    answers
        How it moves the mean answer, where the column's answers have an order.
    """

    column: int
    category: int
    with_it: float
    without_it: float
    sd: float
    nats: float
    sure_nats: float
    differences: tuple[float, ...]
    answers: MeanAnswer | None = None


@dataclass(frozen=True)
class Meaning:
    """What one reported feature is.

    Attributes
    ----------
    prevalence, sure
        Share of rows with it, and the share of rows whose probability is near 0 or 1.
    sd, rows
        Posterior standard deviation of the share of rows with it, and how many rows there are.
    contrasts
        Every column, the most informative first.
    whole
        Whether standard deviations allow for unknown features of the rows.
    """

    prevalence: float
    sure: float
    contrasts: tuple[ColumnContrast, ...]
    sd: float
    rows: float
    whole: bool = False

    def interval(self) -> tuple[float, float]:
        """Return a 95 % interval of the share in a population from which the rows are drawn."""
        half = 1.96 * (self.sd**2 + self.prevalence * (1.0 - self.prevalence) / self.rows) ** 0.5
        return max(self.prevalence - half, 0.0), min(self.prevalence + half, 1.0)


def meaning_sums(
    nu: FloatArray,
    weights: FloatArray,
    draw: Callable[[IntArray], BoolArray],
    codes: NDArray[np.integer],
    levels: IntArray,
    row_id: IntArray,
    count: FloatArray,
    n_rows: float,
) -> MeaningSums:
    """Sum what `meanings` needs over the rows of a partition.

    Parameters
    ----------
    nu
        [N, F] probabilities of the reported features.
    weights
        [S, J, F + 1] draws of biases and weights.
    draw
        Draws the features [S, M, F] of some rows, given each draw of the weights.
    codes, levels
        [N, D] categories, -1 where missing, and [D] how many each column has.
    row_id
        [N] numbers of the rows: these decide which are compared.
    count
        [N] rows that each row counts for.
    n_rows
        Rows of all partitions.
    """
    keys = row_keys(row_id, _STREAM)
    rows = np.flatnonzero(draw_uniform(keys, 1)[:, 0] * n_rows < ROWS)
    z = draw(rows)
    with_it, without_it = contrast_sums(z, weights, levels, count[rows])
    return MeaningSums(
        rows=float(count.sum()),
        compared=float(count[rows].sum()),
        with_it=with_it,
        without_it=without_it,
        drawn=np.einsum("smf,m->sf", z, count[rows]),
        on=(nu * count[:, None]).sum(0),
        sure=(((nu < SURE) | (nu > 1.0 - SURE)) * count[:, None]).sum(0),
    )


def meanings(
    sums: MeaningSums,
    levels: IntArray,
    points: Sequence[FloatArray | None] | None = None,
    whole: bool = False,
) -> list[Meaning]:
    """Return what every reported feature is, from the sums over all partitions.

    Parameters
    ----------
    sums, levels
        The sums, and [D] how many categories each column has.
    points
        Of each column the places of its categories on their scale [R]; None where they have no
        order.
    whole
        Whether the draws are from the posterior of weights and rows' features together.
    """
    column, category = places(levels)
    with_it, without_it = sums.with_it / sums.compared, sums.without_it / sums.compared
    found = []
    for k in range(len(sums.on)):
        pi = float(sums.on[k] / sums.rows)
        difference = with_it[:, k] - without_it[:, k]
        nats = information(with_it[:, k], without_it[:, k], pi, column, len(levels))
        low = np.quantile(nats, 0.1, axis=0)
        centre, sd = difference.mean(0), difference.std(0, ddof=1)
        contrasts = []
        for d in np.argsort(-low, kind="stable").tolist():
            own = np.flatnonzero(column == d)
            # Of two categories that change about alike, the one that the feature raises.
            c = int(own[np.argmax(np.abs(centre[own]) / np.where(centre[own] > 0, ALIKE, 1.0))])
            contrasts.append(
                ColumnContrast(
                    column=d,
                    category=int(category[c]),
                    with_it=float(with_it[:, k, c].mean()),
                    without_it=float(without_it[:, k, c].mean()),
                    sd=float(sd[c]),
                    nats=float(nats[:, d].mean()),
                    sure_nats=float(low[d]),
                    differences=tuple(centre[own].tolist()),
                    answers=None
                    if points is None or points[d] is None
                    else _mean_answer(with_it[:, k, own], without_it[:, k, own], points[d]),
                )
            )
        sure = float(sums.sure[k] / sums.rows)
        of_share = float(sums.drawn[:, k].std(ddof=1) / sums.compared)
        found.append(Meaning(pi, sure, tuple(contrasts), of_share, sums.rows, whole))
    return found


def _mean_answer(with_it: FloatArray, without_it: FloatArray, points: FloatArray) -> MeanAnswer:
    """Return the mean answers at probabilities of draws; [S, R] each."""
    on, off = with_it @ points, without_it @ points
    sd = float((on - off).std(ddof=1))
    return MeanAnswer(
        float(on.mean()), float(off.mean()), sd, float(points.min()), float(points.max())
    )
