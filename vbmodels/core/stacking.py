"""Weights of a mixture of predictions, by the probability that each gives what it has not seen.

    argmax_w sum_i log sum_k w_k p_ik + (a - 1) sum_k log w_k,   w on the simplex

by EM (stacking of predictive densities: Yao, Vehtari, Simpson and Gelman 2018; here with a
Dirichlet(a) prior, a = 1.2, which keeps every member a little). A step needs sums alone:

    t_k = sum_i w_k p_ik / sum_l w_l p_il,    w_k <- (t_k + a - 1) / (n + K (a - 1))
"""

from __future__ import annotations

from vbmodels.core.state import FloatArray

CONCENTRATION = 1.2


def moved_weights(taken: FloatArray, n: float) -> FloatArray:
    """Return the weights [K] after a step.

    Parameters
    ----------
    taken
        t, the sums of each member's responsibilities, [K].
    n
        How many predictions were summed over.
    """
    added = CONCENTRATION - 1.0
    weights: FloatArray = (taken + added) / (n + len(taken) * added)
    return weights
