"""The weights of Polya-Gamma for features that another form has found, which are held.

The forms of the papers have weights of their own; reports, missing cells and new rows are read
from these.
"""

from __future__ import annotations

from dataclasses import dataclass

from vbmodels.core.state import State
from vbmodels.features.ibp.model import FeatureGlobal


@dataclass(frozen=True)
class HeldGlobal(State, kind="features/ibp.HeldGlobal"):
    """Polya-Gamma parameters that still settle while the rows' features are held.

    Parameters
    ----------
    inner
        The parameters.
    left
        Sweeps that are left.
    """

    inner: FeatureGlobal
    left: int


def weights_of_held(q: object) -> FeatureGlobal:
    """Return the Polya-Gamma parameters of a state that has reached them.

    Raises
    ------
    TypeError
        If the features are not found yet.
    """
    if not isinstance(q, HeldGlobal):
        raise TypeError(f"expected Polya-Gamma parameters, got a {type(q).__name__}")
    return q.inner
