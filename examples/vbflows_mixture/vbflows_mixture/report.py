"""What the page says of the groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flows.family import Findings
from flows.report import plots
from flows.report.page import Section
from vbmodels.core.state import FloatArray


@dataclass(frozen=True)
class GroupSummary:
    """What scoring a partition leaves: expected rows of every group, [K], and their log density."""

    rows: FloatArray
    log_density: float


def report(summaries: Sequence[GroupSummary]) -> Findings:
    """Say which groups there are, the largest first."""
    rows = np.sum([one.rows for one in summaries], axis=0)
    total = float(rows.sum())
    density = sum(one.log_density for one in summaries) / total
    order = np.argsort(-rows, kind="stable").tolist()
    full = int((rows >= 1.0).sum())
    headline = (
        f"{total:,.0f} rows are of {full} groups; the largest has {rows.max() / total:.0%} of them."
    )
    text = f"Rows that the fit has seen have a log density of {density:.3f} each."
    shares = [round(100.0 * float(rows[k]) / total, 2) for k in order]
    plot = plots.bars([f"group {k}" for k in order], shares, "% of rows", "Groups by their share")
    results = {"groups": full, "log_density": density}
    return Findings(headline, [Section("Groups", text, plots=[plot])], results)
