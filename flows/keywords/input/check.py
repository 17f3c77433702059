"""What is wrong with a file of documents: every fault, before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from flows.faults import Fault
from vbmodels.text.words import OTHER, pos_code

_NAMED = 5


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


def unpaired(file: str, columns: Sequence[str]) -> list[Fault]:
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
