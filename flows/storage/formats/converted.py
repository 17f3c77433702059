"""Tables in other formats than Parquet: read once on each machine, and kept there as Parquet.

CSV and its relatives become columns of text; what the text stands for is for the declared table
to say (`flows.tables.reading`). The conversion is among the staged copies (see
`flows.storage.objects.staging`), so every process of the machine shares it, and a file that changes
is read again.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq

from flows.faults import install_command
from flows.settings.base import FILE, FOLDER
from flows.storage.errors import StorageError, cannot_read
from flows.storage.file_options import (
    NOTES,
    FileOptions,
    FileTable,
    file_options,
    reading_with,
)
from flows.storage.formats import arrays, text_documents, text_files, workbooks
from flows.storage.formats.file_columns import CELLS, Lines, lines_of, stem_of
from flows.storage.objects.access import arrow, filesystem
from flows.storage.objects.contents import listed_file, small_content, version_of
from flows.storage.objects.inputs import fingerprint_of, refuse_changed, size_of
from flows.storage.objects.retry import asks_storage, expect
from flows.storage.objects.staging import Expansion, local_copy, make_once
from flows.storage.objects.store import fetch
from flows.storage.objects.urls import is_local

SEPARATOR = b"vbflows.separator"
"""Metadata of a table that was text: what sets its columns apart."""

JSON_BLOCK = 2**24  # bytes; the first ones decide what the columns hold
GROUP = 2**24  # bytes of a row group, decoded
ROWS = 2**16  # of a row group
_PACKED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
_MOST_DOCUMENT = 64 * 2**20  # bytes of one document
_ARRAY = "an array in JSON"
_MOST_ARRAY = 2**27  # bytes of an array in JSON

SUFFIXES = (
    ".parquet",
    *(end + packed for end in (".csv", ".tsv", ".jsonl", ".ndjson") for packed in ("", *_PACKED)),
    ".arrow",
    ".feather",
    *workbooks.SHEETS,
    *workbooks.STATISTICS,
)
"""Endings of files that hold tables."""

DOCUMENTS = text_documents.SUFFIXES
"""Endings of files that hold one document each: a table of one row."""

ARRAYS = arrays.SUFFIXES
"""Endings of files of arrays: bags, or one table of them."""


_TEXT = (".csv", ".tsv", ".tab", ".dat", ".txt", ".asc")
_LINES = (".jsonl", ".ndjson")
_MAGIC = {
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
    b"PK\x03\x04": ".xlsx",
    b"$FL2": ".sav",
    b"$FL3": ".sav",
    b"<stata_dta>": ".dta",
    b"\xd0\xcf\x11\xe0": ".xls",
}

Sink = str | io.BytesIO
"""A path, or memory, that a Parquet file is written to."""


def file_notes(url: str) -> list[tuple[str, tuple[int, ...]]]:
    """Return what was found out of a file's form and is not plain.

    These are ends of sentences, and the counts that such a text has places for.
    """
    small = small_text(url)
    converted: Any = as_parquet(url) if small is None else pa.BufferReader(small)
    metadata = None if converted == url else pq.read_schema(converted).metadata
    notes = json.loads((metadata or {}).get(NOTES, b"[]"))
    notes += _unused_options(format_of(url)[0])
    return [(note, ()) if isinstance(note, str) else (note[0], tuple(note[1:])) for note in notes]


def _unused_options(end: str) -> list[str]:
    """Say which settings of how files are read have no meaning for a format."""
    options, text = file_options(), end == ".csv"
    sheets, statistics = end in workbooks.SHEETS, end in workbooks.STATISTICS
    unused = []
    if options.sheet is not None and not sheets:
        unused.append(f"sheet={options.sheet} is not used, as it is no workbook")
    if options.skip_rows and not (text or sheets or statistics):
        unused.append(f"skip_rows={options.skip_rows} is not used, as it has no lines of a header")
    document = end in DOCUMENTS
    if options.encoding is not None and not (text or (statistics and end != ".xpt") or document):
        unused.append(f"encoding={options.encoding} is not used, as its format says it")
    return unused


SMALL = 2**18  # bytes of a file of text that is converted in memory
_MOST_SMALL = 256  # such conversions that are kept
_IN_MEMORY = ((".csv", None), (".txt", None), (".md", None))  # formats that are converted so


def small_text(url: str) -> bytes | None:
    """Return the Parquet file that a small file of text is converted to; None of others.

    It is made in memory: a folder of thousands of them is then read at the cost of its bytes.
    """
    if format_of(url) not in _IN_MEMORY:
        return None
    if is_local(url):
        size, version = size_of(url), fingerprint_of(url)
    elif (file := listed_file(url)) is not None:
        size, version = file.size, file.fingerprint
    else:
        return None
    return _converted(url, version, file_options()) if size <= SMALL else None


@lru_cache(maxsize=_MOST_SMALL)
def _converted(url: str, _version: str, _options: FileOptions) -> bytes:
    """Convert a small file, once for each version of it and each way to read it."""
    sink = io.BytesIO()
    _convert(url, sink)
    return sink.getvalue()


@asks_storage("read")
def _convert(url: str, sink: Sink) -> None:
    """Write a file as Parquet."""
    end, packing = format_of(url)
    try:
        _CONVERSIONS[end](url, packing, sink)
    except ImportError as error:
        how = install_command(error) or "install it"
        raise cannot_read(url, f"it needs the package {error.name}; {how}") from error


def as_parquet(url: str) -> str:
    """Return the URL itself of a Parquet file, or the path of a conversion on this machine.

    Raises `StorageError` if the file is not what its name says, or there is no room for the
    conversion.
    """
    end, packing = format_of(url)
    options = file_options()
    plain = end == ".parquet" and not (options.of_files or options.file_table)
    if plain or end not in _CONVERSIONS:
        return url
    what = f"as Parquet 4, {end} {packing} {options}"
    return make_once(url, what, partial(_convert, url), ".parquet")


def format_of(url: str) -> tuple[str, str | None]:
    """Return the ending that says a file's format, its own or one by its bytes; its compression."""
    stem, packing = _unpacked(url)
    end = stem[stem.rfind(".") :].lower() if "." in stem.rpartition("/")[2] else ""
    if end in DOCUMENTS and not packing and file_options().documents:
        return end, None
    if end in _TEXT:
        return ".csv", packing
    if end in _CONVERSIONS:
        return ("", None) if packing and end not in _LINES else (end, packing)
    return _by_bytes(url, version_of(url)), None


