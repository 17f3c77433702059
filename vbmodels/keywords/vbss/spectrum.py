"""The word graph of a document in its own axes: one eigendecomposition, no inverse.

Letters: A [n, n] co-occurrence counts, D its degrees, Q = D^-1/2 A D^-1/2 (symmetric),
d the damping, B = I - d Q = V diag(beta) V', P = U^-1 = B'B = V diag(beta^2) V'.
The eigenvalues of Q lie in [-1, 1], so beta lies in [1 - d, 1 + d] and U exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from vbmodels.core.state import FloatArray, IntArray, Memory
from vbmodels.keywords.graph import system_matrix
from vbmodels.keywords.units import KeywordBatch

BLOCK_NUMBERS = 1 << 22
"""Eigenvector entries of one block of documents (32 MiB), where its documents allow it."""

KEPT_BYTES = 1 << 30
"""Bytes of eigenvectors that a process keeps; what exceeds it is made again at every use."""
_KEPT: Memory[dict[int, Spectrum]] = Memory()


@dataclass(frozen=True)
class Spectrum:
    """The spectral form of consecutive documents' graphs.

    Parameters
    ----------
    first, last
        Documents ``first`` to ``last - 1`` of the batch.
    vectors
        [sum n_d^2] V of each document, row after row, document after document.
    vector_offsets
        [D + 1] where each document's V begins.
    values
        [W] beta, rising within a document.
    labels
        [W] V' y / beta: B^-1 y in the document's axes.
    p_diag
        [W] the diagonal of P.
    """

    first: int
    last: int
    vectors: FloatArray
    vector_offsets: IntArray
    values: FloatArray
    labels: FloatArray
    p_diag: FloatArray

    def axes(self, d: int, n: int) -> FloatArray:
        """Return V [n, n] of document ``first + d``, which has n words."""
        return self.vectors[self.vector_offsets[d] : self.vector_offsets[d + 1]].reshape(n, n)


def decompose(a: FloatArray, damping: float) -> tuple[FloatArray, FloatArray]:
    """Return beta [n] and V [n, n] of B = I - d Q; chapter 1, below eq. (1.2)."""
    beta, v = eigh(system_matrix(a, damping), overwrite_a=True, check_finite=False)
    return beta, np.ascontiguousarray(v)


def spectra(batch: KeywordBatch, damping: float) -> Iterator[Spectrum]:
    """Yield the spectra of all documents in blocks, kept for as long as the batch lives.

    A spectrum is a pure function of the batch: whether it was kept or is made again
    changes no bit.
    """
    kept = _KEPT.of(batch, str(damping).encode(), dict)
    for number, (first, last) in enumerate(_blocks(batch.sizes)):
        found = kept.get(number)
        if found is None:
            found = _spectrum(batch, first, last, damping)
            every = [one for _, part in [*_KEPT.kept.values()] for one in [*part.values()]]
            if sum(one.vectors.nbytes for one in [*every, found]) <= KEPT_BYTES:
                kept[number] = found
        yield found


def _blocks(sizes: IntArray) -> list[tuple[int, int]]:
    blocks, first, numbers = [], 0, 0
    for d, n in enumerate(sizes.tolist()):
        if d > first and numbers + n * n > BLOCK_NUMBERS:
            blocks.append((first, d))
            first, numbers = d, 0
        numbers += n * n
    if len(sizes):
        blocks.append((first, len(sizes)))
    return blocks


def _spectrum(batch: KeywordBatch, first: int, last: int, damping: float) -> Spectrum:
    sizes = batch.sizes[first:last]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    vector_offsets = np.concatenate([[0], np.cumsum(sizes**2)])
    vectors = np.empty(vector_offsets[-1])
    values, labels, p_diag = np.empty((3, starts[-1]))
    for d in range(last - first):
        words = slice(starts[d], starts[d + 1])
        beta, v = decompose(batch.adjacency(first + d), damping)
        vectors[vector_offsets[d] : vector_offsets[d + 1]] = v.ravel()
        values[words] = beta
        labels[words] = v.T @ batch.y[batch.words(first + d)].astype(float) / beta
        p_diag[words] = v**2 @ beta**2
    return Spectrum(first, last, vectors, vector_offsets, values, labels, p_diag)
