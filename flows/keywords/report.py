"""What the keywords report says, from small summaries of the partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from flows.data.run_tables import Parameter
from flows.keywords.document_sections import (
    DOUBT,
    documents_section,
    frequent_sections,
    label_section,
    likely_section,
    listed,
    texts_section,
)
from flows.keywords.settings import SCORES, KeywordSettings
from flows.keywords.summary import (
    BINS,
    LEVELS,
    MOST_DOCUMENTS,
    PHRASES,
    Given,
    HiddenLists,
    KeywordSummary,
    Names,
    TermCounts,
    names_of,
    order_of,
)
from flows.keywords.texts import within_page
from flows.keywords.tiles import MOST_UNSURE, next_steps, tiles_of
from flows.report import plots
from flows.report.labels import share_in_words
from flows.report.page import Findings, Grid, Section
from vbmodels.core.state import FloatArray
from vbmodels.keywords.corpus.model import CorpusProbit, coefficient_table
from vbmodels.keywords.corpus.reliability import doubts, few_documents
from vbmodels.keywords.corpus.states import CorpusGlobal
from vbmodels.keywords.hidden_lists import BEST
from vbmodels.keywords.rate_prior import SOURCES

MOST_R_HAT = 1.05
BETTER_BY_TF_IDF = (
    "TF-IDF ranks the known ones better: more known ones, or another kind of list (lists), may "
    "help."
)
SAME_NAME = 0.05  # share of the likely ones that are their document's name, from which it is said


def parameters_of(model: CorpusProbit, q: CorpusGlobal, names: Names) -> list[Parameter]:
    """Return the coefficients, the rate and the length exponent."""
    log_sd = q.sources.combined()[1]
    coefficients = coefficient_table(model, q, names.features[: len(q.location)])
    return [
        *(Parameter("coefficient", *row) for row in coefficients),
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
    results: dict[str, Any] = {}
    if model is not None and q is not None:
        results.update(
            keyword_rate=q.rate,
            keyword_rate_log_sd=q.sources.combined()[1],
            keyword_rate_sources=[SOURCES[i] for i in q.sources.speaking],
            length_exponent=q.exponent,
            length_exponent_sd=model.exponent_sd(q),
        )
        # `notices.rate_question` says so where neither the number nor the kind is given.
        is_said = q.sources.estimated and settings.kind is None and not scored
        reasons = few_documents(q) if is_said else doubts(q, names.rate, again=scored)
        warnings += tuple(f"The false discovery rate is not reliable: {one}." for one in reasons)
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
    expected, above = None, 0
    measured = any(s.confusion.any() for s in summaries)
    to_label = [one for s in summaries for one in s.to_label]
    if not scores:
        results["expected_false"] = sum(s.expected_false for s in summaries)
        if found:
            expected = results["expected_false_share"] = results["expected_false"] / found
            right = np.sum([s.expected_true for s in summaries], axis=0) / found
            results["expected_right"] = [float(right.min()), float(right.max())]
            rates = [s.by_rate for s in summaries if s.by_rate is not None]
            if rates:
                results["expected_right_by_rate"] = (np.sum(rates, axis=0)[0] / found).tolist()
            above = int(sum(s.above[0, 0] for s in summaries))
            if right.max() - right.min() > MOST_UNSURE:
                headline += "; so few words cannot tell how many are right"
            elif 0 < above < found:
                headline = _likely_first(summaries, results, settings, (above, found, observed))
            else:
                headline += (
                    f"; {_percent(right)} expected to be right, "
                    f"{'each' if above else 'none'} more probable than not"
                )
    hidden = next((s.hidden for s in summaries if s.hidden is not None), None)
    if hidden is not None:
        results.update(known_among_best=hidden.by_model, known_among_best_tf_idf=hidden.by_tf_idf,
                       known_among_best_apart=list(hidden.apart),
                       known_compared=hidden.known)  # fmt: skip
        if hidden.apart[2] < 0.0:
            warnings += (BETTER_BY_TF_IDF,)
    sections = frequent_sections(terms, names, scores) if found else []
    if not scores:
        sections.append(_which(summaries, results, settings, names, hidden))
    if texts := within_page([one for s in summaries for one in s.shown]):
        sections.append(texts_section(texts, rows, terms, scores, names))
    doubt = "" if scores or above >= 0.5 * found else DOUBT
    sections.append(
        documents_section(examples, documents, scores, names, doubt)
        if found
        else likely_section(examples, settings, scores, names)
    )
    sections += _gold(summaries, results, expected, names)
    if to_label:
        exact = q is not None and q.sources.exact
        sections.append(label_section(to_label, names, exact, measured))
    results.update(documents=documents, documents_with_new=with_new, candidates=candidates)
    results["documents_with_known"] = sum(s.with_known for s in summaries)
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
        {"doc_id": e.doc_id, "known": ", ".join(e.known), "found": listed(e.found, scores)}
        for e in examples[:20]
    ]
    mean, named = settings.keyphrases, _named(summaries, above)
    if above and not scores:
        results["likely_own_name"] = named
    return Findings(
        headline, sections, results, warnings, top,
        tiles_of(results, names.unit, names.keys),
        next_steps(scores, above - named, measured, mean is not None, bool(named)),
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


def _which(
    summaries: Sequence[KeywordSummary], results: dict[str, Any], settings: KeywordSettings,
    names: Names, hidden: HiddenLists | None,
) -> Section:  # fmt: skip
    """Say which new ones are selected, and how many of those above each level are right."""
    cut, most = summaries[0].cut
    found = sum(s.selected - s.observed for s in summaries)
    against = "No other method was compared."
    if hidden is not None:
        against = (
            f"TF-IDF is compared on {hidden.known:,} known ones, at most {BEST} of a "
            "document, ranked as if its list were not known."
        )
    text = f"None is selected.\n{against}"
    grids: list[Grid] = []
    if found:
        limit = ""
        if most is not None:
            results["most_per_document"] = most
            limit = f"No new ones beyond {most} in a document, known ones counted (per_document)"
        elif settings.per_document is not None:
            limit = f"At most {settings.per_document} new ones in a document"
        right = np.array(results["expected_right"])
        above = np.sum([s.above for s in summaries], axis=0)
        lines = []
        if 0 < above[0, 0] < found:
            lines.append(_likely_ones(summaries, above, found))
        rates = [s.by_rate for s in summaries if s.by_rate is not None]
        given = getattr(settings, names.rate) if rates else None
        if given is not None:
            lines.append(
                f"Every share of right ones follows from your {names.rate}={given:g}: the table "
                f"has those of fits with {0.5 * given:g} and {2.0 * given:g}, too."
            )
        lines.append(against)
        if parts := sum(s.parts for s in summaries):
            example = next(s.example for s in summaries if s.example)
            lines.append(
                f"{parts:,} of the {found:,} are words of a longer one that is selected or known, "
                f"too ({example}): take that where it says more. The column part_of of the table "
                "and of likely.csv names it."
            )
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
        how = (
            f"New {names.keys} above a probability, the share expected to be right, and the share"
            f" of the {whole:,.0f} new ones expected in the texts."
        )
        if beyond + alike:
            how += f" The chart has the {beyond + alike:,}, too, that the rules leave out."
        grids.append(Grid(columns, rows, how))
    counts = sum((s.histogram for s in summaries), np.zeros(BINS, np.int64))
    centres = (np.arange(BINS) + 0.5) / BINS
    title = f"Probabilities of all candidate {names.units} that were not known"
    plot = plots.histogram(
        centres, f"probability of being a {names.key}", f"candidate {names.units}", title,
        counts=counts, limit=cut if found else None,
    )  # fmt: skip
    return Section(f"Which new {names.keys} to take", text, (plot,), grids)


def _likely_first(
    summaries: Sequence[KeywordSummary], results: dict[str, Any], settings: KeywordSettings,
    counts: tuple[int, int, int],
) -> str:  # fmt: skip
    """Say how many are more probable than not and how many of them are right, then the others."""
    likely, found, observed = counts
    rest, sure = found - likely, sum(s.above[0, 1] for s in summaries)
    others = (found - results["expected_false"] - sure) / rest
    documents, with_likely = (sum(getattr(s, n) for s in summaries)
                              for n in ("documents", "with_likely"))  # fmt: skip
    results.update(likely=likely, likely_right=sure / likely, less_likely_right=others,
                   documents_with_likely=with_likely)  # fmt: skip
    what, where = _found(likely, with_likely, documents, observed, names_of(settings), "likely ")
    said = f"{what} in {where}; {share_in_words(sure / likely)} right by the model's own estimate"
    rates = [s.by_rate[1] for s in summaries if s.by_rate is not None]
    if (each := settings.keyphrases) is not None and rates:
        low, high = (_percent(one) for one in np.sum(rates, axis=0).T / likely)
        said += (
            f" ({low} if documents have {each / 2.0:g} keyphrases each, {high} if "
            f"{2.0 * each:g}; you set {each:g})"
        )
    return f"{said}; {rest:,} less likely, {share_in_words(others)} right"


def _likely_ones(summaries: Sequence[KeywordSummary], above: FloatArray, found: int) -> str:
    """Say what the more probable ones are good for, and the others."""
    likely = int(above[0, 0])
    wrong = [
        f"about {count - sure:,.0f} of the {count:,.0f} above {level}"
        for level, (count, sure) in zip(LEVELS, above.tolist(), strict=True)
        if count
    ]
    text = (
        f"Read the {likely:,} likely ones and strike the wrong: {' and '.join(wrong)}. The first "
        "command under What to do next writes them to likely.csv"
    )
    if named := _named(summaries, likely):
        false = likely - named - above[0, 1] + sum(s.own_name_right for s in summaries)
        text = (
            f"Read the {likely - named:,} rows of likely.csv, which the first command under What "
            f"to do next writes, and strike the wrong: about {false:,.0f}. They are the {likely:,} "
            f"likely ones ({' and '.join(wrong)} wrong) without {named:,} that are the name of "
            "their document"
        )
    text += f". Choose from the {found - likely:,} others by hand if a missing one costs "
    return f"{text}you more than reading several wrong ones."


def _named(summaries: Sequence[KeywordSummary], likely: float) -> int:
    """Return how many of the likely ones are the name of their document, where it is many."""
    own = sum(s.own_name_likely for s in summaries)
    return own if own > SAME_NAME * likely else 0


def _level(settings: KeywordSettings) -> str:
    """Say what decides on the cut."""
    if settings.select == "best_f":
        return "the limit at which the expected F1 (precision and recall together) is largest"
    return f"so that at most {100.0 * settings.fdr:g} % are expected to be wrong"


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
