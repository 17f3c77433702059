"""What the keywords report says, from small summaries of the partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.data.run_tables import Parameter
from flows.keywords.settings import SCORES, KeywordSettings
from flows.keywords.texts import LONGEST, ShownDocument, within_page
from flows.keywords.tiles import next_steps, tiles_of
from flows.report import plots
from flows.report.page import Findings, Grid, Section, Widget
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.keywords.corpus.model import (
    CorpusGlobal,
    CorpusProbit,
    coefficient_table,
    doubts,
    few_documents,
)
from vbmodels.keywords.features import FEATURE_NAMES
from vbmodels.keywords.phrases.features import PHRASE_FEATURES
from vbmodels.keywords.rate_prior import SOURCES

MOST_TERMS = 5000  # carried from each partition
MOST_DOCUMENTS = 300  # in the table
MOST_LIKELY = 8  # words of a document, where none is found
BINS = 40
LEVELS = 0.5, 0.8  # probabilities from which the report counts new keywords
MOST_R_HAT = 1.05
MOST_LABELLED = 10  # documents worth labelling that are shown
MOST_FEATURES = 12  # whose effect is drawn
MOST_FREQUENT = 15  # drawn
_BY_KNOWN = "known_alone", "beside_known"
SAME_NAME = 0.05  # share of the new ones that are their document's name, from which it is said


@dataclass(frozen=True)
class Names:
    """What the report calls a unit, the setting that gives its rate, and its features."""

    unit: str
    units: str
    key: str
    keys: str
    rate: str
    features: tuple[str, ...]


WORDS = Names("word", "words", "keyword", "keywords", "keyword_rate", FEATURE_NAMES)
PHRASES = Names("phrase", "phrases", "keyphrase", "keyphrases", "keyphrases", PHRASE_FEATURES)


def names_of(settings: KeywordSettings) -> Names:
    """Return what the candidates are called."""
    return PHRASES if settings.with_phrases else WORDS


@dataclass(frozen=True)
class Example:
    """One document's known keyphrases, what was found, and what comes next."""

    doc_id: str
    known: tuple[str, ...]
    found: tuple[tuple[str, float], ...]  # with their probabilities, best first
    likely: tuple[tuple[str, float], ...]  # the best of those that are neither


@dataclass(frozen=True)
class DocumentToLabel:
    """A document worth labelling: a row of the table ask/."""

    place: int
    doc_id: str
    candidates: int
    known: int
    expected: float
    removes: float


@dataclass(frozen=True)
class TermCounts:
    """Keyphrases of a corpus, or of a part of it, by stem.

    Attributes
    ----------
    new, known, likely
        In how many documents each is found, given, and found with a probability above 0.5:
        `MOST_TERMS` of a partition.
    written
        How each is written.
    whole
        Whether all are here.
    """

    new: Counter[str]
    known: Counter[str]
    likely: Counter[str]
    written: dict[str, str]
    whole: bool = True

    def __add__(self, other: TermCounts) -> TermCounts:
        return TermCounts(
            self.new + other.new,
            self.known + other.known,
            self.likely + other.likely,
            other.written | self.written,
            self.whole and other.whole,
        )


def _count_terms(table: pa.Table, found: Any, observed: Any, likely: Any) -> TermCounts:
    written: dict[str, str] = {}
    counts, whole = [], True
    for rows in (found, observed, likely):
        own = table.select(["stem", "term"]).filter(pa.array(rows)).to_pydict()
        for stem, term in zip(own["stem"], own["term"], strict=True):
            written.setdefault(stem, term)
        count = Counter(own["stem"])
        whole &= len(count) <= MOST_TERMS
        counts.append(Counter(dict(count.most_common(MOST_TERMS))))
    new, known, sure = counts
    written = {stem: term for stem, term in written.items() if stem in new or stem in known}
    return TermCounts(new, known, sure, written, whole)


@dataclass(frozen=True)
class Given:
    """The known keyphrases of the input: how many, and how many are in no text of theirs."""

    listed: int
    absent: int


