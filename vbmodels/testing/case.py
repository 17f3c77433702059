"""A model's row in the contract: every item has a hook, or a reason why not.

Every item of the contract is a field of `Case` without a default: give what it needs, or a
sentence that says why this model cannot have it; the test then skips with that sentence.

The simulated data come as partitions: ``batches(seed, parts)`` must return the same data
for the same seed, cut into ``parts`` partitions (1, 2, 7 and 16 are used; ``parts`` may
never exceed the number of units). ``tiny(seed)`` is a data set of a few units, in one or
two partitions, for what is compared with Monte Carlo, quadrature or enumeration.

The suite itself needs only the protocol (`vbmodels.core.algorithm.Model`), so rise, partition and
resume come for nothing, under `cavi`, under `squarem` where the model is `Accelerable`, or
under the model's own loop where it is `Driven`.

The hooks of items 4 to 7 must share no algebra with the model: write ``log_joint`` from the
generative model with scipy.stats, not from the model's own file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NoReturn, get_args

import numpy as np

from vbmodels.core.state import FloatArray, IntArray

Item = Literal[
    "rise",
    "partition",
    "resume",
    "stationary",
    "definition",
    "truth",
    "sampler",
    "recovery",
    "calibration",
    "extremes",
    "agreement",
]
EVERY: frozenset[Item] = frozenset(get_args(Item))


Figures = dict[str, float]  # what a check measured, by name


class ContractBroken(AssertionError):
    """An identity that a model must keep does not hold.

    Attributes
    ----------
    item
        Number of the contract's item.
    identity
        What should hold.
    where
        The data, sweep, leaf or quantity at which it does not.
    found
        What was found, and by how much it is off.
    """

    def __init__(self, item: int, identity: str, where: str, found: str) -> None:
        super().__init__(f"item {item}, {identity}, is broken\n  where: {where}\n  found: {found}")
        self.item, self.identity, self.where, self.found = item, identity, where, found


@dataclass(frozen=True)
class Identity:
    """One identity of the contract."""

    item: int
    says: str

    def breaks(self, where: str, found: str) -> NoReturn:
        """Raise a `ContractBroken`."""
        raise ContractBroken(self.item, self.says, where, found)

    def holds(self, condition: bool, where: str, found: str) -> None:
        """Pass where ``condition`` is true.

        Raises
        ------
        ContractBroken
            Where it is not. An assert statement would be left out by ``python -O``.
        """
        if not condition:
            self.breaks(where, found)


@dataclass(frozen=True, kw_only=True)
class Coordinates:
    """Coordinates without constraints of a state's free parameters, for finite differences.

    ``to_vector(state) -> v`` and ``from_vector(state, v) -> state``: logarithms of positive
    leaves, logits of probabilities, a Cholesky factor with a logarithmic diagonal. All that
    the step optimises must move with them, and nothing else. ``step`` is the finite
    difference: small against the scale on which the bound is not quadratic.
    """

    to_vector: Callable[[Any], FloatArray]
    from_vector: Callable[[Any, FloatArray], Any]
    step: float = 1e-3


@dataclass(frozen=True, kw_only=True)
class GlobalStep:
    """Item 4 for ``global_step``.

    ``at="step"``: with the local states held, the bound is stationary at the result of
    every global step (coordinate ascent). ``at="fixed_point"``: Newton-like forms, and forms
    whose statistics follow q without a local state; only the end of a fit is stationary.
    ``tolerance`` is the distance to the optimum along a coordinate, in the coordinate;
    ``fit_tol`` the relative tolerance of the fit that is led to its end.
    """

    coordinates: Coordinates
    at: Literal["step", "fixed_point"] = "step"
    tolerance: float = 1e-6
    max_iter: int = 2000
    fit_tol: float = 1e-14


@dataclass(frozen=True, kw_only=True)
class LocalStep:
    """Item 4 for ``local_step``, at fixed q, on one partition of ``tiny``.

    ``repeats``: how often the step is repeated warm before it must be stationary (1 where its
    inner loop converges; more where one call is one sweep over the blocks).
    """

    coordinates: Coordinates
    repeats: int = 1
    tolerance: float = 1e-6


@dataclass(frozen=True, kw_only=True)
class MonteCarlo:
    """Item 5: E_q[log p(x, z, theta) - log q] on ``tiny``, by draws from q.

    sample
        (q, batches, locals, rng, size) -> draws, in any form that the others take.
    log_joint
        (draws, batches) -> [size]: log p(data, locals, globals) with every constant.
    log_q
        (draws, q, batches, locals) -> [size]: normalised density of the draws.
    relation
        "equal", or "below" where a bound on the bound is used.
    mixed
        Whether the bound is also computed at a q that has moved since the local step, as
        the protocol allows; False only where ``suff_stats`` recomputes the local state.
    largest_se
        The standard error must come out below this, else the test has no power.
    """

    sample: Callable[[Any, Sequence[Any], Sequence[Any], np.random.Generator, int], Any]
    log_joint: Callable[[Any, Sequence[Any]], FloatArray]
    log_q: Callable[[Any, Any, Sequence[Any], Sequence[Any]], FloatArray]
    relation: Literal["equal", "below"] = "equal"
    mixed: bool = True
    size: int = 20_000
    largest_se: float = 0.05


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Item 6: the exact log evidence of ``tiny`` by enumeration or quadrature.

    The bound of a converged fit must lie below it, by at most ``largest_gap`` nats.
    ``strict=False``: an approximation, not a bound; it must lie within the gap on either side.
    """

    log_evidence: Callable[[Sequence[Any]], float]
    largest_gap: float
    strict: bool = True
    seeds: Sequence[int] = (0, 1)


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """Item 6: the model's own sampler on ``batches(seed, 1)``.

    draws
        (batches, rng) -> [chain, draw, K], at least two chains.
    moments
        (q, locals) -> mean [K], sd [K] of the same quantities under q.
    mean_tolerance
        Largest difference of the means in posterior sd, beyond 4 Monte-Carlo errors.
    sd_ratio
        Range of sd under q / sd of the draws, over all quantities; the ratio is recorded.
    """

    draws: Callable[[Sequence[Any], np.random.Generator], FloatArray]
    moments: Callable[[Any, Sequence[Any]], tuple[FloatArray, FloatArray]]
    mean_tolerance: float
    sd_ratio: tuple[float, float]
    largest_r_hat: float = 1.02
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """Item 7: ``error(seed)`` simulates, fits and compares with the truth; see ``tolerance``."""

    error: Callable[[int], float]
    tolerance: float
    seeds: Sequence[int] = (0, 1, 2, 3, 4)


