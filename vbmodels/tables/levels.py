"""Levels of a column of categories: which are too rare to stand alone, which are a known scale."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
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
    return [spelt[label.strip().lower()] if isinstance(label, str) else label for label in labels]


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
    n_kept = sum(counts[text] >= least for text in ordered)
    if len(ordered) > most:
        n_kept = min(n_kept, most - 1)
    joined = ordered[max(n_kept, 1) :]
    return joined if len(joined) > 1 else []


def match_levels(texts: Iterable[str], known: Iterable[str]) -> dict[str, str]:
    """Return the known level that each given one is; those that are none are left out.

    That is itself, or else the only known level that differs by case and blanks alone.

    >>> match_levels(["a", "strongly  AGREE", "B"], ["a", "Strongly agree", "b", " b"])
    {'a': 'a', 'strongly  AGREE': 'Strongly agree'}
    """
    levels = list(known)
    spellings = Counter(map(_folded, levels))
    alike = {_folded(level): level for level in levels if spellings[_folded(level)] == 1}
    same = set(levels)
    matched = {text: text if text in same else alike.get(_folded(text)) for text in texts}
    return {text: level for text, level in matched.items() if level is not None}


def new_levels(counts: Mapping[str, int], known: Iterable[str]) -> dict[str, int]:
    """Return the levels that are none of the known ones, whatever their case, and their cells.

    >>> new_levels({"bus": 3, "Ship": 1}, ["Bus"])
    {'Ship': 1}
    """
    matched = match_levels(counts, known)
    return {level: count for level, count in counts.items() if level not in matched}


def _folded(level: str) -> str:
    return " ".join(level.casefold().split())


_WORDS = {
    "agreement": (
        "strongly disagree; completely disagree; disagree; somewhat disagree; slightly disagree; "
        "neutral; neither agree nor disagree; undecided; slightly agree; somewhat agree; agree; "
        "completely agree; strongly agree",
        "stimme überhaupt nicht zu; stimme gar nicht zu; stimme nicht zu; stimme eher nicht zu; "
        "teils/teils; teils, teils; teils teils; weder noch; neutral; unentschieden; "
        "stimme eher zu; stimme zu; stimme voll zu; stimme voll und ganz zu",
        "trifft überhaupt nicht zu; trifft gar nicht zu; trifft nicht zu; trifft eher nicht zu; "
        "teils/teils; teils, teils; teils teils; neutral; trifft eher zu; trifft zu; "
        "trifft voll zu; trifft voll und ganz zu",
        "pas du tout d'accord; pas d'accord; plutôt pas d'accord; neutre; "
        "ni d'accord ni pas d'accord; plutôt d'accord; d'accord; tout à fait d'accord",
        "totalmente en desacuerdo; muy en desacuerdo; en desacuerdo; algo en desacuerdo; neutral; "
        "ni de acuerdo ni en desacuerdo; algo de acuerdo; de acuerdo; muy de acuerdo; "
        "totalmente de acuerdo",
        "per niente d'accordo; in disaccordo; poco d'accordo; neutrale; "
        "né d'accordo né in disaccordo; abbastanza d'accordo; d'accordo; molto d'accordo; "
        "completamente d'accordo",
        "helemaal mee oneens; zeer mee oneens; mee oneens; oneens; neutraal; eens; mee eens; "
        "zeer mee eens; helemaal mee eens",
        "discordo totalmente; discordo; discordo parcialmente; neutro; "
        "nem concordo nem discordo; concordo parcialmente; concordo; concordo totalmente",
    ),
    "frequency": (
        "never; almost never; rarely; seldom; sometimes; occasionally; often; frequently; usually; "
        "very often; almost always; always",
        "nie; niemals; fast nie; selten; manchmal; gelegentlich; oft; häufig; meistens; sehr oft; "
        "sehr häufig; fast immer; immer",
        "jamais; presque jamais; rarement; parfois; quelquefois; de temps en temps; souvent; "
        "très souvent; presque toujours; toujours",
        "nunca; casi nunca; rara vez; raramente; a veces; ocasionalmente; a menudo; "
        "frecuentemente; muy a menudo; casi siempre; siempre",
        "mai; quasi mai; raramente; a volte; qualche volta; talvolta; spesso; molto spesso; "
        "quasi sempre; sempre",
        "nooit; bijna nooit; zelden; soms; regelmatig; vaak; heel vaak; meestal; bijna altijd; "
        "altijd",
        "nunca; quase nunca; raramente; às vezes; ocasionalmente; frequentemente; muitas vezes; "
        "quase sempre; sempre",
    ),
    "satisfaction": (
        "very dissatisfied; dissatisfied; somewhat dissatisfied; neither; neutral; "
        "neither satisfied nor dissatisfied; somewhat satisfied; satisfied; very satisfied",
        "sehr unzufrieden; unzufrieden; eher unzufrieden; teils/teils; neutral; weder noch; "
        "weder zufrieden noch unzufrieden; eher zufrieden; zufrieden; sehr zufrieden",
        "très insatisfait; insatisfait; plutôt insatisfait; neutre; "
        "ni satisfait ni insatisfait; plutôt satisfait; satisfait; très satisfait",
        "muy insatisfecho; insatisfecho; neutral; ni satisfecho ni insatisfecho; satisfecho; "
        "muy satisfecho",
        "molto insoddisfatto; insoddisfatto; neutrale; né soddisfatto né insoddisfatto; "
        "soddisfatto; molto soddisfatto",
        "zeer ontevreden; ontevreden; neutraal; niet tevreden en niet ontevreden; tevreden; "
        "zeer tevreden",
        "muito insatisfeito; insatisfeito; neutro; nem satisfeito nem insatisfeito; satisfeito; "
        "muito satisfeito",
    ),
    "importance": (
        "not at all important; not important; of little importance; slightly important; "
        "somewhat important; moderately important; important; very important; extremely important",
        "gar nicht wichtig; unwichtig; nicht wichtig; eher unwichtig; eher wichtig; wichtig; "
        "sehr wichtig",
        "pas du tout important; pas important; peu important; assez important; important; "
        "très important",
        "nada importante; poco importante; algo importante; importante; muy importante",
    ),
    "likelihood": (
        "very unlikely; unlikely; somewhat unlikely; neutral; somewhat likely; likely; very likely",
        "definitely not; probably not; maybe; probably; definitely",
        "sehr unwahrscheinlich; unwahrscheinlich; eher unwahrscheinlich; neutral; "
        "eher wahrscheinlich; wahrscheinlich; sehr wahrscheinlich",
        "très improbable; improbable; plutôt improbable; neutre; plutôt probable; probable; "
        "très probable",
        "muy improbable; improbable; poco probable; neutral; algo probable; probable; muy probable",
    ),
    "quality": (
        "very poor; poor; fair; average; good; very good; excellent",
        "sehr schlecht; schlecht; mittelmäßig; mittel; gut; sehr gut; ausgezeichnet",
        "très mauvais; mauvais; passable; moyen; bon; très bon; excellent",
        "muy malo; malo; regular; bueno; muy bueno; excelente",
    ),
    "amount": (
        "none; very mild; mild; moderate; severe; very severe; extreme",
        "very low; low; medium; middle; moderate; high; very high",
        "not at all; a little; slightly; somewhat; moderately; quite a bit; very; very much; "
        "extremely",
        "gar nicht; überhaupt nicht; kaum; ein wenig; wenig; etwas; mäßig; ziemlich; stark; sehr; "
        "sehr stark; extrem",
        "pas du tout; un peu; moyennement; assez; beaucoup; énormément",
        "nada; un poco; algo; bastante; mucho; muchísimo",
        "small; medium; large",
    ),
}
"""By kind, one line for each language and way to put it: answers from the lowest to the highest."""
NUMBERS = "numbers"
"""Kind of a scale that is numbers, or ranges of numbers."""
LEAST, MOST_POINTS = 3, 11
"""Levels from which on, and up to which, whole numbers are the points of a scale."""
_SCALES = [
    (kind, [word.strip() for word in line.split(";")])
    for kind, lines in _WORDS.items()
    for line in lines
]
_RANGE = re.compile(r"[<>≤≥]?\s*(\d+(?:\.\d+)?)\s*(?:[-–]|to)?\s*(\d+(?:\.\d+)?)?\s*\+?")
_NUMBERED = re.compile(r"\(?(-?\d{1,2})\s*[-–.:=)(]+\s*[^\W\d].*", re.DOTALL)


@dataclass(frozen=True)
class Scale:
    """An ordered column's levels from the lowest to the highest, and of which kind they are."""

    kind: str
    levels: tuple[str, ...]


