"""The papers' test: the posterior probability that the case's rate exceeds the control's.

At tau = 0 there is no point null: at a site without a variant P is uniform, so the rule
P > 1 - alpha has specificity 1 - alpha only, and with 14 variants in 400 sites about half
the calls are false. tau > 0 (5e-4, say) or Benjamini-Hochberg on 1 - P mends that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaincc, betaincinv

from vbmodels.expfam.beta import Beta
from vbmodels.state import FloatArray
from vbmodels.variants.calls import benjamini_hochberg
from vbmodels.variants.rvd2.model import Local
from vbmodels.variants.rvd2.objective import beta_nodes


@dataclass(frozen=True)
class Difference:
    """The comparison of two samples, [J] each.

    Attributes
    ----------
    gain, loss
        P(mu_case - mu_control > tau), P(mu_control - mu_case > tau).
    probability
        The one that decides: gain, or the larger of both where either sign counts.
    q_value
        Benjamini-Hochberg on 1 - probability (doubled where either sign counts).
    """

    gain: FloatArray
    loss: FloatArray
    probability: FloatArray
    q_value: FloatArray


def exceedance(case: Beta, control: Beta, tau: float, size: int = 96) -> FloatArray:
    """Return P(X - Y > tau), X ~ case, Y ~ control, by quadrature over Y; [J]."""
    l1, _, weight = beta_nodes(np.asarray(control.a), np.asarray(control.b), size)
    above = np.clip(np.exp(l1) + tau, 0.0, 1.0)
    tail = betaincc(np.asarray(case.a)[:, None], np.asarray(case.b)[:, None], above)
    return np.asarray(np.clip((weight * tail).sum(axis=1), 0.0, 1.0))


def compare(case: Local, control: Local, tau: float = 0.0, either_sign: bool = False) -> Difference:
    """Return the comparison of two fits of `model.RVD2`.

    Parameters
    ----------
    case, control
        The local parameters of the two samples, over the same locations.
    tau
        Least difference that counts.
    either_sign
        Whether a loss counts too (the papers' somatic test).
    """
    x, y = Beta(case.delta, case.gamma), Beta(control.delta, control.gamma)
    gain, loss = exceedance(x, y, tau), exceedance(y, x, tau)
    probability = np.maximum(gain, loss) if either_sign else gain
    tail = np.minimum((1.0 - probability) * (2.0 if either_sign else 1.0), 1.0)
    return Difference(gain, loss, probability, benjamini_hochberg(tail))


def germline(case: Local, tau: float = 0.05) -> FloatArray:
    """Return P(mu_case > tau), the papers' test without a control; [J]."""
    return np.asarray(betaincc(case.delta, case.gamma, tau))


def interval(local: Local, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
    """Return the central interval of q(mu_j); [J] each."""
    tail = 0.5 * (1.0 - level)
    low = betaincinv(local.delta, local.gamma, tail)
    high = 1.0 - betaincinv(local.gamma, local.delta, tail)
    return np.asarray(low), np.asarray(high)
