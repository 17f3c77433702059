"""Languages by their codes, as web pages and corpora name them."""

from __future__ import annotations

_CODES = """
    ar:arabic hy:armenian eu:basque bg:bulgarian ca:catalan zh:chinese cs:czech da:danish nl:dutch
    en:english eo:esperanto et:estonian fi:finnish fr:french de:german el:greek gu:gujarati
    he:hebrew hi:hindi hu:hungarian id:indonesian ga:irish it:italian ja:japanese ko:korean
    lt:lithuanian ms:malaysian ne:nepali no:norwegian nb:norwegian nn:norwegian fa:persian
    pl:polish pt:portuguese ro:romanian ru:russian sr:serbian st:sesotho sk:slovak es:spanish
    sv:swedish ta:tamil tr:turkish uk:ukrainian vi:vietnamese yi:yiddish
"""
CODES = dict(pair.split(":") for pair in _CODES.split())
"""Languages by ISO 639-1."""


def named(language: str) -> str:
    """Return the name of a language that is given by its name or its code, a region after it.

    >>> named("German"), named("de"), named("pt_BR"), named("klingon")
    ('german', 'german', 'portuguese', 'klingon')
    """
    name = language.strip().lower()
    return CODES.get(name.replace("_", "-").split("-")[0], name)
