"""The sweep of `local` in one pass over the data, in compiled loops.

A few hundred bags at a time are scaled, swept and summed up while they are in the cache.
Of q(theta)'s covariance V an instance meets its own modality's block only: r' V follows p
within the modality, and is made anew from r between two modalities. So a sweep is exact, and
its sums are found with it (`Local.sums`).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np
from scipy.special import expit, ndtr

from vbmodels.bags.likelihood import chunks
from vbmodels.bags.published.local import Globals, Local, SweepSums, as_printed, label_sums
from vbmodels.bags.published.rows import Rows
from vbmodels.core.special import inverse_mills
from vbmodels.core.state import FloatArray


@dataclass
class Tally:
    """Sums of one modality as they grow; see `local.SweepSums`."""

    total: float
    weighted: FloatArray
    latent: FloatArray
    printed: FloatArray


class Piece:
    """One modality's instances of some bags: scaled, with all that a sweep needs of them."""

    def __init__(
        self, kernels: ModuleType, rows: Rows, at: Globals, k: int, first: int, last: int
    ) -> None:
        self.kernels, part = kernels, rows.data.modalities[k]
        self.offsets, self.first, self.last = part.offsets, first, last
        self.rows = slice(int(part.offsets[first]), int(part.offsets[last]))
        block, gate, size = (
            rows.scaling.layout.slopes(k),
            at.gates[k],
            len(part.features[self.rows]),
        )
        self.x = np.empty((size, part.n_features))
        inverse = 1.0 / rows.scaling.scales[k]
        kernels.scaled(part.features, self.rows.start, rows.scaling.means[k], inverse, self.x)
        self.score = self.x @ at.mean[block]
        self.through = self.x @ np.ascontiguousarray(at.covariance[block, block])
        self.e = self.x @ gate[1:]
        self.e += gate[0]
        ratio, self.odds, self.log_down, self.up, self.down = np.empty((5, size))
        kernels.tail_ratio(self.e, ratio)
        exponent = -0.5 * self.e * self.e
        bell = np.exp(exponent)
        log_rest = np.log1p(-bell * ratio)
        exponent += np.log(ratio)
        kernels.tails(
            self.e, bell, ratio, exponent, log_rest, self.odds, self.log_down, self.up, self.down
        )

    def add_design(self, p: FloatArray, totals: FloatArray) -> None:
        """Fill sum_j p x of every bag."""
        self.kernels.bag_totals(self.x, self.offsets, self.first, self.last, p, totals)

    def sweep(
        self, p: FloatArray, carried: FloatArray, left: FloatArray, spread: FloatArray,
        totals: FloatArray,
    ) -> FloatArray:  # fmt: skip
        """Update p in place, with what follows it; return the log odds."""
        logit = self.odds + carried if carried.size else self.odds.copy()
        self.kernels.sweep(
            self.offsets, self.first, self.last, logit, self.score, self.x, self.through, p,
            left, spread, totals,
        )  # fmt: skip
        return logit

    def tally(self, p: FloatArray, logit: FloatArray, tally: Tally) -> None:
        """Add what these instances do to the sums; their features are used up."""
        mean, root = np.empty((2, p.size))
        soft = np.log1p(np.exp(-np.abs(logit)))
        tally.total += self.kernels.settle(
            self.e, p, logit, soft, self.odds, self.log_down, self.up, self.down, mean, root
        )
        _add(tally.latent, mean, self.x)
        if tally.printed.size:
            _add(tally.printed, as_printed(self.e, p, self.up, self.down), self.x)
        self.x *= root[:, None]
        tally.weighted += self.x.T @ self.x


def _add(total: FloatArray, weight: FloatArray, x: FloatArray) -> None:
    total[0] += weight.sum()
    total[1:] += weight @ x


def fused_sweep(
    kernels: ModuleType, rows: Rows, at: Globals, before: Local | None, carry: bool = False
) -> Local:
    """Return what `local.sweep` does, with its sums (the text's as well with ``carry``)."""
    data, layout = rows.data, rows.scaling.layout
    sizes = [len(m.features) for m in data.modalities]
    primary = tuple(np.empty(n) if before is None else before.primary[k].copy()
                    for k, n in enumerate(sizes))  # fmt: skip
    carried = tuple(np.zeros(n if carry else 0) for n in sizes)
    if before is not None:
        carried = tuple(c.copy() for c in before.carried)
    centre, sign = np.empty(data.n_bags), data.sign
    tallies = [
        Tally(0.0, np.zeros((d, d)), np.zeros(1 + d), np.zeros(1 + d if carry else 0))
        for d in layout.features
    ]
    total, outer, label = 0.0, np.zeros((layout.n_theta,) * 2), np.zeros(layout.n_theta)
    for first, last in chunks(data):
        r, some = rows.own_design(first, last), sign[first:last]
        pieces = [Piece(kernels, rows, at, k, first, last) for k in range(len(sizes))]
        for k, piece in enumerate(pieces):
            if before is None:
                primary[k][piece.rows] = expit(piece.odds)
            piece.add_design(primary[k][piece.rows], r[:, layout.slopes(k)])
        mu = r @ at.mean
        residual = some * inverse_mills(some * mu)
        left = residual.copy()
        for k, piece in enumerate(pieces):
            block, p = layout.slopes(k), primary[k][piece.rows]
            past = carried[k][piece.rows] if carry else carried[k]
            spread = r @ np.ascontiguousarray(at.covariance[:, block])
            logit = piece.sweep(p, past, left, spread, r[:, block])
            piece.tally(p, logit, tallies[k])
            if carry:
                carried[k][piece.rows] = logit
        centre[first:last] = mu + residual - left
        value, expected = label_sums(some, centre[first:last])
        total += value
        outer += r.T @ r
        label += r.T @ expected
    moved = float(np.abs(ndtr(centre) - (0.5 if before is None else ndtr(before.centre))).sum())
    found = SweepSums(
        total + sum(t.total for t in tallies),
        outer,
        tuple(t.weighted for t in tallies),
        label,
        tuple(t.latent for t in tallies),
        tuple(t.printed for t in tallies),
        moved,
    )
    return Local(primary, centre, at.gates, carried, moved, found)
