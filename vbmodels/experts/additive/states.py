"""What is known of an additive fit, and what it needs of the partitions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from vbmodels.core.state import FloatArray, State
from vbmodels.experts.additive.candidate import Candidate, Point, Sums
from vbmodels.experts.additive.newton import DesignSummary, FitRequest, Fits, FitSums
from vbmodels.experts.additive.posterior import Part
from vbmodels.experts.additive.prior_choice import Choice
from vbmodels.experts.rows import FOLDS, HELD, Observed
from vbmodels.experts.terms.step_rows import CodedRows

FEW_ROWS, MANY_ROWS = 2000, 10_000
"""From the second number of rows on one part and one start of each candidate are enough."""
DRAWS = 4
"""Fixed draws of each row for the widths; of many rows, a pair."""


@dataclass(frozen=True)
class Additive(State, kind="experts/additive.Additive"):
    """What the paths found.

    Attributes
    ----------
    taus, left_out
        Of lines: values tried, and the leave-one-out log-likelihood a row.
    intercept
        That of the intercept alone.
    curves
        That of lines and curves; None where no column has a curve.
    gain, error
        How much better curves were than lines, and the standard error of that; a row.
    form
        "intercept", "lines" or "curves".
    process
        Of lines and a Gaussian process: values of tau tried, and the leave-one-out
        log-likelihood a row; [2][...]; empty where there is none.
    weight, pairs_weight
        What share of the predictions is the Gaussian process's, and that of the additive form with
        pairs.
    """

    taus: FloatArray
    left_out: FloatArray
    intercept: float
    curves: float | None
    gain: float
    error: float
    form: str
    process: tuple[FloatArray, ...] = ()
    weight: float = 0.0
    pairs_weight: float = 0.0


@dataclass(frozen=True)
class AdditiveState(State, kind="experts/additive.AdditiveState"):
    """What is known of the fit.

    Attributes
    ----------
    observed
        Counts of the rows.
    seed
        Seed of the starts.
    points
        The mixtures; none where the additive part is used alone.
    parts
        f0, logistic regression, and f0 without each part, once they are known.
    additive, chosen
        What phases 1 and 3 found.
    processes
        Lines and the Gaussian process, of all rows and without each part; none where there is none.
    paired
        The same of lines, curves and pairs.
    gaps
        Variance that a missing number of each line adds to the log odds; [D].
    """

    observed: DesignSummary
    seed: int
    points: tuple[Point, ...] = ()
    parts: tuple[Part, ...] = ()
    additive: Additive | None = None
    chosen: Choice | None = None
    processes: tuple[Part, ...] = ()
    paired: tuple[Part, ...] = ()
    gaps: FloatArray = field(default_factory=lambda: np.zeros(0))

    @property
    def form(self) -> str:
        """The additive form that was chosen; empty before."""
        return "" if self.additive is None else self.additive.form

    def sums(self, batch: CodedRows) -> Sums | FitSums:
        """Evaluate the mixtures on a partition, or the additive part that is used alone."""
        if self.points:
            return Mixtures.of(self, self.points).sums(batch)
        return self.part_alone().sums(batch)

    def part_alone(self) -> Fits:
        """Return what evaluates the additive part."""
        part = self.parts[0]
        return Fits((FitRequest(part.coefficients, -1, False, terms=part.terms),))


FIT = "log likelihood of the fit"
"""What a fit of lines, curves or pairs climbs, up to its penalty."""


@dataclass(frozen=True)
class Mixtures(State, kind="experts/additive.Mixtures"):
    """Mixtures to evaluate, with ``held`` on the rows that they are not fitted to.

    Attributes
    ----------
    points
        The mixtures.
    bases
        The additive parts that they are added to.
    draws
        Of each row, where a point has widths.
    """

    points: tuple[Point, ...]
    bases: tuple[Part, ...]
    draws: int
    held: bool = False

    @classmethod
    def of(cls, q: AdditiveState, points: tuple[Point, ...], held: bool = False) -> Mixtures:
        """Return points to evaluate at the parts of ``q``."""
        draws = DRAWS if q.observed.rows < MANY_ROWS else 2
        return cls(points, (q.parts[0], *q.parts[2:]), draws, held)

    def sums(self, batch: CodedRows) -> Sums:
        """Evaluate the mixtures on a partition."""
        folds = {p.candidate.fold for p in self.points}
        offsets = {
            part.fold: batch.offset(part.coefficients, part.terms)
            for part in self.bases
            if part.fold in folds
        }
        return Sums.at(self.points, batch.mixing, FOLDS, self.draws, offsets, held=self.held)


def held_parts(observed: DesignSummary) -> range:
    """Return the parts that are held out in turn."""
    if observed.rows < FEW_ROWS:
        return range(FOLDS)
    return range(HELD if observed.rows < MANY_ROWS else 1)


def whole(candidate: Candidate) -> Candidate:
    """Return the candidate as it is fitted to all rows."""
    return replace(candidate, fold=-1)


def alone(q: AdditiveState) -> tuple[Point, ...]:
    """Return the additive part as a mixture of one, for each part that is held out."""
    nothing = np.zeros((2, 1, q.observed.mixing.size))
    return tuple(Point(Candidate(1, 1.0, fold=f), nothing) for f in held_parts(q.observed))


def of_mixture(observed: DesignSummary) -> Observed:
    """Return the counts as the mixture's points take them."""
    return Observed(observed.rows, observed.positive, observed.mixing)
