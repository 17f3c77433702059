"""From running text to tagged tokens, and from tokens to normalised words.

English text is tagged by textblob's rule tagger (Brill's rules, a lexicon
that ships with the package; nothing is downloaded). Other languages are
not tagged: their candidates are all words that are no stop words. Words are
lower-cased and stemmed by Snowball (PyStemmer): Porter for English, as in the papers, and
the language's own stemmer elsewhere.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import threading
import warnings
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from types import ModuleType
from typing import Any, Literal

from vbmodels.text.languages import (
    AUTO,
    ENGLISH,
    JAPANESE,
    LINKS,
    OTHER_LANGUAGE,
    UNSPACED,
    LanguageError,
    languages,
    plain,
    stop_words,
)
from vbmodels.text.splitting import ABBREVIATED, SPECIES, split_words
from vbmodels.text.token_kernels import OTHER as OTHER

POS_GROUPS = ("noun", "plural_noun", "proper_noun", "adjective", "verb", "gerund", "participle")
"""Parts of speech of the candidate words; a token's code is the place in this tuple."""

Stem = Literal["auto", "none", "porter", "snowball"]

_IMPORTING = threading.Lock()
_OF_THREAD = threading.local()

_NOUN, _PLURAL, _PROPER, _ADJECTIVE, _VERB, _GERUND, _PARTICIPLE = range(len(POS_GROUPS))

POS_CODES = {
    "NN": _NOUN,
    "NP": _NOUN,
    "NNS": _PLURAL,
    "NNP": _PROPER,
    "NNPS": _PROPER,
    "JJ": _ADJECTIVE,
    "JJR": _ADJECTIVE,
    "JJS": _ADJECTIVE,
    "VB": _VERB,
    "VBD": _VERB,
    "VBP": _VERB,
    "VBZ": _VERB,
    "VBG": _GERUND,
    "VBN": _PARTICIPLE,
    "NOUN": _NOUN,
    "PROPN": _PROPER,
    "ADJ": _ADJECTIVE,
    "VERB": _VERB,
}
"""Penn and universal tags of candidate words; every other tag, modal verbs and AUX among
them, marks a word that is no candidate."""

_NO_WORD = re.compile(r"[=()\[\]{}<>|\\@^~*\"$%;:?!±×÷→←↔≤≥≈≡∞∝∂∑∫√·⋅∘]|(?<!\d),|,(?!\d)|^www\.")
_LONGEST = 50
_LONGEST_LINK = 3
_DOTTED = re.compile(r"(?:[^\W\d_]\.){2,}")
_PARTICLE = re.compile(
    "(?<=[\uac00-\ud7a3]{2})(?:에서|에게|으로|까지|부터|처럼|보다|은|는|이|가|을|를|의|에|와|과|도|로|만)$"
)
"""What Korean sets behind a noun."""
_INFLECTION = re.compile("[\u3041-\u309f\u30fc]{1,3}")
"""Japanese particles and ends of verbs."""
_MOST_NORMALISERS = 64
MOST_TOKENS = 2**16  # of which a process remembers the tags
_INSIDE = re.compile(r"[^\W_]+")
_PIECES = re.compile(r"[/']")
_IN_BRACKETS = re.compile(r"(?<=\s)[(\[（][^()\[\]（）]*[)\]）]")
GENITIVE, SLASH = "'s", "/"  # what joins two words without a blank
# Words whose numbers name parts of the text itself; shorter ones have no digit next to them.
NUMBERED = frozenset(
    [
        "abbildung",
        "abschnitt",
        "appendix",
        "chapter",
        "equation",
        "figura",
        "figure",
        "kapitel",
        "page",
        "página",
        "reference",
        "section",
        "sección",
        "seite",
        "step",
        "tabelle",
        "tabla",
        "table",
        "tableau",
    ]
)
_ACRONYM = 6
"""Letters of the longest stop word that is an acronym where it is written in capitals."""
_MOST_HYPHENED = 5
_EMPHASIS = frozenset(["all", "and", "but", "must", "never", "no", "not", "only", "the", "very"])
_GREEK_NAMES = """
    alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho -
    sigma tau upsilon phi chi psi omega
"""
_GREEK = {name: chr(code) for code, name in enumerate(_GREEK_NAMES.split(), 0x3B1)}
del _GREEK["-"]
_NAMED_GREEK = re.compile(rf"(?<![^\W\d_])(?i:{'|'.join(_GREEK)})(?![a-z])")
MOST_KNOWN = 12
"""Words of the longest known keyword that can be a candidate."""


