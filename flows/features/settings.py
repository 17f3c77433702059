"""Settings of latent features."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from flows.settings.base import Probability, RunSettings

LARGEST_LAPLACE = 1000
"""Rows: every flip of the collapsed sampler costs a fit of all columns."""
_AFTER_DRAWS = {"gibbs": 1, "laplace": 9}
"""Sweeps after the last draw: one that writes it down, or those that set the weights."""


class FeatureSettings(RunSettings):
    """Latent binary features behind a table of categories (the Indian buffet process)."""

    question = "Which hidden features explain a table of categories, and who has them?"
    family = "flows.features.family"
    flow = "flows.pipelines.features.features"

    max_iter: int = Field(2000, ge=1, description="Most sweeps over the data.")
    tol: float = Field(
        1e-7, gt=0.0, lt=1.0, description="Relative tolerance on the rise of the bound to come."
    )
    rows_per_partition: int = Field(5000, ge=1, description="Rows in a partition.")
    n_features: int = Field(
        12,
        ge=1,
        le=200,
        description="Most features; those that the data do not ask for stay empty.",
    )
    form: Literal["table", "nesarc_criteria", "nesarc_diagnoses"] = Field(
        "table",
        description="table: id and columns of categories; nesarc_criteria, nesarc_diagnoses: the "
        "public file of NESARC wave 1, read as 52 criteria or 20 diagnoses.",
    )
    inference: Literal["variational", "gibbs", "laplace"] = Field(
        "variational",
        description="variational: features and their number, fast; gibbs: draws from the "
        "posterior, better at predicting missing cells; laplace: the collapsed sampler of Ruiz et "
        f"al., in one partition, for tables of at most {LARGEST_LAPLACE} rows.",
    )
    bound: Literal["polya_gamma", "text", "both"] = Field(
        "polya_gamma",
        description="polya_gamma: closed form, from starts that are annealed and plain in turn; "
        "text: the bound of Ruiz et al. first, then Polya-Gamma from its features; both: starts of "
        "either kind side by side. A Monte-Carlo estimate of the true bound chooses among starts "
        "(variational).",
    )
    gauge: Literal["pinned", "free"] = Field(
        "pinned",
        description="text: whether each column's most frequent category is held at 0, or all "
        "categories are free as in the text.",
    )
    alpha: float = Field(
        1.0, gt=0.0, description="Concentration of the Indian buffet process (start, if learned)."
    )
    sigma2: float = Field(
        1.0, gt=0.0, description="Prior variance sigma_B^2 of a category's weight (start, if "
        "learned); a binary column's log-odds have twice that.",
    )  # fmt: skip
    learn: bool = Field(True, description="Whether alpha and sigma2 are learned.")
    variances: Literal["shared", "each"] = Field(
        "shared",
        description="learn: one sigma2 for all features, or each feature its own, so that features "
        "that nearly all rows or none have do not draw that of the others down (variational).",
    )
    anneal: int = Field(60, ge=0, le=1000, description="Sweeps of an annealed start (variational).")
    starts: int = Field(
        2, ge=1, le=20, description="Starts side by side, of each bound; the best goes on "
        "(variational).",
    )  # fmt: skip
    chains: int = Field(3, ge=1, le=20, description="Chains (gibbs).")
    warmup: int = Field(
        200, ge=0, description="Draws of each chain that are thrown away (gibbs, laplace)."
    )
    draws: int = Field(
        200, ge=4, description="Draws of each chain that are averaged (gibbs, laplace)."
    )
    flip_above: Probability = Field(
        0.8, description="Features that more than this share of the rows have are reported as "
        "their complements.",
    )  # fmt: skip
    least_rows: int | None = Field(
        None, ge=0, description="Features that fewer rows have are not reported; by default a "
        "thousandth of the rows, and 5 at least.",
    )  # fmt: skip
    max_levels: int = Field(
        100, ge=2, le=10_000, description="Most categories of a column that are accepted."
    )
    missing: tuple[str, ...] = Field(
        (), description="Texts that stand for a missing cell, besides null."
    )
    group: bool = Field(True, description="Whether equal rows share one local step (variational).")

    @model_validator(mode="after")
    def _enough_sweeps(self) -> FeatureSettings:
        if self.inference == "variational":
            return self
        least = self.warmup + self.draws + _AFTER_DRAWS[self.inference]
        if self.max_iter < least:
            raise ValueError(
                f"max_iter must be at least {least}, for warmup and draws with inference "
                f"{self.inference}, not {self.max_iter}"
            )
        return self
