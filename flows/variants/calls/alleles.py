"""Alleles as rows of a table and as calls of the VCF, and what each filter of reads compared."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from flows.variants.calls.samples import Role, roles_of
from flows.variants.input.counts import Loci
from flows.variants.settings import READ_FILTERS, VariantSettings
from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.variants.counts import Units
from vbmodels.variants.read_filters import LEAST_READS

Strands = tuple[IntArray, IntArray, IntArray, IntArray]
"""[U, R] reads of the reference, forward and reverse, and of the allele."""


@dataclass(frozen=True)
class Outcomes:
    """U alleles of a partition with what the fit and the decision say of them.

    Attributes
    ----------
    alleles
        Their reads.
    case, control
        [U, 6] mean, sd and quantiles of their rates.
    prob, q_value, log_odds
        [U].
    called
        [U] whether they are called.
    """

    alleles: Units
    case: FloatArray
    control: FloatArray
    prob: FloatArray
    q_value: FloatArray
    log_odds: FloatArray
    called: BoolArray


@dataclass(frozen=True)
class Shown:
    """The same alleles with what else is published of them.

    Attributes
    ----------
    outcomes
        What the fit and the decision say.
    alleles
        [U] REF and ALT, as in the VCF.
    filters
        [U] the names of the filters that take them.
    read_end_z
        [U] z of the distance to the read's end against the reference's reads; NaN if not known.
    ref_reads, strands
        [U, R] reads of the reference; and by strand where that is known.
    """

    outcomes: Outcomes
    alleles: Sequence[tuple[str, str]]
    filters: list[list[str]]
    read_end_z: FloatArray
    ref_reads: IntArray
    strands: Strands | None


def filters_of(
    alleles: Units, called: BoolArray, taken: Mapping[str, BoolArray], settings: VariantSettings
) -> list[list[str]]:
    """Return the names of the filters that take each allele.

    ``taken`` says, by the filter, which of those that are called it takes, [C].
    """
    filters: list[list[str]] = [[] if c else ["q_value"] for c in called]
    rows = np.flatnonzero(called)
    if settings.controls:
        taken = {"no_control": alleles.depth[rows][:, ~alleles.case].sum(axis=1) == 0, **taken}
    for name, hit in taken.items():
        for i in rows[hit] if name not in settings.skipped_filters else ():
            filters[i].append(name)
    return filters


def table_of(
    shown: Shown, loci: Loci, case: str, schema: pa.Schema, kinds: Sequence[str] = ()
) -> pa.Table:
    """Return the table of locations, or of indels with their kinds."""
    outcomes, alleles = shown.outcomes, shown.outcomes.alleles
    columns: dict[str, Any] = {
        "sample": [case] * len(alleles),
        "chrom": loci.chrom[alleles.location].tolist(),
        "pos": loci.pos[alleles.location],
        "ref": [ref for ref, _ in shown.alleles],
        "alt": [alt for _, alt in shown.alleles],
        "kind": kinds,
        "prob": outcomes.prob,
        "q_value": outcomes.q_value,
        "called": outcomes.called,
        "filter": [";".join(names) or "PASS" for names in shown.filters],
    }
    for sample, rate, member in (
        ("case", outcomes.case, alleles.case),
        ("control", outcomes.control, ~alleles.case),
    ):
        mean, sd, _, low, high, _ = rate.T
        columns |= {f"{sample}_mean": mean, f"{sample}_sd": sd}
        columns |= {f"{sample}_q05": low, f"{sample}_q95": high}
        columns[f"{sample}_depth"] = alleles.depth[:, member].sum(axis=1)
        columns[f"{sample}_reads"] = alleles.alt_reads[:, member].sum(axis=1)
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def call_of(shown: Shown, i: int, loci: Loci, settings: VariantSettings) -> dict[str, Any]:
    """Return what `flows.variants.calls.vcf.write_vcf` and the report take of a call."""
    outcomes, alleles = shown.outcomes, shown.outcomes.alleles
    j, z = int(alleles.location[i]), float(shown.read_end_z[i])
    reads = AlleleReads(
        alleles.depth[i],
        shown.ref_reads[i],
        alleles.alt_reads[i],
        None if shown.strands is None else [strand[i] for strand in shown.strands],
    )
    return {
        "chrom": str(loci.chrom[j]),
        "pos": int(loci.pos[j]),
        "ref": shown.alleles[i][0],
        "alt": shown.alleles[i][1],
        "qual": float(10.0 / np.log(10.0) * np.logaddexp(0.0, outcomes.log_odds[i])),
        "filters": shown.filters[i],
        "P": float(outcomes.prob[i]),
        "LFDR": float(1.0 - outcomes.prob[i]) if settings.test == "two_groups" else None,
        "QV": float(outcomes.q_value[i]),
        "RPZ": None if np.isnan(z) else round(z, 3),
        **_stated_rates(outcomes.case[i], outcomes.control[i], settings),
        **by_role(reads, roles_of(alleles.case, alleles.member, settings)),
    }


class AlleleReads(NamedTuple):
    """Reads of one allele by replicate, [R] each.

    Attributes
    ----------
    depth, reference, allele
        All reads, those of the reference and those of the allele.
    strands
        Reads of the reference, forward and reverse, and of the allele; None where not known.
    """

    depth: IntArray
    reference: IntArray
    allele: IntArray
    strands: Sequence[IntArray] | None


def by_role(reads: AlleleReads, roles: Sequence[Role]) -> dict[str, Any]:
    """Return an allele's reads in each sample of a comparison and in its replicates."""

    def share(member: BoolArray) -> float:
        return float(reads.allele[member].sum()) / max(int(reads.depth[member].sum()), 1)

    def stated(member: BoolArray, called: bool) -> dict[str, Any]:
        return {
            "depth": int(reads.depth[member].sum()),
            "ref_reads": int(reads.reference[member].sum()),
            "reads": int(reads.allele[member].sum()),
            "strands": None
            if reads.strands is None
            else tuple(int(strand[member].sum()) for strand in reads.strands),
            "called": called,
        }

    of_case = next(role.own for role in roles if role.name == "case")
    case, control = share(of_case), share(~of_case)
    row: dict[str, Any] = {"samples": {}, "replicates": {}}
    for role in roles:
        mask = role.own
        single = [np.arange(len(mask)) == r for r in np.flatnonzero(mask) if not role.of_panel]
        # A loss leaves the genotype to the reads; a replicate that shows the allele has the case's.
        called = role.name == "case" and case > control
        row["samples"][role.name] = {
            **stated(mask, called),
            "replicates": [stated(one, called and share(one) >= 0.5 * case) for one in single],
        }
        pairs = row["replicates"].setdefault("panel" if role.of_panel else role.name, [])
        if role.of_panel:
            pairs.append((int(reads.allele[mask].sum()), int(reads.depth[mask].sum())))
        else:
            pairs += zip(reads.allele[mask].tolist(), reads.depth[mask].tolist(), strict=True)
    return row


