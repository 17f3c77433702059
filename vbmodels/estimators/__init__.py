"""scikit-learn estimators over the same models and the same loop as the pipelines."""

from vbmodels.estimators.bag_data import InstanceTransformer, to_bags
from vbmodels.estimators.bags import MILGPClassifier, MultimodalMIC, StackedBagClassifier
from vbmodels.estimators.experts import MixtureOfExperts
from vbmodels.estimators.features import LatentFeatures
from vbmodels.estimators.keywords import KeywordExtractor
from vbmodels.estimators.variants import VariantTester

__all__ = [
    "InstanceTransformer",
    "KeywordExtractor",
    "LatentFeatures",
    "MILGPClassifier",
    "MixtureOfExperts",
    "MultimodalMIC",
    "StackedBagClassifier",
    "VariantTester",
    "to_bags",
]