def order_of(levels: Sequence[str]) -> list[str]:
    """Return the levels of an ordered category in their order; nothing where no order is known.

    That is where they are words of one scale, or ranges of numbers such as 18-24.

    >>> order_of(["high", "Low"]), order_of(["65+", "18-24", "25-64"]), order_of(["a", "b"])
    (['Low', 'high'], ['18-24', '25-64', '65+'], [])
    """
    scale = _by_words(levels) or _by_ranges(levels)
    return [] if scale is None else list(scale.levels)


def scale_of(levels: Sequence[str], least: int = LEAST) -> Scale | None:
    """Return the scale of a column's answers; None where their order is not known.

    Beyond `order_of`, whole numbers from 0 or 1 to n (or from -n to n), and levels that begin with
    their number, such as "5 = strongly agree", are a scale.

    >>> scale_of(["3", "1", "2"]), scale_of(["1", "2", "99"])
    (Scale(kind='numbers', levels=('1', '2', '3')), None)
    """
    if len(levels) < least:
        return None
    return _by_words(levels) or _by_ranges(levels) or _by_numbers(levels)


LIKE_MISSING = re.compile(
    r"refused?|don.?t know|dk|no answer|not? applicable|not asked|missing|skipped|unknown|"
    r"not stated|prefer not to (say|answer)|inapplicable|no response|none given|"
    r"wei(ß|ss) (ich )?nicht|keine antwort|ne sai[st] pas|nsp|sans réponse|"
    r"no sabe( ?/ ?no contesta)?|no contesta|ns ?/ ?nc|non so|weet niet|geen antwoord|não sabe",
    re.IGNORECASE,
)
"""Levels that may say that an answer is missing."""
_BESIDE = re.compile(
    r"n\.? ?[/.]? ?a\.?|not? applicable|(does|do) not apply|not relevant|nicht zutreffend|entfällt|"
    r"nicht anwendbar|keine angabe|k\. ?a\.|sans objet|non applicable|ne s'applique pas|"
    r"non concerné|no aplica|no procede|no aplicable|non applicabile|non pertinente|"
    r"niet van toepassing|n\.?v\.?t\.?|não se aplica|não aplicável",
    re.IGNORECASE,
)


