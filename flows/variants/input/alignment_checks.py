"""What is wrong with the files of a sample sheet, and whether they are of its FASTA and samples.

Names and lengths of contigs are alike in assemblies that differ (a patched one, another isolate of
a virus, a shifted plasmid): then every difference would look like a variant. So a sample of the
bases of reads is compared. A CRAM has digests of its contigs, and cannot be read with other ones.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pysam

from flows import storage
from flows.faults import Fault, InputError
from flows.variants.input.sample_sheet import Alignment, check_samples, read_sheet, role_of_name
from flows.variants.reads.alignments import (
    described,
    fasta_files,
    indexed_alignment,
    is_out_of_order,
    local_alignment,
    local_fasta,
    open_alignment,
    quiet,
)
from flows.variants.reads.bam_index import DamagedIndex, is_cut
from flows.variants.reads.contigs import contigs_of, in_file, marks_of, other_names, renamed
from flows.variants.reads.reads import base_codes
from flows.variants.reads.regions import Region, locate, primers_of, regions_of
from flows.variants.settings import VariantSettings

_WHOLE = "a whole BAM or CRAM file"
_AGAIN = "copy it again, or take its row out of the sheet"
_NAME = "correct the path (relative to the sheet), or take the row out"


def check_sheet(url: str, settings: VariantSettings, compared: bool = True) -> list[Fault]:
    """List every fault of a sample sheet and of the files that it names.

    Parameters
    ----------
    url
        The sheet.
    settings
        How its files are read.
    compared
        Whether the settings' case and control must be among its samples.
    """
    try:
        lines = read_sheet(url)
    except InputError as error:
        return list(error.faults)
    samples = {line.sample for line in lines}
    faults = check_samples(url, samples, settings) if compared else []
    if settings.fasta is None:
        gone = [fault for line in lines if (fault := _absent(line, url))]
        return [*faults, *gone, _no_fasta(url)]
    try:
        marks = marks_of(settings)
        contigs, wanted = contigs_of(settings, marks), regions_of(settings, marks)
        primers_of(settings)
    except InputError as error:
        return faults + list(error.faults)
    for line in lines:
        faults += _check_alignment(line, url, settings, contigs, wanted)
    return faults


def _no_fasta(sheet: str) -> Fault:
    names = [os.path.basename(path) for path in fasta_files(os.path.dirname(sheet))]
    return Fault(
        file="settings",
        column="fasta",
        expected="the reference FASTA",
        found=f"{' and '.join(names)} in the sheet's folder" if names else "nothing",
        remedy="give --set fasta=FILE: a sample sheet needs it",
    )


def _check_alignment(
    line: Alignment,
    sheet: str,
    settings: VariantSettings,
    contigs: dict[str, int],
    wanted: Sequence[Region],
) -> list[Fault]:
    where: dict[str, Any] = {"file": sheet, "column": "path", "row": line.row}
    if absent := _absent(line, sheet):
        return [absent]
    try:
        with quiet(), open_alignment(line.path, settings, indexed=False) as file:
            # Before an index is made: of a part of a file there is none to be made.
            # htslib looks at the end of a BAM only.
            if file.is_cram and is_cut(local_alignment(line.path)):
                found = f"{line.path} is truncated"
                return [Fault(**where, expected=_WHOLE, found=found, remedy=_AGAIN)]
            lengths = dict(zip(file.references, file.lengths, strict=True))
        unfit = _without_index(line.path, where, settings)
    except DamagedIndex as error:
        index = os.path.join(os.path.dirname(line.path), os.path.basename(error.index))
        expected, remedy = f"a whole index of {line.path}", f"samtools index {line.path}"
        return [Fault(index, expected, error.damage, remedy=f"remove it, or run: {remedy}")]
    except storage.TransientStorageError:
        raise
    except (OSError, ValueError, storage.StorageError) as error:
        return [_unreadable(line, where, error)]
    unfit = unfit or _contig_fault(line.path, lengths, settings, contigs, wanted)
    return [unfit] if unfit else _read_faults(line, where, settings, wanted)


def _contig_fault(
    path: str,
    lengths: Mapping[str, int],
    settings: VariantSettings,
    contigs: Mapping[str, int],
    wanted: Sequence[Region],
) -> Fault | None:
    """Say which contig a file does not have, or not as long as the FASTA; None for none."""
    for contig in dict.fromkeys(region.contig for region in wanted):
        name = in_file(contig, lengths)
        if name is None:
            fault = other_names(path, None, contig, lengths, path)
            return replace(fault, found=f"{contig!r} of {settings.fasta}")
        if lengths[name] != contigs[contig]:
            return Fault(
                file=path,
                expected=f"{name} of {contigs[contig]:,} bases as in {settings.fasta}",
                found=f"{lengths[name]:,}",
                remedy=ALIGNED_TO,
            )
    return None


def _read_faults(
    line: Alignment, where: Mapping[str, Any], settings: VariantSettings, wanted: Sequence[Region]
) -> list[Fault]:
    """Say that a file's reads cannot be decoded, or are of another sequence than the FASTA."""
    try:
        with quiet(), open_alignment(line.path, settings) as file:
            other = digest_fault(file, line.path, wanted, settings) if file.is_cram else None
            return [other] if other else mismatch_faults(file, line.path, wanted, settings)
    except (OSError, ValueError) as error:
        other = _of_another_reference(line, wanted, settings)
        return [other or _unreadable(line, where, error)]


