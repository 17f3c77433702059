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
from vbmodels.features.posterior_draws import WeightDraws
from vbmodels.features.search.states import IDLE, SearchGlobal, SearchOptions
from vbmodels.features.search.trials import sweep

POSTERIOR = "posterior"
"""Name of its sweeps."""
SCHEDULE = Schedule(12, 24, thin=2)
_STREAM = 12


def draw_posterior(model: SearchOptions, at: SearchGlobal) -> Algorithm:
    """Draw weights from the posterior by a Gibbs chain from the best fit, which waits.

    After a sample of a long table the chain draws as many rows.
    """
    share = 1.0 if model.rows is None or not at.widened else min(model.rows / at.n_rows, 1.0)
    rng = np.random.default_rng([at.seed, _STREAM])
    chain, i = chain_from(at.best.q, 0, rng), 0
    while True:
        at, chain, i = yield Save((at, chain, i))
        if i == SCHEDULE.sweeps or not at.k:
            return at
        at, fits, sums, _ = yield from sweep(
            model, at, (at.best,), np.array([IDLE]), POSTERIOR,
            chains=(chain,), iteration=i, from_fit=True, posterior=share,
        )  # fmt: skip
        (own,) = sums.chains
        rng = np.random.default_rng([at.seed, _STREAM, i + 1])
        chain = draw_chain(chain, own, model.fit.bias_variance, model.fit.learn, rng)
        draws = at.draws
        if SCHEDULE.slot(i) is not None:
            draws = draws.plus(chain.weights, chain.log_odds)
        elif i == 0:
            none = WeightDraws.none(len(chain.weights), at.k)
            draws = replace(none, scale=math.sqrt(at.n_rows / own.n_rows))
        at = replace(at, fit=replace(fits[0], source=None), draws=draws)
        i += 1
