"""Documents as arrays."""

from __future__ import annotations

from dataclasses import dataclass

from vbmodels.core.state import FloatArray, IntArray, State


@dataclass(frozen=True)
class Documents(State):
    """One partition: document d has the words offsets[d] to offsets[d + 1], each a few times.

    Attributes
    ----------
    word
        Which word of the vocabulary, [M].
    count
        How often the document has it, [M].
    offsets
        [D + 1].
    vocabulary
        Words of the vocabulary, V.
    """

    word: IntArray
    count: FloatArray
    offsets: IntArray
    vocabulary: int
