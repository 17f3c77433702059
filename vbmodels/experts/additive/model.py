"""An additive logistic model of lines and steps, with a mixture of experts beside it.

The logit of expert k is f0(x) + beta_k'u and the gates are eta_k'u: f0 is the additive part, u the
columns' quantiles (of few columns their lines and steps). As tau grows the experts vanish, so the
additive part is among the mixtures. A partition has no state; what it returns adds up.

1. Path: logistic regression on lines, and on lines and steps, for falling tau. The tau of each is
   the one whose leave-one-out log-likelihood (`newton`) is best; steps must beat lines by one
   standard error of the paired difference, and the intercept alone must be beaten.
2. Folds: that f0 again, to its end, on all rows and without each of two parts of four. Which part a
   row is in hangs on its cells, so copies of a row are together.
3. Rungs: mixtures with few and with many experts and several tau, two starts each, are fitted
   beside f0 without a part for a few evaluations; those that predict it best, their starts
   averaged, go on (successive halving; Jamieson and Talwalkar 2016). A mixture must beat f0 by
   one standard error of the paired difference. Those as good as the best share its starts.
4. Mode: from several starts, on all rows, for a bounded number of evaluations; predictions average
   over them.
5. Gaussian: the widths of the best start, for the report.

In the trace stands the log-likelihood of what is evaluated in phases 1 and 2, and the mean over
points of the objective of `candidate` in the others; phases do not compare.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vbmodels.core.ascent import search
from vbmodels.core.protocol import Cursor, Step
from vbmodels.experts.additive.newton import PROCESS_TAUS, TAUS, Counted, Path, answered, left_out
from vbmodels.experts.additive.posterior import AdditivePosterior, Part
from vbmodels.experts.additive.prior_choice import Choice, choose
from vbmodels.experts.additive.searches import begun, judged, trials
from vbmodels.experts.additive.stacking import weighed, weighted
from vbmodels.experts.additive.states import (
    MANY_ROWS,
    Additive,
    AdditiveSums,
    Progress,
    ProgressCursor,
    alone,
    asks_of,
    bases_of,
    evaluated,
    held_parts,
    of_mixture,
    whole,
)
from vbmodels.experts.additive.step_rows import CodedRows
from vbmodels.experts.candidate import Candidate, Point, Sums
from vbmodels.experts.posterior import Component
from vbmodels.experts.rows import FOLDS, Observed

RUNGS = ((10, 4), (15, 2), (25, 1))
"""Evaluations of each rung, and how many of eight candidates go on after it."""
STARTS = 2
DRAWS = 4
"""Fixed draws of each row for the widths; of many rows, a pair."""
MOST_COLUMNS = 3000
"""Columns whose second moments a partition can send."""
ROUGH, FINE = 1e-6, 1e-10
"""Rise to come, in nats a row, that ends a fit of a path and the last one."""


@dataclass(frozen=True)
class AdditiveExperts:
    """Fit an additive logistic model and, where they predict better, experts beside it.

    Where the rows come with columns of a Gaussian process (`interactions`), that is stacked with
    both with the weight that held-out rows give it; not beside the additive part alone.

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
    tolerance
        Rise of the objective, in nats a row, that ends a search.
    width_evaluations
        Most evaluations of the best start's widths.
    always
        Whether the mixture stands whatever held-out rows say, with the first of ``taus``.
    """

    n_experts: int = 10
    tau: float | None = None
    taus: tuple[float, ...] = (1.0, 3.0, 10.0, 30.0)
    n_restarts: int = 5
    evaluations: int = 50
    tolerance: float = 3e-6
    width_evaluations: int = 10
    always: bool = False

    def observe(self, batch: CodedRows) -> Counted:
        """Count the rows and sum up their columns."""
        return Counted.of(batch)

    def init(self, observed: Counted, rng: np.random.Generator) -> Progress:
        """Begin both paths."""
        Observed(observed.rows, observed.positive, observed.squares).refuse_one_class()
        lines, steps = observed.sizes
        if lines > MOST_COLUMNS + 1:
            raise ValueError(
                f"expected at most {MOST_COLUMNS} columns for inference additive, got {lines - 1}: "
                "give fewer"
            )
        seed = int(rng.integers(2**62))
        taus = TAUS if self.tau is None else (self.tau,)
        tolerance = ROUGH * observed.rows
        sizes = [(False, lines), (True, steps)] if steps > lines else [(False, lines)]
        paths = [Path.first(stepped, n, taus, observed, tolerance) for stepped, n in sizes]
        if self._stacks(observed):
            size = lines + observed.together.size
            paths.append(Path.first(False, size, PROCESS_TAUS, observed, tolerance, joint=True))
        return Progress("path", observed, seed, tuple(paths))

    def _stacks(self, observed: Counted) -> bool:
        return not self.always and self.n_experts > 1 and observed.together.size > 0

    def candidates(self) -> list[Candidate]:
        """Return the mixtures to choose from."""
        taus = self.taus if self.tau is None else (self.tau,)
        counts = sorted({k for k in (self.n_experts, (self.n_experts + 1) // 2) if k > 1})
        return [Candidate(*one) for one in itertools.product(counts, taus)]

    def local_step(self, q: Progress, batch: CodedRows, local: None) -> None:
        """Do nothing: a partition has no parameters of its own."""

    def suff_stats(self, q: Progress, batch: CodedRows, local: None) -> AdditiveSums:
        """Answer every fit and evaluate every mixture on the partition."""
        asks = asks_of(q)
        parted = any(a.fold >= 0 for a in asks) or q.phase == "weighed"
        fold = batch.rows.fold(FOLDS) if parted else None
        told, without = [], []
        for ask in asks:
            answer, rows = answered(ask, batch, fold)
            told.append(answer)
            if rows is not None:
                without.append(rows)
        mixtures = None
        if q.phase == "weighed":
            assert fold is not None
            none = left_out([], batch)
            return AdditiveSums((), none, None, weighed(q, batch, fold, self._draws(q)))
        if q.points:
            parts = {p.candidate.fold for p in q.points}
            offsets = {p.fold: batch.offset(p.coefficients) for p in bases_of(q) if p.fold in parts}
            mixtures = Sums.at(
                q.points, batch.mixing, FOLDS, self._draws(q), offsets, held=q.phase == "judged"
            )
        return AdditiveSums(tuple(told), left_out(without, batch), mixtures)

    def _draws(self, q: Progress) -> int:
        return DRAWS if q.observed.rows < MANY_ROWS else 2

    def global_step(self, q: Progress, stats: AdditiveSums) -> Progress:
        """Return the points one step up their gradients; the loop itself remembers more."""
        if not q.points:
            return q
        assert stats.mixtures is not None
        observed = of_mixture(q.observed)
        searches = begun(q.points, observed, stats.mixtures)
        return replace(q, points=trials(q.points, searches, observed))

    def elbo(self, q: Progress, stats: AdditiveSums) -> float:
        """Return what is shown of a point; see the module's text."""
        if q.phase == "weighed":
            return float(stats.weighed.max())
        if not q.points:
            return float(np.mean([told.value for told in stats.told]))
        values = [p.objective(v, g)[0] for p, v, g in evaluated(q, stats)]
        return sum(values) / len(values)

    def unfinished(self, q: Progress) -> str | None:
        """Say so while there is something to choose."""
        over = q.phase in ("mode", "gaussian", "additive")
        return None if over else "the form was being chosen"

    def posterior(self, q: Progress) -> AdditivePosterior:
        """Return the additive part and the mixtures whose predictions are averaged."""
        if self.unfinished(q):
            raise ValueError("the form is still being chosen: there is no posterior yet")
        parts = tuple(
            Component(p.mean, np.zeros_like(p.mean) if p.log_sd is None else np.exp(p.log_sd))
            for p in q.points
        )
        weight = 0.0 if q.additive is None else q.additive.weight
        process = q.processes[0] if weight > 0.0 else None
        return AdditivePosterior(q.parts[0], parts, process, weight)

    def without_process(self, q: Progress) -> AdditivePosterior:
        """Return the posterior without the Gaussian process."""
        return replace(self.posterior(q), process=None, weight=0.0)

    def additive_part(self, q: Progress) -> AdditivePosterior:
        """Return the additive part alone."""
        return AdditivePosterior(q.parts[0], ())

    def baseline(self, q: Progress) -> AdditivePosterior:
        """Return the logistic regression on lines, with the tau that leaving rows out chose."""
        return AdditivePosterior(q.parts[1], ())

    algorithm = search

    def begin(self, cursor: Cursor) -> Cursor:
        """Take in the answers at the start."""
        if isinstance(cursor, ProgressCursor):
            return cursor
        return self._absorbed(cursor.q, cursor.stats, cursor.number)

    def shown(self, at: ProgressCursor) -> Step | None:
        """Show every evaluation; in a fit that chooses nothing, those of the mixture alone."""
        if at.q.phase == "additive":
            return Step.at(at, True)
        if at.q.phase in ("judged", "compared", "weighed"):
            return None
        if self.always and not at.q.points:
            return None
        return Step.at(at, at.q.phase == "gaussian" and not at.going)

    def ask(self, at: ProgressCursor) -> Progress:
        """Ask for the next trials, or for the first ones of the next phase."""
        q: Progress = at.q
        if q.phase == "path":
            done = all(path.done for path in q.paths)
            return replace(q, phase="compared") if done else q
        if q.phase == "compared":
            q = self._folds(q, at.stats)
        if q.phase == "folds":
            done = all(climb.done for climb in q.climbs)
            return self._mixtures(self._settled(q)) if done else q
        if at.going:
            asked = trials(q.points, at.searches, of_mixture(q.observed))
            return replace(q, points=tuple(asked[i] for i in at.going))
        if q.phase == "rung":
            return replace(q, phase="judged", points=(*q.points, *alone(q)))
        if q.phase == "judged":
            return self._judged(q, at.stats.mixtures)
        if q.phase == "weighed":
            return self._settle(weighted(q, at.stats.weighed))
        values = [p.objective(v, g)[0] for p, v, g in evaluated(q, at.stats)]
        first = int(np.argmax(values))
        wide = q.points[first].widened(of_mixture(q.observed))
        rest = tuple(p for i, p in enumerate(q.points) if i != first)
        return replace(q, phase="gaussian", points=(wide, *rest))

    def take(self, at: ProgressCursor, asked: Progress, stats: AdditiveSums) -> ProgressCursor:
        """Take in the answers."""
        number = at.number + 1
        if asked.phase == "weighed":
            return ProgressCursor(asked, stats, number, self.elbo(asked, stats))
        if not asked.points:
            return self._absorbed(asked, stats, number)
        if asked.phase != at.q.phase or asked.rung != at.q.rung:
            return self._begun(asked, stats, number)
        q: Progress = at.q
        sums, there = at.stats.mixtures, stats.mixtures
        assert there is not None
        points, searches, sums = judged(
            q.points, at.searches, sums, at.going, (asked.points, there),
            of_mixture(q.observed), self.tolerance * q.observed.rows,
        )  # fmt: skip
        q = replace(q, points=points)
        kept = replace(at.stats, mixtures=sums)
        return ProgressCursor(q, kept, number, self.elbo(q, kept), searches, at.left - 1)

    def _absorbed(self, q: Progress, stats: AdditiveSums, number: int) -> ProgressCursor:
        """Hand the answers to the paths or fits that asked."""
        bound = self.elbo(q, stats)
        answers = iter(stats.told)
        if q.phase == "path":
            without = iter(stats.left_out.value)
            q = replace(q, paths=tuple(
                path if path.done else path.take(
                    next(answers), float(next(without)) if path.judged else None, q.observed
                )
                for path in q.paths
            ))  # fmt: skip
        elif q.phase == "folds":
            q = replace(q, climbs=tuple(
                climb if climb.done else climb.take(next(answers), q.observed)
                for climb in q.climbs
            ))  # fmt: skip
        return ProgressCursor(q, stats, number, bound)

    def _begun(self, q: Progress, stats: AdditiveSums, number: int) -> ProgressCursor:
        if q.phase == "judged":
            return ProgressCursor(q, stats, number, self.elbo(q, stats))
        left = {"rung": RUNGS[q.rung][0], "gaussian": self.width_evaluations}
        assert stats.mixtures is not None
        searches = begun(q.points, of_mixture(q.observed), stats.mixtures)
        if q.phase == "gaussian":
            searches = (searches[0], *(replace(s, done=True) for s in searches[1:]))
        most = left.get(q.phase, self.evaluations)
        return ProgressCursor(q, stats, number, self.elbo(q, stats), searches, most)

    def _folds(self, q: Progress, stats: AdditiveSums) -> Progress:
        """Choose the additive form, and begin its fits on all rows and without each part."""
        rows = float(q.observed.weight.sum())
        best = [path.best for path in q.plain_paths if path.best is not None]
        value, products = stats.left_out.value / rows, stats.left_out.products / rows
        gain = error = 0.0
        form, f0 = "lines", best[0]
        if len(best) > 1:
            gain = float(value[1] - value[0])
            square = products[1, 1] - 2.0 * products[0, 1] + products[0, 0]
            error = float(np.sqrt(max(square - gain**2, 0.0) / rows))
            if gain > error:
                form, f0 = "steps", best[1]
        alone = q.observed.without_columns / rows
        if self.tau is None and alone >= max(value):
            form, f0 = "intercept", best[0]
        process = q.process_path
        found = Additive(
            tuple(np.array(path.taus[: len(path.left_out)]) for path in q.plain_paths),
            tuple(np.array(path.left_out) / rows for path in q.plain_paths),
            alone, gain, error, form, () if process is None else process.tried(rows),
        )  # fmt: skip
        tolerance = FINE * q.observed.rows
        full = f0.finer(tolerance, q.observed)
        climbs = [full, best[0].finer(tolerance, q.observed)]
        if self.n_experts > 1 and not self.always:
            climbs += [full.without(fold, 1.0 - 1.0 / FOLDS) for fold in held_parts(q.observed)]
        if process is not None and process.best is not None:
            joint = process.best.finer(tolerance, q.observed)
            climbs.append(joint)
            climbs += [joint.without(fold, 1.0 - 1.0 / FOLDS) for fold in held_parts(q.observed)]
        return replace(q, phase="folds", paths=(), climbs=tuple(climbs), additive=found)

    def _settled(self, q: Progress) -> Progress:
        """Keep what the fits found."""
        parts = [Part.of(climb, q.observed) for climb in q.climbs if not climb.joint]
        processes = tuple(Part.of(climb, q.observed) for climb in q.climbs if climb.joint)
        if q.additive is not None and q.additive.form == "intercept":
            parts = [p if i == 1 else p.emptied(q.observed.rate) for i, p in enumerate(parts)]
        return replace(q, climbs=(), parts=tuple(parts), processes=processes)

    def _mixtures(self, q: Progress) -> Progress:
        """Begin the first rung, or what comes without one."""
        candidates = self.candidates()
        if not candidates:
            return self._alone(q)
        if self.always:
            only = Choice((candidates[0],), np.zeros(1), 0, (0,), 0.0, 0.0)
            return replace(self._modes(q, only, ()), chosen=None)
        points = [
            self._start(q, replace(c, fold=fold), [q.seed, 0, fold, i])
            for c in candidates
            for fold in held_parts(q.observed)
            for i in range(STARTS if q.observed.rows < MANY_ROWS else 1)
        ]
        return replace(q, phase="rung", points=tuple(points))

    def _judged(self, q: Progress, sums: Sums) -> Progress:
        """Let the better candidates go on, or choose among the last."""
        own = tuple(p for p in q.points if p.candidate.n_experts > 1)
        if q.rung + 1 < len(RUNGS):
            held: dict[Candidate, float] = {}
            for c, v in zip(dict.fromkeys(p.candidate for p in q.points), sums.held, strict=True):
                if c.n_experts > 1:
                    held[whole(c)] = held.get(whole(c), 0.0) + float(v)
            divisor = RUNGS[q.rung][1]
            count = max(1, (len(self.candidates()) * divisor + 7) // 8)
            better = sorted(held, key=lambda c: -held[c])[:count]
            points = tuple(p for p in own if whole(p.candidate) in better)
            return replace(q, phase="rung", rung=q.rung + 1, points=points)
        chosen = choose(q.points, sums)
        kept = [chosen.candidates[i] for i in chosen.kept]
        points = tuple(p for p in own if whole(p.candidate) in kept)
        q = replace(q, chosen=chosen, points=points)
        return replace(q, phase="weighed") if q.processes else self._settle(q)

    def _settle(self, q: Progress) -> Progress:
        """Begin the last phase: the additive part alone, or the modes of what was chosen."""
        if q.chosen is None or q.chosen.candidates[q.chosen.best].n_experts == 1:
            return self._alone(q)
        return self._modes(q, q.chosen, q.points)

    def _alone(self, q: Progress) -> Progress:
        """End with the additive part."""
        return replace(q, phase="additive", points=())

    def _modes(self, q: Progress, choice: Choice, found: Sequence[Point]) -> Progress:
        """Begin at what the rungs found, and at random for the rest."""
        kept = [choice.candidates[i] for i in choice.kept]
        starts = [[p for p in found if whole(p.candidate) == c] for c in kept]
        points = []
        for i in range(self.n_restarts):
            at = i % len(kept)
            if starts[at]:
                points.append(replace(starts[at].pop(0), candidate=kept[at]))
            else:
                points.append(self._start(q, kept[at], [q.seed, 1, i]))
        return replace(q, phase="mode", points=tuple(points), chosen=choice)

    def _start(self, q: Progress, candidate: Candidate, seed: list[int]) -> Point:
        rng = np.random.default_rng(seed)
        columns = q.observed.mixing.size
        return Point.random(candidate, columns, rng).narrowed(of_mixture(q.observed))
