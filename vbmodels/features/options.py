"""What the user may say of latent features, to the pipeline and to the estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vbmodels.core.options import option, share


@dataclass(eq=False, repr=False)
class FeatureOptions:
    """Options of the latent feature model."""

    n_features: int = option(
        12,
        "Features that the search begins with; where all are in use it begins again with twice as "
        "many. multinomial: the most features.",
        ge=1,
        le=200,
        positional=True,
    )
    inference: Literal["variational", "multinomial"] = option(
        "variational",
        "variational: finds the number of features too (recommended); multinomial: the "
        "variational method of Ruiz et al. 2014, for comparison.",
    )
    search_rows: int | None = option(
        10_000,
        "In tables of more than twice this many rows, features are searched for in about this many "
        "(variational); then all rows are fitted, and searched for rare features (500 rows or "
        "more, at most 1,000 categories). Empty: all rows are searched.",
        ge=100,
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
    learn: bool = option(True, "Whether alpha and sigma2 are estimated from the data.")
    variances: Literal["shared", "each"] = option(
        "shared",
        "learn: one sigma2 for all features, or each feature its own, so that features that nearly "
        "all rows or none have do not draw that of the others down (variational).",
    )
    starts: int = option(
        2,
        "Chains of the search, from each of which a fit starts (variational).",
        ge=1,
        le=20,
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
        "Stop where the rise of the bound that is still expected is less than this share of the "
        "bound; a table that was searched by a "
        "sample also ends where a sweep brings less than 1e-5 nats a row.",
    )
    max_iter: int = option(2000, "Maximum number of sweeps.", ge=1)
