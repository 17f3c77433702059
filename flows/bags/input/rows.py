"""Rows of bags: what the rows of a partition say of each bag, and what is wrong between them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flows.bags.input.labels import with_label
from flows.bags.schema import LABEL_NUMBER
from flows.tables.checks import MAX_ROWS, FileFaults, lengths_of
from vbmodels.core.state import FloatArray, IntArray

_NUMBERS = ["features", "bag_features"]
_NAMED = 3  # bags with two labels that are named; the rest is counted


@dataclass(frozen=True)
class FileRows:
    """Rows of one file without the numbers in them.

    Attributes
    ----------
    faults
        What takes faults in them.
    table
        Every column but ``features`` and ``bag_features``.
    lengths, own
        Numbers in these two of each row, -1 for null.
    prints
        Digest of each row's ``bag_features``.
    """

    faults: FileFaults
    table: pa.Table
    lengths: IntArray
    own: IntArray
    prints: IntArray

    @classmethod
    def of(cls, faults: FileFaults, table: pa.Table) -> FileRows:
        """Keep of rows what their check needs."""
        features, bag_features = (table[name].combine_chunks() for name in _NUMBERS)
        rest = table.drop_columns(_NUMBERS)
        return cls(
            faults, rest, lengths_of(features), lengths_of(bag_features), _prints(bag_features)
        )

    @property
    def kinds(self) -> tuple[IntArray, list[str]]:
        """The number of each row's modality, and their names."""
        return _codes(self.table, "modality")


def _codes(table: pa.Table, name: str) -> tuple[IntArray, list[str]]:
    codes = pc.fill_null(table[name], "").combine_chunks().dictionary_encode()
    return codes.indices.to_numpy(), codes.dictionary.to_pylist()


