"""What the keywords report says of the rate of keyphrases, and of what makes a phrase one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flows.keywords.settings import KeywordSettings
from flows.keywords.summary import (
    PHRASES,
    HiddenLists,
    KeywordSummary,
    Names,
    names_of,
)
from flows.report import plots
from flows.report.page import Grid, Section
from vbmodels.keywords.corpus.model import CorpusProbit, coefficient_table
from vbmodels.keywords.corpus.states import CorpusGlobal
from vbmodels.keywords.rate_prior import SOURCES

MOST_FEATURES = 12  # whose effect is drawn


def rate_results(q: CorpusGlobal, model: CorpusProbit) -> dict[str, Any]:
    """Return the rate, the length exponent and their standard deviations for the record."""
    return {
        "keyword_rate": q.rate,
        "keyword_rate_log_sd": q.sources.combined()[1],
        "keyword_rate_sources": [SOURCES[i] for i in q.sources.speaking],
        "length_exponent": q.exponent,
        "length_exponent_sd": model.exponent_sd(q),
    }


def rate_section(
    q: CorpusGlobal, model: CorpusProbit, settings: KeywordSettings,
    found: tuple[int, int, float], most: int | None,
) -> Section:  # fmt: skip
    """Name every source of the rate with its factor and sd, and what they give together.

    ``found`` are the documents, the candidates, and the mean probability of these; ``most`` is how
    many a document may have.
    """
    names, (documents, candidates, share) = names_of(settings), found
    size = candidates / max(documents, 1)
    of = f"of the {size:,.0f} candidate {names.units} of a mean document"
    expects = f"With the known ones counted the model expects {100.0 * share:.1f} %: "
    expects += f"{share * size:.1f} {of}."
    grows = (
        f"\nA document with twice as many candidate {names.units} has {2.0**q.exponent:.2f} times "
        f"as many {names.keys}."
    )
    title, how = f"The {names.key} rate", (
        f"The rate is the share of the candidate {names.units} that is assumed to be {names.keys} "
        f"before the known ones are counted. All probabilities rise and fall with it."
    )  # fmt: skip
    if q.sources.exact:
        given = getattr(settings, names.rate)
        text = f"You set {names.rate}={given:g}"
        if names is PHRASES:
            text += f" a document; {100.0 * q.rate * size / given:.0f} % of them are expected in "
            text += f"its text, so {q.rate * size:.1f} {of} are assumed"
        text += f". {expects}"
        if most is not None:
            text += (
                f" No new one is added beyond {most} in a document, known ones counted: 1.5 times "
            )
            text += "yours."
        text += grows
        return Section(title, text, how=how)
    mean, sd = q.sources.combined()
    rows = [
        (SOURCES[i], *_with_range(float(q.sources.log_rate[i]), float(q.sources.source_sd[i])))
        for i in q.sources.speaking
    ]
    rows.append(("all together", *_with_range(mean, sd)))
    grid = Grid(("source", f"{names.key} rate", "range (1 sd)"), rows)
    text = f"Probabilities are averaged over the range of the last line. {expects}{grows}"
    return Section(title, text, (), (grid,), how=how)


def _with_range(log_rate: float, sd: float) -> tuple[str, str]:
    """Write a rate and its range in per cent."""
    mean, low, high = (100.0 * min(float(np.exp(log_rate + sign * sd)), 1.0) for sign in (0, -1, 1))
    return f"{mean:.1f} %", f"{low:.1f} to {high:.1f} %"


def learned_in_words(summaries: Sequence[KeywordSummary], names: Names) -> str:
    """Say what the effects were learned from."""
    known, where = (sum(getattr(s, n) for s in summaries) for n in ("observed", "with_known"))
    if not known:
        return f" No {names.key} is known here: these are the effects in other corpora."
    documents = sum(s.documents for s in summaries)
    text = f" Learned from {known:,} known {names.keys} in {where:,} of {documents:,} documents"
    return f"{text}."


def better_by_tf_idf(hidden: HiddenLists) -> tuple[str, ...]:
    """Warn where known ones rank worse than by tf-idf."""
    text = "TF-IDF ranks the known ones better: more known ones, or another kind of list (lists), "
    return () if hidden.apart[2] >= 0.0 else (f"{text}may help.",)


def effects(
    model: CorpusProbit, q: CorpusGlobal, names: Names
) -> tuple[tuple[str, float, float], ...]:
    """Return the name of each coefficient, its mean and its standard deviation."""
    return coefficient_table(model, q, names.features[: len(q.location)])


def coefficient_section(
    coefficients: Sequence[tuple[str, float, float]], learned: str, names: Names
) -> Section:
    """Draw the largest effects."""
    ordered = sorted(coefficients, key=lambda row: -abs(row[1]))[:MOST_FEATURES]
    labels, mean, sd = zip(*ordered, strict=True) if ordered else ((), (), ())
    plot = plots.intervals(
        [_FEATURES.get(label, label.replace("_", " ")) for label in labels], mean, sd,
        "effect of 1 sd (probit)", "Effect of each feature on the probability",
    )  # fmt: skip
    some = "All"
    if len(ordered) < len(coefficients):
        some = f"The {len(ordered)} largest of {len(coefficients)}"
    return Section(
        f"What makes a {names.unit} a {names.key}",
        f"{some} effects, on the probit scale, for a feature 1 standard deviation higher, the "
        "others fixed: near a probability of 0.5, 0.1 adds about 4 percentage points. The 95 % "
        "intervals are approximate, and rather too short. All effects are in "
        f"posterior/parameters.parquet.{learned}",
        (plot,) if ordered else (),
        needs_fit=True,
        folded=f"Chart: {some[:1].lower()}{some[1:]} effects" if ordered else "",
        how=f"Right of zero, more of the feature makes a {names.unit} more probable. Features that "
        "overlap share one effect, as times, rarity and times x rarity do: read theirs together. "
        "A word is well known if many of the other documents that contain it have it in their "
        f"known {names.keys}.{_LEAST if names is PHRASES else ''}",
    )


_LEAST = (
    " 'Its least (most) known word' is the phrase's word for which that share is smallest "
    "(largest). A 'known "
    "phrase' is a known keyphrase of the same document. 'Word score': what the same model gives "
    "the phrase's words by themselves."
)


_FEATURES = {
    "log_tf": "times in the document",
    "idf": "rarity in the corpus",
    "log_tf_idf": "times x rarity (tf-idf)",
    "first_position": "late first occurrence",
    "spread": "spread in the document",
    "two_words": "two words long",
    "three_words": "three words long",
    "four_words": "four words long",
    "log_n_phrases": "length of the document",
    "log_n_words": "length of the document",
    "log_tf_over_rarest_word": "times / rarest word's",
    "log_tf_over_commonest_word": "times / commonest word's",
    "pmi": "words that go together",
    "pmi_log_documents": "words often together",
    "maximal": "not in a longer phrase",
    "maximal_if_several": "2+ words, not in longer",
    "in_title": "in the title",
    "last_plural": "last word: plural",
    "last_proper": "last word: name",
    "last_gerund": "last word ends in -ing",
    "first_adjective": "first word: adjective",
    "first_participle": "first word: participle",
    "capitals": "written in capitals",
    "keyphraseness": "known elsewhere",
    "least_word_keyphraseness": "its least known word",
    "most_word_keyphraseness": "its most known word",
    "log_tf_if_several": "times, if 2+ words",
    "inside_known": "inside a known phrase",
    "holds_known": "holds a known phrase",
    "shares_with_known": "word of a known phrase",
    "own_score": "your own score",
    "own_score_rank": "rank by your own score",
    "own_score_given": "has your own score",
    "word_score_mean": "word score: mean",
    "word_score_least": "word score: least",
    "word_score_most": "word score: most",
    "word_score_last": "word score: last word",
    "word_score_rank": "rank by word score",
    "single_word_score": "word score, if 1 word",
}
"""What people call a feature: in 24 letters, so that narrow screens show it whole."""
