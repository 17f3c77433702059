"""The mixture signs the contract."""

from __future__ import annotations

from vbflows_mixture.tests.row import CASE
from vbmodels.testing import ModelContract


class TestMixture(ModelContract):
    case = CASE
