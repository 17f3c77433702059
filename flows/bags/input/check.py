"""What is wrong with files of bags: every fault, before anything is computed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from flows.bags.input import classes as bag_classes
from flows.bags.input.classes import (
    MASK,
    check_classes,
    check_label_columns,
    with_label,
    with_lists,
)
from flows.bags.input.columns import (
    NOT_KNOWN,
    ONE_LABEL,
    SAME_LENGTH,
    Thin,
    check_instances,
    check_modalities,
    check_own,
    class_prints,
    feature_widths,
    label_by_instances,
    label_numbers,
    label_of_bags,
    merge,
    named_instances,
    of_modality,
    own_prints,
    own_width,
    thinned,
)
from flows.bags.schema import INSTANCES_IN, LABEL_NUMBER
from flows.faults import Fault
from flows.tables.checks import Checker, Found
from flows.tables.table import Table
from vbmodels.core.state import IntArray


@dataclass(frozen=True)
class Named:
    """Instances with a name: a digest of bag, modality and name, and its row."""

    prints: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    rows: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))


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
    instances
        Digests of the instances that have a name, and their rows.
    """

    bag_ids: tuple[str, ...]
    starts: IntArray
    labels: NDArray[np.int8]
    widths: dict[str, int]
    own: int
    own_prints: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    class_prints: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    instances: Named = field(default_factory=Named)


def check_bags(
    pieces: Iterable[tuple[int, pa.Table]],
    file: str,
    several: bool = False,
    table: Table = INSTANCES_IN,
) -> tuple[Checker, Runs | None]:
    """Check one file, and say where its bags stand if nothing is wrong.

    Parameters
    ----------
    pieces
        (first row, rows) of the file, of which no two are held at a time: of numbers only what
        the check needs is kept.
    file
        Its name, for messages.
    several
        Whether the model takes bags with labels of several classes.
    table
        The table as the file has it.
    """
    checker = Checker(table, file)
    found, parts, readable = checker.found, [], True
    for rows in checker.chunks(pieces):
        wanted = {c.name for c in table.columns if c.required or c.name in checker.columns}
        readable &= wanted == set(rows.column_names)
        if readable:
            parts.append(thinned(rows))
    found.first = 0
    if checker.rows:
        check_label_columns(checker.columns, several, found)
    if not (parts and readable) or {"labels", MASK} <= set(checker.columns):
        return checker, None
    return checker, runs_of(merge(parts), checker, several)


def runs_of(thin: Thin, checker: Checker, several: bool) -> Runs | None:
    """Say where bags stand in rows of a file, if nothing is wrong between these."""
    found, rows = checker.found, with_lists(thin.table)
    multi = several and "labels" in rows.column_names
    if multi:
        check_classes(rows, MASK if MASK in rows.column_names else "labels", found)
    check_modalities(thin, found)
    widths, own = feature_widths(thin, found), own_width(thin, found)
    if found:
        return None
    codes = rows["bag_id"].combine_chunks().dictionary_encode()
    number, names = codes.indices.to_numpy(), codes.dictionary.to_pylist()
    per_bag = label_of_bags(with_label(rows), number, found)
    numbers = label_numbers(rows, number, found)
    if LABEL_NUMBER.name not in rows.column_names:
        per_bag = label_by_instances(rows, number, per_bag, found)
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
        per_bag[first],
        widths,
        own,
        own_prints(thin, number, len(names))[first],
        classes[first],
        Named(*named_instances(rows)),
    )


def validate_dataset(files: Sequence[str], runs: Sequence[Runs]) -> list[Fault]:
    """List what files that are each right say differently or twice.

    That is labels, classes and features of bags, numbers of features, and instances.
    """
    together = sorted(
        ((Found(file), own) for file, own in zip(files, runs, strict=True)),
        key=lambda pair: pair[0].file,
    )
    _other_prints(together, "bag_features", "give a bag the same features in every file")
    _other_prints(together, "labels", "give a bag the same labels in every file")
    _shared_instances(together)
    _other_labels(together)
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


def _other_labels(together: Sequence[tuple[Found, Runs]]) -> None:
    """Report the bags that two files give other labels."""
    first: dict[str, tuple[int, str]] = {}
    for found, said in together:
        other = {}
        for bag, value, row in zip(
            said.bag_ids, said.labels.tolist(), said.starts.tolist(), strict=False
        ):
            before = first.setdefault(bag, (value, found.file))
            if NOT_KNOWN in (value, before[0]):
                first[bag] = max(before, (value, found.file))
            elif value != before[0]:
                other[row] = bag, value, before
        found.rows(
            list(other),
            "label",
            lambda row, other=other: "{2[0]}, bag {0!r} in {2[1]}".format(*other[row]),
            lambda row, other=other: str(other[row][1]),
            ONE_LABEL,
        )


def _other_prints(together: Sequence[tuple[Found, Runs]], column: str, remedy: str) -> None:
    """Report the bags that two files give other features, or other classes."""
    first: dict[str, tuple[int, str, int]] = {}
    for found, said in together:
        prints = said.own_prints if column == "bag_features" else said.class_prints
        rows = {}
        for bag, value, row in zip(said.bag_ids, prints.tolist(), said.starts.tolist(),
                                   strict=False):  # fmt: skip
            if value and first.setdefault(bag, (value, found.file, row))[0] != value:
                rows[row] = bag
        found.rows(
            list(rows), column,
            lambda row, rows=rows: f"those that bag {rows[row]!r} has in {first[rows[row]][1]}, "
            f"row {first[rows[row]][2] + 1}",
            "others", remedy,
        )  # fmt: skip


def _shared_instances(together: Sequence[tuple[Found, Runs]]) -> None:
    """Report the instances that an earlier file has too."""
    of = [said.instances for _, said in together]
    prints = np.concatenate([np.zeros(0, np.int64), *(own.prints for own in of)])
    rows = np.concatenate([np.zeros(0, np.int64), *(own.rows for own in of)])
    file = np.repeat(np.arange(len(of)), [len(own.rows) for own in of])
    order = np.argsort(prints, kind="stable")
    new = np.concatenate([[True], prints[order][1:] != prints[order][:-1]])[: len(order)]
    first = np.empty_like(order)
    first[order] = order[np.flatnonzero(new)[np.cumsum(new) - 1]]
    again = np.flatnonzero(first != np.arange(len(order)))
    for number, (found, _) in enumerate(together):
        before = {int(rows[i]): int(first[i]) for i in again[file[again] == number]}
        found.rows(
            list(before), "instance_id", "an instance that no other file has",
            lambda row, before=before: f"that of {together[file[before[row]]][0].file}, "
            f"row {rows[before[row]] + 1}",
            "leave the copy out, or give every instance its own name",
        )  # fmt: skip


def require_labels(source: str, runs: Sequence[Runs]) -> list[Fault]:
    """List what a fit lacks: labelled bags of both classes."""
    labels = np.concatenate([r.labels for r in runs])
    found = {value: int(np.count_nonzero(labels == value)) for value in (0, 1)}
    if all(found.values()):
        return []
    known = sum(found.values())
    text = "no bag with a label" if not known else f"label {int(found[1] > 0)} only"
    named = "" if known else "name the column of labels (--column label=YOURS), "
    return [
        Fault(
            file=source,
            column="label",
            expected="bags labelled 0 and bags labelled 1",
            found=text,
            remedy=f"{named}label some bags of each class, or score these with a fitted run",
        )
    ]


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
