"""The table ask/: which documents to label next, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.data import storage
from flows.data.runs import RunPaths
from flows.keywords.report import Asked
from flows.keywords.schema import ASK
from flows.keywords.work import work_url
from vbmodels.core.state import FloatArray
from vbmodels.keywords.asking import Unsettled, ask_for


@dataclass(frozen=True)
class Nodes:
    """What a fit leaves open of the rate.

    Attributes
    ----------
    weights
        [K] of its nodes.
    log_sd
        sd of log pi.
    dispersion
        Of the number of keywords of documents of one length.
    """

    weights: FloatArray
    log_sd: float
    dispersion: float


def choose(
    indices: Sequence[int],
    parts: Sequence[Unsettled],
    nodes: Nodes,
    most: int,
    paths: RunPaths,
    documents: Callable[[int, RunPaths], list[tuple[str, int, int]]] | None = None,
) -> list[Asked]:
    """Choose the documents over all partitions, write their table and return its rows.

    Parameters
    ----------
    indices, parts
        Numbers of the partitions, and what each has to settle.
    nodes
        What is open of the rate.
    most
        Documents to name.
    documents
        What returns name, units and known ones of every document of a partition; by default
        those of words.
    """
    named = documents or _documents
    chosen, settled = ask_for(parts, nodes.weights, nodes.log_sd, nodes.dispersion, most)
    rows = []
    read: dict[int, list[tuple[str, int, int]]] = {}
    for number, ((p, d), share) in enumerate(zip(chosen, settled, strict=True), 1):
        if p not in read:
            read[p] = named(indices[p], paths)
        name, words, known = read[p][d]
        expected = float(parts[p].keywords[np.searchsorted(parts[p].document, d)])
        rows.append(Asked(number, name, words, known, expected, share))
    table = pa.Table.from_pylist([vars(row) for row in rows], schema=ASK.arrow)
    storage.write_table(paths.table("ask", 0), table)
    return rows


def _documents(index: int, paths: RunPaths) -> list[tuple[str, int, int]]:
    """Return name, words and known words of every document of a partition."""
    return documents_of(storage.read_table(work_url(paths, "words", index)))


def documents_of(table: pa.Table) -> list[tuple[str, int, int]]:
    """Return name, rows and known rows of every document of a table with one row a unit."""
    if not len(table):
        return []
    names = table["doc_id"].combine_chunks()
    new = pc.not_equal(names.slice(1), names.slice(0, len(names) - 1))
    starts = np.concatenate([[0], np.flatnonzero(new.to_numpy(zero_copy_only=False)) + 1])
    known = np.add.reduceat(table["observed"].to_numpy().astype(np.int64), starts)
    units = np.diff(starts, append=len(names))
    first = names.take(pa.array(starts)).to_pylist()
    return list(zip(first, units.tolist(), known.tolist(), strict=True))