@dataclass(frozen=True)
class TextOptions:
    """How documents become candidate words.

    Parameters
    ----------
    language
        ``english``, ``french``, ...: stemmer, stop words, and whether raw text is tagged (English
        only). One of `languages`; those without a stemmer keep their words as they are.
    stem
        auto: Porter's stemmer for English, the language's own elsewhere; none: words stay
        as they are, in lower case.
    stop_words
        Whether stop words are removed.
    tag
        Whether raw English text is tagged and reduced to nouns, adjectives and verbs.
    min_count
        Least occurrences of a candidate in its document. None: the papers' rule, 3 in
        documents of more than ``long_document`` tokens and 1 in shorter ones.
    long_document
        Tokens beyond which a document is long.
    max_words
        Most candidate words of a document, since its graph costs 8 n^2 bytes and time n^3.
        Beyond it the most frequent words stay (of equal ones the earlier), observed keywords
        always.
    more_stop_words
        Stop words beyond those of the language, as `vbmodels.text.languages.plain` has them.
    """

    language: str = ENGLISH
    stem: Stem = "auto"
    stop_words: bool = True
    tag: bool = True
    min_count: int | None = None
    long_document: int = 1000
    max_words: int = 2000
    more_stop_words: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        known = (AUTO, *languages())
        if self.language not in known:
            raise LanguageError(
                f"one of {', '.join(known)}",
                repr(self.language),
                f"take {OTHER_LANGUAGE!r}, which stems nothing and stops at nothing",
            )

    @property
    def algorithm(self) -> str | None:
        """The Snowball algorithm, None without stemming or where the language has no stemmer."""
        if self.stem == "none":
            return None
        try:
            import Stemmer
        except ImportError as error:
            raise LanguageError(
                f"a stemmer for {self.language}",
                f"stem {self.stem} without pystemmer",
                "install the package pystemmer, or set stem to none",
            ) from error
        if self.language not in Stemmer.algorithms():
            return None
        porter = self.stem == "porter" or (self.stem == "auto" and self.language == ENGLISH)
        return "porter" if porter else self.language

    def in_language(self, language: str) -> TextOptions:
        """Return the same options for documents of a language."""
        return self if language == self.language else _in_language(self, language)

    def least(self, n_tokens: int) -> int:
        """Return the minimum count for a document of this length."""
        if self.min_count is not None:
            return self.min_count
        return 3 if n_tokens > self.long_document else 1


@lru_cache(maxsize=256)
def _in_language(options: TextOptions, language: str) -> TextOptions:
    return replace(options, language=language)


def _stemmer(algorithm: str | None) -> Any:
    """Return a Snowball stemmer, None without an algorithm."""
    if algorithm is None:
        return None
    import Stemmer

    return Stemmer.Stemmer(algorithm)


@cache
def _parser() -> Any:
    """Return textblob's parser with its lexicon and rules loaded."""
    with warnings.catch_warnings(), _without_corpora():
        # textblob leaves the files of its lexicon to the garbage collector
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            from textblob.en import parser
        except ImportError as error:
            raise LanguageError(
                "words whose parts of speech are known",
                "english text without textblob",
                "install the package textblob, or give the documents as tokens",
            ) from error
        parser.find_tags(["Loads", "the", "unheardoffly", "lexicon"])
    return parser


@contextmanager
def _without_corpora() -> Iterator[None]:
    """Import textblob's modules without what its package loads first.

    The package brings NLTK for its corpora, and that scikit-learn: two seconds of CPU in every
    worker, of which the tagger needs nothing. A bare package is in its place meanwhile.
    """
    with _IMPORTING:
        name = "textblob"
        spec = None if name in sys.modules else importlib.util.find_spec(name)
        if spec is None or spec.submodule_search_locations is None:
            yield
            return
        bare = ModuleType(name)
        bare.__path__ = list(spec.submodule_search_locations)
        sys.modules[name] = bare
        try:
            yield
        finally:
            del sys.modules[name]


def pos_code(tag: str) -> int:
    """Return the group of a Penn or universal tag; `OTHER` when it is no candidate's.

    >>> POS_GROUPS[pos_code("NNS")], pos_code("MD") == OTHER
    ('plural_noun', True)
    """
    code = POS_CODES.get(tag)
    if code is None:
        code = POS_CODES.get(tag.split("-")[0].upper(), OTHER)
    return code


_NAME = re.compile(r"(?=.*\d)(?=.*[^\W\d_])|(?:.*[^\W\d_a-zß-öø-ÿ]){2}")
_NO_NAME = re.compile(r".*[a-zß-öø-ÿ]{3}|\d[\d.,]*[a-zµ]{1,4}|.*\.")


