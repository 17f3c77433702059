"""Scores of phrases, kept as long as the arrays that they are made of."""

from __future__ import annotations

import weakref

from vbmodels.core.state import FloatArray
from vbmodels.keywords.corpus import CorpusGlobal
from vbmodels.keywords.phrases.batch import PhraseBatch, scored
from vbmodels.keywords.phrases.jackknife import word_scores


class KeptScores:
    """Scores of a partition's phrases while its arrays live: one pass in twenty makes them.

    They follow from the coefficients and the partition alone, so keeping them moves no bit.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[weakref.ref[PhraseBatch], bytes, FloatArray]] = {}

    def of(self, scorer: CorpusGlobal, coefficients: FloatArray, batch: PhraseBatch) -> FloatArray:
        """Return `scored` of the batch by the coefficients [N_FOLDS + 1, P] of its words."""
        parts = (coefficients, scorer.location, scorer.scale)
        mark = b"".join(part.tobytes() for part in parts)
        name = id(batch)
        known = self._kept.get(name)
        if known is not None and known[0]() is batch and known[1] == mark:
            return known[2]
        found = scored(batch, word_scores(scorer, coefficients, batch.words))
        forget = weakref.ref(batch, lambda _: self._kept.pop(name, None))
        self._kept[name] = (forget, mark, found)
        return found
