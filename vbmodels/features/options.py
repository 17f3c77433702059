"""What the user may say of latent features, to the pipeline and to the estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vbmodels.core.options import option, share

LARGEST_LAPLACE = 1000
"""Rows: every flip of the collapsed sampler costs a fit of all columns."""


@dataclass(eq=False, repr=False)
class FeatureOptions:
    """Options of the latent feature model."""

    n_features: int = option(
        12,
        "Features that the search begins with: it ends with those that the data ask for, and "
        "begins again with twice as many where all are in use. In other forms, the most features.",
        ge=1,
        le=200,
        positional=True,
    )
    inference: Literal["variational", "gibbs", "laplace"] = option(
        "variational",
        "variational: features and their number, fast; gibbs: draws from the posterior, better at "
        "predicting missing cells; laplace: the collapsed sampler of Ruiz et al., in one "
        f"partition, for tables of at most {LARGEST_LAPLACE} rows.",
    )
    search: Literal["moves", "starts"] = option(
        "moves",
        "moves: two short stochastic chains, then fits that moves improve (features deleted, taken "
        "from the other chain, turned or given new bits), each judged by a Monte-Carlo estimate "
        "of the true bound; starts: annealed and plain starts in turn, as for bound=text "
        "(variational).",
    )
    search_rows: int | None = option(
        10_000,
        "Rows that are searched, about, where a table has more than twice as many (search=moves); "
        "all rows are fitted to what these show, and moves tried on them once more; then what all "
        "rows leave unexplained is looked at for features that few of them have (10,000 rows and "
        "more, at most 1,000 categories in all). None, or half the rows and more: all rows are "
        "searched.",
        ge=100,
    )
    bound: Literal["polya_gamma", "text", "both"] = option(
        "polya_gamma",
        "polya_gamma: closed form; text: the bound of Ruiz et al. first, then Polya-Gamma from "
        "its features; both: starts of either kind side by side. text and both are not searched "
        "by moves: a Monte-Carlo estimate of the true bound chooses among their starts "
        "(variational).",
    )
    gauge: Literal["pinned", "free"] = option(
        "pinned",
        "text: whether each column's most frequent category is held at 0, or all categories are "
        "free as in the text.",
    )
    prediction: Literal["auto", "stacked", "sampled", "mean"] = option(
        "auto",
        "Missing cells. stacked: models made for them learn in the sweeps of the search (binary "
        "features and continuous traits by sampling, latent classes, columns' shares) and are "
        "weighed on cells hidden from them (search=moves); sampled: averages over weights drawn "
        "from their posterior, with the row's features drawn given each; mean: the features' "
        "probabilities beside the posterior of the weights, which is surer than it should be; "
        "auto: stacked where the fit has missing cells, sampled otherwise (variational, laplace).",
    )
    alpha: float = option(
        1.0, "Concentration of the Indian buffet process (start, if learned).", gt=0.0
    )
    sigma2: float = option(
        1.0,
        "Prior variance sigma_B^2 of a category's weight (start, if learned); a binary column's "
        "log-odds have twice that.",
        gt=0.0,
    )
    learn: bool = option(True, "Whether alpha and sigma2 are learned.")
    variances: Literal["shared", "each"] = option(
        "shared",
        "learn: one sigma2 for all features, or each feature its own, so that features that nearly "
        "all rows or none have do not draw that of the others down (variational).",
    )
    anneal: int = option(60, "Sweeps of an annealed start (search=starts).", ge=0, le=1000)
    starts: int = option(
        2,
        "Chains of the search, or starts of each bound side by side; the best goes on "
        "(variational).",
        ge=1,
        le=20,
    )
    chains: int = option(3, "Chains (gibbs).", ge=1, le=20)
    warmup: int = option(200, "Draws of each chain that are thrown away (gibbs, laplace).", ge=0)
    draws: int = option(200, "Draws of each chain that are averaged (gibbs, laplace).", ge=4)
    flip_above: float = share(
        0.8,
        "Features that more than this share of the rows have are reported as their complements.",
    )
    rare_below: int = option(
        5,
        "Categories with fewer cells than this are joined into one, where a column has several "
        "of them.",
        ge=0,
    )
    least_rows: int | None = option(
        None,
        "Features that fewer rows have are not reported; by default a thousandth of the rows, and "
        "5 at least.",
        ge=0,
    )
    tol: float = share(
        1e-7,
        "Relative tolerance on the rise of the bound to come; a table that was searched by a "
        "sample also ends where a sweep brings less than 1e-5 nats a row.",
    )
    max_iter: int = option(2000, "Most sweeps over the data.", ge=1)
