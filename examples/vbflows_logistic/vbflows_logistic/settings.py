"""What the pipeline is, and what it can be told."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from flows.settings import RunSettings


class LogisticSettings(RunSettings):
    """Labels of rows of numbers, by Bayesian logistic regression."""

    question = "How do numbers tell of a yes or no, and how sure is each of them?"
    reads = "vbflows_logistic.schema:ROWS_IN"
    family = "vbflows_logistic.family"
    example = (
        "vbflows simulate logistic simulated/ --rows 500",
        "vbflows logistic simulated/rows.parquet results/",
    )

    shape: float = Field(1.0, gt=0.0, description="Shape of the Gamma of the slopes' precision.")
    rate: float = Field(1.0, gt=0.0, description="Rate of the Gamma of the slopes' precision.")
    intercept_variance: float = Field(
        100.0, gt=0.0, description="Variance of the intercept before any row is seen."
    )
    loop: Literal["cavi", "squarem", "memoised"] | None = Field(
        "memoised",
        description="How the fit climbs: cavi, plain sweeps; squarem, sweeps with leaps; memoised, "
        "sweeps in rounds with a step after each, which takes half as many.",
    )
