"""What is wrong with a file of documents: every fault, before anything is computed."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from flows.data.checks import Checker
from flows.data.table import Table
from flows.faults import Fault
from flows.keywords.schema import DOCUMENTS
from flows.keywords.text import OTHER, pos_code

_NAMED = 5


def check_documents(
    pieces: Iterable[tuple[int, pa.Table]], file: str, table: Table = DOCUMENTS
) -> tuple[Checker, int]:
    """Check one file of documents, and count those with a known keyword.

    A document without candidate words, or with a known keyword that it does not contain, is
    no fault: `documents.prepare` counts and names them.

    Parameters
    ----------
    pieces
        (first row, rows) of the file.
    file
        Its name, for messages.
    table
        The table as the file has it.
    """
    checker = Checker(table, file)
    unknown: list[str] = []
    listed = 0
    known = False  # whether any tag is a noun, adjective or verb in a tag set that we know
    for documents in checker.slabs(pieces):
        if "keywords" in documents.column_names:
            lengths = pc.list_value_length(documents["keywords"])
            listed += pc.sum(pc.greater(lengths, 0)).as_py() or 0
        if not known and "pos" in documents.column_names:
            tags = pc.list_flatten(documents["pos"]).drop_null().unique().to_pylist()
            known = any(pos_code(tag) != OTHER for tag in tags)
            unknown = sorted({*unknown, *tags})[:_NAMED]
    if unknown and not known:
        checker.found.tell(
            Fault(
                file=file,
                column="pos",
                expected="Penn or universal tags (NN, JJ, VB; NOUN, ADJ, VERB)",
                found=", ".join(map(repr, unknown)),
                remedy="translate the tags, or leave the column out to take every word",
            )
        )
    return checker, listed
