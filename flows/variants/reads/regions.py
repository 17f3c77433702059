"""Which positions are looked at: contigs of a FASTA, a region, the intervals of a BED file."""

from __future__ import annotations

import gzip
import io
import itertools
import os
import re
import threading
import zlib
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import pysam

from flows import storage
from flows.faults import Fault, InputError
from flows.variants.reads.alignments import described, is_bgzf, is_gzip, local_fasta, quiet
from flows.variants.schema import MOST_POS
from flows.variants.settings import VariantSettings

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


Marks = tuple[tuple[str, str], ...]  # files, and what marks the version of each
_UNKNOWN = 2**31 - 1
_MITOCHONDRIAL = ("MT", "M")
_MOST_TAKEN = 4  # contigs in a sentence
_WINDOW = 2**14  # positions
_HEADER = 2**12  # bytes of a FASTA's header line that are looked at
_SHOWN = 60  # characters of a name in a message
_one_at_a_time = threading.Lock()  # files are checked side by side; one of them makes the index
# What SAM and VCF 4.3 take for the name of a contig (section 1.4.7 of the latter).
_SPECIAL = r"!#$%&+./:;?@^_|~"
_CONTIG = re.compile(rf"[0-9A-Za-z{_SPECIAL}-][0-9A-Za-z{_SPECIAL}*=-]*")
RENAME = "rename it, or name the other contigs with --set bed="
CONTIG_RULE = "a name that a VCF can hold: letters, digits, most signs; no = or * first, no space"


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


class AnyContig(dict[str, int]):
    """Contigs of counts that come without a FASTA: every name, of unknown length."""

    def __missing__(self, name: str) -> int:
        return _UNKNOWN

    def __contains__(self, name: object) -> bool:
        return True


def fasta_contigs(path: str) -> dict[str, int]:
    """Return the contigs of a FASTA with their lengths; an index is made where there is none.

    Raises `InputError` if it cannot be read, or has no index and none can be made.
    """
    try:
        local = local_fasta(path)
        with quiet(), pysam.FastaFile(local) as fasta:
            found = dict(zip(fasta.references, fasta.lengths, strict=True))
        wrong = None if is_gzip(local) else _misplaced_contig(local)
    except storage.TransientStorageError:
        raise
    except (OSError, ValueError, storage.StorageError) as error:
        raise InputError([_no_fasta(path, error)]) from error
    if wrong is not None:
        raise InputError.of(
            file=path,
            expected="the FASTA that its index (.fai) was made of",
            found=f"contig {wrong} elsewhere, or more contigs",
            remedy=f"rebuild the index: samtools faidx {path}",
        )
    return found


def _misplaced_contig(local: str) -> str | None:
    """Return a contig that a plain FASTA does not have as its index says; None for none."""
    with open(f"{local}.fai", encoding="utf-8") as index:
        rows = [line.rstrip("\n").split("\t") for line in index]
    rows.sort(key=lambda row: int(row[2]))
    behind = b""
    with open(local, "rb") as fasta:
        for name, *numbers in rows:
            length, offset, bases, width = map(int, numbers[:4])
            fasta.seek(max(offset - _HEADER, 0))
            lines = fasta.read(min(offset, _HEADER)).splitlines(keepends=True)
            header = lines[-1] if lines else b""
            whole = header.startswith(b">") or len(header) < _HEADER
            if whole and header[1:].split()[:1] != [name.encode()]:
                return name
            full = (length - 1) // bases if length else 0
            fasta.seek(offset + full * width + length - full * bases)
            behind = fasta.read(_HEADER).lstrip(b"\r\n")[:1]
            if not header.endswith(b"\n") or behind not in (b"", b">"):
                return name
    return rows[-1][0] if behind else None


def _no_fasta(path: str, error: Exception) -> Fault:
    expected = "a FASTA of which an index (.fai) can be made"
    if not storage.exists(path):
        return Fault(file=path, expected=expected, found="no such file")
    local = storage.local_copy(path)
    if os.path.isfile(local) and is_gzip(local) and not is_bgzf(local):
        plain = path.removesuffix(".gz")
        return Fault(
            file=path,
            expected="a FASTA, plain or packed with bgzip",
            found="gzip",
            remedy=f"run: gunzip {path} && bgzip {plain}, or give the unpacked file",
        )
    return Fault(
        file=path,
        expected=expected,
        found=described(error),
        remedy=f"see: samtools faidx {path}",
    )


