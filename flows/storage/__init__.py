"""Objects and tables, wherever a URL points: the only user of fsspec and pyarrow.fs.

A URL is a local path or anything that fsspec knows (``s3://bucket/key``). Listing and
small objects go through fsspec; Parquet through pyarrow.fs, which reads it from object
stores several times faster.
"""

from flows.storage.errors import (
    ChangedError,
    DamagedError,
    MissingError,
    StorageError,
    TransientStorageError,
)
from flows.storage.file_options import FileOptions, FileTable, reading_with
from flows.storage.formats.converted import (
    ARRAYS,
    DOCUMENTS,
    SEPARATOR,
    SUFFIXES,
    file_notes,
    lines_of_files,
)
from flows.storage.formats.file_columns import CELLS, Lines, lines_of, stem_of
from flows.storage.formats.tables import (
    parquet_file,
    read_batches,
    read_overlapping,
    read_rows,
    read_table,
    release_decoded,
    table_bytes,
    write_table,
)
from flows.storage.objects.access import AT_ONCE, using
from flows.storage.objects.contents import fetch_ahead, looks_at_once, sharing, small_files
from flows.storage.objects.inputs import (
    InputFile,
    Sources,
    expand,
    fingerprint_of,
    given,
    refuse_changed,
    size_of,
    source_in_words,
)
from flows.storage.objects.retry import no_retry
from flows.storage.objects.seal import seal, unsealed
from flows.storage.objects.staging import local_copy, with_index
from flows.storage.objects.store import (
    MARK,
    absent,
    check_writable,
    copy,
    create_bytes,
    delete,
    exists,
    is_link,
    is_own,
    names,
    own,
    read_bytes,
    remove_debris,
    remove_empty,
    remove_own,
    write_bytes,
)
from flows.storage.objects.urls import absolute, is_local, join, refuse_secrets, shown

__all__ = [
    "ARRAYS",
    "AT_ONCE",
    "CELLS",
    "DOCUMENTS",
    "MARK",
    "SEPARATOR",
    "SUFFIXES",
    "ChangedError",
    "DamagedError",
    "FileOptions",
    "FileTable",
    "InputFile",
    "Lines",
    "MissingError",
    "Sources",
    "StorageError",
    "TransientStorageError",
    "absent",
    "absolute",
    "check_writable",
    "copy",
    "create_bytes",
    "delete",
    "exists",
    "expand",
    "fetch_ahead",
    "file_notes",
    "fingerprint_of",
    "given",
    "is_link",
    "is_local",
    "is_own",
    "join",
    "lines_of",
    "lines_of_files",
    "local_copy",
    "looks_at_once",
    "names",
    "no_retry",
    "own",
    "parquet_file",
    "read_batches",
    "read_bytes",
    "read_overlapping",
    "read_rows",
    "read_table",
    "reading_with",
    "refuse_changed",
    "refuse_secrets",
    "release_decoded",
    "remove_debris",
    "remove_empty",
    "remove_own",
    "seal",
    "sharing",
    "shown",
    "size_of",
    "small_files",
    "source_in_words",
    "stem_of",
    "table_bytes",
    "unsealed",
    "using",
    "with_index",
    "write_bytes",
    "write_table",
]
