"""What the user may say of a mixture of experts, and what does not go together."""

from __future__ import annotations

from typing import Any, Protocol


class Options(Protocol):
    """What the user may say; the pipeline's settings and the estimator have these names.

    Attributes
    ----------
    inference
        "marginal", "cavi" or "mh".
    prior
        "gaussian", "mabn1" (mh) or "mabn2".
    select
        "fixed", or "cv": K is chosen up to n_experts (marginal).
    gate_bound
        "bohning" or "bouchard" (cavi).
    tau, shared
        Of the Gaussian prior; None to choose by hold-out (marginal).
    kappa, omega
        Weights of the angular prior and of Omega.
    alpha1, alpha2, learn_lengths
        Of the lengths under an angular prior (cavi, mh).
    chains, warmup, draws, thin
        Of mh.
    restarts
        Starts that are averaged (marginal).
    class_weight
        "balanced", or the estimator's weights by class (marginal, cavi); "none" or None.
    """

    n_experts: int
    inference: Any
    prior: Any
    select: Any
    gate_bound: Any
    tau: float | None
    shared: bool | None
    kappa: float
    omega: float
    alpha1: float
    alpha2: float
    learn_lengths: bool
    chains: int
    warmup: int
    draws: int
    thin: int | None
    restarts: int
    class_weight: Any
    tol: float


def refusal(options: Options) -> str | None:
    """Say which options do not go together; None where all do."""
    if options.inference != "marginal" and options.select == "cv":
        return f"select cv goes with inference marginal, not {options.inference}"
    if options.prior == "mabn1" and options.inference != "mh":
        return f"prior mabn1 goes with inference mh, not {options.inference}; mabn2 goes with all"
    angular_ascent = options.inference == "cavi" and options.prior == "mabn2"
    if options.omega > 0.0 and (options.inference == "mh" or angular_ascent):
        return "omega goes with inference marginal, or with cavi and the Gaussian prior"
    if options.inference == "mh" and options.class_weight not in (None, "none"):
        return f"class_weight {options.class_weight} goes with inference marginal or cavi, not mh"
    return None
