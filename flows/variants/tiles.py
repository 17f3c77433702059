"""The numbers at the head of the variants report, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flows.report.labels import label
from flows.report.page import NextStep, Tile


def tiles_of(results: Mapping[str, Any], level: str, mark: float, positions: int = 0) -> list[Tile]:
    """Return what was called, at which level, and where it could have been called.

    ``mark`` is the setting callable_share, ``positions`` the size of the regions.
    """
    filtered = results["calls"] - results["passed"]
    others = f"{filtered:,} other{'s' * (filtered != 1)}" if filtered else "none"
    note = f"{level}; {others} filtered out"
    tiles = [Tile(label("passed"), f"{results['passed']:,}", note)]
    if "callable_locations" in results:
        every = max(positions, results["locations"], 1)
        share = results["callable_locations"] / every
        note = (
            f"{results['callable_locations']:,} of {every:,} positions, for an allele in "
            f"{100.0 * mark:g} % of the reads"
        )
        tiles.append(Tile("callable", f"{100.0 * share:.1f} %", note))
        limit = results["median_limit_of_detection"]
        value = "none" if limit is None else f"{100.0 * limit:.2f} %"
        note = f"of the reads; median of the {results['locations']:,} positions with reads"
        tiles.append(Tile(label("median_limit_of_detection"), value, note))
    if "indels" in results:
        note = f"{results['indel_units']:,} were tested"
        if not results["indel_alleles"]:
            note = "no read shows one"
        tiles.append(Tile(label("indels"), f"{results['indels']:,}", note))
    if "cases" in results:
        some = sum(own["passed"] > 0 for own in results["cases"].values())
        tiles.append(Tile("cases with a variant", f"{some:,} of {len(results['cases']):,}"))
    return tiles


NEXT_STEPS_OF_CASES = (
    NextStep("See the calls of all cases in one VCF:",
             "bcftools merge --force-samples {run}/cases/*/variants.vcf.gz"),
    NextStep("See the most probable positions of all cases, called or not:",
             "vbflows show {run} loci --sort prob"),
)  # fmt: skip
NEXT_STEPS = (
    NextStep("See all calls; any tool that reads VCF opens this file:",
             "bcftools view {run}/variants.vcf.gz"),
    NextStep("See the most probable positions, called or not:",
             "vbflows show {run} loci --sort prob"),
)  # fmt: skip