class BagRows:
    """Rows that a partition has of all files, in which every bag is whole.

    Attributes
    ----------
    files
        The rows of each.
    table
        All of them.
    file, row
        The file of each, and its number in it.
    number, names
        The number of its bag, and their names.
    between, across
        What is wrong by file between rows of a bag of one file, and of several.
    """

    def __init__(self, files: Sequence[FileRows]) -> None:
        self.files = files
        self.table = with_label(pa.concat_tables([file.table for file in files]))
        self.file = np.repeat(np.arange(len(files)), [len(file.table) for file in files])
        self.row = np.concatenate([np.asarray(file.faults.rows_of) for file in files])
        self.number, self.names = _codes(self.table, "bag_id")
        self.between, self.across = (
            [FileFaults(file.faults.file, self.row, file.faults.called) for file in files]
            for _ in range(2)
        )

    def check(self) -> tuple[FloatArray, IntArray]:
        """Report what is wrong between rows; return labels, and the rows of bags without features.

        Labels are those of the bags that have one.
        """
        without = self._compare_own()
        self._compare_classes()
        self._compare_instances()
        return self._labels(), without

    def report(
        self,
        rows: IntArray,
        column: str,
        expected: str | Callable[[int], str],
        found: str | Callable[[int], str],
        remedy: str,
        most: int = MAX_ROWS,
        across: bool = False,
    ) -> None:
        """Keep faults of rows with those of their files; ``across``: with another file's."""
        for k in np.unique(self.file[rows]).tolist():
            of_file = self.across[k] if across else self.between[k]
            of_file.add_rows(rows[self.file[rows] == k], column, expected, found, remedy, most)

    def bag(self, row: int) -> str:
        """Return the name of a row's bag, as a message has it."""
        return repr(self.names[self.number[row]])

    def place(self, row: int) -> str:
        """Say where a row is."""
        return f"{self.files[self.file[row]].faults.file}, row {self.row[row] + 1}"

    def others(self, values: NDArray[np.generic], known: IntArray) -> tuple[IntArray, IntArray]:
        """Return rows with another value than the first of their bag, of this and another file.

        Of another file, the first of each. ``known``: the rows with a value.
        """
        first = self.first(known)[self.number[known]]
        other = values[known] != values[first]
        same = self.file[known] == self.file[first]
        elsewhere = known[other & ~same]
        pair = self.number[elsewhere] * len(self.files) + self.file[elsewhere]
        return known[other & same], np.sort(elsewhere[np.unique(pair, return_index=True)[1]])

    def first(self, rows: IntArray) -> IntArray:
        """Return the first of some rows in every bag, -1 for none."""
        bags, position = np.unique(self.number[rows], return_index=True)
        first = np.full(len(self.names), -1)
        first[bags] = rows[position]
        return first

    def _report_files(self, rows: IntArray, known: IntArray, column: str, what: str) -> None:
        """Report rows that say something else of their bag than an earlier file does."""
        first = self.first(known)[self.number]
        self.report(
            rows,
            column,
            lambda row: f"those that bag {self.bag(row)} has in {self.place(first[row])}",
            "others",
            f"give a bag the same {what} in every file",
            across=True,
        )

    def _compare_classes(self) -> None:
        """Report rows that give their bag other classes than an earlier row does."""
        lists = self.table["labels"].to_pylist()
        known = np.flatnonzero(np.asarray(self.table["labels"].is_valid()))
        codes: dict[frozenset[str], int] = {}
        values = np.zeros(len(lists), np.int64)
        values[known] = [codes.setdefault(frozenset(lists[i]), len(codes)) for i in known.tolist()]
        here, elsewhere = self.others(values, known)
        self.report(
            here,
            "labels",
            "one list of classes a bag, the same in all its rows",
            lambda row: f"others for bag {self.bag(row)}",
            "repeat the bag's classes",
        )
        self._report_files(elsewhere, known, "labels", "labels")

    def _labels(self) -> FloatArray:
        """Return the labels of bags, positive where a bag has none and an instance's own is 1.

        Report other labels of a bag than its first, and instances that are labelled 1 in a bag that
        is labelled 0.
        """
        label = self._compare_labels("label")
        if LABEL_NUMBER.name in self.table.column_names:
            self._compare_labels(LABEL_NUMBER.name)
        else:
            positive = positive_instances(self.table)
            self.report(
                positive[label[self.number[positive]] == 0],
                "instance_label",
                lambda row: f"0 or null, as bag {self.bag(row)} has the label 0",
                "1",
                "correct the instance's label, or its bag's",
            )
            label[self.number[positive]] = np.fmax(label[self.number[positive]], 1.0)
        return label

    def _compare_labels(self, column: str) -> FloatArray:
        """Return every bag's label, NaN without; report the first row that gives it another one."""
        label = self.table[column].cast(pa.float64()).fill_null(np.nan).to_numpy() + 0.0
        known = np.flatnonzero(~np.isnan(label))
        first = self.first(known)
        remedy = "give every bag one label"
        here, elsewhere = self.others(label, known)
        once = np.sort(here[np.unique(self.number[here], return_index=True)[1]])
        self.report(
            once,
            "label",
            lambda row: f"{label[first[self.number[row]]]:g}, as before for bag {self.bag(row)}",
            lambda row: f"{label[row]:g}",
            remedy,
            _NAMED,
        )

        def expected(row: int) -> str:
            before = int(first[self.number[row]])
            file = self.files[self.file[before]].faults.file
            return f"{label[before]:g}, bag {self.bag(row)} in {file}"

        self.report(
            elsewhere, "label", expected, lambda row: f"{label[row]:g}", remedy, across=True
        )
        return np.where(first < 0, np.nan, label[first])

    def _compare_own(self) -> IntArray:
        """Report rows with other bag_features than their bag; return those of bags without."""
        known = np.flatnonzero(np.concatenate([file.own for file in self.files]) >= 0)
        here, elsewhere = self.others(np.concatenate([file.prints for file in self.files]), known)
        self.report(
            here,
            "bag_features",
            "the same numbers in all rows of a bag",
            "others",
            "repeat the bag's features, or give them once",
        )
        self._report_files(elsewhere, known, "bag_features", "features")
        return np.flatnonzero(~np.isin(self.number, self.number[known]))

    def _compare_instances(self) -> None:
        """Report rows whose instance has the name of an earlier one of its bag and modality."""
        named = np.flatnonzero(np.asarray(self.table["instance_id"].is_valid()))
        ids, names = _codes(self.table, "instance_id")
        columns = [self.number, _codes(self.table, "modality")[0], ids]
        _, first, key = np.unique(
            np.stack(columns, 1)[named], axis=0, return_index=True, return_inverse=True
        )
        before = np.zeros(len(ids), np.int64)
        before[named] = named[first[key]]
        again = named[before[named] != named]
        same = self.file[again] == self.file[before[again]]
        self.report(
            again[same],
            "instance_id",
            "a name used once in its bag and modality",
            lambda row: f"{names[ids[row]]!r}, which row {self.row[before[row]] + 1} has too",
            "give every instance its own name",
        )
        self.report(
            again[~same],
            "instance_id",
            "an instance that no other file has",
            lambda row: f"that of {self.place(before[row])}",
            "leave the copy out, or give every instance its own name",
            across=True,
        )


def _prints(column: pa.ListArray) -> NDArray[np.int64]:
    """Digest every row's numbers; 0.0 and -0.0 are the same number."""
    values = np.nan_to_num(column.flatten().to_numpy(zero_copy_only=False)) + 0.0
    ends = np.cumsum(np.maximum(lengths_of(column), 0))
    digests = (
        hashlib.blake2b(values[a:b].tobytes(), digest_size=8).digest()
        for a, b in zip(np.concatenate([[0], ends[:-1]]), ends, strict=True)
    )
    return np.frombuffer(b"".join(digests), np.int64)


def positive_instances(table: pa.Table) -> IntArray:
    """Return the rows of instances that are labelled 1."""
    return np.flatnonzero(pc.fill_null(table["instance_label"].cast(pa.int8()), -1).to_numpy() == 1)
