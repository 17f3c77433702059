"""Draws of the paper's simulation as a table of counts, with the truth beside it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flows.data import storage
from flows.variants.counts import to_table
from vbmodels.variants.batch import BASES
from vbmodels.variants.simulate import simulate


def write_counts(target: str, rows: int, seed: int) -> list[str]:
    """Write ``counts.parquet`` and ``_truth/variants.parquet``; return their URLs.

    Counts of ``rows`` locations, 3 replicates a sample; a folder of input leaves names that
    begin with an underscore out.
    """
    n_variants = max(1, round(rows * 14 / 400))
    counts, truth = simulate(
        np.random.default_rng(seed), n_locations=rows, n_variants=n_variants, vaf=0.01
    )
    columns = [("case" if c else "control", str(i % 3 + 1)) for i, c in enumerate(counts.case)]
    table = to_table(counts.counts, counts.ref, "simulated", 0, columns)
    letters = np.array(list(BASES))
    known = pa.table(
        {
            "chrom": ["simulated"] * n_variants,
            "pos": truth.location + 1,
            "ref": letters[counts.ref[truth.location]].tolist(),
            "alt": letters[truth.alt].tolist(),
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
