"""From running text to tagged tokens, and from tokens to normalised words.

Raw English text is split and tagged by textblob's rule tagger (Brill's rules, a lexicon
that ships with the package; nothing is downloaded). Other languages are split by the same
tokeniser and not tagged: their candidates are all words that are no stop words. Words are
lower-cased and stemmed by Snowball (PyStemmer): Porter for English, as in the papers, and
the language's own stemmer elsewhere.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Literal

from vbmodels.keywords.features import POS_GROUPS
from vbmodels.keywords.languages import (
    ENGLISH,
    OTHER_LANGUAGE,
    LanguageError,
    languages,
    plain,
    stop_words,
)
from vbmodels.keywords.token_kernels import OTHER as OTHER
from vbmodels.keywords.token_kernels import UNKNOWN as UNKNOWN

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

_NO_WORD = re.compile(r"[=()\[\]{}<>|\\@^~*\"$%;:,?!]")
_LONGEST = 50
MOST_TOKENS = 2**16  # of which a process remembers the tags
_POSSESSIVE = re.compile("['’]s?$")
_INSIDE = re.compile(r"[^\W_]+")
_EDGES = "".join(chr(c) for c in range(33, 127) if not chr(c).isalnum()) + "“”‘’«»–—…"


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
    """

    language: str = ENGLISH
    stem: Stem = "auto"
    stop_words: bool = True
    tag: bool = True
    min_count: int | None = None
    long_document: int = 1000
    max_words: int = 2000

    def __post_init__(self) -> None:
        known = languages()
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
        import Stemmer

        if self.language not in Stemmer.algorithms():
            return None
        porter = self.stem == "porter" or (self.stem == "auto" and self.language == ENGLISH)
        return "porter" if porter else self.language

    def least(self, n_tokens: int) -> int:
        """Return the minimum count for a document of this length."""
        if self.min_count is not None:
            return self.min_count
        return 3 if n_tokens > self.long_document else 1


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
        from textblob.en import parser

        parser.find_tags(["Loads", "the", "unheardoffly", "lexicon"])
    return parser


def splitter() -> Any:
    """Return the module of textblob that splits text into tokens, with its rules."""
    _parser()
    return sys.modules["textblob._text"]


@contextmanager
def _without_corpora() -> Iterator[None]:
    """Import textblob's modules without what its package loads first.

    The package brings NLTK for its corpora, and that scikit-learn: two seconds of CPU in every
    worker, of which the tagger needs nothing. A bare package stands in its place meanwhile.
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
        code = self[token] = pos_code(_parser().find_tags([*self._before, token])[-1][1])
        return code


AT_THE_START, INSIDE_SENTENCES = _TokenCodes([]), _TokenCodes(["a"])


class Normaliser:
    """Lower case, stop words and stems, each distinct token worked out once.

    Parameters
    ----------
    options
        Language, stemmer and stop words.
    """

    def __init__(self, options: TextOptions) -> None:
        self._options = options
        self._stop = stop_words(options.language) if options.stop_words else frozenset()
        self._stemmer = _stemmer(options.algorithm)
        self._known: dict[str, str | None] = {}
        self._terms: dict[str, Sequence[tuple[str, str | None, Sequence[str | None]]]] = {}

    @classmethod
    def of(cls, options: TextOptions) -> Normaliser:
        """Return that of a thread, which knows the words of earlier partitions.

        A stemmer is not for several threads at once.
        """
        if getattr(_OF_THREAD, "options", None) != options:
            _OF_THREAD.options, _OF_THREAD.normaliser = options, cls(options)
        known: Normaliser = _OF_THREAD.normaliser
        return known

    def __call__(self, token: str) -> str | None:
        """Return the stem of a token, or None.

        None stands for what is no word (it has no letter, more than 50 characters, or signs
        of formulae, code or addresses) and for stop words, to which single letters belong.
        """
        try:
            return self._known[token]
        except KeyError:
            if len(self._known) >= MOST_TOKENS:
                self._known.clear()
            stem = self._known[token] = self._normalise(token)
            return stem

    def _normalise(self, token: str) -> str | None:
        word = plain(token)
        if self._options.stop_words and (len(word) < 2 or word in self._stop):
            return None
        if len(word) > _LONGEST or _NO_WORD.search(word) or not any(map(str.isalpha, word)):
            return None
        stem: str = self._stemmer.stemWord(word) if self._stemmer else word
        return stem

    def phrase(self, term: str) -> list[list[str]]:
        """Return the stems of a term's words, and those of their parts where these differ.

        Words before the first that has a stem ("the") are left out. Nothing is returned for a
        term with a stop word or a sign inside: no phrase has these.
        """
        found = self._words_of(term)
        first = next((i for i, (_, stem, _) in enumerate(found) if stem is not None), len(found))
        whole = [stem for _, stem, _ in found[first:] if stem is not None]
        if not whole or len(whole) < len(found) - first:
            return []
        parts: list[str] = []
        for _, stem, inside in found[first:]:
            several = len(inside) > 1 and None not in inside
            parts += [part for part in (inside if several else (stem,)) if part is not None]
        return [whole] if parts == whole else [whole, parts]

    def _words_of(self, term: str) -> Sequence[tuple[str, str | None, Sequence[str | None]]]:
        """Return every word of a term, its stem, and those of its parts; each term once."""
        if (known := self._terms.get(term)) is not None:
            return known
        if len(self._terms) >= MOST_TOKENS:
            self._terms.clear()
        words = [_POSSESSIVE.sub("", piece.strip(_EDGES)) for piece in term.split()]
        found = [
            (word, self(word), [self(part) for part in _INSIDE.findall(word)]) for word in words
        ]
        self._terms[term] = found
        return found

    def keyword(self, phrase: str, candidates: dict[str, int]) -> tuple[list[str], list[str]]:
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
