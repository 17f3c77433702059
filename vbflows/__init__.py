"""What users import: the five pipelines as functions, `score`, and the estimators.

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
    "score",
    "to_bags",
    "variants",
]

_PIPELINES = frozenset({"bags", "experts", "features", "keywords", "score", "variants"})


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"vbflows exports {', '.join(__all__)}, not {name}")
    module = "flows.pipelines" if name in _PIPELINES else "vbmodels.estimators"
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return __all__
