"""The row of the IBP's Gibbs sampler: what a loop with draws can sign."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from scipy.special import expit, log_expit

from tests.contract import calibration_features, ends, samplers
from tests.contract.ibp_definition import ALPHA, BIAS, LEVELS, WEIGHT, tiny
from vbmodels.core.fit import fit
from vbmodels.features.batch import FeatureBatch, feature_batch, split_rows
from vbmodels.features.gibbs import GibbsGlobal, GibbsIBP, score_rows
from vbmodels.features.gibbs_kernels import draw_features, draw_omega, row_keys
from vbmodels.features.simulate import simulate_images, simulate_table
from vbmodels.testing.agreement import Agreement
from vbmodels.testing.case import Case, Objective, Recovery
from vbmodels.testing.extremes import Extremes

K = 2


def model() -> GibbsIBP:
    return GibbsIBP(
        K,
        alpha=ALPHA,
        weight_variance=WEIGHT,
        bias_variance=BIAS,
        chains=2,
        warmup=10,
        draws=40,
        keep=4,
    )


def batches(seed: int, parts: int) -> list[FeatureBatch]:
    rng = np.random.default_rng(seed)
    codes, _, _ = simulate_table(rng, 60, LEVELS, np.array([0.4, 0.3]), missing=0.05)
    return split_rows(codes, LEVELS, parts, grouped=False)


def log_predictive(q: GibbsGlobal, batches: Sequence[FeatureBatch]) -> float:
    """Mean over chains of log p(x | the draw), by going through all patterns of features."""
    values = []
    for chain in q.chains:
        pi = np.cumprod(chain.v)
        total = 0.0
        for batch in batches:
            row = np.zeros(len(batch.sign))
            for bits in product([0, 1], repeat=K):
                z = np.array(bits)
                p = np.prod(np.where(z == 1, pi, 1 - pi))
                psi = chain.weights[:, 0] + chain.weights[:, 1:] @ z
                answer = expit(batch.sign * psi)
                row += p * np.prod(np.where(batch.sign == 0, 1.0, answer), axis=1)
            total += float(batch.count @ np.log(row))
        values.append(total)
    return float(np.mean(values))


def recovery_error(seed: int) -> float:
    """Excess of -log p per missing cell over the truth's own, on a table from the model."""
    rng = np.random.default_rng(seed)
    levels = np.array([2] * 16 + [3] * 4)
    codes, z, weights = simulate_table(rng, 400, levels, np.array([0.4, 0.3, 0.2]))
    held = rng.random(codes.shape) < 0.1
    batch = feature_batch(np.where(held, -1, codes), levels, grouped=False)
    sampler = GibbsIBP(5, chains=2, warmup=60, draws=60)
    done = fit(sampler, [batch], seed=seed)
    (local,) = done.reduce.local_states(done.iterations - 1)
    p = local.cells / local.cells.sum(1, keepdims=True)
    rows, columns = np.nonzero(held)
    found = np.log(p[np.arange(len(rows)), codes[rows, columns]]).mean()
    psi = weights[:, 0] + z @ weights[:, 1:].T
    best = []
    for n, d in zip(rows, columns, strict=True):
        first, code = int(np.sum(levels[:d] - 1)), int(codes[n, d])
        chance = 1.0
        for r in range(int(levels[d]) - 1):
            s = float(expit(psi[n, first + r]))
            if code >= r:
                chance *= s if code > r else 1 - s
        best.append(np.log(chance))
    return float(np.mean(best) - found)


def kernels_and_their_laws() -> Iterator[tuple[str, Any, Any]]:
    """Compiled draws where log-odds and weights are as large as they may be."""
    rng = np.random.default_rng(0)
    n, units, k = 60, 24, 3
    sign = rng.integers(-1, 2, (n, units)).astype(np.int8)
    sign[0], sign[1] = 0, 1
    weights = rng.choice([-80.0, 0.0, 80.0], (units, k + 1))
    weights[:, 0] = rng.choice([-300.0, 0.0, 300.0], units)
    before = rng.integers(0, 2, (n, k)).astype(np.int8)
    z, log_odds = before.copy(), np.array([-30.0, 0.0, 30.0])
    chance = draw_features(sign, weights, log_odds, z, row_keys(np.arange(n), 3))
    plain = np.empty_like(chance)
    now = before.astype(float)
    for j in range(k):
        value = []
        for bit in (0.0, 1.0):
            now[:, j] = bit
            psi = weights[:, 0] + now @ weights[:, 1:].T
            value.append((np.abs(sign) * log_expit(sign * psi)).sum(1))
        plain[:, j] = expit(log_odds[j] + value[1] - value[0])
        now[:, j] = z[:, j]
    yield "chances of features", chance, plain
    # A unit that no row answers draws nothing; far out omega is all but its mean, 1 / (2 psi).
    for psi in (0.0, 600.0, -600.0, 1e6):
        at, keys = np.full((4000, 1), psi), row_keys(np.arange(4000), 1)
        yield f"omega unasked, {psi}", draw_omega(at, np.zeros(at.shape, np.int8), keys), 0.0 * at
        drawn = draw_omega(at, np.ones(at.shape, np.int8), keys)
        assert (drawn > 0.0).all()
        mean = np.tanh(psi / 2) / (2 * psi) if psi else 0.25
        off = (drawn.mean() - mean) / (drawn.std() / np.sqrt(drawn.size))
        yield f"omega's mean at {psi} is off by over 4 errors", max(abs(off), 4.0), 4.0


def images(rows: int) -> list[FeatureBatch]:
    codes, _ = simulate_images(np.random.default_rng(0), n_rows=rows)
    return split_rows(codes, np.full(36, 2), 2, grouped=False)


CASE = Case(
    name="ibp gibbs",
    calibration=calibration_features.GIBBS,
    model=model,
    batches=batches,
    tiny=tiny,
    draws=samplers.FEATURES,
    extremes=Extremes(
        tables=ends.tables_of_features,
        empty=ends.no_features,
        plain="its draws come from compiled streams alone: kernels are compared one by one",
        kernels=kernels_and_their_laws,
    ),
    agreement=Agreement(
        model=lambda: GibbsIBP(4, chains=1, warmup=60, draws=120, keep=120),
        batches=lambda: images(60),
        published=lambda model, q, batch, local: local.chains[0].chance / model.draws,
        scored=lambda model, q, batch: score_rows(model, q, batch).chains[0].chance / model.keep,
        max_iter=1000,
        cold=False,
        largest=0.3,
        because="both are means over draws, of the chain and of rows drawn anew at its weights",
    ),
    global_step="The step draws; no parameter stands at an optimum.",
    local_step="The step draws; no parameter stands at an optimum.",
    monte_carlo="A sampler has no bound to compare with a definition.",
    evidence="A sampler has no bound; its exactness is tested against enumeration elsewhere.",
    sampler="It is the sampler itself; it is checked against exact enumeration.",
    recovery=Recovery(error=recovery_error, tolerance=0.1, seeds=(0, 1, 2)),
    best="It is a chain: what it leaves is the sample, no point that is better than others.",
    objective=Objective(value=log_predictive, every=29, rtol=1e-9),
    partition_rtol=1e-6,
)
