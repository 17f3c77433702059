"""The row of vMMIC on a kernel's features and pooled ones: maps first, then the collapsed form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.contract import ends, vmmic
from tests.contract.case_vmmic import collapsed
from vbmodels.bags.batch import Bags
from vbmodels.bags.mapped import MappedVMMIC
from vbmodels.bags.posterior import predict
from vbmodels.core.state import FloatArray
from vbmodels.testing.agreement import Agreement
from vbmodels.testing.case import Best, Case
from vbmodels.testing.extremes import Extremes

OF_COLLAPSED = "asked of vmmic_collapsed: the fit is its own, on other features"


def model() -> MappedVMMIC:
    return MappedVMMIC(collapsed(), landmarks=4, pools=True)


def plain() -> MappedVMMIC:
    return replace(model(), collapsed=replace(collapsed(), use_compiled=False))


def bags_of(model: Any, q: Any, batch: Bags, *_: Any) -> FloatArray:
    posterior = model.posterior(q)
    return predict(posterior.draws(), posterior.scaling, q.mapped(batch)).bag


CASE = Case(
    name="vmmic_mapped",
    model=model,
    calibration="Not a default: its landmarks are chosen by label.",
    batches=vmmic.batches,
    tiny=vmmic.tiny,
    draws=OF_COLLAPSED,
    extremes=Extremes(
        tables=ends.tables_of_bags,
        empty=ends.no_bags,
        plain=plain,
        refused={"one bag alone": "expected positive and negative bags"},
        infinite=frozenset({"last", "best", "clip"}),
        sweeps=4,
    ),
    agreement=Agreement(
        published=bags_of,
        scored=lambda model, q, batch: bags_of(model, q, replace(batch, partition=7)),
        hidden=lambda batch: replace(batch, label=batch.label * 0 - 1),
        tol=1e-6,
        atol=1e-10,
    ),
    global_step=OF_COLLAPSED,
    local_step=OF_COLLAPSED,
    monte_carlo=OF_COLLAPSED,
    evidence=OF_COLLAPSED,
    sampler=OF_COLLAPSED,
    recovery="asked in tests/vbmodels/bags/test_vmmic_mapped.py, beside the form without maps",
    best=Best(phase=lambda q: q.inner is None, max_iter=2000),
    sweeps=6,
    resume_sweeps=3,
)