def marks_of(settings: VariantSettings) -> Marks:
    """Return the files of the settings (FASTA, BED, primers), each with what marks its version.

    Raises `InputError` if one of them is not there or cannot be read.
    """
    marks, faults = [], []
    named = ("fasta", settings.fasta), ("bed", settings.bed), ("primers", settings.primers)
    for name, url in named:
        if url is None:
            continue
        try:
            marks.append((url, storage.fingerprint_of(url)))
        except storage.TransientStorageError:
            raise
        except storage.StorageError as error:
            gone = isinstance(error, storage.MissingError)
            found = "there is no such file" if gone else str(error)
            faults.append(Fault(file=url, expected="", found=f"{found} (setting {name})"))
    if faults:
        raise InputError(faults)
    return tuple(marks)


@lru_cache(maxsize=4)
def contigs_of(settings: VariantSettings, marks: Marks) -> dict[str, int]:
    """Return the contigs of the FASTA; any at all where there is none."""
    if settings.fasta is None:
        return AnyContig()
    with _one_at_a_time:
        found = fasta_contigs(settings.fasta)
    _refuse_changed(marks)
    return found


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
    found = tuple(regions(settings, contigs_of(settings, marks)))
    _refuse_changed(marks)
    return found


def named_regions(settings: VariantSettings, marks: Marks) -> tuple[Region, ...] | None:
    """Return what the settings name, for counts, which may come without a FASTA; None: all."""
    if settings.region is None and settings.bed is None:
        return None
    return regions_of(settings, marks)


def _refuse_changed(marks: Marks) -> None:
    for url, mark in marks:
        storage.refuse_changed(url, mark)


def names_a_contig(name: str) -> bool:
    """Return whether a VCF can hold a contig of this name.

    >>> [names_a_contig(name) for name in ("chr1", "HLA*01:01", "=cmd", "a b", "c>1,x", "")]
    [True, True, False, False, False, False]
    """
    return _CONTIG.fullmatch(name) is not None


def unfit_name(name: str) -> str:
    """Return a contig's name with what a VCF cannot hold of it.

    >>> print(unfit_name("c>1,x"))
    'c>1,x', whose character 2 is '>'
    >>> print(unfit_name("=cmd"), unfit_name(""), sep="; ")
    '=cmd', whose character 1 is '='; an empty name
    """
    if not name:
        return "an empty name"
    # Names that begin as the whole does are names as far as it is one.
    first = next(i for i in range(1, len(name) + 1) if not names_a_contig(name[:i]))
    shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."
    return f"{shown!r}, whose character {first} is {name[first - 1]!r}"


def in_file(contig: str, names: Collection[str]) -> str | None:
    """Return a contig's name in a file: its own, or that with or without ``chr``; M is MT.

    >>> in_file("chr1", ["1", "MT"]), in_file("chrM", ["1", "MT"]), in_file("2", ["chr1"])
    ('1', 'MT', None)
    """
    if contig in names:
        return contig
    base = contig.removeprefix("chr")
    bases = _MITOCHONDRIAL if base in _MITOCHONDRIAL else (base,)
    return next((n for b in bases for n in (b, f"chr{b}") if n in names), None)


def renamed(file: str, pairs: Iterable[tuple[str, str | None]]) -> list[str]:
    """Say which contigs of a file are taken for those of other names; nothing where none is.

    >>> renamed("a.bam", [("chr1", "1"), ("2", "2"), ("chrM", "MT")])
    ['Contigs of a.bam are taken for those of the reference: chr1 for 1, chrM for MT.']
    """
    other = [f"{own} for {name}" for own, name in pairs if name is not None and own != name]
    if not other:
        return []
    more = f", and {len(other) - _MOST_TAKEN} more" if len(other) > _MOST_TAKEN else ""
    some = ", ".join(other[:_MOST_TAKEN])
    return [f"Contigs of {file} are taken for those of the reference: {some}{more}."]


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
        named_by.append(partial(_one, settings.region, known))
    if settings.bed is not None:
        named_by.append(partial(read_bed, settings.bed))
    named = []
    for read in named_by or [partial(_everything, str(settings.fasta), contigs)]:
        try:
            named.append(_within(read(), settings, contigs, faults))
        except InputError as error:
            faults += error.faults
    if faults:
        raise InputError(faults)
    found = _merged(named[-1], contigs)
    if len(named) == 1:
        return found
    ((region,), _) = named
    both = [
        Region(r.contig, max(r.start, region.start), min(r.stop, region.stop))
        for r in found if r.contig == region.contig
    ]  # fmt: skip
    both = [r for r in both if r.start < r.stop]
    if not both:
        raise InputError.of(
            file=str(settings.bed),
            expected=f"an interval within the region {settings.region}",
            found="none",
        )
    return both


