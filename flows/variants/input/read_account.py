"""The account of reads: how many each rule left out, by replicate, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from flows import storage
from flows.faults import Fault
from flows.records.runs import Dropped
from flows.variants.input.counts import Column
from flows.variants.input.sample_sheet import Alignment
from flows.variants.reads import bam_kernels as bam
from flows.variants.reads.alignments import open_alignment, quiet
from flows.variants.reads.reads import least_quality
from flows.variants.settings import VariantSettings
from vbmodels.core.state import IntArray

IN_FILE = bam.ACCOUNT  # reads of the whole file, 0 where no index has their number
FIELDS = bam.ACCOUNT + 1
FEW_PRIMED = 0.05  # share of the reads, of which fewer begin in a primer where it is another's
MUCH = 1 / 3  # of the reads or bases; a rule that leaves out more is a warning
COUNTED = "counted"
_MOST_NAMED = 4  # samples in a sentence


class Rule(NamedTuple):
    """A rule that leaves out reads, or bases of the reads that count.

    ``at``, ``whole``: which fields of an account it has, and what it is a part of; ``words``: what
    is so of what it leaves out; ``remedy``: what to do where that is much, empty if no fault.
    """

    at: int
    whole: int
    name: str
    words: str
    remedy: str


def rules(settings: VariantSettings) -> list[Rule]:
    """Return the rules by which reads and bases are left out, in the order in which they apply."""
    reads, bases = bam.REACHED, bam.BASES
    least, mapped = least_quality(settings), settings.min_mapping_quality
    lower = "set a lower min_base_quality (long reads need it)" if least > 1 else ""
    return [
        Rule(bam.UNMAPPED, reads, "unmapped", "unmapped", ""),
        Rule(bam.SECONDARY, reads, "secondary", "secondary alignments", ""),
        Rule(
            bam.FAILED,
            reads,
            "failed",
            "flagged as failed by quality control",
            "remove the flag: samtools view --remove-flags QCFAIL",
        ),
        Rule(
            bam.DUPLICATE,
            reads,
            "duplicate",
            "flagged as duplicates",
            "set duplicates=keep (amplicons: all reads begin at the primers)",
        ),
        Rule(
            bam.LOW_MAPPING,
            reads,
            "mapping quality",
            f"of a mapping quality below {mapped}",
            "set a lower min_mapping_quality",
        ),
        Rule(
            bam.NOT_PROPER,
            reads,
            "not proper pair",
            "not flagged as a proper pair",
            "set orphans=true",
        ),
        Rule(bam.LOW_QUALITY, bases, "base quality", f"of a quality below {least}", lower),
        Rule(bam.OF_MATE, bases, "overlap", "counted in the mate, which overlaps", ""),
        Rule(bam.PRIMER, bases, "primer", "of primers", ""),
        Rule(bam.NO_BASE, bases, "no base", "not A, C, G or T", ""),
    ]


def kept_reads(account: IntArray) -> IntArray:
    """Return how many reads count, of accounts [..., FIELDS]."""
    return np.asarray(account[..., bam.REACHED] - account[..., 1 : bam.BASES].sum(axis=-1))


def kept_bases(account: IntArray) -> IntArray:
    """Return how many bases count, of accounts [..., FIELDS]."""
    left_out = account[..., bam.LOW_QUALITY : bam.PRIMER + 1].sum(axis=-1)
    return np.asarray(account[..., bam.BASES] - left_out)


def reads_of(path: str, settings: VariantSettings) -> int:
    """Return how many reads a file has, as its index says; 0 where that does not."""
    with quiet(), open_alignment(path, settings) as file:
        try:
            return 0 if file.is_cram else int(file.mapped + file.unmapped)
        except ValueError:
            return 0


def dropped(account: IntArray, settings: VariantSettings) -> tuple[Dropped, ...]:
    """Return what each rule left out of all replicates, of accounts [R, FIELDS]."""
    sums = account.sum(axis=0)
    return tuple(
        Dropped(
            reason=f"{'read' if rule.whole == bam.REACHED else 'base'} not counted: {rule.words}",
            count=int(sums[rule.at]),
        )
        for rule in rules(settings)
    )


MANY_DIFFER = 0.08  # share of the bases
LEAST_SAME = 20  # bases that differ, which two libraries do not share
THIN = 1.0  # mean depth below which a replicate is named as without reads


@dataclass(frozen=True)
class SampleReads:
    """What is known of the reads of some replicates.

    Attributes
    ----------
    columns
        The replicates.
    positions, locations
        Positions of the regions, and those with reads and a reference base.
    depth
        [R, 2] bases that count at the locations, and those that differ from the reference.
    account
        [R, FIELDS]; None where no reads were counted in this run.
    files
        [R] the replicates' files of reads; none of counts.
    """

    columns: Sequence[Column]
    positions: int
    locations: int
    depth: IntArray
    account: IntArray | None = None
    files: Sequence[str] = ()

    def of(self, columns: Sequence[Column]) -> SampleReads:
        """Return the same of some of the replicates."""
        rows = [list(self.columns).index(column) for column in columns]
        account = None if self.account is None else self.account[rows]
        files = [self.files[r] for r in rows] if self.files else ()
        return replace(self, columns=columns, depth=self.depth[rows], account=account, files=files)

    def below(self, least: float) -> list[int]:
        """Return which replicates have a mean depth below the least."""
        mean = self.depth[:, 0] / max(self.locations, 1)
        return np.flatnonzero(mean < least).tolist()

    @property
    def thin(self) -> list[str]:
        """The replicates with next to no reads, as ``sample replicate``."""
        return [" ".join(self.columns[r]) for r in self.below(THIN)]


def thin_faults(
    source: str, paths: Mapping[Column, str], reads: SampleReads, settings: VariantSettings
) -> list[Fault]:
    """List replicates with too few reads: that nothing is found in them says nothing.

    ``source``: the counts, where no files of reads, ``paths``, are known.
    """
    faults = []
    for r in reads.below(settings.min_depth):
        mean = reads.depth[r, 0] / max(reads.locations, 1)
        found = f"a mean depth of {mean:.2g}"
        remedy = ""
        if reads.account is not None:
            why, remedy = nothing_left(reads.account[r : r + 1], settings)
            found = f"{found} ({why})"
        faults.append(
            Fault(
                file=paths.get(reads.columns[r], source),
                expected=f"a mean depth of at least {settings.min_depth:g} in "
                f"{' '.join(reads.columns[r])}, at the {reads.locations:,} locations with reads",
                found=found,
                remedy=f"{remedy}{('; ' if remedy else '')}leave it out, or set min_depth=0",
            )
        )
    return faults


def mismatch_warnings(reads: SampleReads, settings: VariantSettings) -> list[str]:
    """Say of which replicates more bases differ from the reference than errors would."""
    hit = [
        f"{' '.join(column)} {differ / bases:.0%}"
        for column, (bases, differ) in zip(reads.columns, reads.depth.tolist(), strict=True)
        if differ > MANY_DIFFER * bases
    ]
    if not hit:
        return []
    more = f", and {len(hit) - _MOST_NAMED} more" if len(hit) > _MOST_NAMED else ""
    name = "the reference" if settings.fasta is None else storage.shown(settings.fasta)
    return [
        f"Many bases differ from {name}: {', '.join(hit[:_MOST_NAMED])}{more}. Is it the FASTA "
        "that the reads were aligned to?"
    ]


def same_reads(
    columns: Sequence[Column], digests: Sequence[Sequence[str]], depth: IntArray
) -> list[str]:
    """Say which replicates have the same counts everywhere, errors included.

    ``digests``: [parts, R] of their counts; ``depth``: [R, 2] bases, and those that differ.
    """
    by_digests: dict[tuple[str, ...], list[str]] = {}
    for r, column in enumerate(columns):
        if depth[r, 1] >= LEAST_SAME:
            by_digests.setdefault(tuple(part[r] for part in digests), []).append(" ".join(column))
    return [
        f"{' and '.join(names)} have the same reads, errors included: one file under several names?"
        for names in by_digests.values()
        if len(names) > 1
    ]


def _by_sample(account: IntArray, columns: Sequence[Column]) -> dict[str, IntArray]:
    by_sample: dict[str, IntArray] = {}
    for (sample, _), row in zip(columns, account, strict=True):
        by_sample[sample] = by_sample.get(sample, 0) + row
    return by_sample


def warnings(account: IntArray, columns: Sequence[Column], settings: VariantSettings) -> list[str]:
    """Say which rules leave out over a third of a sample's reads or bases, [R, FIELDS]."""
    samples = _by_sample(account, columns)
    few = [
        f"{row[bam.PRIMED]:,} of {kept_reads(row):,} reads of {name} begin in a primer"
        for name, row in samples.items()
        if settings.primers is not None and row[bam.PRIMED] <= FEW_PRIMED * kept_reads(row)
    ]
    lines = [f"{text}: another scheme? Or set primer_offset= to some bases." for text in few]
    for rule in rules(settings):
        what = "reads" if rule.whole == bam.REACHED else "bases"
        hit = [
            f"{name} {row[rule.at]:,} of {row[rule.whole]:,} ({row[rule.at] / row[rule.whole]:.0%})"
            for name, row in samples.items()
            if row[rule.at] > MUCH * row[rule.whole]
        ]
        if hit and rule.remedy:
            more = f", and {len(hit) - _MOST_NAMED} more samples" if len(hit) > _MOST_NAMED else ""
            lines.append(
                f"{what.capitalize()} {rule.words} are not counted: "
                f"{', '.join(hit[:_MOST_NAMED])}{more}. If these {what} are good, {rule.remedy}."
            )
    return lines


