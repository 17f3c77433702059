"""What ingest keeps of a partition beside its words: its sizes, and what its phrases need."""

from __future__ import annotations

import pyarrow as pa

from flows.data import json_files, storage
from flows.data.runs import RunPaths
from flows.keywords.documents import Prepared
from flows.keywords.narrow import write_narrow
from flows.keywords.phrase_shards import GROUP as PHRASE_GROUP
from flows.keywords.work import work_url


class AboutPart(json_files.Form):
    """The contents of ``about/part-*.json``: documents with a candidate word, phrases counted,
    known keywords that were found, and those of them that have several words.
    """

    documents: int
    phrases: int
    known: int = 0
    several: int = 0


def about_url(paths: RunPaths, index: int) -> str:
    """Return the place of a partition's sizes."""
    return work_url(paths, "about", index, "json")


def write_phrases(prepared: Prepared, index: int, paths: RunPaths) -> None:
    """Write the sizes of a partition, and what its phrases need where they are asked for."""
    phrases = 0
    if prepared.marks is not None and prepared.phrase_counts is not None:
        phrases = prepared.phrase_counts.num_rows
        names = pa.table({"doc_id": prepared.words["doc_id"].unique()})
        write_narrow(work_url(paths, "marks", index, "npz"), prepared.marks)
        storage.write_table(
            work_url(paths, "phrase_counts", index), prepared.phrase_counts, PHRASE_GROUP
        )
        storage.write_table(work_url(paths, "forms", index), pa.table({"form": prepared.forms}))
        storage.write_table(work_url(paths, "documents", index), names)
    documents = prepared.tokens.n_documents
    json_files.write(
        about_url(paths, index),
        AboutPart(
            documents=documents, phrases=phrases, known=prepared.known, several=prepared.several
        ),
    )