@lru_cache(maxsize=4096)
@asks_storage("read")
def _by_bytes(url: str, _version: str) -> str:
    """Return the format of a file by how it begins; that of Parquet where nothing says so."""
    with _opened(url, None) as stream:
        data = bytes(stream.read(4096)).removeprefix(b"\xef\xbb\xbf")  # the mark of UTF-8
    if url.lower().endswith(".json") or data.lstrip().startswith((b"[{", b"[\n")):
        return _ARRAY if data.lstrip().startswith(b"[") else ".jsonl"
    if url.lower().endswith((".zip", ".tar", ".tgz", ".tar.gz", ".7z", ".rar")):
        raise cannot_read(url, "it is an archive; unpack it")
    for magic, end in _MAGIC.items():
        if data.startswith(magic):
            return end
    text = bool(data) and not any(byte < 9 or 13 < byte < 32 for byte in data)
    lines = data.splitlines()
    return ".csv" if text and len(lines) > 1 and not data.startswith((b"{", b"<")) else ".parquet"


def _unpacked(url: str) -> tuple[str, str | None]:
    """Return a name without the ending of its compression, and that compression."""
    for end, codec in _PACKED.items():
        if url.lower().endswith(end):
            return url[: -len(end)], codec
    return url, None


def _opened(url: str, packing: str | None) -> Any:
    content = small_content(url)
    if content is None and is_local(url) and os.path.getsize(url) <= SMALL:
        with open(url, "rb") as file:
            content = file.read()
    if content is not None:
        stream = pa.BufferReader(content)
        return pa.CompressedInputStream(stream, packing) if packing else stream
    fs, path = arrow(url)
    return fs.open_input_stream(path, compression=packing)


def _csv(url: str, packing: str | None, sink: Sink) -> None:
    def write(table: text_files.TextTable) -> None:
        metadata = {CELLS: b"text", SEPARATOR: table.separator.encode()}
        if table.notes:
            metadata[NOTES] = json.dumps(table.notes).encode()
        _write(
            url, sink, table.schema.with_metadata(metadata), _limited(url, packing, table.batches)
        )

    try:
        text_files.convert(url, lambda: _opened(url, packing), write)
    except (pa.ArrowInvalid, UnicodeError) as error:
        raise _not(url, "CSV", error) from error


