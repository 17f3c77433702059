"""What users import: the five pipelines as functions, `score`, `load`, and the estimators.

>>> import vbflows
>>> vbflows.KeywordExtractor.__module__
'vbmodels.estimators.keywords'

Each is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flows.pipelines import score
    from vbflows.result import Result
    from vbmodels.estimators import (
        AdditiveRegressor,
        BagRegressor,
        KeywordExtractor,
        LatentFeatures,
        MILGPClassifier,
        MixtureOfExperts,
        MultimodalMIC,
        StackedBagClassifier,
        VariantTester,
        to_bags,
    )

    bags: Any
    experts: Any
    features: Any
    keywords: Any
    variants: Any

__all__ = [
    "AdditiveRegressor",
    "BagRegressor",
    "KeywordExtractor",
    "LatentFeatures",
    "MILGPClassifier",
    "MixtureOfExperts",
    "MultimodalMIC",
    "StackedBagClassifier",
    "VariantTester",
    "bags",
    "experts",
    "features",
    "keywords",
    "load",
    "score",
    "to_bags",
    "variants",
]

_PIPELINES = frozenset({"bags", "experts", "features", "keywords", "score", "variants"})


def load(run: str) -> Result:
    """Return a finished run: its headline, its typed answer, its tables, and `Result.score`.

    Parameters
    ----------
    run
        Its folder, or that of a target whose latest run is meant.

    Raises
    ------
    PublishError
        If there is no finished run.
    """
    from vbflows.result import Result

    return Result(run)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"vbflows exports {', '.join(__all__)}, not {name}")
    module = "flows.pipelines" if name in _PIPELINES else "vbmodels.estimators"
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return __all__
