"""From texts to counts of words, and from counts to arrays."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from flows import storage
from flows.faults import Fault, InputError
from flows.records.runs import RunPaths
from vbflows_lda.documents import Documents
from vbflows_lda.settings import TopicSettings
from vbmodels.core.state import to_bytes

WORD = re.compile(r"[^\W\d_]{2,}")
_COUNTED = pa.schema(
    [
        ("doc_id", pa.string()),
        ("words", pa.list_(pa.string())),
        ("counts", pa.list_(pa.int64())),
    ]
)


def counted(doc_ids: pa.ChunkedArray, texts: pa.ChunkedArray) -> pa.Table:
    """Count the words of each text: runs of two letters or more, in lower case."""
    found = [Counter(WORD.findall(text.lower())) for text in texts.to_pylist()]
    words = [sorted(one) for one in found]
    counts = [[one[word] for word in listed] for one, listed in zip(found, words, strict=True)]
    return pa.table([doc_ids, words, counts], schema=_COUNTED)


def documents_with(url: str) -> Counter[str]:
    """Return how many documents of a partition have each word."""
    lists = storage.read_table(url, ["words"])["words"].to_pylist()
    return Counter(itertools.chain.from_iterable(lists))


def chosen(parts: Sequence[Counter[str]], documents: int, settings: TopicSettings) -> list[str]:
    """Return the words that stand in enough documents, and not in too many, by name.

    Raises
    ------
    InputError
        If there is none.
    """
    total: Counter[str] = sum(parts, Counter())
    most = max(settings.largest_share * documents, settings.least_documents)
    words = sorted(w for w, n in total.items() if settings.least_documents <= n <= most)
    if not words:
        expected = (
            f"words that stand in {settings.least_documents} documents or more and in at most "
            f"{settings.largest_share:.0%} of them"
        )
        found = f"none among the {len(total):,} words of {documents:,} documents"
        remedy = "give more documents, or change least_documents and largest_share"
        raise InputError([Fault("the documents", expected, found, remedy=remedy)])
    return words


def vocabulary_url(paths: RunPaths) -> str:
    """Where a run keeps its vocabulary: scores of new documents need it."""
    return storage.join(paths.root, "posterior", "vocabulary.parquet")


def read_vocabulary(url: str) -> list[str]:
    """Return the words, in order."""
    words: list[str] = storage.read_table(url, ["word"])["word"].to_pylist()
    return words


def write_arrays(urls: tuple[str, str], vocabulary: str) -> int:
    """Write a partition's counts as arrays; return how many documents have no word of any topic."""
    source, target = urls
    place = {word: i for i, word in enumerate(read_vocabulary(vocabulary))}
    table = storage.read_table(source, ["words", "counts"])
    word, count, offsets = [], [], [0]
    for words, counts in zip(table["words"].to_pylist(), table["counts"].to_pylist(), strict=True):
        known = [(place[w], n) for w, n in zip(words, counts, strict=True) if w in place]
        word += [w for w, _ in known]
        count += [n for _, n in known]
        offsets.append(len(word))
    batch = Documents(
        np.array(word, np.int64), np.array(count, float), np.array(offsets, np.int64), len(place)
    )
    storage.write_bytes(target, to_bytes(batch))
    return int(np.count_nonzero(np.diff(batch.offsets) == 0))
