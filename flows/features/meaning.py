"""What a feature is: what it changes most, with what certainty, and what it is named after.

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

from flows.evaluate.estimate import Estimate
from flows.features.input.categories import Column
from vbmodels.core.state import BoolArray, FloatArray, IntArray, Stats
from vbmodels.features.draw_kernels import draw_uniform, row_keys
from vbmodels.features.forms import Stability
from vbmodels.features.patterns import contrast_sums, information, places

ROWS = 1000
"""About so many rows, drawn by their numbers, are compared; of fewer, all."""
NAMED, NAMED_ANSWERS = 4, 5
"""Columns that a feature is named after at most, and where all of them have an order."""
STRONG = 0.1
"""A column with less than this share of the information of the first one is not in a name."""
MOST_COLUMNS = 12
"""Columns of the input that are kept of a feature."""
ALIKE = 0.7
"""Share of the largest fall from which on a category that rises is shown in its place."""
SURE = 0.1
"""Rows with a probability nearer than that to 0 or 1 are sure."""
_STREAM = 7


@dataclass(frozen=True)
class MeaningSums(Stats, kind="flows/features.MeaningSums"):
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


def _normal(mean: float, sd: float) -> Estimate:
    return Estimate(mean, mean - 1.96 * sd, mean + 1.96 * sd)


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
    def difference(self) -> Estimate:
        """The mean with the feature less that without."""
        return _normal(self.with_it - self.without_it, self.sd)

    @property
    def clear(self) -> bool:
        """Whether the difference has a direction: beyond doubt, and a twentieth of the scale."""
        return abs(self.with_it - self.without_it) > 2.0 * self.sd and abs(self.shift) > 0.05


@dataclass(frozen=True)
class Change:
    """What a feature does to one column: the category that it changes most.

    Attributes
    ----------
    column, shown
        Name of the column, and how pages show it.
    category
        The category.
    with_it, without_it, sd
        p1, p0 and the posterior standard deviation of their difference.
    nats
        I_kd a row: the quantile over the draws that ranks columns.
    scale
        The kind of scale of the column's answers; empty without an order.
    answers
        How it moves the mean answer, where the column's answers have an order.
    """

    column: str
    shown: str
    category: str
    with_it: float
    without_it: float
    sd: float
    nats: float
    scale: str = ""
    answers: MeanAnswer | None = None

    @property
    def answer(self) -> str:
        """The column and the category as pages show them."""
        return f"{self.shown} = {self.category}"

    @property
    def points(self) -> Estimate:
        """How many more rows in 100 give the answer with the feature than without."""
        return _normal(100.0 * (self.with_it - self.without_it), self.points_sd)

    @property
    def points_sd(self) -> float:
        """The standard deviation of `points`."""
        return 100.0 * self.sd

    @property
    def moved(self) -> MeanAnswer | None:
        """The mean answer, where it has a direction."""
        return self.answers if self.answers is not None and self.answers.clear else None

    @property
    def rises(self) -> bool:
        """Whether the answers are higher with the feature, or else the category more frequent."""
        moved = self.moved
        return self.with_it >= self.without_it if moved is None else moved.shift > 0.0


@dataclass(frozen=True)
class NamePart:
    """Columns that a feature changes alike, of those that it is named after.

    Attributes
    ----------
    scale
        The kind of scale that the answers move on; empty where one category changes.
    category
        That category.
    more
        Whether answers are higher, or the category more frequent.
    columns
        Names of the columns as pages show them.
    everywhere
        Whether these are all columns of the input.
    """

    scale: str
    category: str
    more: bool
    columns: tuple[str, ...]
    everywhere: bool


@dataclass(frozen=True)
class Feature:
    """What one reported feature is.

    Attributes
    ----------
    number
        Its number, from 1.
    share
        Share of rows with it; the interval is that of a population from which the rows are drawn,
        where the draws are from the posterior of weights and rows' features together.
    sure
        Share of rows whose probability is near 0 or 1.
    starts
        Starts of the search that found it, its own among them; None where nobody looked.
    nats
        What it says of all columns, a row.
    name
        What it is named after.
    changes
        Columns, the most informative first.
    at_fit
        Of a score: the share of the fit's rows with it.
    """

    number: int
    share: Estimate
    sure: float
    starts: int | None
    nats: float
    name: tuple[NamePart, ...]
    changes: tuple[Change, ...]
    at_fit: Estimate | None = None


def meaning_sums(
    nu: FloatArray,
    weights: FloatArray,
    draw: Callable[[IntArray], BoolArray],
    levels: IntArray,
    row_id: IntArray,
    count: FloatArray,
    n_rows: float,
) -> MeaningSums:
    """Sum what `features_of` needs over the rows of a partition.

    Parameters
    ----------
    nu
        [N, F] probabilities of the reported features.
    weights
        [S, J, F + 1] draws of biases and weights.
    draw
        Draws the features [S, M, F] of some rows, given each draw of the weights.
    levels
        [D] how many categories each column has.
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


