"""Tables keywords/ and ask/ and the files keyphrases/, written once the selection is decided."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows import storage
from flows.family import Each
from flows.keywords.schema import ASK, KEYWORDS
from flows.keywords.settings import KeywordSettings
from flows.keywords.summary import DocumentToLabel, KeywordSummary, Whole, summarise
from flows.keywords.texts import shown_documents
from flows.keywords.work import read_listed, read_wide
from flows.records.runs import RunPaths
from flows.records.states import read_state
from vbmodels.core.state import BoolArray, FloatArray, IntArray, State, to_bytes
from vbmodels.keywords.corpus.selection import (
    BINS,
    Histogram,
    UncertainSelections,
    bins_of,
    choose_documents,
    most_new,
    probability_of,
    select_above,
    select_in_documents,
    uncertain_selections,
)
from vbmodels.keywords.corpus.states import CorpusGlobal
from vbmodels.keywords.selection import (
    with_whole_phrases,
    without_near_duplicates,
    without_parts,
    word_ranks,
)
from vbmodels.text.candidates import UNKNOWN_TRUTH, DocumentTokens, Marks, spans_of
from vbmodels.text.result_rows import JoinedTexts, ResultRows, longer_phrases, written


@dataclass(frozen=True)
class Scores(State, kind="flows/keywords.Scores"):
    """What a model gives every candidate of a partition.

    Attributes
    ----------
    probability
        [M], or a score.
    offsets
        [D + 1] the first candidates of the documents that have any.
    complete
        [D] whether their keywords are all known.
    by_node, weights
        [K, M] and [K]: probabilities at each node of the rate; None where there are none. Those at
        half a given rate and at twice it have weights 0.
    """

    probability: FloatArray
    offsets: IntArray
    complete: BoolArray
    by_node: FloatArray | None = None
    weights: FloatArray | None = None


@dataclass(frozen=True)
class Scored:
    """What one partition says of its scores: its number, and a histogram for the threshold."""

    index: int
    histogram: Histogram | None


@dataclass(frozen=True)
class Published:
    """What one partition's table adds: to the report, and of documents worth labelling."""

    summary: KeywordSummary
    open: UncertainSelections | None


def keep_scores(
    scores: Scores,
    y: BoolArray,
    index: int,
    number: int | None,
    settings: KeywordSettings,
    paths: RunPaths,
) -> Scored:
    """Keep a partition's scores until the selection is decided; ``number`` as in `publish`."""
    storage.write_bytes(paths.part("scores", index, "npz"), to_bytes(scores))
    histogram = None
    if settings.over_corpus:
        most = _most(number, y, scores.offsets, settings)
        histogram = Histogram.of(scores.probability, y, scores.offsets, most)
    return Scored(index, histogram)


def _most(
    number: int | None, observed: BoolArray, offsets: IntArray, settings: KeywordSettings
) -> int | IntArray | None:
    """Return how many new candidates of a document may be selected."""
    if settings.per_document is not None or number is None:
        return settings.per_document
    return most_new(number, observed, offsets)


def publish(
    scored: Sequence[Scored],
    q: CorpusGlobal | None,
    learned: bool,
    number: int | None,
    settings: KeywordSettings,
    paths: RunPaths,
    each: Each,
) -> Whole:
    """Decide the threshold over all partitions, write their tables and the table ask/.

    Parameters
    ----------
    scored
        All partitions.
    q
        The candidates' regression over the corpus; None where there is none.
    learned
        Whether the fit had a known candidate, or other corpora, to learn from. If not none is
        selected: all are alike, and expected F would be largest for all of them together.
    number
        How many keyphrases are selected in a document at most, its known ones counted; None: no
        limit.
    """
    histograms = [part.histogram for part in scored if part.histogram is not None]
    least = None
    if histograms:
        least = reduce(add, histograms).least(settings.select or "fdr", settings.fdr)
    if not learned:
        least = BINS
    indices = [part.index for part in scored]
    published = each(_write, indices, len(indices), least, number, settings, paths)
    parts = [part.open for part in published if part.open is not None]
    to_label: list[DocumentToLabel] = []
    if q is not None and parts:
        to_label = _choose(indices, parts, q, settings.ask, paths)
    return Whole(
        [part.summary for part in published],
        least=None if least in (None, BINS) else probability_of(least),
        most=number if settings.per_document is None else None,
        to_label=to_label,
    )


