"""An additive logistic model of lines and curves, and a mixture of experts that adds to it.

The logit of expert k is f0(x) + beta_k'u and the gates are eta_k'u: f0 is the additive part, u the
columns' quantiles (of few columns their lines and steps). As tau grows the experts vanish, so the
additive part is among the mixtures. A partition has no state; what it returns adds up.

1. Form: logistic regression on lines for falling tau, of which the one whose leave-one-out
   log-likelihood (`newton`) is best is taken; lines and curves, every block with a variance of its
   own (`curves`, `blocks`), are f0 where theirs is better. The intercept alone must be
   beaten.
2. Folds: that f0 again without each of two parts of four; of curves the whole way, selection
   included. Which part a row is in depends on its unit alone, so copies of a row are together.
   The same of curves and the pairs that their residuals call for, if there are any.
3. Rungs: mixtures with few and with many experts and several tau, two starts each, are fitted
   with f0 without a part for a few evaluations; those that predict it best, their starts
   averaged, go on (successive halving; Jamieson and Talwalkar 2016). A mixture must beat f0 by
   one standard error of the paired difference. Those as good as the best share its starts.
4. Mode: from several starts, on all rows, for a bounded number of evaluations; predictions average
   over them.
5. Gaussian: the widths of the best start, for the report.

The trace shows the log-likelihood of what is evaluated in phases 1 and 2, and the mean over
points of the objective of `candidate` in the others; phases do not compare.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vbmodels.core.algorithm import Algorithm, Evaluate, Phase, Save, Show, WithoutLocals
from vbmodels.core.optimise import BatchedLBFGS
from vbmodels.core.state import IntArray
from vbmodels.experts.additive.blocks import BlockFit, fit_curves, fit_pairs, shown
from vbmodels.experts.additive.candidate import (
    Candidate,
    Point,
    Sums,
    first_ascent,
    objectives,
    stretches,
)
from vbmodels.experts.additive.held_out import FORMS
from vbmodels.experts.additive.newton import DesignSummary, Fits, FitSums, fits_together
from vbmodels.experts.additive.posterior import AdditivePosterior, Part
from vbmodels.experts.additive.prior_choice import Choice, choose
from vbmodels.experts.additive.ridge import (
    PROCESS_PAST,
    PROCESS_TAUS,
    TAUS,
    RidgeFit,
    newton,
    path,
)
from vbmodels.experts.additive.stacking import Gapped, Members, known_gaps, weighted
from vbmodels.experts.additive.states import (
    FIT,
    MANY_ROWS,
    Additive,
    AdditiveState,
    Mixtures,
    alone,
    held_parts,
    of_mixture,
    whole,
)
from vbmodels.experts.posterior import Component
from vbmodels.experts.rows import FOLDS, Observed
from vbmodels.experts.terms.pairs import looked_for
from vbmodels.experts.terms.step_rows import CodedRows

RUNGS = ((10, 4), (15, 2), (25, 1))
"""Evaluations of each rung, and how many of eight candidates go on after it."""
STARTS = 2
MOST_COLUMNS = 3000
"""Columns whose second moments a partition can send."""
FEW, MANY = 2, 20
"""Rises within the tolerance, in a row, that end a search: where its slope promises no more, and
though it does, as at a kink."""
ROUGH, FINE = 1e-6, 1e-10
"""Rise to come, in nats a row, that ends a fit of a path and the last one."""


@dataclass(frozen=True)
class AdditiveExperts(WithoutLocals):
    """Fit an additive logistic model and, where they predict better, experts that add to it.

    Curves with pairs of columns (`pairs`), and a Gaussian process where the rows come with columns
    of one (`interactions`), are stacked with both, with the weights that held-out rows give them
    (`stacking`); not with the additive part alone.

    Parameters
    ----------
    n_experts
        Largest number of experts; half of it is tried too. 1 is the additive part alone.
    tau
        Precision of all priors; None to choose.
    taus
        Values tried for the mixture.
    n_restarts
        Starts whose predictions are averaged.
    evaluations
        Most evaluations of them.
    tolerance, least_rise
        Rise of the objective that ends a search: in nats a row, but no fewer than so many nats.
    width_evaluations
        Most evaluations of the best start's widths.
    always
        Whether the mixture is used whatever held-out rows say, with the first of ``taus``.
    """

    n_experts: int = 10
    tau: float | None = None
    taus: tuple[float, ...] = (1.0, 3.0, 10.0, 30.0)
    n_restarts: int = 5
    evaluations: int = 50
    tolerance: float = 3e-6
    least_rise: float = 0.03
    width_evaluations: int = 10
    always: bool = False

    def observe(self, batch: CodedRows) -> DesignSummary:
        """Count the rows and sum up their columns."""
        return DesignSummary.of(batch)

    def init(self, observed: DesignSummary, rng: np.random.Generator) -> AdditiveState:
        """Return what is known before the first sweep."""
        Observed(observed.rows, observed.positive, observed.squares).refuse_one_class()
        lines = observed.sums.size
        if lines > MOST_COLUMNS + 1:
            raise ValueError(
                f"expected at most {MOST_COLUMNS} columns for inference additive, got {lines - 1}: "
                "give fewer"
            )
        return AdditiveState(observed, int(rng.integers(2**62)))

    def candidates(self) -> list[Candidate]:
        """Return the mixtures to choose from."""
        taus = self.taus if self.tau is None else (self.tau,)
        counts = sorted({k for k in (self.n_experts, (self.n_experts + 1) // 2) if k > 1})
        return [Candidate(*one) for one in itertools.product(counts, taus)]

    def global_step(self, q: AdditiveState, stats: Sums) -> AdditiveState:
        """Return the points one step up their gradients; `algorithm` remembers more."""
        if not q.points:
            return q
        stretch = stretches(q.points, of_mixture(q.observed))
        trials = first_ascent(q.points, stats, stretch).trial / stretch
        moved = tuple(point.at(x) for point, x in zip(q.points, trials, strict=True))
        return replace(q, points=moved)

    def elbo(self, q: AdditiveState, stats: FitSums | Sums) -> float:
        """Return the mean objective of the mixtures, or the additive part's log-likelihood."""
        if isinstance(stats, FitSums):
            return stats.mean
        return float(objectives(q.points, stats)[0].mean())

    def objective(self, q: AdditiveState) -> str:
        """Return what `elbo` is at ``q``: phases climb one after another."""
        if not q.points:
            return FIT
        return "log posterior" if all(p.log_sd is None for p in q.points) else "bound"

    def posterior(self, q: AdditiveState) -> AdditivePosterior:
        """Return the additive part and the mixtures whose predictions are averaged."""
        if not q.parts:
            raise ValueError("the form is still being chosen: there is no posterior yet")
        parts = tuple(
            Component(p.mean, np.zeros_like(p.mean) if p.log_sd is None else np.exp(p.log_sd))
            for p in q.points
        )
        found = AdditivePosterior(q.parts[0], parts, gaps=q.gaps)
        if q.additive is not None and q.additive.weight > 0.0:
            found = replace(found, process=q.processes[0], weight=q.additive.weight)
        if q.additive is not None and q.additive.pairs_weight > 0.0:
            found = replace(found, pairs=q.paired[0], pairs_weight=q.additive.pairs_weight)
        return found

    def without_process(self, q: AdditiveState) -> AdditivePosterior:
        """Return the posterior without the Gaussian process, whose share the others have."""
        found = self.posterior(q)
        weight = found.pairs_weight / (1.0 - found.weight)
        return replace(found, process=None, weight=0.0, pairs_weight=weight)

    def additive_part(self, q: AdditiveState) -> AdditivePosterior:
        """Return the additive part alone."""
        return AdditivePosterior(q.parts[0], (), gaps=q.gaps)

    def baseline(self, q: AdditiveState) -> AdditivePosterior:
        """Return the logistic regression on lines, with the tau that leaving rows out chose."""
        return AdditivePosterior(q.parts[1], ())

    def algorithm(self, q: AdditiveState) -> Algorithm:
        """Choose the additive form and the mixtures, then find these mixtures' modes."""
        doing = "the form was being chosen"
        additive, ridges, curves = yield Phase(self._choose_form(q), doing)
        q = replace(q, additive=additive)
        q = yield Phase(self._fit_parts(q, ridges, curves), doing)
        if q.observed.missing.any():
            q = known_gaps(q, (yield Evaluate(Gapped(q.parts[2:], q.gaps))).log_p)
        found: tuple[Point, ...] = ()
        choice = None
        candidates = self.candidates()
        if candidates and self.always:
            choice = Choice((candidates[0],), np.zeros(1), 0, (0,), 0.0, 0.0)
        elif candidates:
            choice, found = yield Phase(self._choose_mixtures(q), doing)
            q = replace(q, chosen=choice)
            if q.processes or q.paired:
                q = yield Phase(self._weigh_members(q, found), doing)
        if choice is None or choice.candidates[choice.best].n_experts == 1:
            return (yield Phase(self._evaluate_part(q)))
        most = np.full(self.n_restarts, self.evaluations)
        best = yield Phase(self._climb(q, self._starts(q, choice, found), most))
        first = int(np.argmax([value for _, value in best]))
        wide = best[first][0].widened(of_mixture(q.observed))
        rest = (point for i, (point, _) in enumerate(best) if i != first)
        most = np.append(self.width_evaluations, np.zeros(len(best) - 1, np.int64))  # others stay
        best = yield Phase(self._climb(q, (wide, *rest), most))
        return replace(q, points=tuple(point for point, _ in best))

    def _choose_form(self, q: AdditiveState) -> Algorithm:
        """Fit lines along their paths, and curves; return the form, and what to go on with."""
        observed, rows = q.observed, float(q.observed.weight.sum())
        lines, *processes = yield self._phase(q, self._paths(observed))
        curves: tuple[BlockFit, ...] = ()
        if observed.curves is not None:
            first = BlockFit.first(observed, -1)
            fine = FINE * observed.rows
            curves = ((yield self._phase(q, Phase(fit_curves(observed, first, fine)))),)
        requests = (lines.best.left_out(observed), *(fit.left_out(observed) for fit in curves))
        sums = yield Evaluate(Fits(requests))
        value, products = sums.left_out.value / rows, sums.left_out.products / rows
        alone, gain, error = observed.without_columns / rows, 0.0, 0.0
        if curves:
            gain = float(value[1]) - float(value[0])
            square = products[1, 1] - 2.0 * products[0, 1] + products[0, 0]
            error = float(np.sqrt(max(square - gain**2, 0.0) / rows))
        found = Additive(
            lines.taus,
            lines.left_out / rows,
            alone,
            float(value[1]) if curves else None,
            gain,
            error,
            FORMS[int(np.argmax([alone if self.tau is None else -np.inf, *value]))],
            tuple(one for path in processes for one in (path.taus, path.left_out / rows)),
        )
        return found, tuple(path.best for path in (lines, *processes)), curves

    def _paths(self, observed: DesignSummary) -> Phase:
        """Return the phase that follows the paths of lines, and of lines and the process."""
        tolerance = ROUGH * observed.rows
        paths = [path(observed, tolerance, TAUS if self.tau is None else (self.tau,))]
        if self._holds_out and observed.interaction.size > 0:
            paths.append(path(observed, tolerance, PROCESS_TAUS, PROCESS_PAST, joint=True))
        return fits_together(paths)

    @property
    def _holds_out(self) -> bool:
        """Whether anything is chosen by rows held out of a fit."""
        return self.n_experts > 1 and not self.always

    def _fit_parts(
        self, q: AdditiveState, ridges: tuple[RidgeFit, ...], curves: tuple[BlockFit, ...]
    ) -> Algorithm:
        """Go on with the fits to their ends; return ``q`` with what they found."""
        observed, own = q.observed, q.form == "curves"
        held = held_parts(observed) if self._holds_out else ()
        starts = []
        for ridge in ridges:
            folds = held if ridge.joint or not own else ()
            starts += [ridge, *(ridge.without(fold, 1.0 - 1.0 / FOLDS) for fold in folds)]
        fine = FINE * observed.rows
        fits = yield self._phase(q, fits_together([newton(one, observed, fine) for one in starts]))
        plain, *rest = [fit.part(observed) for fit in fits if not fit.joint]
        processes = tuple(fit.part(observed) for fit in fits if fit.joint)
        first = curves[0].part(observed) if own else plain
        paired: list[Part] = []
        if curves and self._holds_out:
            pairs = yield Phase(self._fit_pairs(q, curves[0]))
            for fold in held if own or pairs else ():
                curved = fit_curves(observed, BlockFit.first(observed, fold), ROUGH * observed.rows)
                fit = yield self._phase(q, Phase(curved))
                rest += [fit.part(observed)] if own else []
                if pairs:
                    (fit,) = yield Phase(self._fit_pairs(q, fit))
                    paired.append(fit.part(observed))
            paired = [*(fit.part(observed) for fit in pairs), *paired]
        if q.form == "intercept":
            first, *rest = [part.emptied(observed.rate) for part in (first, *rest)]
        varied = observed.variance / observed.given * first.coefficients[: observed.given.size] ** 2
        if own:  # by the moments at 0, where rows weigh alike
            sums = yield Evaluate(curves[0].request(0.0 * first.coefficients))
            at_zero = replace(curves[0], evaluation=sums.evaluations[0])
            varied = at_zero.varied(observed, first.coefficients)
        return replace(
            q,
            parts=(first, plain, *rest),
            processes=processes,
            paired=tuple(paired),
            gaps=varied,
        )

    def _phase(self, q: AdditiveState, fitting: Phase) -> Phase:
        """Return a phase of fits that shows them, where any are shown."""
        if self.always:
            return fitting
        return replace(fitting, algorithm=shown(fitting.algorithm, q))

    def _fit_pairs(self, q: AdditiveState, fit: BlockFit) -> Algorithm:
        """Return the fit with pairs in a tuple; of all rows an empty one, where there are none."""
        if not looked_for(q.observed.curves):
            return ()
        found = yield self._phase(q, Phase(fit_pairs(q.observed, fit, ROUGH * q.observed.rows)))
        return (found,) if fit.fold >= 0 or len(found.terms.pairs) else ()

    def _choose_mixtures(self, q: AdditiveState) -> Algorithm:
        """Halve the candidates by the rows held out; return the choice, and its points so far."""
        starts = STARTS if q.observed.rows < MANY_ROWS else 1
        points = tuple(
            self._start(q, replace(c, fold=fold), [q.seed, 0, fold, i])
            for c in self.candidates()
            for fold in held_parts(q.observed)
            for i in range(starts)
        )
        for evaluations, eighths in RUNGS:
            best = yield Phase(self._climb(q, points, np.full(len(points), evaluations)))
            points = tuple(point for point, _ in best)
            tried = (*points, *alone(q))
            sums = yield Evaluate(Mixtures.of(q, tried, held=True))
            if eighths == 1:
                break
            kept = self._better(tried, sums, eighths)
            points = tuple(p for p in points if whole(p.candidate) in kept)
        choice = choose(tried, sums)
        kept = [choice.candidates[i] for i in choice.kept]
        return choice, tuple(p for p in points if whole(p.candidate) in kept)

    def _better(self, points: Sequence[Point], sums: Sums, eighths: int) -> list[Candidate]:
        """Return the candidates that predict the rows held out best, so many of eight."""
        held: dict[Candidate, float] = {}
        for c, v in zip(dict.fromkeys(p.candidate for p in points), sums.held, strict=True):
            if c.n_experts > 1:
                held[whole(c)] = held.get(whole(c), 0.0) + float(v)
        count = max(1, (len(self.candidates()) * eighths + 7) // 8)
        return sorted(held, key=lambda c: -held[c])[:count]

    def _weigh_members(self, q: AdditiveState, points: tuple[Point, ...]) -> Algorithm:
        """Weigh pairs and the Gaussian process by the rows held out."""
        sums = yield Evaluate(Members(Mixtures.of(q, points), q.processes, q.paired))
        return weighted(q, sums.log_p)

    def _evaluate_part(self, q: AdditiveState) -> Algorithm:
        """End with the additive part alone."""
        q = replace(q, points=())
        sums = yield Evaluate(q.part_alone())
        yield Show(q, sums.mean, by_trace=False)
        return q

    def _starts(
        self, q: AdditiveState, choice: Choice, found: Sequence[Point]
    ) -> tuple[Point, ...]:
        """Return what the rungs found, and random points for the rest."""
        kept = [choice.candidates[i] for i in choice.kept]
        starts = [[p for p in found if whole(p.candidate) == c] for c in kept]
        points = []
        for i in range(self.n_restarts):
            at = i % len(kept)
            if starts[at]:
                points.append(replace(starts[at].pop(0), candidate=kept[at]))
            else:
                points.append(self._start(q, kept[at], [q.seed, 1, i]))
        return tuple(points)

    def _climb(self, q: AdditiveState, points: tuple[Point, ...], most: IntArray) -> Algorithm:
        """Search from points side by side; return the best ones, each with its objective.

        Each is evaluated, and then at most so many trials of it, [S]. A search ends when two rises
        in a row are at most the tolerance, and the slope promises no more: g'H g / 2, the rise to
        come of a quadratic.
        """
        stretch = stretches(points, of_mixture(q.observed))
        tolerance, tried = max(self.least_rise, self.tolerance * q.observed.rows), 0
        ascent: BatchedLBFGS | None = None
        small = np.zeros(len(points), np.int64)
        while True:
            points, ascent, small, tried = yield Save((points, ascent, small, tried))
            if ascent is None:
                sums = yield Evaluate(Mixtures.of(q, points))
                ascent = first_ascent(points, sums, stretch, int(most.max()))
            else:
                going = np.flatnonzero(~ascent.done).tolist()
                trials, ahead = list(points), ascent.trial / stretch
                for i in going:
                    trials[i] = points[i].at(ahead[i])
                sums = yield Evaluate(Mixtures.of(q, tuple(trials[i] for i in going)))
                before, tried = ascent, tried + 1
                value, gradient = objectives(trials, sums, going)
                ascent = before.updated(value, gradient / stretch, 0.0)
                each = zip(ascent.taken.tolist(), trials, points, strict=True)
                points = tuple(trial if taken else point for taken, trial, point in each)
                rise, promised = ascent.value - before.value, 0.5 * ascent.stride * ascent.slope
                small = np.where(ascent.taken & (rise > tolerance), 0, small + ascent.taken)
                over = ascent.taken & (small >= np.where(promised <= tolerance, FEW, MANY))
                ascent = replace(ascent, done=ascent.done | over)
            ascent = replace(ascent, done=ascent.done | (tried >= most))
            yield Show(replace(q, points=points), float(ascent.value.mean()), by_trace=False)
            if ascent.done.all():
                return tuple(zip(points, ascent.value.tolist(), strict=True))

    def _start(self, q: AdditiveState, candidate: Candidate, seed: list[int]) -> Point:
        rng = np.random.default_rng(seed)
        columns = q.observed.mixing.size
        return Point.random(candidate, columns, rng).narrowed(of_mixture(q.observed))
