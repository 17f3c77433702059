"""What the user may say of a mixture of experts, to the pipeline and to the estimators."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from vbmodels.core.options import option, share

RARE_BELOW = 10


@dataclass(eq=False, repr=False)
class ExpertOptions:
    """Options of a mixture of experts."""

    n_experts: int | None = option(
        None,
        "Most experts; an expert is a submodel for some of the rows. By default 10: as many, half "
        "as many and none are tried; 1 means curves alone: no experts, pairs or Gaussian process. "
        "With inference cavi or mh exactly this many, by default 5; 1 is Bayesian logistic "
        "regression.",
        ge=1,
        le=100,
        positional=True,
    )
    inference: Literal["additive", "cavi", "mh"] = option(
        "additive",
        "additive: a line and a curve for each column, and experts where they predict held-out "
        "rows better; cavi: coordinate ascent on bounds of sigmoid and softmax; mh: "
        "Metropolis-Hastings, for few columns, with diagnostics.",
    )
    prior: Literal["gaussian", "mabn1", "mabn2"] = option(
        "gaussian",
        "mabn1 (mh) and mabn2 (cavi, mh): the mutual angular priors of type I and II, which keep "
        "experts apart.",
    )
    gaussian_process: bool = option(
        True,
        "Whether a Gaussian process of all columns together may be stacked with lines, curves and "
        "experts, with the weight that held-out rows give it (additive with more than one expert, "
        "up to 50,000 rows).",
    )
    tau: float | None = option(
        None,
        "Precision of the prior of weights; by default chosen by held-out rows (additive) or 1 "
        "(cavi, mh).",
        gt=0.0,
    )
    omega: float = option(
        0.0,
        "Weight of the angular regulariser Omega, which is added to the bound (cavi with the "
        "Gaussian prior).",
        ge=0.0,
    )
    chains: int = option(4, "Chains (mh).", ge=2, le=100)
    warmup: int = option(900, "mh: first evaluations of each chain, which are discarded.", ge=0)
    draws: int = option(400, "Draws kept of each chain (mh).", ge=4)
    standardise: bool = option(
        True,
        "Whether columns are brought to mean 0 and standard deviation 1; columns of 0 and 1 stay "
        "as they are.",
    )
    max_levels: int = option(
        100,
        "Most levels of a category with a column of their own; the least frequent of more join "
        "the reference.",
        ge=2,
        le=1000,
    )
    tol: float = share(
        3e-06,
        "additive: rise of the objective, in nats a row (.03 in all at least), that ends a search; "
        "cavi: stop where the rise of the bound that is still expected is less than this share of "
        "it.",
    )
    max_iter: int = option(5000, "Maximum number of passes over all rows.", ge=1)


@dataclass(eq=False, repr=False)
class ExpertTuning(ExpertOptions):
    """Options that the Python models have beyond those of the pipeline."""

    kappa: float = option(10.0, "Concentration of the angular priors.", ge=0.0)
    alpha1: float = option(
        2.0, "Shape of the lengths' Gamma under an angular prior (cavi, mh).", gt=0.0
    )
    alpha2: float = option(0.5, "Rate of the same.", gt=0.0)
    learn_lengths: bool = option(
        True,
        "Whether alpha1 (at most 50) and alpha2 are learned by EM during warmup, apart for gates "
        "and experts (mh with an angular prior).",
    )
    thin: int | None = option(
        None,
        "Evaluations from one kept draw to the next; by default as many as move every gate in "
        "every way: n_experts, and twice that with an angular prior (mh).",
        ge=1,
    )
    restarts: int = option(5, "Starts that are averaged (additive).", ge=1, le=100)
    rare_below: int = option(
        RARE_BELOW,
        "Levels of a category with fewer cells are joined to the reference, where a column has "
        "several of them; from so many missing cells on a column says where they are.",
        ge=1,
    )

    @classmethod
    def of(cls, options: ExpertOptions) -> ExpertTuning:
        """Return these options with the defaults of the others."""
        return cls(**{one.name: getattr(options, one.name) for one in fields(ExpertOptions)})


def experts_of(options: Any) -> int:
    """Return the number of experts, or the largest of those tried.

    >>> experts_of(ExpertOptions()), experts_of(ExpertOptions(inference="mh"))
    (10, 5)
    """
    if options.n_experts is not None:
        return int(options.n_experts)
    return 10 if options.inference == "additive" else 5


def refusal(options: Any) -> str | None:
    """Say which options do not go together; None where all do."""
    if options.prior != "gaussian" and options.inference == "additive":
        return f"prior {options.prior} is for inference cavi or mh, not additive"
    if options.prior == "mabn1" and options.inference == "cavi":
        return "prior mabn1 is for inference mh, not cavi; mabn2 is for both"
    if options.omega > 0.0 and (options.inference != "cavi" or options.prior != "gaussian"):
        return "omega is for inference cavi with the Gaussian prior"
    if options.inference == "mh" and options.class_weight not in (None, "none"):
        return f"class_weight {options.class_weight} is for inference additive or cavi, not mh"
    return None
