"""Documents one at a time or many at once, without a run: a direct fit, SS, equal shares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.keywords.graph import system_matrix
from vbmodels.keywords.options import DAMPING
from vbmodels.keywords.selection import word_ranks
from vbmodels.keywords.units import KeywordBatch
from vbmodels.keywords.vbss.coordinate_ascent import Factors
from vbmodels.keywords.vbss.model import VBSS


@dataclass(frozen=True)
class DocumentFit:
    """What a fit of separate documents leaves: r [W], each document's bound [D], and q."""

    probability: FloatArray
    bound: FloatArray
    local: Factors


def documents(batch: KeywordBatch) -> Iterator[tuple[BoolArray, FloatArray]]:
    """Yield (y [n_d], A [n_d, n_d]) of every document in turn."""
    for d in range(batch.n_documents):
        yield batch.y[batch.words(d)], batch.adjacency(d)


def fit_documents(
    batch: KeywordBatch, model: VBSS | None = None, max_sweeps: int = 2000
) -> DocumentFit:
    """Fit every document of a batch, each until it has settled or ``max_sweeps`` are done."""
    model = model or VBSS()
    q = model.init(model.observe(batch), np.random.default_rng(0))
    local = model.local_step(q, batch, None)
    done = model.sweeps
    while done < max_sweeps and not local.settled.all():
        local = model.local_step(q, batch, local)
        done += model.sweeps
    bound = model.document_bounds(batch, local)
    return DocumentFit(model.probabilities(q, batch, local), bound, local)


def take_documents(batch: KeywordBatch, first: int, last: int) -> KeywordBatch:
    """Return the documents from ``first`` to the one before ``last``."""
    words = slice(int(batch.offsets[first]), int(batch.offsets[last]))
    pairs = slice(int(batch.edge_offsets[first]), int(batch.edge_offsets[last]))
    return KeywordBatch(
        x=batch.x[words],
        y=batch.y[words],
        offsets=batch.offsets[first : last + 1] - batch.offsets[first],
        fold=batch.fold[first:last],
        complete=batch.complete[first:last],
        edge_row=batch.edge_row[pairs],
        edge_col=batch.edge_col[pairs],
        edge_count=batch.edge_count[pairs],
        edge_offsets=batch.edge_offsets[first : last + 1] - batch.edge_offsets[first],
        unlabelled=None if batch.unlabelled is None else batch.unlabelled[first:last],
    )


def ss(a: FloatArray, y: BoolArray, damping: float = DAMPING) -> FloatArray:
    """Score words by the semi-supervised SS [n]: theta0 = (1 - d) B^-1 y.

    An isolated word that is not observed scores 0. Hu (2024), sections 1.1 and 1.2, after Li et al.
    """
    if not len(a):
        return np.zeros(0)
    solved = cho_solve(cho_factor(system_matrix(a, damping)), y.astype(np.float64))
    return np.asarray((1.0 - damping) * solved)


def select_share(
    score: FloatArray, observed: BoolArray, offsets: IntArray, share: float
) -> BoolArray:
    """Select the same share of every document's words, observed ones first.

    A document of n words and k observed ones gets max(k, round(n * share)) of them: the k
    and the best of the others (dissertation, section 1.4.1, "approximately the same
    number" for methods without probabilities). Ties go to the word that comes first.

    Parameters
    ----------
    score
        [W] the larger, the likelier a keyword; any scale.
    observed
        [W] the known keywords.
    offsets
        [D + 1] the documents' first rows.
    share
        The share of each document's candidate words, 0 to 1.

    Examples
    --------
    >>> score = np.array([0.1, 3.0, 2.0, -1.0])
    >>> select_share(score, np.array([False, False, False, True]), np.array([0, 4]), 0.5)
    array([False,  True, False,  True])
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"the share of words must lie between 0 and 1, found {share}")
    rank = word_ranks(np.where(observed, np.inf, score), offsets)
    sizes = np.diff(offsets)
    wanted = np.floor(sizes * share + 0.5)
    return (rank <= np.repeat(wanted, sizes)) | observed


def textrank(a: FloatArray, damping: float = DAMPING) -> FloatArray:
    """Score words by TextRank [n]: theta = (1 - d) 1 + d G' theta with G = D^-1 A.

    Since G' = D^1/2 Q D^-1/2, theta = (1 - d) D^1/2 B^-1 D^-1/2 1: exact, no iteration. An
    isolated word scores 1 - d. Hu (2024), section 1.1.
    """
    if not len(a):
        return np.zeros(0)
    degree = a.sum(axis=1)
    root = np.sqrt(np.where(degree > 0, degree, 1.0))
    solved = cho_solve(cho_factor(system_matrix(a, damping)), 1.0 / root)
    return np.asarray((1.0 - damping) * root * solved)
