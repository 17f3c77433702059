"""Settings of the mixture of experts."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from flows.settings.base import RunSettings


class ExpertSettings(RunSettings):
    """A mixture of logistic experts that predicts a label 0/1 from numeric columns."""

    max_iter: int = Field(5000, ge=1, description="Most evaluations of all rows.")
    tol: float = Field(
        3e-6,
        gt=0.0,
        lt=1.0,
        description="marginal: rise of the objective, in nats a row, that ends a search; cavi: "
        "relative tolerance on the rise of the bound to come.",
    )
    rows_per_partition: int = Field(5000, ge=1, description="Rows in a partition.")
    n_experts: int = Field(
        5, ge=1, le=100, description="Number of experts; 1 is Bayesian logistic regression."
    )
    select: Literal["fixed", "cv"] = Field(
        "fixed",
        description="cv: the number of experts is chosen among 1, 2, 5, 10, ... up to n_experts "
        "by the log-likelihood of held-out rows (marginal).",
    )
    inference: Literal["marginal", "cavi"] = Field(
        "marginal",
        description="marginal: the responsible expert summed out, several starts averaged; cavi: "
        "coordinate ascent on bounds of sigmoid and softmax.",
    )
    prior: Literal["gaussian", "mabn2"] = Field(
        "gaussian",
        description="mabn2: the mutual angular prior that keeps experts apart (marginal tries it "
        "against none by held-out rows).",
    )
    gate_bound: Literal["bohning", "bouchard"] = Field(
        "bohning", description="Bound on the gates' softmax (cavi)."
    )
    tau: float | None = Field(
        None,
        gt=0.0,
        description="Precision of the prior of weights; by default chosen by held-out rows "
        "(marginal) or 1 (cavi).",
    )
    shared: bool | None = Field(
        None,
        description="Whether the experts' prior has a common mean; by default chosen by held-out "
        "rows (marginal).",
    )
    kappa: float = Field(10.0, ge=0.0, description="Concentration of the prior mabn2.")
    omega: float = Field(
        0.0,
        ge=0.0,
        description="Weight of the angular regulariser Omega, tried against none by held-out rows "
        "(marginal).",
    )
    restarts: int = Field(5, ge=1, le=100, description="Starts that are averaged (marginal).")
    predict: Literal["plug_in", "mackay", "monte_carlo"] = Field(
        "plug_in",
        description="How each start's posterior enters predictions: at its means, by MacKay's "
        "correction, or by draws. The means had the best log-loss on the real data tried.",
    )
    class_weight: Literal["none", "balanced"] = Field(
        "none", description="balanced: both labels weigh the same in the fit."
    )
    standardise: bool = Field(
        True,
        description="Whether columns are brought to mean 0 and standard deviation 1; columns of "
        "0 and 1 stay as they are.",
    )
    test_share: float = Field(
        0.1,
        ge=0.0,
        lt=0.9,
        description="Share of the labelled rows that is left out of the fit to judge it.",
    )

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if self.inference == "cavi" and (self.select == "cv" or self.omega > 0.0):
            raise ValueError("select cv and omega go with inference marginal")
        return self
