"""What users import: the five pipelines as functions, `score`, `load`, and the estimators.

`begin` and `stages` are for flows that put tasks of their own between the stages of a pipeline.

>>> import vbflows
>>> vbflows.KeywordExtractor.__module__
'vbmodels.estimators.keywords'

Each is loaded when it is first used.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flows import stages
    from flows.pipelines import score
    from flows.run import begin
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
    "begin",
    "experts",
    "features",
    "keywords",
    "load",
    "score",
    "stages",
    "to_bags",
    "variants",
]

_PIPELINES = frozenset({"bags", "experts", "features", "keywords", "score", "variants"})


def load(run: str | os.PathLike[str]) -> Result:
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

    return Result(os.fspath(run))


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"vbflows exports {', '.join(__all__)}, not {name}")
    if name == "stages":
        return import_module("flows.stages")
    module = "flows.pipelines" if name in _PIPELINES else "vbmodels.estimators"
    return getattr(import_module("flows.run" if name == "begin" else module), name)


def __dir__() -> list[str]:
    return __all__
