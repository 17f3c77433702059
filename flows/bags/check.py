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

from flows.bags import classes as bag_classes
from flows.bags.classes import MASK, label_faults, mask_faults, with_label, with_lists
from flows.bags.columns import (
    NOT_KNOWN,
    SAME_LENGTH,
    class_prints,
    differing_own,
    differs,
    feature_widths,
    known_labels,
    label_of_bags,
    name_faults,
    named_instances,
    of_modality,
    own_prints,
    own_width,
    repeated_instances,
    thinned,
)
from flows.bags.schema import INSTANCES_IN
from flows.data.row_faults import invalid_text, row_faults
from flows.faults import Fault
from vbmodels.core.state import IntArray

_TYPES = {column.name: column.type for column in INSTANCES_IN.columns}
_OTHER_FEATURES = "give a bag the same features in every file"
_OTHER_CLASSES = "give a bag the same classes in every file"


@dataclass(frozen=True)
class Named:
    """Instances with a name: a digest of bag, modality and name, and the row it stands in."""

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
        Digests of the features of each run's bag and of its list of classes, 0 for none.
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
    table: pa.Table,
    file: str,
    multi: bool = False,
    pieces: Iterable[tuple[int, pa.Table]] | None = None,
) -> tuple[list[Fault], Runs | None]:
    """List all faults of one file, and say where its bags stand if there is none.

    Parameters
    ----------
    table
        The whole file; with `pieces`, no row of it, for its columns' sake.
    file
        Its name, for messages.
    multi
        Whether the model takes bags with labels of several classes.
    pieces
        (first row, rows) of the file, of which no two are held at a time: of numbers only what
        the check needs is kept.
    """
    faults = INSTANCES_IN.faults(table.schema, file)
    if pieces is None and not len(table):
        found = Fault(file, "at least one row", "0 rows", remedy="leave the file out or fill it")
        return [*faults, found], None
    if faults:
        return faults, None
    thin = thinned([(0, table)] if pieces is None else pieces, file)
    table = thin.table
    for name in ("bag_id", "instance_id", "modality"):
        if name in table.column_names and pa.types.is_string(table[name].type):
            faults += invalid_text(table[name], name, file)
    if faults:
        return faults, None
    faults = mask_faults(table, file)
    if faults:
        return faults, None
    table = with_lists(table)
    faults = label_faults(table, file, multi)
    if faults:
        return faults, None
    label, faults = known_labels(with_label(table) if multi else table, file)
    plain = {
        name: table[name].cast(kind).combine_chunks()
        for name, kind in _TYPES.items()
        if name in table.column_names and name not in ("label", "labels", MASK)
    }
    faults += name_faults(plain, thin.lengths, file)
    widths, more = feature_widths(plain, thin.lengths, file)
    own, lack = own_width(thin.own, file)
    faults += thin.faults + more + lack
    if faults:
        return faults, None
    codes = plain["bag_id"].dictionary_encode()
    number = codes.indices.to_numpy()
    per_bag, faults = label_of_bags(number, label, plain["bag_id"], file)
    faults += differing_own(thin, number, file) + repeated_instances(plain, number, file)
    starts = np.concatenate([[0], np.flatnonzero(number[1:] != number[:-1]) + 1, [len(number)]])
    names = codes.dictionary.to_pylist()
    first = number[starts[:-1]]
    classes = None
    if multi and "labels" in table.column_names:
        classes = class_prints(bag_classes.of_bags(table, number, len(names)))
    runs = Runs(
        tuple(names[i] for i in first),
        starts,
        per_bag[first],
        widths,
        own,
        own_prints(thin, number, len(names))[first],
        np.zeros(len(first), np.int64) if classes is None else classes[first],
        Named(*named_instances(plain)),
    )
    return faults, runs if not faults else None


