"""Tables in text: what sets columns apart, which line has their names, in which encoding.

Columns stay text; what the text is read as is for the declared table to say
(`flows.tables.reading`). What was found out and is not plain is noted with the table.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from flows.faults import unclosed
from flows.storage.errors import StorageError, cannot_read
from flows.storage.file_options import file_options
from flows.storage.formats.encodings import (
    encoding_of,
    guess,
    lines_in_utf8,
    refuse_unknown,
    words_of,
)

MISSING = ("", "NA", "NaN", "nan", "null", "NULL")
"""Cells of text that are missing whatever the table; of numbers and categories more words are."""
BLOCK = 2**20  # bytes that are parsed at once; Arrow reads some 30 ahead
HEADER = 2**20  # bytes of the longest first lines
SEPARATORS = (",", "\t", ";", "|")
_LINES = 50  # that are looked at to find out what sets columns apart
_MOST_TITLE = 20  # lines above the header
_SHOWN = 5  # names in a note
_PACKERS = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"PK\x03\x04": "ZIP",
}


@dataclass(frozen=True)
class Layout:
    """How a file of text has its table.

    Attributes
    ----------
    encoding, separator
        Of the text; of its columns, a blank for runs of them.
    skipped
        Lines above the header.
    below
        Rows below the header that are not read.
    names
        Of the columns; "" where one has none.
    notes
        What was found out and is not plain, as ends of sentences.
    """

    encoding: str
    separator: str
    skipped: int
    below: int
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass
class TextTable:
    """A table in text: its schema, batches of its rows, and notes on how it was read."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    notes: list[str] = field(default_factory=list)
    separator: str = ","


Opener = Callable[[], Any]
"""Opens the file's bytes, decompressed."""


def convert(url: str, opened: Opener, write: Callable[[TextTable], None]) -> None:
    """Write a table in text by a function, again in another encoding where it is not UTF-8.

    Raises
    ------
    StorageError
        If it is no table.
    pyarrow.ArrowInvalid
        If lines have different numbers of cells, or bytes are no text.
    """
    options = file_options()
    if options.encoding is not None:
        refuse_unknown(url, options.encoding)
    with opened() as stream:
        data = stream.read(HEADER)
    if not data.strip():
        raise cannot_read(url, "it is empty", "CSV")
    for mark, packer in _PACKERS.items():
        if data.startswith(mark):
            raise cannot_read(
                url,
                f"it is compressed by {packer}; unpack it, or name it "
                ".csv.gz, .csv.bz2 or .csv.zst",
                "CSV",
            )
    encoding = codecs.lookup(options.encoding).name if options.encoding else encoding_of(data)
    try:
        if encoding == "utf-8":  # Arrow does not check the header
            codecs.getincrementaldecoder(encoding)().decode(data)
        write(_read(url, opened, data, encoding, ()))
        return
    except (pa.ArrowInvalid, UnicodeError) as error:
        if options.encoding is not None or not (
            isinstance(error, UnicodeError) or "UTF8" in str(error)
        ):
            raise
    with opened() as stream:
        some = stream.read(16 * HEADER)
    encoding = guess(some)
    mixed, letters = lines_in_utf8(some)
    words = ", ".join(words_of(some, encoding))
    such = f", such as {words}" if words else ""
    notes = [f"not UTF-8, read as {encoding}{such}; for another pass --encoding NAME"]
    if mixed:
        notes.append(
            f"{mixed:,} of its {letters:,} lines with letters beyond a to z are UTF-8, others "
            "not: write it again in one encoding"
        )
    write(_read(url, opened, data, encoding, tuple(notes)))


def _read(
    url: str, opened: Opener, data: bytes, encoding: str, notes: tuple[str, ...]
) -> TextTable:
    layout = layout_of(url, data, encoding)
    layout = replace(layout, notes=(*notes, *layout.notes))
    if layout.separator == " ":
        opened, layout = _tabbed(opened, encoding, layout)
    names = list(layout.names)
    if not any(name.strip() for name in names):
        raise _without_names(url, bool(names))
    whole = all(name.strip() for name in names)
    table = _table(opened, layout, names, names) if whole else _with_named(opened, layout)
    return replace(table, batches=_with_closed_quotes(url, opened, layout, table.batches))


