"""Names of rows and of columns: made where there are none, and those of files that do not agree."""

from __future__ import annotations

import hashlib
import html
import itertools
import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.faults import Fault
from flows.tables.table import Table
from vbmodels.core.state import IntArray
from vbmodels.tables.levels import NO, YES


def seen_before(names: Sequence[str]) -> dict[int, int]:
    """Return the places of names that occur at an earlier place too, with their first place.

    Empty names are not compared.

    >>> seen_before(["a", "b", "", "a", ""])
    {3: 0}
    """
    codes = pa.array(names, pa.large_string()).dictionary_encode().indices.to_numpy()
    _, first = np.unique(codes, return_index=True)
    again = np.flatnonzero(first[codes] != np.arange(len(codes)))
    return {place: int(first[codes[place]]) for place in again.tolist() if names[place]}


def same_label(label: str, known: Collection[str]) -> str | None:
    """Return a known label that is the same but for its case, the same number, or the same answer.

    >>> same_label("Ill", ["ill", "well"]), same_label("2.0", ["1", "2"]), same_label("yes", ["1"])
    ('ill', '2', '1')
    """
    number = number_of(label)
    for name in known:
        if name.lower() == label.lower() or (number is not None and number_of(name) == number):
            return name
    sides = [side for side in (YES, NO) if label.lower() in side]
    if sides and all(name.lower() in (*YES, *NO) for name in known):
        return next((name for name in known if name.lower() in sides[0]), None)
    return None


def number_of(label: str) -> float | None:
    """Return the number that a label is; None where it is none."""
    try:
        number = float(label)
    except ValueError:
        return None
    return number if np.isfinite(number) else None


def row_names(rows: int, url: str, start: int) -> pa.Array:
    """Name rows without an id by their file and number.

    >>> row_names(2, "folder/a.csv", 9).to_pylist()
    ['a.csv:10', 'a.csv:11']
    """
    numbers = pa.array(np.arange(start + 1, start + rows + 1)).cast(pa.string())
    return pc.binary_join_element_wise(pa.scalar(file_name(url)), numbers, ":")


def file_name(url: str) -> str:
    """Return the last part of a URL, after which rows without a name are named."""
    return url.rstrip("/").rsplit("/", 1)[-1]


def in_files(urls: Sequence[str]) -> str:
    """Say where something is that is of all files.

    >>> in_files(["a.csv"]), in_files(["a.csv", "b.csv"])
    ('a.csv', '2 files')
    """
    return urls[0] if len(urls) == 1 else f"{len(urls)} files"


def option(name: str, value: str) -> str:
    """Return an option with its value as they are typed.

    >>> option("--exclude", "age"), option("--set", "categories=Alter (Jahre)")
    ('--exclude age', "--set 'categories=Alter (Jahre)'")
    """
    return f"{name} {shlex.quote(value)}"


def row_of(url: str, numbers: int | IntArray = 0) -> Callable[[int], str]:
    """Return what says where a row is.

    ``numbers``: of the rows in the file, from 0, or only that of the first.

    >>> row_of("folder/a.csv", 9)(1), row_of("a.csv", np.array([4, 7]))(1)
    ('row 11 of a.csv', 'row 8 of a.csv')
    """

    def where(row: int) -> str:
        number = numbers + row if isinstance(numbers, int) else numbers[row]
        return f"row {number + 1:,} of {file_name(url)}"

    return where


def digests_of(texts: Iterable[str]) -> IntArray:
    """Return a number of each text's own."""
    digests = (hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64)


