"""Settings: what every pipeline has, and how files and assignments become settings.

A settings object is frozen and refuses names that it does not know. Each field states its
meaning, default and range once, in the folder of its family.
"""

from importlib.metadata import entry_points
from typing import Any
from warnings import warn

from flows.settings.access import S3Access
from flows.settings.base import ComputeSettings, RunSettings
from flows.settings.load import columns, compute_settings, describe, in_order, load

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


def __getattr__(name: str) -> Any:
    """Return a family's settings under the name that they had here, with a warning."""
    for point in entry_points(group="vbflows.families"):
        if point.attr == name:
            text = f"flows.settings.{name} stands in {point.module} now"
            warn(text, DeprecationWarning, stacklevel=2)
            return point.load()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
