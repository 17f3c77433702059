"""Items 5 to 7 and 10: the bound is its definition; posteriors and scores agree."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vbmodels.core.fit import NotConverged, fit
from vbmodels.core.state import FloatArray
from vbmodels.testing.case import (
    Agreement,
    Case,
    Evidence,
    Figures,
    Identity,
    MonteCarlo,
    Recovery,
    Sampler,
)
from vbmodels.testing.runs import bound, plain_loop, steps

DEFINITION = Identity(5, "the bound is its definition E_q[log p - log q]")
EVIDENCE = Identity(6, "the bound lies below the exact evidence, and near it")
SAMPLER = Identity(6, "the posterior is that of a sampler")
RECOVERY = Identity(7, "the truth behind simulated data is recovered")


def check_definition(case: Case, item: MonteCarlo, seed: int) -> Figures:
    """The bound is E_q[log p - log q] by draws, within 4 standard errors."""
    batches = case.tiny(seed)
    model, rng = case.model(), np.random.default_rng(seed)
    figures: Figures = {}
    points: list[tuple[str, Any, Sequence[Any]]] = []
    for step, run in itertools.islice(steps(case, plain_loop(case), batches, seed), 4):
        states = run.reduce.local_states(step.iteration)
        if step.iteration in (0, 3):
            points.append((f"sweep {step.iteration}", step.q, states))
        if item.mixed and step.iteration == 0:
            moved = model.global_step(step.q, step.stats)
            points.append(("after the global step", moved, states))
    for name, q, local_states in points:
        where = f"tiny({seed}), {name}"
        draws = item.sample(q, batches, local_states, rng, item.size)
        weights = item.log_joint(draws, batches) - item.log_q(draws, q, batches, local_states)
        DEFINITION.holds(
            weights.shape == (item.size,),
            where,
            f"log_joint and log_q have the shape {weights.shape}; expected one number a draw, "
            f"({item.size},)",
        )
        mean, se = float(weights.mean()), float(weights.std(ddof=1) / np.sqrt(item.size))
        DEFINITION.holds(
            se <= item.largest_se,
            where,
            f"no power: the standard error is {se:.3g}, allowed {item.largest_se:.3g}; raise size",
        )
        value = bound(model, q, batches, local_states)
        figures |= {f"{name}: bound - definition": value - mean, f"{name}: se": se}
        slack = 4.0 * se + 1e-9 * max(1.0, abs(mean))
        off = f"the bound is {value:.6g}, its definition {mean:.6g} +- {se:.2g}"
        DEFINITION.holds(value <= mean + slack, where, f"{off}: {value - mean:.3g} too high")
        if item.relation == "equal":
            DEFINITION.holds(value >= mean - slack, where, f"{off}: {mean - value:.3g} too low")
    return figures


def check_evidence(case: Case, item: Evidence, seed: int) -> Figures:
    """The converged bound lies below the exact evidence, and not far below."""
    batches = case.tiny(seed)
    exact = item.log_evidence(batches)
    reached = fit(case.model(), batches, seed=seed, tol=1e-10, max_iter=5000).trace[-1]
    gap, where = exact - reached, f"tiny({seed}), the end of a fit"
    EVIDENCE.holds(
        gap <= item.largest_gap,
        where,
        f"the bound {reached:.6g} lies {gap:.3g} below the evidence {exact:.6g}, "
        f"allowed {item.largest_gap:.3g}",
    )
    lowest = -1e-8 * max(1.0, abs(exact)) if item.strict else -item.largest_gap
    EVIDENCE.holds(
        gap >= lowest,
        where,
        f"the bound {reached:.6g} lies {-gap:.3g} above the evidence {exact:.6g}",
    )
    return {"evidence": exact, "gap": gap}


def check_sampler(case: Case, item: Sampler) -> Figures:
    """Posterior means agree with the model's own sampler; the ratio of sds is recorded."""
    from vbmodels.core.draws import diagnose

    batches = case.batches(item.seed, 1)
    where = f"batches({item.seed}, 1)"
    seen = diagnose(item.draws(batches, np.random.default_rng(item.seed)))
    SAMPLER.holds(
        bool(seen.r_hat.max() <= item.largest_r_hat),
        f"{where}, quantity {int(seen.r_hat.argmax())}",
        f"the sampler has not mixed: R-hat {seen.r_hat.max():.4g}, "
        f"allowed {item.largest_r_hat:.4g}",
    )
    done = fit(case.model(), batches, seed=item.seed, tol=1e-10, max_iter=5000)
    states = done.reduce.local_states(done.iterations - 1)
    mean, sd = item.moments(done.q, states)
    off = (np.abs(mean - seen.mean) - 4.0 * seen.mcse) / seen.sd
    worst = int(off.argmax())
    SAMPLER.holds(
        bool(off[worst] <= item.mean_tolerance),
        f"{where}, quantity {worst}",
        f"mean {mean[worst]:.6g} under q, {seen.mean[worst]:.6g} by the sampler: {off[worst]:.3g} "
        f"sd beyond 4 errors, allowed {item.mean_tolerance:.3g}",
    )
    ratio = sd / seen.sd
    low, high = item.sd_ratio
    for k in (int(ratio.argmin()), int(ratio.argmax())):
        SAMPLER.holds(
            bool(low <= ratio[k] <= high),
            f"{where}, quantity {k}",
            f"sd under q is {ratio[k]:.3g} of the sampler's, allowed {low:.3g} to {high:.3g}",
        )
    return {
        "largest mean difference in sd": float((np.abs(mean - seen.mean) / seen.sd).max()),
        "smallest sd ratio": float(ratio.min()),
        "median sd ratio": float(np.median(ratio)),
        "largest sd ratio": float(ratio.max()),
    }


