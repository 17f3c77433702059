"""Sections of the keywords report that show documents: keyphrases, texts, and which to label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress

import numpy as np

from flows.keywords.settings import KeywordSettings
from flows.keywords.summary import LEVELS, DocumentToLabel, Example, Names, TermCounts
from flows.keywords.texts import LONGEST, ShownDocument
from flows.report import plots
from flows.report.page import Grid, Section, Widget

MOST_FREQUENT = 15  # drawn
MOST_LABELLED = 10  # documents worth labelling that are shown
DOUBT = ", most with a probability below 0.5: each of those is more likely wrong than right"


def listed(
    words: Sequence[tuple[str, float]], scores: bool, wholes: Mapping[str, str] | None = None
) -> str:
    """Return words with their probabilities, and the longer ones that they are part of."""
    within = {term: f" (of {whole})" for term, whole in (wholes or {}).items()}
    return ", ".join(
        f"{term}{within.get(term, '')} {'' if scores else _digits(p)}".strip() for term, p in words
    )


def _digits(probability: float) -> str:
    """Write a probability with two decimals, or with more where these hide its side of 0.5.

    >>> _digits(0.744), _digits(0.4968), _digits(0.50004)
    ('0.74', '0.497', '0.50004')
    """
    texts = (f"{probability:.{digits}f}" for digits in range(2, 8))
    return next((text for text in texts if float(text) != LEVELS[0]), "0.50")


def documents_section(
    examples: Sequence[Example], documents: int, scores: bool, names: Names, doubt: str
) -> Section:
    """Show each document's known, likely and less likely ones."""
    least = -np.inf if scores else LEVELS[0]
    lists = [
        [[one for one in e.found if (one[1] > least) is likely] for likely in (True, False)]
        for e in examples
    ]
    sides = [True, any(rest for _, rest in lists)]
    rows = [
        (e.doc_id, *(listed(own, scores, e.wholes) for own in compress(found, sides)),
         ", ".join(e.known))
        for e, found in zip(examples, lists, strict=True)
    ]  # fmt: skip
    text = f"Documents with the largest number of {'' if scores else 'likely '}new ones first."
    where = "the files keyphrases/*.jsonl of the run"
    kinds = f"{'' if scores else 'likely '}new {names.keys}", "less likely"
    columns = ("document", *compress(kinds, sides), f"known {names.keys}")
    grid = Grid(columns, rows, text, total=documents, where=where)
    how = (
        f"Known {names.keys} came with the input; new ones were found{doubt}. Forms of one stem, "
        "such as a plural, are one, as they are written first."
    )
    if any(e.wholes for e in examples):
        how += f" In brackets: the longer {names.unit}, selected or known, that it is part of."
    return Section(f"{names.keys.capitalize()} by document", "", (), (grid,), how=how)


def likely_section(
    examples: Sequence[Example], settings: KeywordSettings, scores: bool, names: Names
) -> Section:
    """Show what comes next where nothing was found: is the level right?"""
    rows = [(e.doc_id, ", ".join(e.known), listed(e.likely, scores)) for e in examples]
    text = (
        f"No unknown {names.unit} was selected (select={settings.select}, fdr={settings.fdr:g}). "
        f"These are the most probable ones of documents with many known {names.keys}, with their "
        f"probabilities. Where they look right, set a higher {names.rate} or a higher fdr. "
        f"All {names.units} are in the table keywords/."
    )
    grid = Grid(("document", f"known {names.keys}", "most probable"), rows)
    return Section(f"{names.keys.capitalize()} by document", text, (), (grid,))


