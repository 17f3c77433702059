"""Tables in other formats than Parquet: read once on each machine, and kept there as Parquet.

CSV and its relatives become columns of text; what the text stands for is for the declared table
to say (`flows.data.reading`). The conversion stands among the staged copies (see
`flows.data.storage.staging`), so every process of the machine shares it, and a file that changes
is read anew.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv as pc
import pyarrow.json as pj
import pyarrow.parquet as pq

from flows.data.storage import arrays, text_documents
from flows.data.storage.access import arrow
from flows.data.storage.errors import StorageError, storage_errors
from flows.data.storage.expansion import Expansion
from flows.data.storage.inputs import size_of
from flows.data.storage.retry import expect, persistent
from flows.data.storage.staging import made

_UNNAMED = b"vbflows.unnamed"

CELLS = b"vbflows.cells"
"""Metadata of a table whose cells are text that is still to be read as what it stands for."""

MISSING = ("", "NA", "NaN", "nan", "null", "NULL")
"""What stands for a missing cell in text."""

CSV_BLOCK = 2**20  # bytes that are parsed at once; Arrow reads some 30 ahead
JSON_BLOCK = 2**24  # bytes; the first ones decide what the columns hold
GROUP = 2**24  # bytes of a row group, decoded
ROWS = 2**16  # of a row group
HEADER = 2**20  # bytes of the longest first line
_PACKED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
_SEPARATORS = (",", "\t", ";", "|")
_DOCUMENTS = text_documents.SUFFIXES
_MOST_DOCUMENT = 64 * 2**20  # bytes of one document

SUFFIXES = (
    ".parquet",
    *(end + packed for end in (".csv", ".tsv", ".jsonl", ".ndjson") for packed in ("", *_PACKED)),
    ".arrow",
    ".feather",
)
"""Endings of files that hold tables."""

DOCUMENTS = _DOCUMENTS
"""Endings of files that hold one document each: a table of one row."""

ARRAYS = arrays.SUFFIXES
"""Endings of files of arrays: bags, or one table of them."""


@dataclass(frozen=True)
class Unnamed:
    """Columns of a CSV whose cell of the header is blank.

    Attributes
    ----------
    named
        The names by which those with a value are read.
    dropped
        How many have no value, and are not read.
    """

    named: tuple[str, ...] = ()
    dropped: int = 0


def unnamed_columns(url: str) -> Unnamed:
    """Return what became of a table's columns without a name; of other formats than CSV nothing."""
    path = as_parquet(url)
    if path == url:
        return Unnamed()
    found = (pq.read_schema(path).metadata or {}).get(_UNNAMED)
    if found is None:
        return Unnamed()
    plain = json.loads(found)
    return Unnamed(tuple(plain["named"]), plain["dropped"])


def as_parquet(url: str) -> str:
    """Return the URL itself of a Parquet file, or the path of a conversion on this machine.

    Raises
    ------
    StorageError
        If the file is not what its name says, or there is no room for the conversion.
    """
    stem, packing = _unpacked(url)
    end = stem[stem.rfind(".") :].lower() if "." in stem.rpartition("/")[2] else ""
    convert = _CONVERSIONS.get(end)
    if convert is None or (packing and end not in (".csv", ".tsv", ".jsonl", ".ndjson")):
        return url

    def make(path: str) -> None:
        persistent("read", url, lambda: convert(url, packing, path))

    return made(url, "as Parquet, columns named", make, ".parquet")


def _unpacked(url: str) -> tuple[str, str | None]:
    """Return a name without the ending of its compression, and that compression."""
    for end, codec in _PACKED.items():
        if url.lower().endswith(end):
            return url[: -len(end)], codec
    return url, None


def _opened(url: str, packing: str | None) -> Any:
    fs, path = arrow(url)
    return fs.open_input_stream(path, compression=packing)


def _csv(url: str, packing: str | None, path: str) -> None:
    with storage_errors("read", url):
        try:
            with _opened(url, packing) as stream:
                header, encoding = _first_line(stream)
            separator = _separator(url, header)
            lines = pc.ParseOptions(delimiter=separator, newlines_in_values=True)
            read = pc.ReadOptions(block_size=CSV_BLOCK, encoding=encoding)
            names = _header(url, packing, read, lines, header)
            # Where there is one column only, an empty line is a missing cell.
            lines.ignore_empty_lines = len(names) > 1
            metadata = {CELLS: b"text"}
            blank = not all(name.strip() for name in names)
            if not header.strip() and (len(names) == 1 or blank):
                raise _without_header(url)
            if blank:
                read, names, unnamed = _named(url, packing, read, lines, names)
                metadata[_UNNAMED] = json.dumps(asdict(unnamed)).encode()
            with (
                _opened(url, packing) as stream,
                pc.open_csv(stream, read, lines, _text(names)) as reader,
            ):
                batches = _limited(url, packing, reader)
                _write(path, reader.schema.with_metadata(metadata), batches)
        except pa.ArrowInvalid as error:
            raise _not(url, "CSV", error) from error