def _is_name(token: str) -> bool:
    """Return whether a token is a name by its letters and digits: SARS-CoV-2, TNF-α, p53.

    >>> [t for t in ["SARS-CoV-2", "p53", "10-year", "2nd", "35mg", "EU-funded"] if _is_name(t)]
    ['SARS-CoV-2', 'p53']
    """
    return _NAME.match(token) is not None and _NO_NAME.fullmatch(token) is None


class _TokenCodes(dict[str, int]):
    """Codes of tokens' tags, each worked out once.

    The tagger looks at a token, and at whether it begins a sentence ("May"), but not at others.
    """

    def __init__(self, before: list[str]) -> None:
        super().__init__()
        self._before = before

    def __missing__(self, token: str) -> int:
        if len(self) >= MOST_TOKENS:
            self.clear()
        code = pos_code(_parser().find_tags([*self._before, token])[-1][1])
        is_name = _is_name(token) or SPECIES.fullmatch(token) is not None
        if code not in (_NOUN, _PLURAL, _PROPER) and is_name:
            code = _PROPER
        self[token] = code
        return code


AT_THE_START, INSIDE_SENTENCES = _TokenCodes([]), _TokenCodes(["a"])


@dataclass(frozen=True)
class Parts:
    """A term as a text may have it: the normal form of every token, and which are words.

    Tokens between words are stop words, numbers and signs.
    """

    tokens: tuple[str, ...]
    is_word: tuple[bool, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        """The words, and what is between them in one piece: the term's name in counts."""
        found: list[str] = []
        between: list[str] = []
        for token, word in zip(self.tokens, self.is_word, strict=True):
            if not word:
                between.append(token)
                continue
            if between:
                found.append(" ".join(between))
            found.append(token)
            between = []
        return tuple(found)


def is_letter(token: str) -> bool:
    """Return whether a token is one capital or one digit, which is a word beside a noun."""
    return len(token) == 1 and (token.isupper() or token.isdecimal())


class Normaliser:
    """Lower case, stop words and stems, each distinct token worked out once.

    ``options``: language, stemmer and stop words.
    """

    def __init__(self, options: TextOptions) -> None:
        self._options = options
        self.language = options.language
        own = stop_words(options.language) if options.stop_words else frozenset()
        self._stop = own | options.more_stop_words
        self._unspaced = options.language in UNSPACED
        self._stemmer = _stemmer(options.algorithm)
        self._stem = lru_cache(MOST_TOKENS)(self._normalise)
        self._words_of = lru_cache(MOST_TOKENS)(self._split)
        self.variants = lru_cache(MOST_TOKENS)(self._spellings)

    @classmethod
    def of(cls, options: TextOptions) -> Normaliser:
        """Return that of a thread, which knows the words of earlier partitions.

        A stemmer is not for several threads at once.
        """
        known: dict[TextOptions, Normaliser] = _OF_THREAD.__dict__.setdefault("normalisers", {})
        if options not in known:
            if len(known) >= _MOST_NORMALISERS:
                known.clear()
            known[options] = cls(options)
        return known[options]

    def __call__(self, token: str) -> str | None:
        """Return the stem of a token, or None.

        None is for what is no word (it has no letter, more than 50 characters, or signs
        of formulae, code or addresses) and for stop words, to which single letters belong.
        """
        return self._stem(token)

    def _normalise(self, token: str) -> str | None:
        if _DOTTED.fullmatch(token) and plain(token) not in self._stop:
            token = token.replace(".", "")
            if token.lower() in ABBREVIATED:
                return None
        if SPECIES.fullmatch(token):
            species = token[2:].strip()
            return None if self(species) is None else f"{token[0]}. {species}".lower()
        word = _PARTICLE.sub("", plain(token))
        if len(word) > 2 and word[-1] == "." and word.count(".") == 1:
            word = word[:-1]
            if word in ABBREVIATED and self._options.stop_words:
                return None
        if self._options.stop_words:
            if word in self._stop or (len(word) < 2 and not self._unspaced):
                return token if self.is_acronym(token) else None
            pieces = _PIECES.split(word)
            if len(pieces) > 1 and all(len(p) < 2 or p in self._stop for p in pieces):
                return None  # and/or
            if "'" in word and pieces[0] in self._stop:
                return None  # don't
        if self._options.language == JAPANESE and _INFLECTION.fullmatch(word):
            return None
        if len(word) > _LONGEST or _NO_WORD.search(word) or not any(map(str.isalpha, word)):
            return None
        return self._stemmer.stemWord(word) if self._stemmer else word

    def is_acronym(self, token: str) -> bool:
        """Return whether a token is a stop word but for its capitals: US, IT, WHO."""
        if not (token.isupper() and token.isalpha() and 1 < len(token) <= _ACRONYM):
            return False
        word = plain(token)
        return word in self._stop and word not in _EMPHASIS

    def is_article(self, token: str) -> bool:
        """Return whether a capital is a word of its own: A, I."""
        word = plain(token)
        return word in self._stop and not (self._options.language == ENGLISH and word in "st")

    def is_stop_word(self, token: str) -> bool:
        """Return whether a token is a stop word as it is written."""
        if len(token) == 1:
            return self.is_article(token)
        return plain(token) in self._stop and not self.is_acronym(token)

    def is_link(self, tokens: Sequence[str]) -> bool:
        """Return whether a phrase that nobody names may have these between two of its words."""
        text = " ".join(map(plain, tokens))
        if text == SLASH:
            return True
        if (links := LINKS.get(self._options.language)) is not None:
            return text in links
        return len(text) <= _LONGEST_LINK and text.isalpha() and self.is_stop_word(text)

    def normal(self, token: str) -> str:
        """Return the stem of a word; of anything else itself in lower case."""
        return self(token) or plain(token)

    def _spellings(self, term: str) -> Sequence[Parts]:
        """Return how a text may write a term: as it is, and with other hyphens or Greek letters.

        >>> Normaliser(TextOptions()).variants("the quality of life")[0].parts
        ('qualiti', 'of', 'life')
        >>> [one.parts for one in Normaliser(TextOptions()).variants("semi-supervised learning")]
        [('semi-supervis', 'learn'), ('semi', 'supervis', 'learn')]
        """
        bare = _IN_BRACKETS.sub(" ", term)
        tokens = split_words(bare if bare.strip() else term, self._options.language)
        if len(tokens) > 3 and "".join(tokens).isupper():
            tokens = [t.lower() if plain(t) in self._stop else t for t in tokens]
        spellings = [
            tokens,
            [part for token in tokens for part in _INSIDE.findall(token) or [token]],
        ]
        if 2 < len(tokens) <= _MOST_HYPHENED and all(map(str.isalnum, tokens)):
            spellings += [["-".join(tokens)], ["-".join(tokens[:-1]), tokens[-1]]]
        spellings += [
            [*tokens[:i], f"{tokens[i]}-{tokens[i + 1]}", *tokens[i + 2 :]]
            for i in range(len(tokens) - 1)
            if tokens[i].isalnum() and tokens[i + 1].isalnum() and len(tokens) < 4
        ]
        if _NAMED_GREEK.search(term):
            spellings.append(
                split_words(
                    _NAMED_GREEK.sub(lambda m: _GREEK[m[0].lower()], term), self._options.language
                )
            )
        found = dict.fromkeys(
            parts for spelling in spellings if (parts := self._parts(spelling)) is not None
        )
        return tuple(found)

    def _parts(self, tokens: Sequence[str]) -> Parts | None:
        """Return the parts of a term; None where it has no letter and no digit."""
        stems = [self(token) for token in tokens]
        solid = [any(map(str.isalnum, token)) for token in tokens]
        if not any(solid):
            return None
        words = [i for i, stem in enumerate(stems) if stem is not None]
        signs = not words and len(tokens) > 1  # A*
        kept = (i for i, one in enumerate(tokens) if solid[i] and not self.is_stop_word(one))
        first = 0 if self._unspaced else next(kept, 0)
        last = len(tokens) - 1 if signs else max(i for i, it in enumerate(solid) if it)
        is_word = [
            i in (first, last) or stems[i] is not None or is_letter(token)
            for i, token in enumerate(tokens)
        ]
        normal = tuple(map(self.normal, tokens[first : last + 1]))
        return Parts(normal, tuple(is_word[first : last + 1]))

    def keyword(self, phrase: str, candidates: Container[str]) -> tuple[list[str], list[str]]:
        """Match a known keyword, of one or more words, with a document's candidates.

        A word that is no candidate as it stands is tried in its parts ("client/server",
        "semi-supervised"); stop words, digits and single letters are left out.

        Returns
        -------
        found, missing
            Stems of the words that are candidates, and the words that are not.
        """
        found, missing = [], []
        for word, stem, inside in self._words_of(phrase):
            if stem is None:
                continue
            if stem in candidates:
                found.append(stem)
                continue
            parts = [part for part in inside if part is not None]
            if len(parts) > 1 and all(part in candidates for part in parts):
                found += parts
            else:
                missing.append(word)
        return found, missing

    def _split(self, term: str) -> Sequence[tuple[str, str | None, Sequence[str | None]]]:
        """Return every word of a term, its stem, and those of its parts."""
        return [
            (word, self(word), [self(part) for part in _INSIDE.findall(word)])
            for word in split_words(term, self._options.language)
        ]
