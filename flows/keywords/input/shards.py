"""The counts of the corpus's candidates, added up without any process holding all of them.

Candidates are numbers spread evenly over 64 bits, cut into ranges, the shards. A shard's task reads
its range of every partition's table, adds it up, keeps the sums for later runs, and writes for
every partition what the corpus says of its own candidates. A partition then reads its rows of
every shard. So memory is that of the rows of a shard, whatever the corpus; what is written is
less than a second copy of the partitions' tables. Sums are of whole numbers: shards, partitions
and workers move no bit. Words are counted so, and phrases too where these are the candidates.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flows import storage
from flows.family import Each
from flows.records import json_files
from flows.records.runs import RunPaths
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.keywords.candidate_counts import Rows, Whole, added
from vbmodels.keywords.features import Elsewhere, label_rates
from vbmodels.text.candidates import N_FOLDS, KeyArray

COUNTS = pa.schema(
    [
        pa.field("key", pa.uint64(), nullable=False),
        pa.field("fold", pa.int8(), nullable=False),
        pa.field("documents", pa.int32(), nullable=False),
        pa.field("looked_at", pa.int32(), nullable=False),
        pa.field("labels", pa.int32(), nullable=False),
    ]
)


def rows_of(table: pa.Table) -> Rows:
    """Return a table's columns as arrays."""
    return Rows(*(table[name].to_numpy() for name in COUNTS.names))


def table_of(rows: Rows) -> pa.Table:
    """Return rows as a table."""
    columns = (getattr(rows, name) for name in COUNTS.names)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, COUNTS, strict=True)]
    return pa.table(arrays, schema=COUNTS)


WORDS, PHRASES = "words", "phrases"
ROWS = 8_000_000
"""Rows that a shard has, about: some 60 bytes each. Every shard reads a little of every partition,
so with fewer rows corpora of a million documents would take most of their time here. It changes no
result."""
GROUP = 16_384
"""Rows of a row group: a reader decodes what it needs and as much again at most."""

_ANSWERS = pa.schema(
    [
        pa.field("part", pa.int32(), nullable=False),
        pa.field("key", pa.uint64(), nullable=False),
        pa.field("fold", pa.int8(), nullable=False),
        pa.field("frequency", pa.int32(), nullable=False),
        pa.field("documents", pa.int32(), nullable=False),
        pa.field("labels", pa.int32(), nullable=False),
    ]
)


class AboutCounts(json_files.Form):
    """What is kept of the counts of words, or phrases, with their shards.

    ``shards`` are the SHA-256 of these; ``totals`` the sums over all candidates of documents that
    somebody has looked at and of labels in every fold.
    """

    shards: list[str]
    totals: list[list[int]]

    @property
    def rates(self) -> FloatArray:
        """Label rates [N_FOLDS + 1] as features take them."""
        documents, labels = np.array(self.totals, dtype=np.int64)
        return label_rates(documents, labels)


class AboutCorpus(json_files.Form):
    """The contents of ``corpus/about.json``.

    ``in_phrases`` is whether words are known several at once; see
    `vbmodels.keywords.features`. ``labelled`` is whether somebody has looked for the keywords
    of every document. ``shared`` are the sentences that are left out of documents.
    """

    n_documents: int
    in_phrases: bool
    labelled: bool
    counts: dict[str, AboutCounts]
    shared: list[int]


@dataclass(frozen=True)
class Shard:
    """One range of words or phrases: the i-th of n, and the number of that which is kept."""

    kind: str
    number: int
    of: int
    kept: int

    @property
    def ends(self) -> tuple[int, int]:
        """Least number, and the first one beyond."""
        return (self.number << 64) // self.of, ((self.number + 1) << 64) // self.of


def add_counts(
    kinds: dict[str, int],
    indices: Sequence[int],
    paths: RunPaths,
    corpus: str,
    each: Each,
    most_rows: int = ROWS,
) -> dict[str, AboutCounts]:
    """Add up the partitions' counts, keep them, and write what each partition needs of them.

    Parameters
    ----------
    kinds
        Words, or words and phrases, with the rows of all partitions' tables together.
    indices
        Numbers of the partitions.
    paths
        The run.
    corpus
        Where the sums are kept.
    most_rows
        Rows that a shard has, about.
    """
    shards = [
        Shard(kind, i, number, i)
        for kind, rows in kinds.items()
        for number in [_number(rows, most_rows)]
        for i in range(number)
    ]
    sums = each(_add_up, shards, list(indices), paths, corpus)
    about = {}
    for kind in kinds:
        of_kind = [result for shard, result in zip(shards, sums, strict=True) if shard.kind == kind]
        totals = sum((result[1] for result in of_kind), np.zeros((2, N_FOLDS), np.int64))
        about[kind] = AboutCounts(shards=[result[0] for result in of_kind], totals=totals.tolist())
    return about


