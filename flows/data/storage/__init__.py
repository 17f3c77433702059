"""Objects and tables, wherever a URL points: the only user of fsspec and pyarrow.fs.

A URL is a local path or anything that fsspec knows (``s3://bucket/key``). Listing and
small objects go through fsspec; Parquet through pyarrow.fs, which reads it from object
stores several times faster.
"""

from flows.data.storage.access import AT_ONCE, using
from flows.data.storage.contents import fetch_ahead, looks_at_once, sharing, small_files
from flows.data.storage.errors import (
    ChangedError,
    DamagedError,
    MissingError,
    StorageError,
    TransientStorageError,
)
from flows.data.storage.file_options import FileOptions, reading_with
from flows.data.storage.formats import ARRAYS, CELLS, DOCUMENTS, SEPARATOR, SUFFIXES, file_notes
from flows.data.storage.inputs import (
    InputFile,
    Sources,
    expand,
    fingerprint_of,
    given,
    refuse_changed,
    size_of,
    source_in_words,
)
from flows.data.storage.objects import (
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
    open_input,
    own,
    read_bytes,
    remove_debris,
    remove_empty,
    remove_own,
    write_bytes,
)
from flows.data.storage.retry import no_retry
from flows.data.storage.row_groups import decoded
from flows.data.storage.seal import seal, unsealed
from flows.data.storage.staging import local_copy, with_index
from flows.data.storage.tables import (
    parquet_file,
    read_batches,
    read_overlapping,
    read_rows,
    read_table,
    table_bytes,
    write_table,
)
from flows.data.storage.urls import absolute, is_local, join, refuse_secrets, shown

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
    "InputFile",
    "MissingError",
    "Sources",
    "StorageError",
    "TransientStorageError",
    "absent",
    "absolute",
    "check_writable",
    "copy",
    "create_bytes",
    "decoded",
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
    "local_copy",
    "looks_at_once",
    "names",
    "no_retry",
    "open_input",
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
    "remove_debris",
    "remove_empty",
    "remove_own",
    "seal",
    "sharing",
    "shown",
    "size_of",
    "small_files",
    "source_in_words",
    "table_bytes",
    "unsealed",
    "using",
    "with_index",
    "write_bytes",
    "write_table",
]
