"""A fit that is cut in any phase goes on from its checkpoint with the same bits, to its end."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from tests.contract import (
    case_additive_count,
    case_additive_number,
    case_auto,
    case_batch_null,
    case_bmem_metropolis,
    case_bmem_several,
    case_corpus,
    case_embedding,
    case_ibp,
    case_ibp_multinomial,
    case_phrases,
    case_vmmic,
    vmmic,
)
from tests.feature_tables import split_rows
from tests.vbmodels.bags import gp_bags
from tests.vbmodels.experts.coded_rows import cut_coded
from tests.vbmodels.features.test_ibp_residue import LEVELS
from tests.vbmodels.features.test_ibp_residue import drawn as with_a_rare_feature
from vbmodels.bags.bags import split
from vbmodels.bags.mil_gp.gibbs import GibbsGP
from vbmodels.bags.vmmic.gibbs import GibbsVMMIC
from vbmodels.core.driver import Driver, Log
from vbmodels.core.fit import InProcess, loop_of
from vbmodels.core.state import aligned, from_bytes, same_bits, to_bytes
from vbmodels.experts.additive.counts import CountAdditive
from vbmodels.experts.additive.gaussian import GaussianAdditive
from vbmodels.experts.additive.model import AdditiveExperts
from vbmodels.experts.additive.one_vs_rest import OneVersusRest
from vbmodels.features.forms import make
from vbmodels.features.options import FeatureOptions
from vbmodels.keywords.corpus.model import CorpusProbit
from vbmodels.keywords.phrases.model import Keyphrases
from vbmodels.testing.runs import freeze, thaw
from vbmodels.variants.two_groups.batch_null import BatchNull
from vbmodels.variants.two_groups.cases import OfCase, Several

EXPERTS = AdditiveExperts(4, n_restarts=2, evaluations=6, width_evaluations=3, taus=(1.0, 10.0))


def crossed() -> list[Any]:
    """Rows that no additive form predicts: all phases of the experts follow."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 2))
    t = np.where(rng.random(300) < expit(4.0 * np.sign(x[:, 0] * x[:, 1])), 1.0, -1.0)
    return cut_coded(x, t, 2)


def of_cases() -> list[OfCase]:
    counts = case_batch_null.batches(0, 3)
    return [OfCase(which, part, one) for part, one in enumerate(counts) for which in (0, 1)]


FITS = {
    "keyphrases": lambda: (Keyphrases(), case_phrases.batches(0, 3), 60),
    "keywords": lambda: (CorpusProbit(), case_corpus.batches(0, 3), 60),
    "bags": lambda: (replace(case_auto.MODEL, few=12), case_embedding.batches(0, 3), 400),
    "bags, vmmic": lambda: (case_vmmic.collapsed(), vmmic.batches(0, 3), 300),
    "bags, mean field": lambda: (case_vmmic.mean_field(), vmmic.batches(0, 3), 60),
    "bags, sampled": lambda: (GibbsVMMIC(chains=2, warmup=2, draws=8), vmmic.batches(0, 3), 60),
    "bags, a process sampled": lambda: (
        GibbsGP(gp_bags.ONE, warmup=2, draws=8), split(gp_bags.simulated(), 3), 60
    ),
    "variants": lambda: (BatchNull(), case_batch_null.batches(0, 3), 14),
    "variants of cases": lambda: (Several(BatchNull(), ("a", "b"), max_iter=8), of_cases(), 20),
    "features": lambda: (case_ibp.searched(), case_ibp.batches(0, 3), 400),
    "features, a long table": lambda: (
        make(FeatureOptions(n_features=4, search_rows=300)).search,
        split_rows(with_a_rare_feature(rows=3000, rare=0.05)[0], LEVELS, 3, grouped=False), 800
    ),
    "features, filling": lambda: (case_ibp.filling(), case_ibp.batches(0, 3), 130),
    "features, multinomial": lambda: (
        case_ibp_multinomial.HOOKS.model(), case_ibp_multinomial.batches(0, 3), 60
    ),
    "experts": lambda: (EXPERTS, crossed(), 400),
    "experts of classes": lambda: (
        OneVersusRest(replace(EXPERTS, n_experts=1)), case_bmem_several.batches(0, 2), 400
    ),
    "experts, a number": lambda: (
        GaussianAdditive(), case_additive_number.batches(0, 2), 400
    ),
    "experts, a count": lambda: (CountAdditive(), case_additive_count.batches(0, 2), 400),
    "experts, sampled": lambda: (
        case_bmem_metropolis.model(), case_bmem_metropolis.batches(0, 2), 60
    ),
}  # fmt: skip
CUTS = 3
PHASES = {
    "bags": {"the witness was being fitted", "the witness was being fitted without each fold",
             "the embedding was being fitted", "the members were being weighed",
             "vMMIC was being fitted"},
    "features": {"first_chains", "fit_starts", "search_rounds", "improve", "screen_pool",
                 "tidy_and_delete", "trial", "last_sweeps"},
    "features, a long table": {"widen", "find_rare", "draw_posterior"},
    "experts": {"_choose_form", "_fit_parts", "_climb", "shown", "_fit_pairs",
                "_choose_mixtures"},
    "experts, a number": {"fit_forms", "the form was being chosen"},
}  # fmt: skip
"""The phases that the data must lead the default through, by generator or by text."""


