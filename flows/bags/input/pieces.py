"""Bags whose rows are read once: cut by their names, checked as they are ingested."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows import storage
from flows.bags.input import classes as bag_classes
from flows.bags.input.check import Runs, runs_of, validate_dataset
from flows.bags.input.classes import check_label_columns
from flows.bags.input.columns import thinned
from flows.family import CheckedPiece
from flows.faults import Fault, InputError
from flows.storage import InputFile
from flows.tables import partition, reading
from flows.tables.checks import Checker
from flows.tables.partition import ROWS, Part, Slice, read_slice
from flows.tables.reading import SeenNumbers
from flows.tables.table import Table
from vbmodels.core.seen import Seen
from vbmodels.core.state import IntArray


@dataclass(frozen=True)
class Held:
    """What rows of a file say of all of its bags; the rest is between rows of one bag.

    Attributes
    ----------
    widths, own
        As in `Runs`.
    labels
        Labels that some of the bags have.
    kinds
        Whether any row names its modality.
    multi
        Whether labels are of several classes.
    """

    widths: dict[str, int]
    own: int
    labels: list[int]
    kinds: bool
    multi: bool


def read_header(file: str, several: bool, table: Table) -> tuple[Checker, Runs | None]:
    """Check the columns of a file, and say where its bags stand; read their names alone."""
    checker, footer = partition.read_header(file, table)
    if checker.rows:
        check_label_columns(checker.columns, several, checker.found)
    if checker.found:
        return checker, None
    column = table.declared(["bag_id"])["bag_id"]
    names: list[str] = []
    starts: list[int] = []
    row = 0
    theirs = table.called.get("bag_id", "bag_id")
    for batch in storage.read_batches(file, ROWS, [theirs], footer):
        given = reading.given(table, pa.Table.from_batches([batch]))
        cells = reading.cast(reading.spelt(table, given)[0]["bag_id"], column)
        # Bytes that are no text are a fault that the check of the rows reports.
        codes = pc.fill_null(cells, "").cast(pa.binary()).dictionary_encode()
        number, own = codes.indices.to_numpy(), codes.dictionary.to_pylist()
        first = np.zeros(0, np.int64)
        if len(number):
            first = np.flatnonzero(np.append(True, number[1:] != number[:-1]))
        for at in first:
            name = own[number[at]].decode(errors="replace")
            if not names or names[-1] != name:
                names.append(name)
                starts.append(row + int(at))
        row += len(number)
    bounds, labels = np.array([*starts, row], np.int64), np.zeros(0, np.int8)
    return checker, Runs(tuple(names), bounds, labels, {}, 0)


@dataclass(frozen=True)
class CheckedPart:
    """A partition's rows, what its files say, and the bags with instances of one kind in several.

    ``seen`` is what columns of text hold that are read as numbers, and labels.
    """

    rows: pa.Table
    pieces: tuple[CheckedPiece, ...]
    seen: SeenNumbers
    split: frozenset[str]


def check_part(part: Part, several: bool, table: Table) -> CheckedPart:
    """Read and check a partition's rows; its bags have none elsewhere.

    Raises
    ------
    InputError
        If something is wrong with them.
    """
    read, runs, pieces = [], [], []
    seen, files = SeenNumbers(), Counter[tuple[str, str | None]]()
    for file, rows_of, given in rows_by_file(part, table):
        checker = Checker(table, file, rows_of)
        [rows] = checker.chunks([(0, given)])
        del given
        checker.refuse()
        found = runs_of(thinned(rows), checker, several)
        checker.refuse()
        assert found is not None
        read.append(reading.filled(table, rows))
        instances = read[-1].filter(pc.field("features").is_valid())
        pairs = instances.group_by(["bag_id", "modality"]).aggregate([])
        files.update(zip(*(pairs[name].to_pylist() for name in pairs.column_names), strict=True))
        runs.append(found)
        about = asdict(_held(found, rows, checker, several))
        pieces.append(CheckedPiece(file, checker.rows, about=about))
        seen.labels += checker.numbers.labels
        for name, own in checker.numbers.columns.items():
            seen.columns[name] = seen.columns.get(name, Seen()) + own
    if faults := validate_dataset([one.url for one in pieces], runs):
        raise InputError(faults)
    split = frozenset(bag for (bag, _), count in files.items() if count > 1)
    return CheckedPart(partition.merge(read, table), tuple(pieces), seen, split)


def _held(runs: Runs, rows: pa.Table, checker: Checker, several: bool) -> Held:
    named = "modality" in rows.column_names and rows["modality"].null_count < len(rows)
    multi = several and bag_classes.has_classes(checker.columns)
    return Held(runs.widths, runs.own, np.unique(runs.labels).tolist(), named, multi)


def merge(file: str, pieces: Sequence[CheckedPiece]) -> tuple[Runs, bool, list[Fault]]:
    """Return what the pieces of a file say of it, whether of several classes, and faults between.

    Of the runs only what other files must agree with is known.
    """
    held = [Held(**one.about) for one in pieces]
    known = np.array(sorted({label for one in held for label in one.labels}), np.int8)
    runs = [Runs((), np.zeros(1, np.int64), known, one.widths, one.own) for one in held]
    faults = validate_dataset([file] * len(runs), runs)
    widths = {name: width for one in held for name, width in one.widths.items()}
    if any(one.kinds for one in held) and "" in widths:
        faults.append(Fault(file, "the name of a modality", "null", "modality"))
    return replace(runs[0], widths=widths), any(one.multi for one in held), faults


MANY_SLICES = 16


def slices_of(
    files: Sequence[InputFile], places: Sequence[Sequence[tuple[int, int, int]]]
) -> tuple[Slice, ...]:
    """Join neighbouring rows of one file, in the order of files and rows."""
    slices: list[Slice] = []
    for i, start, stop in sorted(run for rows in places for run in rows):
        before = slices[-1] if slices else None
        if before is not None and (before.url, before.stop) == (files[i].url, start):
            slices[-1] = replace(before, stop=stop)
        else:
            slices.append(Slice(files[i].url, start, stop, files[i].fingerprint, files[i].size))
    return tuple(slices)


def rows_by_file(part: Part, table: Table) -> Iterator[tuple[str, IntArray, pa.Table]]:
    """Yield (file, numbers of rows, rows) that a partition has of each file, as the file has them.

    Where they are scattered, all between the first and the last are read.
    """
    many = len(part.slices) > MANY_SLICES
    for url, group in itertools.groupby(part.slices, key=lambda s: s.url):
        own = list(group)
        rows = np.concatenate([np.arange(s.start, s.stop) for s in own])
        if not many:
            yield url, rows, pa.concat_tables([read_slice(s, table) for s in own])
            continue
        given = read_slice(replace(own[0], stop=own[-1].stop), table)
        yield url, rows, given.take(pa.array(rows - own[0].start))
