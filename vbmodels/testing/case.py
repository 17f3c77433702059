"""A model's row in the contract: every item is asked, or refused with a reason.

Every item of the contract is a field of `Case` without a default: give what it asks for, or a
sentence that says why this model cannot have it; the test then skips with that sentence.

The simulated data come as partitions: ``batches(seed, parts)`` must return the same data
for the same seed, cut into ``parts`` partitions (1, 2, 7 and 16 are used; ``parts`` may
never exceed the number of units). ``tiny(seed)`` is a data set of a few units, in one or
two partitions, for what is compared with Monte Carlo, quadrature or enumeration.

The suite itself needs only the protocol (`vbmodels.core.protocol.Model`), so rise, partition and
resume come for nothing, under `cavi`, under `squarem` where the model is `Accelerable`, or
under the model's own loop where it is `Driven`.

The hooks of items 4 to 7 must share no algebra with the model: write ``log_joint`` from the
generative model with scipy.stats, not from the model's own file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

import numpy as np

from vbmodels.core.state import FloatArray
from vbmodels.testing.agreement import Agreement
from vbmodels.testing.calibration import Calibration
from vbmodels.testing.draws import Draws
from vbmodels.testing.extremes import Extremes

Item = Literal[
    "rise", "partition", "resume", "stationary", "definition", "truth", "sampler", "recovery",
    "calibration", "extremes", "agreement", "draws",
]  # fmt: skip
EVERY: frozenset[Item] = frozenset(get_args(Item))


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
        Whether the bound is also asked for at a q that has moved since the local step, as
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
        model, q, locals_,
    )  # fmt: skip


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
    draws: Sequence[Draws] | str
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
