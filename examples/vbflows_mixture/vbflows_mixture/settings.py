"""What the pipeline is, and what it can be told."""

from __future__ import annotations

from pydantic import Field

from flows.settings import RunSettings


class MixtureSettings(RunSettings):
    """Groups of rows of numbers, by a Gaussian mixture with full covariances."""

    question = "Of which groups are these rows, and how is each of them spread?"
    reads = "vbflows_mixture.schema:ROWS_IN"
    family = "vbflows_mixture.family"
    example = (
        "vbflows simulate mixture simulated/ --rows 500",
        "vbflows mixture simulated/rows.parquet results/ --set components=4",
    )
    first = ("components",)

    components: int = Field(5, ge=1, description="Most groups; what is not needed stays empty.")
    alpha: float = Field(1.0, gt=0.0, description="Pseudo-rows of a group: small for few groups.")
    weight0: float = Field(0.1, gt=0.0, description="Pseudo-rows of a group's mean.")
    freedom: float = Field(
        1.0, gt=0.0, description="Degrees of freedom of the covariances beyond the columns."
    )
    spread: float = Field(
        0.25, gt=0.0, description="Variance within a group before any row is seen; in all rows 1."
    )
    tol: float = Field(
        1e-6, gt=0.0, lt=1.0, description="Relative tolerance on the rise of the bound to come."
    )
