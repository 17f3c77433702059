"""Columns seen together: a Gaussian process on their ranks, by few landmarks.

Two rows are as alike as k(x, z) = mean over m of exp(-sum_d r_d |u_d - v_d| / (m l)), u and v their
ranks in every column, r_d how informative the column is alone (`relevance`, of a number
its root) and l the median
distance of landmarks, m in `SCALES`: up to how its cuts are drawn the kernel of random partitions,
which is what forests of trees see (Balog et al. 2016), and r how often a column is cut.
With landmarks Z and K = U S U' on them the process is f(x) = F(x)'w, F = k(x, Z) U S^-1/2, w ~ N(0,
v I) (Nystroem); the directions that hold less than one hundredth of the trace are left out, and F
is centred and of mean square 1 on the sample, so that v is the variance that it gives f.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbmodels.core.state import FloatArray, State

LEVELS = 8
"""Parts of a column's ranks."""


def relevance(ranks: FloatArray, classes: FloatArray) -> FloatArray:
    """Return the square root of chi^2 / N of each column's table of levels and labels; [D].

    chi^2 / N = sum_lk (n_lk - e_lk)^2 / (N e_lk), e_lk = n_l. n_.k / N, is Pearson's mean square
    contingency, n_lk rows of the level l with the label k. Of an uninformative column it is
    some (`LEVELS` - 1) (K - 1) / N, which is left in: a column that is informative only
    with others is still seen, the more so the fewer rows there are. All ones where no column is
    informative.

    Parameters
    ----------
    ranks
        Of every row in each column, 0 to 1; [M, D].
    classes
        How many rows are like each, of every label; [M, K].
    """
    level = np.minimum((ranks * LEVELS).astype(np.int64), LEVELS - 1)
    labels, rows = classes.sum(0), classes.sum()
    if rows <= 0.0:
        return np.ones(ranks.shape[1])
    found = np.empty(ranks.shape[1])
    for d, at in enumerate(level.T):
        table = np.stack([np.bincount(at, k, LEVELS) for k in classes.T], axis=1)
        expected = table.sum(1, keepdims=True) * labels / rows
        square = (table - expected) ** 2 / np.where(expected > 0.0, expected, 1.0)
        found[d] = square.sum() / rows
    return np.sqrt(found) if found.max(initial=0.0) > 0.0 else np.ones(len(found))


def parts_of_number(rows: FloatArray, numbers: FloatArray) -> FloatArray:
    """Return how many rows have a number in each of `LEVELS` parts of the numbers' ranks; [M, K].

    Neither a heavy tail nor a logarithm moves the ranks.

    Parameters
    ----------
    rows, numbers
        How many rows with a number are like each, and the sum of these numbers; [M] each.
    """
    if not rows.any():
        return np.zeros((len(rows), LEVELS))
    mean = numbers / np.maximum(rows, 1.0)
    share = _ranks(mean[:, None], np.sort(mean[rows > 0.0])[:, None])[:, 0]
    level = np.minimum((share * LEVELS).astype(np.int64), LEVELS - 1)
    return np.asarray(np.eye(LEVELS)[level] * rows[:, None])


SCALES = (0.3, 1.0, 3.0)
"""A tenth and a third of the widest, whose one exponential makes the others by powers."""
CENTRED = 1024
"""Rows of the sample that centre and scale of the columns are taken from."""
GRID = 64
"""Quantiles of a column that its ranks are read off."""
HELD = 0.99
FEWEST = 20
"""Different rows from which on there is anything to see together."""
_CHUNK = 4096


