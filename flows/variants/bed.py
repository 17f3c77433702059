"""What a region and a BED file ask for, as they are written: not yet compared with any contigs."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Container
from dataclasses import dataclass

from flows.data import storage
from flows.faults import Fault, InputError

MOST = 256 * 2**20  # bytes of a BED file, packed and unpacked
_NUMBER = re.compile(r"[0-9]{1,12}")
_SPAN = re.compile(r"([0-9][0-9,]*)?(?:(-)([0-9][0-9,]*)?)?")
_SPAN_LIKE = re.compile(r"[0-9,-]*")


@dataclass(frozen=True)
class Wanted:
    """Positions ``start`` to ``stop`` (from 0, not included; None: all that follow) of a contig.

    ``file`` and ``row`` say where that is written.
    """

    file: str
    row: int | None
    name: str
    start: int = 0
    stop: int | None = None


def read_region(text: str, contigs: Container[str]) -> Wanted:
    """Read a region as samtools does: a contig, alone or with :START, :START-END or :-END.

    Parameters
    ----------
    text
        The region; positions count from 1 and may have commas.
    contigs
        Known contigs: one of them may have a colon in its name.

    Raises
    ------
    InputError
        If what follows the last colon looks like positions and is none.
    """
    name, _, span = text.rpartition(":")
    if text in contigs or not name or not _SPAN_LIKE.fullmatch(span):
        return Wanted("settings", None, text)
    match = _SPAN.fullmatch(span)
    if match is None or not (match[1] or match[3]):
        raise InputError(
            [
                Fault(
                    file="settings", column="region", expected="CONTIG, CONTIG:START or "
                    "CONTIG:START-END with positions from 1", found=repr(text),
                    remedy="give several regions as a BED file: --set bed=FILE",
                )
            ]
        )  # fmt: skip
    start = int(match[1].replace(",", "")) - 1 if match[1] else 0
    stop = int(match[3].replace(",", "")) if match[3] else None
    return Wanted("settings", None, name, start, stop)


def read_bed(path: str) -> list[Wanted]:
    """Read the intervals of a BED file, which may be packed with gzip or bgzip.

    Raises
    ------
    InputError
        With every fault of the file.
    """
    wanted, faults = [], []
    # As text files are read: str.splitlines would also break lines where editors do not.
    for row, text in enumerate(io.StringIO(_text(path), newline=None), start=1):
        cells = text.split()
        if not cells or cells[0].startswith("#") or cells[0] in ("track", "browser"):
            continue
        if len(cells) < 3 or not all(_NUMBER.fullmatch(cell) for cell in cells[1:3]):
            found = repr(text.rstrip()[:60])
            faults.append(Fault(file=path, row=row, expected="contig, start and end", found=found))
            continue
        wanted.append(Wanted(path, row, cells[0], int(cells[1]), int(cells[2])))
    if not wanted and not faults:
        faults.append(Fault(file=path, expected="at least one interval", found="none"))
    if faults:
        raise InputError(faults)
    return wanted


def _text(path: str) -> str:
    try:
        data = storage.read_bytes(path, MOST)
        if data.startswith(b"\x1f\x8b"):
            with gzip.open(io.BytesIO(data)) as file:
                data = file.read(MOST + 1)
            if len(data) > MOST:
                raise storage.StorageError(f"it unpacks to more than {MOST:,} bytes")
        return data.decode("utf-8-sig")
    except storage.TransientStorageError:
        raise
    except (storage.StorageError, OSError, EOFError, zlib.error) as error:
        found = str(error)
    except UnicodeDecodeError as error:
        found = f"byte {error.start + 1:,}, which is no UTF-8"
    raise InputError(
        [Fault(file=path, expected="a BED file: text, plain or packed with gzip", found=found)]
    )
