"""From a table of documents to candidates, what is known of them, and their counts.

`prepare` reads one partition by `vbmodels.text.reading`; `shards` adds the counts of all
partitions; `vbmodels.keywords.features` makes features of both.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from flows.keywords.input.shards import PHRASES, WORDS, table_of
from vbmodels.core.state import BoolArray
from vbmodels.keywords.candidate_counts import count_candidates
from vbmodels.text.candidate_words import NO_VOCABULARY, Vocabulary
from vbmodels.text.candidates import DocumentTokens, Marks, Spans, stem_keys
from vbmodels.text.reading import Report, read_documents
from vbmodels.text.result_rows import ListedPhrase
from vbmodels.text.tokens import (
    Labels,
    Originals,
    Row,
    Sample,
    completed,
    split_terms,
    without_mark,
)
from vbmodels.text.words import TextOptions

ROWS = 256
"""Read at once, so that few Python objects are alive."""


@dataclass(frozen=True)
class Prepared:
    """A partition before the corpus is known; see `vbmodels.text.reading.ReadDocuments`.

    ``counts``: its counts (`counts.COUNTS`) of words, and of phrases where these are the
    candidates.
    """

    tokens: DocumentTokens
    vocabulary: pa.Array
    names: pa.Array
    marks: Marks
    forms: pa.Array
    counts: dict[str, pa.Table]
    report: Report
    known: int
    several: int
    sample: Sample
    originals: Originals
    listed: list[ListedPhrase]


def prepare(
    documents: pa.Table,
    options: TextOptions,
    phrases: bool,
    vocabulary: Vocabulary = NO_VOCABULARY,
    *,
    whole: bool = False,
    shared: Container[int] = (),
) -> Prepared:
    """Read a partition of documents that `check.check_documents` found no fault in.

    Parameters
    ----------
    documents
        Columns ``doc_id``, ``text`` or ``tokens`` (with ``pos`` and ``sentence`` where
        known), ``keywords``, ``complete``. Where a row has tokens its text is not read.
    options
        How text becomes words.
    phrases
        Whether candidates are phrases, not words.
    vocabulary
        Phrases that are candidates wherever a text has them.
    whole
        Whether every list of keywords that is given is complete.
    shared
        Numbers of sentences that are left out.
    """
    rows = rows_of(documents)
    if whole:
        rows = map(completed, rows)
    read = read_documents(rows, options, phrases, vocabulary, shared)
    spans = read.spans if phrases else None
    return Prepared(
        tokens=read.tokens,
        vocabulary=pa.array(read.vocabulary, pa.string()),
        names=pa.array(read.names, pa.string()),
        marks=read.marks,
        forms=pa.array(read.forms, pa.string()),
        counts=counts_of(read.tokens, read.vocabulary, read.marks, spans),
        report=read.report,
        known=read.known,
        several=read.several,
        sample=read.sample,
        originals=read.originals,
        listed=read.listed,
    )


def counts_of(
    tokens: DocumentTokens,
    vocabulary: Sequence[str],
    marks: Marks,
    spans: Spans | None,
    counted: BoolArray | None = None,
) -> dict[str, pa.Table]:
    """Return the counts of words, and of phrases where ``spans`` has these.

    ``counted``: which of the documents [D] count.
    """
    keys = stem_keys(vocabulary)[tokens.term]
    kinds = {WORDS: (keys, tokens.document_of_word, tokens.y)}
    if spans is not None:
        kinds[PHRASES] = (spans.key, spans.document, marks.y)
    is_counted = np.ones(tokens.n_documents, bool) if counted is None else counted
    return {
        kind: table_of(
            count_candidates(
                keys, tokens.fold[document], tokens.looked_at[document], known, is_counted[document]
            )
        )
        for kind, (keys, document, known) in kinds.items()
    }


_LABELS = Labels._fields
_WORDS = Row._fields[1:]


def rows_of(documents: pa.Table) -> Iterator[Row]:
    """Yield the rows of a table, None where it has no such column, a slice at a time."""
    for batch in documents.to_batches(max_chunksize=ROWS):
        present, nothing = batch.schema.names, [None] * batch.num_rows
        columns: list[Any] = [
            batch[name].to_pylist() if name in present else nothing for name in (*_LABELS, *_WORDS)
        ]
        for cells in zip(*columns, strict=True):
            labels = Labels(*cells[: len(_LABELS)])
            labels = labels._replace(
                keywords=split_terms(labels.keywords), gold=split_terms(labels.gold)
            )
            yield Row(without_mark(labels), *cells[len(_LABELS) :])
