"""Every draw that a sampler keeps is written, and what is published is of these."""

from dataclasses import replace

import numpy as np
import pytest

from tests.contract import samplers
from tests.contract.draws import CHAINS, Chains, Draws, check_draws
from vbmodels.testing.case import ContractBroken


@pytest.mark.parametrize("sampler", samplers.SAMPLERS, ids=lambda one: one.name)
def test_every_kept_draw_is_written(sampler):
    check_draws(sampler)


def spoiled(change, stays=False):
    """Return a sampler whose kept draws are changed after the run, or its summary is."""
    (bags,) = samplers.BAGS

    def run(*sizes):
        found = bags.run(*sizes)
        kept = {name: change(array.copy()) for name, array in found.kept.items()}
        return replace(found, kept=kept)

    return replace(bags, run=run, stays=stays)


def set_last(value):
    def change(array):
        array[:, -1] = value(array) if callable(value) else value
        return array

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda array: array[:, :-1], "expected 2 chains of 5 draws"),
        (set_last(0.0), "a draw is all zeros"),
        (set_last(np.nan), "a place was not written"),
        (set_last(lambda array: array[:, -2]), "a copy of the one before"),
        (set_last(lambda array: 1.001 * array[:, -1]), "not the draws that were made"),
    ],
)
def test_draws_that_are_not_written_are_caught(change, said):
    with pytest.raises(ContractBroken, match=said):
        check_draws(spoiled(change))


def test_a_sampler_first_runs_with_numpys_own_empty():
    """Numba cannot compile anything more in a process where it first met another one."""
    (bags,), empty, met = samplers.BAGS, np.empty, []

    def run(*sizes):
        met.append(np.empty is empty)
        return bags.run(*sizes)

    check_draws(replace(bags, run=run))
    assert met[0]
    assert not all(met)


def test_a_place_that_nobody_writes_is_caught():
    def run(warmup, count, thin):
        rng = np.random.default_rng(0)
        kept = np.empty((CHAINS, count, 2))
        for i in range(warmup + count * thin - 1):  # one sweep too few
            value = rng.standard_normal((CHAINS, 2))
            if i >= warmup and (i - warmup) % thin == thin - 1:
                kept[:, (i - warmup) // thin] = value
        return Chains(kept={"x": kept})

    with pytest.raises(ContractBroken, match="a place was not written"):
        check_draws(Draws(name="short", run=run))


def test_the_first_of_every_stretch_is_caught():
    """A sampler that keeps it leaves the last sweeps out, whatever they cost."""

    def run(warmup, count, thin):
        rng = np.random.default_rng(0)
        seen = rng.standard_normal((warmup + count * thin, CHAINS, 2))
        return Chains(kept={"x": seen[warmup::thin].swapaxes(0, 1)})

    with pytest.raises(ContractBroken, match="not the last of each stretch"):
        check_draws(Draws(name="first", run=run))


def test_a_summary_of_other_draws_is_caught():
    (rates,) = samplers.RATES

    def run(*sizes):
        found = rates.run(*sizes)
        published, _ = found.summaries["mean"]
        return replace(found, summaries={"mean": (published, found.kept["logit_mu"][:, 0].mean(0))})

    with pytest.raises(ContractBroken, match="mean is not that of the draws"):
        check_draws(replace(rates, run=run))
