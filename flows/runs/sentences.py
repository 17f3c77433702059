"""Sentences with a keyphrase, from the texts that a run's report shows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from itertools import pairwise

from flows.data import storage
from flows.data.runs import RunPaths

_TEXTS = re.compile(
    r'data-script="documents\.js"[^>]*><script type="application/json">(.*?)</script>', re.DOTALL
)
_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9])|\n\s*\n|\n(?=\s*[-*#|])")
LEAST, MOST = 30, 160  # characters of a sentence that are shown; shorter ones have the next, too
NO_TEXTS = "The run's report shows no texts, so sentences are left out."


@cache
def texts_of(paths: RunPaths) -> Mapping[str, str]:
    """Return the texts of a run's report by document; none where it has none that can be read."""
    try:
        found = _TEXTS.search(storage.read_bytes(paths.file("report.html")).decode())
        rows = json.loads(found[1])["documents"] if found else []
        return {row["id"]: row["text"] for row in rows}
    except (storage.StorageError, ValueError, LookupError, TypeError):  # or somebody changed it
        return {}


def sentence_with(text: str, phrase: str, most: int = MOST) -> str:
    """Return the first sentence of a text that has a phrase, cut around it; empty if none has.

    A short one is shown with what follows or, at the end, with what is before it, after " / ".

    >>> sentence_with("It is old. Amphibian tunnels\\nhelp common toads. So it is.", "common toads")
    'Amphibian tunnels help common toads.'
    >>> sentence_with("Toads. Common ones.\\n\\n# Tunnels", "tunnels")
    'Toads. / Common ones. / # Tunnels'
    >>> sentence_with("Toads.", "common toads")
    ''
    """
    words = r"\s+".join(map(re.escape, phrase.split()))
    found = re.search(rf"(?<!\w){words}(?!\w)", text, re.IGNORECASE)
    if not phrase or found is None:
        return ""
    ends = [0, *(one.end() for one in _END.finditer(text)), len(text)]
    before = [end for end in ends if end <= found.start()]
    after = [end for end in ends if end >= found.end()]
    first, last = before.pop(), after.pop(0)
    while len(" ".join(text[first:last].split())) < LEAST and (before or after):
        first, last = (first, after.pop(0)) if after else (before.pop(), last)
    room = max(most - len(found[0]), 0)
    left = max(room // 2, room - (last - found.end()))  # what one side leaves, the other has
    low = max(first, found.start() - left)
    high = min(last, found.end() + room - (found.start() - low))
    if low > first:  # not within a word
        low = found.start() - len(text[low : found.start()].partition(" ")[2])
    if high < last:
        high = found.end() + len(text[found.end() : high].rpartition(" ")[0])
    cuts = [low, *(end for end in ends if low < end < high), high]
    parts = (" ".join(text[start:end].split()) for start, end in pairwise(cuts))
    sentence = " / ".join(filter(None, parts))
    return f"{'... ' * (low > first)}{sentence}{' ...' * (high < last)}"
