"""What is wrong with a file of documents: every fault, before anything is computed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from operator import add

import pyarrow as pa
import pyarrow.compute as pc

from flows.family import Checked, CheckedPiece, names_of
from flows.faults import Fault
from flows.keywords.schema import DOCUMENTS
from flows.storage import InputFile
from flows.tables import partition
from flows.tables.checks import Checker
from flows.tables.names import as_text
from flows.tables.table import Table
from vbmodels.keywords.text import OTHER, pos_code

_NAMED = 5


def check_documents(
    pieces: Iterable[tuple[int, pa.Table]], file: str, table: Table = DOCUMENTS
) -> tuple[Checker, int]:
    """Check one file of documents, and count those with a known keyphrase.

    A document without candidate words, or with a known keyphrase that it does not contain, is
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
    held = reduce(add, map(held_in, checker.chunks(pieces)), Held())
    checker.found.add(*_alone(file, checker.columns), *held.faults(file))
    return checker, held.listed


@dataclass(frozen=True)
class Held:
    """What some documents hold: those of two sets add.

    Attributes
    ----------
    listed
        Documents with a known keyphrase.
    known
        Whether any tag is a noun, adjective or verb in a tag set that we know.
    unknown
        The first tags where none is.
    """

    listed: int = 0
    known: bool = False
    unknown: tuple[str, ...] = ()

    def __add__(self, other: Held) -> Held:
        known = self.known or other.known
        unknown = () if known else tuple(sorted({*self.unknown, *other.unknown})[:_NAMED])
        return Held(self.listed + other.listed, known, unknown)

    def faults(self, file: str) -> list[Fault]:
        """Say so where a file has tags and none that we know."""
        if not self.unknown:
            return []
        return [
            Fault(
                file=file,
                column="pos",
                expected="Penn or universal tags (NN, JJ, VB; NOUN, ADJ, VERB)",
                found=", ".join(map(repr, self.unknown)),
                remedy="translate the tags, or leave the column out to take every word",
            )
        ]


def held_in(documents: pa.Table) -> Held:
    """Return what documents hold, in the columns that are there."""
    listed, tags = 0, []
    if "keywords" in documents.column_names:
        lengths = pc.list_value_length(documents["keywords"])
        listed = pc.sum(pc.greater(lengths, 0)).as_py() or 0
    if "pos" in documents.column_names:
        tags = pc.list_flatten(documents["pos"]).drop_null().unique().to_pylist()
    if any(pos_code(tag) != OTHER for tag in tags):
        return Held(listed, True)
    return Held(listed, False, tuple(sorted(tags)[:_NAMED]))


def read_header(file: InputFile, table: Table) -> Checked:
    """List the faults of a file's columns."""
    checker, _ = partition.read_header(file.url, table)
    checker.found.add(*_alone(file.url, checker.columns))
    keys = (file.url,) if checker.named else ()
    return Checked(checker.rows, tuple(checker.found.faults()), keys)


def _alone(file: str, columns: Sequence[str]) -> list[Fault]:
    """Say so where terms have no scores, or scores no terms."""
    pair = {"scored", "scores"}
    there = pair.intersection(columns)
    if len(there) != 1:
        return []
    (missing,) = pair - there
    remedy = f"name it by --column {missing}=NAME, or leave both out"
    return [
        Fault(file, f"columns {' and '.join(sorted(pair))}", f"{there.pop()} alone", remedy=remedy)
    ]


def piece(checker: Checker, documents: pa.Table) -> CheckedPiece:
    """Return what the check of a file needs of some of its documents."""
    about = asdict(held_in(documents))
    return CheckedPiece(checker.found.file, checker.rows, as_text(checker.digests), about)


def merge(file: str, pieces: Sequence[CheckedPiece]) -> tuple[Checked, int]:
    """Return what the pieces of a file say of it, and how many documents have a known keyphrase."""
    held = reduce(add, (Held(**one.about) for one in pieces))
    rows = sum(one.rows for one in pieces)
    return Checked(rows, tuple(held.faults(file)), names_of(pieces)), held.listed
