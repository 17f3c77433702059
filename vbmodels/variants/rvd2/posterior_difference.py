"""The papers' test: the posterior probability that the case's rate exceeds the control's.

At tau = 0 there is no point null: at a site without a variant P is uniform, so the rule
P > 1 - alpha has specificity 1 - alpha only, and with 14 variants in 400 sites about half
the calls are false. tau > 0 (5e-4, say) or Benjamini-Hochberg on 1 - P mends that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betainc, betaincc, betaln

from vbmodels.core.expfam import Beta
from vbmodels.core.state import FloatArray
from vbmodels.variants.quadrature import TAIL, log_mu
from vbmodels.variants.rvd2.model import Local


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


def beta_nodes(
    delta: FloatArray, gamma: FloatArray, size: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return log mu, log(1-mu) and weights of Beta(delta, gamma) on nodes, each [J, size].

    The weights of a location sum to 1: their common rounding would meet F, which is millions
    where counts are, and the bound would waver by 1e-5.

    x = logit mu = log(delta/gamma) + c sinh t, c the sd of x at the mode; the ends lie 18
    nats down the tails exp(delta x) and exp(-gamma x), and 6 sd at least.
    """
    scale = np.sqrt(1.0 / delta + 1.0 / gamma)
    t_low = -np.arcsinh((TAIL / delta) / scale + 6.0)
    t_high = np.arcsinh((TAIL / gamma) / scale + 6.0)
    step = (t_high - t_low) / (size - 1)
    t = t_low[:, None] + step[:, None] * np.arange(size)
    x = np.log(delta / gamma)[:, None] + scale[:, None] * np.sinh(t)
    l1, l2 = log_mu(x)
    log_w = delta[:, None] * l1 + gamma[:, None] * l2 - betaln(delta, gamma)[:, None]
    weights = np.exp(log_w) * (scale * step)[:, None] * np.cosh(t)
    return l1, l2, weights / weights.sum(axis=1, keepdims=True)


def exceedance(case: Beta, control: Beta, tau: float) -> FloatArray:
    """Return P(X - Y > tau), X ~ case, Y ~ control, [J], by quadrature over the narrower one.

    The other's distribution function is then smooth between the nodes.
    """
    x, y = (Beta(np.asarray(rate.a), np.asarray(rate.b)) for rate in (case, control))
    over_y = y.variance <= x.variance
    result = np.empty(over_y.shape)
    for chosen, inner, outer, tail, shift in (
        (over_y, y, x, betaincc, tau),
        (~over_y, x, y, betainc, -tau),
    ):
        l1, _, weight = beta_nodes(inner.a[chosen], inner.b[chosen], 96)
        nodes = np.clip(np.exp(l1) + shift, 0.0, 1.0)
        value = tail(outer.a[chosen][:, None], outer.b[chosen][:, None], nodes)
        result[chosen] = (weight * value).sum(axis=1)
    return np.clip(result, 0.0, 1.0)


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
    from scipy.stats import false_discovery_control  # slow to import

    return Difference(gain, loss, probability, false_discovery_control(tail))


def germline(case: Local, tau: float = 0.05) -> FloatArray:
    """Return P(mu_case > tau), the papers' test without a control; [J]."""
    return np.asarray(betaincc(case.delta, case.gamma, tau))