def phase_of(fit: Driver) -> tuple[str, ...]:
    """Return the generators that a fit is in, and what it says that it does, without numbers."""
    inner = fit._frames._frames
    return (*(one.algorithm.__name__ for one in inner), re.sub(r"\d+", "", fit.doing))


SLOW = ("features, a long table",)
NIGHTLY = (
    "bags",
    "bags, mean field",
    "bags, sampled",
    "bags, a process sampled",
    "features, multinomial",
    "experts, sampled",
)


def marks(name: str) -> list[pytest.MarkDecorator]:
    if name in NIGHTLY:
        return [pytest.mark.thorough]
    return [pytest.mark.slow] if name in SLOW else []


@pytest.mark.parametrize("name", [pytest.param(one, marks=marks(one)) for one in FITS])
def test_a_fit_that_is_cut_anywhere_ends_with_the_same_bits(name):
    model, batches, most = FITS[name]()
    reduce = InProcess(model, batches)
    q = model.init(reduce.observe(), np.random.default_rng(0))
    whole = Driver(loop_of(model), model, q, reduce, tol=1e-6, max_iter=most)
    kept, places, phases = [], [], {}
    for at, _ in enumerate(whole):
        log = whole.log()
        kept.append((at, to_bytes(log), [freeze(x) for x in reduce.local_states(whole.number)]))
        places.append([(len(one.answers), bool(one.saved)) for one in log.frames[:-1]])
        phases.setdefault(phase_of(whole), []).append(at)
    assert len(kept) > 1
    assert {part for phase in phases for part in phase} >= PHASES.get(name, set())
    # Where a phase, or a phase of a phase, has begun, and in the middle of every one.
    begun = [at for at, place in enumerate(places) if at % 11 in (0, 2) or place != places[at - 1]]
    middles = [steps[len(steps) // 2] for steps in phases.values()]
    for cut in sorted({*begun[:: max(1, len(begun) // CUTS)], *middles}):
        at, stored, states = kept[cut]
        again = InProcess(model, [thaw(freeze(one)) for one in batches])
        log = aligned(from_bytes(stored, Log))
        again.restore(log.number, [thaw(x) for x in states])
        rest = Driver(
            loop_of(model), model, log.start, again, tol=1e-6, max_iter=most, log=log,
            trace=whole.trace[: at + 1],
        )  # fmt: skip
        assert len(list(rest)) == len(whole.trace) - at - 1
        assert rest.trace == whole.trace
        assert (rest.number, rest.converged) == (whole.number, whole.converged)
        assert same_bits(rest.step.q, whole.step.q)


def test_no_more_sweeps_than_are_allowed_before_there_is_a_posterior():
    """vMMIC shows the point at hand, its mean field says what it was doing."""
    for name, points in (("bags, vmmic", 1), ("bags, mean field", 0)):
        model, batches, _ = FITS[name]()
        model = model if points else replace(model, start="mode")
        reduce = InProcess(model, batches)
        q = model.init(reduce.observe(), np.random.default_rng(0))
        fit = Driver(loop_of(model), model, q, reduce, tol=1e-6, max_iter=2)
        assert len(list(fit)) == points
        assert (fit.number, bool(fit.doing)) == (1, not points)
        if points:  # and goes on from there where more are allowed
            again = InProcess(model, batches)
            again.restore(fit.number, [thaw(freeze(x)) for x in reduce.local_states(fit.number)])
            log, trace = fit.log(), fit.trace
            more = Driver(loop_of(model), model, q, again, max_iter=4, log=log, trace=trace)
            assert len(list(more)) == 1
            assert more.number == 3