@dataclass(frozen=True)
class KeywordSummary:
    """What one partition adds to the report.

    Attributes
    ----------
    histogram
        [BINS] candidates that were not observed, by probability.
    confusion
        [4] new candidates with known truth: true and selected, true and not selected, false and
        selected, neither.
    expected_false
        Of the new selected ones, how many the model expects to be no keywords.
    expected_true
        [K] how many it expects to be keywords at each node of the rate.
    above
        [L, 2] new ones more probable than each of `LEVELS`, and the sum of their probabilities.
    expected
        The sum of the probabilities of all candidates.
    with_new, with_likely
        How many documents have a new keyword, and one with a probability above 0.5.
    own_name, beside_known
        How many new ones are the name of their document, and in a document with known ones.
    known_alone
        How many documents have known ones and no new one.
    with_known, most_known
        How many have a known one; and the most that one of them has, with its name.
    beyond_limit, alike
        New candidates above the least probability that are not selected: beyond the most that a
        document may have; and parts or near copies of others.
    cut
        The least probability that is selected in all partitions, and how many keywords a document
        may have, its known ones counted; None where documents have cuts of their own or no limit.
        The first partition has it.
    to_label
        Documents worth labelling, of all partitions: the first one has them.
    shown
        Documents whose text the report shows.
    scored
        Whether they were scored by an earlier fit.
    """

    documents: int
    candidates: int
    observed: int
    selected: int
    expected_false: float
    expected_true: FloatArray
    terms: TermCounts
    histogram: IntArray
    confusion: IntArray
    examples: tuple[Example, ...]
    r_hat: float | None
    above: FloatArray
    expected: float = 0.0
    with_new: int = 0
    with_likely: int = 0
    own_name: int = 0
    beside_known: int = 0
    known_alone: int = 0
    with_known: int = 0
    most_known: tuple[int, str] = (0, "")
    beyond_limit: int = 0
    alike: int = 0
    cut: tuple[float | None, int | None] = (None, None)
    to_label: tuple[DocumentToLabel, ...] = ()
    shown: tuple[ShownDocument, ...] = ()
    scored: bool = False


def summarise(
    table: pa.Table, gold: pa.ChunkedArray, offsets: IntArray, by_node: FloatArray,
    r_hat: float | None, shown: tuple[ShownDocument, ...] = (),
) -> KeywordSummary:  # fmt: skip
    """Summarise one partition's rows of the keywords table, and its sampler if there was one.

    ``by_node`` [K, M] are the rows' probabilities at each node of the rate.
    """
    probability = table["probability"].to_numpy()
    observed, selected = (table[name].to_numpy().astype(bool) for name in ("observed", "selected"))
    found = selected & ~observed
    sure = found & (probability > LEVELS[0])
    new, given, likely = (
        np.diff(np.concatenate([[0], np.cumsum(on)])[offsets]) for on in (found, observed, sure)
    )
    names = (pc.utf8_lower(table[column].cast(pa.string())) for column in ("term", "doc_id"))
    own_name = found & pc.equal(*names).to_numpy()
    most_known = (0, "")
    if given.any():
        d = int(given.argmax())
        most_known = (int(given[d]), table["doc_id"][int(offsets[d])].as_py())
    # The words that the user gave prove nothing of what was found.
    known = pc.is_valid(gold).to_numpy().astype(bool) & ~observed
    true = pc.fill_null(gold, False).to_numpy().astype(bool)
    confusion = [
        int(np.sum(known & (true == t) & (selected == s))) for t in (True, False)
        for s in (True, False)
    ]  # fmt: skip
    return KeywordSummary(
        documents=len(offsets) - 1,
        candidates=len(table),
        observed=int(observed.sum()),
        selected=int(selected.sum()),
        expected_false=float(np.sum(1.0 - probability[found])),
        expected_true=by_node[:, found].sum(axis=1),
        terms=_count_terms(table, found, observed, sure),
        histogram=np.histogram(probability[~observed], bins=BINS, range=(0.0, 1.0))[0],
        confusion=np.array(confusion, np.int64),
        examples=_examples(table, offsets, probability, observed, selected),
        r_hat=r_hat,
        above=_above(probability[found]),
        expected=float(probability.sum()),
        with_new=int(np.count_nonzero(new)),
        with_likely=int(np.count_nonzero(likely)),
        own_name=int(np.count_nonzero(own_name)),
        beside_known=int(new[given > 0].sum()),
        known_alone=int(np.count_nonzero((new == 0) & (given > 0))),
        with_known=int(np.count_nonzero(given)),
        most_known=most_known,
        shown=shown,
    )


def _above(probability: FloatArray) -> FloatArray:
    """Return how many are more probable than each of `LEVELS`, and their sum, [L, 2]."""
    counted = [probability[probability > level] for level in LEVELS]
    return np.array([(one.size, one.sum()) for one in counted])


