"""Variant calls against a panel of controls: what is found, what is false, and the spread tau.

    python -m benchmarks.variants_panel run OUT.jsonl [--seeds 5] [--first 0] [--only NAME ...]
    python -m benchmarks.variants_panel summary OUT.jsonl

Every scenario of `vbmodels.variants.scenarios.PANELS`, each method on the same counts: the panel;
its samples pooled as if they were replicates of one control; the first of them alone; Fisher's
exact test on pooled reads and, as a rule that labs use, the case's share beyond that of every
sample of the panel with Fisher's test against the highest, both with Benjamini and Hochberg at .05.
One JSON line a run.
"""

from __future__ import annotations

import numpy as np

from benchmarks.seeded import main
from benchmarks.variants_breaks import LEVEL, drawn, fisher, table_row, tallied, two_groups
from tests.vbmodels.variants.scenarios import PANELS
from vbmodels.core.state import BoolArray, FloatArray
from vbmodels.variants.calls import benjamini_hochberg
from vbmodels.variants.counts import Counts, Units
from vbmodels.variants.panel.model import PanelNull
from vbmodels.variants.two_groups.batch_null import BatchNull
from vbmodels.variants.two_groups.model import MIXTURE

METHODS = ("panel", "pooled", "one_control", "fisher", "fisher_highest")


def of_samples(counts: Counts, kept: BoolArray) -> Counts:
    """Return the counts of some replicates, those of the control as one sample's."""
    return Counts(counts.counts[:, kept], counts.ref, counts.case[kept])


def against_highest(of: Units) -> FloatArray:
    """Return the largest of Fisher's p-values against each sample of the panel."""
    p = [
        fisher(Units(of.alt_reads[:, own], of.depth[:, own], of.kind, of.location, of.alt,
                     of.case[own]))
        for own in (of.case | (of.members == m) for m in range(of.members.max() + 1))
    ]  # fmt: skip
    return np.asarray(np.max(p, axis=0))


def one_run(name: str, seed: int) -> dict:
    """Run every method on one draw of a scenario."""
    counts, of, true, row = drawn(name, seed)
    every = np.ones(len(counts.case), bool)
    first = counts.case | (of.members == 0)
    found = {"panel": two_groups(PanelNull(alternatives=MIXTURE), counts)}
    pooled = of_samples(counts, every)
    found["pooled"] = two_groups(BatchNull(alternatives=MIXTURE), pooled)
    alone = of_samples(counts, first)
    found["one_control"] = two_groups(BatchNull(alternatives=MIXTURE), alone)
    found["fisher"] = benjamini_hochberg(fisher(of)) <= LEVEL, {}
    found["fisher_highest"] = benjamini_hochberg(against_highest(of)) <= LEVEL, {}
    for method, (calls, about) in found.items():
        row[method] = tallied(calls, true) | about
    return row


def summary(rows: list[dict]) -> list[str]:
    """Return tables: found of true and false calls, summed over seeds, and tau by seed."""
    head = " | ".join(METHODS)
    lines = [f"| scenario | runs | true | {head} |", "|" + "---|" * (3 + len(METHODS))]
    taus = ["| scenario | " + " | ".join(METHODS[:3]) + " |", "|---|---|---|---|"]
    for name in PANELS:
        runs = sorted((r for r in rows if r["scenario"] == name), key=lambda r: r["seed"])
        if not runs:
            continue
        lines.append(table_row(name, runs, METHODS))
        by = [", ".join(f"{r[m]['tau']:.2f}" for r in runs) for m in METHODS[:3]]
        taus.append(f"| {name} | {' | '.join(by)} |")
    ratio = np.median([r["panel"]["cpu"] / r["pooled"]["cpu"] for r in rows])
    return [*lines, "", *taus, "", f"CPU of a fit, panel against pooled: median ratio {ratio:.1f}"]


if __name__ == "__main__":
    main(__doc__, PANELS, one_run, summary, seeds=5)
