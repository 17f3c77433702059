"""The regression signs the contract."""

from __future__ import annotations

from vbflows_logistic.tests.row import CASE
from vbmodels.testing import ModelContract


class TestLogistic(ModelContract):
    case = CASE
