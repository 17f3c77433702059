"""Documents of made-up words, some of them keywords, with ground truth."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flows import storage
from flows.keywords.schema import DOCUMENTS

VOCABULARY = 2000
MEAN_WORDS = 40.0
KEYWORD_SHARE = 0.3
LISTED = 0.3  # of a document's keywords


def write_documents(target: str, rows: int, seed: int) -> list[str]:
    """Draw documents and write them with all their keywords in the column ``gold``.

    A keyword is more frequent and earlier than another word, and a word that is
    a keyword in one document tends to be one in others; a document lists about a third of
    its keywords, at random.

    Parameters
    ----------
    target
        Folder for ``documents.parquet``.
    rows
        Number of documents.
    seed
        Seed of the draws.
    """
    rng = np.random.default_rng(seed)
    names = _names(rng)
    popularity = rng.dirichlet(np.full(VOCABULARY, 0.3))
    leaning = rng.normal(0.0, 1.0, VOCABULARY)
    documents = [_document(rng, names, popularity, leaning) for _ in range(rows)]
    tokens, keywords, gold = zip(*documents, strict=True)
    fields = [DOCUMENTS.arrow.field(n) for n in ("doc_id", "tokens", "keywords", "gold")]
    ids = [f"document-{i:06d}" for i in range(rows)]
    table = pa.table([ids, list(tokens), list(keywords), list(gold)], schema=pa.schema(fields))
    url = storage.join(storage.absolute(target), "documents.parquet")
    storage.write_table(url, table)
    return [url]


def _names(rng: np.random.Generator) -> list[str]:
    """Make pronounceable words that no stemmer joins."""
    consonants, vowels = "bcdfgklmnprtvz", "aiou"
    names: dict[str, None] = {}
    while len(names) < VOCABULARY:
        pairs = rng.integers(0, [len(consonants), len(vowels)], size=(3, 2))
        names["".join(consonants[c] + vowels[v] for c, v in pairs) + "x"] = None
    return list(names)


def _document(
    rng: np.random.Generator, names: list[str], popularity: np.ndarray, leaning: np.ndarray
) -> tuple[list[str], list[str], list[str]]:
    n = 5 + rng.poisson(MEAN_WORDS - 5.0)
    words = rng.choice(VOCABULARY, size=n, replace=False, p=popularity)
    threshold = np.quantile(leaning, 1.0 - KEYWORD_SHARE)
    keyword = leaning[words] + rng.normal(0.0, 0.7, n) > threshold
    counts = 1 + rng.poisson(np.where(keyword, 1.5, 0.3))
    position = rng.random(counts.sum()) ** np.repeat(np.where(keyword, 1.5, 1.0), counts)
    order = np.argsort(position, kind="stable")
    tokens = [names[w] for w in np.repeat(words, counts)[order]]
    gold = [names[w] for w in words[keyword]]
    listed = [name for name in gold if rng.random() < LISTED]
    return tokens, listed, gold
