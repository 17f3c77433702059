"""Which languages there are, and their stop words."""

from __future__ import annotations

import unicodedata
from functools import cache

import Stemmer

from flows.faults import Fault, InputError
from flows.keywords.stop_lists import LISTS

ENGLISH = "english"
OTHER_LANGUAGE = "other"
"""Any language without a stemmer and a list of stop words: words stay as they are."""
# Closed-class words of English and the forms of its auxiliaries, written down for this
# project. With tags the list mostly removes be, have and do, which Penn tags as verbs.
_ENGLISH = """
    a about above across after afterwards again against all almost alone along already also
    although always am among amongst an and another any anybody anyone anything anywhere are aren
    around as at away be became because become becomes becoming been before beforehand being below
    beside besides between beyond both but by can cannot could couldn did didn do does doesn doing
    don done down during each either else elsewhere enough etc even ever every everybody everyone
    everything everywhere except few for from further furthermore had hadn has hasn have haven
    having he hence her here hers herself him himself his how however i if in indeed instead into
    is isn it its itself just least less let ll many may maybe me meanwhile might mine more
    moreover most mostly much must my myself namely neither never nevertheless no nobody none nor
    not nothing now nowhere of off often on once only onto or other others otherwise our ours
    ourselves out over own per perhaps quite rather re really s same several shall she should
    shouldn since so some somebody somehow someone something sometimes somewhere still such t than
    that the their theirs them themselves then thence there thereafter thereby therefore these
    they this those though through throughout thus to together too toward towards under until up
    upon us ve very via was wasn we well were weren what whatever when whenever where whereas
    whereby wherein wherever whether which while who whoever whole whom whose why will with within
    without won would wouldn yes yet you your yours yourself yourselves
"""
ENGLISH_STOP_WORDS = frozenset(_ENGLISH.split())


def plain(word: str) -> str:
    """Return a word in lower case and compatible letters, as stop words are compared."""
    return unicodedata.normalize("NFKC", word).lower()


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the stop words of a language; none of `OTHER_LANGUAGE`.

    Raises
    ------
    InputError
        If there is no list for the language, or the package that has it is not installed.
    """
    if language in (ENGLISH, "porter"):
        return ENGLISH_STOP_WORDS
    if language == OTHER_LANGUAGE:
        return frozenset()
    if language in LISTS:
        return frozenset(map(plain, LISTS[language]))
    remedy = "mark the words yourself as `tokens` with `pos`, or turn the stop words off"
    try:
        from stop_words import StopWordError, get_stop_words
    except ImportError:
        remedy = f"install the package stop-words, or {remedy}"
    else:
        try:
            words = get_stop_words(language.removesuffix("_porter"))
            return frozenset(map(plain, words))
        except StopWordError:
            pass
    raise InputError(
        [
            Fault(
                file="settings",
                column="language",
                expected="a language with a list of stop words",
                found=repr(language),
                remedy=remedy,
            )
        ]
    )


@cache
def languages() -> tuple[str, ...]:
    """Return the languages that have a stemmer or a list of stop words, and `OTHER_LANGUAGE`."""
    found = {*Stemmer.algorithms(), *LISTS, OTHER_LANGUAGE}
    try:
        from stop_words import AVAILABLE_LANGUAGES
    except ImportError:
        pass
    else:
        found.update(AVAILABLE_LANGUAGES)
    return tuple(sorted(found))
