"""What the report says of insertions and deletions, beyond the calls.

An aligner that cannot decide writes one event in many ways, or clips it; no single allele then
has reads enough. Such places are listed, for a look at the reads or a local assembly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flows.report.page import Grid, Section
from flows.variants.batch_report import rate_in_words
from flows.variants.counts import Loci
from flows.variants.settings import VariantSettings
from vbmodels.core.state import BoolArray
from vbmodels.variants.counts import Counts, Units

MOST_SHOWN = 50


@dataclass(frozen=True)
class PartIndels:
    """What one partition's insertions and deletions add to the VCF and the report.

    Attributes
    ----------
    units, alleles
        How many were tested; and different alleles that reads show.
    calls
        As `flows.variants.vcf.write_vcf` takes them.
    clusters
        Where reads with indels gather of which none is called.
    """

    units: int
    alleles: int
    calls: tuple[dict[str, Any], ...]
    clusters: tuple[Cluster, ...]


@dataclass(frozen=True)
class IndelFit:
    """What was fitted to the insertions and deletions.

    Attributes
    ----------
    rates
        By kind: error rate of the control, and the factor of the case's (1 of the exchangeable
        null).
    converged
        Whether the fit had.
    iterations
        Its sweeps.
    """

    rates: tuple[tuple[str, float, float], ...]
    converged: bool
    iterations: int


def section(parts: Sequence[PartIndels], fit: IndelFit, settings: VariantSettings) -> Section:
    """Return what indels there are, their errors by kind, and clusters without a call."""
    alleles, units = sum(p.alleles for p in parts), sum(p.units for p in parts)
    found = _clusters(parts)
    shown = "1 insertion or deletion" if alleles == 1 else f"{alleles:,} insertions and deletions"
    text = (
        f"The reads show {shown} of up to 50 bases. {units:,} alleles were tested: also those of "
        "one base more or less at every position, which no read shows. All are in the table "
        "indels; those called are among the calls."
    )
    if not fit.rates:
        none = (
            f"{text} No allele has two reads, so none could be called."
            if alleles
            else "No read shows an insertion or deletion, so none could be called."
        )
        return Section("Insertions and deletions", none)
    against = settings.compared_with
    how = (
        "Errors by the length of the homopolymer (run) that an allele lengthens or shortens, as a "
        f"share of the reads of {against or settings.case}"
    )
    if against:
        how += f", and the factor by which they are more frequent in {settings.case}"
    how += "."
    if found:
        places = "1 place" if len(found) == 1 else f"{len(found):,} places"
        text += (
            f" At {places} {settings.case} has several indels of which none is called: most often "
            "one event that the aligner wrote in several ways. Look at the reads there, or align "
            "them again. Samples have reads with an indel / all reads; p: the probability of so "
            "many by chance."
        )
    columns: tuple[str, ...] = ("error", "rate", "factor")[: 3 if against else 2]
    rows = [
        (k, rate_in_words(rate), round(factor, 2))[: len(columns)] for k, rate, factor in fit.rates
    ]
    grids = [Grid(columns, rows)]
    if found:
        columns = ("place", "alleles", settings.case, *([against] if against else []), "p")
        rows = [_row(c, bool(against)) for c in found[:MOST_SHOWN]]
        grids.append(Grid(columns, rows, "Places with several indels, none called"))
    return Section("Insertions and deletions", text, (), tuple(grids), how=how)


def results(parts: Sequence[PartIndels]) -> dict[str, int]:
    """Return the numbers of a run's record."""
    calls = [call for part in parts for call in part.calls]
    return {
        "indels": sum(not call["filters"] for call in calls),
        "indel_units": sum(part.units for part in parts),
        "indel_alleles": sum(part.alleles for part in parts),
        "uncalled_indel_clusters": len(_clusters(parts)),
    }


def warnings(fit: IndelFit) -> list[str]:
    """Say where the fit of the indels had not converged."""
    if fit.converged:
        return []
    return [f"The fit of the indels had not converged after {fit.iterations} sweeps; raise "
            "max_iter or tol."]  # fmt: skip


def _clusters(parts: Sequence[PartIndels]) -> list[Cluster]:
    return sorted((c for part in parts for c in part.clusters), key=lambda c: c.p)


def _row(c: Cluster, with_control: bool) -> tuple[Any, ...]:
    where = f"{c.contig}:{c.start}" + (f"-{c.stop}" if c.stop > c.start else "")
    samples = (c.case, c.control) if with_control else (c.case,)
    shares = (f"{reads:,}/{depth:,}" for reads, depth in samples)
    return where, c.alleles, *shares, float(f"{c.p:.2g}")


NEAR = 10  # bases between neighbouring anchors of a cluster
LEAST_READS = 4
LEVEL = 1e-3
LEAST_RATIO = 2.0  # of the case's share to the control's
USUAL_SHARE = 0.005  # of reads with an indel, where there is no control
MOST = 50  # of a partition


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
    case: tuple[int, int]
    control: tuple[int, int]
    p: float


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
        if p < LEVEL and case[0] * control[1] >= LEAST_RATIO * control[0] * case[1]:
            where = loci.pos[of.location[group]]
            contig = str(loci.chrom[of.location[group[0]]])
            found.append(
                Cluster(contig, int(where[0]), int(where[-1]), len(group), case, control, p)
            )
    return tuple(sorted(found, key=lambda c: (c.p, c.start))[:MOST])


def _tail(case: tuple[int, int], control: tuple[int, int]) -> float:
    """Return the probability of as many reads in the case by chance."""
    from scipy.stats import binom, hypergeom

    if not control[1]:
        return float(binom.sf(case[0] - 1, case[1], USUAL_SHARE))
    both = case[1] + control[1]
    return float(hypergeom.sf(case[0] - 1, both, case[0] + control[0], case[1]))


def _share(of: Units, group: np.ndarray, member: BoolArray) -> tuple[int, int]:
    """Return reads with an allele of the group, and depth; no more of the former."""
    if not member.any():
        return 0, 0
    reads = int(of.alt_reads[group][:, member].sum())
    depth = int(of.depth[group][:, member].sum(axis=1).max())
    return min(reads, depth), depth
