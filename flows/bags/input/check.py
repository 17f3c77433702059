"""What is wrong with files of bags, added up over partitions; where their bags stand."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add, itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from flows import storage
from flows.bags.input.labels import check_label_columns
from flows.bags.input.rows import BagRows, FileRows
from flows.bags.schema import instances_in
from flows.bags.settings import BagSettings
from flows.family import Checked, CheckedPiece, WrongRows
from flows.faults import Fault
from flows.storage import InputFile
from flows.tables import partition, reading
from flows.tables.cells import cast
from flows.tables.checks import MAX_ROWS, Checker, FileFaults, Kinds, add_up, faults_of
from flows.tables.names import in_files
from flows.tables.partition import ROWS, Part, Slice, read_slice
from flows.tables.reading import SeenNumbers
from flows.tables.table import Table
from vbmodels.core.state import BoolArray, IntArray
from vbmodels.tables.seen import Seen

NOT_KNOWN = -1
SAME_LENGTH = "give every instance of a modality, and every bag, equally many numbers"


@dataclass(frozen=True)
class Runs:
    """The bags of one file: where their rows stand, side by side or scattered.

    Attributes
    ----------
    bag_ids
        Name of the bag of each run of rows.
    starts
        First row of each run, and the number of rows.
    """

    bag_ids: tuple[str, ...] = ()
    starts: IntArray = field(default_factory=lambda: np.zeros(1, np.int64))


@dataclass(frozen=True)
class FewRows:
    """Rows of a file, counted, and the first of them; the sum of two is that of both."""

    first: list[int] = field(default_factory=list)
    count: int = 0

    @classmethod
    def of(cls, rows: IntArray) -> FewRows:
        """Count rows, which are sorted."""
        return cls(rows[:MAX_ROWS].tolist(), len(rows))

    def __add__(self, other: FewRows) -> FewRows:
        return FewRows(sorted(self.first + other.first)[:MAX_ROWS], self.count + other.count)


@dataclass(frozen=True)
class Held:
    """What rows of a file say of all of its bags; the sum of two is that of both.

    Attributes
    ----------
    widths
        Rows by how many features an instance has, and by modality ("" where there is none).
    own
        Rows by how many features a bag has.
    without
        Rows of bags that have none.
    nameless
        Instances without the name of a modality.
    kinds
        Whether any row names its modality.
    labels
        Labels that some of the bags have: 0, 1 or -1.
    multi
        Whether labels are of several classes.
    between
        What is wrong between rows of a bag.
    across
        What is wrong between files that share a bag.
    """

    widths: dict[str, dict[int, FewRows]] = field(default_factory=dict)
    own: dict[int, FewRows] = field(default_factory=dict)
    without: FewRows = field(default_factory=FewRows)
    nameless: FewRows = field(default_factory=FewRows)
    kinds: bool = False
    labels: list[int] = field(default_factory=list)
    multi: bool = False
    between: Kinds = field(default_factory=dict)
    across: Kinds = field(default_factory=dict)

    def __add__(self, other: Held) -> Held:
        names = dict.fromkeys([*self.widths, *other.widths])
        return Held(
            {n: _joined(self.widths.get(n, {}), other.widths.get(n, {})) for n in names},
            _joined(self.own, other.own),
            self.without + other.without,
            self.nameless + other.nameless,
            self.kinds or other.kinds,
            sorted({*self.labels, *other.labels}),
            self.multi or other.multi,
            add_up([self.between, other.between]),
            add_up([self.across, other.across]),
        )

    def report(self, faults: FileFaults) -> None:
        """Report rows with other features or modalities than others; else what bags have twice."""
        if self.kinds:
            faults.add_rows(
                self.nameless.first,
                "modality",
                "the name of a modality",
                "null",
                "name the modality of every instance, or of none",
                count=self.nameless.count,
            )
        for modality, widths in self.widths.items():
            check_width(widths, "features", _of_modality(modality), faults)
        check_width(self.own, "bag_features", "", faults)
        if faults:
            return
        faults.kinds = add_up([self.between])
        if self.own:
            expected = "features for every bag or for none"
            remedy, count = "give this bag its features", self.without.count
            faults.add_rows(
                self.without.first, "bag_features", expected, "null", remedy, count=count
            )


def _of_modality(modality: str) -> str:
    """Say of which modality, where there are several."""
    return f" of modality {modality!r}" if modality else ""


def _joined(one: dict[int, FewRows], other: dict[int, FewRows]) -> dict[int, FewRows]:
    none = FewRows()
    return {key: one.get(key, none) + other.get(key, none) for key in {**one, **other}}


def check_width(widths: dict[int, FewRows], column: str, what: str, faults: FileFaults) -> None:
    """Report lists of features of other lengths than the first."""
    by_row = sorted(widths, key=lambda width: widths[width].first[0])
    if not by_row:
        return
    width, *others = by_row
    row = widths[width].first[0]
    if width == 0:
        expected, remedy = f"at least one number{what}", "give the features, or null"
        faults.add_rows([row], column, expected, "an empty list", remedy)
        return
    length = {row: other for other in others for row in widths[other].first}
    faults.add_rows(
        sorted(length)[:MAX_ROWS],
        column,
        f"{width} numbers{what}, as in row {row + 1}",
        lambda row: str(length[row]),
        SAME_LENGTH,
        count=sum(widths[other].count for other in others),
    )


_HELD = TypeAdapter(Held)


@dataclass(frozen=True)
class CheckedBags(Checked):
    """What the check of one file found.

    Where its bags stand; its size, decoded; what its rows hold, once they are read.
    """

    runs: Runs = field(default_factory=Runs)
    size: int = 0
    held: Held = field(default_factory=Held)


def held_in(rows: FileRows, multi: bool) -> Held:
    """Return what the rows of a file hold, by themselves."""
    numbers, (kind, names) = np.asarray(rows.faults.rows_of), rows.kinds
    has_features = rows.lengths >= 0
    widths = {
        name: _by_length(rows.lengths, has_features & (kind == k), numbers)
        for k, name in enumerate(names)
    }
    unnamed = np.asarray(rows.table["modality"].is_null())
    return Held(
        {name: by_width for name, by_width in widths.items() if by_width},
        _by_length(rows.own, rows.own >= 0, numbers),
        nameless=FewRows.of(numbers[has_features & unnamed]),
        kinds=not unnamed.all(),
        multi=multi,
    )


def _by_length(lengths: IntArray, chosen: BoolArray, rows_of: IntArray) -> dict[int, FewRows]:
    """Return the rows of some lists, by length."""
    widths = np.unique(lengths[chosen]).tolist()
    return {width: FewRows.of(rows_of[chosen & (lengths == width)]) for width in widths}


def validate_files(files: Sequence[InputFile], checked: Sequence[Checked]) -> list[Fault]:
    """List what files that are each right say differently or twice."""
    together = sorted(
        (
            (file.url, bags.held)
            for file, bags in zip(files, checked, strict=True)
            if isinstance(bags, CheckedBags)
        ),
        key=itemgetter(0),
    )
    faults = [fault for _, contents in together for fault in faults_of(contents.across)]
    known: dict[str, tuple[int, str]] = {}
    of_bags: tuple[int, str] | None = None
    for file, contents in together:
        for modality, (value,) in contents.widths.items():
            width, where = known.setdefault(modality, (value, file))
            if value != width:
                expected = f"{width} features{_of_modality(modality)}, as in {where}"
                faults.append(Fault(file, expected, str(value), "features", remedy=SAME_LENGTH))
        (value,) = contents.own or (0,)
        of_bags = of_bags or (value, file)
        if value != of_bags[0]:
            expected = f"{of_bags[0]} features of a bag, as in {of_bags[1]}"
            faults.append(Fault(file, expected, str(value), "bag_features", remedy=SAME_LENGTH))
    return faults


def require_labels(files: Sequence[InputFile], checked: Sequence[Checked]) -> list[Fault]:
    """List what a fit lacks: labelled bags of both classes."""
    contents = [of_file.held for of_file in checked if isinstance(of_file, CheckedBags)]
    labels = {label for of_file in contents for label in of_file.labels}
    negative, positive = 0 in labels, 1 in labels
    if (negative and positive) or any(of_file.multi for of_file in contents):
        return []
    found, named = f"label {int(positive)} only", ""
    if not (negative or positive):
        found, named = (
            "no bag with a label",
            "name the column of labels (--column label=YOURS, or FOLDER), ",
        )
    return [
        Fault(
            file=in_files([file.url for file in files]),
            column="label",
            expected="bags labelled 0 and 1",
            found=found,
            remedy=f"{named}label some bags of each class, or score these with a fitted run",
        )
    ]


def runs_in(checked: Sequence[Checked]) -> list[Runs]:
    """Return where bags stand in files; nowhere in those whose header has a fault."""
    return [bags.runs if isinstance(bags, CheckedBags) else Runs() for bags in checked]


def bounds_of(runs: Sequence[Runs]) -> list[list[tuple[int, int, int]]]:
    """Return, for every bag in order of appearance, its (file, first row, last row + 1)."""
    places: dict[str, list[tuple[int, int, int]]] = {}
    for i, of_file in enumerate(runs):
        limits = itertools.pairwise(of_file.starts.tolist())
        for bag, (start, stop) in zip(of_file.bag_ids, limits, strict=True):
            places.setdefault(bag, []).append((i, start, stop))
    return list(places.values())


def sharing_bags(runs: Sequence[Runs]) -> list[list[int]]:
    """Return the positions of files, those that share a bag in one group."""
    first: dict[str, int] = {}
    pairs = [
        (i, first.setdefault(bag, i)) for i, of_file in enumerate(runs) for bag in of_file.bag_ids
    ]
    rows, columns = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    links = coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(runs), len(runs)))
    count, group = connected_components(links, directed=False)
    return [np.flatnonzero(group == g).tolist() for g in range(count)]


def read_header(file: InputFile, settings: BagSettings) -> CheckedBags:
    """Check the columns of a file, and say where its bags stand; read their names alone."""
    table = instances_in(settings)
    checker, footer = partition.read_header(file.url, table)
    if checker.rows:
        check_label_columns(checker.columns, settings.takes_classes, checker.faults)
    if checker.faults:
        return CheckedBags(checker.rows, checker.faults.listed())
    column = table.declared(["bag_id"])["bag_id"]
    names: list[str] = []
    ends: list[int] = []
    rows = 0
    theirs = table.called.get("bag_id", "bag_id")
    for batch in storage.read_batches(file.url, ROWS, [theirs], footer):
        renamed = reading.given(table, pa.Table.from_batches([batch]))
        cells = cast(reading.parse_text_columns(table, renamed)[0]["bag_id"], column)
        # Bytes that are no text are a fault that the check of the rows reports.
        runs = pc.run_end_encode(pc.fill_null(cells, "").cast(pa.binary()))
        for name, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            names.append(name.decode(errors="replace"))
            ends.append(rows + end)
            if names[-2:-1] == names[-1:]:
                names.pop()
                ends.pop(-2)
        rows += len(cells)
    groups = [footer.row_group(g) for g in range(footer.num_row_groups)]
    numbers = sum(group.column(c).num_values for group in groups for c in range(group.num_columns))
    return CheckedBags(rows, runs=Runs(tuple(names), np.array([0, *ends])), size=8 * numbers)


@dataclass(frozen=True)
class CheckedPart:
    """What a partition's files say, and the bags with instances of one kind in several.

    ``seen`` is what columns of text hold that are read as numbers, and labels.
    """

    pieces: tuple[CheckedPiece, ...]
    seen: SeenNumbers
    split: frozenset[str]


def check_part(part: Part, settings: BagSettings) -> tuple[pa.Table, CheckedPart]:
    """Read and check a partition's rows; its bags have none elsewhere."""
    table, checkers = instances_in(settings), []
    read, thin, contents = list[pa.Table](), list[FileRows](), dict[str, Held]()
    seen, files = SeenNumbers(), Counter[tuple[str, str | None]]()
    for checker, raw in rows_by_file(part, table):
        rows = pa.table({}) if raw is None else checker.read(raw)
        del raw
        checkers.append(checker)
        file, wanted = checker.faults.file, {c.name for c in table.columns if c.required}
        contents[file] = Held()
        if not (wanted | {*table.declared([*checker.columns])}) <= {*rows.column_names}:
            continue
        rows = reading.add_absent_columns(table, rows)
        of_file = FileRows.of(checker.faults, rows)
        contents[file] = held_in(of_file, settings.takes_classes and "labels" in checker.columns)
        if checker.faults:
            continue
        read.append(rows)
        thin.append(of_file)
        pairs = rows.select(["bag_id", "modality"]).filter(rows["features"].is_valid())
        pairs = pairs.group_by(["bag_id", "modality"]).aggregate([])
        files.update(zip(*(pairs[name].to_pylist() for name in pairs.column_names), strict=True))
        seen.labels += checker.numbers.labels
        for name, cells in checker.numbers.columns.items():
            seen.columns[name] = seen.columns.get(name, Seen()) + cells
    if thin:
        bags = BagRows(thin)
        labels, without = bags.check()
        known = np.unique(np.nan_to_num(labels, nan=NOT_KNOWN)).astype(int).tolist()
        for k, thin_rows in enumerate(thin):
            rows_without = FewRows.of(bags.row[without[bags.file[without] == k]])
            contents[thin_rows.faults.file] = replace(
                contents[thin_rows.faults.file],
                between=bags.between[k].kinds,
                across=bags.across[k].kinds,
                labels=known,
                without=rows_without,
            )
    pieces = [
        CheckedPiece(
            checker.faults.file,
            checker.rows,
            checker.faults.kinds,
            about=_HELD.dump_python(
                contents[checker.faults.file], mode="json", exclude_defaults=True
            ),
        )
        for checker in checkers
    ]
    split = frozenset(bag for (bag, _), count in files.items() if count > 1)
    return partition.merge(read, table), CheckedPart(tuple(pieces), seen, split)


