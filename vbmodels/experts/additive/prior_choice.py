"""Which prior is chosen: the held-out log-likelihood of the candidates, compared row by row.

The additive part alone (K = 1) is among them, and a mixture must beat it by one standard error of
the paired difference. Mixtures within two standard errors of the best share its starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vbmodels.core.state import FloatArray, State
from vbmodels.experts.additive.candidate import Candidate, Point, Sums


@dataclass(frozen=True)
class Choice(State, kind="experts/additive.Choice"):
    """What hold-out found: every candidate's mean log-likelihood of held-out rows, and the best.

    Attributes
    ----------
    candidates
        The priors tried.
    held_out
        Mean log-likelihood of a held-out row; [C].
    best
        Index of the one that is chosen.
    kept
        Indices of the priors that the starts are shared among; the best one first.
    gain, error
        How much better than the additive part alone the best mixture was, and the standard error
        of that; a row.
    """

    candidates: tuple[Candidate, ...]
    held_out: FloatArray
    best: int
    kept: tuple[int, ...]
    gain: float
    error: float


def choose(points: Sequence[Point], stats: Sums) -> Choice:
    """Return the candidate with the best held-out log-likelihood; see the module's text."""
    candidates = list(dict.fromkeys(replace(p.candidate, fold=-1) for p in points))
    parts = dict.fromkeys(p.candidate for p in points)
    index = np.array([candidates.index(replace(c, fold=-1)) for c in parts])
    member = (index == np.arange(len(candidates))[:, None]).astype(float)
    rows = member @ stats.held_rows
    total = member @ stats.held
    # Parts of different folds share no held-out row, so their products are 0.
    products = member @ stats.held_products @ member.T
    mean = total / rows
    single = np.array([c.n_experts == 1 for c in candidates])
    plain = int(np.argmax(np.where(single, mean, -np.inf)))
    if single.all():
        return Choice(tuple(candidates), mean, plain, (plain,), 0.0, 0.0)
    mixed = int(np.argmax(np.where(single, -np.inf, mean)))
    gap = mean[mixed] - mean
    square = products[mixed, mixed] - 2.0 * products[mixed] + np.diag(products)
    error = np.sqrt(np.maximum(square / rows - gap**2, 0.0) / rows)
    best = mixed if gap[plain] > error[plain] else plain
    alike = [
        i
        for i, c in enumerate(candidates)
        if c.n_experts > 1 and gap[i] <= 2.0 * error[i] and i != best
    ]
    kept = (best, *sorted(alike, key=lambda i: gap[i])) if best == mixed else (best,)
    return Choice(tuple(candidates), mean, best, kept, float(gap[plain]), float(error[plain]))
