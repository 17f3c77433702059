"""Settings of latent features."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, model_validator

from flows.settings.base import declared
from flows.settings.tables import TableSettings
from vbmodels.features.options import FeatureOptions

LEAST_VARIATIONAL = 61
"""Fewest sweeps of variational: those of the search's chains, and one more."""
LEAST_MULTINOMIAL = 24
"""Fewest sweeps of multinomial, of which all but one may be halved steps and set weights."""


class FeatureSettings(declared(FeatureOptions, base=TableSettings)):  # type: ignore[misc]
    """Latent binary features behind a table of categories (the Indian buffet process)."""

    question = "Which hidden groups of answers explain a survey, and which rows have them?"
    family = "flows.features.family"
    answer = "flows.features.answer"
    reads = "flows.features.schema:CATEGORIES_IN"
    example = (
        "vbflows simulate features simulated/ --rows 300",
        "vbflows features simulated/table.parquet results/ --set n_features=8",
    )
    own_file = "vbflows features survey.csv out/ --column id=student"
    page = "docs/pipelines/features.md"
    first = ("n_features", "missing", "ordered", "starts", "least_rows")
    groups: ClassVar[dict[str, tuple[str, ...]]] = {
        "data": ("bins", "max_levels", "group"),
        "expert": ("inference", "alpha", "sigma2"),
    }

    rows_per_partition: int = Field(5000, ge=1, description="Rows in a partition.")
    max_levels: int = Field(
        100,
        ge=2,
        le=10_000,
        description="Most categories of a column; beyond that the least frequent are joined.",
    )
    ordered: tuple[str, ...] = Field(
        (),
        description="The columns whose answers have an order; none: no column. By default those "
        "whose answers are a known scale (strongly disagree ... strongly agree, never ... always) "
        "or the numbers 1 to n. After a column's name its answers from the lowest to the highest, "
        "such as size:S,M,L.",
    )
    bins: int = Field(
        0,
        ge=0,
        le=100,
        description="Classes of about as many rows each that a column of measurements is cut into; "
        "0 leaves such columns out.",
    )
    group: bool = Field(True, description="Whether equal rows share one local step (variational).")

    @model_validator(mode="after")
    def _enough_sweeps(self) -> FeatureSettings:
        variational = self.inference == "variational"
        least = LEAST_VARIATIONAL if variational else LEAST_MULTINOMIAL
        if self.max_iter < least:
            raise ValueError(
                f"max_iter must be at least {least} with inference {self.inference}, not "
                f"{self.max_iter}"
            )
        return self
