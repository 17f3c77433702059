"""What the keywords pipeline says of its samplers' chains."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from flows.keywords import models as keyword_models
from flows.keywords.report import BINS, KeywordSummary, report
from flows.keywords.settings import KeywordSettings
from reproduce.keyword_documents import batch_of
from vbmodels.core.diagnostics import diagnose

DOCUMENT = np.array([True, False, False]), np.ones((3, 3)) - np.eye(3)


def largest(monkeypatch, model, draws):
    """The R-hat that is told where a sampler's parameters have these draws."""
    found = SimpleNamespace(probability=np.zeros(3), diagnose=lambda: diagnose(draws))
    for name in ("bss", "gibbs"):
        monkeypatch.setattr(keyword_models, name, lambda *_, **__: found)
    settings = KeywordSettings(model=model, inference="gibbs")
    return keyword_models.sample(settings, batch_of([DOCUMENT]), 0)[1]


@pytest.mark.parametrize("model", ["bss", "vbss"])
def test_r_hat_is_that_of_the_parameters_that_vary(monkeypatch, model):
    draws = np.random.default_rng(0).standard_normal((4, 50, 2))
    draws[:, :, 1] = 0.1
    worst = largest(monkeypatch, model, draws)
    assert worst == diagnose(draws[:, :, :1]).r_hat[0]
    draws[:, :, 1] = np.arange(4.0)[:, None]
    assert largest(monkeypatch, model, draws) == np.inf
    draws[0, 3, 1] = np.nan
    with pytest.raises(ValueError, match="draw 3 of quantity 1 in chain 0 is not finite"):
        largest(monkeypatch, model, draws)


def test_chains_that_stand_apart_are_warned_of():
    one = KeywordSummary(
        documents=1, candidates=3, observed=1, selected=1, expected_false=0.0, terms=Counter(),
        histogram=np.ones(BINS, int), confusion=np.zeros(4, np.int64), examples=(), r_hat=np.inf,
    )  # fmt: skip
    found = report(None, None, [one], KeywordSettings(model="bss"))
    assert found.results["r_hat"] is None
    assert "chains disagree (largest R-hat inf" in found.warnings[0]
