"""What the user may say of the test of alleles, to the pipeline and to the estimators."""

from __future__ import annotations

from dataclasses import dataclass

from vbmodels.core.options import option, share

BASES = "ACGT"


@dataclass(eq=False, repr=False)
class CallOptions:
    """Options of the test of alleles."""

    fdr: float = share(
        0.05,
        "Level of the false discovery rate of the calls. Alleles that are rather errors (local "
        "rate above 1/2) are never called.",
    )
    e_bh: bool = option(
        False,
        "Control the false discovery rate however positions depend on each other (e-BH); calls "
        "fewer.",
    )
    two_sided: bool = option(False, "Whether an allele that is rarer in the case counts too.")
    tol: float = share(
        1e-06,
        "Stop where the rise of the objective that is still expected is less "
        "than this share of it.",
    )
