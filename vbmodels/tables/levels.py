"""Levels of a column of categories: which stand alone, and which are too rare for that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

YES = ("1", "1.0", "true", "t", "yes", "y", "on", "ja", "oui", "si", "sí", "sì", "sim", "checked")
NO = ("0", "0.0", "false", "f", "no", "n", "off", "nein", "nee", "non", "não", "nao", "unchecked")
"""Words of the two levels of a column that says yes or no, in small letters."""

POSITIVE = (
    "case", "cases", "positive", "pos", "+", "abnormal", "disease", "diseased", "affected", "sick",
    "ill", "patient", "dead", "death", "died", "deceased", "event", "relapse", "relapsed",
    "recurrence", "recurrent", "progression", "progressed", "malignant", "cancer", "tumor",
    "tumour", "metastasis", "metastatic", "mutant", "mutated", "carrier", "infected", "pathogenic",
    "fail", "failed", "failure", "default", "churn", "churned", "spam", "fraud", "present", "hit",
    "active", "bad", "high risk", "high", "readmitted", "toxic", "responder", "success", "treated",
    "anomaly", "defect", "defective", "severe",
)  # fmt: skip
NEGATIVE = (
    "control", "controls", "negative", "neg", "-", "normal", "healthy", "unaffected", "well",
    "alive", "survived", "censored", "no event", "no relapse", "none", "benign", "wildtype",
    "wild-type", "wild type", "wt", "noncarrier", "uninfected", "pass", "passed", "retained",
    "ham", "legitimate", "absent", "inactive", "good", "low risk", "low", "nontoxic",
    "nonresponder", "non-responder", "untreated", "placebo", "reference", "remission",
    "background", "mild",
)  # fmt: skip
"""Words of which a label with two classes is called positive, and negative, in small letters."""


def positive_of(labels: Sequence[str]) -> str | None:
    """Return which of two labels is the positive one by its words; None where neither says so.

    >>> positive_of(["normal", "abnormal"]), positive_of(["Control", "AML"])
    ('abnormal', 'AML')
    """
    words = [" ".join(label.lower().replace("_", " ").split()) for label in labels]
    for side, turned in ((POSITIVE, False), (NEGATIVE, True)):
        hits = [word in side for word in words]
        if sum(hits) == 1:
            return labels[hits.index(not turned)]
    return None


def join_case(labels: Sequence[Any], known: Sequence[Any] = ()) -> list[Any]:
    """Return labels, of those that differ in case or outer blanks the ``known`` or frequent one.

    >>> join_case(["Case", "case ", "case", "control", None], ["Control"])
    ['case', 'case', 'case', 'Control', None]
    """
    counts = Counter(label.strip() for label in labels if isinstance(label, str))
    spelt: dict[str, Any] = {}
    for name in (*known, *(name for name, _ in counts.most_common())):
        spelt.setdefault(str(name).lower(), name)
    return [spelt[one.strip().lower()] if isinstance(one, str) else one for one in labels]


DATE_CELL = r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?Z?)?"
"""What a cell of text is as a whole where it is a date, or a moment."""

NEARLY = 0.9
"""Share of numbers among a column's cells from which on the others are taken for mistakes."""


MOST = 10_000
"""Levels of a column beyond which none is counted."""


@dataclass(frozen=True)
class Levels:
    """One column: how often each category occurs and how many cells are missing.

    ``many`` says that there were more than `MOST`, so that none was counted.
    """

    counts: Mapping[str, int]
    missing: int
    many: bool = False


def rare_levels(counts: Mapping[str, int], least: int, most: int) -> list[str]:
    """Return the categories of a column that are joined into one, most frequent first.

    Those with fewer than ``least`` cells, and as many more as leave ``most`` categories; a rare one
    that is alone stays, and so does the most frequent one.

    Parameters
    ----------
    counts
        Cells of each category.
    least, most
        See above.

    Examples
    --------
    >>> rare_levels({"a": 90, "b": 40, "c": 3, "d": 2}, least=5, most=100)
    ['c', 'd']
    >>> rare_levels({"a": 90, "b": 40, "c": 30, "d": 2}, least=5, most=3)
    ['c', 'd']
    """
    ordered = sorted(counts, key=lambda text: (-counts[text], text))
    own = sum(counts[text] >= least for text in ordered)
    if len(ordered) > most:
        own = min(own, most - 1)
    joined = ordered[max(own, 1) :]
    return joined if len(joined) > 1 else []


def match_levels(given: Iterable[str], known: Iterable[str]) -> dict[str, str]:
    """Return the known level that each given one is; those that are none are left out.

    That is itself, or else the only known level that differs by case and blanks alone.

    >>> match_levels(["a", "strongly  AGREE", "B"], ["a", "Strongly agree", "b", " b"])
    {'a': 'a', 'strongly  AGREE': 'Strongly agree'}
    """
    own = list(known)
    spellings = Counter(map(_folded, own))
    alike = {_folded(level): level for level in own if spellings[_folded(level)] == 1}
    same = set(own)
    found = {text: text if text in same else alike.get(_folded(text)) for text in given}
    return {text: level for text, level in found.items() if level is not None}


def new_levels(given: Mapping[str, int], known: Iterable[str]) -> dict[str, int]:
    """Return the levels that are none of the known ones, whatever their case, and their cells.

    >>> new_levels({"bus": 3, "Ship": 1}, ["Bus"])
    {'Ship': 1}
    """
    own = match_levels(given, known)
    return {level: count for level, count in given.items() if level not in own}


def _folded(level: str) -> str:
    return " ".join(level.casefold().split())