def _table(opened: Opener, layout: Layout, names: list[str], kept: list[str]) -> TextTable:
    """Return the columns of these names; some are kept."""
    stream = opened()
    reader = _reader(stream, layout, names, kept)
    notes = list(layout.notes)
    return TextTable(reader.schema, _closing(stream, reader), notes, layout.separator)


def _closing(stream: Any, reader: Any) -> Iterator[pa.RecordBatch]:
    with stream, reader:
        yield from reader


def _with_closed_quotes(
    url: str, opened: Opener, layout: Layout, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Refuse a file in which lines are one cell because a quote before them is not closed.

    Only a file with such a cell, which ends in a quote or with the file, is looked through.
    """
    cells, joined = pa.array([], pa.string()), False
    for batch in batches:
        cells = pa.concat_arrays(batch.columns)
        ends = cells.filter(pc.ends_with(cells, '"'))
        joined |= any("\n" in cell and cell.count('"') % 2 for cell in ends.to_pylist())
        yield batch
    if len(cells) and "\n" in (cells[-1].as_py() or ""):
        with opened() as stream:
            end = deque(iter(partial(stream.read, BLOCK), b""), maxlen=1).pop()
        joined |= end.replace(b"\0", b"").rstrip()[-1:] != b'"'
    if joined:
        with opened() as stream:
            text = stream.read().decode(layout.encoding, errors="replace")
        in_cell = rf"[^{layout.separator}\r\n]"
        quoted = rf'(?<!{in_cell})"(?:[^"]|"")*+"(?!{in_cell})'
        rest = re.sub(quoted, lambda cell: "\n" * cell[0].count("\n"), text)
        if quote := re.search(rf'(?<!{in_cell})"{in_cell}{{0,40}}', rest):
            number = rest.count("\n", 0, quote.start()) + 1
            raise cannot_read(url, f"{unclosed(quote[0])}, line {number:,}", "CSV")


def _reader(stream: Any, layout: Layout, names: list[str], kept: list[str]) -> Any:
    in_memory = isinstance(stream, pa.BufferReader)  # threads would cost more than they save
    read = pcsv.ReadOptions(
        use_threads=not in_memory,
        block_size=BLOCK,
        encoding="utf-8" if layout.encoding == "utf-8" else layout.encoding,
        column_names=names,
        skip_rows=layout.skipped,
        skip_rows_after_names=1 + layout.below,
    )
    lines = pcsv.ParseOptions(
        delimiter=layout.separator,
        newlines_in_values=True,
        # Where there is one column only, an empty line is a missing cell.
        ignore_empty_lines=len(names) > 1,
    )
    convert = pcsv.ConvertOptions(
        null_values=list(MISSING),
        strings_can_be_null=True,
        column_types=dict.fromkeys(names, pa.string()),
        include_columns=kept,
    )
    if in_memory:
        return pcsv.read_csv(stream, read, lines, convert).to_reader()
    return pcsv.open_csv(stream, read, lines, convert)


def _with_named(opened: Opener, layout: Layout) -> TextTable:
    """Name the columns whose name is blank; those without a value are not read."""
    names: list[str] = []
    for number, name in enumerate(layout.names, 1):
        new = name if name.strip() else f"column {number}"
        while not name.strip() and new in (*layout.names, *names):
            new += "_"
        names.append(new)
    blank = [new for name, new in zip(layout.names, names, strict=True) if not name.strip()]
    try:
        filled = _filled(opened, layout, names, blank)
    except pa.ArrowInvalid:
        # The header ends with separators that the lines do not have.
        last = max(i for i, name in enumerate(layout.names) if name.strip())
        if last + 1 == len(names):
            raise
        names = names[: last + 1]
        there = [name for name in blank if name in names]
        filled = _filled(opened, layout, names, there) if there else set()
    kept = [name for name in names if name not in blank or name in filled]
    table = _table(opened, layout, names, kept)
    named = [name for name in blank if name in filled]
    return replace(table, notes=[*table.notes, *_on_unnamed(named, len(blank) - len(named))])


def _filled(opened: Opener, layout: Layout, names: list[str], blank: list[str]) -> set[str]:
    """Return which of some columns have a value."""
    with opened() as stream, _reader(stream, layout, names, blank) as reader:
        return {
            name
            for batch in reader
            for name in blank
            if pc.any(pc.not_equal(pc.utf8_trim_whitespace(batch[name]), "")).as_py()
        }


def _on_unnamed(named: Sequence[str], dropped: int) -> list[str]:
    notes = []
    if n := len(named):
        listed = ", ".join(named[:_SHOWN]) + (", ..." if n > _SHOWN else "")
        what, them = ("1 column has", "it") if n == 1 else (f"{n:,} columns have", "them")
        calls = "is" if n == 1 else "are"
        notes.append(
            f"{what} no name and {calls} called {listed} here; name {them} in the first line, or "
            f"remove {them}"
        )
    if dropped:
        notes.append(f"columns without a name or values are not read: {dropped:,}")
    return notes


def _without_names(url: str, some: bool) -> StorageError:
    found = "none; write them there" if some else "an empty one; remove it"
    return cannot_read(
        url, f"expected the names of the columns in its first line, found {found}", "CSV"
    )


def layout_of(url: str, data: bytes, encoding: str) -> Layout:
    """Find out how a file of text has its table, by its first lines."""
    text = data.decode("utf-8-sig" if encoding == "utf-8" else encoding, errors="replace")
    lines = [line.rstrip("\r\n") for line in _lines(text)[:_LINES]]
    blank = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
    if lines and blank == len(lines):
        raise _without_names(url, False)
    if re.fullmatch("sep=.?", lines[blank] if lines else ""):  # by Excel
        blank += 1
    separator = _separator(url, lines[blank:])
    skipped = blank + _lines_above(lines[blank:], separator)
    notes = []
    groups = _groups(lines[skipped:], separator)
    skipped += bool(groups)
    if skipped:
        what, verb = ("1 line", "is") if skipped == 1 else (f"{skipped} lines", "are")
        such = f", with headings of several columns ({', '.join(groups)})" if groups else ""
        notes.append(f"{what} above the names of the columns {verb} not read{such}")
    body = text if not skipped else "".join(_lines(text)[skipped:])
    header, *rows = _rows(body, separator)
    names = [name.strip() if separator == " " else name for name in header]
    longer = [row for row in rows if len(row) > len(names)]
    if rows and len(longer) == len(rows) and all(len(row) == len(names) + 1 for row in rows):
        if all(not row[-1].strip() for row in rows):
            names.append("")
        else:
            names.insert(0, "row")
            notes.append("its lines have one cell more than names: the first is called row here")
    if separator == " ":
        notes.append("its columns are set apart by blanks")
    below, why = file_options().skip_rows, ""
    if below is None:
        below, why = _survey_rows(rows), ", a survey's questions (--set skip_rows=0 reads them)"
    if below:
        notes.append(f"rows below the header that are not read: {below}{why}")
    return Layout(encoding, separator, skipped, below, tuple(names), tuple(notes))


def _lines(text: str) -> list[str]:
    """Return lines with their ends, as Arrow has them: a page break or U+2028 ends none."""
    return io.StringIO(text, newline="").readlines()


def _rows(text: str, separator: str) -> list[list[str]]:
    """Return the cells of the first lines."""
    if separator == " ":
        return [re.findall(r'"[^"]*"|\S+', line) for line in _lines(text)[:_LINES]]
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator):
            rows.append(row)
            if len(rows) == _LINES:
                break
    except csv.Error:
        pass
    return [row for i, row in enumerate(rows[:-1] or rows) if i == 0 or row] or [[]]


def _survey_rows(rows: Sequence[Sequence[str]]) -> int:
    """Return how many rows below the header are a survey's questions and codes of import."""
    codes = [i for i, row in enumerate(rows[:3]) if sum("ImportId" in cell for cell in row) > 1]
    if codes:
        return codes[0] + 1
    below = {(i, cell.strip()) for row in rows[1:] for i, cell in enumerate(row)}
    first = enumerate(cell.strip() for cell in rows[0]) if rows else ()
    return int(any(cell in _RESPONSES and (i, cell) not in below for i, cell in first))


_RESPONSES = ("Response", "Open-Ended Response")  # what SurveyMonkey writes below a question
_LONG_NAME = 100  # characters of a cell that is no column's name
_QUOTED = re.compile(r'(?<![^,;|\t\n])"(?:[^"]|"")*"')
_COMMA = re.compile(r"\s*[-+]?\d+(,\d+)?\s*")


def _separator(url: str, lines: Sequence[str]) -> str:
    """Return what sets the columns apart: what lines outside of quotes have equally often."""
    outside = _unquoted([line for line in lines if line.strip()])
    times = {mark: [line.count(mark) for line in outside] for mark in SEPARATORS}
    usual = {
        mark: max(Counter(n for n in counts if n).most_common(1) or [(0, 0)], key=lambda p: p[1])
        for mark, counts in times.items()
    }
    regular = {mark: alike for mark, (_, alike) in usual.items()}
    in_header = [mark for mark in SEPARATORS if times[mark][0]]
    best = max(
        in_header, default="", key=lambda mark: (times[mark].count(times[mark][0]), times[mark][0])
    )
    other = max(SEPARATORS, key=lambda mark: regular[mark])
    if other == "," and not best and all(_COMMA.fullmatch(line) for line in outside[1:]):
        return ";"  # one column of numbers with decimal commas
    if regular[other] > max(0.7 * len(outside), regular.get(best, 0), 2):
        # One column of long texts that happen to have a mark each is no table below a title.
        below = next((line for line in outside if other in line), "")
        return other if best or max(map(len, below.split(other))) < _LONG_NAME else ","
    if best:
        return best
    if url.lower().removesuffix(".gz").endswith((".tsv", ".tab")):
        return "\t"
    cells = [len(line.split()) for line in outside]
    body = set(cells[1:-1])
    many = len(cells) > 3 and cells[0] > 1 and '"' not in lines[0]
    return " " if many and len(body) == 1 and body <= {cells[0], cells[0] + 1} else ","


def _unquoted(lines: Sequence[str]) -> list[str]:
    """Return lines without quoted cells; one with breaks joins its lines."""
    return _QUOTED.sub("", "\n".join(lines)).split("\n")


def _lines_above(lines: Sequence[str], separator: str) -> int:
    """Return how many lines above the header are a title or comments."""
    if separator == " ":
        return 0
    times = [line.count(separator) for line in _unquoted(lines)]
    commented = 0
    while commented < min(len(lines), _MOST_TITLE) and lines[commented].startswith("#"):
        commented += 1
    usual = Counter(times[commented:]).most_common(1)
    if not usual or usual[0][0] < 1 or usual[0][1] * 2 < len(times) - commented:
        return commented if commented and commented < len(lines) else 0
    skipped = commented
    while skipped < min(len(times) - 1, _MOST_TITLE) and (
        times[skipped] == 0 or _is_title(lines[skipped].split(separator))
    ):
        skipped += 1
    is_header = times[skipped] and not _is_title(lines[skipped].split(separator))
    return skipped if is_header and skipped < _MOST_TITLE else commented


def _is_title(cells: Sequence[str]) -> bool:
    """Whether a line of at least three cells has a text in its first alone, or nothing."""
    return len(cells) > 2 and not any(cell.strip() for cell in cells[1:])


def _groups(lines: Sequence[str], separator: str) -> list[str]:
    """Return the headings of a line above the names that were merged over several columns.

    Most of its cells are empty, the line below has names in their place, and numbers are below.
    """
    if separator == " ":
        return []
    try:
        rows = list(csv.reader(lines, delimiter=separator))
    except csv.Error:  # a cell of more than 128 kB
        return []
    if len(rows) < 3:
        return []
    first, second, *body = ([cell.strip() for cell in row] for row in rows)
    headings, names = [cell for cell in first if cell], [cell for cell in second if cell]
    named = len(headings) > 1 and len(names) > max(2 * len(headings), len(headings) + 2)
    below = any(_NUMBER.fullmatch(cell) for row in body for cell in row)
    return headings if named and below and not any(map(_NUMBER.fullmatch, names)) else []


_NUMBER = re.compile(r"[-+]?[\d.,]*\d[\d.,]*")


def _tabbed(opened: Opener, encoding: str, layout: Layout) -> tuple[Opener, Layout]:
    """Return a file whose columns are set apart by blanks with tabs in their place."""
    with opened() as stream:
        text = stream.read().decode("utf-8-sig" if encoding == "utf-8" else encoding)
    lines = ("\t".join(re.findall(r'"[^"]*"|\S+', line)) for line in _lines(text))
    data = "\n".join(lines).encode()
    return lambda: pa.BufferReader(data), replace(layout, encoding="utf-8", separator="\t")