def beside_scale(levels: Collection[str]) -> str:
    """Return the one level beside a scale that says that it does not apply; else nothing.

    >>> beside_scale(["Never", "Often", "Always", "Not applicable"]), beside_scale(["a", "N.A."])
    ('Not applicable', '')
    """
    beside = [level for level in levels if _BESIDE.fullmatch(level.strip().replace("\u2019", "'"))]
    rest = [level for level in levels if level not in beside]
    return beside[0] if len(beside) == 1 and scale_of(rest) is not None else ""


def numbers_of(levels: Sequence[str]) -> list[float] | None:
    """Return levels as numbers; None where some are none, or not finite."""
    try:
        numbers = [float(level) for level in levels]
    except ValueError:
        return None
    return numbers if all(map(isfinite, numbers)) else None


def _by_words(levels: Sequence[str]) -> Scale | None:
    if len(levels) < 2:
        return None
    words = {level: " ".join(level.lower().replace("\u2019", "'").split()) for level in levels}
    for kind, scale in _SCALES:
        if all(word in scale for word in words.values()):
            return Scale(kind, tuple(sorted(levels, key=lambda level: scale.index(words[level]))))
    return None


def _by_ranges(levels: Sequence[str]) -> Scale | None:
    if not 2 <= len(levels) <= 30:
        return None
    tried = {level: _RANGE.fullmatch(level.strip()) for level in levels}
    matches = {level: match for level, match in tried.items() if match is not None}
    if len(matches) < len(levels) or not any(match[2] for match in matches.values()):
        return None
    ends = {level: _ends_of(level.strip(), match) for level, match in matches.items()}
    if len(set(ends.values())) < len(ends) or any(low > high for low, _, high in ends.values()):
        return None  # such as 2020-10, a month
    return Scale(NUMBERS, tuple(sorted(levels, key=lambda level: ends[level])))


def _ends_of(level: str, match: re.Match[str]) -> tuple[float, int, float]:
    """Return the low end of a range, -1 where it is below that and 1 above it, and the high end."""
    low = float(match[1])
    if level[0] in "<≤":
        return low, -1, low
    above = level[0] in ">≥" or level.endswith("+")
    return low, int(level[0] in ">≥"), float("inf") if above else float(match[2] or low)


def _by_numbers(levels: Sequence[str]) -> Scale | None:
    """Return the scale of whole numbers of which at most one is missing in between."""
    numbered = [_NUMBERED.fullmatch(level.strip()) for level in levels]
    texts = [match[1] for match in numbered if match is not None]
    values = numbers_of(texts if len(texts) == len(levels) else levels)
    if values is None or any(not value.is_integer() for value in values):
        return None
    low, high = min(values), max(values)
    points = high - low + 1
    if len(set(values)) < len(values) or not len(values) <= points <= MOST_POINTS:
        return None
    if low not in (0.0, 1.0, -high) or points - len(values) > 1:
        return None
    return Scale(NUMBERS, tuple(sorted(levels, key=lambda level: values[levels.index(level)])))
