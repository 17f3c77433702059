"""Which languages there are, their stop words, and words where there are no spaces between them.

`stop_words.txt` has closed-class words (articles, pronouns, conjunctions, prepositions or
postpositions, particles, and forms of to be), written down for this project: of English, of the
Snowball languages that the package stop-words has no list for, and of those whose list there has
gaps. Of English, where words have tags, the list mostly removes be, have and do, which Penn tags
as verbs.

The segmenters of Chinese, Japanese and Thai are those of the extra ``languages``: jieba, janome and
pythainlp, with the dictionaries that they ship; nothing is downloaded, and nothing is kept in a
folder that others can write to.
"""

from __future__ import annotations

import os
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from importlib import resources
from typing import Any


class LanguageError(ValueError):
    """A language cannot be read: what was expected, what was found, what to do."""

    def __init__(self, expected: str, found: str, remedy: str) -> None:
        self.expected, self.found, self.remedy = expected, found, remedy
        super().__init__(f"language: expected {expected}, found {found}; {remedy}")

    def __reduce__(self) -> tuple[type[LanguageError], tuple[str, str, str]]:
        return LanguageError, (self.expected, self.found, self.remedy)


_CYRILLIC = dict(
    zip(
        ["lj", "nj", "dž", *"abvgdđežzijklmnoprstćufhcčš"],
        ["љ", "њ", "џ", *"абвгдђежзијклмнопрстћуфхцчш"],
        strict=True,
    )
)


def _in_cyrillic(word: str) -> str:
    """Return a Serbian word of Latin letters in Cyrillic ones."""
    for latin, letter in _CYRILLIC.items():
        word = word.replace(latin, letter)
    return word


AUTO = "auto"
"""Every document's own language, as it is detected."""
ENGLISH, CHINESE, JAPANESE, THAI = "english", "chinese", "japanese", "thai"
UNSPACED = frozenset([CHINESE, JAPANESE, THAI])
"""Languages that put no spaces between words."""
NOUNS_IN_CAPITALS = frozenset(["german"])
"""Languages that write nouns with a capital."""
_LINKS = """
    english: of, and, 's
    french: de, du, des, d', de la, de l'
    spanish: de, del, de la, de los, de las
    portuguese: de, do, da, dos, das
    italian: di, del, della, dei, delle, dell', degli, dello, d'
    catalan: de, del, dels, de la, de les, de l', d'
    german: der, des, und, für
    dutch: van, van de, van het
    swedish: av, och, för
    danish: af, og, for
    norwegian: av, og, for
"""
LINKS = {
    language.strip(): frozenset(link.strip() for link in links.split(","))
    for language, _, links in (line.partition(":") for line in _LINKS.strip().splitlines())
}
"""What is inside phrases that recur, by language: of, de, für. Other stop words rarely are."""
OTHER_LANGUAGE = "other"
"""Any language without a stemmer and a list of stop words: words stay as they are."""


_IGNORED = re.compile(
    "[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed\u00ad]"
)
"""Marks that writers of Arabic, Hebrew, Cyrillic and others leave out as they please."""
_ALIKE = str.maketrans(
    {
        **dict.fromkeys("‐‑‒–−", "-"),
        **dict.fromkeys("’ʼ`´", "'"),
        **dict.fromkeys("\u0622\u0623\u0625\u0671", "\u0627"),
        "\u0649": "\u064a",
    }
)


def plain(word: str) -> str:
    """Return a word in lower case and compatible letters, as stop words are compared.

    Hyphens and apostrophes are of one kind, and the forms of the Arabic letters alef and yeh;
    marks of short vowels and stresses are left out.

    >>> plain("Ｒｅ\u0301seau"), plain("COVID\u201119"), plain("\u0627\u0644\u0631\u0651\u064a")
    ('réseau', 'covid-19', 'الري')
    """
    word = unicodedata.normalize("NFKC", word).lower()
    return word if word.isascii() else _IGNORED.sub("", word).translate(_ALIKE)


@cache
def _lists() -> dict[str, frozenset[str]]:
    """Return this project's own lists, by language."""
    text = resources.files("vbmodels.text").joinpath("stop_words.txt").read_text("utf-8")
    lists = re.findall(r"^(\w+)\n((?: .*\n)+)", text, re.MULTILINE)
    found = {language: [plain(word) for word in words.split()] for language, words in lists}
    found["serbian"] += [_in_cyrillic(word) for word in found["serbian"]]
    return {language: frozenset(words) for language, words in found.items()}