def _one(region: str, contigs: Collection[str]) -> list[Wanted]:
    return [read_region(region, contigs)]


def _everything(fasta: str, contigs: dict[str, int]) -> list[Wanted]:
    return [Wanted(fasta, None, name) for name, length in contigs.items() if length]


def _within(
    wanted: Iterable[Wanted], settings: VariantSettings, contigs: dict[str, int],
    faults: list[Fault],
) -> list[Region]:  # fmt: skip
    """Return what is wanted as regions of the contigs, and add what is none to the faults."""
    found, unknown = [], set()
    for one in wanted:
        contig = in_file(one.name, contigs)
        if contig is None:
            if one.name not in unknown:  # a BED of another genome has as many as lines
                faults.append(
                    other_names(one.file, one.row, one.name, contigs, str(settings.fasta))
                )
            unknown.add(one.name)
            continue
        if not names_a_contig(contig):
            faults.append(
                Fault(
                    file=one.file,
                    row=one.row,
                    expected=CONTIG_RULE,
                    found=unfit_name(contig),
                    remedy=RENAME,
                )
            )
            continue
        length = contigs[contig]
        end = length if one.stop is None else one.stop
        span = f"{one.name}:{one.start + 1}-{end}"
        if not 0 <= one.start < end <= length:
            expected, remedy = f"positions within {contig}:1-{length}", None
            if one.start >= end and one.row is not None:
                found_at = f"nothing between {one.start} and {end}"
                span, remedy = f"{found_at} of {one.name}", _FROM_0
            faults.append(
                Fault(file=one.file, row=one.row, expected=expected, found=span, remedy=remedy)
            )
        elif end >= MOST_POS and end != _UNKNOWN:
            faults.append(
                Fault(
                    file=one.file,
                    row=one.row,
                    expected="positions below 2^29 (.tbi)",
                    found=span,
                    remedy="name what lies below: --set region= or --set bed=",
                )
            )
        else:
            found.append(Region(contig, one.start, end))
    return found


def _merged(found: Sequence[Region], contigs: dict[str, int]) -> list[Region]:
    names = dict.fromkeys([*contigs, *sorted({r.contig for r in found})])
    order = {name: i for i, name in enumerate(names)}
    merged: list[Region] = []
    for region in sorted(found, key=lambda r: (order[r.contig], r.start)):
        last = merged[-1] if merged else None
        if last and last.contig == region.contig and region.start <= last.stop:
            merged[-1] = Region(last.contig, last.start, max(last.stop, region.stop))
        else:
            merged.append(region)
    return merged


def other_names(file: str, row: int | None, name: str, known: Collection[str], fasta: str) -> Fault:
    """Return the fault of a contig that a file does not have, with those that it has."""
    some = ", ".join(itertools.islice(known, 5)) + (", ..." if len(known) > 5 else "")
    return Fault(
        file=file, row=row, expected=f"a contig of {fasta} ({some})", found=repr(name),
        remedy="give files of the same reference ('chr1' and '1', 'chrM' and 'MT' are the same)",
    )  # fmt: skip


def locate(found: Sequence[Region], start: int, stop: int) -> list[Region]:
    """Return what positions ``start`` to ``stop`` of the regions, laid end to end, are."""
    pieces, before = [], 0
    for region in found:
        low, high = max(start - before, 0), min(stop - before, region.length)
        if low < high:
            pieces.append(Region(region.contig, region.start + low, region.start + high))
        before += region.length
    return pieces


def windows_of(found: Sequence[Region], start: int, stop: int) -> Iterator[tuple[Region, int]]:
    """Cut positions ``start`` to ``stop`` of the regions, laid end to end, into windows.

    With each comes where the positions before it end on its contig: a read that begins before
    that has been met there.

    >>> own = [Region("1", 10, 20), Region("1", 40, 50), Region("2", 5, 9)]
    >>> [(r.contig, r.start, r.stop, met) for r, met in windows_of(own, 4, 23)]
    [('1', 14, 20, 14), ('1', 40, 50, 20), ('2', 5, 8, 0)]
    """
    before, ends = 0, dict[str, int]()
    for region in found:
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
