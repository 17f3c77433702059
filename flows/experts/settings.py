"""Settings of the mixture of experts."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from flows.settings.base import RunSettings
from vbmodels.experts.options import refusal


class ExpertSettings(RunSettings):
    """A mixture of logistic experts that predicts a label 0/1 from numeric columns."""

    question = "What is the label of each row, and which expert is responsible for it?"
    family = "flows.experts.family"
    flow = "flows.pipelines.experts.experts"

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
    inference: Literal["marginal", "cavi", "mh"] = Field(
        "marginal",
        description="marginal: the responsible expert summed out, several starts averaged; cavi: "
        "coordinate ascent on bounds of sigmoid and softmax; mh: Metropolis-Hastings, for few "
        "columns, with diagnostics.",
    )
    prior: Literal["gaussian", "mabn1", "mabn2"] = Field(
        "gaussian",
        description="mabn1 (mh) and mabn2: the mutual angular priors of type I and II, which keep "
        "experts apart (marginal tries mabn2 against none by held-out rows).",
    )
    gate_bound: Literal["bohning", "bouchard"] = Field(
        "bohning", description="Bound on the gates' softmax (cavi)."
    )
    tau: float | None = Field(
        None,
        gt=0.0,
        description="Precision of the prior of weights; by default chosen by held-out rows "
        "(marginal) or 1 (cavi, mh).",
    )
    shared: bool | None = Field(
        None,
        description="Whether the experts' prior has a common mean; by default chosen by held-out "
        "rows (marginal).",
    )
    kappa: float = Field(10.0, ge=0.0, description="Concentration of the angular priors.")
    alpha1: float = Field(
        2.0, gt=0.0, description="Shape of the lengths' Gamma under an angular prior (cavi, mh)."
    )
    alpha2: float = Field(0.5, gt=0.0, description="Rate of the same.")
    learn_lengths: bool = Field(
        True,
        description="Whether alpha1 (at most 50) and alpha2 are learned by EM during warmup, "
        "apart for gates and experts (mh with an angular prior).",
    )
    omega: float = Field(
        0.0,
        ge=0.0,
        description="Weight of the angular regulariser Omega: tried against none by held-out rows "
        "(marginal), or added to the bound (cavi with the Gaussian prior).",
    )
    chains: int = Field(4, ge=2, le=100, description="Chains (mh).")
    warmup: int = Field(
        900, ge=0, description="First evaluations of each chain that are thrown away (mh)."
    )
    draws: int = Field(400, ge=4, description="Draws kept of each chain (mh).")
    thin: int | None = Field(
        None,
        ge=1,
        description="Evaluations from one kept draw to the next; by default as many as move "
        "every gate in every way: n_experts, and twice that with an angular prior (mh).",
    )
    restarts: int = Field(5, ge=1, le=100, description="Starts that are averaged (marginal).")
    predict: Literal["plug_in", "mackay", "monte_carlo"] = Field(
        "plug_in",
        description="How each start's posterior enters predictions: at its means, by MacKay's "
        "correction, or by draws. The means had the best log-loss on the real data tried. mh "
        "averages over its draws.",
    )
    class_weight: Literal["none", "balanced"] = Field(
        "none", description="balanced: both labels weigh the same in the fit (marginal, cavi)."
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

    @property
    def evaluations(self) -> int:
        """Evaluations that mh needs."""
        kinds = 1 if self.prior == "gaussian" else 2
        return self.warmup + self.draws * (self.thin or kinds * self.n_experts) + 1

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        wrong = refusal(self)
        if wrong:
            raise ValueError(wrong)
        if self.inference == "mh" and self.evaluations > self.max_iter:
            raise ValueError(
                f"max_iter must be at least {self.evaluations} for {self.warmup} evaluations of "
                f"warmup and {self.draws} draws with inference=mh, not {self.max_iter}"
            )
        return self
