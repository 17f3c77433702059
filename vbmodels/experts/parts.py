"""The parts of the rows that are held out in turn while a form is chosen."""

from __future__ import annotations

import numpy as np

from vbmodels.core.state import BoolArray, IntArray
from vbmodels.experts.batch import part_of

FOLDS, HELD = 4, 2
"""Parts of the rows, and how many of them are held out in turn: of few rows, all."""


def never_held(group: IntArray) -> BoolArray:
    """Say which rows are in parts that are held out of a fit to few rows alone; [N]."""
    return np.asarray(part_of(group, FOLDS) >= HELD)