@dataclass(frozen=True, kw_only=True)
class Objective:
    """Item 1 for forms without a strict bound: ``value(q, batches)`` on a fixed quadrature.

    It is read every ``every`` steps and may fall by at most ``rtol`` relative.
    """

    value: Callable[[Any, Sequence[Any]], float]
    every: int
    rtol: float


@dataclass(frozen=True, kw_only=True)
class Best:
    """Item 1 for the end of a fit: what it leaves is the best that it visited.

    ``phase(q)`` names the phase of a fit whose phases have bounds of their own: then the last
    phase counts alone. ``plain(model, q, locals)`` returns the model, the parameters and the
    partitions' states of which an algorithm's own result is the fit.
    """

    phase: Callable[[Any], Any] = lambda q: None
    max_iter: int = 200
    plain: Callable[[Any, Any, Any], tuple[Any, Any, Any]] = lambda model, q, locals_: (
        model,
        q,
        locals_,
    )


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Item 10.

    Attributes
    ----------
    published
        (model, q, partition, its state at the end of the fit) -> what is published of it.
    scored
        (model, q, the same rows as a new partition) -> what a score gives; None where that is
        ``published`` of a state that was made from cold.
    hidden
        A partition -> its rows as a score sees them: without labels, say.
    atol
        Largest difference of what is made from cold.
    astray
        Largest share of rows that may get something else altogether: see ``because``.
    largest
        Largest difference of the score's own, where it says something else than the fit:
        ``because`` says what.
    """

    published: Callable[[Any, Any, Any, Any], FloatArray]
    scored: Callable[[Any, Any, Any], FloatArray] | None = None
    hidden: Callable[[Any], Any] = lambda batch: batch
    model: Callable[[], Any] | None = None
    batches: Callable[[], Sequence[Any]] | None = None
    tol: float = 1e-12
    max_iter: int = 3000
    atol: float = 1e-6
    astray: float = 0.0
    largest: float | None = None
    because: str = ""

    def __post_init__(self) -> None:
        if (self.largest is not None or self.astray) and len(self.because.split()) < 5:
            raise ValueError("expected a sentence that says why a score may differ from the fit")


Tables = Mapping[str, Sequence[Any]]
Pairs = Iterable[tuple[str, Any, Any]]


@dataclass(frozen=True, kw_only=True)
class Extremes:
    """Item 9.

    Attributes
    ----------
    tables
        Data sets by name, each cut into partitions: counts at 0 and n and at 1e6, constant
        columns, one row (bag, document, location) alone.
    empty
        A partition -> the same without rows; or why there is none.
    plain
        The same model without its compiled loops, or why there is nothing to compare.
    refused
        What the model says of the tables that no posterior can be had of, by their name.
    infinite
        Names of leaves that may be infinite, as their docstrings say. None may be NaN.
    aside
        Leaves of a local state that one of both forms keeps, for speed.
    kernels
        Single kernels where there is no plain model: (what, compiled, plain) of each.
    sweeps
        Most steps on each of the tables.
    rtol
        Of compiled against plain, relative to the largest number of a leaf.
    """

    tables: Callable[[], Tables]
    empty: Callable[[Any], Any] | str
    plain: Callable[[], Any] | str
    refused: Mapping[str, str] = field(default_factory=dict)
    infinite: frozenset[str] = frozenset()
    aside: frozenset[str] = frozenset()
    kernels: Callable[[], Pairs] | None = None
    sweeps: int = 6
    rtol: float = 1e-6


@dataclass(frozen=True)
class Forecast:
    """What was expected of each thing that was read [n], and what came true [n]."""

    expected: FloatArray
    realised: FloatArray


@dataclass(frozen=True)
class Ranks:
    """The truth's rank among ``of`` draws, 0 to ``of``, of each quantity.

    ``rank`` is [n], or [truths, n] where one run has several independent truths.
    """

    rank: IntArray
    of: int


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Ranges that the figures of one reading must keep; ``measured`` says what was found.

    ``slope`` and ``bins`` are None where what is expected hardly varies.
    """

    large: tuple[float, float] = (0.0, 0.0)
    slope: tuple[float, float] | None = (1.0, 1.0)
    bins: float | None = 0.0
    largest_se: float = 0.01
    measured: str = "exact: no range is needed"