def _without_header(url: str) -> StorageError:
    return StorageError(
        f"cannot read {url} as CSV: expected the names of the columns in its first line, found an "
        "empty one; remove it"
    )


def _header(
    url: str, packing: str | None, read: pc.ReadOptions, lines: pc.ParseOptions, first: str
) -> list[str]:
    """Return the cells of a CSV's header."""
    try:
        with _opened(url, packing) as stream, pc.open_csv(stream, read, lines) as reader:
            return list(reader.schema.names)
    except pa.ArrowInvalid:
        cells = next(csv.reader([first], delimiter=lines.delimiter), [])
        if len(cells) < 2 or cells[-1].strip():
            raise
        return cells  # it ends with a separator, as the lines may not


def _text(names: list[str]) -> pc.ConvertOptions:
    """Return how to read columns of a CSV: these, all as text."""
    return pc.ConvertOptions(
        null_values=list(MISSING),
        strings_can_be_null=True,
        column_types=dict.fromkeys(names, pa.string()),
        include_columns=names,
    )


def _named(
    url: str, packing: str | None, read: pc.ReadOptions, lines: pc.ParseOptions, header: list[str]
) -> tuple[pc.ReadOptions, list[str], Unnamed]:
    """Name the columns of a CSV whose header leaves some blank; those without a value go.

    Returns
    -------
    read
        How to read the file by these names.
    kept
        The names of the columns that stay.
    unnamed
        What became of those without a name.
    """
    names: list[str] = []
    for number, name in enumerate(header, 1):
        new = name if name.strip() else f"column {number}"
        while not name.strip() and new in (*header, *names):
            new += "_"
        names.append(new)
    blank = [new for name, new in zip(header, names, strict=True) if not name.strip()]

    def with_values(names: list[str], blank: list[str]) -> set[str]:
        by_name = _by_name(read, names)
        with (
            _opened(url, packing) as stream,
            pc.open_csv(stream, by_name, lines, _text(blank)) as reader,
        ):
            return {name for batch in reader for name in blank if _holds(batch[name])}

    if blank == names:
        raise StorageError(
            f"cannot read {url} as CSV: expected the names of the columns in its first line, "
            "found none; write them there"
        )
    try:
        filled = with_values(names, blank)
    except pa.ArrowInvalid:
        # The header ends with a separator that the lines do not have.
        short = names[: max(i for i, name in enumerate(header) if name.strip()) + 1]
        if len(short) == len(names):
            raise
        names, there = short, [name for name in blank if name in short]
        filled = with_values(names, there) if there else set()
    kept = [name for name in names if name not in blank or name in filled]
    named = tuple(name for name in blank if name in filled)
    return _by_name(read, names), kept, Unnamed(named, len(blank) - len(named))


def _by_name(read: pc.ReadOptions, names: list[str]) -> pc.ReadOptions:
    return pc.ReadOptions(
        block_size=read.block_size,
        encoding=read.encoding,
        column_names=names,
        skip_rows_after_names=1,
    )


def _holds(cells: pa.Array) -> bool:
    """Whether some cell has more than blanks."""
    text = pa.compute.utf8_trim_whitespace(cells)
    return bool(pa.compute.any(pa.compute.not_equal(text, "")).as_py())


def _first_line(stream: Any) -> tuple[str, str]:
    """Return the first line of a text, and its encoding: UTF-8, or UTF-16 with its mark."""
    data = stream.read(HEADER)
    wide = data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    encoding = "utf-16" if wide else "utf-8"
    text = io.TextIOWrapper(
        io.BytesIO(data), encoding="utf-16" if wide else "utf-8-sig", errors="replace"
    )
    return text.readline(), encoding


def _separator(url: str, header: str) -> str:
    """Return what sets the columns apart: what the first line, outside of quotes, has most of."""
    outside = "".join(header.split('"')[::2])
    counts = {mark: outside.count(mark) for mark in _SEPARATORS}
    if not any(counts.values()) and _unpacked(url)[0].lower().endswith(".tsv"):
        return "\t"
    return max(_SEPARATORS, key=lambda mark: counts[mark])


