"""The rows that a search looks at in a long table: chosen by their numbers, so by no partition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vbmodels.core.state import FloatArray
from vbmodels.features.batch import FeatureBatch
from vbmodels.features.gibbs_kernels import draw_uniform, row_keys

LONGER = 2.0
"""A table of so many times the rows asked for, and no shorter one, is searched by a sample."""
_SAMPLED = 7


def share_of(asked: int | None, n_rows: float) -> float:
    """Return the share of the rows that is searched: all of them where a part saves little.

    >>> share_of(10_000, 20_000.0), share_of(10_000, 100_000.0)
    (1.0, 0.1)
    """
    return 1.0 if asked is None or n_rows <= LONGER * asked else asked / n_rows


def sample_of(batch: FeatureBatch, share: float, seed: int) -> FeatureBatch:
    """Return the rows of a partition whose lot, which hangs on their number, is below ``share``."""
    lot: FloatArray = draw_uniform(row_keys(batch.row_id, seed, _SAMPLED), 1)[:, 0]
    taken = np.flatnonzero(lot < share)
    distinct, back = np.unique(batch.row_of[taken], return_inverse=True)
    return replace(
        batch,
        codes=batch.codes[distinct],
        sign=batch.sign[distinct],
        count=np.bincount(back, minlength=len(distinct)).astype(np.float64),
        row_of=back.reshape(-1).astype(np.int64),
        row_id=batch.row_id[taken],
    )
