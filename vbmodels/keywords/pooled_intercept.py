"""Keywords with a document's own intercept a_d integrated out.

With q(alpha_d) and q(z) following, the labels of a document leave

    p(a_d | y) ~ N(a_d; 0, 1/tau) exp B_d(a_d),
    B_d(a) = sum_i ln Z_i + k_d E ln(1 - alpha_d) - KL(alpha_d),

and a word is a keyword with probability int r_i(a) p(a | y) da. Where a_d stands at its mode
instead, a short document counts as sure of a level that it hardly knows. The integral is
Gauss and Hermite's about the mode, with the width of the bound's curvature there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbmodels.core.expfam import Beta
from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.keywords.labels import (
    LatentImportance,
    latent_importance,
    log_tails,
    per_document,
    settle_detection,
)

NODES = 21


@dataclass(frozen=True)
class Labelled:
    """What a partition's labels say at given predictors: [W] y; [D + 1] offsets; [D] the rest.

    ``prior_a`` and ``prior_b`` are those of the prior of alpha_d, ``log_c`` where to start.
    """

    y: BoolArray
    offsets: IntArray
    complete: BoolArray
    prior_a: FloatArray
    prior_b: FloatArray
    log_c: FloatArray

    def settle(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log c [D] with q(alpha_d) at its optimum, and B_d [D], at predictors eta [W]."""
        sizes, open_ = np.diff(self.offsets), ~self.complete
        listed = per_document(self.y.astype(float), self.offsets)
        b = self.prior_b + listed
        prior = Beta(self.prior_a, self.prior_b)
        start = np.where(open_, self.log_c, Beta(self.prior_a, b).mean_log)
        above, below = log_tails(eta)
        log_c, missed = settle_detection(
            above - below, ~self.y & np.repeat(open_, sizes), self.offsets, self.prior_a, b, start
        )
        log_c = np.where(open_, log_c, -np.inf)
        alpha = Beta(missed, b)
        bound = per_document(self.latent(eta, log_c).log_norm, self.offsets)
        bound += np.where(open_, listed * alpha.mean_log1m - alpha.kl(prior), 0.0)
        return log_c, bound

    def latent(self, eta: FloatArray, log_c: FloatArray) -> LatentImportance:
        """Return q(z) at these predictors and each document's log c [D]."""
        return latent_importance(eta, self.y, np.repeat(log_c, np.diff(self.offsets)))


def integrated(
    labelled: Labelled,
    eta: FloatArray,
    spread: FloatArray | float,
    mode: FloatArray,
    width: FloatArray,
    tau: float,
) -> FloatArray:
    """Return P(keyword) [W] with a_d integrated out.

    Parameters
    ----------
    eta
        [W] predictors at the mode of a_d.
    spread
        [W] sqrt(1 + x'C x), which integrates w out; 1 leaves w as it is.
    mode, width
        [D] of p(a_d | y).
    tau
        Precision of a_d.
    """
    sizes = np.diff(labelled.offsets)
    top = labelled.settle(eta)[1] - 0.5 * tau * mode**2
    total, keyword = np.zeros(len(mode)), np.zeros(len(eta))
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    for node, weight in zip(nodes, weights, strict=True):
        a = mode + width * node
        at = eta + np.repeat(width * node, sizes)
        log_c, bound = labelled.settle(at)
        gain = bound - 0.5 * tau * a**2 - top
        # Above zero only where the mode has not settled; the cap keeps the sums finite.
        mass = weight * np.exp(np.minimum(0.5 * node**2 + gain, 300.0))
        total += mass
        keyword += np.repeat(mass, sizes) * labelled.latent(at / spread, log_c).keyword
    share: FloatArray = keyword / np.repeat(total, sizes)
    return np.where(labelled.y, 1.0, share)
