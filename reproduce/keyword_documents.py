"""Documents one at a time or many at once, without a run: a batch from graphs, a direct fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import ndtri

from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.keywords.graph import system_matrix
from vbmodels.keywords.options import DAMPING
from vbmodels.keywords.selection import word_ranks
from vbmodels.keywords.units import KeywordBatch
from vbmodels.keywords.vbss.coordinate_ascent import Factors
from vbmodels.keywords.vbss.model import VBSS


def batch_of(documents: Sequence[tuple[BoolArray, FloatArray]]) -> KeywordBatch:
    """Build a batch from each document's labels y [n] and co-occurrence counts [n, n].

    It has the intercept as its only feature, which is all that per-document models need.

    Raises
    ------
    ValueError
        If a document has no words, or its counts are not a symmetric [n, n] matrix of
        numbers that are finite and not negative.
    """
    rows, cols, counts = [], [], []
    for d, (y, a) in enumerate(documents):
        _check(d, y, a)
        row, col = np.nonzero(np.triu(a))
        rows.append(row)
        cols.append(col)
        counts.append(a[row, col])
    sizes = [len(y) for y, _ in documents]
    n_documents, n_words = len(sizes), sum(sizes)
    return KeywordBatch(
        x=np.ones((n_words, 1)),
        y=np.concatenate([np.empty(0, dtype=bool), *(y for y, _ in documents)]),
        offsets=np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]),
        fold=np.zeros(n_documents, dtype=np.int64),
        complete=np.zeros(n_documents, dtype=bool),
        edge_row=np.concatenate([np.empty(0, dtype=np.int64), *rows]),
        edge_col=np.concatenate([np.empty(0, dtype=np.int64), *cols]),
        edge_count=np.concatenate([np.empty(0), *counts]),
        edge_offsets=np.concatenate([[0], np.cumsum([len(r) for r in rows], dtype=np.int64)]),
    )


def _check(d: int, y: BoolArray, a: FloatArray) -> None:
    n = len(y)
    if n == 0:
        raise ValueError(f"document {d} has no words; leave it out")
    if a.shape != (n, n):
        raise ValueError(
            f"document {d} has {n} words; expected {n} x {n} co-occurrence counts, found "
            f"{' x '.join(map(str, a.shape))}"
        )
    if not (np.isfinite(a).all() and (a >= 0.0).all() and (a == a.T).all()):
        raise ValueError(
            f"the co-occurrence counts of document {d} must be finite, not negative and symmetric"
        )


@dataclass(frozen=True)
class DocumentFit:
    """What a fit of separate documents leaves.

    Parameters
    ----------
    probability
        [W] r.
    bound
        [D] each document's bound.
    local
        q.
    sweeps
        Sweeps done.
    converged
        Whether every document has settled.
    """

    probability: FloatArray
    bound: FloatArray
    local: Factors
    sweeps: int
    converged: bool


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
    return DocumentFit(
        probability=model.probabilities(q, batch, local),
        bound=model.document_bounds(batch, local),
        local=local,
        sweeps=done,
        converged=bool(local.settled.all()),
    )


def fit_document(
    y: BoolArray, adjacency: FloatArray, model: VBSS | None = None, max_sweeps: int = 2000
) -> DocumentFit:
    """Fit one document from its labels y [n] and its co-occurrence counts [n, n].

    Raises
    ------
    ValueError
        See `batch_of`.

    Examples
    --------
    >>> a = np.array([[0.0, 2.0, 1.0], [2.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    >>> fit = fit_document(np.array([True, False, False]), a)
    >>> bool(fit.probability[1] > fit.probability[2])
    True
    """
    return fit_documents(batch_of([(y, adjacency)]), model, max_sweeps)


def typical_coefficients(n_features: int, keyword_rate: float = 0.25) -> FloatArray:
    """Return w [1 + n_features] with slopes that shrink and alternate, like fitted ones."""
    slopes = 0.8 * (-0.6) ** np.arange(n_features)
    spread = np.sqrt(1.0 + slopes @ slopes)
    return np.concatenate([[spread * ndtri(keyword_rate)], slopes])


def split_documents(batch: KeywordBatch, n_parts: int) -> list[KeywordBatch]:
    """Cut a batch into ``n_parts`` runs of documents of almost equal length."""
    cuts = np.linspace(0, batch.n_documents, n_parts + 1).round().astype(int)
    return [take_documents(batch, int(a), int(b)) for a, b in pairwise(cuts)]


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
