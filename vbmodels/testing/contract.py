"""The contract as a class of tests: the one file that needs pytest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

try:
    import pytest
except ImportError as error:
    raise ImportError(
        "the contract's tests need pytest: install vbflows[testing]", name="pytest"
    ) from error

from vbmodels.core.algorithm import Loop
from vbmodels.core.cavi import squarem
from vbmodels.testing import calibration, extremes, runs, stationary, truth
from vbmodels.testing.case import Calibration, Case, ContractBroken, Figures, Item

RUNS = 1000
"""Runs of item 8 in its slow form."""

THOUSAND = "test_8_a_thousand_runs_are_calibrated"
ITEMS: dict[str, Item] = {
    "test_1_bound_never_falls": "rise",
    "test_1_a_fit_leaves_the_best_that_it_visited": "rise",
    "test_2_partitions_change_only_rounding": "partition",
    "test_2_executors_give_the_same_bits": "partition",
    "test_3_resume_from_every_step_gives_the_same_bits": "resume",
    "test_4_global_step_is_stationary": "stationary",
    "test_4_local_step_is_stationary": "stationary",
    "test_4_vectors_near_the_path_are_states": "stationary",
    "test_5_bound_is_its_definition": "definition",
    "test_6_bound_below_exact_evidence": "truth",
    "test_6_agrees_with_its_sampler": "sampler",
    "test_7_recovers_the_truth": "recovery",
    "test_8_a_few_runs_are_calibrated": "calibration",
    THOUSAND: "calibration",
    "test_9_extremes_leave_finite_numbers": "extremes",
    "test_9_compiled_loops_are_the_plain_form": "extremes",
    "test_9_partitions_without_rows_change_no_bit": "extremes",
    "test_10_a_score_of_the_training_rows_is_the_fits": "agreement",
}
"""Under which name a row marks a test as slow."""

UNKNOWN = "it takes long: register the mark slow in the settings of pytest to run it"


def hook_or_skip(item: Any) -> Any:
    """Return an item's hook, or skip with the reason that stands in its place."""
    if isinstance(item, str):
        pytest.skip(item)
    return item


def run_check(
    request: pytest.FixtureRequest, check: Callable[..., Figures], *args: Any, **options: Any
) -> None:
    """Run a check and record its figures; a broken identity has no traceback."""
    message = None
    try:
        figures = check(*args, **options)
    except ContractBroken as broken:
        message = str(broken)
    if message is not None:
        pytest.fail(message, pytrace=False)
    for name, value in figures.items():
        request.node.user_properties.append((name, float(value)))  # plain: for other processes


