"""What the user may say of bags, to the pipeline and to the estimators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vbmodels.core.options import option, share


@dataclass(eq=False, repr=False)
class BagOptions:
    """Options of every model of bags."""

    tol: float = share(
        1e-6,
        "Stop where the rise of the bound that is still expected is less than this share of the "
        "bound (mean_field; the collapsed form stops "
        "when an epoch changes its objective by less than its draws do).",
    )


@dataclass(eq=False, repr=False)
class VMMICOptions(BagOptions):
    """Options of vMMIC."""

    intercept_variance: float = option(16.0, "Prior variance of intercepts.", gt=0.0)
    slope_variance: float = option(
        4.0, "mean_field: prior variance of slopes; collapsed learns each block's.", gt=0.0
    )
    slope_length: float = option(
        10.0, "collapsed: squared length of a block of slopes that is expected beforehand.", gt=0.0
    )
    gate_variance: float = option(
        0.3,
        "collapsed: prior variance of a modality's intercept of being primary, as a share of the "
        "squared length of its slopes; 0: intercept_variance, as the text has it.",
        ge=0.0,
    )
    kept_variance: float = option(
        0.97,
        "collapsed: where a modality has 500 features and as many as there are bags, or more, they "
        "are turned to the leading directions that hold this share of their variance, at most as "
        "many as bags; 1 keeps all up to that.",
        gt=0.0,
        le=1.0,
    )


@dataclass(eq=False, repr=False)
class GPOptions(BagOptions):
    """Options of the Gaussian process of instances."""

    kernel: Literal["auto", "linear", "rbf", "linear+rbf"] = option(
        "auto",
        "gp_probit: linear, rbf or their sum; auto: linear for rows of length 1 "
        "(TF-IDF), else rbf.",
    )
    n_inducing: int | None = option(
        None, "gp_probit: inducing points; by default 50.", ge=1, le=5000
    )
    leak: bool = option(
        True,
        "auto, gp_probit: whether every bag has one more instance, by which it "
        "may be positive though none of its own is. A bag without instances has its chance.",
    )
