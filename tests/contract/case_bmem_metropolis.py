"""The row of Metropolis-Hastings for experts: what a loop with draws can sign."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.contract import calibration_experts
from tests.contract.bmem import chances
from tests.contract.bmem_rows import AT_THE_ENDS, batches, by_prediction, excess_loss_of, tiny
from vbmodels.core.fit import fit
from vbmodels.experts.bmem.metropolis import SampledExperts, Walk, WalkPrior
from vbmodels.experts.rows import Rows
from vbmodels.testing.case import EVERY, Case, Objective, Recovery


def model() -> SampledExperts:
    prior = WalkPrior("mabn2", kappa=3.0)
    return SampledExperts(2, prior, learn=True, chains=2, warmup=15, draws=5, thin=3)


def log_likelihood(q: Walk, batches: Sequence[Rows]) -> float:
    """Mean over chains of log p(y | the draw)."""
    total = np.zeros(len(q.vectors))
    for batch in batches:
        p = chances(q.vectors[:, 0], q.vectors[:, 1], batch.dense)
        total += np.log(np.where(batch.t > 0, p, 1.0 - p)).sum(1)
    return float(total.mean())


def excess_loss(seed: int) -> float:
    """See `excess_loss_of`; 600 rows fitted."""

    def fitted(rows: Rows) -> Any:
        sampler = SampledExperts(2, WalkPrior("gaussian", 0.1), warmup=3000, draws=200, thin=10)
        return sampler.posterior(fit(sampler, [rows], seed=seed, max_iter=sampler.evaluations).q)

    return excess_loss_of(fitted, seed, 600, 1500)


CASE = Case(
    name="bmem_metropolis",
    calibration=calibration_experts.METROPOLIS,
    model=model,
    batches=batches,
    tiny=tiny,
    extremes=AT_THE_ENDS,
    agreement=by_prediction(model().evaluations),
    global_step="The step draws; no parameter stands at an optimum.",
    local_step="A partition has no local parameters.",
    monte_carlo="A sampler has no bound to compare with a definition.",
    evidence="A sampler has no bound; tests/vbmodels checks its draws by quadrature.",
    sampler="It is the sampler itself; tests/vbmodels checks its draws by quadrature.",
    recovery=Recovery(error=excess_loss, tolerance=0.05, seeds=(0, 1, 2)),
    best="It is a chain: what it leaves is the sample, no point that is better than others.",
    objective=Objective(value=log_likelihood, every=29, rtol=1e-9),
    slow=frozenset({"recovery"}),
    thorough=EVERY,
)
