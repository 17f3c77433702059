"""What other corpora say of a new one: coefficients of the features, and the share of keywords.

    w_j ~ N(m_j, s_j^2)   of a feature without labels, of unit variance in its corpus
    log pi ~ N(a + b log n, s^2)   n candidates a document; a, b and s by kind of list

Weights carry over from one corpus to another, rates hardly: the share of the words that are
keywords is .035 to .46 over thirteen corpora. Two kinds of list explain much of it: `MARKED`, all
that is in the text, and `SOME`, a few a document by authors, readers or indexers.

`benchmarks.prior_learning` makes one; ``prior.json`` is that of ten public corpora, without
any text. It is read with the names of the features, so that one made for others is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from vbmodels.keywords.corpus.model import CorpusProbit
from vbmodels.keywords.features import FEATURE_NAMES
from vbmodels.keywords.phrases.features import PHRASE_FEATURES
from vbmodels.keywords.phrases.model import Keyphrases
from vbmodels.keywords.prior.rates import PHRASES_SD, LearntRegression, RateLine

VERSION = 1
"""Of the features' meaning: raise it, and make the file, when a feature changes."""
ANY, MARKED, SOME = "any", "marked", "some"
NONE = "none"
"""The name of no prior."""
OF_LABELS = frozenset(
    {
        "affinity",
        "reach",
        "observed_neighbours",
        "keyphraseness",
        "neighbours_keyphraseness",
        "least_word_keyphraseness",
        "most_word_keyphraseness",
        "inside_known",
        "holds_known",
        "shares_with_known",
        "own_score",
        "own_score_rank",
        "own_score_given",
    }
)
"""Features that hold labels or scores of the user: nothing is learnt of them."""
LABEL_FREE_WORDS = tuple(n for n in FEATURE_NAMES[1:] if n not in OF_LABELS)
LABEL_FREE_PHRASES = tuple(n for n in PHRASE_FEATURES[1:] if n not in OF_LABELS)


@dataclass(frozen=True)
class LearntUnit:
    """Means and sds of the features of words or phrases, and the rates by kind of list."""

    features: Mapping[str, tuple[float, float]]
    rates: Mapping[str, RateLine]

    def regression(self, names: tuple[str, ...], kind: str | None) -> LearntRegression:
        """Return the prior of a regression with these features."""
        pairs = [self.features.get(name, (0.0, 1.0)) for name in names]
        return LearntRegression(
            mean=tuple(mean for mean, _ in pairs),
            sd=tuple(sd for _, sd in pairs),
            learnt=tuple(name in self.features for name in names),
            rate=self.rates.get(kind or ANY, self.rates[ANY]),
            kind_given=kind is not None,
        )


class PriorError(ValueError):
    """A file that is no prior, or one of other features."""


@dataclass(frozen=True)
class LearntPrior:
    """What a file holds.

    Parameters
    ----------
    words, phrases
        Of both regressions.
    coverage
        Share of the listed keyphrases that are candidates, by kind of list.
    corpora
        Provenance: name, documents, kind, language, source and licence of each corpus.
    """

    words: LearntUnit
    phrases: LearntUnit
    coverage: Mapping[str, float]
    corpora: tuple[Mapping[str, Any], ...]

    def of_words(self, kind: str | None) -> LearntRegression:
        """Return the prior of the regression of words."""
        return self.words.regression(FEATURE_NAMES, kind)

    def of_phrases(self, kind: str | None) -> LearntRegression:
        """Return the prior of the regression of phrases."""
        return self.phrases.regression(PHRASE_FEATURES, kind)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a file's text.

        Raises
        ------
        PriorError
            If it is no prior, or was made for other features.
        """
        try:
            found = json.loads(text)
            version = found["version"]
            units = _unit(found["words"]), _unit(found["phrases"])
            coverage = {str(kind): float(share) for kind, share in found["coverage"].items()}
            own = cls(*units, coverage, tuple(found["corpora"]))
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            RecursionError,
            OverflowError,
        ) as error:
            raise PriorError("it is not a prior that vbflows wrote") from error
        names = (set(units[0].features), set(units[1].features))
        ours = (set(LABEL_FREE_WORDS), set(LABEL_FREE_PHRASES))
        if version != VERSION or names != ours:
            raise PriorError("it was made for the features of another version: make it again")
        numbers = [n for u in units for pair in u.features.values() for n in pair]
        sds = [pair[1] for u in units for pair in u.features.values()]
        sds += [rate.sd for u in units for rate in u.rates.values()]
        numbers += [n for u in units for rate in u.rates.values() for n in asdict(rate).values()]
        shares = coverage.values()
        sound = all(abs(n) < 1e3 for n in numbers) and all(sd > 0.0 for sd in sds)
        sound &= all(0.0 < share <= 1.0 for share in shares) and ANY in coverage
        if not sound or any(ANY not in unit.rates for unit in units):
            raise PriorError("its numbers are out of range")
        return own


def _unit(found: Any) -> LearntUnit:
    features = {name: (float(mean), float(sd)) for name, (mean, sd) in found["features"].items()}
    return LearntUnit(
        features,
        {
            kind: RateLine(float(one["level"]), float(one["slope"]), float(one["sd"]))
            for kind, one in found["rates"].items()
        },
    )


def prior_of(given: LearntPrior | str | os.PathLike[str] | None) -> LearntPrior | None:
    """Return a prior by itself or by its file, the shipped one for None, None for "none".

    Raises
    ------
    PriorError
        If the file is no prior.
    OSError
        If it cannot be read.
    """
    if given is None:
        return shipped()
    if isinstance(given, LearntPrior):
        return given
    if given == NONE:
        return None
    try:
        return LearntPrior.from_json(Path(given).read_bytes())
    except PriorError as error:
        raise PriorError(f"{given}: {error}") from error


@lru_cache(maxsize=1)
def shipped() -> LearntPrior:
    """Return the prior of ten public corpora."""
    return LearntPrior.from_json(files("vbmodels.keywords").joinpath("prior.json").read_bytes())


def words_model(
    prior: LearntPrior | None, kind: str | None, rate: float | None, sd: float = 0.0
) -> CorpusProbit:
    """Return the model of words; parameters as `keyphrases_model` has them."""
    learnt = None if prior is None else prior.of_words(kind)
    return CorpusProbit(keyword_rate=rate, keyword_rate_sd=sd, learnt=learnt)


def keyphrases_model(
    prior: LearntPrior | None, kind: str | None, number: float | None, sd: float = 0.0
) -> Keyphrases:
    """Return the models of words and phrases.

    Parameters
    ----------
    prior
        Learnt from other corpora; None: vague ones.
    kind
        Of the lists, `MARKED` or `SOME`; None where it is not known.
    number, sd
        Keyphrases of a document, where the user knows it, and the sd of its logarithm.
    """
    if prior is None:
        return Keyphrases(per_document=number, per_document_sd=sd)
    return Keyphrases(
        CorpusProbit(learnt=prior.of_words(kind)),
        CorpusProbit(labels_sd=PHRASES_SD, learnt=prior.of_phrases(kind)),
        per_document=number,
        per_document_sd=sd,
        coverage=prior.coverage.get(kind or ANY, prior.coverage[ANY]),
    )
