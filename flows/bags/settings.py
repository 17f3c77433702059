"""Settings of the labels of bags and their instances."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from flows.settings.base import RunSettings
from vbmodels.bags.choice import LENGTHS
from vbmodels.bags.gp_kernel import KernelOptions

_BAG_FORMS = {
    "vmmic": ("collapsed", "mean_field", "as_printed", "gibbs"),
    "gp_probit": ("direct", "collapsed", "as_printed", "gibbs"),
    "gp_logistic": ("as_printed",),
}


class BagSettings(RunSettings):
    """Labels of bags and their primary instances."""

    old_names: ClassVar[dict[str, str]] = {"burn_in": "warmup"}

    tol: float = Field(
        1e-6,
        gt=0.0,
        lt=1.0,
        description="Relative tolerance on the rise of the bound to come (mean_field; the "
        "collapsed form stops when an epoch changes its objective by less than its draws do).",
    )
    model: Literal["vmmic", "gp_probit", "gp_logistic"] = Field(
        "vmmic",
        description="vmmic: two probit regressions, primary instances and bags; gp_probit: a "
        "Gaussian process for each instance, a bag positive when one of its instances is; "
        "gp_logistic: its rival with a logistic link.",
    )
    inference: Literal["collapsed", "mean_field", "as_printed", "gibbs", "direct"] | None = Field(
        None,
        description="collapsed: all local variables integrated out; mean_field: coordinate "
        "ascent; as_printed: the paper's own updates; gibbs: draws from the posterior; direct: "
        "a search for the mode of the collapsed bound. By default collapsed for vmmic, direct "
        "for gp_probit, as_printed for gp_logistic.",
    )
    kernel: str = Field(
        "auto",
        description="gp_probit, gp_logistic: linear, rbf, exponential, matern32, matern52, or a "
        "sum such as linear+rbf; auto: linear for rows of length 1 (TF-IDF), else rbf.",
    )
    kernel_params: Literal["heuristic", "optimise"] = Field(
        "optimise",
        description="gp_probit with direct: whether length scale and amplitude are chosen from a "
        "grid by evidence; the other forms take the heuristic values.",
    )
    n_inducing: int | None = Field(
        None,
        ge=1,
        le=5000,
        description="gp_probit, gp_logistic: inducing points; by default 50.",
    )
    linear_prior: Literal["auto", "independent", "correlated"] = Field(
        "auto",
        description="gp_probit, gp_logistic: prior of the linear kernel's weights. correlated: "
        "words that stand in the same rows have similar weights; auto: correlated for rows of "
        "length 1 (TF-IDF), else independent.",
    )
    posterior: Literal["auto", "laplace", "gaussian"] = Field(
        "auto",
        description="gp_probit with direct. laplace: the mode and its curvature; gaussian: the "
        "nearest Gaussian, averaged over draws; auto: gaussian for the linear kernel of text, "
        "else laplace.",
    )
    baseline_feature: bool = Field(
        False,
        description="gp_probit with direct: one more feature for each class, how positive a "
        "regression of the bags' labels, copied to instances, finds an instance of a bag that it "
        "has not seen. It helps where instances of one bag are alike, and hurts on text.",
    )
    keep_columns: bool = Field(
        True,
        description="gp_probit, gp_logistic: keep the kernel's columns in memory between sweeps "
        "(8 bytes an instance and inducing point, for each length scale), or compute them anew.",
    )
    held_out: float = Field(
        0.0,
        ge=0.0,
        lt=1.0,
        description="Share of labelled bags whose label is kept from the fit, to test it.",
    )
    show_bags: tuple[str, ...] = Field(
        (), description="Bags that the report shows whatever their probability, such as [a, b]."
    )
    standardise: bool | None = Field(
        None,
        description="Whether features are brought to mean 0 and standard deviation 1; by default "
        "yes, except for the kernel of text (see kernel).",
    )
    precision: Literal["float64", "float32"] = Field(
        "float64", description="Type in which features are stored; sums are float64 always."
    )
    intercept_mean: float = Field(0.0, description="Prior mean of intercepts.")
    intercept_variance: float = Field(16.0, gt=0.0, description="Prior variance of intercepts.")
    slope_mean: float = Field(0.0, description="Prior mean of slopes.")
    slope_variance: float = Field(
        4.0, gt=0.0, description="Prior variance of slopes where it is not learned."
    )
    prior_scale: Literal["learned", "evidence", "cross_validation", "fixed"] = Field(
        "learned",
        description="collapsed: where the prior scale of slopes comes from. learned: each block's "
        "own, with the fit; evidence, cross_validation: one for all, the best of slope_lengths; "
        "fixed: slope_variance. The other forms take slope_variance.",
    )
    slope_length: float = Field(
        8.0,
        gt=0.0,
        description="learned: squared length of a block of slopes that is expected beforehand.",
    )
    slope_lengths: tuple[float, ...] = Field(
        LENGTHS,
        min_length=1,
        description="evidence, cross_validation: squared lengths to choose from; a block of D "
        "slopes has the prior variance length / D.",
    )
    folds: int = Field(5, ge=2, le=100, description="cross_validation: folds of the labelled bags.")
    chains: int = Field(4, ge=2, description="gibbs: independent chains.")
    warmup: int = Field(300, ge=0, description="gibbs: sweeps left out at first.")
    draws: int = Field(500, ge=10, description="gibbs: draws kept of each chain.")
    thin: int = Field(1, ge=1, description="gibbs: sweeps from one kept draw to the next.")

    @property
    def form(self) -> str:
        """The form of inference, the model's own where none is given."""
        return self.inference or _BAG_FORMS[self.model][0]

    @model_validator(mode="after")
    def _possible(self) -> BagSettings:
        known = _BAG_FORMS[self.model]
        if self.form not in known:
            raise ValueError(
                f"model {self.model} has inference {' or '.join(known)}, not {self.form}"
            )
        if self.model != "vmmic":
            KernelOptions(kernel=self.kernel)
        if self.baseline_feature and self.form != "direct":
            raise ValueError(f"baseline_feature goes with inference direct, not {self.form}")
        return self

    @model_validator(mode="after")
    def _possible_scale(self) -> BagSettings:
        if min(self.slope_lengths) <= 0.0:
            raise ValueError(f"slope_lengths must lie above 0, not at {min(self.slope_lengths)}")
        collapsed = self.model == "vmmic" and self.form == "collapsed"
        if not collapsed and self.prior_scale in ("evidence", "cross_validation"):
            raise ValueError(
                f"prior_scale {self.prior_scale} goes with inference collapsed of model vmmic, "
                f"not {self.form} of {self.model}"
            )
        return self

    @model_validator(mode="after")
    def _enough_sweeps(self) -> BagSettings:
        if self.inference == "gibbs" and self.warmup + self.draws * self.thin >= self.max_iter:
            raise ValueError(
                f"max_iter must lie above warmup + draws * thin = "
                f"{self.warmup + self.draws * self.thin} with inference gibbs, not at "
                f"{self.max_iter}"
            )
        return self