def _write(
    index: int,
    partitions: int,
    least: int | None,
    number: int | None,
    settings: KeywordSettings,
    paths: RunPaths,
) -> Published:
    """Write probability, selection and rank of every candidate of a partition."""
    scores = read_state(paths.part("scores", index, "npz"), Scores)
    tokens = read_wide(paths.part("tokens", index, "npz"), DocumentTokens)
    marks = read_wide(paths.part("marks", index, "npz"), Marks)
    vocabulary = _column(paths, "vocabulary", index).to_pylist()
    names = _column(paths, "documents", index)
    spans = spans_of(tokens, vocabulary, settings.with_phrases)
    forms = _column(paths, "forms", index).to_pylist()
    r, observed = scores.probability, marks.y
    chosen = _selected(r, observed, scores.offsets, least, number, settings)
    above = chosen if least is None else observed | (bins_of(r) >= least)
    beyond_limit = int(np.sum(above & ~chosen))
    if settings.with_phrases:
        chosen = with_whole_phrases(chosen, observed, spans, tokens.n_tokens)
    rows = ResultRows.of(
        spans,
        written(tokens, spans, vocabulary, marks, forms),
        read_listed(index, paths),
        len(names),
    )
    r, observed, chosen = rows.take(r, 1.0), rows.take(observed, True), rows.take(chosen, True)
    offsets, texts, before = rows.offsets, rows.texts, int(chosen.sum())
    true = rows.take(marks.gold, UNKNOWN_TRUTH)
    document, term = names.take(pa.array(rows.spans.document)), _as_arrow(texts.term)
    stem = _as_arrow(texts.stem)
    taken = np.flatnonzero(chosen | observed)
    stems, terms = (
        dict(zip(taken.tolist(), column.take(pa.array(taken)).to_pylist(), strict=True))
        for column in (stem, term)
    )
    if settings.with_phrases:
        chosen = without_near_duplicates(chosen, observed, r, stems, offsets)
        chosen = without_parts(chosen, observed, r, rows.spans)
    table = pa.table(
        [
            document,
            term,
            _as_arrow(texts.surface),
            stem,
            pa.array(rows.words, pa.int32()),
            pa.array(r),
            pa.array(observed),
            pa.array(chosen),
            pa.array(word_ranks(r, offsets), pa.int32()),
            pa.array(texts.position, pa.int32()),
            pa.array(texts.occurrences, pa.int32()),
            pc.equal(pc.utf8_lower(term), pc.utf8_lower(document)),
            pa.array(
                longer_phrases(rows.spans.document, stems, terms, chosen, observed), pa.string()
            ),
            pa.array(true == 1, mask=true == UNKNOWN_TRUTH),
        ],
        schema=KEYWORDS.arrow,
    )
    storage.write_table(paths.table("keywords", index), table)
    _export(table, names.to_pylist(), index, paths)
    open_, nodes = None, r[None]
    if scores.by_node is not None and scores.weights is not None:
        nodes = rows.take(scores.by_node, 1.0)
        if settings.ask:
            # Where none is selected, all are in doubt.
            doubtful = np.ones(len(chosen), bool) if least == BINS else chosen
            open_ = uncertain_selections(
                nodes,
                scores.weights,
                observed,
                doubtful,
                rows.complete(scores.complete),
                offsets,
                settings.ask,
            )
    shown = shown_documents(index, partitions, paths, names.to_pylist(), table, rows, marks, forms)
    alike = before - int(chosen.sum())
    return Published(summarise(table, offsets, nodes, shown, beyond_limit, alike), open_)