# The package's Turkish list has other letters for these, which it uses for nothing else.
_LATIN_5 = str.maketrans("þý", "şı")


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the stop words of a language; none of `OTHER_LANGUAGE`.

    Raises `LanguageError` if there is no list for the language, or the package that has it is not
    installed.
    """
    if language == OTHER_LANGUAGE:
        return frozenset()
    language = ENGLISH if language == "porter" else language.removesuffix("_porter")
    own = _lists().get(language, frozenset())
    if language == ENGLISH:
        return own
    if language == THAI:
        return _thai()
    remedy = "mark the words yourself as `tokens` with `pos`, or turn the stop words off"
    try:
        from stop_words import StopWordError, get_stop_words
    except ImportError:
        remedy = f"install the package stop-words, or {remedy}"
    else:
        with suppress(StopWordError):
            listed = (word.strip('",').translate(_LATIN_5) for word in get_stop_words(language))
            return own | frozenset(map(plain, listed))
    if own:
        return own
    raise LanguageError("a language with a list of stop words", repr(language), remedy)


def _thai() -> frozenset[str]:
    os.environ.setdefault("PYTHAINLP_READ_ONLY", "1")
    try:
        from pythainlp.corpus import thai_stopwords
    except ImportError as error:
        raise LanguageError(
            "a segmenter for thai",
            "thai text without pythainlp",
            "install the extra: pip install 'vbflows[languages]'; or give the words as tokens",
        ) from error
    return frozenset(map(plain, thai_stopwords()))


_CODES = """
    ar:arabic hy:armenian eu:basque bg:bulgarian ca:catalan zh:chinese cs:czech da:danish nl:dutch
    en:english eo:esperanto et:estonian fi:finnish fr:french de:german el:greek gu:gujarati
    he:hebrew hi:hindi hu:hungarian id:indonesian ga:irish it:italian ja:japanese ko:korean
    lt:lithuanian ms:malaysian ne:nepali no:norwegian nb:norwegian nn:norwegian fa:persian
    pl:polish pt:portuguese ro:romanian ru:russian sr:serbian st:sesotho sk:slovak es:spanish
    sv:swedish ta:tamil th:thai tr:turkish uk:ukrainian vi:vietnamese yi:yiddish
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


_SURE = 0.9
_READ = 2000  # characters
_FEWEST_LETTERS = 40
_ENGLISH_WORDS = """
    the of and to is that for with are was by on this from which be have has were we not it as an
"""
_ENGLISH = frozenset(_ENGLISH_WORDS.split())
_ENGLISH_SHARE = 0.2


def detected(text: str) -> str | None:
    """Return the language of a running text; None where it is too short or not clear.

    >>> detected("The rate of growth of the trees is what we measured in this study of forests.")
    'english'
    """
    text = text[:_READ]
    own, likely = _by_script(text)
    if own is not None:
        return own
    words = text.lower().split()
    if sum(map(len, words)) < _FEWEST_LETTERS:
        return likely
    if sum(word in _ENGLISH for word in words) > _ENGLISH_SHARE * len(words):
        return ENGLISH
    if sum(map(str.isalpha, text)) < _FEWEST_LETTERS:
        return likely
    code, probability = _identifier().classify(text)
    return CODES[code] if probability >= _SURE else likely


_SCRIPTS = {
    "korean": (re.compile("[\uac00-\ud7a3]"), True),
    "greek": (re.compile("[\u0370-\u03ff\u1f00-\u1fff]"), True),
    "hebrew": (re.compile("[\u0590-\u05ff]"), False),
    "armenian": (re.compile("[\u0530-\u058f]"), True),
    "tamil": (re.compile("[\u0b80-\u0bff]"), True),
    "gujarati": (re.compile("[\u0a80-\u0aff]"), True),
    "russian": (re.compile("[\u0400-\u04ff]"), False),
    "arabic": (re.compile("[\u0600-\u06ff]"), False),
    "hindi": (re.compile("[\u0900-\u097f]"), False),
}
"""Languages by script, and whether it is the only one that is known of its script."""


def _by_script(text: str) -> tuple[str | None, str | None]:
    """Return the language that a text's script leaves no other, or the likeliest of its script."""
    if text.isascii():
        return None, None
    for language, (script, alone) in _SCRIPTS.items():
        if 2 * len(script.findall(text)) > len(text.replace(" ", "")):
            return (language, language) if alone else (None, language)
    return None, None


@cache
def _identifier() -> Any:
    """Return py3langid's classifier among the languages that are known here."""
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError as error:
        raise LanguageError(
            "texts whose language is given",
            "auto without py3langid",
            "install the package py3langid, or set language",
        ) from error
    found = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    found.set_languages([code for code in CODES if code in found.labels])
    return found


@cache
def languages() -> tuple[str, ...]:
    """Return the languages that have a stemmer or a list of stop words, and `OTHER_LANGUAGE`."""
    found = {*_lists(), OTHER_LANGUAGE, THAI}
    with suppress(ImportError):
        from Stemmer import algorithms

        found.update(algorithms())
    with suppress(ImportError):
        from stop_words import AVAILABLE_LANGUAGES

        found.update(AVAILABLE_LANGUAGES)
    return tuple(sorted(found))


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