def listed(names: Sequence[str], most: int = 20) -> str:
    """List names: of many the first ones, of a long one its beginning.

    >>> listed(["a", "b"]), listed(["a", "b", "c"], 2), len(listed(["a" * 3000]))
    ('a, b', 'a, b and 1 more', 80)
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(name if len(name) <= 80 else f"{name[:77]}..." for name in names[:most]) + more


_BREAKS = re.compile(r" [-|/] |: |\? |\. |\[")
# Characters that names of columns have in common, from which on they are cut.
LEAST_COMMON = 10


def shown_names(names: Sequence[str]) -> list[str]:
    """Return names of columns without tags, and without the question that several begin with.

    >>> shown_names(["<p>How do you rate &ndash; Price</p>", "How do you rate - Speed", "age"])
    ['Price', 'Speed', 'age']
    """
    plain = [html.unescape(re.sub("<[^<>]*>", " ", name)) for name in names]
    plain = [" ".join(name.replace("–", "-").replace("—", "-").split()) for name in plain]
    starts = [[name[: match.end()] for match in _BREAKS.finditer(name)] for name in plain]
    common = Counter(start for heads in starts for start in heads if len(start) >= LEAST_COMMON)
    endings = []
    for name, heads in zip(plain, starts, strict=True):
        start = max((s for s in heads if common[s] > 1), key=len, default="")
        rest = name[len(start) :].lstrip("- ")
        endings.append(rest.removesuffix("]") if start.endswith("[") else rest)
    counts = Counter(endings)
    best = zip(names, plain, endings, strict=True)
    return [rest if rest and counts[rest] == 1 else clean or name for name, clean, rest in best]


_FEW_NAMES = 3
"""Names in two files that are named one by one."""


def shared_names(table: Table, files: Sequence[str], names: Sequence[Sequence[str]]) -> list[Fault]:
    """List the rows whose name is in an earlier file too.

    Parameters
    ----------
    table
        What the files are.
    files
        Their names.
    names
        The names of the rows of each; none where they are named after their file.
    """
    once, remedy = "a name used once over all files", f"give every {table.row} its own name"
    faults = []
    if table.id is not None and not table.id.required:
        faults = _alike([file for file, ids in zip(files, names, strict=True) if not len(ids)])
    order = sorted(range(len(files)), key=lambda i: files[i])
    every = [name for i in order for name in names[i]]
    starts = np.cumsum([0, *(len(names[i]) for i in order)])
    again = seen_before(every)

    def of(place: int) -> int:
        return int(np.searchsorted(starts, place, side="right")) - 1

    def earlier(place: int) -> str:
        return files[order[of(again[place])]]

    for number, group in itertools.groupby(again, of):
        places, file = list(group), files[order[number]]
        column = None if table.id is None else table.id.name
        if len(places) > _FEW_NAMES:
            examples = ", ".join(repr(every[place]) for place in places[:_FEW_NAMES])
            others = sorted({earlier(place) for place in places})
            has = f"{others[0]} has" if len(others) == 1 else f"{len(others)} other files have"
            found = f"{len(places):,} names that {has} too: {examples}, ..."
            faults.append(Fault(file, once, found, column, remedy=remedy))
            continue
        faults += [
            Fault(
                file,
                once,
                f"{every[place]!r}, which {earlier(place)} has too",
                column,
                place - int(starts[number]) + 1,
                remedy,
            )
            for place in places
        ]
    return faults


def _alike(files: Sequence[str]) -> list[Fault]:
    """List files of equal names whose rows would be named alike, after their file."""
    first: dict[str, str] = {}
    return [
        Fault(
            file=file,
            column="id",
            expected="names of rows, or a file name of its own",
            found=f"none, and the file name of {before}",
            remedy="add a column id, or rename a file",
        )
        for file in files
        if (before := first.setdefault(file_name(file), file)) != file
    ]


def other_columns(
    files: Sequence[str], columns: Sequence[Collection[str]], labelled: bool = False
) -> list[Fault]:
    """List files with other columns than the first; ``labelled``: one may be a label."""
    faults = []
    for file, file_columns in zip(files[1:], columns[1:], strict=True):
        if odd := sorted(set(file_columns) ^ set(columns[0])):
            remedy, names = "give all files the same columns", ", ".join(odd[:5])
            lacks, has = (files[0], file) if set(odd) <= set(file_columns) else (file, files[0])
            expected, found = f"the columns of {has}", f"a difference in {names}"
            if len(odd) == 1:
                expected, found = "", f"no column {names}, which {has} has"
                if labelled:
                    remedy += f"; if {names} is the label, add --column label={names}"
            faults.append(Fault(lacks, expected, found, remedy=remedy))
    return faults
