"""Which positions are looked at: a region, the intervals of a BED file, primers."""

from __future__ import annotations

import gzip
import io
import itertools
import re
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from flows import storage
from flows.faults import Fault, InputError
from flows.variants.reads.contigs import (
    CONTIG_RULE,
    RENAME,
    UNKNOWN,
    AnyContig,
    Marks,
    contigs_of,
    fasta_contigs,
    in_file,
    names_a_contig,
    other_names,
    refuse_changed,
    unfit_name,
)
from flows.variants.schema import MOST_POS
from flows.variants.settings import VariantSettings
from vbmodels.core.state import IntArray

MOST = 256 * 2**20  # bytes of a BED file, packed and unpacked
NUMBER = re.compile(r"[0-9]{1,12}")
_SAM_HEADER = re.compile(r"@[A-Z]{2}")  # of a line of a Picard interval_list
_GATK = re.compile(r"([^\s:]+):([0-9]{1,12})(?:-([0-9]{1,12}))?")
_FROM_0 = (
    "BED counts from 0 without the end: position 5 alone is CONTIG 4 5; an interval_list and "
    "CONTIG:START-END count from 1"
)
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

    ``text``: the region; positions count from 1 and may have commas. ``contigs``: known contigs:
    one of them may have a colon in its name.

    Raises `InputError` if what follows the last colon looks like positions and is none.
    """
    name, _, span = text.rpartition(":")
    if text in contigs or not name or not _SPAN_LIKE.fullmatch(span):
        return Wanted("settings", None, text)
    match = _SPAN.fullmatch(span)
    if match is None or not (match[1] or match[3]):
        raise InputError.of(
            file="settings",
            column="region",
            expected="CONTIG, CONTIG:START or CONTIG:START-END with positions from 1",
            found=repr(text),
            remedy="give several regions as a BED file: --set bed=FILE",
        )
    start = int(match[1].replace(",", "")) - 1 if match[1] else 0
    stop = int(match[3].replace(",", "")) if match[3] else None
    return Wanted("settings", None, name, start, stop)


def read_bed(path: str) -> list[Wanted]:
    """Read the intervals of a BED file, which may be packed with gzip or bgzip.

    Or of a Picard interval_list, which has a SAM header, or of GATK intervals, CONTIG:START-END;
    both count from 1.

    Raises `InputError` with every fault of the file.
    """
    wanted, faults, first = [], [], 0  # position of the first base
    for row, text in enumerate(read_lines(path), start=1):
        cells = text.split()
        if cells and _SAM_HEADER.fullmatch(cells[0]):
            first = 1
            continue
        if len(cells) == 1 and (gatk := _GATK.fullmatch(cells[0])):
            stop = int(gatk[3] or gatk[2])
            wanted.append(Wanted(path, row, gatk[1], int(gatk[2]) - 1, stop))
            continue
        if not cells or cells[0].startswith("#") or cells[0] in ("track", "browser"):
            continue
        if len(cells) < 3 or not all(NUMBER.fullmatch(cell) for cell in cells[1:3]):
            found = repr(text.rstrip()[:60])
            faults.append(Fault(file=path, row=row, expected="contig, start and end", found=found))
            continue
        wanted.append(Wanted(path, row, cells[0], int(cells[1]) - first, int(cells[2])))
    if not wanted and not faults:
        faults.append(Fault(file=path, expected="at least one interval", found="none"))
    if faults:
        raise InputError(faults)
    return wanted


def read_lines(path: str) -> Iterator[str]:
    """Return the lines of a BED file, which may be packed with gzip or bgzip."""
    # As text files are read: str.splitlines would also break lines where editors do not.
    return io.StringIO(_text(path), newline=None)


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
    raise InputError.of(
        file=path, expected="a BED file: text, plain or packed with gzip", found=found
    )


_WINDOW = 2**14  # positions


@dataclass(frozen=True)
class Region:
    """Positions ``start`` to ``stop`` (from 0, not included) of a contig of the FASTA."""

    contig: str
    start: int
    stop: int

    @property
    def length(self) -> int:
        """Number of positions."""
        return self.stop - self.start


@lru_cache(maxsize=4)
def regions_of(settings: VariantSettings, marks: Marks) -> tuple[Region, ...]:
    """Return the regions of the settings, or all contigs of the FASTA.

    ``settings``: the run's. ``marks``: the versions of the FASTA and the BED that are meant: what
    was read of others is not kept.

    Raises
    ------
    InputError
        If a region or a line of the BED lies outside the FASTA's contigs.
    StorageError
        If there are other versions now.
    """
    wanted = tuple(regions(settings, contigs_of(settings, marks)))
    refuse_changed(marks)
    return wanted


def named_regions(settings: VariantSettings, marks: Marks) -> tuple[Region, ...] | None:
    """Return what the settings name, for counts, which may come without a FASTA; None: all."""
    if settings.region is None and settings.bed is None:
        return None
    return regions_of(settings, marks)


def regions(settings: VariantSettings, contigs: dict[str, int]) -> list[Region]:
    """Return what is to be counted: the region, the BED file's intervals, or all contigs.

    Intervals are in the order of the contigs and merged, so no position comes twice. With a
    region and a BED file, it is what both have.

    Raises `InputError` if a region or a line of the BED lies outside the FASTA's contigs.
    """
    faults: list[Fault] = []
    named_by: list[Callable[[], list[Wanted]]] = []
    if settings.region is not None:
        known = () if isinstance(contigs, AnyContig) else contigs
        named_by.append(lambda: [read_region(str(settings.region), known)])
    if settings.bed is not None:
        named_by.append(partial(read_bed, settings.bed))
    named = []
    for read in named_by or [
        lambda: [Wanted(str(settings.fasta), None, name) for name in contigs if contigs[name]]
    ]:
        try:
            named.append(_within(read(), settings, contigs, faults))
        except InputError as error:
            faults += error.faults
    if faults:
        raise InputError(faults)
    merged = _merged(named[-1], contigs)
    if len(named) == 1:
        return merged
    ((region,), _) = named
    both = [
        Region(r.contig, max(r.start, region.start), min(r.stop, region.stop))
        for r in merged
        if r.contig == region.contig
    ]
    both = [r for r in both if r.start < r.stop]
    if not both:
        raise InputError.of(
            file=str(settings.bed),
            expected=f"an interval within the region {settings.region}",
            found="none",
        )
    return both


def _within(
    wanted: Iterable[Wanted],
    settings: VariantSettings,
    contigs: dict[str, int],
    faults: list[Fault],
) -> list[Region]:
    """Return what is wanted as regions of the contigs, and add what is none to the faults."""
    inside, unknown = [], set()
    for line in wanted:
        contig = in_file(line.name, contigs)
        if contig is None:
            if line.name not in unknown:  # a BED of another genome has as many as lines
                faults.append(
                    other_names(line.file, line.row, line.name, contigs, str(settings.fasta))
                )
            unknown.add(line.name)
            continue
        if not names_a_contig(contig):
            faults.append(
                Fault(
                    file=line.file,
                    row=line.row,
                    expected=CONTIG_RULE,
                    found=unfit_name(contig),
                    remedy=RENAME,
                )
            )
            continue
        length = contigs[contig]
        end = length if line.stop is None else line.stop
        span = f"{line.name}:{line.start + 1}-{end}"
        if not 0 <= line.start < end <= length:
            expected, remedy = f"positions within {contig}:1-{length}", None
            if line.start >= end and line.row is not None:
                found_at = f"nothing between {line.start} and {end}"
                span, remedy = f"{found_at} of {line.name}", _FROM_0
            faults.append(
                Fault(file=line.file, row=line.row, expected=expected, found=span, remedy=remedy)
            )
        elif end >= MOST_POS and end != UNKNOWN:
            faults.append(
                Fault(
                    file=line.file,
                    row=line.row,
                    expected="positions below 2^29 (.tbi)",
                    found=span,
                    remedy="name what lies below: --set region= or --set bed=",
                )
            )
        else:
            inside.append(Region(contig, line.start, end))
    return inside


def _merged(intervals: Sequence[Region], contigs: dict[str, int]) -> list[Region]:
    names = dict.fromkeys([*contigs, *sorted({r.contig for r in intervals})])
    order = {name: i for i, name in enumerate(names)}
    merged: list[Region] = []
    for region in sorted(intervals, key=lambda r: (order[r.contig], r.start)):
        last = merged[-1] if merged else None
        if last and last.contig == region.contig and region.start <= last.stop:
            merged[-1] = Region(last.contig, last.start, max(last.stop, region.stop))
        else:
            merged.append(region)
    return merged


def locate(intervals: Sequence[Region], start: int, stop: int) -> list[Region]:
    """Return what positions ``start`` to ``stop`` of the regions, laid end to end, are."""
    pieces, before = [], 0
    for region in intervals:
        low, high = max(start - before, 0), min(stop - before, region.length)
        if low < high:
            pieces.append(Region(region.contig, region.start + low, region.start + high))
        before += region.length
    return pieces


def windows_of(intervals: Sequence[Region], start: int, stop: int) -> Iterator[tuple[Region, int]]:
    """Cut positions ``start`` to ``stop`` of the regions, laid end to end, into windows.

    With each comes where the positions before it end on its contig: a read that begins before
    that has been met there.

    >>> own = [Region("1", 10, 20), Region("1", 40, 50), Region("2", 5, 9)]
    >>> [(r.contig, r.start, r.stop, met) for r, met in windows_of(own, 4, 23)]
    [('1', 14, 20, 14), ('1', 40, 50, 20), ('2', 5, 8, 0)]
    """
    before, ends = 0, dict[str, int]()
    for region in intervals:
        low, high = max(start - before, 0), min(stop - before, region.length)
        if low < high:
            met = region.start + low if low else ends.get(region.contig, 0)
            for window in windows(Region(region.contig, region.start + low, region.start + high)):
                yield window, met
                met = window.stop
        ends[region.contig] = region.stop
        before += region.length


def windows(region: Region) -> list[Region]:
    """Cut a region where the windows of a BAM's index meet, so that little is read twice.

    A region that is no longer than a window stays whole.

    >>> [(r.start, r.stop) for r in windows(Region("1", 16_000, 40_000))]
    [(16000, 16384), (16384, 32768), (32768, 40000)]
    """
    if region.length <= _WINDOW:
        return [region]
    meet = range(region.start // _WINDOW * _WINDOW + _WINDOW, region.stop, _WINDOW)
    edges = [region.start, *meet, region.stop]
    return [Region(region.contig, low, high) for low, high in itertools.pairwise(edges)]


Primers = dict[str, tuple[IntArray, IntArray]]
"""By contig of the FASTA, [P, 2] begin and end (from 0, not included) of each strand's primers."""


