"""True keywords, where the input has them: for evaluation only, no model sees them."""

from __future__ import annotations

import pyarrow as pa

from flows.keywords.text import Normaliser, TextOptions


def gold_labels(documents: pa.Table, words: pa.Table, options: TextOptions) -> pa.Array:
    """Return for each candidate word whether it is a true keyword; null where unknown.

    Parameters
    ----------
    documents
        With a column ``gold``, lists of keywords, null where the truth is not known.
    words
        Rows of `flows.keywords.documents.WORDS` of these documents.
    options
        How words are normalised.
    """
    if documents["gold"].null_count == len(documents):
        return pa.nulls(len(words), pa.bool_())
    normalise = Normaliser.of(options)
    places: dict[str, dict[str, int]] = {}
    doc_ids, stems = words["doc_id"].to_pylist(), words["stem"].to_pylist()
    for row, (doc_id, stem) in enumerate(zip(doc_ids, stems, strict=True)):
        places.setdefault(doc_id, {})[stem] = row
    labels: list[bool | None] = [None] * len(words)
    gold = dict(zip(documents["doc_id"].to_pylist(), documents["gold"].to_pylist(), strict=True))
    for doc_id, rows in places.items():
        if gold[doc_id] is None:
            continue
        true: set[str] = set()
        for keyword in gold[doc_id]:
            true.update(normalise.keyword(keyword, rows)[0])
        for stem, row in rows.items():
            labels[row] = stem in true
    return pa.array(labels, pa.bool_())
