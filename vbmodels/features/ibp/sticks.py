"""The truncated stick-breaking prior of the Indian buffet process: v_k ~ Beta(alpha, 1) (eq 2).

The probability of feature k is pi_k = v_1 ... v_k (eqs 1 and 3). The factor 1 - pi_k of
the rows without it is a sum over where the stick broke,

    1 - pi_k = sum_{i <= k} (1 - v_i) prod_{m < i} v_m,

so an index y_nk <= k for each z_nk = 0 makes every v_i conjugate. With q(y_nk = i) = lambda_ki
that is the multinomial bound of Doshi-Velez et al. (2009), eqs 22, 25 and 37 of the text; drawn,
it is an exact Gibbs step.
"""

from __future__ import annotations

import numpy as np
from scipy.special import digamma

from vbmodels.core.expfam import Beta
from vbmodels.core.state import FloatArray

ROUNDS = 3
"""Rounds of tau, lambda and alpha in one global step: each raises the bound, so few will do."""


def log_break_terms(tau: FloatArray) -> FloatArray:
    """E[log((1 - v_i) prod_{m < i} v_m)] under q(v) = Beta(tau); [..., K]."""
    used, rest, total = digamma(tau[..., 0]), digamma(tau[..., 1]), digamma(tau.sum(-1))
    return np.asarray(rest + np.cumsum(used, axis=-1) - used - np.cumsum(total, axis=-1))


def mean_log_on(tau: FloatArray) -> FloatArray:
    """E[log pi_k] = sum_{i <= k} E[log v_i] (eq 35); [K]."""
    return np.cumsum(Beta(tau[:, 0], tau[:, 1]).mean_log)


def bound_log_off(tau: FloatArray) -> FloatArray:
    """Bound of E[log(1 - pi_k)] (eq 36), best lambda: log sum_{i <= k} exp(terms); [K]."""
    return np.logaddexp.accumulate(log_break_terms(tau))


def expected_breaks(off: FloatArray, terms: FloatArray) -> FloatArray:
    """Return for how many rows each stick breaks, sum_k off_k lambda_ki (eq 25); [..., K].

    lambda_ki is exp(terms_i) over the sum of those of the first k, of which none underflows: the
    first of `log_break_terms` is no less than -log of the rows.
    """
    weights = np.exp(terms)
    share = off / np.cumsum(weights, axis=-1)
    return np.asarray(weights * np.cumsum(share[..., ::-1], axis=-1)[..., ::-1])


def stick_parameters(on: FloatArray, broken: FloatArray, alpha: float) -> FloatArray:
    """Return the Beta parameters of each stick, eq 22; [..., K, 2].

    A stick is whole for the rows with a feature from there on, and for those that break later.

    Parameters
    ----------
    on
        [..., K] rows with each feature.
    broken
        [..., K] how often each stick broke for rows without a feature.
    alpha
        Concentration.
    """
    whole = np.cumsum((on + broken)[..., ::-1], axis=-1)[..., ::-1] - broken
    return np.stack([alpha + whole, 1.0 + broken], axis=-1)


def fit_sticks(
    on: FloatArray,
    n_rows: float,
    alpha: float,
    tau: FloatArray,
    *,
    learn_alpha: bool,
    rounds: int = ROUNDS,
) -> tuple[FloatArray, float]:
    """Raise the bound over tau (eq 22), lambda (eq 25) and, if it is learned, alpha, in turn.

    alpha has a Gamma(1, 1) prior and stays a point, the mode of log alpha:
    alpha = (K + 1) / (1 - sum_k E[log v_k]). The mode of alpha itself would fall to 0 with the
    sticks where the data support no feature.

    Parameters
    ----------
    on
        [K] expected rows with each feature.
    n_rows
        N.
    alpha, tau
        Where to start; tau is [K, 2].
    learn_alpha
        Whether alpha moves.
    rounds
        Most rounds; fewer are made where nothing moves.
    """
    off = n_rows - on
    for _ in range(rounds):
        if learn_alpha:
            alpha = (len(on) + 1.0) / (1.0 - float(Beta(tau[:, 0], tau[:, 1]).mean_log.sum()))
        new = stick_parameters(on, expected_breaks(off, log_break_terms(tau)), alpha)
        moved = np.max(np.abs(new - tau) / new, initial=0.0)
        tau = new
        if moved < 1e-13:
            break
    return tau, alpha


def stick_bound(
    on: FloatArray, n_rows: float, alpha: float, tau: FloatArray, *, learn_alpha: bool
) -> float:
    """E log p(z | v) - KL(q(v) || p(v)) (eqs 32, 35, 37, 42), log prior of log alpha if learned."""
    q, prior = Beta(tau[:, 0], tau[:, 1]), Beta(np.full(len(tau), alpha), np.ones(len(tau)))
    value = on @ mean_log_on(tau) + (n_rows - on) @ bound_log_off(tau) - q.kl(prior).sum()
    return float(value) + (float(np.log(alpha)) - alpha if learn_alpha else 0.0)


def best_sticks(
    on: FloatArray, n_rows: float, alpha: float, rounds: int = 40
) -> tuple[FloatArray, FloatArray]:
    """Return tau [B, K, 2] and `stick_bound` [B] at their best for several sets of counts.

    The rounds of `fit_sticks` are made for all sets at once, alpha held. They crawl where the
    sticks are far off, so they start where each breaks as its share of the rows says.

    Parameters
    ----------
    on
        [B, K] expected rows with each feature, best in falling order.
    n_rows, alpha
        N and the concentration.
    rounds
        Most rounds.
    """
    share = np.concatenate([np.ones((len(on), 1)), (on + 0.5) / (n_rows + 1.0)], axis=1)
    v = np.clip(share[:, 1:] / share[:, :-1], 1e-9, 1.0 - 1e-9)
    terms = np.log1p(-v) + np.cumsum(np.log(v), axis=1) - np.log(v)
    tau = np.ones((*on.shape, 2))
    for _ in range(rounds):
        new = stick_parameters(on, expected_breaks(n_rows - on, terms), alpha)
        moved = np.max(np.abs(new - tau) / new, initial=0.0)
        tau = new
        if moved < 1e-6:
            break
        terms = log_break_terms(tau)
    values = [
        stick_bound(o, n_rows, alpha, t, learn_alpha=False) for o, t in zip(on, tau, strict=True)
    ]
    return tau, np.array(values)


def draw_sticks(
    on: FloatArray, n_rows: float, alpha: float, v: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Draw v [K] given how many rows have each feature, after drawing where sticks broke."""
    log_v, log_rest = np.log(v), np.log1p(-v)
    terms = log_rest + np.cumsum(log_v) - log_v
    broken, weights = np.zeros(len(v)), np.exp(terms)
    for k, off in enumerate(np.rint(n_rows - on).astype(np.int64).tolist(), 1):
        broken[:k] += rng.multinomial(off, weights[:k] / weights[:k].sum())
    ab = stick_parameters(on, broken, alpha)
    drawn = rng.beta(ab[:, 0], ab[:, 1])
    # A Beta draw may round to 0 or 1, whose logarithms do not exist.
    return np.clip(drawn, 1e-300, 1.0 - 1e-16)
