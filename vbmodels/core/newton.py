"""Newton's method on small problems side by side, from near their maxima to the last digits.

A search by gradients alone ends where its direction promises little. Where the curvature is small
that leaves much of the way, and differences in the last digits of its sums have grown by then.
Newton's steps converge quadratically: what they end at no longer hangs on where they began.

The step is (H + lambda M)^-1 g, H the negative Hessian, g the gradient, M positive definite and at
least about as large as the curvature (Levenberg 1944); lambda is 0 until a step is refused or
H has no factor, and falls again with success.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vbmodels.core.linalg import solve
from vbmodels.core.state import BoolArray, FloatArray, IntArray, State

END = 1e-9
"""Rise in nats that the last step promises: the one after would promise about its square."""
ROUNDING = 1e-13
FIRST, LEAST = 1e-2, 1e-4
"""The first lambda, and the one below which it is 0."""
MOST_STEPS = 30


@dataclass(frozen=True)
class Newton(State):
    """Where S problems stand.

    Attributes
    ----------
    at, value, gradient
        Best points, [S, P], and the objective there, [S], [S, P].
    curvature
        H there, [S, P, P].
    metric
        M, [S, P, P].
    damping
        lambda, [S].
    step, promised
        The next step, [S, P], and the rise that it promises, [S].
    tried
        Steps tried, [S].
    done
        Which have ended, [S].
    """

    at: FloatArray
    value: FloatArray
    gradient: FloatArray
    curvature: FloatArray
    metric: FloatArray
    damping: FloatArray
    step: FloatArray
    promised: FloatArray
    tried: IntArray
    done: BoolArray

    @classmethod
    def start(
        cls,
        at: FloatArray,
        value: FloatArray,
        gradient: FloatArray,
        curvature: FloatArray,
        metric: FloatArray,
    ) -> Newton:
        """Begin at evaluated points; where the curvature is no number there is no step."""
        count = len(at)
        return cls(
            at=at,
            value=value,
            gradient=gradient,
            curvature=curvature,
            metric=metric,
            damping=np.zeros(count),
            step=np.zeros_like(at),
            promised=np.zeros(count),
            tried=np.zeros(count, dtype=np.int64),
            done=np.asarray(~np.isfinite(curvature).all(axis=(1, 2)), dtype=np.bool_),
        )._aimed()

    @property
    def trial(self) -> FloatArray:
        """The points to evaluate, [S, P]; problems that have ended ask for where they are."""
        return np.where(self.done[:, None], self.at, self.at + self.step)

    def updated(self, value: FloatArray, gradient: FloatArray, curvature: FloatArray) -> Newton:
        """Take in the objective at `trial`, and choose the next step.

        A problem ends with the step that promised less than `END`, whether it is taken or not.
        """
        slack = ROUNDING * np.maximum(1.0, np.abs(self.value))
        known = np.isfinite(value) & np.isfinite(curvature).all(axis=(1, 2))
        taken = ~self.done & known & (value >= self.value - slack)
        trial, tried = self.trial, self.tried + ~self.done
        lower = np.where(self.damping > LEAST, 0.1 * self.damping, 0.0)
        higher = np.maximum(FIRST, 10.0 * self.damping)
        return replace(
            self,
            at=np.where(taken[:, None], trial, self.at),
            value=np.where(taken, value, self.value),
            gradient=np.where(taken[:, None], gradient, self.gradient),
            curvature=np.where(taken[:, None, None], curvature, self.curvature),
            damping=np.where(self.done, self.damping, np.where(taken, lower, higher)),
            tried=tried,
            done=self.done | (self.promised < END) | (tried >= MOST_STEPS),
        )._aimed()

    def _aimed(self) -> Newton:
        """Choose the steps; lambda rises until H + lambda M has a factor."""
        step, promised, damping = self.step.copy(), self.promised.copy(), self.damping.copy()
        for s in np.flatnonzero(~self.done):
            while True:
                matrix = self.curvature[s] + damping[s] * self.metric[s]
                try:
                    factor = np.linalg.cholesky(matrix)
                except np.linalg.LinAlgError:
                    damping[s] = max(FIRST, 10.0 * damping[s])
                    continue
                break
            step[s] = solve(factor, self.gradient[s])
            promised[s] = 0.5 * float(step[s] @ self.gradient[s])
        return replace(self, step=step, promised=promised, damping=damping)
