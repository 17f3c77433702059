"""What the report calls the units of keyword extraction."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Names:
    """A unit, its table, and the settings that say how it is selected and what its rate is."""

    unit: str
    units: str
    key: str
    keys: str
    table: str
    select: str
    rate: str
    of: str


WORDS = Names("word", "words", "keyword", "keywords", "keywords", "select", "keyword_rate", "")
PHRASES = Names(
    "phrase",
    "phrases",
    "keyphrase",
    "keyphrases",
    "phrases",
    "select_phrases",
    "keyphrases",
    " of phrases",
)