def _absent(line: Alignment, sheet: str) -> Fault | None:
    """Return the fault of a line whose file is not there; None of any other."""
    if not storage.is_local(line.path) or os.path.exists(line.path):
        return None
    return Fault(sheet, "a BAM or CRAM file", f"no file {line.path}", "path", line.row, _NAME)


def _of_another_reference(
    line: Alignment, wanted: Sequence[Region], settings: VariantSettings
) -> Fault | None:
    """Say that a CRAM that cannot be decoded is of another reference, however large that is."""
    try:
        with quiet(), open_alignment(line.path, settings, indexed=False) as file:
            return digest_fault(file, line.path, wanted, settings, 2**40) if file.is_cram else None
    except (OSError, ValueError):
        return None


def _unreadable(line: Alignment, where: Mapping[str, Any], error: Exception) -> Fault:
    found = f"{line.path}, which cannot be read ({described(error)})"
    if storage.is_local(line.path) and not os.path.getsize(line.path):
        found = f"{line.path}, which is empty"
    return Fault(**where, expected=_WHOLE, found=found, remedy=_AGAIN)


def _without_index(path: str, where: dict[str, Any], settings: VariantSettings) -> Fault | None:
    """Say why a file has no index and none can be made; None where there is one."""
    try:
        indexed_alignment(path)
    except OSError:
        if is_out_of_order(path, settings):
            return Fault(
                **where,
                expected="reads in order of their positions",
                found=f"{path} in another order",
                remedy=f"run: samtools sort -o sorted.bam {path}, and name that",
            )
        return Fault(
            **where,
            expected=f"an index of {path}",
            found="none, and none can be made",
            remedy=f"see: samtools index {path}",
        )
    return None


CONTIGS, PLACES, READS = 24, 4, 25  # looked at: contigs of a file, places of each, reads there
TRIED = 50  # regions of a place that are searched for reads
MOST_DIFFERENT = 0.25  # of the compared bases; beyond, the reads are of another sequence
MOST_HASHED = 2**26  # bases of the contigs of a CRAM whose digests are compared
ALIGNED_TO = "give the FASTA that the reads were aligned to"
LEAST_COMPARED = 500  # bases without which nothing is said
_LEFT_OUT = 0x4 | 0x100 | 0x200  # unmapped, secondary, failed
_ALIGNED, _SKIPS_READ, _SKIPS_REFERENCE = (0, 7, 8), (1, 4), (2, 3)  # operations of a CIGAR


def mismatch_faults(
    file: pysam.AlignmentFile, path: str, wanted: Sequence[Region], settings: VariantSettings
) -> list[Fault]:
    """Say that a file's reads are of another sequence than the FASTA.

    Parameters
    ----------
    file
        The BAM or CRAM, open and with an index.
    path
        Its name, for the message.
    wanted
        The regions that will be counted.
    settings
        Name the FASTA and the least qualities.
    """
    compared = different = 0
    with pysam.FastaFile(local_fasta(str(settings.fasta))) as fasta:
        for read, contig in _sample(file, wanted, settings):
            n, wrong = _compare(read, fasta, contig, settings.min_base_quality)
            compared, different = compared + n, different + wrong
    if compared < LEAST_COMPARED or different <= MOST_DIFFERENT * compared:
        return []
    return [
        Fault(
            file=path,
            expected=f"reads of {settings.fasta}, with at most {MOST_DIFFERENT:.0%} of other bases",
            found=f"{different / compared:.0%} of {compared:,} bases",
            remedy=ALIGNED_TO,
        )
    ]


def digest_fault(
    file: pysam.AlignmentFile,
    path: str,
    wanted: Sequence[Region],
    settings: VariantSettings,
    most: int = MOST_HASHED,
) -> Fault | None:
    """Say that a CRAM was written with another reference, by the digests of its contigs (M5).

    Parameters
    ----------
    file, path
        The CRAM, open, and its name.
    wanted
        The regions that will be counted; contigs are compared in their order.
    settings
        Name the FASTA.
    most
        Bases of contigs that are compared.
    """
    digests = {line["SN"]: line.get("M5", "") for line in file.header.to_dict().get("SQ", [])}
    with pysam.FastaFile(local_fasta(str(settings.fasta))) as fasta:
        for contig in dict.fromkeys(region.contig for region in wanted):
            most -= fasta.get_reference_length(contig)
            name = in_file(contig, file.references)
            expected = digests.get(str(name), "").lower()
            if most < 0 or not expected:
                continue
            bases = fasta.fetch(contig).upper().encode()
            if hashlib.md5(bases, usedforsecurity=False).hexdigest() != expected:
                return Fault(
                    file=path,
                    expected=f"reads of {settings.fasta}",
                    found=f"another reference: the MD5 of {name} in its header (M5 {expected}) is "
                    "not that of the FASTA",
                    remedy="give the FASTA that the CRAM was written with",
                )
    return None


