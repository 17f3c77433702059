"""The posterior of a search's best fit: a Gibbs chain at its number of features.

omega, the rows' features, the weights, the sticks and the hyperparameters are drawn in turn, from
the fit on. The weights that are kept say what rows have (`posterior_draws`) and what features do.
The fit itself waits, so the search ends where it would.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from vbmodels.core.algorithm import Algorithm, Save
from vbmodels.core.chains import Schedule
from vbmodels.features.ibp.chain import chain_from, draw_chain
from vbmodels.features.posterior_draws import DRAWS, WeightDraws
from vbmodels.features.search.states import IDLE, SearchGlobal, SearchOptions
from vbmodels.features.search.trials import sweep

POSTERIOR = "posterior"
"""Name of its sweeps."""
WARMUP = 10  # draws
SAMPLED = 5_000.0
"""Rows that the chain draws, about, of a table that was searched by a sample."""
THINNED, MOST_THINNED = 5_000.0, 5
"""Rows that all sweeps for one draw go through, about, and the most such sweeps."""
_STREAM = 12


def schedule_of(n_rows: float) -> Schedule:
    """Return the schedule of a chain over so many rows: of few, draws that are further apart.

    >>> [schedule_of(rows).thin for rows in (300, 2_000, 10_000)]
    [5, 2, 1]
    """
    thin = int(np.clip(THINNED / n_rows, 1, MOST_THINNED))
    return Schedule(WARMUP * thin, DRAWS, thin=thin)


def draw_posterior(model: SearchOptions, at: SearchGlobal) -> Algorithm:
    """Draw weights from the posterior by a Gibbs chain from the best fit, which waits.

    Of a long table it draws a sample of the rows.
    """
    share = min(SAMPLED / at.n_rows, 1.0) if at.widened else 1.0
    schedule = schedule_of(share * at.n_rows)
    rng = np.random.default_rng([at.seed, _STREAM])
    chain, i = chain_from(at.best.q, 0, rng), 0
    while True:
        at, chain, i = yield Save((at, chain, i))
        if i == schedule.sweeps or not at.k:
            return at
        at, fits, sums, _ = yield from sweep(
            model, at, (at.best,), np.array([IDLE]), POSTERIOR,
            chains=(chain,), iteration=i, from_fit=True, posterior=share,
        )  # fmt: skip
        (own,) = sums.chains
        rng = np.random.default_rng([at.seed, _STREAM, i + 1])
        chain = draw_chain(chain, own, model.fit.bias_variance, model.fit.learn, rng)
        draws = at.draws
        if schedule.slot(i) is not None:
            draws = draws.plus(chain.weights, chain.log_odds)
        elif i == 0:
            none = WeightDraws.none(len(chain.weights), at.k)
            draws = replace(none, scale=math.sqrt(at.n_rows / own.n_rows) if share < 1.0 else 1.0)
        at = replace(at, fit=replace(fits[0], source=None), draws=draws)
        i += 1
