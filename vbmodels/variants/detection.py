"""The limit of detection: the share of an allele that would be called with a given probability."""

from __future__ import annotations

from typing import Any

import numpy as np

from vbmodels.core.state import FloatArray, IntArray
from vbmodels.variants.counts import Units
from vbmodels.variants.two_groups.model import TwoGroups
from vbmodels.variants.two_groups.posterior import log_bayes_factors

_STEPS = 40  # of a bisection of a share
_FIRST = 4  # reads that are tried at first


def least_reads(
    model: TwoGroups, q: Any, case_depth: IntArray, control_depth: IntArray,
    control_reads: IntArray, kind: IntArray, replicates: tuple[int, int], least: float,
    member: IntArray | None = None, context: IntArray | None = None,
) -> IntArray:  # fmt: skip
    """Return the fewest reads of an allele in the case that are called, [U]; -1 for none.

    Log Bayes factors rise with the case's reads: these are doubled until one is called, then
    the number is bisected. Reads are spread evenly over the replicates.

    Parameters
    ----------
    model, q
        The fit.
    case_depth, control_depth
        [U] reads of a replicate.
    control_reads
        [U] reads of the allele in the control, all replicates together.
    kind
        [U] the substitution, 0 to 11.
    replicates
        Number of the case's and of the control's.
    least
        Log Bayes factor from which on an allele is called.
    member
        [R] which of the control's samples each replicate is of, as `Units` has it; the case's
        replicates come first.
    context
        [U] the bases beside each, as `contexts` has them.
    """
    of_case, of_control = replicates
    case = np.arange(of_case + of_control) < of_case
    depth = np.where(case, case_depth[:, None], control_depth[:, None]).astype(np.int64)
    most = case_depth * of_case

    def called(reads: IntArray, which: IntArray) -> Any:
        alt = np.zeros((len(which), len(case)), np.int64)
        alt[:, case] = _spread(reads, of_case)
        alt[:, ~case] = np.minimum(
            _spread(control_reads[which], of_control), depth[which][:, ~case]
        )
        units = Units(
            alt, depth[which], kind[which], which, np.zeros(len(which), np.int64), case, member,
            context=None if context is None else context[which],
        )  # fmt: skip
        return log_bayes_factors(model, q, units) >= least

    low = np.zeros(len(kind), np.int64)  # is not called
    high = np.minimum(_FIRST, most)
    open_ = np.flatnonzero(most > 0)
    found = np.full(len(kind), -1, np.int64)
    while len(open_):
        yes = called(high[open_], open_)
        found[open_[yes]] = high[open_[yes]]
        open_ = open_[~yes]
        low[open_] = high[open_]
        open_ = open_[high[open_] < most[open_]]
        high[open_] = np.minimum(2 * high[open_], most[open_])
    open_ = np.flatnonzero(found > low + 1)
    while len(open_):
        middle = (low[open_] + found[open_]) // 2
        yes = called(middle, open_)
        found[open_[yes]] = middle[yes]
        low[open_[~yes]] = middle[~yes]
        open_ = open_[found[open_] > low[open_] + 1]
    return found


def _spread(total: IntArray, over: int) -> IntArray:
    """Return numbers as nearly equal parts, [U, over]."""
    if not over:
        return np.zeros((len(total), 0), np.int64)
    return total[:, None] // over + (np.arange(over) < (total % over)[:, None])


def share_called(
    reads: IntArray, depth: IntArray, replicates: int, precision: float, probability: float
) -> FloatArray:
    """Return the share f of an allele of which so many reads come with a probability, [U].

    The sum of ``replicates`` draws of BetaBin(n, M f, M (1 - f)) has the mean m = R n f and, for
    small f, the variance m + m^2 / r with r = f R n (M + 1) / (n - 1): it is taken as negative
    binomial. NaN where there is no such share.

    Parameters
    ----------
    reads, depth
        [U] the fewest reads that are called, -1 for none; and reads of a replicate.
    replicates, precision
        The number of replicates, and M.
    probability
        That of at least ``reads``.
    """
    from scipy.stats import nbinom

    total = (depth * replicates).astype(float)
    low, high = np.zeros(len(reads)), np.ones(len(reads))

    def chance(share: FloatArray) -> FloatArray:
        mean = total * share
        size = share * total * (precision + 1.0) / np.maximum(depth - 1.0, 1e-9)
        size = np.clip(size, 1e-9, 1e12)
        return np.asarray(nbinom.sf(reads - 1, size, size / (size + np.maximum(mean, 1e-300))))

    can = (reads > 0) & (total > 0)
    can &= np.where(can, chance(high), 0.0) >= probability
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        enough = chance(middle) >= probability
        high, low = np.where(enough, middle, high), np.where(enough, low, middle)
    return np.where(can, high, np.nan)