def read_primers(path: str, contigs: Mapping[str, int], fasta: str) -> Primers:
    """Read primers from a BED file whose sixth column is the strand.

    Raises `InputError` with every line that is no primer within a contig of the FASTA.
    """
    faults: list[Fault] = []
    primers: dict[str, tuple[list[list[int]], list[list[int]]]] = {}
    for row, text in enumerate(read_lines(path), start=1):
        cells = text.split()
        if not cells or cells[0].startswith("#") or cells[0] in ("track", "browser"):
            continue
        whole = len(cells) >= 6 and cells[5] in ("+", "-")
        if not whole or not (NUMBER.fullmatch(cells[1]) and NUMBER.fullmatch(cells[2])):
            faults.append(
                Fault(
                    file=path,
                    row=row,
                    expected="contig, start, end, name, score and strand (+ or -)",
                    found=repr(text.rstrip()[:60]),
                )
            )
            continue
        contig = in_file(cells[0], contigs)
        if contig is None:
            faults.append(other_names(path, row, cells[0], contigs, fasta))
            continue
        start, stop, length = int(cells[1]), int(cells[2]), contigs[contig]
        if not start < stop <= length:
            faults.append(
                Fault(
                    file=path,
                    row=row,
                    expected=f"a start below the end, and an end of at most {length:,} ({contig})",
                    found=f"{start:,} to {stop:,}",
                )
            )
            continue
        of_strand = primers.setdefault(contig, ([], []))["+-".index(cells[5])]
        of_strand.append([start, stop])
    if not primers and not faults:
        faults.append(Fault(file=path, expected="at least one primer", found="none"))
    if faults:
        raise InputError(faults)
    return {
        contig: (
            np.array(strands[0], np.int64).reshape(-1, 2),
            np.array(strands[1], np.int64).reshape(-1, 2),
        )
        for contig, strands in primers.items()
    }


def primers_of(settings: VariantSettings) -> Primers:
    """Return the primers that the settings name; none where they name none."""
    if settings.primers is None:
        return {}
    fasta = str(settings.fasta)
    return read_primers(settings.primers, fasta_contigs(fasta), fasta)