Readings = Mapping[str, Forecast | Ranks]


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """One form's row.

    Parameters
    ----------
    form
        As the documentation names it.
    run
        One truth, one fit, and what is read of it.
    bounds
        Of every reading that is `Forecast`.
    few
        Runs of the small sample in the default suite.
    """

    form: str
    run: Callable[[np.random.Generator], Readings]
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    few: int = 10


@dataclass(frozen=True, kw_only=True)
class Case:
    """One model's row. A sentence in place of an item is the reason why it has none.

    ``undivided`` is the reason why a model takes one partition only, if it does.
    ``calibration`` (item 8) may be of several: a fit, and the sampler of its model.
    ``thorough`` names the items whose tests get the mark ``thorough``, where the settings of pytest
    know it: `EVERY` of a form that no fit takes by default.
    ``slow`` names the items whose tests take long and get the mark ``slow``, where the settings of
    pytest know it, or else are skipped; "truth" holds for evidence and sampler, "sampler" for that
    alone.
    """

    name: str
    model: Callable[[], Any]
    calibration: tuple[Calibration, ...] | str
    batches: Callable[[int, int], Sequence[Any]]
    tiny: Callable[[int], Sequence[Any]]
    extremes: Extremes | str
    agreement: Agreement | str
    global_step: GlobalStep | str
    local_step: LocalStep | str
    monte_carlo: MonteCarlo | str
    evidence: Evidence | str
    sampler: Sampler | str
    recovery: Recovery | str
    objective: Objective | None = None
    best: Best | str = field(default_factory=Best)
    undivided: str | None = None
    sweeps: int = 30
    resume_sweeps: int = 8
    sweeps_on_workers: int | None = None  # where resume_sweeps of them leave no posterior
    seeds: Sequence[int] = (0, 1, 2)
    rise_rtol: float = 1e-9
    partition_rtol: float = 1e-9
    thorough: frozenset[Item] = frozenset()
    slow: frozenset[Item] = frozenset()

    def __post_init__(self) -> None:
        for item in fields(self):
            reason = getattr(self, item.name)
            if isinstance(reason, str) and item.name != "name" and len(reason.split()) < 5:
                raise ValueError(
                    f"{self.name}: expected {item.name}, or a sentence that says why this model "
                    f"cannot have it, got {reason!r}"
                )
