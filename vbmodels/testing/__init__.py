"""The contract of a model as a suite of tests for anyone's model.

A row says what the suite needs, in terms of the generative model; a class of two lines runs it:

    from vbmodels.testing import Case, ModelContract

    class TestMyModel(ModelContract):
        case = Case(name="my model", model=MyModel, ...)

A failure is a `ContractBroken`: which identity broke, where, and by how much. pytest is needed for
`ModelContract` alone, which is therefore loaded where it is used; ArviZ for samplers alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vbmodels.testing.calibration import inside, ranked
from vbmodels.testing.case import (
    Agreement,
    Best,
    Bounds,
    Calibration,
    Case,
    ContractBroken,
    Coordinates,
    Evidence,
    Extremes,
    Forecast,
    GlobalStep,
    LocalStep,
    MonteCarlo,
    Objective,
    Ranks,
    Readings,
    Recovery,
    Sampler,
)

if TYPE_CHECKING:
    from vbmodels.testing.contract import ModelContract

__all__ = [
    "Agreement",
    "Best",
    "Bounds",
    "Calibration",
    "Case",
    "ContractBroken",
    "Coordinates",
    "Evidence",
    "Extremes",
    "Forecast",
    "GlobalStep",
    "LocalStep",
    "ModelContract",
    "MonteCarlo",
    "Objective",
    "Ranks",
    "Readings",
    "Recovery",
    "Sampler",
    "inside",
    "ranked",
]


def __getattr__(name: str) -> Any:
    if name == "ModelContract":
        from vbmodels.testing.contract import ModelContract

        return ModelContract
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
