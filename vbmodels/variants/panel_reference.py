"""The likelihood of a panel at a site's rate, and what it says of its members: NumPy.

Sample p of a panel has the rate x_p = x + b_pt + d_p, d_p ~ N(0, tau^2), around the site's x. With
a probability eps it carries the allele itself, and then its rate is drawn from g, whatever x is:

    L_panel(x) = prod_p [(1 - eps) E L_p(x + b_pt + tau u) + eps int L_p g],   u ~ N(0, 1).

A control of the case's own person has an eps of 1e-7: what it carries the case carries too. Beside
one,
there is a probability that the allele is one that people carry, a share f of them, f unknown, and
then the members say nothing of x; else a large panel would outweigh a control of few reads:

    L = L_control(x) [(1 - eps) prod_p [...] + eps E_f prod_p [f int L_p g + (1 - f) int L_p h]],

h = Beta(.5, 2500) the rates of errors, wherever they are, f on nine values alike.

Given x the members are independent, so the moments of a sum over them are closed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.variants import quadrature
from vbmodels.variants.batch_null_reference import near_moments

SHARES = (0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
ERRORS = (0.5, 2500.0)  # of h
_FLOOR = 1e-290


class Panel(NamedTuple):
    """Likelihoods of a panel's members, each on nodes of its own.

    Attributes
    ----------
    x, log_member
        [U, P, Q, K'] nodes of x_p and log L_p there.
    carried
        [U, P, Q] log int L_p g.
    seen
        [U, P] whether the member has reads.
    log_people
        [U, Q] log likelihood of the panel where the allele is one that people carry.
    """

    x: FloatArray
    log_member: FloatArray
    carried: FloatArray
    seen: BoolArray
    log_people: FloatArray


class Under(NamedTuple):
    """The parameters that the members' rates have.

    Attributes
    ----------
    shift
        [P, 12] b_pt.
    tau
        Sd of the differences between sites.
    eps
        [P] probability that the member carries an allele.
    common
        Probability that the allele is one that people carry.
    matched
        How many members, the first ones, are of the case's own person.
    """

    shift: FloatArray
    tau: float
    eps: FloatArray
    common: float
    matched: int


def carry(
    x: FloatArray, log_weight: FloatArray, log_member: FloatArray, alternatives: FloatArray,
    carried: FloatArray,
) -> None:  # fmt: skip
    """Fill log int L_p g [U, Q] for one member, g the sum of the alternatives.

    ``alternatives`` is [n_alt, 4]: a, b, log B(a, b) and the log weight of a Beta.
    """
    lmu, lnu = quadrature.log_mu(x)
    parts = [a * lmu + b * lnu - beta + rho for a, b, beta, rho in alternatives]
    carried[:] = logsumexp(logsumexp(parts, axis=0) + log_weight + log_member, axis=-1)


def people(carried: FloatArray, erring: FloatArray, seen: BoolArray) -> FloatArray:
    """Return log E_f prod_p [f int L_p g + (1 - f) int L_p h], [U, Q].

    Parameters
    ----------
    carried, erring
        [U, P, Q] log int L_p g and log int L_p h.
    seen
        [U, P] whether the member has reads.
    """
    found = []
    for f in SHARES:
        both = np.logaddexp(np.log(f) + carried, np.log1p(-f) + erring)
        found.append(np.where(seen[..., None], both, 0.0).sum(axis=1))
    return np.asarray(logsumexp(found, axis=0) - np.log(len(SHARES)))


def _near(
    x: FloatArray, kind: IntArray, panel: Panel, under: Under, p: int
) -> tuple[list[FloatArray], FloatArray]:
    """Return E[u^i L_p e^-top], [U, Q, K] for i = 0 .. 4, and top [U, Q, 1]."""
    top = panel.log_member[:, p].max(axis=-1, keepdims=True)
    values = np.exp(panel.log_member[:, p] - top)
    centre = x + under.shift[p][kind][:, None, None]
    return near_moments(panel.x[:, p], centre, under.tau, values), top


def combine(
    x: FloatArray, kind: IntArray, panel: Panel, under: Under, log_panel: FloatArray
) -> None:
    """Fill log L_panel at the nodes x of the site's rate, [U, Q, K]."""
    told, others = np.zeros_like(x), np.zeros_like(x)
    for p, eps in enumerate(under.eps):
        seen = panel.seen[:, p]
        moments, top = _near(x, kind, panel, under, p)
        value = top + np.log(np.maximum(moments[0], _FLOOR))
        if eps > 0.0:
            lost = panel.carried[:, p]
            value = np.logaddexp(np.log1p(-eps) + value, np.log(eps) + lost[..., None])
        into = others if p < under.matched else told
        into += np.where(seen[:, None, None], value, 0.0)
    if under.common > 0.0:
        told = np.logaddexp(
            np.log1p(-under.common) + told, np.log(under.common) + panel.log_people[..., None]
        )
    log_panel[:] = told + others


def add_members(
    x: FloatArray, kind: IntArray, panel: Panel, under: Under, probability: FloatArray,
    sums: FloatArray, spread: FloatArray,
) -> None:  # fmt: skip
    """Add to ``sums`` [P, 12, 3] and to ``spread`` [2] what the members say.

    By member and type: expected units whose member does not carry the allele, score and observed
    information in b_pt (Louis 1982); score and information in log tau. With a_p = z_p (u_p^2 - 1)
    and S = sum_p a_p, the information is 2 sum_p E[z_p u_p^2] - E[S^2] + E[S]^2, where
    E[S^2 | x] = (sum_p E a_p)^2 + sum_p Var a_p. What the members' scores have in common with the
    case's is left out: it makes a step in tau shorter, and the maximum is the same.

    Parameters
    ----------
    x, kind, panel, under
        See `combine`.
    probability
        [U, Q, K] posterior probability of every node of M and x.
    sums, spread
        Added to.
    """
    told = np.zeros_like(x)
    rows = []
    for p, eps in enumerate(under.eps):
        seen = panel.seen[:, p][:, None, None]
        (m0, m1, m2, _, m4), top = _near(x, kind, panel, under, p)
        some = m0 > _FLOOR
        m0, m1, m2, m4 = (np.where(some, m, o) for m, o in
                          ((m0, _FLOOR), (m1, 0.0), (m2, 0.0), (m4, 0.0)))  # fmt: skip
        near = np.where(seen, 1.0, 0.0)
        value = top + np.log(m0)
        if eps > 0.0:
            lost = panel.carried[:, p][..., None]
            whole = np.logaddexp(np.log1p(-eps) + value, np.log(eps) + lost)
            near = near * np.exp(np.log1p(-eps) + value - whole)
            value = whole
        if p >= under.matched:
            told += np.where(seen, value, 0.0)
        rows.append([near, near * m1 / m0, near * (m2 / m0 - 1.0),
                     near * ((m4 - 2.0 * m2) / m0 + 1.0)])  # fmt: skip
    own = np.ones_like(x)
    if under.common > 0.0:
        told += np.log1p(-under.common)
        silent = np.log(under.common) + panel.log_people[..., None]
        own = np.exp(told - np.logaddexp(told, silent))
    free = np.zeros((2, *x.shape)), np.zeros((2, *x.shape))  # means and variances of both kinds
    squares = np.zeros(len(x))
    for p, (near, u1, a, a2) in enumerate(rows):
        carries = int(p >= under.matched)
        weight = probability * (own if carries else 1.0)
        n, s, u2 = ((weight * v).sum(axis=(1, 2)) for v in (near, u1, a + near))
        score = s / under.tau
        information = (n - u2) / under.tau**2 + score**2
        for i, value in enumerate((n, score, information)):
            sums[p, :, i] += np.bincount(kind, value, sums.shape[1])
        squares += u2
        free[carries][0] += a
        free[carries][1] += a2 - a * a
    (b, b_rest), (a, a_rest) = free
    first = (probability * (own * a + b)).sum(axis=(1, 2))
    second = own * ((a + b) ** 2 + a_rest + b_rest) + (1.0 - own) * (b * b + b_rest)
    second = (probability * second).sum(axis=(1, 2))
    spread[0] += first.sum()
    spread[1] += (2.0 * squares - second + first**2).sum()
