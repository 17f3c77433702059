"""The counts of the corpus's phrases, added up without any process holding all of them.

Phrases are numbers spread evenly over 64 bits, cut into ranges, the shards. A shard's task reads
its range of every partition's table, adds it up, keeps the sums for later runs, and writes for
every partition what the corpus tells of its own phrases. A partition then reads its rows of
every shard. So memory is that of the rows of a shard, whatever the corpus; what is written is
less than a second copy of the partitions' tables. Sums are of whole numbers: shards, partitions
and workers move no bit.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flows.data import json_files, storage
from flows.data.runs import RunPaths
from flows.family import Each
from flows.keywords.phrase_counts import Rows, Whole, added, rates_of
from flows.keywords.work import work_url
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.keywords.features import N_FOLDS
from vbmodels.keywords.phrases.features import Elsewhere
from vbmodels.keywords.phrases.keys import KeyArray

GROUP = 16_384
"""Rows of a row group: a reader decodes what it needs and as much again at most."""

_ANSWERS = pa.schema(
    [
        pa.field("part", pa.int32(), nullable=False),
        pa.field("phrase", pa.uint64(), nullable=False),
        pa.field("fold", pa.int8(), nullable=False),
        pa.field("frequency", pa.int32(), nullable=False),
        pa.field("documents", pa.int32(), nullable=False),
        pa.field("labels", pa.int32(), nullable=False),
    ]
)


class AboutPhrases(json_files.Form):
    """The contents of ``corpus/phrases.json``: the shards' SHA-256, and sums over all phrases.

    ``totals`` are those of documents and of labels in every fold.
    """

    shards: list[str]
    totals: list[list[int]]

    @property
    def rates(self) -> FloatArray:
        """Label rates [N_FOLDS + 1]."""
        return rates_of(np.array(self.totals, dtype=np.int64))


@dataclass(frozen=True)
class Shard:
    """One range of phrases: the i-th of n, and the i-th of so many of the counts that are kept."""

    number: int
    of: int
    kept: int
    kept_of: int

    @property
    def ends(self) -> tuple[int, int]:
        """Least phrase, and the first one beyond."""
        return (self.number << 64) // self.of, ((self.number + 1) << 64) // self.of


def add_phrases(
    indices: Sequence[int], rows: int, most_rows: int, paths: RunPaths, corpus: str, new: bool,
    each: Each,
) -> int:  # fmt: skip
    """Add up the partitions' phrases, and answer what each partition asks.

    Parameters
    ----------
    indices
        Numbers of the partitions.
    rows
        Rows of their tables together.
    most_rows
        Rows that a shard has, about.
    paths
        The run.
    corpus
        Where the sums are kept, or where those of an earlier fit are.
    new
        Whether the partitions are the corpus; else the sums are those of an earlier fit.

    Returns
    -------
    shards
        How many shards answer.
    """
    wanted = max(1, math.ceil(rows / most_rows))
    if new:
        shards = [Shard(i, wanted, i, wanted) for i in range(wanted)]
        told = each(_add_up, shards, list(indices), paths, corpus)
        totals = sum((one[1] for one in told), np.zeros((2, N_FOLDS), np.int64))
        about = AboutPhrases(shards=[one[0] for one in told], totals=totals.tolist())
        json_files.write(_about_url(corpus), about)
        return wanted
    there = len(read_about(corpus).shards)
    times = math.ceil(wanted / there)
    shards = [Shard(i, there * times, i // times, there) for i in range(there * times)]
    each(_answer_from_kept, shards, list(indices), paths, corpus)
    return len(shards)


def read_about(corpus: str) -> AboutPhrases:
    """Return what is kept of the phrases of a corpus beside its shards."""
    return json_files.read(_about_url(corpus), AboutPhrases)


def keep_phrase_counts(source: str, target: str) -> None:
    """Copy the counts of phrases that are kept below one folder to another."""
    about = read_about(source)
    for number in range(len(about.shards)):
        storage.copy(_shard_url(source, number), _shard_url(target, number))
    json_files.write(_about_url(target), about)


def elsewhere_of(
    part: int, shards: int, paths: RunPaths, key: KeyArray, fold: IntArray
) -> Elsewhere:
    """Return what the corpus tells of a partition's phrases [M] of documents of folds [M]."""
    tables = [_answers(_answers_url(paths, number), part) for number in range(shards)]
    table = pa.concat_tables(tables)
    phrase, folds = table["phrase"].to_numpy(), table["fold"].to_numpy()
    found = [np.zeros(len(key), np.int64) for _ in range(3)]
    for number in np.unique(folds):
        rows, here = np.flatnonzero(folds == number), np.flatnonzero(fold == number)
        if not len(here):
            continue
        place = np.minimum(np.searchsorted(phrase[rows], key[here]), len(rows) - 1)
        ours = phrase[rows][place] == key[here]
        for target, name in zip(found, ("frequency", "documents", "labels"), strict=True):
            target[here[ours]] = table[name].to_numpy()[rows[place[ours]]]
    return Elsewhere(*found)


