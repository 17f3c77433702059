"""Where an additive fit stands: its phases' states, and what they ask of the partitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from vbmodels.core.protocol import Cursor
from vbmodels.core.state import FloatArray, State, Stats
from vbmodels.experts.additive.newton import Ask, Climb, Counted, LeftOut, Path, Told
from vbmodels.experts.additive.posterior import Part
from vbmodels.experts.additive.prior_choice import Choice
from vbmodels.experts.additive.searches import Climbing
from vbmodels.experts.candidate import Candidate, Point, Sums
from vbmodels.experts.rows import FOLDS, HELD, Observed

FEW_ROWS, MANY_ROWS = 2000, 10_000
"""From the second number of rows on one part and one start of each candidate tell enough."""


@dataclass(frozen=True)
class Additive(State, kind="experts/additive.Additive"):
    """What the paths found.

    Attributes
    ----------
    taus, left_out
        Of lines, and of lines and steps if there are any: values tried, and the leave-one-out
        log-likelihood a row; [2][...].
    intercept
        That of the intercept alone.
    gain, error
        How much better steps were than lines, and the standard error of that; a row.
    form
        "intercept", "lines" or "steps".
    process
        Of lines beside a Gaussian process: values of tau tried, and the leave-one-out
        log-likelihood a row; [2][...]; empty where there is none.
    weight, process_gain
        What share of the predictions is the Gaussian process's, and how much better that makes
        them on held-out rows; a row.
    """

    taus: tuple[FloatArray, ...]
    left_out: tuple[FloatArray, ...]
    intercept: float
    gain: float
    error: float
    form: str
    process: tuple[FloatArray, ...] = ()
    weight: float = 0.0
    process_gain: float = 0.0


@dataclass(frozen=True)
class Progress(State, kind="experts/additive.Progress"):
    """Where the fit stands.

    Attributes
    ----------
    phase
        "path", "compared", "folds", "rung", "judged", "weighed", "mode", "gaussian" or "additive".
    observed
        Counts of the rows.
    seed
        Seed of the starts.
    paths
        Of phase 1.
    climbs
        Of phase 2: f0, the lines, and f0 without each part; then lines and the Gaussian process,
        and they without each part.
    points
        Mixtures of the phases after.
    rung
        Number of the rung.
    parts
        f0, logistic regression, and f0 without each part, once they are known.
    additive, chosen
        What phases 1 and 3 found.
    processes
        Lines and the Gaussian process, of all rows and without each part; none where there is none.
    """

    phase: str
    observed: Counted
    seed: int
    paths: tuple[Path, ...] = ()
    climbs: tuple[Climb, ...] = ()
    points: tuple[Point, ...] = ()
    rung: int = 0
    parts: tuple[Part, ...] = ()
    additive: Additive | None = None
    chosen: Choice | None = None
    processes: tuple[Part, ...] = ()

    @property
    def plain_paths(self) -> list[Path]:
        """The paths of lines, and of lines and steps."""
        return [path for path in self.paths if not path.climb.joint]

    @property
    def process_path(self) -> Path | None:
        """The path of lines and the Gaussian process."""
        return next((path for path in self.paths if path.climb.joint), None)


@dataclass(frozen=True)
class AdditiveSums(Stats, kind="experts/additive.AdditiveSums"):
    """What a partition returns: answers to fits, what leaving rows out gives, and mixtures.

    ``weighed`` [W] are held-out log-likelihoods with the Gaussian process at each of `WEIGHTS`.
    """

    told: tuple[Told, ...]
    left_out: LeftOut
    mixtures: Sums | None
    weighed: FloatArray = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True)
class ProgressCursor(Cursor, kind="experts/additive.ProgressCursor"):
    """A cursor with the searches, and the evaluations left in this phase."""

    searches: tuple[Climbing, ...] = ()
    left: int = 0

    @property
    def going(self) -> list[int]:
        """Which searches go on."""
        return [i for i, s in enumerate(self.searches) if not s.done] if self.left > 0 else []


def held_parts(observed: Counted) -> range:
    """Return the parts that are held out in turn."""
    if observed.rows < FEW_ROWS:
        return range(FOLDS)
    return range(HELD if observed.rows < MANY_ROWS else 1)


def whole(candidate: Candidate) -> Candidate:
    """Return the candidate as it is fitted to all rows."""
    return replace(candidate, fold=-1)


def alone(q: Progress) -> tuple[Point, ...]:
    """Return the additive part as a mixture of one, for each part that is held out."""
    nothing = np.zeros((2, 1, q.observed.mixing.size))
    return tuple(Point(Candidate(1, 1.0, fold=f), nothing) for f in held_parts(q.observed))


def asks_of(q: Progress) -> list[Ask]:
    """Return what the fits of lines and steps ask at ``q``."""
    if q.phase == "path":
        return [path.ask(q.observed) for path in q.paths if not path.done]
    if q.phase == "compared":
        best = [path.best for path in q.plain_paths if path.best is not None]
        return [climb.left_out(q.observed) for climb in best]
    if q.phase == "additive":
        return [Ask(q.parts[0].coefficients, q.parts[0].stepped, -1, False)]
    return [climb.ask for climb in q.climbs if not climb.done]


def bases_of(q: Progress) -> tuple[Part, ...]:
    """Return the additive parts that mixtures stand beside."""
    return (q.parts[0], *q.parts[2:])


def of_mixture(observed: Counted) -> Observed:
    """Return the counts as the mixture's points take them."""
    return Observed(observed.rows, observed.positive, observed.mixing)


def evaluated(q: Progress, stats: AdditiveSums) -> Iterator[tuple[Point, float, FloatArray]]:
    """Yield every point with its log-likelihood and the gradient of that."""
    assert stats.mixtures is not None
    pairs = zip(stats.mixtures.value, stats.mixtures.gradient, strict=True)
    return ((p, float(v), g) for p, (v, g) in zip(q.points, pairs, strict=True))
