"""Settings of every pipeline: they drive the command line, the config file and the docs alike.

A settings object is frozen and refuses names that it does not know. Each field states its
meaning, default and range once, in the file of its family.
"""

from flows.settings.access import S3Access
from flows.settings.bags import BagSettings
from flows.settings.base import ComputeSettings, RunSettings
from flows.settings.experts import ExpertSettings
from flows.settings.features import FeatureSettings
from flows.settings.keywords import KeywordSettings
from flows.settings.load import compute_settings, describe, load
from flows.settings.variants import VariantSettings

__all__ = [
    "BagSettings",
    "ComputeSettings",
    "ExpertSettings",
    "FeatureSettings",
    "KeywordSettings",
    "RunSettings",
    "S3Access",
    "VariantSettings",
    "compute_settings",
    "describe",
    "load",
]