def features_of(
    sums: MeaningSums, columns: Sequence[Column], stable: Stability, whole: bool
) -> list[Feature]:
    """Return what every reported feature is, from the sums over all partitions.

    ``whole``: the draws are from the posterior of weights and rows' features together.
    """
    features = []
    for k in range(len(sums.on)):
        changes = _changes(sums, k, columns)
        starts = None if stable.found_by is None else int(stable.found_by[k]) + 1
        features.append(
            Feature(
                number=k + 1,
                share=share_of_rows(sums, k, whole),
                sure=float(sums.sure[k] / sums.rows),
                starts=starts,
                nats=sum(change.nats for change in changes),
                name=_name(changes, len(columns)),
                changes=tuple(changes[:MOST_COLUMNS]),
            )
        )
    return features


def share_of_rows(sums: MeaningSums, k: int, whole: bool) -> Estimate:
    """Estimate the share of rows with feature ``k`` in a population that they are drawn from."""
    share = float(sums.on[k] / sums.rows)
    if not whole:
        return Estimate(share)
    sd = float(sums.drawn[:, k].std(ddof=1) / sums.compared)
    half = 1.96 * (sd**2 + share * (1.0 - share) / sums.rows) ** 0.5
    return Estimate(share, max(share - half, 0.0), min(share + half, 1.0))


def _changes(sums: MeaningSums, k: int, columns: Sequence[Column]) -> list[Change]:
    """Return what a feature does to every column, the most informative first."""
    levels = np.array([len(column.levels) for column in columns])
    column_of, category = places(levels)
    on, off = sums.with_it[:, k] / sums.compared, sums.without_it[:, k] / sums.compared
    nats = information(on, off, float(sums.on[k] / sums.rows), column_of, len(levels))
    sure_nats = np.quantile(nats, 0.1, axis=0)
    centre, sd = (on - off).mean(0), (on - off).std(0, ddof=1)
    changes = []
    for d in np.argsort(-sure_nats, kind="stable").tolist():
        span = np.flatnonzero(column_of == d)
        # Of two categories that change about alike, the one that the feature raises.
        c = int(span[np.argmax(np.abs(centre[span]) / np.where(centre[span] > 0, ALIKE, 1.0))])
        column, answers = columns[d], None
        if column.points is not None:
            answers = _mean_answer(on[:, span], off[:, span], column.points)
        changes.append(
            Change(
                column=column.name,
                shown=column.shown,
                category=column.levels[int(category[c])],
                with_it=float(on[:, c].mean()),
                without_it=float(off[:, c].mean()),
                sd=float(sd[c]),
                nats=float(sure_nats[d]),
                scale=column.scale,
                answers=answers,
            )
        )
    return changes


def _name(changes: Sequence[Change], n_columns: int) -> tuple[NamePart, ...]:
    """Name a feature after its strongest columns: by direction, or by category."""
    top = changes[:NAMED_ANSWERS]
    strong = [change for change in top if change.nats > STRONG * top[0].nats] or list(top[:1])
    if any(change.moved is None for change in strong):
        strong = strong[:NAMED]
    parts: dict[tuple[str, str, bool], list[str]] = {}
    for change in strong:
        scale, category = ("", change.category) if change.moved is None else (change.scale, "")
        parts.setdefault((scale, category, change.rises), []).append(change.shown)
    return tuple(
        NamePart(scale, category, rises, tuple(names), n_columns == len(names) > 2)
        for (scale, category, rises), names in parts.items()
    )


def _mean_answer(with_it: FloatArray, without_it: FloatArray, points: FloatArray) -> MeanAnswer:
    """Return the mean answers at probabilities of draws; [S, R] each."""
    on, off = with_it @ points, without_it @ points
    sd = float((on - off).std(ddof=1))
    return MeanAnswer(
        float(on.mean()), float(off.mean()), sd, float(points.min()), float(points.max())
    )