def _json_array(url: str, packing: str | None, sink: Sink) -> None:
    """Convert an array of objects, which is in memory as a whole."""
    if size_of(url) > _MOST_ARRAY:
        raise cannot_read(
            url,
            f"an array of more than {_MOST_ARRAY // 2**20} MiB; write each row on its own line "
            "(.jsonl)",
        )
    with _opened(url, packing) as stream:
        data = stream.read()
    try:
        rows = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _not(url, "JSON", error) from error
    odd = next((i for i, row in enumerate(rows, 1) if not isinstance(row, dict)), None)
    if odd is not None or not rows:
        found = "an empty one" if odd is None else f"no object in place {odd}"
        raise cannot_read(url, f"expected an array of objects, one a row, found {found}")
    lines = "\n".join(map(json.dumps, rows)).encode()
    _json_lines(url, packing, sink, lambda: pa.BufferReader(lines))


def _json_lines(
    url: str, packing: str | None, sink: Sink, opened: Callable[[], Any] | None = None
) -> None:
    """Convert JSON lines with the columns of their first block; of all, if a later one has others.

    A column without values is of Arrow's null type.
    """
    opened = opened or partial(_opened, url, packing)
    blocks = pj.ReadOptions(block_size=JSON_BLOCK)

    def convert(schema: pa.Schema) -> None:
        parse = pj.ParseOptions(explicit_schema=schema, newlines_in_values=False)
        with opened() as stream, pj.open_json(stream, blocks, parse) as reader:
            _write(url, sink, reader.schema, _limited(url, packing, reader))

    try:
        try:
            with opened() as stream, pj.open_json(stream, blocks) as reader:
                first = _without_times(reader.schema)
            convert(first)
        except pa.ArrowInvalid:
            convert(_json_schema(url, opened, packing))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise _not(url, "JSON lines", error) from error


def _json_schema(url: str, opened: Callable[[], Any], packing: str | None) -> pa.Schema:
    """Return the columns of all JSON lines of a file; an error names the row in the file."""
    schema, rows, rest = pa.schema([]), 0, b""
    expansion = None if packing is None else Expansion(url, size_of(url))
    with opened() as stream:
        while chunk := stream.read(JSON_BLOCK):
            if expansion is not None:
                expansion.add(len(chunk))
            lines, end, rest = (rest + chunk).rpartition(b"\n")
            if not end and len(rest) > JSON_BLOCK:
                raise pa.ArrowInvalid(f"row {rows + 1:,} is longer than {JSON_BLOCK:,} bytes")
            count, schema = _json_block(lines, schema, rows)
            rows += count
    return _json_block(rest, schema, rows)[1]


def _json_block(lines: bytes, schema: pa.Schema, rows: int) -> tuple[int, pa.Schema]:
    """Return how many rows some lines have, and the columns of theirs and of those before."""
    if not lines.strip():
        return 0, schema
    whole = pj.ReadOptions(block_size=len(lines) + 1)
    try:
        table = pj.read_json(io.BytesIO(lines), whole)
    except pa.ArrowInvalid as error:
        raise pa.ArrowInvalid(
            _ROW.sub(lambda match: f"in row {rows + int(match[1]) + 1:,}", str(error))
        ) from error
    schemas = [schema, _without_times(table.schema)]
    return table.num_rows, pa.unify_schemas(schemas, promote_options="permissive")


def _without_times(schema: pa.Schema) -> pa.Schema:
    """Take for text what Arrow takes for a time."""
    fields = []
    for field in schema:
        kind = field.type
        if pa.types.is_timestamp(kind):
            field = field.with_type(pa.string())
        elif pa.types.is_list(kind) and pa.types.is_timestamp(kind.value_type):
            field = field.with_type(pa.list_(pa.string()))
        fields.append(field)
    return pa.schema(fields)


def _arrow(url: str, _: str | None, sink: Sink) -> None:
    content = small_content(url)
    fs, name = arrow(url)
    try:
        with pa.BufferReader(content) if content else fs.open_input_file(name) as file:
            reader = pa.ipc.open_file(file)
            batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
            _write(url, sink, reader.schema, _limited(url, "buffers", _sound(batches)))
    except pa.ArrowInvalid:
        try:
            with _opened(url, None) as stream, pa.ipc.open_stream(stream) as reader:
                _write(url, sink, reader.schema, _limited(url, "buffers", _sound(reader)))
        except pa.ArrowInvalid as error:
            raise _not(url, "an Arrow file", error) from error


def _workbook(url: str, _: str | None, sink: Sink) -> None:
    sheet = workbooks.read(url, local_copy(url), format_of(url)[0])
    metadata = {CELLS: b"text", NOTES: json.dumps(sheet.notes).encode()}
    schema = sheet.table.schema.with_metadata(metadata)
    _write(url, sink, schema, sheet.table.to_batches())


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


