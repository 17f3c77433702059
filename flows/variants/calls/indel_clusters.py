"""Places where reads with insertions and deletions gather, of which none is called.

An aligner that cannot decide writes one event in many ways, or clips it; no single allele then
has reads enough. Such places are listed, for a look at the reads or a local assembly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flows.variants.calls.shares import Reads
from flows.variants.input.counts import Loci
from vbmodels.core.state import BoolArray
from vbmodels.variants.counts import Counts, Units

NEAR = 10  # bases between neighbouring anchors of a cluster
LEAST_READS = 4
LEVEL = 1e-3
LEAST_RATIO = 2.0  # of the case's share to the control's
USUAL_SHARE = 0.005  # of reads with an indel, where there is no control
MOST = 50  # of a partition


@dataclass(frozen=True)
class PartIndels:
    """What one partition's insertions and deletions add to the VCF and the report.

    Attributes
    ----------
    units, alleles
        How many were tested; and different alleles that reads show.
    calls
        As `flows.variants.calls.vcf.write_vcf` takes them.
    clusters
        Where reads with indels gather of which none is called.
    """

    units: int
    alleles: int
    calls: tuple[dict[str, Any], ...]
    clusters: tuple[Cluster, ...]


@dataclass(frozen=True)
class IndelRate:
    """Errors of one kind: the control's rate, and the factor of the case's, 1 without a shift."""

    kind: str
    rate: float
    factor: float


@dataclass(frozen=True)
class IndelFit:
    """What was fitted to the insertions and deletions.

    Attributes
    ----------
    rates
        By kind; none where no allele has two reads.
    converged
        Whether the fit had.
    iterations
        Its sweeps.
    """

    rates: tuple[IndelRate, ...]
    converged: bool
    iterations: int


@dataclass(frozen=True)
class Cluster:
    """Anchors near each other whose reads with uncalled indels are more in the case.

    Attributes
    ----------
    contig, start, stop
        Where: positions from 1, both included.
    alleles
        How many different alleles the case's reads show.
    case, control
        Reads with one of them, and the largest depth.
    p
        Fisher's exact test, one-sided: the case's share against the control's; without a control
        against half a per cent of reads.
    """

    contig: str
    start: int
    stop: int
    alleles: int
    case: Reads
    control: Reads
    p: float

    @property
    def name(self) -> str:
        """Where, as people write it."""
        end = f"-{self.stop}" if self.stop > self.start else ""
        return f"{self.contig}:{self.start}{end}"


def clusters(of: Units, called: BoolArray, batch: Counts, loci: Loci) -> tuple[Cluster, ...]:
    """Return the clusters of a partition, the surest first.

    A cluster with a called allele is left out, since its other alleles are mostly the same event.

    Parameters
    ----------
    of, called
        Units of the alleles that reads show, sorted by location, and which of them are called.
    batch, loci
        The partition's counts, and where they are.
    """
    own = of.alt_reads[:, of.case].sum(axis=1)
    at = np.flatnonzero((own > 0) | called)
    if not at.size:
        return ()
    chrom, pos = loci.chrom[of.location[at]], loci.pos[of.location[at]]
    apart = (np.diff(pos) > NEAR) | (chrom[1:] != chrom[:-1])
    found = []
    for group in np.split(at, np.flatnonzero(apart) + 1):
        if called[group].any() or own[group].sum() < LEAST_READS:
            continue
        case, control = (_share(of, group, m) for m in (of.case, ~of.case))
        p = _tail(case, control)
        more = case.allele * control.every >= LEAST_RATIO * control.allele * case.every
        if p < LEVEL and more:
            where = loci.pos[of.location[group]]
            contig = str(loci.chrom[of.location[group[0]]])
            found.append(
                Cluster(contig, int(where[0]), int(where[-1]), len(group), case, control, p)
            )
    return tuple(sorted(found, key=lambda c: (c.p, c.start))[:MOST])


def _tail(case: Reads, control: Reads) -> float:
    """Return the probability of as many reads in the case by chance."""
    from scipy.stats import binom, hypergeom

    if not control.every:
        return float(binom.sf(case.allele - 1, case.every, USUAL_SHARE))
    both = Reads.sum([case, control])
    return float(hypergeom.sf(case.allele - 1, both.every, both.allele, case.every))


def _share(of: Units, group: np.ndarray, member: BoolArray) -> Reads:
    """Return reads with an allele of the group, and depth; no more of the former."""
    if not member.any():
        return Reads(0, 0)
    reads = int(of.alt_reads[group][:, member].sum())
    depth = int(of.depth[group][:, member].sum(axis=1).max())
    return Reads(min(reads, depth), depth)