@dataclass(frozen=True)
class InteractionGP(State, kind="experts/additive.InteractionGP"):
    """What turns rows into the columns of a Gaussian process.

    Attributes
    ----------
    quantiles
        Of every column on the scale of the fit, in order; [GRID, D].
    landmarks
        Ranks of the landmarks, times r; [R, D].
    length
        l.
    turn
        U S^-1/2, and the scale; [R, P].
    centre
        Taken off; [P].
    relevance
        r; [D]. None: every column is as relevant as any other, as before there was such a thing.
    total
        Variance that the process has at each row, v = 1, of which F has what landmarks span.
    """

    quantiles: FloatArray
    landmarks: FloatArray
    length: float
    turn: FloatArray
    centre: FloatArray
    relevance: FloatArray | None = None
    total: float = 0.0

    @classmethod
    def of(
        cls,
        lines: FloatArray,
        copies: FloatArray,
        classes: FloatArray,
        landmarks: int,
        numbers: FloatArray | None = None,
    ) -> InteractionGP | None:
        """Learn it from a sample of different rows, in an order that means nothing.

        Parameters
        ----------
        lines
            The rows on the scale of the fit; [M, D].
        copies
            How many rows are like each; [M].
        classes
            How many of them are fitted with each label; [M, K].
        landmarks
            The most that there may be.
        numbers
            Of a number, which is one class, the sums of those of the rows that are like each; [M].

        Returns
        -------
        InteractionGP or None
            None where rows are few, or all alike.
        """
        if len(lines) < FEWEST:
            return None
        order = np.argsort(lines, axis=0, kind="stable")
        below = np.cumsum(copies[order], axis=0) / copies.sum()
        at = np.array([np.searchsorted(b, (np.arange(GRID) + 0.5) / GRID) for b in below.T])
        rows = np.take_along_axis(order, np.minimum(at, len(lines) - 1).T, axis=0)
        quantiles = np.take_along_axis(lines, rows, axis=0)
        ranks = _ranks(lines, quantiles)
        if numbers is not None:
            weight = np.sqrt(relevance(ranks, parts_of_number(classes[:, 0], numbers)))
        else:
            weight = relevance(ranks, classes)
        ranks *= weight
        chosen = np.unique(ranks[:landmarks], axis=0)
        apart = _distances(chosen, chosen)[np.triu_indices(len(chosen), 1)]
        length = float(np.median(apart)) if apart.size else 0.0
        if length <= 0.0:
            return None
        size, axes = np.linalg.eigh(_kernel(chosen, chosen, length))
        most = np.cumsum(size[::-1]) <= HELD * size.sum()
        kept = max(1, int(most.sum()))
        turn = axes[:, ::-1][:, :kept] / np.sqrt(size[::-1][:kept])
        turn *= np.sign(turn[np.abs(turn).argmax(0), np.arange(kept)])
        found = _kernel(ranks[:CENTRED], chosen, length) @ turn
        share = copies[:CENTRED] / copies[:CENTRED].sum()
        centre = share @ found
        scale = np.sqrt(share @ ((found - centre) ** 2).sum(1))
        if scale <= 0.0:
            return None
        total = 1.0 / float(scale) ** 2
        return cls(quantiles, chosen, length, turn / scale, centre / scale, weight, total)

    def columns(self, lines: FloatArray) -> FloatArray:
        """Return F of rows [N, D] on the scale of the fit; [N, P]."""
        found = np.empty((len(lines), self.centre.size))
        for start in range(0, len(lines), _CHUNK):
            ranks = _ranks(lines[start : start + _CHUNK], self.quantiles)
            if self.relevance is not None:
                ranks *= self.relevance
            near = _kernel(ranks, self.landmarks, self.length)
            found[start : start + _CHUNK] = near @ self.turn - self.centre
        return found

    def unspanned(self, columns: FloatArray) -> FloatArray:
        """Return the variance, v = 1, that F [N, P] lacks of the process; [N]."""
        spanned = np.sum((columns + self.centre) ** 2, axis=1)
        return np.asarray(np.maximum(self.total - spanned, 0.0))


def _ranks(lines: FloatArray, quantiles: FloatArray) -> FloatArray:
    """Return the share of quantiles below each cell, equal ones by half; [N, D]."""
    found = np.empty(lines.shape)
    for d, at in enumerate(quantiles.T):
        below = np.searchsorted(at, lines[:, d], "left") + np.searchsorted(at, lines[:, d], "right")
        found[:, d] = below / (2.0 * len(at))
    return found


def _distances(ranks: FloatArray, landmarks: FloatArray) -> FloatArray:
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(ranks, landmarks, "cityblock"))


def _kernel(ranks: FloatArray, landmarks: FloatArray, length: float) -> FloatArray:
    wide = np.exp(_distances(ranks, landmarks) / (-length * SCALES[2]))
    middle = wide**3
    near = middle**3
    near *= wide
    near += middle
    near += wide
    near /= len(SCALES)
    return near
