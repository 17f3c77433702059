"""A search ends: new bits that do not pay are not followed by others."""

from __future__ import annotations

import pytest

from flows.catalogue import pipeline_named
from tests.faults import pipelines

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.mark.thorough
def test_new_bits_that_lose_what_they_promised_end_the_round(tmp_path):
    """On this table every new pair of bits looked 3 to 4 nats better, until it had settled."""
    source = pipeline_named("features").simulate(str(tmp_path / "in"), 2000, 1)[0]
    settings = {"partitions": None, "n_features": 12, "max_iter": 600}
    outcome = pipelines.run("features", source, str(tmp_path / "out"), **settings)
    assert outcome["converged"]
    assert outcome["lines"][0].startswith("4 features in 2,000 rows")
    assert outcome["elbo"] > -34_850
