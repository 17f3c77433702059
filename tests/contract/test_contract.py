"""Every model signs every item of the contract, or says why it cannot; see `cases`."""

from __future__ import annotations

import pytest

from tests.contract import agreement, checks, draws, extremes
from tests.contract.cases import asked, rows


def by_loop(item):
    """Ask every row under every loop that its model can run."""
    pairs = [
        pytest.param(case, loop, id=f"{case.name}-{name}", marks=row.marks)
        for row in rows(item)
        for case in row.values
        for name, loop in checks.loops(case).items()
    ]
    return pytest.mark.parametrize(("case", "loop"), pairs)


@pytest.fixture
def record(record_property):
    def keep(figures):
        for name, value in figures.items():
            record_property(name, float(value))  # plain, to go between processes

    return keep


@by_loop("rise")
def test_1_bound_never_falls(case, loop, record):
    for seed in case.seeds:
        record(checks.check_rise(case, loop, seed))


@by_loop("rise")
def test_1_a_fit_leaves_the_best_that_it_visited(case, loop, record):
    record(checks.check_best(case, loop, asked(case.best)))


@by_loop("partition")
def test_2_partitions_change_only_rounding(case, loop, record):
    if case.undivided is not None:
        pytest.skip(case.undivided)
    record(checks.check_partitions(case, loop))


@by_loop("partition")
def test_2_executors_give_the_same_bits(case, loop, record):
    record(checks.check_executors(case, loop))


@by_loop("resume")
def test_3_resume_from_every_step_gives_the_same_bits(case, loop, record):
    record(checks.check_resume(case, loop))


@pytest.mark.parametrize("case", rows("stationary"))
def test_4_global_step_is_stationary(case, record):
    record(checks.check_global_step(case, asked(case.global_step), seed=0))


@pytest.mark.parametrize("case", rows("stationary"))
def test_4_local_step_is_stationary(case, record):
    record(checks.check_local_step(case, asked(case.local_step), seed=0))


@pytest.mark.parametrize("case", rows("definition"))
def test_5_bound_is_its_definition(case, record):
    record(checks.check_definition(case, asked(case.monte_carlo), seed=0))


@pytest.mark.parametrize("case", rows("truth"))
def test_6_bound_below_exact_evidence(case, record):
    item = asked(case.evidence)
    for seed in item.seeds:
        record(checks.check_evidence(case, item, seed))


@pytest.mark.parametrize("case", rows("sampler"))
def test_6_agrees_with_its_sampler(case, record):
    record(checks.check_sampler(case, asked(case.sampler)))


@pytest.mark.parametrize("case", rows("recovery"))
def test_7_recovers_the_truth(case, record):
    record(checks.check_recovery(case, asked(case.recovery)))


@pytest.mark.filterwarnings("error::RuntimeWarning", "ignore::UserWarning")
@pytest.mark.parametrize("case", rows("extremes"))
def test_9_extremes_leave_finite_numbers(case, record):
    record(extremes.check_finite(case, asked(case.extremes)))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("case", rows("extremes"))
def test_9_compiled_loops_are_the_plain_form(case, record):
    item = asked(case.extremes)
    if item.kernels is None:
        asked(item.plain)
    record(extremes.check_compiled(case, item))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("case", rows("extremes"))
def test_9_partitions_without_rows_change_no_bit(case, record):
    record(extremes.check_empty(case, asked(asked(case.extremes).empty)))


@pytest.mark.parametrize("case", rows("agreement"))
def test_10_a_score_of_the_training_rows_is_the_fits(case, record):
    record(agreement.check_agreement(case, asked(case.agreement)))


@pytest.mark.parametrize("case", rows("draws"))
def test_11_every_kept_draw_is_written(case, record):
    for item in asked(case.draws):
        record(draws.check_draws(item))