def _sample(
    file: pysam.AlignmentFile, wanted: Sequence[Region], settings: VariantSettings
) -> Iterator[tuple[pysam.AlignedSegment, str]]:
    """Yield (read, contig of the FASTA) at places spread over the regions of some contigs."""
    contigs = list(dict.fromkeys(region.contig for region in wanted))
    step = max(1, -(-len(contigs) // CONTIGS))
    for contig in contigs[::step]:
        regions = [region for region in wanted if region.contig == contig]
        total = sum(region.length for region in regions)
        name = in_file(contig, file.references)
        for place in range(PLACES):
            start, stop = place * total // PLACES, (place + 1) * total // PLACES
            left = READS
            for region in locate(regions, start, stop)[:TRIED]:
                for read in file.fetch(name, region.start, region.stop):
                    if read.flag & _LEFT_OUT or read.mapping_quality < settings.min_mapping_quality:
                        continue
                    yield read, contig
                    left -= 1
                    if not left:
                        break
                if not left:
                    break


def _compare(
    read: pysam.AlignedSegment, fasta: pysam.FastaFile, contig: str, least: int
) -> tuple[int, int]:
    """Return how many confident bases of a read were compared, and how many differ."""
    if not read.query_sequence or not read.cigartuples:
        return 0, 0
    bases = base_codes(read.query_sequence)
    there = base_codes(fasta.fetch(contig, read.reference_start, read.reference_end))
    sure = bases >= 0
    if read.query_qualities is not None:
        sure &= np.asarray(read.query_qualities) >= least
    compared = different = i = j = 0
    for operation, length in read.cigartuples:
        if operation in _ALIGNED:
            shown, reference = bases[i : i + length], there[j : j + length]
            both = sure[i : i + length] & (reference >= 0)
            compared += int(both.sum())
            different += int((both & (shown != reference)).sum())
        if operation in (*_ALIGNED, *_SKIPS_READ):
            i += length
        if operation in (*_ALIGNED, *_SKIPS_REFERENCE):
            j += length
    return compared, different


_MOST_NAMED = 4  # files in a sentence


def header_warnings(
    files: Sequence[Alignment], wanted: Sequence[Region], settings: VariantSettings
) -> list[str]:
    """Say where read groups name other samples than the sheet, and contigs have other names.

    A sheet's sample that is named by its role, such as "tumour", may be anybody; its read groups
    may not name another sample of the sheet.
    """
    contigs = list(dict.fromkeys(region.contig for region in wanted))
    named = {file.sample for file in files}
    other, several = [], []
    named_alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for file in files:
        name = os.path.basename(storage.shown(file.path))
        with quiet(), open_alignment(file.path, settings, indexed=False) as opened:
            groups = opened.header.to_dict().get("RG", [])
            pairs = [(in_file(c, opened.references), c) for c in contigs]
        differ = tuple((theirs, c) for theirs, c in pairs if theirs is not None and theirs != c)
        named_alike.setdefault(differ, []).append(name)
        sm = sorted({str(group["SM"]) for group in groups if group.get("SM")})
        if len(sm) > 1:
            several.append(
                f"{name} has reads of {len(sm)} samples ({', '.join(sm[:_MOST_NAMED])}), "
                f"counted together as {file.sample} {file.replicate}."
            )
        elif sm and sm[0] != file.sample and (role_of_name(file.sample) is None or sm[0] in named):
            other.append(f"{name} has {sm[0]} for {file.sample}")
    taken = [text for pairs, names in named_alike.items() for text in renamed(_files(names), pairs)]
    warnings = several[:_MOST_NAMED] + taken[:_MOST_NAMED]
    if other:
        more = f", and {len(other) - _MOST_NAMED} more" if len(other) > _MOST_NAMED else ""
        warnings.append(
            f"Read groups (SM) name other samples than the sheet: {'; '.join(other[:_MOST_NAMED])}"
            f"{more}. Are files exchanged?"
        )
    return warnings


def _files(names: Sequence[str]) -> str:
    """Name a file, or say how many there are, with the first as an example.

    >>> _files(["a.bam"]), _files(["a.bam", "b.bam"])
    ('a.bam', '2 files (such as a.bam)')
    """
    return names[0] if len(names) == 1 else f"{len(names):,} files (such as {names[0]})"
