"""Row groups that several partitions share are decoded once, not once a partition.

Partitions are cut by rows and a row group may hold a million of them, so reading each
partition alone decodes the group as often as there are partitions in it. Within `sharing`,
the last few row groups stay decoded for the next partition, and a large one is read on from
where the thread's last partition ended.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from flows.storage.objects.contents import Once
from flows.storage.objects.retry import calling_thread, expect

K = TypeVar("K")
V = TypeVar("V")

LARGE = 64 * 2**20  # bytes of a row group that is not decoded as one
PIECE = 8 * 2**20  # bytes of a large one that are decoded at once
_THREADED = 2**20  # bytes of a row group that are worth several threads
KEPT = 2  # decoded row groups that stay
FOOTERS = 64  # that stay
STREAMS = 16  # large row groups that are being read, one a thread


@dataclass(frozen=True)
class Footer:
    """What a file's footer says of its row groups."""

    metadata: pq.FileMetaData
    schema: pa.Schema
    groups: tuple[tuple[int, int, int], ...]  # first row, end, bytes

    @classmethod
    def of(cls, file: pq.ParquetFile) -> Footer:
        """Read it off an open file."""
        groups, first = [], 0
        for number in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(number)
            groups.append((first, first + group.num_rows, group.total_byte_size))
            first += group.num_rows
        return cls(file.metadata, file.schema_arrow, tuple(groups))


@dataclass
class _Stream:
    """A large row group as it is read piece by piece, with the last piece."""

    key: tuple[object, ...]
    pieces: Iterator[pa.RecordBatch]
    first: int  # row of the file, of the last piece
    last: pa.RecordBatch | None = None

    def rows(self, start: int, stop: int) -> list[pa.RecordBatch]:
        """Return rows of the file, none of them before the last piece."""
        found = []
        while True:
            if self.last is not None:
                low, high = max(start - self.first, 0), min(stop - self.first, len(self.last))
                if low < high:
                    found.append(self.last.slice(low, high - low))
                if self.first + len(self.last) >= stop:
                    return found
                self.first += len(self.last)
            expect()
            self.last = next(self.pieces, None)
            if self.last is None:
                raise pa.ArrowInvalid(f"it ends before row {stop:,}, which its footer lists")


class Decoded:
    """What one process holds decoded, for the readers within `sharing`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._footers: OrderedDict[tuple[str, str], Footer] = OrderedDict()
        self._groups: OrderedDict[tuple[object, ...], Once[pa.Table]] = OrderedDict()
        self._streams: OrderedDict[int, _Stream] = OrderedDict()  # by thread

    def release(self) -> None:
        """Drop all of it."""
        with self._lock:
            self._footers.clear()
            self._groups.clear()
            self._streams.clear()

    def rows(
        self, url: str, version: str, open_file: Callable[[pq.FileMetaData | None], pq.ParquetFile],
        start: int, stop: int, columns: Sequence[str] | None,
    ) -> pa.Table:  # fmt: skip
        """Return rows ``start`` to ``stop`` of a file.

        Parameters
        ----------
        url, version
            Which file it is, and its fingerprint.
        open_file
            Opens it, by its footer where that is known.
        start, stop, columns
            What is wanted; columns that it has not are left out.
        """
        opened: list[pq.ParquetFile] = []
        footer = self._footers.get((url, version))

        def file() -> pq.ParquetFile:
            if not opened:
                opened.append(open_file(None if footer is None else footer.metadata))
            return opened[0]

        if footer is None:
            footer = Footer.of(file())
            _put(self._lock, self._footers, (url, version), footer, FOOTERS)
        names = footer.schema.names
        wanted = names if columns is None else [name for name in columns if name in names]
        found = []
        for number, (first, end, size) in enumerate(footer.groups):
            low, high = max(first, start), min(end, stop)
            if low >= high:
                continue
            expect(min(size, LARGE))
            key = (url, version, number, tuple(wanted))
            if size > LARGE:
                batch_rows = max(1, (end - first) * PIECE // size)
                found.append(self._streamed(key, file, number, first, low, high, batch_rows))
            elif (low, high) == (first, end):
                threads = size > _THREADED
                found.append(file().read_row_group(number, columns=wanted, use_threads=threads))
            else:
                found.append(self._whole(key, file, number).slice(low - first, high - low))
        if not found:
            return pa.schema([footer.schema.field(name) for name in wanted]).empty_table()
        return found[0] if len(found) == 1 else pa.concat_tables(found)

    def _whole(
        self, key: tuple[object, ...], file: Callable[[], pq.ParquetFile], number: int
    ) -> pa.Table:
        once = _put(self._lock, self._groups, key, Once[pa.Table](), KEPT)
        wanted: tuple[str, ...] = key[-1]  # type: ignore[assignment]
        return once.get(lambda: file().read_row_group(number, columns=list(wanted)))

    def _streamed(
        self, key: tuple[object, ...], file: Callable[[], pq.ParquetFile], number: int,
        first: int, low: int, high: int, batch_rows: int,
    ) -> pa.Table:  # fmt: skip
        thread = calling_thread()
        with self._lock:
            stream = self._streams.pop(thread, None)
        if stream is None or stream.key != key or low < stream.first:
            columns: tuple[str, ...] = key[-1]  # type: ignore[assignment]
            batches = file().iter_batches(batch_rows, row_groups=[number], columns=list(columns))
            stream = _Stream(key, batches, first)
        batches_read = stream.rows(low, high)
        # Put back only when nothing failed: a stream that broke is opened again.
        _put(self._lock, self._streams, thread, stream, STREAMS)
        return pa.Table.from_batches(batches_read)


def _put(lock: threading.Lock, held: OrderedDict[K, V], key: K, value: V, most: int) -> V:
    """Hold a value unless there is one; return what is held. The oldest go."""
    with lock:
        value = held.setdefault(key, value)
        held.move_to_end(key)
        while len(held) > most:
            held.popitem(last=False)
        return value


decoded = Decoded()  # of this process