def nothing_left(account: IntArray, settings: VariantSettings) -> tuple[str, str]:
    """Say what left no read or base at all, of accounts [R, FIELDS], and what to do about it."""
    sums = account.sum(axis=0)
    reached, total = int(sums[bam.REACHED]), int(sums[IN_FILE])
    if not reached:
        files = f", and {total:,} elsewhere or unmapped" if total else ""
        where = "in the regions" if settings.region or settings.bed else "on the reference"
        return f"no read {where}{files}", "see where its reads are: samtools idxstats"
    bases = not int(kept_bases(sums)) and int(kept_reads(sums))
    matching = [rule for rule in rules(settings) if (rule.whole == bam.BASES) == bool(bases)]
    most = max(matching, key=lambda rule: int(sums[rule.at]))
    what = "bases" if bases else "reads"
    if not sums[most.at]:
        return f"{int(kept_reads(sums)):,} of {reached:,} reads counted", ""
    text = f"{sums[most.at]:,} of {sums[most.whole]:,} {what} {most.words}"
    return text, most.remedy


def as_rows(reads: SampleReads, settings: VariantSettings) -> dict[str, dict[str, int]]:
    """Return the account by the replicates' names and those of the rules; empty where none is."""
    by_replicate: dict[str, dict[str, int]] = {}
    if reads.account is None:
        return by_replicate
    every = rules(settings)
    for (sample, replicate), counts in zip(reads.columns, reads.account, strict=True):
        row = {}
        if counts[IN_FILE]:
            outside = max(counts[IN_FILE] - counts[bam.REACHED], 0)
            row = {"in the file": int(counts[IN_FILE]), "outside the regions": int(outside)}
        row |= {COUNTED: int(kept_reads(counts))}
        row |= {rule.name: int(counts[rule.at]) for rule in every if rule.whole == bam.REACHED}
        row |= {"bases counted": int(kept_bases(counts))}
        row |= {f"bases: {r.name}": int(counts[r.at]) for r in every if r.whole == bam.BASES}
        by_replicate[f"{sample} {replicate}"] = row
    return by_replicate


def replicates_in_words(lines: Sequence[Alignment]) -> list[str]:
    """Say which files are taken as replicates of one sample, and what to do if they are not."""
    files: dict[str, list[str]] = {}
    for line in lines:
        files.setdefault(line.sample, []).append(storage.shown(line.path).rpartition("/")[2])
    several = [f"{sample} ({', '.join(n)})" for sample, n in files.items() if len(n) > 1]
    if not several:
        return []
    if len(several) > _MOST_NAMED:
        several = [*several[:_MOST_NAMED], f"{len(several) - _MOST_NAMED} more samples"]
    return [
        f"Several files are replicates of one sample: {'; '.join(several)}. Give different "
        "people samples of their own."
    ]
