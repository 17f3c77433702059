"""The parts of the rows that are held out in turn while a form is chosen."""

from __future__ import annotations

import numpy as np

from vbmodels.core.state import BoolArray, IntArray
from vbmodels.experts.batch import hashed

FOLDS, HELD = 4, 2
"""Parts of the rows, and how many of them are held out in turn: of few rows, all."""
STREAM = 2
"""Of the hash of a row's cells, by which it is in a part."""


def part_of(group: IntArray) -> IntArray:
    """Return the part, 0 to `FOLDS` - 1, of rows with these cells [N]; copies are in one part."""
    return np.asarray(np.floor(hashed(group, STREAM, 1)[0] * FOLDS), np.int64)


def never_held(group: IntArray) -> BoolArray:
    """Say which rows are in parts that are held out of a fit to few rows alone; [N]."""
    return np.asarray(part_of(group) >= HELD)
