"""What is said of a panel of controls: how its samples differ in their errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from flows.report.page import Grid, Section
from flows.variants.settings import VariantSettings
from vbmodels.variants.batch_null import names_of_types
from vbmodels.variants.panel import CONTAMINATION


def of_panel(call: dict[str, Any], settings: VariantSettings) -> str:
    """Return a call's reads and depth in the panel, and in the sample of the largest share."""
    reads = call["replicates"].get("panel", [])
    together = f"{sum(a for a, _ in reads)}/{sum(n for _, n in reads)}"
    shares = [a / max(n, 1) for a, n in reads]
    if len(reads) < 2 or max(shares) == 0.0:
        return together
    most = int(np.argmax(shares))
    return f"{together}; {reads[most][0]}/{reads[most][1]} in {settings.members[most]}"


def panel_section(q: Any, settings: VariantSettings) -> Section:
    """Return each sample's factor by substitution, as a table."""
    names = names_of_types()
    rows = [
        (sample, *(round(float(f), 2) for f in np.exp(own)))
        for sample, own in zip(settings.controls, q.member_shift, strict=True)
    ]
    single = (
        ""
        if len(rows) > 1
        else (
            " One sample alone has no difference of its own: the case is compared with it directly."
        )
    )
    text = (
        "Error rates of every sample that the case is compared with, as factors of the rates in "
        "their middle, by substitution. At single sites samples, the case among them, differ by a "
        f"standard deviation of tau = {q.tau:.3f} in logit. A sample of the panel may carry an "
        f"allele itself with a probability of {CONTAMINATION:g}, and then hides no "
        f"variant of the case.{single}"
    )
    return Section("The panel", text, (), (Grid(("sample", *names), rows),))
