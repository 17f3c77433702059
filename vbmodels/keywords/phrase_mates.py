"""Words that are known together: what known phrases do to features that look at labels.

Features may hold labels of a word's own document, but its own (`vbmodels.keywords.features`).
That is enough where words are known one by one. Where phrases are known, the other words of its
phrase are known with it and are its neighbours, so the features separate known words from hidden
ones.
"""

from __future__ import annotations

from vbmodels.keywords.features import NEUTRAL_AFFINITY, NEUTRAL_NEIGHBOURS

OF_OWN_LABELS = {
    "affinity": NEUTRAL_AFFINITY,
    "reach": NEUTRAL_AFFINITY,
    "observed_neighbours": NEUTRAL_NEIGHBOURS,
}
"""Features of a word that hold labels of its own document, and their neutral values."""

MOST_IN_PHRASES = 0.1
"""Share of known keywords with several words up to which words count as known one by one."""


def in_phrases(known: int, several: int) -> bool:
    """Return whether words are known as phrases are, several at once.

    Parameters
    ----------
    known
        Known keywords with a candidate word.
    several
        Those of them with several.
    """
    return several > MOST_IN_PHRASES * known