def _examples(
    table: pa.Table, offsets: IntArray, probability: Any, observed: Any, selected: Any
) -> tuple[Example, ...]:
    """Take the documents with most known and found keyphrases, then in order."""
    worth = np.zeros(0, int)
    if len(observed):
        known = np.add.reduceat(observed.astype(int), offsets[:-1])
        found = np.add.reduceat((selected & ~observed).astype(int), offsets[:-1])
        likely = np.add.reduceat((probability > LEVELS[0]) & selected & ~observed, offsets[:-1])
        worth = _worth_showing(known, found, likely)
    chosen = sorted(np.argsort(-worth, kind="stable")[:MOST_DOCUMENTS])
    examples = []
    for d in chosen:
        first = int(offsets[d])
        own = slice(first, int(offsets[d + 1]))
        terms = table["term"].slice(first, own.stop - first).to_pylist()
        sure, known, taken = (a[own].tolist() for a in (probability, observed, selected))
        unknown = sorted((i for i, k in enumerate(known) if not k), key=lambda i: -sure[i])
        best = [i for i in unknown if taken[i]]
        rest = [i for i in unknown if not taken[i]][:MOST_LIKELY]
        examples.append(
            Example(
                doc_id=table["doc_id"][first].as_py(),
                known=tuple(term for term, k in zip(terms, known, strict=True) if k),
                found=tuple((terms[i], sure[i]) for i in best),
                likely=tuple((terms[i], sure[i]) for i in rest),
            )
        )
    return tuple(examples)


def _worth_showing(known: Any, found: Any, likely: Any) -> Any:
    """Return what an example shows: most where many likely ones are found, then many of any."""
    return 1e6 * likely + 1e3 * found + np.minimum(known, 6)


def _shows(example: Example) -> float:
    likely = sum(p > LEVELS[0] for _, p in example.found)
    return -float(_worth_showing(len(example.known), len(example.found), likely))


