"""What the keywords report says, from small summaries of the partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy as np

from flows.data.run_tables import Parameter
from flows.keywords.rate_report import (
    coefficient_section,
    compared_in_words,
    effects,
    learned_in_words,
    lists_in_words,
    long_list,
    rate_results,
    rate_section,
)
from flows.keywords.settings import SCORES, KeywordSettings
from flows.keywords.summary import (
    BINS,
    LEVELS,
    MOST_DOCUMENTS,
    PHRASES,
    DocumentToLabel,
    Example,
    Given,
    HiddenLists,
    KeywordSummary,
    Names,
    TermCounts,
    names_of,
    order_of,
)
from flows.keywords.texts import LONGEST, ShownDocument, within_page
from flows.keywords.tiles import next_steps, tiles_of
from flows.report import plots
from flows.report.page import Findings, Grid, Section, Widget
from vbmodels.core.state import FloatArray
from vbmodels.keywords.corpus.model import CorpusGlobal, CorpusProbit, doubts, few_documents

MOST_R_HAT = 1.05
MOST_LABELLED = 10  # documents worth labelling that are shown
MOST_FREQUENT = 15  # drawn
SAME_NAME = 0.05  # share of the likely ones that are their document's name, from which it is said
_BY_KNOWN = "known_alone", "new_with_known"


def parameters_of(model: CorpusProbit, q: CorpusGlobal, names: Names) -> list[Parameter]:
    """Return the coefficients, the rate and the length exponent."""
    log_sd = q.sources.combined()[1]
    return [
        *(Parameter("coefficient", *row) for row in effects(model, q, names)),
        Parameter("keyword_rate", None, q.rate, q.rate * log_sd),
        Parameter("length_exponent", None, q.exponent, model.exponent_sd(q)),
    ]


def report(
    model: CorpusProbit | None,
    q: CorpusGlobal | None,
    summaries: Sequence[KeywordSummary],
    settings: KeywordSettings,
    warnings: tuple[str, ...] = (),
    *,
    rows: int,
    given: Given | None = None,
) -> Findings:
    """Say what was found; ``model`` and ``q`` are those of the candidates, ``rows`` those read."""
    names = names_of(settings)
    scored = any(one.scored for one in summaries)
    documents = sum(s.documents for s in summaries)
    candidates = sum(s.candidates for s in summaries)
    share = sum(s.expected for s in summaries) / max(candidates, 1)
    results: dict[str, Any] = {}
    coefficients: list[tuple[str, float, float]] = []
    more: list[Section] = []
    if model is not None and q is not None:
        results.update(rate_results(q, model))
        listed = "" if given is None else lists_in_words(summaries, given, names)
        share_of = (documents, candidates, share)
        more.append(rate_section(q, model, settings, share_of, listed, summaries[0].cut[1]))
        # `notices.rate_question` says so where neither the number nor the kind is given.
        is_said = q.sources.estimated and settings.kind is None and not scored
        reasons = few_documents(q) if is_said else doubts(q, names.rate, again=scored)
        warnings += tuple(f"The false discovery rate is not reliable: {one}." for one in reasons)
        varies = np.isfinite(q.scale)
        table = zip(effects(model, q, names), varies, strict=True)
        coefficients = [row for row, it in table if it and row[0] != "intercept"]
    found = sum(s.selected - s.observed for s in summaries)
    with_new = sum(s.with_new for s in summaries)
    terms = sum((s.terms for s in summaries), TermCounts(Counter(), Counter(), Counter(), {}))
    scores = settings.model in SCORES
    examples = [e for s in summaries for e in s.examples]
    examples = sorted(examples, key=order_of)
    examples = examples[:MOST_DOCUMENTS]
    observed = sum(s.observed for s in summaries)
    what, where = _found(found, with_new, documents, observed, names)
    headline = f"{what} in {where}"
    expected, above = None, 0.0
    measured = any(s.confusion.any() for s in summaries)
    to_label = [one for s in summaries for one in s.to_label]
    if not scores:
        results["expected_false"] = sum(s.expected_false for s in summaries)
        if found:
            expected = results["expected_false_share"] = results["expected_false"] / found
            right = np.sum([s.expected_true for s in summaries], axis=0) / found
            results["expected_right"] = [float(right.min()), float(right.max())]
            rates = [s.by_rate[0] for s in summaries if s.by_rate is not None]
            if rates:
                results["expected_right_by_rate"] = (np.sum(rates, axis=0) / found).tolist()
            above, sure = np.sum([s.above[0] for s in summaries], axis=0)
            if 0 < above < found:
                rest = found - int(above)
                others = 100.0 * (found - results["expected_false"] - sure) / rest
                headline += f", about {_percent(right)} right"
                if (each := settings.keyphrases) is not None and rates:
                    few, many = 100.0 * np.array(results["expected_right_by_rate"])
                    headline += f" if a document has your {each:g} ({few:.0f} % if {each / 2.0:g}, "
                    headline += f"{many:.0f} % if {2.0 * each:g})"
                else:
                    headline += ", as estimated"
                headline += f": {int(above):,} likely ({100.0 * sure / above:.0f} %), {rest:,} "
                headline += f"less likely ({others:.0f} %)"
            else:
                headline += f"; {_percent(right)} expected to be right, "
                headline += f"{'each' if above else 'none'} more probable than not"
    hidden = next((s.hidden for s in summaries if s.hidden is not None), None)
    if hidden is not None:
        results.update(known_among_best=hidden.by_model, known_among_best_tf_idf=hidden.by_tf_idf,
                       known_among_best_apart=list(hidden.apart),
                       known_compared=hidden.known)  # fmt: skip
        line, against = compared_in_words(hidden)
        headline += f". {line}"
        warnings += against
    sections = _frequent(terms, names, scores) if found else []
    if not scores:
        sections.append(_which(summaries, results, settings, names, hidden))
    if texts := within_page([one for s in summaries for one in s.shown]):
        sections.append(_texts(texts, rows, terms, scores, names))
    doubt = "" if scores or above >= 0.5 * found else _DOUBT
    sections.append(
        _documents(examples, documents, scores, names, doubt)
        if found
        else _likely(examples, settings, scores, names)
    )
    sections += _gold(summaries, results, expected, names)
    sections += more
    if to_label:
        exact = q is not None and q.sources.exact
        sections.append(_to_label(to_label, names, exact))
    if coefficients:
        known_to_fit = observed or (model is not None and model.learnt is not None)
        learned = learned_in_words(summaries, names) if known_to_fit else ""
        warnings += () if scored else long_list(summaries, names)
        sections.append(coefficient_section(coefficients, learned, names))
    results.update(documents=documents, documents_with_new=with_new, candidates=candidates)
    if not scores:
        results["fitted_per_text"] = share * candidates / max(documents, 1)
    results.update(selected=sum(s.selected for s in summaries),
                   observed=observed, found=found)  # fmt: skip
    if given is not None:
        results.update(known_given=given.listed, known_absent=given.absent)
    r_hats = [s.r_hat for s in summaries if s.r_hat is not None]
    if r_hats:
        worst = max(r_hats)
        results["r_hat"] = worst if np.isfinite(worst) else None
        if worst > MOST_R_HAT:
            warnings += (
                f"The sampler's chains disagree (largest R-hat {worst:.3f}, expected at "
                f"most {MOST_R_HAT}); raise draws.",
            )
    top = [
        {"doc_id": e.doc_id, "known": ", ".join(e.known), "found": _listed(e.found, scores)}
        for e in examples[:20]
    ]
    mean, named = settings.keyphrases, _named(summaries, above)
    return Findings(
        headline, sections, results, warnings, top,
        tiles_of(results, names.unit, names.keys, mean),
        next_steps(scores, int(above) - named, measured, mean is not None, bool(named)),
        row="document",
        used={} if q is None or mean is None else {"keyword_rate": f"by your keyphrases={mean:g}"},
    )  # fmt: skip


def _found(
    found: int, with_new: int, documents: int, known: int, names: Names, how: str = ""
) -> tuple[str, str]:
    """Say how many are found, and where."""
    new, without = ("new ", "") if known else ("", f" without known {names.keys}")
    keys = names.keys if found != 1 else names.key
    of = f"{with_new:,} of " if 0 < with_new < documents else ""
    return (
        f"{found:,} {how}{new}{keys}",
        f"{of}{documents:,} document{'s' * (documents != 1)}{without}",
    )


def _percent(shares: FloatArray) -> str:
    """Return the range of shares in whole per cent, one number where it has no width."""
    low, high = f"{100.0 * shares.min():.0f}", f"{100.0 * shares.max():.0f}"
    return f"{low} %" if low == high else f"{low} to {high} %"


def _listed(words: Sequence[tuple[str, float]], scores: bool) -> str:
    return ", ".join(f"{term} {'' if scores else f'{p:.2f}'}".strip() for term, p in words)


def _which(
    summaries: Sequence[KeywordSummary], results: dict[str, Any], settings: KeywordSettings,
    names: Names, hidden: HiddenLists | None,
) -> Section:  # fmt: skip
    """Say which new ones are selected, and how many of those above each level are right."""
    cut, most = summaries[0].cut
    found = sum(s.selected - s.observed for s in summaries)
    text = "None is selected."
    grids: list[Grid] = []
    if found:
        limit = ""
        if most is not None:
            results["most_per_document"] = most
            limit = f"At most {most} in a document, known ones included (per_document)"
        elif settings.per_document is not None:
            limit = f"At most {settings.per_document} new ones in a document"
        right = np.array(results["expected_right"])
        above = np.sum([s.above for s in summaries], axis=0)
        lines = []
        if 0 < above[0, 0] < found:
            lines.append(_likely_ones(summaries, above))
        rates = [s.by_rate for s in summaries if s.by_rate is not None]
        given = getattr(settings, names.rate) if rates else None
        if given is not None:
            lines.append(
                f"Every share of right ones follows from your {names.rate}={given:g}: the table "
                "below has them for half and for twice as many, too."
            )
        if hidden is None:
            lines.append("No other method was compared.")
        without = sum(s.documents - s.with_new for s in summaries)
        alone, rest = (sum(getattr(s, n) for s in summaries) for n in _BY_KNOWN)
        where = []
        if alone or rest:
            where.append(f"{found - rest:,} of the {found:,} are in documents without known ones.")
        if without:
            have = f"; {alone:,} of these have known ones" * bool(alone)
            where.append(f"{without:,} documents have no new one{have}.")
        if same := sum(s.own_name for s in summaries):
            where.append(f"{same:,} are the name of their document.")
        if parts := sum(s.parts for s in summaries):
            example = next(s.example for s in summaries if s.example)
            where.append(
                f"{parts:,} are part of a longer one of the same document, often a less probable "
                f"one ({example}): take the longer one where it says more."
            )
        lines += [" ".join(where)] * bool(where)
        lines.append("The rules of the selection:")
        if cut is None:
            lines.append(f"• Of each document {_level(settings)} (select={settings.select}).")
        else:
            results["least_probability"] = cut
            lines.append(
                f"• A probability of at least {cut:.3f}: {_level(settings)} "
                f"(select={settings.select})."
            )
        beyond, alike = (sum(getattr(s, n) for s in summaries) for n in ("beyond_limit", "alike"))
        if limit:
            lines.append(f"• {limit}{f': {beyond:,} left out' * bool(beyond)}.")
        if alike:
            lines.append(
                f"• Parts, slices or near copies of others: {alike:,} left out. Parts that are "
                "probable by themselves are taken too."
            )
        text = "\n".join(lines)
        all_of = "all" if cut is None else f"{cut:.3f} (all)"
        whole = sum(s.expected - s.observed for s in summaries)
        levels = [(all_of, found, right * found)]
        levels += [(f"{p}", int(n), np.array(s)) for p, (n, s) in zip(LEVELS, above, strict=True)]
        others = np.sum(rates, axis=0) if rates else np.zeros((len(levels), 0))
        rows = [
            (level, count, _percent(sure / count), *(_percent(one / count) for one in other),
             _percent(sure / whole))
            for (level, count, sure), other in zip(levels, others, strict=True)
            if level == all_of or 0 < count < found
        ]  # fmt: skip
        own = f" at your {given:g}" if given is not None else ""
        columns = (
            "probability above", f"new {names.keys}", f"right{own}",
            *(f"if {f * given:g}" for f in (0.5, 2.0) if given is not None), "of all expected",
        )  # fmt: skip
        how = f"New {names.keys} above a probability, the share expected to be right, and the share"
        grids.append(Grid(columns, rows, f"{how} of all {whole:,.0f} expected in the texts."))
    counts = sum((s.histogram for s in summaries), np.zeros(BINS, np.int64))
    centres = (np.arange(BINS) + 0.5) / BINS
    title = f"Probabilities of all candidate {names.units} that were not known"
    plot = plots.histogram(
        centres, f"probability of being a {names.key}", f"candidate {names.units}", title,
        counts=counts, limit=cut if found else None,
    )  # fmt: skip
    return Section(f"Which new {names.keys} to take", text, (plot,), grids)


def _likely_ones(summaries: Sequence[KeywordSummary], above: FloatArray) -> str:
    """Say what the more probable ones are good for."""
    shares = [
        f"{100.0 * (1.0 - sure / count):.0f} % of the {count:,.0f} above {level}"
        for level, (count, sure) in zip(LEVELS, above.tolist(), strict=True)
        if count
    ]
    text = f"About {' and '.join(shares)} are wrong: look through them before you publish. The "
    text += f"first command under What to do next writes those above {LEVELS[0]} to a file"
    if named := _named(summaries, above[0, 0]):
        text += f", without {named:,} that are the name of their document: "
        text += f"{above[0, 0] - named:,.0f} rows"
    return f"{text}."


def _named(summaries: Sequence[KeywordSummary], likely: float) -> int:
    """Return how many of the likely ones are the name of their document, where it is many."""
    own = sum(s.own_name_likely for s in summaries)
    return own if own > SAME_NAME * likely else 0


def _level(settings: KeywordSettings) -> str:
    """Say what decides on the cut."""
    if settings.select == "best_f":
        return "the limit at which the expected F1 (precision and recall together) is largest"
    return f"so that at most {100.0 * settings.fdr:g} % are expected to be wrong"


def _documents(
    examples: Sequence[Example], documents: int, scores: bool, names: Names, doubt: str
) -> Section:
    least = -np.inf if scores else LEVELS[0]
    lists = [
        [[one for one in e.found if (one[1] > least) is likely] for likely in (True, False)]
        for e in examples
    ]
    sides = [True, any(rest for _, rest in lists)]
    rows = [
        (e.doc_id, *(_listed(own, scores) for own in compress(found, sides)), ", ".join(e.known))
        for e, found in zip(examples, lists, strict=True)
    ]
    text = f"Documents with the largest number of {'' if scores else 'likely '}new ones first."
    where = "the files keyphrases/*.jsonl of the run"
    kinds = f"{'' if scores else 'likely '}new {names.keys}", "less likely"
    columns = ("document", *compress(kinds, sides), f"known {names.keys}")
    grid = Grid(columns, rows, text, total=documents, where=where)
    how = f"Known {names.keys} came with the input; new ones were found{doubt}. Forms of one stem, "
    how += "such as a plural, are one, as they are written first."
    return Section(f"{names.keys.capitalize()} by document", "", (), (grid,), how=how)


def _likely(
    examples: Sequence[Example], settings: KeywordSettings, scores: bool, names: Names
) -> Section:
    """Show what comes next where nothing was found: is the level right?"""
    rows = [(e.doc_id, ", ".join(e.known), _listed(e.likely, scores)) for e in examples]
    text = (
        f"No unknown {names.unit} was selected (select={settings.select}, fdr={settings.fdr:g}). "
        f"These are the most probable ones of documents with many known {names.keys}, with their "
        f"probabilities. Where they look right, set a higher {names.rate} or a higher fdr. "
        f"All {names.units} are in the table keywords/."
    )
    grid = Grid(("document", f"known {names.keys}", "most probable"), rows)
    return Section(f"{names.keys.capitalize()} by document", text, (), (grid,))


def _gold(
    summaries: Sequence[KeywordSummary],
    results: dict[str, Any],
    expected: float | None,
    names: Names,
) -> list[Section]:
    """Precision, recall and F of the new units where the input came with true keywords."""
    confusion = sum((s.confusion for s in summaries), np.zeros(4, np.int64))
    if not confusion.sum():
        return []
    right, missed, wrong, _ = confusion.tolist()
    precision, recall = (right / max(right + other, 1) for other in (wrong, missed))
    f = 2 * right / max(2 * right + wrong + missed, 1)
    results.update(precision=precision, recall=recall, f=f)
    row = [precision, recall, f, 1.0 - precision]
    columns = ["precision", "recall", "F", "realised false share"]
    if expected is not None:
        row.append(expected)
        columns.append("expected false share")
    return [
        Section(
            f"Against the true {names.keys}",
            f"Over the documents whose true {names.keys} were given. Known ones are left out"
            + (", and so are true ones that are no candidates." if names is PHRASES else "."),
            (),
            (Grid(tuple(columns), [tuple(row)]),),
        )
    ]


def _texts(
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


def _frequent(terms: TermCounts, names: Names, scores: bool) -> list[Section]:
    """Show what was found in most documents, unless all is in one document each."""
    likely = terms.likely if terms.likely and not scores else terms.new
    most = [one for one in likely.most_common(MOST_FREQUENT) if one[1] > 1]
    if not most:
        return []
    labels, counts = [terms.written[stem] for stem, _ in most], [n for _, n in most]
    title = f"Most frequent {'likely ' if likely is terms.likely else ''}new {names.keys}"
    how = f"In how many documents each of the {len(most)} most frequent was found"
    how += " with a probability above 0.5" if likely is terms.likely else ""
    how += ". Forms of one stem are counted together, as they are written first."
    if fewer := (len(likely) - len(most)) * terms.whole:
        how += f" {fewer:,} more are in at most {counts[-1]:,}."
    return [Section(title, "", (plots.bars(labels, counts, "documents", title, how),))]


def _to_label(documents: Sequence[DocumentToLabel], names: Names, exact: bool) -> Section:
    rows = [
        (a.doc_id, a.candidates, a.known, f"{a.expected:.1f}", f"{100.0 * a.removes:.1f} %")
        for a in documents[:MOST_LABELLED]
    ]
    removed = [one.removes for one in documents[:MOST_LABELLED]]
    alike = len(removed) > 1 and min(removed) > 0.8 * max(removed)
    use = (
        f"If fewer are right than you need: write all {names.keys} of these documents "
        f"{'(each is about as good)' if alike else '(the first help most)'} into the column of the "
        "known ones, mark them in a column complete with yes, and run again"
    )
    use += f" without --set {names.rate}." if exact else "."
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
        narrows = f"they narrow the range of the estimated number of wrong {names.keys} by "
        narrows += _narrower(sum(removed))
        if exact:
            use += f"\nThe fit then learns the number of {names.keys} of a document from them in "
            use += f"place of yours: that is the main gain. By themselves {narrows}."
        else:
            use += f"\n{narrows[0].upper()}{narrows[1:]}."
        if len(documents) > len(removed):
            use += f" The table ask/ has {len(documents)} documents: "
            use += f"{_narrower(sum(one.removes for one in documents))}."
        return Section("Documents worth labelling next", use)
    grid = Grid(columns, rows, total=len(documents), where="the table ask/")
    return Section("Documents worth labelling next", use, (), (grid,), how=how)


def _narrower(removed: float) -> str:
    """Return by how much a standard deviation falls with a share of the variance."""
    return f"{100.0 * (1.0 - max(1.0 - removed, 0.0) ** 0.5):.0f} %"


_DOUBT = ", most with a probability below 0.5: each of those is more likely wrong than right"
