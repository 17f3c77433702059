"""L-BFGS on many small problems at once, and weights of a mixture of predictions.

Problems are maximised side by side, as a state between evaluations made elsewhere: each needs every
unfinished problem's value and gradient at its own trial point (Nocedal and Wright 2006, algorithm
3.1). Best in coordinates of curvature at most 1, where a plain gradient step of length 1 ascends:
it is the way out when a direction fails.

Weights go by the probability that each member gives what it has not seen:

    argmax_w sum_i log sum_k w_k p_ik + sum_k (a - 1 + m_k) log w_k,   w on the simplex

by EM (stacking of predictive densities: Yao, Vehtari, Simpson and Gelman 2018; here with a
Dirichlet(a) prior, a = 1.2, which keeps every member a little, and m further labels, of which m_k
are such that member k alone explains them). A step needs sums alone:

    t_k = m_k + sum_i w_k p_ik / sum_l w_l p_il,    w_k <- (t_k + a - 1) / (n + m + K (a - 1))
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dtrtrs
from scipy.special import logsumexp

from vbmodels.core.state import BoolArray, FloatArray, IntArray, State

MEMORY = 10
SUFFICIENT = 1e-4
ROUNDING = 1e-13
MOST_TRIES = 20


@dataclass(frozen=True)
class BatchedLBFGS(State, kind="core.BatchedLBFGS"):
    """Where S searches stand.

    Attributes
    ----------
    at, value, gradient
        Best points, [S, P], and the objective there, [S], [S, P].
    known
        Last steps, and changes of the gradient (turned to a minimum's), of each search; [2, m, P].
    memory
        How many of them are kept.
    direction, slope
        Where the line search goes, [S, P], and its rate of ascent, [S].
    stride, tries
        Present step length and refusals along the direction, [S].
    taken, done
        Which searches went to their last trial, and which have ended, [S].
    """

    at: FloatArray
    value: FloatArray
    gradient: FloatArray
    known: tuple[FloatArray, ...]
    memory: int
    direction: FloatArray
    slope: FloatArray
    stride: FloatArray
    tries: IntArray
    taken: BoolArray
    done: BoolArray

    @classmethod
    def start(
        cls,
        at: FloatArray,
        value: FloatArray,
        gradient: FloatArray,
        tolerance: float,
        reach: float = float("inf"),
        memory: int = MEMORY,
    ) -> BatchedLBFGS:
        """Begin at evaluated points; the first steps go no further than ``reach``."""
        searches, size = at.shape
        slope = (gradient**2).sum(axis=1)
        length = np.sqrt(slope)
        return cls(
            at=at,
            value=value,
            gradient=gradient,
            known=(np.empty((2, 0, size)),) * searches,
            memory=memory,
            direction=gradient,
            slope=slope,
            stride=np.minimum(1.0, reach / np.where(length > 0.0, length, 1.0)),
            tries=np.zeros(searches, dtype=np.int64),
            taken=np.ones(searches, dtype=bool),
            done=slope <= 2.0 * tolerance,
        )

    @cached_property
    def trial(self) -> FloatArray:
        """The points to evaluate, [S, P]; finished searches stay where they are."""
        step = np.where(self.done, 0.0, self.stride)
        return self.at + step[:, None] * self.direction

    def updated(self, value: FloatArray, gradient: FloatArray, tolerance: float) -> BatchedLBFGS:
        """Take in the objective at `trial`, and choose the next trial.

        A search ends when its direction promises less than ``tolerance`` (the half of
        slope, as for a quadratic), or when rounding alone decides.
        """
        slack = ROUNDING * np.maximum(1.0, np.abs(self.value))
        least = self.value + SUFFICIENT * self.stride * self.slope - slack
        usable = np.isfinite(value) & np.isfinite(gradient).all(axis=1)
        taken = ~self.done & usable & (value >= least)
        refused, aimed = ~self.done & ~taken, self._moved(taken, value, gradient, tolerance)
        return aimed._shortened(refused, value) if refused.any() else aimed

    def _moved(
        self, taken: BoolArray, value: FloatArray, gradient: FloatArray, tolerance: float
    ) -> BatchedLBFGS:
        """Go to the trial where it was taken, remember the step there, and aim again."""
        direction, slope, known = self.direction.copy(), self.slope.copy(), list(self.known)
        for search in np.flatnonzero(taken).tolist():
            ahead = gradient[search]
            move, change = self.trial[search] - self.at[search], self.gradient[search] - ahead
            if move @ change > 1e-10 * np.sqrt((move @ move) * (change @ change)):
                every = np.concatenate([known[search], np.array([[move], [change]])], axis=1)
                known[search] = every[:, -self.memory :]
            direction[search] = _aimed(ahead, *known[search])
            slope[search] = direction[search] @ ahead
        return replace(
            self,
            at=_chosen(taken, self.trial, self.at),
            value=_chosen(taken, value, self.value),
            gradient=_chosen(taken, gradient, self.gradient),
            known=tuple(known),
            direction=direction,
            slope=slope,
            stride=np.where(taken, 1.0, self.stride),
            tries=np.where(taken, 0, self.tries),
            taken=taken,
            done=self.done | (taken & (slope <= 2.0 * tolerance)),
        )

    def _shortened(self, refused: BoolArray, value: FloatArray) -> BatchedLBFGS:
        """Shorten the step where it was refused; after many refusals aim along the gradient."""
        fall = self.value + self.stride * self.slope - np.where(np.isfinite(value), value, -np.inf)
        fall = np.where(refused, np.maximum(fall, 1e-300), 1.0)
        shorter = self.stride * np.clip(0.5 * self.stride * self.slope / fall, 0.1, 0.5)
        tries = self.tries + refused
        hopeless = refused & (tries >= MOST_TRIES)
        fresh = hopeless & np.array([known.shape[1] > 0 for known in self.known])
        return replace(
            self,
            known=tuple(k[:, :0] if f else k for k, f in zip(self.known, fresh, strict=True)),
            direction=np.where(fresh[:, None], self.gradient, self.direction),
            slope=np.where(fresh, (self.gradient**2).sum(axis=1), self.slope),
            stride=np.where(fresh, 1.0, np.where(refused, shorter, self.stride)),
            tries=np.where(fresh, 0, tries),
            done=self.done | (hopeless & ~fresh),
        )


def _aimed(gradient: FloatArray, moves: FloatArray, changes: FloatArray) -> FloatArray:
    """Multiply a gradient with the inverse curvature that the last steps show; [P].

    With R the upper triangle of S Y' (steps and changes), D its diagonal and c the last
    step's s'y / y'y (Byrd, Nocedal and Schnabel 1994, theorem 2.2):

        p = R^-1 S g,   r = c (g - Y' p),   H g = r + S' R'^-1 (D p - Y r).
    """
    if not len(moves):
        return gradient
    products = moves @ changes.T
    p, _ = dtrtrs(products, moves @ gradient)
    usual = products[-1, -1] / (changes[-1] @ changes[-1])
    rest = usual * (gradient - p @ changes)
    u, _ = dtrtrs(products, np.diagonal(products) * p - changes @ rest, trans=1)
    return np.asarray(rest + u @ moves)


def _chosen(which: BoolArray, new: FloatArray, old: FloatArray) -> FloatArray:
    """Return ``new`` of some searches, ``old`` of the others."""
    if which.all():
        return new
    return np.where(which.reshape(-1, *([1] * (old.ndim - 1))), new, old)


CONCENTRATION = 1.2


def moved_weights(taken: FloatArray, n: float) -> FloatArray:
    """Return the weights [K] after a step.

    Parameters
    ----------
    taken
        t, the sums of each member's responsibilities, [K].
    n
        How many predictions were summed over.
    """
    added = CONCENTRATION - 1.0
    return (taken + added) / (n + len(taken) * added)


MOST_ROUNDS = 10_000


def stacked(log_p: FloatArray, further: FloatArray) -> FloatArray:
    """Return the weights, [K], from the members' log probabilities of n labels, [n, K].

    ``further``: labels beyond these that a member alone explains, [K].
    """
    n, k = log_p.shape
    weights: FloatArray = np.full(k, 1.0 / k)
    chance = np.exp(log_p - log_p.max(axis=1, keepdims=True))  # only a label's ratios matter
    for _ in range(MOST_ROUNDS):
        joint = chance * weights
        taken = (joint / joint.sum(axis=1, keepdims=True)).sum(axis=0)
        before, weights = weights, moved_weights(taken + further, n + further.sum())
        if np.abs(weights - before).max() <= 1e-12:
            break
    return weights


def objective(log_p: FloatArray, weights: FloatArray, further: FloatArray) -> float:
    """Return what `stacked` maximises, in nats."""
    said = logsumexp(log_p + np.log(weights), axis=1).sum()
    return float(said + (CONCENTRATION - 1.0 + further) @ np.log(weights))