def _document(url: str, _: str | None, sink: Sink) -> None:
    data = small_content(url)
    if data is None:
        data = fetch(*filesystem(url), _MOST_DOCUMENT + 1)
    if len(data) > _MOST_DOCUMENT:
        raise cannot_read(
            url,
            f"expected at most {_MOST_DOCUMENT >> 20} MiB; "
            "cut it into several files, or write a table of documents",
            "one document",
        )
    text, notes = text_documents.text_of(url, data)
    metadata = {CELLS: "text", NOTES: json.dumps(notes)}
    table = pa.table({"doc_id": [url], "text": [text]}, metadata=metadata)
    _write(url, sink, table.schema, table.to_batches())


def _parquet(url: str, _: str | None, sink: Sink) -> None:
    file = pq.ParquetFile(local_copy(url))
    _write(url, sink, file.schema_arrow, file.iter_batches(ROWS))


def _arrays(url: str, _: str | None, sink: Sink) -> None:
    with arrays.opened(url) as (schema, batches):
        _write(url, sink, schema, batches)


def _write(url: str, sink: Sink, schema: pa.Schema, batches: Any) -> None:
    """Write a file's batches as Parquet, with the columns that all of its rows share.

    Row groups have some ``GROUP`` bytes and at most ``ROWS`` rows.
    """
    waiting: list[pa.RecordBatch] = []
    shared = _shared_cells(url, schema)
    for name, cell in shared.items():
        schema = schema.append(pa.field(name, cell.type))
    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for batch in batches:
            expect()
            columns = [*batch.columns, *(pa.repeat(c, len(batch)) for c in shared.values())]
            waiting.append(pa.record_batch(columns, schema))
            if sum(b.nbytes for b in waiting) >= GROUP:
                writer.write_table(pa.Table.from_batches(waiting, schema), ROWS)
                waiting.clear()
        writer.write_table(pa.Table.from_batches(waiting, schema), ROWS)


def _shared_cells(url: str, schema: pa.Schema) -> dict[str, pa.Scalar]:
    """Return the cells that all rows of a file have: its name, its folder's, those of its line."""
    options = file_options()
    called = {FILE: stem_of(url), FOLDER: url.rpartition("/")[0].rpartition("/")[2]}
    shared = {name: pa.scalar(called[name]) for name in options.of_files}
    if options.file_table is not None and options.file_table.url != url:
        lines = _lines(options.file_table, replace(options, of_files=(), file_table=None))
        table = lines.texts if (schema.metadata or {}).get(CELLS) == b"text" else lines.typed
        line = lines.place_of(url)
        for name in (n for n in table.column_names if n != options.file_table.key):
            cells = table[name]
            shared[name] = pa.scalar(None, cells.type) if line is None else cells[line]
    return {name: cell for name, cell in shared.items() if name not in schema.names}


@lru_cache(maxsize=4)
def _lines(table: FileTable, options: FileOptions) -> Lines:
    """Read a table with a line a file, once for each version of it."""
    with reading_with(options):
        small = small_text(table.url)
        source = pa.BufferReader(small) if small else local_copy(as_parquet(table.url))
        rows = pq.read_table(source)
    refuse_changed(table.url, table.version)
    return lines_of(rows, table.key)


def lines_of_files(table: FileTable) -> Lines:
    """Return the lines of a table of files, as files are read here."""
    return _lines(table, replace(file_options(), of_files=(), file_table=None))


def _not(url: str, what: str, error: Exception) -> StorageError:
    if isinstance(error, UnicodeError) or "UTF8" in str(error):
        encoding = file_options().encoding or "UTF-8"
        return cannot_read(
            url, f"its text is not {encoding}; pass its encoding, such as --encoding cp1252"
        )
    ragged = _RAGGED.search(str(error))
    if ragged is not None:
        row, wanted, count, cells = ragged.groups()
        line = f"line {row}" if row else "a line"
        many = "1 cell" if count == "1" else f"{count} cells"
        return cannot_read(
            url,
            f"{line} has {many} and the first line {wanted}: "
            f"{cells[:200]}; correct the line, or remove it",
            what,
        )
    return cannot_read(url, str(error), what)


_ROW = re.compile(r"in row (\d+)")
_RAGGED = re.compile(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+): (.*)", re.DOTALL)


_CONVERSIONS: dict[str, Callable[[str, str | None, Sink], None]] = {
    ".csv": _csv,
    ".parquet": _parquet,
    _ARRAY: _json_array,
    **dict.fromkeys(_LINES, _json_lines),
    **dict.fromkeys((".arrow", ".feather"), _arrow),
    **dict.fromkeys((*workbooks.SHEETS, *workbooks.STATISTICS), _workbook),
    **dict.fromkeys(DOCUMENTS, _document),
    **dict.fromkeys(arrays.SUFFIXES, _arrays),
}
