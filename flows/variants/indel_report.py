"""What the report says of insertions and deletions, beyond the calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flows.report.page import Grid, Section
from flows.variants.indel_clusters import Cluster
from flows.variants.settings import VariantSettings

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
    text = (
        f"Reads show {alleles:,} insertions and deletions of up to 50 bases; {units:,} were tested "
        "(an unseen slip of one base at every anchor among them). They stand in indels/, what is "
        "called among the calls. Errors by the length of the run of one base that an allele "
        "lengthens or shortens, where polymerases slip:"
    )
    if found:
        text += (
            f" at {len(found):,} places reads with indels gather in {settings.case} of which none "
            "is called, most often one event that the aligner wrote in several ways. Look at the "
            "reads there, or align them anew."
        )
    rates = Grid(
        ("errors", "rate", f"times in {settings.case}"),
        [(kind, float(f"{rate:.2g}"), round(factor, 2)) for kind, rate, factor in fit.rates],
    )
    grids = [rates]
    if found:
        columns = ("not called at", "alleles", f"{settings.case}: reads/depth",
                   f"{settings.compared_with or 'no control'}: the same", "p")  # fmt: skip
        grids.append(Grid(columns, [_row(c) for c in found[:MOST_SHOWN]]))
    return Section("Insertions and deletions", text, (), tuple(grids))


def results(parts: Sequence[PartIndels]) -> dict[str, int]:
    """Return the numbers of a run's record."""
    calls = [call for part in parts for call in part.calls]
    return {
        "indels": sum(not call["filters"] for call in calls),
        "indel_units": sum(part.units for part in parts),
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


def _row(c: Cluster) -> tuple[Any, ...]:
    where = f"{c.contig}:{c.start}" + (f"-{c.stop}" if c.stop > c.start else "")
    case, control = (f"{reads}/{depth}" for reads, depth in (c.case, c.control))
    return where, c.alleles, case, control, float(f"{c.p:.2g}")
