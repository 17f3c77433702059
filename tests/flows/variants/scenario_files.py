"""The counts of a scenario of samples that differ, as files."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from flows.variants.input.simulate import CONTIG, write_drawn
from tests.vbmodels.variants.scenarios import SCENARIOS, simulate_scenario
from vbmodels.variants.counts import BASES


def write_scenario(target: str, rows: int, seed: int, scenario: str) -> list[str]:
    """Write the counts of a scenario of samples that differ, their truth, and a FASTA.

    Variants are as many a location as in its 300 locations. The samples of a panel are normal1,
    normal2 and so on.
    """
    what = SCENARIOS[scenario]
    n_variants = min(rows, round(what.n_variants * rows / 300))
    rng = np.random.default_rng(seed)
    counts, truth = simulate_scenario(rng, replace(what, n_variants=n_variants), rows)
    letters = "".join(np.array(list(BASES))[counts.ref].tolist())
    Path(target).mkdir(parents=True, exist_ok=True)
    fasta = str(Path(target) / "reference.fa")
    Path(fasta).write_text(f">{CONTIG}\n{letters}\n")
    return [*write_drawn(target, counts, truth), fasta]