def check(part: Part, settings: BagSettings) -> tuple[CheckedPiece, ...]:
    """Say what is wrong in a partition's rows, and what they hold."""
    return check_part(part, settings)[1].pieces


def merge(
    file: InputFile, header: Checked, pieces: Sequence[CheckedPiece], settings: BagSettings
) -> CheckedBags:
    """Return the check of a whole file."""
    faults = FileFaults(file.url)
    faults.kinds = add_up(piece.faults for piece in pieces)
    contents = reduce(add, (_HELD.validate_python(piece.about) for piece in pieces))
    if not header.faults:
        contents.report(faults)
    rows = sum(piece.rows for piece in pieces)
    return CheckedBags(rows, (*header.faults, *faults.listed()), held=contents)


def refuse(pieces: Sequence[CheckedPiece], settings: BagSettings) -> None:
    """Raise `WrongRows` where something is wrong in a partition's rows, or between them."""
    files = [InputFile(piece.url, 0, "") for piece in pieces]
    checked = [
        merge(file, Checked(0), [piece], settings)
        for file, piece in zip(files, pieces, strict=True)
    ]
    faults = [fault for bags in checked for fault in bags.faults]
    if faults := faults or validate_files(files, checked):
        raise WrongRows(pieces, faults)


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


def rows_by_file(part: Part, table: Table) -> Iterator[tuple[Checker, pa.Table | None]]:
    """Yield what checks the rows that a partition has of each file, and these as the file has them.

    Where they are scattered, all between the first and the last are read.
    """
    many = len(part.slices) > MANY_SLICES
    for url, group in itertools.groupby(part.slices, key=lambda s: s.url):
        slices = list(group)
        rows = np.concatenate([np.arange(s.start, s.stop) for s in slices])
        checker = Checker(table, url, rows)
        wanted = [replace(slices[0], stop=slices[-1].stop)] if many else slices
        read = [
            piece for s in wanted if (piece := read_slice(s, table, checker.faults)) is not None
        ]
        if checker.faults:
            yield checker, None
        elif many:
            yield checker, read[0].take(pa.array(rows - slices[0].start))
        else:
            yield checker, pa.concat_tables(read)
