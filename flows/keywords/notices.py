"""What a run of keywords says of its input: what was inferred, taken out, left out, not found."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from flows.data.runs import Dropped
from flows.keywords.schema import KNOWN_NAMES
from flows.keywords.settings import KeywordSettings
from vbmodels.core.column_table import ColumnRead
from vbmodels.keywords.languages import ENGLISH
from vbmodels.keywords.learnt_prior import NONE
from vbmodels.keywords.reading_report import Named, Report

LARGE_SHARE = 0.1
"""From which on a loss is a warning of its own."""
_SHOWN = 3


def losses_of(report: Report, settings: KeywordSettings) -> tuple[Dropped, ...]:
    """Return what was not used of the documents, and why."""
    rows: tuple[tuple[str, Named, int, str], ...] = (
        ("document without a candidate", report.without_words, report.documents, ""),
        (
            "known keyphrase that is not in its document's text"
            if settings.with_phrases
            else "known keyphrase with a word that is no candidate of its document",
            report.absent_keywords,
            report.listed,
            "",
        ),
        (
            "known keyphrase that is in the result alone: no candidate, so nothing is learned "
            "from it",
            report.listed_only,
            report.listed,
            "",
        ),
        (
            f"document cut to its {settings.max_words} most frequent words",
            report.shortened,
            report.documents,
            f"Raise max_words above {settings.max_words} to take all words of long documents",
        ),
        ("score of a term without a candidate word", report.unused_scores, 0, ""),
    )
    return tuple(
        Dropped(reason=reason, count=lost.count, examples=list(lost.names), of=of, cause=cause)
        for reason, lost, of, cause in rows
    )


def rate_question(settings: KeywordSettings, labelled: bool, complete: bool) -> list[str]:
    """Return the question how many keyphrases a document has, where nothing says so.

    ``labelled`` and ``complete``: whether a document has a known keyphrase, and whether one is
    complete.
    """
    number = settings.keyphrases if settings.with_phrases else settings.keyword_rate
    if complete or number is not None or settings.kind is not None:
        return []
    of = "the known ones and other corpora" if labelled else "other corpora"
    if settings.prior == NONE:
        of = "the known ones"
    keys = "keyphrases" if settings.with_phrases else "keywords"
    give = (
        "mean of a few documents: --set keyphrases=MEAN"
        if settings.with_phrases
        else "share of its words: --set keyword_rate=SHARE"
    )
    lists = "which kind of list you want: --set lists="
    if labelled:
        lists = "what your lists are: --set lists=complete (all), "
    return [
        f"How many {keys} a document has is estimated from {of}, roughly. Give the {give}. Or say "
        f"{lists}some (a few, as by authors or indexers) or marked (all that are in the text)."
    ]


def notes_of(report: Report, settings: KeywordSettings, copies: int = 0) -> list[str]:
    """Return what was taken out of the documents that were read, and what was inferred.

    ``copies``: documents that count once with the one that they are a copy of.
    """
    cleaned, languages = report.cleaned, _languages(report, settings)
    taken = (
        f"Markup or running heads were taken out of {_documents(cleaned.count)} "
        f"({_examples(cleaned)})."
    )
    found = [taken] if cleaned.count else []
    if languages:
        found.append(languages)
    if shared := report.shared.count:
        found.append(
            f"Sentences that most documents share were taken out of {_documents(shared)} "
            f"({_examples(report.shared)})."
        )
    if copies:
        found.append(f"Exact copies: {_documents(copies)}; each text counts once in the fit.")
    for mark, count in sorted(report.marks.items()):
        found.append(f"keywords: {mark!r} of {_documents(count)} is read as no list.")
    return found


def notices_of(report: Report, settings: KeywordSettings) -> list[str]:
    """Return what is worth a warning of the documents that were read."""
    found = []
    empty = report.without_words
    if empty.count > LARGE_SHARE * report.documents:
        found.append(
            f"{_of(empty.count, _documents(report.documents))} no candidate and no row in the "
            f"result ({_examples(empty)}): "
            + (
                "they are empty, or have only addresses, signs and stop words; a wrong language "
                "leaves out words too."
                if settings.vocabulary is None or not settings.vocabulary_only
                else "they hold no term of the vocabulary; vocabulary_only=false takes other terms."
            )
        )
    absent = report.absent_keywords
    if absent.count > LARGE_SHARE * report.listed:
        where = "are not in their documents' text, so nothing is learned from them"
        if absent.count == 1:
            where = "is not in its document's text, so nothing is learned from it"
        found.append(
            f"{absent.count:,} of {report.listed:,} known keyphrases {where} ({_examples(absent)})."
            + (
                _why_absent(report)
                or " Where the text spells one otherwise, write it in the list as in the text."
            )
        )
    return found


def _languages(report: Report, settings: KeywordSettings) -> str | None:
    """Say which languages were detected, unless all is English or as it was given."""
    counts = dict(report.languages.most_common())
    unclear = counts.pop("", 0)
    if not set(counts) - {settings.language, ENGLISH}:
        return None
    (first, count), *others = counts.items()
    listed = [f"{first.capitalize()} {_documents(count)}"]
    listed += [f"{language.capitalize()} {count:,}" for language, count in others]
    sentence = f"Languages: {', '.join(listed)}"
    if unclear:
        sentence += f"; {unclear:,} too short or not clear, read as English"
    return f"{sentence}. If that is wrong, add --set language=NAME."


def _why_absent(report: Report) -> str:
    """Name the separator that would find the absent keyphrases, if one would."""
    separator = _separator(report)
    return f" {separator}" if separator else ""


def _separator(report: Report) -> str | None:
    """Say so where another separator would find the known keyphrases."""
    if not report.separators:
        return None
    sign, count = max(report.separators.items(), key=lambda pair: pair[1])
    if 2 * count < report.absent_keywords.count:
        return None
    setting = f"--set 'list_separator={json.dumps(sign, ensure_ascii=False)}'"
    return f"Split at {sign!r}, {count:,} of these are found: {setting}."


def unused_terms(report: Report, terms: Sequence[str]) -> list[str]:
    """Return a sentence about the terms of a vocabulary that no text has, if there are any."""
    unused = [term for term in terms if term not in report.terms]
    if not unused:
        return []
    named = Named(len(unused), tuple(unused[:_SHOWN]))
    whole = f"{len(terms):,} term" + "s" * (len(terms) != 1)
    verb = "is" if len(unused) == 1 else "are"
    return [f"{len(unused):,} of {whole} of the vocabulary {verb} in no text ({_examples(named)})."]


def unused_lists(columns: Sequence[ColumnRead]) -> list[str]:
    """Say which column looks as if it held known keyphrases and is not read."""
    if any(column.used == "keywords" for column in columns):
        return []
    like = [one.name for one in columns if one.left_out and one.name.lower() in KNOWN_NAMES]
    return [
        f"{name} may hold known keyphrases, and is not read: --column keywords={shlex.quote(name)} "
        "takes it."
        for name in like[:1]
    ]


def _of(count: int, whole: str) -> str:
    return f"{count:,} of {whole} {'has' if count == 1 else 'have'}"


def _documents(count: int) -> str:
    return f"{count:,} document" + "s" * (count != 1)


def _examples(named: Named) -> str:
    more = ", ..." if named.count > _SHOWN else ""
    return ", ".join(named.names[:_SHOWN]) + more
