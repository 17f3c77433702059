"""Partitions that are the whole corpus: their words as a table, and their features."""

import pyarrow as pa

from flows.keywords.input.shards import WORDS, rows_of
from vbmodels.keywords.candidate_counts import Whole, added
from vbmodels.keywords.features import build_batch, label_rates
from vbmodels.text.candidates import spans_of, stem_keys
from vbmodels.text.result_rows import written


def words_of(prepared):
    """Return a partition's words: doc_id, term, stem and whether it is known."""
    tokens, vocabulary = prepared.tokens, prepared.vocabulary.to_pylist()
    spans = spans_of(tokens, vocabulary, False)
    texts = written(tokens, spans, vocabulary, prepared.marks, prepared.forms.to_pylist())
    names = prepared.names.take(pa.array(spans.document))
    columns = {"doc_id": names, "term": texts.term, "stem": texts.stem}
    return pa.table({**columns, "observed": pa.array(tokens.y)})


def features_of(*parts, documents=None, **options):
    """Return the batch of words of every partition, with the counts of all of them."""
    rows = added([rows_of(part.counts[WORDS]) for part in parts])
    whole, n = Whole.of(rows, True), documents or sum(part.tokens.n_documents for part in parts)
    made = []
    for part in parts:
        keys = stem_keys(part.vocabulary.to_pylist())[part.tokens.term]
        folds = part.tokens.fold[part.tokens.document_of_word]
        elsewhere = whole.elsewhere(keys, folds)
        made.append(build_batch(part.tokens, elsewhere, n, label_rates(*rows.totals), **options))
    return made
