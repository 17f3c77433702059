"""The texts that the report shows: a sample of the documents, and what to mark in each.

Ingest keeps a sample of a partition's texts, drawn by a hash of the documents' names; the page has
room for `BYTES` of them, which the partitions share.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from flows import storage
from flows.records.runs import RunPaths
from vbmodels.core.draws import text_key
from vbmodels.core.state import IntArray
from vbmodels.text.candidates import Marks, Spans
from vbmodels.text.cleaning import cleaned
from vbmodels.text.result_rows import ResultRows

BYTES = 1_900_000
"""Of all texts on the page: with its charts' script it has less than 3 MB."""
LONGEST = 20_000
"""Characters of a text; the rest of a longer one is left out."""

_TEXTS = pa.schema(
    [
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("row", pa.int64(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("cut", pa.bool_(), nullable=False),
    ]
)


@dataclass(frozen=True)
class Keyphrase:
    """A keyphrase of a document that is shown.

    Attributes
    ----------
    stem, text
        Its words' stems, and how it is written.
    probability
        Its probability, or score.
    known
        Whether it was given.
    forms
        What to mark in the text.
    """

    stem: str
    text: str
    probability: float
    known: bool
    forms: tuple[str, ...]


@dataclass(frozen=True)
class ShownDocument:
    """A document of the report; ``cut`` is whether its text is longer."""

    doc_id: str
    text: str
    cut: bool
    keyphrases: tuple[Keyphrase, ...]

    @property
    def size(self) -> int:
        """Bytes on the page, about."""
        texts = sum(
            len(t) for phrase in self.keyphrases for t in (*phrase.forms, phrase.text, phrase.stem)
        )
        return len(json.dumps(self.text)) + 2 * texts + 90 * (1 + len(self.keyphrases))


@dataclass(frozen=True)
class ShownTerm:
    """A keyphrase of shown documents: in how many of all documents it is new, and known."""

    text: str
    new: int
    known: int


@dataclass(frozen=True)
class Widget:
    """What `documents.js` shows.

    Attributes
    ----------
    documents
        The documents.
    terms
        Their keyphrases by stem.
    whole
        Whether the counts of the terms are of all documents.
    key
        What a keyphrase is called: keyphrase, or keyword.
    """

    documents: list[ShownDocument]
    terms: dict[str, ShownTerm]
    whole: bool
    key: str


def keep_texts(documents: pa.Table, index: int, paths: RunPaths) -> None:
    """Keep a sample of a partition's texts as they are read, without markup."""
    names = documents["doc_id"].to_pylist()
    left = BYTES
    rows: list[dict[str, Any]] = []
    for row in sorted(range(len(names)), key=lambda i: text_key(names[i])):
        text, cut = _text_of(documents, row)
        left -= len(json.dumps(text))
        if left < 0 and rows:
            break
        rows.append({"doc_id": names[row], "row": row, "text": text, "cut": cut})
    storage.write_table(paths.part("texts", index), pa.Table.from_pylist(rows, schema=_TEXTS))


def _text_of(documents: pa.Table, row: int) -> tuple[str, bool]:
    """Return the text of a document, and whether it was cut."""
    names = documents.column_names
    tokens = documents["tokens"][row].as_py() if "tokens" in names else None
    if tokens is not None:
        text = " ".join(tokens)
    else:
        text = cleaned(documents["text"][row].as_py() or "").text
    return text[:LONGEST], len(text) > LONGEST


def shown_documents(
    index: int,
    partitions: int,
    paths: RunPaths,
    names: Sequence[str],
    table: pa.Table,
    result: ResultRows,
    marks: Marks,
    forms: Sequence[str],
) -> tuple[ShownDocument, ...]:
    """Return the documents of a partition that the report shows, in their order.

    Parameters
    ----------
    partitions
        How many partitions share the page.
    names
        Names of the partition's documents with a candidate.
    table
        Rows of the table keywords/, those of ``result``.
    marks, forms
        As `vbmodels.text.result_rows.written` takes them.
    """
    left = BYTES // partitions
    table_of_texts = storage.read_table(paths.part("texts", index))
    sizes = np.cumsum([len(json.dumps(text)) for text in table_of_texts["text"].to_pylist()])
    texts = table_of_texts.slice(0, max(1, np.searchsorted(sizes, left, "right"))).to_pylist()
    number = {name: d for d, name in enumerate(names)}
    known = table["observed"].to_numpy().astype(bool)
    taken = table["selected"].to_numpy().astype(bool) | known
    rows = {
        text["doc_id"]: _rows_of(number[text["doc_id"]], result.spans, taken)
        for text in texts
        if text["doc_id"] in number
    }
    wanted = np.concatenate([np.zeros(0, np.int64), *rows.values()])
    occurring = result.occurring_forms(marks, forms, wanted)
    terms = table.select(["stem", "term", "probability"]).take(pa.array(wanted)).to_pylist()
    phrases = {
        row: Keyphrase(
            term["stem"],
            term["term"],
            round(term["probability"], 4),
            bool(known[row]),
            tuple(occurring[row]),
        )
        for row, term in zip(wanted.tolist(), terms, strict=True)
    }
    shown: list[tuple[int, ShownDocument]] = []
    for text in texts:
        own_rows = rows.get(text["doc_id"], wanted[:0]).tolist()
        ordered = sorted((phrases[r] for r in own_rows), key=lambda p: (-p.probability, p.text))
        document = ShownDocument(text["doc_id"], text["text"], text["cut"], tuple(ordered))
        left -= document.size
        if left < 0 and shown:
            break
        shown.append((text["row"], document))
    return tuple(document for _, document in sorted(shown, key=lambda pair: pair[0]))


def _rows_of(d: int, spans: Spans, taken: Any) -> IntArray:
    first, last = int(spans.offsets[d]), int(spans.offsets[d + 1])
    return first + np.flatnonzero(taken[first:last])
