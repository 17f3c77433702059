"""Where a run keeps the counts of its corpus's words, and how they are read."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np

from flows.data import json_files, storage
from flows.keywords.counts import CorpusCounts


class AboutCounts(json_files.Form):
    """The contents of ``corpus/about.json``; see `flows.keywords.counts.CorpusCounts`."""

    n_documents: int
    least_documents: int
    n_pruned: int
    totals: list[list[int]]
    in_phrases: bool = False
    terms_sha256: str | None = None  # of terms.parquet; None in runs of earlier versions


def write_counts(folder: str, counts: CorpusCounts, n_documents: int) -> None:
    """Keep the counts of words and the number of documents below ``folder``."""
    terms = storage.table_bytes(counts.terms)
    storage.write_bytes(storage.join(folder, "terms.parquet"), terms)
    about = AboutCounts(
        terms_sha256=_digest(terms),
        n_documents=n_documents,
        least_documents=counts.least_documents,
        n_pruned=counts.n_pruned,
        totals=counts.totals.tolist(),
        in_phrases=counts.in_phrases,
    )
    json_files.write(storage.join(folder, "about.json"), about)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read_counts(folder: str) -> tuple[CorpusCounts, int]:
    """Return the counts of words and the number of documents that are kept below ``folder``."""
    urls = storage.join(folder, "about.json"), storage.join(folder, "terms.parquet")
    # Kept by version: a long-lived process may meet the same run again with other documents.
    return _counts_of(*urls, *(storage.fingerprint_of(url) for url in urls))


@lru_cache(maxsize=1)
def _counts_of(
    about_url: str, terms_url: str, about_version: str, terms_version: str
) -> tuple[CorpusCounts, int]:
    about = json_files.read(about_url, AboutCounts)
    if about.terms_sha256 is not None and about.terms_sha256 != _digest(
        storage.read_bytes(terms_url)
    ):
        raise storage.DamagedError(
            f"{terms_url} is damaged: it is not what {about_url} says", terms_url
        )
    counts = CorpusCounts(
        terms=storage.read_table(terms_url),
        least_documents=about.least_documents,
        n_pruned=about.n_pruned,
        totals=np.array(about.totals, dtype=np.int64),
        in_phrases=about.in_phrases,
    )
    return counts, about.n_documents
