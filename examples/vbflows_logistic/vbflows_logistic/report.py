"""What the page says of the weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flows.family import Findings
from flows.report import plots
from flows.report.page import Section
from vbflows_logistic.model import Global


@dataclass(frozen=True)
class LabelSummary:
    """What scoring a partition leaves: rows, how many have a label, and 1; their log density."""

    rows: int
    labelled: int
    positive: int
    log_density: float


def report(q: Global, summaries: Sequence[LabelSummary]) -> Findings:
    """Say which columns tell, the strongest first, and how well rows are told."""
    rows = sum(one.rows for one in summaries)
    labelled = sum(one.labelled for one in summaries)
    density = sum(one.log_density for one in summaries) / max(labelled, 1)
    mean, sd = q.w.mean[1:], np.sqrt(np.diag(q.w.covariance))[1:]
    order = np.argsort(-np.abs(mean), kind="stable")[:30].tolist()
    sure = int((np.abs(mean) > 2.0 * sd).sum())
    headline = (
        f"{sure} of {len(mean)} columns tell of the label beyond doubt of two standard deviations; "
        f"{labelled:,} of {rows:,} rows had one."
    )
    text = (
        "Weights on the logit, for one standard deviation of each column. Labels that the fit has "
        f"seen have a log density of {density:.3f} each."
    )
    plot = plots.intervals(
        [f"feature {j}" for j in order], mean[order].tolist(), sd[order].tolist(),
        "weight", "Weights with their doubt",
    )  # fmt: skip
    results = {"labelled": labelled, "log_density": density, "columns_beyond_doubt": sure}
    return Findings(headline, [Section("Weights", text, plots=[plot])], results)
