"""Shifts of the error rates by substitution and by its context, the bases before and behind it.

Oxidation and deamination strike in some trinucleotides more than in others. With t one of the 12
substitutions and c the two bases around it, the difference between case and control is

    b_tc ~ N(b_t, s^2),   b_t ~ N(b_0, s_b^2),

so that a context which is seen at few locations has the shift of its substitution. s is not
learned: at the joint maximum over the shifts and s it would go to 0 whatever the data are, as the
density of the shifts grows without bound there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vbmodels.core.state import FloatArray, IntArray
from vbmodels.variants.counts import BASES

UNKNOWN = 16  # a location of which one neighbour is not known, or is none of A, C, G, T
N_CONTEXTS = 17
CONTEXT_SD = 0.5


def contexts(before: IntArray, after: IntArray) -> IntArray:
    """Return 4 before + after of the bases next to locations, [J]; 16 where one is below 0.

    >>> contexts(np.array([0, 3, 3]), np.array([1, 3, -1])).tolist()
    [1, 15, 16]
    """
    return np.where((before >= 0) & (after >= 0), 4 * before + after, UNKNOWN).astype(np.int64)


def names_of_contexts() -> list[str]:
    """Return their names, by substitution and then by context.

    >>> names_of_contexts()[:2], names_of_contexts()[16]
    (['A[A>C]A', 'A[A>C]C'], 'N[A>C]N')
    """
    pairs = [(left, right) for left in BASES for right in BASES] + [("N", "N")]
    return [
        f"{left}[{ref}>{alt}]{right}"
        for ref in BASES
        for alt in BASES
        if alt != ref
        for left, right in pairs
    ]


class Nested(NamedTuple):
    """Shifts by context and their means.

    Attributes
    ----------
    of_context
        [T, C] b_tc.
    shift
        [T] b_t.
    """

    of_context: FloatArray
    shift: FloatArray


def nested_step(
    current: FloatArray, score: FloatArray, information: FloatArray, mean: float, sd: float
) -> Nested:
    """Return the joint maximum over b_tc and b_t of a quadratic in b_tc with its priors.

    Given b_t, the maximum over b_tc is a_c + k_c b_t with k_c = 1 / (1 + I_c s^2) and
    a_c = (1 - k_c) b_tc + k_c s^2 g_c; what is left is quadratic in b_t, of information
    sum_c (1 - k_c) / s^2 + 1 / s_b^2.

    Parameters
    ----------
    at, score, information
        [T, C] b_tc, the slope g there, and the curvature I >= 0.
    mean, sd
        b_0 and s_b.
    """
    square = CONTEXT_SD**2
    prior_weight = 1.0 / (1.0 + information * square)
    target = (1.0 - prior_weight) * current + prior_weight * square * score
    precision = (1.0 - prior_weight).sum(axis=1) / square + 1.0 / sd**2
    shift = (target.sum(axis=1) / square + mean / sd**2) / precision
    return Nested(target + prior_weight * shift[:, None], shift)
