"""The prior of words' weights in the probit Gaussian process: R, its factor, or a part of it.

The linear part for text is v x'R x, R_jk = C_jk / (s_j s_k), s_j^2 = C_jj, C = sum x x' (see
`features`). With few words phi is x L, L L' = R. With many, a fit takes time with the square of
the words, though some hundred bags cannot determine so many directions. Then

    R = T T' + (R - T T') ~ T T' + diag(d),    d_j = 1 - |T_j|^2,
    T = S^-1/2 V Lambda^1/2,    S^-1/2 C S^-1/2 = V Lambda V' + the rest,    S = diag(s)

V and Lambda being the ``rank`` leading eigenvectors and values. Over all instances phi = X T has
phi'phi = Lambda^2, its principal values: X S^-1/2 V = U Lambda^1/2, so X T = U Lambda, and of all
maps of that rank it is the one nearest to X L. A word's prior variance stays v (the diagonal of
factor analysis), and what T leaves of it is noise, independent over instances, as in FITC.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import eigsh

from vbmodels.bags.landmarks import single
from vbmodels.bags.mil_gp.kernel import JITTER, KernelOptions
from vbmodels.bags.multilabel import Observed, refuse_words
from vbmodels.core.linalg import cholesky, unpack
from vbmodels.core.state import FloatArray

LEAST = 1e-12
"""Smallest eigenvalue kept, as a share of the largest."""


def words(
    options: KernelOptions, observed: Observed, names: tuple[str, ...], standardise: bool
) -> FloatArray:
    """Return L or T; [0, 0] where the weights of columns are independent.

    Raises
    ------
    ValueError
        If correlated words are requested where the rows are not text, or there are more than
        `MOST_WORDS`.
    """
    text = options.is_text(observed) and not standardise
    if "linear" not in names or options.linear_prior == "independent" or not text:
        if options.linear_prior == "correlated":
            raise ValueError(
                "expected a linear kernel on rows of unit length without negative numbers for "
                "linear_prior 'correlated'; take 'auto' or 'independent'"
            )
        return np.empty((0, 0))
    refuse_words(observed.spread.mean.size)
    products = unpack(observed.products.total)
    length = np.sqrt(np.diag(products))
    seen = length > 0.0
    length = np.where(seen, length, 1.0)
    if names == ("linear",) and options.linear_rank < length.size:
        return leading(products, length, options.linear_rank)
    cosines = single(products / length[:, None] / length)
    np.fill_diagonal(cosines, 1.0 + JITTER)
    return cholesky(cosines, "the cosines between words")


def leading(products: FloatArray, length: FloatArray, rank: int) -> FloatArray:
    """Return T [D, rank] from C [D, D] and s [D].

    C is rounded to single precision, as its sums over partitions differ in their last digits.
    A column of T is as long as its eigenvector says, with its largest entry positive. Lanczos'
    iteration starts at s, so that the same C gives the same T.
    """
    half = np.sqrt(length)
    scaled = single(products / half[:, None] / half)
    values, vectors = eigsh(scaled, k=rank, v0=length)
    kept = np.flatnonzero(values > LEAST * values.max())[::-1]
    turn = vectors[:, kept] * np.sqrt(values[kept]) / half[:, None]
    largest = turn[np.abs(turn).argmax(axis=0), np.arange(kept.size)]
    turn *= np.sign(largest)
    return np.ascontiguousarray(turn)