def look_up_counts(
    kinds: dict[str, int],
    indices: Sequence[int],
    paths: RunPaths,
    corpus: str,
    each: Each,
    most_rows: int = ROWS,
) -> dict[str, int]:
    """Write what each partition needs of the counts of an earlier fit; as `add_counts`.

    Returns how many shards answer of each kind.
    """
    about = read_about(corpus)
    shards: list[Shard] = []
    for kind, rows in kinds.items():
        there = len(about.counts[kind].shards)
        times = math.ceil(_number(rows, most_rows) / there)
        shards += [Shard(kind, i, there * times, i // times) for i in range(there * times)]
    each(_answer_from_kept, shards, list(indices), paths, corpus)
    return {kind: sum(shard.kind == kind for shard in shards) for kind in kinds}


def _number(rows: int, most_rows: int) -> int:
    return max(1, math.ceil(rows / most_rows))


def read_about(corpus: str) -> AboutCorpus:
    """Return what is kept of a corpus but the shards of its counts."""
    return json_files.read(_about_url(corpus), AboutCorpus)


def write_about(corpus: str, about: AboutCorpus) -> None:
    """Keep it."""
    json_files.write(_about_url(corpus), about)


def copy_counts(source: str, target: str) -> None:
    """Copy the counts that are kept below one folder to another."""
    about = read_about(source)
    for kind, counts in about.counts.items():
        for number in range(len(counts.shards)):
            storage.copy(_shard_url(source, kind, number), _shard_url(target, kind, number))
    write_about(target, about)


def elsewhere_of(
    kind: str, part: int, shards: int, paths: RunPaths, key: KeyArray, fold: IntArray
) -> Elsewhere:
    """Return what the corpus says of a partition's candidates [M] of documents of folds [M].

    ``shards`` is how many answer.
    """
    urls = [_answers_url(paths, kind, number) for number in range(shards)]
    table = pa.concat_tables([_answers(url, part) for url in urls])
    keys, folds = table["key"].to_numpy(), table["fold"].to_numpy()
    counts = [np.zeros(len(key), np.int64) for _ in range(3)]
    for number in np.unique(folds):
        rows, here = np.flatnonzero(folds == number), np.flatnonzero(fold == number)
        positions = np.minimum(np.searchsorted(keys[rows], key[here]), len(rows) - 1)
        ours = keys[rows][positions] == key[here]
        for target, name in zip(counts, ("frequency", "documents", "labels"), strict=True):
            target[here[ours]] = table[name].to_numpy()[rows[positions[ours]]]
    return Elsewhere(*counts)


def _add_up(shard: Shard, indices: list[int], paths: RunPaths, corpus: str) -> tuple[str, IntArray]:
    """Add up one range, keep it and answer from it; return its SHA-256 and totals."""
    parts = [_between(shard, i, paths) for i in indices]
    rows = added(parts)
    totals = rows.totals
    whole = Whole.of(rows, shard.kind == WORDS)
    data = storage.table_bytes(table_of(whole.rows), GROUP)
    storage.write_bytes(_shard_url(corpus, shard.kind, shard.number), data)
    _answer(shard, zip(indices, parts, strict=True), whole, paths)
    return hashlib.sha256(data).hexdigest(), totals


def _answer_from_kept(shard: Shard, indices: list[int], paths: RunPaths, corpus: str) -> None:
    """Answer from the counts of an earlier fit."""
    url = _shard_url(corpus, shard.kind, shard.kept)
    data = storage.read_bytes(url)
    if hashlib.sha256(data).hexdigest() != read_about(corpus).counts[shard.kind].shards[shard.kept]:
        about = _about_url(corpus)
        raise storage.DamagedError(f"{url} is damaged: it is not what {about} says", url)
    rows = rows_of(pq.read_table(pa.BufferReader(data))).between(*shard.ends)
    parts = ((i, _between(shard, i, paths)) for i in indices)
    _answer(shard, parts, Whole.of(rows, shard.kind == WORDS), paths)


def _answer(shard: Shard, parts: Iterable[tuple[int, Rows]], whole: Whole, paths: RunPaths) -> None:
    """Write what the sums say of each partition's candidates, where they say anything."""
    tables = [_ANSWERS.empty_table()]
    least = 0 if shard.kind == WORDS else 1
    for part, rows in parts:
        elsewhere = whole.elsewhere(rows.key, rows.fold)
        stays = np.flatnonzero((elsewhere.frequency > least) | (elsewhere.documents > 0))
        columns = (
            np.full(len(stays), part, np.int32),
            rows.key[stays],
            rows.fold[stays],
            *(c[stays] for c in (elsewhere.frequency, elsewhere.documents, elsewhere.labels)),
        )
        arrays = [pa.array(c, f.type) for c, f in zip(columns, _ANSWERS, strict=True)]
        tables.append(pa.table(arrays, schema=_ANSWERS))
    url = _answers_url(paths, shard.kind, shard.number)
    storage.write_bytes(url, storage.table_bytes(pa.concat_tables(tables), GROUP))


def _between(shard: Shard, index: int, paths: RunPaths) -> Rows:
    """Read the rows of a partition's table that are in the shard."""
    low, high = shard.ends
    url = counts_url(paths, shard.kind, index)
    return rows_of(storage.read_overlapping(url, "key", low, high - 1)).between(low, high)


def _answers(url: str, part: int) -> pa.Table:
    table = storage.read_overlapping(url, "part", part, part)
    first, last = np.searchsorted(table["part"].to_numpy(), [part, part + 1])
    return table.slice(int(first), int(last - first))


def counts_url(paths: RunPaths, kind: str, index: int) -> str:
    """Return the place of a partition's counts."""
    return paths.part(f"counts_{kind}", index)


def _about_url(corpus: str) -> str:
    return storage.join(corpus, "about.json")


def _shard_url(corpus: str, kind: str, number: int) -> str:
    return storage.join(corpus, kind, f"shard-{number:05d}.parquet")


def _answers_url(paths: RunPaths, kind: str, number: int) -> str:
    return paths.part(f"answers_{kind}", number)