class ModelContract:
    """Every item of the contract as a test; derive from it in a file of tests.

        class TestMyModel(ModelContract):
            case = Case(name="my model", ...)

    It needs no fixture but pytest's own. What a check measured goes into the properties of a JUnit
    file.

    Attributes
    ----------
    case
        The model's row.
    cases
        The rows, where one class checks several models; by default ``case`` alone.
    """

    case: ClassVar[Case]
    cases: ClassVar[Sequence[Case]] = ()

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Check every row, under every loop that its model can run where loops matter."""
        if not self.cases and not hasattr(self, "case"):
            where = type(self).__name__
            raise ValueError(f"{where}: expected `case = Case(...)` in its body, found none")
        rows = self.cases or (self.case,)
        item = ITEMS.get(metafunc.function.__name__)
        if item is None:  # a test that a derived class adds
            if "case" in metafunc.fixturenames:
                metafunc.parametrize("case", rows, ids=[row.name for row in rows])
            return
        if "loop" in metafunc.fixturenames:
            metafunc.parametrize(
                ("case", "loop"),
                [
                    pytest.param(
                        row, loop, id=f"{row.name}-{name}", marks=_marks(metafunc, row, item)
                    )
                    for row in rows
                    for name, loop in runs.loops(row).items()
                ],
            )
        elif "form" in metafunc.fixturenames:
            metafunc.parametrize(
                "form",
                [
                    pytest.param(form, id=name, marks=_marks(metafunc, row, item))
                    for row in rows
                    for name, form in _forms(row)
                ],
            )
        else:
            metafunc.parametrize(
                "case",
                [pytest.param(row, id=row.name, marks=_marks(metafunc, row, item)) for row in rows],
            )

    def test_1_bound_never_falls(
        self, case: Case, loop: Loop, request: pytest.FixtureRequest
    ) -> None:
        """Item 1, under every loop, on every seed of the row."""
        for seed in case.seeds:
            run_check(request, runs.check_rise, case, loop, seed)

    def test_1_a_fit_leaves_the_best_that_it_visited(
        self, case: Case, loop: Loop, request: pytest.FixtureRequest
    ) -> None:
        """Item 1, at the end of a fit."""
        run_check(request, runs.check_best, case, loop, hook_or_skip(case.best))

    def test_2_partitions_change_only_rounding(
        self, case: Case, loop: Loop, request: pytest.FixtureRequest
    ) -> None:
        """Item 2, over numbers of partitions."""
        if case.undivided is not None:
            pytest.skip(case.undivided)
        run_check(request, runs.check_partitions, case, loop)

    def test_2_executors_give_the_same_bits(
        self, case: Case, loop: Loop, request: pytest.FixtureRequest
    ) -> None:
        """Item 2, over threads and transport."""
        run_check(request, runs.check_executors, case, loop)

    def test_3_resume_from_every_step_gives_the_same_bits(
        self, case: Case, loop: Loop, request: pytest.FixtureRequest
    ) -> None:
        """Item 3."""
        run_check(request, runs.check_resume, case, loop)

    def test_4_global_step_is_stationary(self, case: Case, request: pytest.FixtureRequest) -> None:
        """Item 4, global parameters."""
        run_check(
            request, stationary.check_global_step, case, hook_or_skip(case.global_step), seed=0
        )

    def test_4_local_step_is_stationary(self, case: Case, request: pytest.FixtureRequest) -> None:
        """Item 4, a partition's parameters."""
        run_check(request, stationary.check_local_step, case, hook_or_skip(case.local_step), seed=0)

    def test_4_vectors_near_the_path_are_states(
        self, case: Case, request: pytest.FixtureRequest
    ) -> None:
        """Item 4, what SQUAREM requires of a model's coordinates."""
        if squarem not in runs.loops(case).values():
            pytest.skip("no loop leaves its path: it has no coordinates or a loop of its own")
        run_check(request, stationary.check_near, case, hook_or_skip(case.global_step), seed=0)

    def test_5_bound_is_its_definition(self, case: Case, request: pytest.FixtureRequest) -> None:
        """Item 5."""
        run_check(request, truth.check_definition, case, hook_or_skip(case.monte_carlo), seed=0)

    def test_6_bound_below_exact_evidence(self, case: Case, request: pytest.FixtureRequest) -> None:
        """Item 6, a tiny case."""
        item = hook_or_skip(case.evidence)
        for seed in item.seeds:
            run_check(request, truth.check_evidence, case, item, seed)

    def test_6_agrees_with_its_sampler(self, case: Case, request: pytest.FixtureRequest) -> None:
        """Item 6, a small one."""
        run_check(request, truth.check_sampler, case, hook_or_skip(case.sampler))

    def test_7_recovers_the_truth(self, case: Case, request: pytest.FixtureRequest) -> None:
        """Item 7."""
        run_check(request, truth.check_recovery, case, hook_or_skip(case.recovery))

    def test_8_a_few_runs_are_calibrated(
        self, form: Calibration | str, request: pytest.FixtureRequest
    ) -> None:
        """Item 8, as many runs as the row says."""
        item = hook_or_skip(form)
        collected = calibration.collect(item, item.few, seed=1)
        run_check(request, calibration.check, item, collected, power=False)

    def test_8_a_thousand_runs_are_calibrated(
        self, form: Calibration | str, request: pytest.FixtureRequest
    ) -> None:
        """Item 8, with power."""
        item = hook_or_skip(form)
        collected = calibration.collect(item, RUNS)
        run_check(request, calibration.check, item, collected, power=True)

    @pytest.mark.filterwarnings("error::RuntimeWarning", "ignore::UserWarning")
    def test_9_extremes_leave_finite_numbers(
        self, case: Case, request: pytest.FixtureRequest
    ) -> None:
        """Item 9, tables at their ends."""
        run_check(request, extremes.check_finite, case, hook_or_skip(case.extremes))

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_9_compiled_loops_are_the_plain_form(
        self, case: Case, request: pytest.FixtureRequest
    ) -> None:
        """Item 9, compiled and plain."""
        item = hook_or_skip(case.extremes)
        if item.kernels is None:
            hook_or_skip(item.plain)
        run_check(request, extremes.check_compiled, case, item)

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_9_partitions_without_rows_change_no_bit(
        self, case: Case, request: pytest.FixtureRequest
    ) -> None:
        """Item 9, partitions without rows."""
        empty = hook_or_skip(hook_or_skip(case.extremes).empty)
        run_check(request, extremes.check_empty, case, empty)

    def test_10_a_score_of_the_training_rows_is_the_fits(
        self, case: Case, request: pytest.FixtureRequest
    ) -> None:
        """Item 10."""
        run_check(request, truth.check_agreement, case, hook_or_skip(case.agreement))


def is_slow(row: Case, item: Item) -> bool:
    """Say whether a row calls the tests of an item slow."""
    return bool(({item, "truth"} if item == "sampler" else {item}) & row.slow)


def _marks(metafunc: pytest.Metafunc, row: Case, item: Item) -> list[pytest.MarkDecorator]:
    """Return the mark ``slow`` or ``thorough``; skip a slow test where pytest does not know it."""
    known = {line.partition(":")[0].strip() for line in metafunc.config.getini("markers")}
    if metafunc.function.__name__ == THOUSAND or is_slow(row, item):
        return [pytest.mark.slow] if "slow" in known else [pytest.mark.skip(reason=UNKNOWN)]
    return [pytest.mark.thorough] if item in row.thorough and "thorough" in known else []


def _forms(row: Case) -> Iterator[tuple[str, Calibration | str]]:
    """Yield every form that is calibrated, or the reason why there is none, with its id."""
    if isinstance(row.calibration, str):
        yield row.name, row.calibration
    else:
        for form in row.calibration:
            yield f"{row.name}-{form.form}", form
