"""The word graph of a document.

Vertices are a document's candidate words, in the order of their first occurrence; two
words are joined when they stand at most ``window`` places apart in the sequence of
candidate words. Letters: n words, A [n, n] co-occurrence counts, D = diag(row sums of A),
Q = D^-1/2 A D^-1/2, d the damping, B = I - d Q.

Source: Hu (2024), dissertation, sections 1.1 and 1.2. There the graph is made of the
sequence that is left after stop words and rare words are removed, and sentences do not
interrupt it.
"""

from __future__ import annotations

import numpy as np

from vbmodels.core.state import FloatArray, IntArray
from vbmodels.keywords.options import DAMPING, WINDOW


def cooccurrences(
    word: IntArray,
    *,
    window: int = WINDOW,
    group: IntArray | None = None,
) -> tuple[IntArray, IntArray, FloatArray]:
    """Count the pairs of words that stand at most ``window`` places apart (section 1.1).

    Every occurrence counts its neighbours on both sides, so that
    A_ij = sum_{s != t, |s - t| <= window} 1(w_s = i, w_t = j): a word next to itself adds 2
    to A_ii, as a loop adds 2 to a degree.

    Parameters
    ----------
    word
        [T] word numbers in reading order; several documents may follow one another.
    window
        The greatest distance, at least 1.
    group
        [T] numbers of the documents: only words of one group are joined.
        None joins all.

    Returns
    -------
    row, col, count
        [E] the pairs with row <= col, sorted by row, then col, and A[row, col].
    """
    if window < 1:
        raise ValueError(f"window must be at least 1, got {window}")
    span = int(word.max()) + 1 if len(word) else 1
    keys = []
    for distance in range(1, min(window, len(word) - 1) + 1):
        left, right = word[:-distance], word[distance:]
        key = np.minimum(left, right) * span + np.maximum(left, right)
        if group is not None:
            key = key[group[:-distance] == group[distance:]]
        keys.append(key)
    if not keys:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    pairs, count = np.unique(np.concatenate(keys), return_counts=True)
    row, col = np.divmod(pairs, span)
    return row, col, np.where(row == col, 2.0 * count, count)


def normalised(a: FloatArray) -> FloatArray:
    """Return Q = D^-1/2 A D^-1/2 [n, n] (section 1.1); zero for an isolated word."""
    degree = a.sum(axis=1)
    root = np.sqrt(np.where(degree > 0, degree, 1.0))
    return a / np.multiply.outer(root, root)


def system_matrix(a: FloatArray, damping: float = DAMPING) -> FloatArray:
    """Return B = I - d Q [n, n] (below eq 1.2), symmetric, eigenvalues in [1 - d, 1 + d].

    Raises
    ------
    ValueError
        If the damping is not inside (0, 1).
    """
    if not 0.0 < damping < 1.0:
        raise ValueError(f"damping must lie strictly between 0 and 1, got {damping}")
    b = normalised(a)
    b *= -damping
    b.flat[:: len(b) + 1] += 1.0
    return b
