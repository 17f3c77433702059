"""Draws of the paper's simulation as a table of counts with its truth."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flows import storage
from flows.variants.input.counts import to_table
from vbmodels.variants.counts import BASES, Counts
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
    return write_drawn(target, counts, truth)


def _columns(counts: Counts) -> list[tuple[str, str]]:
    """Return the name of each replicate: its sample's, and its number there."""
    names = ["case" if of_case else "control" for of_case in counts.case]
    if counts.member is not None:
        names = ["case" if m < 0 else f"normal{m + 1}" for m in counts.member]
    return [(name, str(names[: i + 1].count(name))) for i, name in enumerate(names)]


def write_drawn(target: str, counts: Counts, truth: Truth) -> list[str]:
    """Write drawn counts and their truth; see `write_counts`."""
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
