"""Columns that every row of a file has: the file's name, and the cells of its line in a table.

Such a table has a line a file, as a list of slides with their labels and patients has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

CELLS = b"vbflows.cells"
"""Metadata of a table whose cells are text that is still to be parsed."""

_PACKED = (".gz", ".zst", ".bz2")
_LONGEST_ENDING = 8  # letters: what is behind a later full stop is part of a name


def stem_of(name: str) -> str:
    """Return a file's name without its folder, its ending and that of its compression.

    >>> stem_of("s3://slides/TCGA-3C.01.h5"), stem_of("p1.csv.gz"), stem_of("patient 1")
    ('TCGA-3C.01', 'p1', 'patient 1')
    """
    name = name.rstrip("/").rpartition("/")[2]
    for end in _PACKED:
        name = name.removesuffix(end)
    stem, dot, ending = name.rpartition(".")
    return stem if dot and len(ending) < _LONGEST_ENDING and not ending.isdigit() else name


@dataclass(frozen=True)
class Lines:
    """The lines of a table of files; cells in types and as text.

    Attributes
    ----------
    typed, texts
        The table.
    place
        The number of a line by what it alone may call its file: with or without folder and ending.
    repeats
        Whether two lines have one name.
    """

    typed: pa.Table
    texts: pa.Table
    place: Mapping[str, int]
    repeats: bool

    def place_of(self, url: str) -> int | None:
        """Return the number of a file's line, by most of its folders; None where it has none."""
        pieces = url.split("/")
        names = ("/".join(pieces[-count:]) for count in range(min(len(pieces), 5), 0, -1))
        numbers = (self.place.get(called) for name in (url, *names) for called in _called(name))
        return next((number for number in numbers if number is not None), None)


def _called(name: str) -> tuple[str, str]:
    """Return what a file may be called: its name as it is, and without its ending."""
    folder, slash, _ = name.rpartition("/")
    return name, f"{folder}{slash}{stem_of(name)}"


def lines_of(texts: pa.Table, key: str) -> Lines:
    """Return the lines of a table by its column of files' names; equal lines are one."""
    is_text = (texts.schema.metadata or {}).get(CELLS) == b"text"
    texts = texts.select([f.name for f in texts.schema if not pa.types.is_nested(f.type)])
    texts = texts.group_by(texts.column_names, use_threads=False).aggregate([])
    names = pc.utf8_trim_whitespace(texts[key].cast(pa.string())).to_pylist()
    numbers: dict[str, set[int]] = {}
    for number, name in enumerate(names):
        for called in _called(name or ""):
            for form in (called, called.rpartition("/")[2]):
                numbers.setdefault(form, set()).add(number)
    place = {name: min(those) for name, those in numbers.items() if name and len(those) == 1}
    typed = {n: _typed(texts[n]) if is_text else texts[n] for n in texts.column_names}
    plain = pa.table({name: texts[name].cast(pa.string()) for name in typed})
    return Lines(
        pa.table(typed), plain, place, repeats=len({*filter(None, names)}) < sum(map(bool, names))
    )


def _typed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of text as whole numbers, numbers or text; empty cells are missing."""
    cells = pc.if_else(pc.equal(column, ""), None, column)
    for kind in (pa.int64(), pa.float64()):
        try:
            numbers = cells.cast(kind)
        except pa.ArrowInvalid:
            continue
        if pa.types.is_floating(kind) or numbers.cast(pa.string()).equals(cells):  # 007 is text
            return numbers
    return cells
