"""The models of the features pipeline, with a sentence where a fit was stopped too early."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flows.faults import RunError
from flows.features.settings import FeatureSettings
from vbmodels.features import forms
from vbmodels.features.batch import FeatureBatch
from vbmodels.features.forms import (
    Reported,
    RowFindings,
    Stability,
    best_of,
    judged_cells,
    make,
    stability,
)

__all__ = [
    "Reported",
    "RowFindings",
    "Stability",
    "apply",
    "best_of",
    "judged_cells",
    "make",
    "read",
    "stability",
]


def read(model: Any, q: Any, settings: FeatureSettings) -> Reported:
    """Return a fit as it is reported; see `vbmodels.features.forms.read`."""
    with _told():
        return forms.read(model, q, settings)


def apply(
    model: Any, q: Any, batch: FeatureBatch, local: Any, settings: FeatureSettings
) -> RowFindings:
    """Return what the fit says of rows; see `vbmodels.features.forms.apply`."""
    with _told():
        return forms.apply(model, q, batch, local, settings)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except forms.UnfinishedFit as error:
        raise RunError(str(error)) from error