def texts_section(
    documents: Sequence[ShownDocument], size: int, terms: TermCounts, scores: bool, names: Names
) -> Section:
    """Show texts with their keyphrases marked, and in which documents each keyphrase is."""
    number: dict[str, int] = {}
    rows = [
        {
            "id": one.doc_id,
            "text": one.text,
            "cut": one.cut,
            "keyphrases": [
                [number.setdefault(p.stem, len(number)), p.text, round(p.probability, 4),
                 p.known, p.forms]
                for p in one.keyphrases
            ],
        }
        for one in documents
    ]  # fmt: skip
    counts = [[terms.written.get(stem, ""), terms.new[stem], terms.known[stem]] for stem in number]
    how = (
        f"Choose a document, or search by name or by words. Known {names.keys} have a solid line, "
        f"new ones a dashed line. Click a {names.key} for its page: its documents, the sentences "
        f"and the {names.keys} that occur with it."
    )
    text = ""
    if len(documents) < size:
        text += f"{len(documents):,} of {size:,} documents are here, drawn at random."
    if any(one.cut for one in documents):
        text += f"\nOf a text of more than {LONGEST:,} characters the beginning is here."
    data = {
        "documents": rows,
        "terms": counts,
        "whole": terms.whole,
        "scores": scores,
        "key": names.key,
        "keys": names.keys,
    }
    title = f"Documents with their {names.keys} marked"
    return Section(title, text, widget=Widget("documents.js", data), how=how)


def frequent_sections(terms: TermCounts, names: Names, scores: bool) -> list[Section]:
    """Show what was found in most documents, unless all is in one document each."""
    likely = terms.likely if terms.likely and not scores else terms.new
    first = likely.most_common(MOST_FREQUENT + 1)
    most = [one for one in first[:MOST_FREQUENT] if one[1] > 1]
    if not most:
        return []
    labels, counts = [terms.written[stem] for stem, _ in most], [n for _, n in most]
    title = f"Most frequent {'likely ' if likely is terms.likely else ''}new {names.keys}"
    how = f"In how many documents each of the {len(most)} most frequent was found"
    how += " with a probability above 0.5" if likely is terms.likely else ""
    how += ". Forms of one stem are counted together, as they are written first."
    if fewer := (len(likely) - len(most)) * terms.whole:
        how += f" {fewer:,} more are in at most {first[len(most)][1]:,}."
    return [Section(title, "", (plots.bars(labels, counts, "documents", title, how),))]


def label_section(
    documents: Sequence[DocumentToLabel], names: Names, exact: bool, measured: bool = False
) -> Section:
    """Show the documents whose labels would help most; ``measured``: true ones are known."""
    rows = [
        (a.doc_id, a.candidates, a.known, f"{a.expected:.1f}", f"{100.0 * a.removes:.1f} %")
        for a in documents[:MOST_LABELLED]
    ]
    removed = [one.removes for one in documents[:MOST_LABELLED]]
    alike = len(removed) > 1 and min(removed) > 0.8 * max(removed)
    use = "" if measured else "Measure first, as What to do next says (column gold). "
    use += (
        f"If fewer are right than you need, write all {names.keys} of these documents, "
        f"{'in any order' if alike else 'the first of them first'}, into the column of the known "
        "ones, mark them in a column complete with yes, and run again"
    )
    if exact:
        use += (
            f" without --set {names.rate}: the fit then learns the number of {names.keys} of a "
            "document from them, in place of yours"
        )
    use += "."
    columns = (
        "document", f"candidate {names.units}", f"known {names.keys}", f"expected {names.keys}",
        "uncertainty removed",
    )  # fmt: skip
    how = (
        "Uncertainty removed: by how much labelling this document, after those above it, lowers "
        f"the variance of the estimated number of wrong {names.keys}"
        + (f": {100.0 * sum(removed):.0f} % by these {len(removed)}." if len(removed) > 1 else ".")
    )
    if alike:
        listed = ", ".join(one.doc_id for one in documents[:MOST_LABELLED])
        use += f"\n{listed}."
        narrows = f"narrow the range of the estimated number of wrong {names.keys} by "
        narrows += _narrower(sum(removed))
        use += "" if exact else f"\nThey {narrows}."
        if len(documents) > len(removed):
            all_of_them = "" if exact else f": {_narrower(sum(one.removes for one in documents))}"
            use += f" vbflows show {{run}} ask lists {len(documents)} documents{all_of_them}."
        return Section("Documents worth labelling next", use)
    grid = Grid(columns, rows, total=len(documents), where="the table ask/")
    return Section("Documents worth labelling next", use, (), (grid,), how=how)


def _narrower(removed: float) -> str:
    """Return by how much a standard deviation falls with a share of the variance."""
    return f"{100.0 * (1.0 - max(1.0 - removed, 0.0) ** 0.5):.0f} %"