def _as_arrow(texts: JoinedTexts) -> pa.Array:
    parts = pa.array(texts.parts, pa.string())
    used = [
        column for k, column in enumerate(texts.numbers.T) if not k or column.max(initial=-1) >= 0
    ]
    columns = [parts.take(pa.array(column, mask=column < 0)) for column in used]
    columns[0] = pc.fill_null(columns[0], "")  # else a row of nothing but nulls is left out
    joined = pc.binary_join_element_wise(*columns, " ", null_handling="skip")
    otherwise = np.bincount(np.array([*texts.otherwise], np.int64), minlength=len(texts)) > 0
    others = pa.array([text for _, text in sorted(texts.otherwise.items())], pa.string())
    return pc.replace_with_mask(joined, pa.array(otherwise), others)


def _export(table: pa.Table, names: Sequence[str], index: int, paths: RunPaths) -> None:
    """Write the selected and the known candidates of every document as JSON, one a line."""
    keyphrases: dict[str, list[dict[str, object]]] = {name: [] for name in names}
    taken = table.select(["doc_id", "term", "probability", "observed", "part_of"]).filter(
        pc.or_(table["selected"], table["observed"])
    )
    rows = taken.sort_by([("probability", "descending")]).to_pydict().values()
    for name, term, probability, known, whole in zip(*rows, strict=True):
        part_of = {"part_of": whole} if whole else {}
        keyphrases[name].append(
            {"text": term, "probability": probability, "known": known} | part_of
        )
    encode = json.JSONEncoder(ensure_ascii=False).encode
    lines = [
        encode({"id": name, "keyphrases": of_document}) + "\n"
        for name, of_document in keyphrases.items()
    ]
    storage.write_bytes(
        storage.join(paths.table("keyphrases"), f"part-{index:05d}.jsonl"),
        "".join(lines).encode(),
    )


def _selected(
    r: FloatArray,
    observed: BoolArray,
    offsets: IntArray,
    least: int | None,
    number: int | None,
    settings: KeywordSettings,
) -> BoolArray:
    """Return the selected candidates [M]; ``least`` is None where documents have thresholds."""
    if least is None:
        return select_in_documents(r, observed, offsets, settings.fdr, settings.per_document)
    return select_above(r, observed, offsets, least, _most(number, observed, offsets, settings))


def _column(paths: RunPaths, name: str, index: int) -> pa.Array:
    """Return the only column of a partition's file."""
    return storage.read_table(paths.part(name, index)).column(0).combine_chunks()


def _choose(
    indices: Sequence[int],
    parts: Sequence[UncertainSelections],
    q: CorpusGlobal,
    most: int,
    paths: RunPaths,
) -> list[DocumentToLabel]:
    """Choose the documents to label over all partitions, write their table and return its rows."""
    log_sd, dispersion = q.sources.combined()[1], q.law.complete_dispersion
    chosen, removed = choose_documents(parts, q.weights, log_sd, dispersion, most)
    rows = []
    read: dict[int, list[tuple[str, int, int]]] = {}
    for number, ((p, d), share) in enumerate(zip(chosen, removed, strict=True), 1):
        if p not in read:
            read[p] = _documents_of(
                storage.read_table(paths.table("keywords", indices[p]), ["doc_id", "observed"])
            )
        name, candidates, known = read[p][d]
        expected = float(parts[p].keywords[np.searchsorted(parts[p].document, d)])
        rows.append(DocumentToLabel(number, name, candidates, known, expected, share))
    table = pa.Table.from_pylist([vars(row) for row in rows], schema=ASK.arrow)
    storage.write_table(paths.table("ask", 0), table)
    return rows


def _documents_of(table: pa.Table) -> list[tuple[str, int, int]]:
    """Return name, rows and known rows of every document of a table of candidates."""
    names = table["doc_id"].combine_chunks()
    new = pc.not_equal(names.slice(1), names.slice(0, len(names) - 1))
    starts = np.concatenate([[0], np.flatnonzero(new.to_numpy(zero_copy_only=False)) + 1])
    known = np.add.reduceat(table["observed"].to_numpy().astype(np.int64), starts)
    size = np.diff(starts, append=len(names))
    first = names.take(pa.array(starts)).to_pylist()
    return list(zip(first, size.tolist(), known.tolist(), strict=True))
