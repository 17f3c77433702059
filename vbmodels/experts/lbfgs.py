"""Limited-memory BFGS that is handed its evaluations one at a time, and can be stored between.

Nocedal and Wright (2006), algorithms 7.4 and 3.1, for a maximum: the direction is H g, a trial
stands if it rises by 1e-4 of what the slope promises, else the step is cut by interpolation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from vbmodels.core.state import FloatArray, State

MEMORY = 20
_RISE = 1e-4
_ENOUGH = 2
_PATIENCE = 20
"""Small rises in a row that end a search whose slope promises more, as at a kink."""


@dataclass(frozen=True)
class Memory(State):
    """Where one search stands, but for its point, value and gradient.

    Attributes
    ----------
    moves, changes
        The last steps, and how much the gradient fell along them; [M, D].
    direction
        Where the next trial lies; [D].
    step
        How far along the direction.
    small
        Accepted steps in a row with a rise within the tolerance.
    done
        Whether the search is over.
    """

    moves: FloatArray
    changes: FloatArray
    direction: FloatArray
    step: float
    small: int
    done: bool

    @classmethod
    def first(cls, gradient: FloatArray) -> Memory:
        """Begin at a point with this gradient: no further than 1 along it."""
        empty = np.empty((0, gradient.size))
        length = float(np.linalg.norm(gradient))
        step = min(1.0, 1.0 / length) if length > 0.0 else 0.0
        return cls(empty, empty, gradient, step, 0, length == 0.0)


def trial(point: FloatArray, memory: Memory, stretch: FloatArray) -> FloatArray:
    """Return the next point to evaluate, in coordinates that the search sees times ``stretch``."""
    result: FloatArray = point + memory.step * memory.direction / stretch
    return result


def judge(
    memory: Memory,
    before: tuple[float, FloatArray],
    after: tuple[float, FloatArray],
    tolerance: float,
) -> tuple[bool, Memory]:
    """Take the trial or shorten the step.

    Parameters
    ----------
    memory
        The search.
    before, after
        (value, gradient) at its point and at the trial.
    tolerance
        The search ends when two rises in a row are at most this, and the slope promises no
        more: g'H g / 2, the rise to come of a quadratic.

    Returns
    -------
    accepted
        Whether the trial is the new point.
    memory
        The search from there on.
    """
    (value, gradient), (found, slope) = before, after
    promised = memory.step * float(memory.direction @ gradient)
    scale = max(1.0, abs(value))
    if math.isfinite(found) and np.isfinite(slope).all() and found >= value + _RISE * promised:
        small = memory.small + 1 if found - value <= tolerance else 0
        return True, _ended(_moved(memory, gradient, slope, small), slope, tolerance)
    if promised <= 4.0 * np.finfo(float).eps * scale or memory.step < 1e-14:
        if len(memory.moves):
            return False, replace(Memory.first(gradient), small=memory.small)
        return False, replace(memory, done=True)
    factor = 0.1
    if math.isfinite(found):
        factor = min(max(promised / (2.0 * (value + promised - found)), 0.1), 0.5)
    return False, replace(memory, step=memory.step * factor)


def _moved(memory: Memory, before: FloatArray, after: FloatArray, small: int) -> Memory:
    move, change = memory.step * memory.direction, before - after
    moves, changes = memory.moves, memory.changes
    if move @ change > 1e-12 * (change @ change):
        moves = np.concatenate([moves, move[None]])[-MEMORY:]
        changes = np.concatenate([changes, change[None]])[-MEMORY:]
    if not len(moves):
        return replace(Memory.first(after), small=small)
    direction = _ascent(moves, changes, after)
    if direction @ after <= 0.0:
        return replace(Memory.first(after), small=small)
    return Memory(moves, changes, direction, 1.0, small, False)


def _ended(memory: Memory, gradient: FloatArray, tolerance: float) -> Memory:
    promised = 0.5 * memory.step * float(memory.direction @ gradient)
    over = memory.small >= (_ENOUGH if promised <= tolerance else _PATIENCE)
    return replace(memory, done=memory.done or over)


def _ascent(moves: FloatArray, changes: FloatArray, gradient: FloatArray) -> FloatArray:
    """Return H g by the two loops of algorithm 7.4."""
    curvature = np.einsum("md,md->m", moves, changes)
    along = gradient.copy()
    shares = np.empty(len(moves))
    for i in range(len(moves) - 1, -1, -1):
        shares[i] = moves[i] @ along / curvature[i]
        along -= shares[i] * changes[i]
    along *= curvature[-1] / (changes[-1] @ changes[-1])
    for i in range(len(moves)):
        along += (shares[i] - changes[i] @ along / curvature[i]) * moves[i]
    return along
