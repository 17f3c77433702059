"""What the user may say of the test of alleles, to the pipeline and to the estimators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vbmodels.core.options import option, share


@dataclass(eq=False, repr=False)
class CallOptions:
    """Options of the test of alleles."""

    fdr: float = share(
        0.05,
        "Level of the false discovery rate of the calls. Alleles that are rather errors (local "
        "rate above 1/2) are never called.",
    )
    strict: bool = option(
        False, "two_groups: call by e-BH, valid under any dependence of the units."
    )
    two_sided: bool = option(False, "Whether an allele that is rarer in the case counts too.")
    alternative: Literal["broad", "mixture"] = option(
        "mixture",
        "two_groups: rates of variants are a mixture over the allele's share, fitted too, or "
        "Beta(.1, .1) alone (broad), which finds less.",
    )
    null: Literal["batch", "exchangeable"] = option(
        "batch",
        "two_groups: what no variant means. batch: case and control may differ in every "
        "substitution's error rate and a little at every site, as libraries do; exchangeable: they "
        "differ at random only. Without a control it is exchangeable.",
    )
    types: Literal["12", "6", "1"] = option(
        "12",
        "null batch: by what the difference varies: each of 12 substitutions, 6 pairs with the "
        "complement on the other strand (G>T with C>A), or 1 for all.",
    )
    noise: Literal["multiplicative", "constant"] = option(
        "constant",
        "null batch: how replicates differ. constant: one M at every rate; multiplicative: error "
        "rates below .002 by a factor, as PCR makes them.",
    )
    tol: float = share(1e-06, "Relative tolerance on the rise of the objective to come.")