def _add_up(shard: Shard, indices: list[int], paths: RunPaths, corpus: str) -> tuple[str, IntArray]:
    """Add up one range, keep it and answer from it; return its SHA-256 and totals."""
    low, high = shard.ends
    parts = [_between(work_url(paths, "phrase_counts", i), low, high) for i in indices]
    rows = added(parts)
    totals = rows.totals
    whole = Whole.of(rows)
    data = _bytes(whole.rows.table)
    storage.write_bytes(_shard_url(corpus, shard.number), data)
    _answer(shard, zip(indices, parts, strict=True), whole, paths)
    return hashlib.sha256(data).hexdigest(), totals


def _answer_from_kept(shard: Shard, indices: list[int], paths: RunPaths, corpus: str) -> None:
    """Answer from the counts of an earlier fit."""
    low, high = shard.ends
    url = _shard_url(corpus, shard.kept)
    data = storage.read_bytes(url)
    if hashlib.sha256(data).hexdigest() != read_about(corpus).shards[shard.kept]:
        about = _about_url(corpus)
        raise storage.DamagedError(f"{url} is damaged: it is not what {about} says", url)
    rows = Rows.of(pq.read_table(pa.BufferReader(data))).between(low, high)
    asked = ((i, _between(work_url(paths, "phrase_counts", i), low, high)) for i in indices)
    _answer(shard, asked, Whole.of(rows), paths)


def _answer(shard: Shard, asked: Iterator[tuple[int, Rows]], whole: Whole, paths: RunPaths) -> None:
    """Write what the sums tell of each partition's phrases, but of those of one document."""
    tables = [_ANSWERS.empty_table()]
    for part, rows in asked:
        told = whole.elsewhere(rows.phrase, rows.fold)
        stays = np.flatnonzero((told.frequency > 1) | (told.documents > 0))
        columns = (
            np.full(len(stays), part, np.int32),
            rows.phrase[stays],
            rows.fold[stays],
            *(c[stays] for c in (told.frequency, told.documents, told.labels)),
        )
        arrays = [pa.array(c, f.type) for c, f in zip(columns, _ANSWERS, strict=True)]
        tables.append(pa.table(arrays, schema=_ANSWERS))
    storage.write_bytes(_answers_url(paths, shard.number), _bytes(pa.concat_tables(tables)))


def _bytes(table: pa.Table) -> bytes:
    return storage.table_bytes(table, GROUP)


def _between(url: str, low: int, high: int) -> Rows:
    """Read the rows of a table sorted by phrase with low <= phrase < high."""
    return Rows.of(storage.read_overlapping(url, "phrase", low, high - 1)).between(low, high)


def _answers(url: str, part: int) -> pa.Table:
    table = storage.read_overlapping(url, "part", part, part)
    first, last = np.searchsorted(table["part"].to_numpy(), [part, part + 1])
    return table.slice(int(first), int(last - first))


def _about_url(corpus: str) -> str:
    return storage.join(corpus, "phrases.json")


def _shard_url(corpus: str, number: int) -> str:
    return storage.join(corpus, "phrases", f"shard-{number:05d}.parquet")


def _answers_url(paths: RunPaths, number: int) -> str:
    return work_url(paths, "phrase_answers", number)