def check_together(files: Sequence[str], runs: Sequence[Runs]) -> list[Fault]:
    """List what files that are each right say differently or twice.

    That is labels, classes and features of bags, numbers of features, and instances.
    """
    together = sorted(zip(files, runs, strict=True), key=lambda pair: pair[0])
    faults = _other_prints(together, "bag_features", _OTHER_FEATURES)
    faults += _other_prints(together, "labels", _OTHER_CLASSES)
    faults += _shared_instances(together)
    label: dict[str, tuple[int, str]] = {}
    width: dict[str, tuple[int, str]] = {}
    own: tuple[int, str] | None = None
    for file, found in together:
        for bag, value, row in zip(found.bag_ids, found.labels, found.starts, strict=False):
            before = label.setdefault(bag, (int(value), file))
            if NOT_KNOWN in (value, before[0]):
                label[bag] = max(before, (int(value), file))
            elif value != before[0]:
                faults.append(
                    differs(file, "label", f"{before[0]}, bag {bag!r} in {before[1]}",
                            str(value), int(row) + 1, "give every bag one label")
                )  # fmt: skip
        for modality, value in found.widths.items():
            known = width.setdefault(modality, (value, file))
            if value != known[0]:
                told = f"{known[0]} features{of_modality(modality)}, as in {known[1]}"
                faults.append(differs(file, "features", told, str(value), None, SAME_LENGTH))
        own = own or (found.own, file)
        if found.own != own[0]:
            told = f"{own[0]} features of a bag, as in {own[1]}"
            faults.append(differs(file, "bag_features", told, str(found.own), None, SAME_LENGTH))
    return faults[:100]


def _other_prints(together: Sequence[tuple[str, Runs]], column: str, remedy: str) -> list[Fault]:
    """List the bags that two files give other features, or other classes."""
    first: dict[str, tuple[int, str, int]] = {}
    faults = []
    for file, found in together:
        prints = found.own_prints if column == "bag_features" else found.class_prints
        rows = {}
        for bag, value, row in zip(found.bag_ids, prints.tolist(), found.starts.tolist(),
                                   strict=False):  # fmt: skip
            if value and first.setdefault(bag, (value, file, row))[0] != value:
                rows[row] = bag
        faults += row_faults(
            list(rows),
            lambda row, file=file, rows=rows: differs(
                file, column,
                f"those that bag {rows[row]!r} has in {first[rows[row]][1]}, "
                f"row {first[rows[row]][2] + 1}", "others", row + 1, remedy,
            ),
        )  # fmt: skip
    return faults


def _shared_instances(together: Sequence[tuple[str, Runs]]) -> list[Fault]:
    """List the instances that an earlier file has too."""
    of = [found.instances for _, found in together]
    prints = np.concatenate([np.zeros(0, np.int64), *(own.prints for own in of)])
    rows = np.concatenate([np.zeros(0, np.int64), *(own.rows for own in of)])
    file = np.repeat(np.arange(len(of)), [len(own.rows) for own in of])
    order = np.argsort(prints, kind="stable")
    new = np.concatenate([[True], prints[order][1:] != prints[order][:-1]])[: len(order)]
    first = np.empty_like(order)
    first[order] = order[np.flatnonzero(new)[np.cumsum(new) - 1]]
    again = np.flatnonzero(first != np.arange(len(order)))
    faults = []
    for number, (name, _) in enumerate(together):
        before = {int(rows[i]): int(first[i]) for i in again[file[again] == number]}
        faults += row_faults(
            list(before),
            lambda row, name=name, before=before: differs(
                name, "instance_id", "an instance that no other file has",
                f"that of {together[file[before[row]]][0]}, row {rows[before[row]] + 1}", row + 1,
                "leave the copy out, or give every instance its own name",
            ),
        )  # fmt: skip
    return faults


def check_to_fit(source: str, runs: Sequence[Runs]) -> list[Fault]:
    """List what a fit lacks: labelled bags of both classes."""
    labels = np.concatenate([r.labels for r in runs])
    found = {value: int(np.count_nonzero(labels == value)) for value in (0, 1)}
    if all(found.values()):
        return []
    known = sum(found.values())
    text = "no bag with a label" if not known else f"label {int(found[1] > 0)} only"
    return [
        Fault(
            file=source,
            column="label",
            expected="bags labelled 0 and bags labelled 1",
            found=text,
            remedy="label some bags of each class, or score these with a run that is fitted",
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
