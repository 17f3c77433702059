"""Every model signs every item of the contract, or says why it cannot; see `cases`."""

from tests.contract.cases import cases
from vbmodels.testing import ModelContract


class TestEveryModel(ModelContract):
    cases = cases()
