"""Documents drawn from the model, and documents as arrays."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from flows import storage
from vbflows_lda.documents import Documents
from vbmodels.core.state import FloatArray


def simulate(
    rng: np.random.Generator, documents: int, vocabulary: int, topics: int, words: int,
    alpha: float = 0.3, eta: float = 0.1,
) -> tuple[FloatArray, FloatArray, FloatArray]:  # fmt: skip
    """Return counts [D, V], the words of topics beta [K, V] and the topics of documents [D, K].

    A document has Poisson(``words``) words, one at least.
    """
    beta = rng.dirichlet(np.full(vocabulary, eta), topics)
    theta = rng.dirichlet(np.full(topics, alpha), documents)
    lengths = np.maximum(rng.poisson(words, documents), 1)
    chance = theta @ beta
    chance /= chance.sum(axis=1, keepdims=True)
    counts = [rng.multinomial(n, p) for n, p in zip(lengths, chance, strict=True)]
    return np.array(counts, float), beta, theta


def corpus(counts: Sequence[FloatArray], vocabulary: int) -> Documents:
    """Return documents of counts [V] each as one partition."""
    words = [np.flatnonzero(one) for one in counts]
    none = [np.zeros(0, np.int64)]
    word = np.concatenate([*words, *none]).astype(np.int64)
    count = np.concatenate([one[w] for one, w in zip(counts, words, strict=True)] + [np.zeros(0)])
    offsets = np.concatenate([[0], np.cumsum([len(w) for w in words])]).astype(np.int64)
    return Documents(word, count, offsets, vocabulary)


def write_documents(target: str, rows: int, seed: int) -> list[str]:
    """Write documents of five known topics over 300 words as text, with ground truth."""
    counts, _, theta = simulate(np.random.default_rng(seed), rows, 300, 5, words=80)
    names = [f"document-{i:06d}" for i in range(rows)]
    spelt = np.array([a + b + c for a, b, c in itertools.product("bdfgklmnprst", "aeiou", "lmnrs")])
    texts = [" ".join(np.repeat(spelt[:300], one.astype(int)).tolist()) for one in counts]
    url = storage.join(storage.absolute(target), "documents.parquet")
    storage.write_table(url, pa.table({"doc_id": names, "text": texts}))
    truth = storage.join(storage.absolute(target), "_truth", "topics.parquet")
    storage.write_table(truth, pa.table({"doc_id": names, "shares": theta.tolist()}))
    return [url, truth]
