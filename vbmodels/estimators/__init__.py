"""scikit-learn estimators over the same models and the same loop as the pipelines."""

from vbmodels.estimators.bag_data import to_bags
from vbmodels.estimators.bags import (
    BagRegressor,
    MILGPClassifier,
    MultimodalMIC,
    StackedBagClassifier,
)
from vbmodels.estimators.experts import AdditiveRegressor, MixtureOfExperts
from vbmodels.estimators.features import LatentFeatures
from vbmodels.estimators.keywords import KeywordExtractor
from vbmodels.estimators.variants import VariantTester

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
    "to_bags",
]