def _json(url: str, packing: str | None, path: str) -> None:
    blocks = pj.ReadOptions(block_size=JSON_BLOCK)
    with storage_errors("read", url):
        try:
            with _opened(url, packing) as stream, pj.open_json(stream, blocks) as reader:
                schema = pa.schema([_plain(field) for field in reader.schema])
            parse = pj.ParseOptions(explicit_schema=schema, newlines_in_values=False)
            with _opened(url, packing) as stream, pj.open_json(stream, blocks, parse) as reader:
                _write(path, reader.schema, _limited(url, packing, reader))
        except pa.ArrowInvalid as error:
            raise _not(url, "JSON lines", error) from error


def _plain(field: pa.Field) -> pa.Field:
    """Take for text what Arrow takes for a time, or saw no value of."""
    kind = field.type
    if pa.types.is_timestamp(kind) or pa.types.is_null(kind):
        return field.with_type(pa.string())
    if pa.types.is_list(kind) and (
        pa.types.is_timestamp(kind.value_type) or pa.types.is_null(kind.value_type)
    ):
        return field.with_type(pa.list_(pa.string()))
    return field


def _arrow(url: str, _: str | None, path: str) -> None:
    with storage_errors("read", url):
        fs, name = arrow(url)
        try:
            with fs.open_input_file(name) as file:
                reader = pa.ipc.open_file(file)
                batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
                _write(path, reader.schema, _limited(url, "buffers", _sound(batches)))
        except pa.ArrowInvalid:
            try:
                with (
                    fs.open_input_stream(name, compression=None) as stream,
                    pa.ipc.open_stream(stream) as reader,
                ):
                    _write(path, reader.schema, _limited(url, "buffers", _sound(reader)))
            except pa.ArrowInvalid as error:
                raise _not(url, "an Arrow file", error) from error


def _limited(
    url: str, packing: str | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Refuse a compressed file that grows beyond its limit."""
    expansion = None if packing is None else Expansion(url, size_of(url))
    for batch in batches:
        if expansion is not None:
            expansion.add(batch.nbytes)
        yield batch


def _sound(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Refuse batches whose offsets point outside of them: Arrow trusts a file's own."""
    for batch in batches:
        batch.validate(full=True)
        yield batch


def _document(url: str, _: str | None, path: str) -> None:
    with storage_errors("read", url):
        fs, name = arrow(url)
        with fs.open_input_stream(name, compression=None) as stream:
            data = stream.read(_MOST_DOCUMENT + 1)
        if len(data) > _MOST_DOCUMENT:
            raise StorageError(
                f"cannot read {url} as one document: expected at most {_MOST_DOCUMENT >> 20} MiB; "
                "cut it into several files, or write a table of documents"
            )
        text = text_documents.text_of(url, data)
    table = pa.table({"doc_id": [url], "text": [text]})
    pq.write_table(table, path)


def _arrays(url: str, _: str | None, path: str) -> None:
    end = url[url.rindex(".") :].lower()
    with arrays.opened(url, end) as (schema, batches):
        _write(path, schema, batches)


def _write(path: str, schema: pa.Schema, batches: Any) -> None:
    """Write batches as Parquet, in row groups of some ``GROUP`` bytes and at most ``ROWS`` rows."""
    held: list[pa.RecordBatch] = []
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            expect()
            held.append(batch.replace_schema_metadata(schema.metadata))
            if sum(b.nbytes for b in held) >= GROUP:
                writer.write_table(pa.Table.from_batches(held, schema), ROWS)
                held.clear()
        writer.write_table(pa.Table.from_batches(held, schema), ROWS)


def _not(url: str, what: str, error: Exception) -> StorageError:
    if "UTF8" in str(error):
        return StorageError(f"cannot read {url}: its text is not UTF-8; write it again in UTF-8")
    return StorageError(f"cannot read {url} as {what}: {error}")


_CONVERSIONS: dict[str, Callable[[str, str | None, str], None]] = {
    ".csv": _csv,
    ".tsv": _csv,
    ".jsonl": _json,
    ".ndjson": _json,
    ".arrow": _arrow,
    ".feather": _arrow,
    **dict.fromkeys(_DOCUMENTS, _document),
    **dict.fromkeys(arrays.SUFFIXES, _arrays),
}
