"""Settings: what every pipeline has, and how files and assignments become settings.

A settings object is frozen and refuses names that it does not know. Each field states its
meaning, default and range once, in the folder of its family.
"""

from flows.settings.base import ComputeSettings, RunSettings, S3Access, in_order
from flows.settings.load import columns, compute_settings, describe, load

__all__ = [
    "ComputeSettings",
    "RunSettings",
    "S3Access",
    "columns",
    "compute_settings",
    "describe",
    "in_order",
    "load",
]