def _stated_rates(
    case: FloatArray, control: FloatArray, settings: VariantSettings
) -> dict[str, Any]:
    """Return what a VCF's INFO says of a call's rates, [6] each, as `Outcomes` has them."""
    row: dict[str, Any] = {}
    for rate, mark in ((case, ""), (control, "C")):
        if mark and not settings.controls:
            continue
        row |= {
            f"{mark}MU": float(rate[0]),
            f"{mark}MUSD": float(rate[1]),
            f"{mark}MUCI": (float(rate[2]), float(rate[5])),
        }
    if settings.test == "two_groups":
        row |= {"AF": (row["MU"],), "AFCI": row["MUCI"]}
    return row


SHARES = ("strand_bias", "near_indel", "many_mismatches")
"""Filters that compare shares of the reads; the others compare means."""


@dataclass(frozen=True)
class Compared:
    """What a filter compared: a mean or a share of the reads.

    Attributes
    ----------
    filter
        Its name.
    allele, reference
        Of the reads with the allele, and with the reference base; None of too few.
    """

    filter: str
    allele: float | None
    reference: float | None

    @property
    def is_alike(self) -> bool:
        """Whether reads are the same on both sides, so that they say nothing.

        That none is near an indel or mismatches does say something.
        """
        if self.allele is None or self.allele != self.reference:
            return False
        if self.filter not in SHARES:
            return True
        return self.allele == 1.0 or (self.allele == 0.0 and self.filter == "strand_bias")

    @property
    def is_testable(self) -> bool:
        """Whether the filter could have removed the call."""
        return None not in (self.allele, self.reference) and not self.is_alike


def is_mnv(call: dict[str, Any]) -> bool:
    """Return whether a call is of several bases on the same reads."""
    return len(call["ref"]) == len(call["alt"]) > 1


def compared(call: dict[str, Any], skipped: Container[str] = ()) -> list[Compared]:
    """Return what each filter compared at a call; none where its reads are not known."""
    known = {} if is_mnv(call) else call.get("compared", {})
    if not known:
        return []
    comparisons = [Compared(name, *pair) for name, pair in known.items()]
    if strands := call["samples"]["case"]["strands"]:
        allele, reference = strands[2:], strands[:2]
        comparisons.insert(
            0,
            Compared(
                "strand_bias",
                allele[0] / sum(allele) if sum(allele) >= LEAST_READS else None,
                reference[0] / sum(reference) if sum(reference) else None,
            ),
        )
    return [c for c in comparisons if c.filter not in skipped]


def untested(call: dict[str, Any], settings: VariantSettings) -> list[str]:
    """Return the filters that could not have removed a call; none where its reads are not known."""
    comparisons = compared(call, settings.skipped_filters)
    able = {c.filter for c in comparisons if c.is_testable}
    return [name for name in READ_FILTERS if name not in able] if comparisons else []
