"""The row of the multinomial form of Ruiz et al."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import expit, log_softmax

from reproduce.ibp_images import matched_f1, simulate_images
from tests.contract import ends
from tests.contract.ibp_definition import ALPHA, LEVELS, TINY_LEVELS, K, broken, nu_of
from tests.feature_tables import split_rows
from vbmodels.core.fit import fit
from vbmodels.core.state import BoolArray, FloatArray
from vbmodels.features.multinomial import TextGlobal, TextIBP, TextLocal
from vbmodels.features.table import FeatureBatch, feature_batch, simulate_table
from vbmodels.testing.case import (
    EVERY,
    Case,
    Coordinates,
    Extremes,
    GlobalStep,
    LocalStep,
    MonteCarlo,
    Recovery,
)

SIGMA2 = 0.8


def batches(seed: int, parts: int) -> list[FeatureBatch]:
    rng = np.random.default_rng(seed)
    codes, _, _ = simulate_table(rng, 60, LEVELS, np.array([0.4, 0.3]), missing=0.05)
    return split_rows(codes, LEVELS, parts)


def tiny(seed: int) -> list[FeatureBatch]:
    rng = np.random.default_rng([seed, 1])
    codes, _, _ = simulate_table(rng, 3, TINY_LEVELS, np.array([0.5, 0.5]))
    codes[0, 1] = -1
    return [feature_batch(part, TINY_LEVELS, grouped=False) for part in (codes[:1], codes[1:])]


class Hooks:
    """The definition of its bound, for two columns of two and three categories."""

    free: BoolArray = np.array([False, True, False, True, True])
    sd = float(np.sqrt(2.0 * SIGMA2))

    def model(self) -> TextIBP:
        return TextIBP(K, alpha=ALPHA, sigma2=SIGMA2)

    def to_vector(self, q: TextGlobal) -> FloatArray:
        own = self.free
        parts = [q.phi[own], q.log_variance[own], np.log(q.tau)]
        return np.concatenate([p.ravel() for p in parts])

    def from_vector(self, q: TextGlobal, vector: FloatArray) -> TextGlobal:
        own = self.free
        n = int(own.sum()) * (K + 1)
        phi, spread, tau = np.split(vector, [n, 2 * n])
        new_phi, new_spread = q.phi.copy(), q.log_variance.copy()
        new_phi[own], new_spread[own] = phi.reshape(-1, K + 1), spread.reshape(-1, K + 1)
        return replace(q, phi=new_phi, log_variance=new_spread, tau=np.exp(tau).reshape(K, 2))

    def sample(
        self,
        q: TextGlobal,
        batches: Sequence[FeatureBatch],
        locals_: Sequence[TextLocal],
        rng: np.random.Generator,
        size: int,
    ) -> dict[str, Any]:
        nu, lam = nu_of(locals_), broken(q)
        w = q.phi + np.exp(0.5 * q.log_variance) * rng.standard_normal((size, *q.phi.shape))
        return {
            "v": np.stack([rng.beta(*t, size) for t in q.tau], 1),
            "w": np.where(self.free[:, None], w, 0.0),
            "z": rng.random((size, *nu.shape)) < nu,
            "y": np.stack([rng.choice(K, (size, len(nu)), p=row) for row in lam], 2),
        }

    def log_q(
        self,
        draws: dict[str, Any],
        q: TextGlobal,
        batches: Sequence[FeatureBatch],
        locals_: Sequence[TextLocal],
    ) -> FloatArray:
        nu, lam = nu_of(locals_), broken(q)
        total = sum(stats.beta(*t).logpdf(draws["v"][:, k]) for k, t in enumerate(q.tau))
        sd = np.exp(0.5 * q.log_variance)
        total += stats.norm(q.phi, sd).logpdf(draws["w"])[:, self.free].sum((1, 2))
        total += stats.bernoulli.logpmf(draws["z"], nu).sum((1, 2))
        with np.errstate(divide="ignore"):
            log_break = np.log(lam)[np.arange(K), draws["y"]]
        return total + np.where(draws["z"], 0.0, log_break).sum((1, 2))

    def log_joint(self, draws: dict[str, Any], batches: Sequence[FeatureBatch]) -> FloatArray:
        v, z, w = draws["v"], draws["z"], draws["w"]
        total = stats.beta(ALPHA, 1).logpdf(v).sum(1)
        total += stats.norm(0, self.sd).logpdf(w)[:, self.free].sum((1, 2))
        log_v = np.log(v)
        for k in range(K):
            on = log_v[:, : k + 1].sum(1)[:, None]
            breaks = np.stack([np.log1p(-v[:, i]) + log_v[:, :i].sum(1) for i in range(k + 1)], 1)
            off = np.take_along_axis(breaks, np.minimum(draws["y"][:, :, k], k), 1)
            total += np.where(z[:, :, k], on, off).sum(1)
        codes = np.concatenate([b.codes[b.row_of] for b in batches])
        for n, row in enumerate(codes.tolist()):
            first = 0
            for code, r in zip(row, TINY_LEVELS.tolist(), strict=True):
                block = w[:, first : first + r]
                if code >= 0:
                    psi = block[:, :, 0] + (block[:, :, 1:] * z[:, n, None, :]).sum(2)
                    total += log_softmax(psi, axis=1)[:, code]
                first += r
        return total


def recovery_error(seed: int) -> float:
    """1 - F1 of the text's images (section 5.1), with exactly four features or 1."""
    codes, z = simulate_images(np.random.default_rng(seed))
    batch = feature_batch(codes, np.full(36, 2))
    done = fit(TextIBP(8, alpha=0.5), [batch], seed=seed, tol=1e-6, max_iter=2000)
    on = done.reduce.local_states(done.iterations - 1)[0].nu[batch.row_of] > 0.5
    used = on[:, (on.mean(0) > 0.02) & (on.mean(0) < 0.98)]
    return 1.0 - matched_f1(used, z) if used.shape[1] == 4 else 1.0


HOOKS = Hooks()
CASE = Case(
    name="ibp multinomial",
    calibration="Not a default; its weights are set by Polya-Gamma, whose row answers.",
    model=HOOKS.model,
    batches=batches,
    tiny=tiny,
    extremes=Extremes(
        tables=ends.tables_of_features,
        empty=ends.no_features,
        plain="it has no compiled loops: NumPy is all",
    ),
    agreement="New rows are scored by the Polya-Gamma form, whose row checks them.",
    global_step=GlobalStep(
        coordinates=Coordinates(to_vector=HOOKS.to_vector, from_vector=HOOKS.from_vector),
        at="fixed_point",
        max_iter=4000,
        tolerance=1e-4,
    ),
    local_step=LocalStep(
        coordinates=Coordinates(
            to_vector=lambda local: (np.log(local.nu) - np.log1p(-local.nu)).ravel(),
            from_vector=lambda local, x: TextLocal(expit(x).reshape(local.nu.shape)),
        ),
        repeats=300,
    ),
    monte_carlo=MonteCarlo(
        sample=HOOKS.sample, log_joint=HOOKS.log_joint, log_q=HOOKS.log_q, relation="below"
    ),
    evidence="A column of three categories needs a quadrature in nine dimensions; the bound "
    "lies below its definition, which lies below the evidence.",
    sampler="the package has no sampler of it; its definition and both steps are compared",
    recovery=Recovery(error=recovery_error, tolerance=0.45, seeds=(0, 1, 2, 3)),
    thorough=EVERY,
)
