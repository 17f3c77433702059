"""What is wrong with files of bags, read whole or as they are ingested; where their bags stand."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from flows import storage
from flows.bags.input import labels as bag_classes
from flows.bags.input.labels import check_classes, check_label_columns, with_label
from flows.bags.input.rows import (
    NOT_KNOWN,
    ONE_LABEL,
    SAME_LENGTH,
    Thin,
    check_instances,
    check_modalities,
    check_own,
    check_width,
    class_prints,
    feature_widths,
    join_rows,
    label_by_instances,
    label_of_bags,
    named_instances,
    of_modality,
    own_prints,
    thinned,
)
from flows.bags.schema import LABEL_NUMBER, instances_in
from flows.bags.settings import BagSettings
from flows.family import Checked, CheckedPiece
from flows.faults import Fault, InputError
from flows.storage import InputFile
from flows.tables import partition, reading
from flows.tables.cells import cast
from flows.tables.checks import Checker, Found
from flows.tables.names import in_files
from flows.tables.partition import ROWS, Part, Slice, read_slice
from flows.tables.reading import SeenNumbers
from flows.tables.table import Table
from vbmodels.core.state import IntArray
from vbmodels.tables.seen import Seen


def _no_digests() -> IntArray:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class Runs:
    """The bags of one file: where their rows stand, side by side or scattered.

    Attributes
    ----------
    bag_ids
        Name of the bag of each run of rows.
    starts
        First row of each run, and the number of rows.
    labels
        0, 1 or -1 of each run.
    widths
        Features of an instance, by modality ("" where there is none).
    own
        Features of a bag; None where the file has bags without a row of them.
    own_prints, class_prints
        Digests of the features of each run's bag and of its list of classes or its number, 0 for
        none.
    instance_prints, instance_rows
        Digests of the instances that have a name, and their rows.
    """

    bag_ids: tuple[str, ...]
    starts: IntArray
    labels: NDArray[np.int8]
    widths: dict[str, int]
    own: int
    own_prints: IntArray = field(default_factory=_no_digests)
    class_prints: IntArray = field(default_factory=_no_digests)
    instance_prints: IntArray = field(default_factory=_no_digests)
    instance_rows: IntArray = field(default_factory=_no_digests)


@dataclass(frozen=True)
class CheckedBags(Checked):
    """What the check of one file found.

    Where its bags stand, if it is known; whether they have several classes; its size, decoded.
    """

    runs: Runs | None = None
    multi: bool = False
    size: int = 0

    @classmethod
    def of(cls, checker: Checker, runs: Runs | None, settings: BagSettings) -> CheckedBags:
        """Return what a checker found."""
        multi = settings.takes_classes and "labels" in checker.columns
        return cls(checker.rows, tuple(checker.found.faults()), (), runs, multi)


def check_file(file: InputFile, settings: BagSettings) -> CheckedBags:
    """Check one file, and say where its bags stand if nothing is wrong.

    Of numbers only what the check needs is held of more than a slab.
    """
    table = instances_in(settings)
    checker = Checker(table, file.url)
    parts, readable = [], True
    for rows in checker.chunks(partition.chunks(file.url)):
        wanted = {c.name for c in table.columns if c.required or c.name in checker.columns}
        readable &= wanted == set(rows.column_names)
        if readable:
            parts.append(thinned(rows))
    checker.found.first = 0
    if checker.rows:
        check_label_columns(checker.columns, settings.takes_classes, checker.found)
    runs = None
    if parts and readable:
        runs = runs_of(join_rows(parts), checker, settings.takes_classes)
    return CheckedBags.of(checker, runs, settings)


def runs_of(thin: Thin, checker: Checker, several: bool) -> Runs | None:
    """Say where bags stand in rows of a file, if nothing is wrong between these."""
    found, rows = checker.found, thin.table
    multi = several and "labels" in rows.column_names
    if multi:
        check_classes(rows, found)
    check_modalities(thin, found)
    widths, own, own_rows = feature_widths(thin, found), 0, np.flatnonzero(thin.own >= 0)
    if own_rows.size:
        own = check_width(thin.own, own_rows, "bag_features", "", found)
    if found:
        return None
    codes = rows["bag_id"].combine_chunks().dictionary_encode()
    number, names = codes.indices.to_numpy(), codes.dictionary.to_pylist()
    label = label_of_bags(with_label(rows), number, "label", found)
    numbers = label_of_bags(rows, number, LABEL_NUMBER.name, found)
    if LABEL_NUMBER.name not in rows.column_names:
        label = label_by_instances(rows, number, label, found)
    check_own(thin, number, found)
    check_instances(rows, number, found)
    if found:
        return None
    starts = np.concatenate([[0], np.flatnonzero(number[1:] != number[:-1]) + 1, [len(number)]])
    first = number[starts[:-1]]
    classes = np.where(numbers == 0.0, 1, numbers.view(np.int64))  # the print 0 is of no label
    classes[np.isnan(numbers)] = 0
    if multi:
        classes = class_prints(bag_classes.of_bags(rows, number, len(names)))
    return Runs(
        tuple(names[i] for i in first),
        starts,
        np.nan_to_num(label[first], nan=NOT_KNOWN).astype(np.int8),
        widths,
        own,
        own_prints(thin, number, len(names))[first],
        classes[first],
        *named_instances(rows),
    )


def validate_runs(files: Sequence[str], runs: Sequence[Runs]) -> list[Fault]:
    """List what files that are each right say differently or twice.

    That is labels, classes and features of bags, numbers of features, and instances.
    """
    together = sorted(
        ((Found(file), own) for file, own in zip(files, runs, strict=True)),
        key=lambda pair: pair[0].file,
    )
    same = "give a bag the same {} in every file".format
    _report_others(
        together, "bag_features", [own.own_prints for _, own in together], same("features")
    )
    _report_others(together, "labels", [own.class_prints for _, own in together], same("labels"))
    _shared_instances(together)
    _report_others(together, "label", [own.labels for _, own in together], ONE_LABEL)
    width: dict[str, tuple[int, str]] = {}
    own: tuple[int, str] | None = None
    for found, said in together:
        file = found.file
        for modality, value in said.widths.items():
            known = width.setdefault(modality, (value, file))
            if value != known[0]:
                expected = f"{known[0]} features{of_modality(modality)}, as in {known[1]}"
                found.add(Fault(file, expected, str(value), "features", remedy=SAME_LENGTH))
        own = own or (said.own, file)
        if said.own != own[0]:
            expected = f"{own[0]} features of a bag, as in {own[1]}"
            found.add(Fault(file, expected, str(said.own), "bag_features", remedy=SAME_LENGTH))
    return [fault for found, _ in together for fault in found.faults()]


class Mention(NamedTuple):
    """What a row of a file says of its bag."""

    value: int
    file: str
    row: int


def _report_others(
    together: Sequence[tuple[Found, Runs]],
    column: str,
    values: Sequence[NDArray[np.integer]],
    remedy: str,
) -> None:
    """Report the bags of which two files say other values; labels are named, digests are not."""
    is_label = column == "label"
    none = NOT_KNOWN if is_label else 0
    first: dict[str, Mention] = {}
    for (found, runs), of_runs in zip(together, values, strict=True):
        other: dict[int, tuple[str, int]] = {}
        for bag, value, row in zip(
            runs.bag_ids, of_runs.tolist(), runs.starts.tolist(), strict=False
        ):
            mention = Mention(value, found.file, row)
            if value != none and first.setdefault(bag, mention).value != value:
                other[row] = bag, value

        def expected(row: int, other: dict[int, tuple[str, int]] = other) -> str:
            bag, _ = other[row]
            before = first[bag]
            if is_label:
                return f"{before.value}, bag {bag!r} in {before.file}"
            return f"those that bag {bag!r} has in {before.file}, row {before.row + 1}"

        def said(row: int, other: dict[int, tuple[str, int]] = other) -> str:
            return str(other[row][1]) if is_label else "others"

        found.rows(list(other), column, expected, said, remedy)


def _shared_instances(together: Sequence[tuple[Found, Runs]]) -> None:
    """Report the instances that an earlier file has too."""
    prints = np.concatenate([runs.instance_prints for _, runs in together])
    rows = np.concatenate([runs.instance_rows for _, runs in together])
    file = np.repeat(np.arange(len(together)), [len(runs.instance_rows) for _, runs in together])
    order = np.argsort(prints, kind="stable")
    new = np.concatenate([[True], prints[order][1:] != prints[order][:-1]])[: len(order)]
    first = np.empty_like(order)
    first[order] = order[np.flatnonzero(new)[np.cumsum(new) - 1]]
    again = np.flatnonzero(first != np.arange(len(order)))
    for number, (found, _) in enumerate(together):
        before = {int(rows[i]): int(first[i]) for i in again[file[again] == number]}
        found.rows(
            list(before),
            "instance_id",
            "an instance that no other file has",
            lambda row, before=before: (
                f"that of {together[file[before[row]]][0].file}, row {rows[before[row]] + 1}"
            ),
            "leave the copy out, or give every instance its own name",
        )


def require_labels(files: Sequence[InputFile], checked: Sequence[Checked]) -> list[Fault]:
    """List what a fit lacks: labelled bags of both classes."""
    labels = np.concatenate([one.labels for one in runs_in(checked)])
    negative, positive = (int(np.count_nonzero(labels == value)) for value in (0, 1))
    has_classes = any(one.multi for one in checked if isinstance(one, CheckedBags))
    if (negative and positive) or has_classes:
        return []
    found, named = f"label {int(positive > 0)} only", ""
    if not (negative or positive):
        found, named = "no bag with a label", "name the column of labels (--column label=YOURS), "
    return [
        Fault(
            file=in_files([file.url for file in files]),
            column="label",
            expected="bags labelled 0 and bags labelled 1",
            found=found,
            remedy=f"{named}label some bags of each class, or score these with a fitted run",
        )
    ]


def runs_in(checked: Sequence[Checked]) -> list[Runs]:
    """Return where bags stand in files that are right."""
    found = [one.runs for one in checked if isinstance(one, CheckedBags)]
    return [one for one in found if one is not None]


def bounds_of(runs: Sequence[Runs]) -> list[list[tuple[int, int, int]]]:
    """Return, for every bag in order of appearance, its (file, first row, last row + 1)."""
    places: dict[str, list[tuple[int, int, int]]] = {}
    for i, found in enumerate(runs):
        limits = itertools.pairwise(found.starts.tolist())
        for bag, (start, stop) in zip(found.bag_ids, limits, strict=True):
            places.setdefault(bag, []).append((i, start, stop))
    return list(places.values())


def sharing_bags(runs: Sequence[Runs]) -> list[list[int]]:
    """Return the positions of files, those that share a bag in one group."""
    first: dict[str, int] = {}
    pairs = [(i, first.setdefault(bag, i)) for i, found in enumerate(runs) for bag in found.bag_ids]
    rows, columns = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    links = coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(runs), len(runs)))
    count, group = connected_components(links, directed=False)
    return [np.flatnonzero(group == g).tolist() for g in range(count)]


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


def read_header(file: InputFile, settings: BagSettings) -> CheckedBags:
    """Check the columns of a file, and say where its bags stand; read their names alone."""
    table = instances_in(settings)
    checker, footer = partition.read_header(file.url, table)
    if checker.rows:
        check_label_columns(checker.columns, settings.takes_classes, checker.found)
    if checker.found:
        return CheckedBags.of(checker, None, settings)
    column = table.declared(["bag_id"])["bag_id"]
    names: list[str] = []
    ends: list[int] = []
    rows = 0
    theirs = table.called.get("bag_id", "bag_id")
    for batch in storage.read_batches(file.url, ROWS, [theirs], footer):
        given = reading.given(table, pa.Table.from_batches([batch]))
        cells = cast(reading.spelt(table, given)[0]["bag_id"], column)
        # Bytes that are no text are a fault that the check of the rows reports.
        runs = pc.run_end_encode(pc.fill_null(cells, "").cast(pa.binary()))
        for name, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            names.append(name.decode(errors="replace"))
            ends.append(rows + end)
            if names[-2:-1] == names[-1:]:
                names.pop()
                ends.pop(-2)
        rows += len(cells)
    found = Runs(tuple(names), np.array([0, *ends]), np.zeros(0, np.int8), {}, 0)
    size = sum(footer.row_group(g).total_byte_size for g in range(footer.num_row_groups))
    return replace(CheckedBags.of(checker, found, settings), size=size)


@dataclass(frozen=True)
class CheckedPart:
    """A partition's rows, what its files say, and the bags with instances of one kind in several.

    ``seen`` is what columns of text hold that are read as numbers, and labels.
    """

    rows: pa.Table
    pieces: tuple[CheckedPiece, ...]
    seen: SeenNumbers
    split: frozenset[str]


def check_part(part: Part, settings: BagSettings) -> CheckedPart:
    """Read and check a partition's rows; its bags have none elsewhere.

    Raises
    ------
    InputError
        If something is wrong with them.
    """
    table, several = instances_in(settings), settings.takes_classes
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
        named = "modality" in rows.column_names and rows["modality"].null_count < len(rows)
        multi = several and "labels" in checker.columns
        held = Held(found.widths, found.own, np.unique(found.labels).tolist(), named, multi)
        pieces.append(CheckedPiece(file, checker.rows, about=asdict(held)))
        seen.labels += checker.numbers.labels
        for name, own in checker.numbers.columns.items():
            seen.columns[name] = seen.columns.get(name, Seen()) + own
    if faults := validate_runs([one.url for one in pieces], runs):
        raise InputError(faults)
    split = frozenset(bag for (bag, _), count in files.items() if count > 1)
    return CheckedPart(partition.merge(read, table), tuple(pieces), seen, split)


def merge(file: InputFile, pieces: Sequence[CheckedPiece], settings: BagSettings) -> CheckedBags:
    """Return what the pieces of a file say of it: of the runs what other files must agree with."""
    held = [Held(**one.about) for one in pieces]
    known = np.array(sorted({label for one in held for label in one.labels}), np.int8)
    runs = [Runs((), np.zeros(1, np.int64), known, one.widths, one.own) for one in held]
    faults = validate_runs([file.url] * len(runs), runs)
    widths = {name: width for one in held for name, width in one.widths.items()}
    if any(one.kinds for one in held) and "" in widths:
        faults.append(Fault(file.url, "the name of a modality", "null", "modality"))
    whole, multi = replace(runs[0], widths=widths), any(one.multi for one in held)
    return CheckedBags(sum(one.rows for one in pieces), tuple(faults), (), whole, multi)


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