def parameters_of(model: CorpusProbit, q: CorpusGlobal, names: Names) -> list[Parameter]:
    """Return the coefficients, the rate and the length exponent."""
    log_sd = q.sources.combined()[1]
    return [
        *(Parameter("coefficient", *row) for row in _table(model, q, names)),
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
        results.update(_rate_results(q, model))
        listed = "" if given is None else _lists(summaries, given, names)
        share_of = (documents, candidates, share)
        more.append(_rate_section(q, model, settings, share_of, listed, summaries[0].cut[1]))
        # `notices.rate_question` says so where neither the number nor the kind is given.
        is_said = q.sources.estimated and settings.kind is None and not scored
        reasons = few_documents(q) if is_said else doubts(q, names.rate, again=scored)
        warnings += tuple(f"The false discovery rate is not reliable: {one}." for one in reasons)
        varies = np.isfinite(q.scale)
        table = zip(_table(model, q, names), varies, strict=True)
        coefficients = [row for row, it in table if it and row[0] != "intercept"]
    found = sum(s.selected - s.observed for s in summaries)
    with_new = sum(s.with_new for s in summaries)
    terms = sum((s.terms for s in summaries), TermCounts(Counter(), Counter(), Counter(), {}))
    scores = settings.model in SCORES
    examples = [e for s in summaries for e in s.examples]
    examples = sorted(examples, key=_shows)
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
            above, sure = np.sum([s.above[0] for s in summaries], axis=0)
            if 0 < above < found:
                rest = found - int(above)
                others = 100.0 * (found - results["expected_false"] - sure) / rest
                number = sum(s.with_likely for s in summaries)
                what, where = _found(int(above), number, documents, observed, names, "likely ")
                headline = (
                    f"{what} in {where} (about {100.0 * sure / above:.0f} % right) and {rest:,} "
                    f"less likely (about {others:.0f} % right), by the model's own estimate"
                )
                if q is not None and q.sources.exact and settings.keyphrases is not None:
                    headline += f" from your {settings.keyphrases:g} per document"
                headline += f" ({_percent(right)} of all)" * ("to" in _percent(right))
            else:
                headline += f"; {_percent(right)} expected to be right, "
                headline += f"{'each' if above else 'none'} more probable than not"
    sections = _frequent(terms, names, scores) if found else []
    if not scores:
        sections.append(_which(summaries, results, settings, names, measured))
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
        learned = _learned(summaries, names) if known_to_fit else ""
        warnings += () if scored else _from_one(summaries, names)
        sections.append(_coefficients(coefficients, learned, names))
    results.update(documents=documents, documents_with_new=with_new, candidates=candidates)
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
    mean = settings.keyphrases
    return Findings(
        headline, sections, results, warnings, top,
        tiles_of(results, names.unit, names.keys, mean),
        next_steps(scores, int(above), measured),
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


def _lists(summaries: Sequence[KeywordSummary], given: Given, names: Names) -> str:
    """Say how long the user's lists are."""
    known, where = (sum(getattr(s, n) for s in summaries) for n in ("observed", "with_known"))
    if not where:
        return ""
    text = f"Your lists of known {names.keys} have about {given.listed / where:.0f} each, "
    text += f"{known / where:.1f} of them in the text"
    return f"{text}. Such a mean is the number to set only if the lists are complete."


def _learned(summaries: Sequence[KeywordSummary], names: Names) -> str:
    """Say what the effects were learned from."""
    known, where = (sum(getattr(s, n) for s in summaries) for n in ("observed", "with_known"))
    if not known:
        return f" No {names.key} is known here: these are the effects in other corpora."
    documents = sum(s.documents for s in summaries)
    text = f" Learned from {known:,} known {names.keys} in {where:,} of {documents:,} documents"
    return f"{text}."


def _from_one(summaries: Sequence[KeywordSummary], names: Names) -> tuple[str, ...]:
    """Warn of a document that has many of the known ones, from which the fit learns."""
    known, where = (sum(getattr(s, n) for s in summaries) for n in ("observed", "with_known"))
    most, name = max(s.most_known for s in summaries)
    if not known or most < max(0.1, 5.0 / where) * known:
        return ()
    return (
        f"{name} alone has {most:,} of the {known:,} known {names.keys} that are learned from "
        f"({100.0 * most / known:.0f} %; the others have {(known - most) / max(where - 1, 1):.1f} "
        "each): if its list is unlike theirs, shorten it.",
    )


def _percent(shares: FloatArray) -> str:
    """Return the range of shares in whole per cent, one number where it has no width."""
    low, high = f"{100.0 * shares.min():.0f}", f"{100.0 * shares.max():.0f}"
    return f"{low} %" if low == high else f"{low} to {high} %"


def _table(
    model: CorpusProbit, q: CorpusGlobal, names: Names
) -> tuple[tuple[str, float, float], ...]:
    return coefficient_table(model, q, names.features[: len(q.location)])


def _listed(words: Sequence[tuple[str, float]], scores: bool) -> str:
    return ", ".join(f"{term} {'' if scores else f'{p:.2f}'}".strip() for term, p in words)


def _which(
    summaries: Sequence[KeywordSummary], results: dict[str, Any], settings: KeywordSettings,
    names: Names, measured: bool,
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
            limit = f"No more in a document that has {most}, known ones counted (per_document)"
        elif settings.per_document is not None:
            limit = f"At most {settings.per_document} new ones in a document"
        right = np.array(results["expected_right"])
        above, text = np.sum([s.above for s in summaries], axis=0), ""
        if above[0, 0] < found:
            text = f"If {_percent(right)} right is too few for you, take those above {LEVELS[0]}: "
            text += "the first command under What to do next writes them to a file.\n"
        without = sum(s.documents - s.with_new for s in summaries)
        alone, beside = (sum(getattr(s, n) for s in summaries) for n in _BY_KNOWN)
        if alone or beside:
            text += f"{found - beside:,} of the {found:,} are in documents without known ones. "
        if without:
            text += f"{without:,} documents have no new one"
            text += f"; {alone:,} of these have known ones" * bool(alone) + ".\n"
        text += "The rules of the selection:"
        if cut is None:
            text += f"\n• Of each document {_level(settings)} (select={settings.select})."
        else:
            results["least_probability"] = cut
            text += f"\n• A probability of at least {cut:.3f}: {_level(settings)} "
            text += f"(select={settings.select})."
        beyond, alike = (sum(getattr(s, n) for s in summaries) for n in ("beyond_limit", "alike"))
        if limit:
            text += f"\n• {limit}{f': {beyond:,} left out' * bool(beyond)}."
        if alike:
            text += (
                f"\n• Parts or near copies of others: {alike:,} left out. Parts that are probable "
            )
            text += "by themselves are taken too."
        if (same := sum(s.own_name for s in summaries)) > SAME_NAME * found:
            text += f"\n{same:,} of the {found:,} are the name of their document."
        if not measured:
            text += "\nHow many are right was not measured, and no other method was compared."
        all_of = "all" if cut is None else f"{cut:.3f} (all that are selected)"
        whole = sum(s.expected - s.observed for s in summaries)
        rows = [(all_of, found, _percent(right), _percent(right * found / whole))]
        rows += [
            (
                f"{level}",
                int(count),
                f"{100.0 * sure / count:.0f} %",
                f"{100.0 * sure / whole:.0f} %",
            )
            for level, (count, sure) in zip(LEVELS, above, strict=True)
            if 0 < count < found
        ]
        columns = (
            "probability above", f"new {names.keys}", "expected right",
            f"of all {whole:,.0f} expected in the texts",
        )  # fmt: skip
        grids.append(Grid(columns, rows))
    counts = sum((s.histogram for s in summaries), np.zeros(BINS, np.int64))
    centres = (np.arange(BINS) + 0.5) / BINS
    title = f"Probabilities of all candidate {names.units} that were not known"
    plot = plots.histogram(
        centres, f"probability of being a {names.key}", f"candidate {names.units}", title,
        counts=counts, limit=cut if found else None,
    )  # fmt: skip
    return Section(f"Which new {names.keys} to take", text, (plot,), grids)


def _level(settings: KeywordSettings) -> str:
    """Say what decides on the cut."""
    if settings.select == "best_f":
        return "the limit at which the expected F1 (precision and recall together) is largest"
    return f"so that at most {100.0 * settings.fdr:g} % are expected to be wrong"


def _documents(
    examples: Sequence[Example], documents: int, scores: bool, names: Names, doubt: str
) -> Section:
    rows = [(e.doc_id, _listed(e.found, scores), ", ".join(e.known)) for e in examples]
    text = f"Documents with the largest number of {'' if scores else 'likely '}new ones first."
    where = "the files keyphrases/*.jsonl of the run"
    new = f"new {names.keys}" + ("" if scores else " with their probability")
    columns = ("document", new, f"known {names.keys}")
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
        how += f" {fewer:,} more are in fewer documents, or in as many."
    return [Section(title, "", (plots.bars(labels, counts, "documents", title, how),))]


def _to_label(documents: Sequence[DocumentToLabel], names: Names, exact: bool) -> Section:
    rows = [
        (a.doc_id, a.candidates, a.known, f"{a.expected:.1f}", f"{100.0 * a.removes:.1f} %")
        for a in documents[:MOST_LABELLED]
    ]
    removed = [one.removes for one in documents[:MOST_LABELLED]]
    alike = len(removed) > 1 and min(removed) > 0.8 * max(removed)
    use = (
        f"List all {names.keys} of these documents, "
        f"{'in any order (each is about as good)' if alike else 'in this order'}, and "
        "mark them complete (column complete: yes). The next run then knows better how many of its "
        "selections are right."
    )
    if exact:
        use += (
            f" Run it without --set {names.rate}: that number is then learned from these documents "
            "too."
        )
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
        use += f"\n{listed}: they lower the variance of the estimated number of wrong {names.keys} "
        use += f"by {100.0 * sum(removed):.0f} %. All are in the table ask/."
        return Section("Documents worth labelling next", use)
    grid = Grid(columns, rows, total=len(documents), where="the table ask/")
    return Section("Documents worth labelling next", use, (), (grid,), how=how)


def _rate_results(q: CorpusGlobal, model: CorpusProbit) -> dict[str, Any]:
    """Return the rate, the length exponent and their standard deviations for the record."""
    return {
        "keyword_rate": q.rate,
        "keyword_rate_log_sd": q.sources.combined()[1],
        "keyword_rate_sources": [SOURCES[i] for i in q.sources.speaking],
        "length_exponent": q.exponent,
        "length_exponent_sd": model.exponent_sd(q),
    }


def _rate_section(
    q: CorpusGlobal, model: CorpusProbit, settings: KeywordSettings,
    found: tuple[int, int, float], listed: str, most: int | None,
) -> Section:  # fmt: skip
    """Name every source of the rate with its factor and sd, and what they give together.

    ``found`` are the documents, the candidates, and the mean probability of these; ``listed`` says
    how long the lists of known ones are, ``most`` how many a document may have.
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
        f"The share of the candidate {names.units} that is assumed to be {names.keys} before the "
        f"known ones are counted. All probabilities rise and fall with it."
    )  # fmt: skip
    if q.sources.exact:
        given = getattr(settings, names.rate)
        text = f"You set {names.rate}={given:g}"
        if names is PHRASES:
            text += f" a text; {100.0 * q.rate * size / given:.0f} % of them are expected to be in "
            text += f"it, so {q.rate * size:.1f} {of} are assumed"
        text += f"; with the known ones the probabilities add up to {share * size:.1f}"
        text += f"; a document gets at most {most}, 1.5 times yours" * (most is not None) + "."
        if abs(share - q.rate) > 0.05 * q.rate:
            text += f" To check, list all {names.keys} of five documents"
            text += ", those too that are not in the text" * (names is PHRASES)
            text += f", and set {names.rate} to their mean number."
        if listed:
            text += f"\n{listed}"
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


def _coefficients(
    coefficients: Sequence[tuple[str, float, float]], learned: str, names: Names
) -> Section:
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


_DOUBT = ", most with a probability below 0.5: each of those is more likely wrong than right"
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
