"""Words of scripts that put no spaces between them: Chinese, Japanese and Thai.

The segmenters are those of the extra ``languages``: jieba, janome and pythainlp, with the
dictionaries that they ship; nothing is downloaded, and nothing is kept in a folder that others
can write to.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable
from functools import cache

from vbmodels.keywords.languages import CHINESE, JAPANESE, THAI, UNSPACED, LanguageError

_HAN, _KANA, _THAI = (
    r"\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff",
    r"\u3041-\u309f\u30a0-\u30ff\uff66-\uff9f",
    r"\u0e01-\u0e4e",
)
SIGN = rf"[{_HAN}{_KANA}{_THAI}]"
"""A letter of these scripts, as a regular expression."""
_RUN = re.compile(rf"[{_HAN}{_KANA}]+|[{_THAI}]+")
_KANA_SIGN, _THAI_SIGN = re.compile(rf"[{_KANA}]"), re.compile(rf"[{_THAI}]")
_LEAST = 0.2
"""Share of the letters from which on a text is of a script without spaces."""
_KANA_SHARE = 0.05
_PACKAGES = {CHINESE: "jieba", JAPANESE: "janome", THAI: "pythainlp"}


def unspaced_language(text: str) -> str | None:
    """Return the language of a text that is mostly of a script without spaces; None of others.

    >>> unspaced_language("深度学习"), unspaced_language("東京の天気")
    ('chinese', 'japanese')
    >>> unspaced_language("Tokyo 東")
    """
    if text.isascii():
        return None
    runs = _RUN.findall(text)
    size = sum(map(len, runs))
    if not size or size < _LEAST * sum(map(str.isalpha, text)):
        return None
    thai, kana = len(_THAI_SIGN.findall(text)), len(_KANA_SIGN.findall(text))
    if 2 * thai > size:
        return THAI
    return JAPANESE if kana > _KANA_SHARE * size else CHINESE


def segmented(text: str, language: str | None = None, whole: Iterable[str] = ()) -> str:
    """Return a text with spaces between its words where its script has none.

    Raises `LanguageError` if the segmenter that the text needs is not installed.

    Parameters
    ----------
    text
        Any text; those of other scripts stay as they are.
    language
        Its language; None where that follows from its script.
    whole
        Terms that no word may cross the ends of.
    """
    if language not in UNSPACED:
        language = unspaced_language(text)
    if language is None or not _RUN.search(text):
        return text
    for term in sorted(filter(_RUN.search, whole), key=len):
        text = text.replace(term, f" {term} ")
    cut = _segmenter(language)
    return _RUN.sub(lambda run: f" {' '.join(cut(run[0]))} ", text)


@cache
def _segmenter(language: str) -> Callable[[str], list[str]]:
    """Return what cuts text of a language into words."""
    try:
        return {CHINESE: _jieba, JAPANESE: _janome, THAI: _pythainlp}[language]()
    except ImportError as error:
        raise LanguageError(
            f"spaces between words, or a segmenter for {language}",
            f"{language} text without {_PACKAGES[language]}",
            "install the extra: pip install 'vbflows[languages]'; or give the words as tokens",
        ) from error


def _jieba() -> Callable[[str], list[str]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own strings, where Python compiles it
        import jieba

    cutter = jieba.Tokenizer()
    # Its own way keeps what it read in a file below /tmp that anybody may write.
    cutter.FREQ, cutter.total = cutter.gen_pfdict(cutter.get_dict_file())
    cutter.initialized = True
    return lambda text: [word for word in cutter.cut(text) if word.strip()]


def _janome() -> Callable[[str], list[str]]:
    from janome.tokenizer import Tokenizer

    tokenizer = Tokenizer(wakati=True)
    return lambda text: [str(word) for word in tokenizer.tokenize(text)]


def _pythainlp() -> Callable[[str], list[str]]:
    os.environ.setdefault("PYTHAINLP_READ_ONLY", "1")
    from pythainlp.tokenize import word_tokenize

    return lambda text: word_tokenize(text, engine="newmm", keep_whitespace=False)
