"""Draws of the paper's simulation, or of a scenario, as a table of counts with its truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from flows.data import storage
from flows.variants.counts import to_table
from vbmodels.variants.bases import BASES
from vbmodels.variants.batch import Counts
from vbmodels.variants.scenarios import SCENARIOS, simulate_scenario
from vbmodels.variants.simulate import Truth, simulate

CONTIG = "simulated"


def write_counts(target: str, rows: int, seed: int) -> list[str]:
    """Write ``counts.parquet`` and ``_truth/variants.parquet``; return their URLs.

    Counts of ``rows`` locations, 3 replicates a sample; a folder of input leaves names that
    begin with an underscore out.
    """
    n_variants = max(1, round(rows * 14 / 400))
    counts, truth = simulate(
        np.random.default_rng(seed), n_locations=rows, n_variants=n_variants, vaf=0.01
    )
    return _write(target, counts, truth)


def write_scenario(target: str, rows: int, seed: int, scenario: str) -> list[str]:
    """Write the counts of a scenario of samples that differ, as `write_counts` does, and a FASTA.

    Variants are as many a location as in its 300 locations. The samples of a panel are normal1,
    normal2 and so on.
    """
    what = SCENARIOS[scenario]
    n_variants = min(rows, round(what.n_variants * rows / 300))
    rng = np.random.default_rng(seed)
    counts, truth = simulate_scenario(rng, replace(what, n_variants=n_variants), rows)
    letters = "".join(np.array(list(BASES))[counts.ref].tolist())
    fasta = storage.join(target, "reference.fa")
    storage.write_bytes(fasta, f">{CONTIG}\n{letters}\n".encode())
    return [*_write(target, counts, truth), fasta]


def _columns(counts: Counts) -> list[tuple[str, str]]:
    """Return the name of each replicate: its sample's, and its number there."""
    member = np.where(counts.case, -1, 0) if counts.member is None else counts.member
    names = ["case" if m < 0 else "control" if counts.member is None else f"normal{m + 1}"
             for m in member]  # fmt: skip
    return [(name, str(names[: i + 1].count(name))) for i, name in enumerate(names)]


def _write(target: str, counts: Counts, truth: Truth) -> list[str]:
    n_variants = len(truth.location)
    table = to_table(counts.counts, counts.ref, CONTIG, 0, _columns(counts))
    letters = np.array(list(BASES))
    known = pa.table(
        {
            "chrom": pa.array([CONTIG] * n_variants, pa.string()),
            "pos": truth.location + 1,
            "ref": pa.array(letters[counts.ref[truth.location]].tolist(), pa.string()),
            "alt": pa.array(letters[truth.alt].tolist(), pa.string()),
            "rate": truth.mu_case[truth.location, truth.alt],
        }
    )
    urls = [
        storage.join(target, "counts.parquet"),
        storage.join(target, "_truth", "variants.parquet"),
    ]
    storage.write_table(urls[0], table)
    storage.write_table(urls[1], known)
    return urls