def check_recovery(case: Case, item: Recovery) -> Figures:
    """The truth behind simulated data is recovered on every seed."""
    errors = {seed: item.error(seed) for seed in item.seeds}
    worst = max(errors, key=errors.__getitem__)
    RECOVERY.holds(
        errors[worst] <= item.tolerance,
        f"seed {worst}",
        f"errors by seed: {errors}, allowed {item.tolerance}",
    )
    return {"largest error": errors[worst]}


SCORES = Identity(10, "a score of the training rows gives what the fit published of them")
MOST_REPEATS = 500


def repeated(model: Any, q: Any, batch: Any, show: Callable[[Any], FloatArray]) -> Any:
    """Return a partition's state from cold at ``q``: steps until what they show stands still."""
    local = model.local_step(q, batch, None)
    before = show(local)
    for _ in range(MOST_REPEATS):
        local = model.local_step(q, batch, local)
        now = show(local)
        if np.max(np.abs(now - before), initial=0.0) < 1e-12:
            break
        before = now
    return local


def check_agreement(case: Case, item: Agreement) -> Figures:
    """What is published of the training rows is had again, from cold and by a score."""
    model = (item.model or case.model)()
    parts = 1 if case.undivided is not None else 3
    batches = item.batches() if item.batches else case.batches(0, parts)
    with warnings.catch_warnings():
        # Coordinate ascent over discrete patterns may creep for long; what is left is published.
        warnings.simplefilter("ignore", NotConverged)
        done = fit(model, batches, tol=item.tol, max_iter=item.max_iter)
    states = done.reduce.local_states(done.iterations - 1)
    allowed = item.atol if item.largest is None else item.largest
    cold: list[FloatArray] = []
    away: list[FloatArray] = []
    values = []
    for i, (batch, state) in enumerate(zip(batches, states, strict=True)):
        published = item.published(model, done.q, batch, state)
        finite = bool(np.isfinite(published).all())
        SCORES.holds(finite, f"partition {i}", "what is published is not finite")
        values.append(published.ravel())
        new = item.hidden(batch)
        if item.scored is None or state is not None:

            def show(local: Any, batch: Any = batch) -> FloatArray:
                return item.published(model, done.q, batch, local)

            cold.append(_differences(show(repeated(model, done.q, new, show)), published))
        if item.scored is not None:
            score = item.scored(model, done.q, new)
            SCORES.holds(
                score.shape == published.shape,
                f"partition {i}",
                f"a score has the shape {score.shape}, what is published {published.shape}",
            )
            away.append(_differences(score, published))
    spread = float(np.ptp(np.concatenate(values)))
    SCORES.holds(
        spread > 10.0 * item.atol,
        f"batches(0, {parts}), {done.iterations} sweeps",
        "all rows get the same: the test would prove nothing",
    )
    return {
        "from cold": _within(cold, item.atol, item.astray, "from cold, what is published"),
        "by a score": _within(away, allowed, item.astray, "a score of the training rows"),
        "spread": spread,
    }


def _differences(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return the largest difference of each row."""
    return np.asarray(np.abs(one - other).reshape(len(one), -1).max(axis=1, initial=0.0))


def _within(parts: Sequence[FloatArray], allowed: float, astray: float, what: str) -> float:
    if not parts:
        return 0.0
    differences = np.concatenate(parts)
    off = float(np.mean(differences > allowed))
    SCORES.holds(
        off <= astray,
        f"row {int(differences.argmax())} and others, {off:.1%} of all",
        f"{what} differs by {differences.max():.3g}, allowed {allowed:.3g}",
    )
    return float(differences[differences <= allowed].max(initial=0.0))
