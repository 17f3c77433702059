"""The topics sign the contract."""

from __future__ import annotations

from vbflows_lda.tests.row import CASE
from vbmodels.testing import ModelContract


class TestTopics(ModelContract):
    case = CASE
