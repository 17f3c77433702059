"""Keywords: from documents with a few known keyphrases to a probability for every other word."""

from __future__ import annotations

from collections.abc import Container, Sequence
from contextvars import copy_context
from dataclasses import asdict, dataclass, replace
from functools import partial, reduce
from operator import add
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa

from flows import storage
from flows.family import Checked, CheckedPiece, Each, Family, Finished, Ingested
from flows.family import Prepared as PreparedRun
from flows.faults import Fault, InputError
from flows.fit.executor import in_threads
from flows.keywords.answer import Answer, answer_of, widget_of
from flows.keywords.candidate_scores import (
    doubts_of,
    model_of,
    rank_known,
    regression_of,
    scores_of,
)
from flows.keywords.input import documents as documents_of
from flows.keywords.input.reading import (
    Held,
    Reading,
    held_in,
    losses_of,
    rate_source,
    unpaired,
    unread_column,
)
from flows.keywords.input.shards import (
    GROUP,
    PHRASES,
    WORDS,
    AboutCorpus,
    add_counts,
    copy_counts,
    counts_url,
    elsewhere_of,
    look_up_counts,
    read_about,
    write_about,
)
from flows.keywords.input.term_lists import prior_of, terms_of, with_digest
from flows.keywords.publish import Scored, keep_scores, publish
from flows.keywords.schema import DOCUMENTS
from flows.keywords.settings import KeywordSettings
from flows.keywords.summary import Whole
from flows.keywords.texts import keep_texts
from flows.keywords.work import AboutPart, about_url, read_wide, write_listed, write_narrow
from flows.one_table import ReadsOneTable
from flows.records import json_files
from flows.records.runs import Parameter, RunPaths
from flows.records.states import read_state
from flows.report.answers import as_results
from flows.report.render import lines_of
from flows.storage import InputFile
from flows.tables.column_table import declared
from flows.tables.partition import Part
from vbmodels.core.state import State, to_bytes
from vbmodels.keywords.corpus.model import coefficient_table
from vbmodels.keywords.corpus.selection import number_of
from vbmodels.keywords.features import FEATURE_NAMES, build_batch, in_phrases
from vbmodels.keywords.learnt_prior import NONE
from vbmodels.keywords.phrases.batch import PhraseBatch
from vbmodels.keywords.phrases.features import PHRASE_FEATURES, build_phrases
from vbmodels.keywords.phrases.model import Keyphrases
from vbmodels.keywords.units import KeywordBatch
from vbmodels.tables.column_table import ColumnRead
from vbmodels.text.candidate_words import NO_VOCABULARY, Vocabulary
from vbmodels.text.candidates import DocumentTokens, Marks, spans_of, stem_keys
from vbmodels.text.languages import AUTO, LanguageError, plain, stop_words
from vbmodels.text.reading import Named
from vbmodels.text.tokens import Copies, Originals, Sample, find_copies, shared_sentences
from vbmodels.text.words import TextOptions

EVERY = "every"  # partitions with the documents that do not count in a fit
_ALONE = Lock()  # of the thread that splits texts: two that wait for each other's Python take more


@dataclass(frozen=True)
class CheckedDocuments(Checked):
    """What the check of one file found, and in how many documents a keyphrase is known."""

    listed: int = 0


class Keywords(ReadsOneTable, Family):
    """The keywords family; see `flows.family.Family`."""

    name = "keywords"
    table = DOCUMENTS
    suffixes = (*storage.SUFFIXES, *storage.DOCUMENTS)
    settings = KeywordSettings

    def threads(self, settings: KeywordSettings) -> bool:
        """Return whether the fit is compiled."""
        return settings.model == "corpus"

    def settings_from_input(
        self, source: storage.Sources, settings: KeywordSettings
    ) -> KeywordSettings:
        """Return the settings with digests of the files that they name."""
        names = ("stop_words", "vocabulary", "prior")
        values = {name: getattr(settings, name) for name in names}
        files = {
            n: v for n, v in values.items() if isinstance(v, str) and (n, v) != ("prior", NONE)
        }
        digests = {n: with_digest(v, n) for n, v in files.items()}
        return settings.model_copy(update=digests)

    def about(self, rows: pa.Table) -> dict[str, Any]:
        """Return what some documents hold, `Held`."""
        return asdict(held_in(rows))

    def column_faults(self, file: str, columns: Sequence[str]) -> Sequence[Fault]:
        """List terms without scores, and scores without terms."""
        return unpaired(file, columns)

    def whole(
        self, file: str, checked: Checked, about: Sequence[Any], settings: KeywordSettings
    ) -> CheckedDocuments:
        """Add what is wrong with the settings and the tags; count known keyphrases."""
        contents = reduce(add, (Held(**piece) for piece in about), Held())
        faults = (*checked.faults, *contents.faults(file))
        try:
            _text_options(settings)
            _vocabulary(settings)
            prior_of(settings.prior)
        except InputError as error:
            faults = (*error.faults, *faults)
        # Other corpora do without known keyphrases.
        without = settings.model == "corpus" and settings.prior != NONE
        listed = checked.rows if without else contents.listed
        return CheckedDocuments(checked.rows, faults, checked.keys, listed)

    def require_labels(self, files: Sequence[InputFile], checked: Sequence[Checked]) -> list[Fault]:
        """List what a fit lacks beyond what scoring needs: a known keyphrase."""
        if any(file.listed for file in checked if isinstance(file, CheckedDocuments)):
            return []
        return [
            Fault(
                file=files[0].url if len(files) == 1 else f"{len(files)} files",
                column="keywords",
                expected="known keyphrases of some documents",
                found="none",
                remedy="give some, or leave out model and prior to do without any",
            )
        ]

    def ingest(self, part: Part, settings: KeywordSettings, paths: RunPaths) -> Ingested:
        """Turn a partition's documents into candidate words and their counts."""
        prepared, documents, checked = _read(part, settings, paths)
        keep_texts(documents, part.index, paths)
        write_narrow(paths.part("sentences", part.index, "npz"), prepared.sample)
        return Ingested(
            rows_read=prepared.report.documents,
            rows_kept=prepared.report.documents - prepared.report.without_words.count,
            dropped=losses_of(prepared.report, settings),
            notes={
                "words": prepared.report.words,
                "observed": prepared.report.observed,
                "listed": prepared.report.listed,
            },
            checked=checked,
        )

    def prepare(
        self,
        parts: Sequence[Part],
        settings: KeywordSettings,
        paths: RunPaths,
        fitted: RunPaths | None,
        each: Each,
    ) -> PreparedRun:
        """Add the corpus counts, then make graphs and features of every partition."""
        if fitted is None:
            shared = shared_sentences(each(_sample, [part.index for part in parts], paths))
        else:
            shared = frozenset(read_about(_corpus(paths, fitted)).shared)
        if shared:
            each(_read_again, parts, settings, paths, shared)
        if fitted is None and settings.model == "corpus":
            _count_once([part.index for part in parts], settings, paths, each)
        about = [json_files.read(about_url(paths, part.index), AboutPart) for part in parts]
        kinds = (WORDS, PHRASES) if settings.with_phrases else (WORDS,)
        rows = {kind: sum(part.rows[kind] for part in about) for kind in kinds}
        indices, corpus = [part.index for part in parts], _corpus(paths, fitted)
        if fitted is None:
            documents = sum(part.documents - part.copies for part in about)
            _demand_words(parts, documents)
            if settings.vocabulary is not None and not rows[kinds[-1]]:
                raise InputError.of(
                    file="settings",
                    column="vocabulary",
                    expected="terms that some text holds",
                    found="none",
                    remedy="name another file, or set vocabulary_only=false",
                )
            counts = add_counts(rows, indices, paths, corpus, each)
            whole = AboutCorpus(
                n_documents=documents,
                in_phrases=in_phrases(
                    sum(part.known for part in about), sum(part.several for part in about)
                ),
                labelled=not any(part.unlabelled for part in about),
                counts=counts,
                shared=sorted(shared),
            )
            write_about(corpus, whole)
            shards = {kind: len(of_kind.shards) for kind, of_kind in counts.items()}
        else:
            shards = look_up_counts(rows, indices, paths, corpus, each)
        urls = each(_build, indices, settings, paths, corpus, shards)
        whole_report = reduce(add, (part.report for part in about))
        columns = self._columns(parts, settings)
        labelled, complete = any(part.known for part in about), any(part.complete for part in about)
        terms = _vocabulary(settings).terms
        reading = Reading(
            report=whole_report,
            rate_from=rate_source(settings, labelled, complete) if fitted is None else "",
            with_phrases=settings.with_phrases,
            vocabulary_only=settings.vocabulary is not None and settings.vocabulary_only,
            language=settings.language,
            terms=len(terms),
            unused_terms=Named.of([term for term in terms if term not in whole_report.terms]),
            unread_column=unread_column(columns),
            copies=sum(part.copies for part in about),
        )
        warnings, notes = (
            tuple(lines_of(self.name, macro, reading)) for macro in ("read_warnings", "read_notes")
        )
        return PreparedRun(
            tuple(urls),
            PhraseBatch if settings.with_phrases else KeywordBatch,
            warnings,
            notes=notes,
            columns=columns,
        )

    def _columns(self, parts: Sequence[Part], settings: KeywordSettings) -> tuple[ColumnRead, ...]:
        """Return the columns of all files, if some are not used or not in every file.

        They are looked at in this process, which holds the small ones.
        """
        urls = list(dict.fromkeys(piece.url for part in parts for piece in part.slices))
        looks = [partial(copy_context().run, _column_names, url) for url in urls]
        columns = declared(DOCUMENTS, in_threads(looks, storage.AT_ONCE), settings.columns)
        return columns if any(column.left_out or column.holds for column in columns) else ()

    def model(self, settings: KeywordSettings) -> Any:
        """Return the model to fit, or nothing for plain scores."""
        return model_of(settings)

    def score(
        self,
        model: Any,
        q: Any,
        batch: Any,
        local: Any,
        index: int,
        *,
        settings: KeywordSettings,
        paths: RunPaths,
        fitted: RunPaths | None,
    ) -> Scored:
        """Score every candidate; its selection is decided by `select`."""
        if storage.exists(every := paths.part(EVERY, index, "npz")):
            batch = read_state(every, type(batch))
        scores = scores_of(model, q, batch, local, settings, fitted is None)
        return keep_scores(scores, batch.y, index, _number(model, q), settings, paths)

    def select(
        self,
        model: Any,
        q: Any,
        summaries: Sequence[Scored],
        *,
        settings: KeywordSettings,
        paths: RunPaths,
        fitted: RunPaths | None,
        each: Each,
    ) -> tuple[list[Whole], Any]:
        """Decide the selection over all partitions and write the tables."""
        # Phrases have known ones, or other corpora, to learn from; or nothing.
        learned = not isinstance(model, Keyphrases) or bool(
            q.observed.known or model.phrases.learnt is not None
        )
        of_candidates, number = regression_of(model, q)[1], _number(model, q)
        whole = publish(summaries, of_candidates, learned, number, settings, paths, each)
        if fitted is None and of_candidates is not None:
            indices = [part.index for part in summaries]
            whole = replace(whole, ranking=rank_known(model, q, indices, paths, each))
        return [whole], q

    def keep(
        self, q: Any, settings: KeywordSettings, paths: RunPaths, fitted: RunPaths | None
    ) -> None:
        """Keep the corpus counts: new documents take their features from them."""
        copy_counts(_corpus(paths, fitted), storage.join(paths.root, "posterior", "corpus"))

    def posterior(self, model: Any, q: Any, paths: RunPaths) -> list[Parameter]:
        """Return the parameters of the corpus model; the others have no global ones."""
        regression, its = regression_of(model, q)
        if regression is None or its is None:
            return []
        names = PHRASE_FEATURES if isinstance(model, Keyphrases) else FEATURE_NAMES
        coefficients = coefficient_table(regression, its, names[: len(its.location)])
        log_sd = its.sources.combined()[1]
        return [
            *(Parameter("coefficient", *row) for row in coefficients),
            Parameter("keyword_rate", None, its.rate, its.rate * log_sd),
            Parameter("length_exponent", None, its.exponent, regression.exponent_sd(its)),
        ]

    def answer(self, finished: Finished) -> Answer:
        """Return everything that a reader of the run may see."""
        model, q = finished.model, finished.q
        return answer_of(finished, regression_of(model, q)[1], doubts_of(model, q))

    def page_data(self, finished: Finished) -> Any:
        """Return the documents that the page shows with their keyphrases marked."""
        return as_results(widget_of(finished))

    def warnings_before_fit(self, q: Any, settings: KeywordSettings) -> list[str]:
        """Say what the rate and the number of documents let expect of the shares."""
        return lines_of(self.name, "doubts", doubts_of(model_of(settings), q))

    def simulate(self, target: str, rows: int, seed: int) -> list[str]:
        """Draw documents with known truth."""
        from flows.keywords.input.simulate import write_documents

        return write_documents(target, rows, seed)


def _number(model: Any, q: Any) -> int | None:
    """Return how many keyphrases a document has, at most; None where candidates are words."""
    if not isinstance(model, Keyphrases) or q.phrases is None:
        return None
    return number_of(q.phrases, model.per_document)


def _demand_words(parts: Sequence[Part], documents: int) -> None:
    """Refuse a corpus in which no document has a candidate word."""
    if documents:
        return
    files = sorted({piece.url for part in parts for piece in part.slices})
    raise InputError.of(
        file=files[0] if len(files) == 1 else f"{len(files)} files",
        expected="documents with candidate words",
        found="none",
        remedy="are texts empty or without spaces (then give tokens)? min_count=1 takes rare words",
    )


def _text_options(settings: KeywordSettings) -> TextOptions:
    added: frozenset[str] = frozenset()
    if isinstance(settings.stop_words, str):
        added = frozenset(map(plain, terms_of(settings.stop_words, "stop_words")))
    try:
        options = TextOptions(
            language=settings.language,
            stem=settings.stem,
            stop_words=bool(settings.stop_words),
            more_stop_words=added,
            min_count=settings.min_count,
            max_words=settings.max_words,
        )
        if options.stop_words and options.language != AUTO:
            stop_words(options.language)
    except LanguageError as error:
        raise _as_input_error(error, "settings", "language") from error
    return options


def _vocabulary(settings: KeywordSettings) -> Vocabulary:
    if settings.vocabulary is None:
        return NO_VOCABULARY
    terms = terms_of(settings.vocabulary, "vocabulary")
    return Vocabulary(terms, settings.vocabulary_only)


def _as_input_error(error: LanguageError, file: str, column: str | None = None) -> InputError:
    return InputError.of(file, error.expected, error.found, column, remedy=error.remedy)


def _corpus(paths: RunPaths, fitted: RunPaths | None) -> str:
    """Where the corpus counts are: with the fitted run, or with this one as it goes."""
    if fitted is None:
        return storage.join(paths.work, "corpus")
    return storage.join(fitted.root, "posterior", "corpus")


def _column_names(url: str) -> list[str]:
    return list(storage.parquet_file(url).schema_arrow.names)


def _read(
    part: Part, settings: KeywordSettings, paths: RunPaths, shared: Container[int] = ()
) -> tuple[documents_of.Prepared, pa.Table, tuple[CheckedPiece, ...]]:
    """Read a partition, and write what later stages need of it.

    Returns what was made of its documents, the documents, and what their check found.
    """
    documents, checked = FAMILY.read(part, settings)
    try:
        with _ALONE:
            prepared = documents_of.prepare(
                documents,
                _text_options(settings),
                settings.with_phrases,
                _vocabulary(settings),
                whole=settings.lists == "complete",
                shared=shared,
            )
    except LanguageError as error:
        raise _as_input_error(error, part.slices[0].url) from error
    _write(prepared, part.index, paths)
    return prepared, documents, checked


def _write(prepared: documents_of.Prepared, index: int, paths: RunPaths) -> None:
    """Write what later stages need of a partition."""
    columns = {
        "vocabulary": prepared.vocabulary,
        "documents": prepared.names,
        "forms": prepared.forms,
    }
    for name, column in columns.items():
        storage.write_table(paths.part(name, index), pa.table({name: column}))
    states: dict[str, State] = {
        "tokens": prepared.tokens,
        "marks": prepared.marks,
        "originals": prepared.originals,
    }
    for name, state in states.items():
        write_narrow(paths.part(name, index, "npz"), state)
    _write_counts(prepared.counts, index, paths)
    write_listed(prepared.listed, index, paths)
    about = AboutPart(
        documents=prepared.tokens.n_documents,
        rows={kind: counts.num_rows for kind, counts in prepared.counts.items()},
        known=prepared.known,
        several=prepared.several,
        unlabelled=int((~prepared.tokens.looked_at).sum()),
        complete=int(prepared.tokens.complete.sum()),
        report=prepared.report,
    )
    json_files.write(about_url(paths, index), about)


def _write_counts(counts: dict[str, pa.Table], index: int, paths: RunPaths) -> None:
    for kind, table in counts.items():
        storage.write_table(counts_url(paths, kind, index), table, GROUP)


def _read_again(
    part: Part, settings: KeywordSettings, paths: RunPaths, shared: frozenset[int]
) -> None:
    """Read a partition without the sentences that most documents share, if it has any."""
    if _sample(part.index, paths).may_have(shared):
        _read(part, settings, paths, shared)
        for piece in part.slices:  # ingest has read what was there then
            storage.refuse_changed(piece.url, piece.fingerprint)


def _sample(index: int, paths: RunPaths) -> Sample:
    return read_wide(paths.part("sentences", index, "npz"), Sample)


def _count_once(
    indices: Sequence[int], settings: KeywordSettings, paths: RunPaths, each: Each
) -> None:
    """Count documents that are exact copies of others once."""
    copies = find_copies(
        each(read_wide, [paths.part("originals", i, "npz") for i in indices], Originals)
    )
    with_copies = [pair for pair in zip(indices, copies, strict=True) if not pair[1].counted.all()]
    each(_without_copies, with_copies, settings, paths)


def _without_copies(item: tuple[int, Copies], settings: KeywordSettings, paths: RunPaths) -> None:
    """Count a partition again, without the documents that are copies of others."""
    index, copies = item
    url = paths.part("tokens", index, "npz")
    tokens = replace(read_wide(url, DocumentTokens), fold=copies.fold)
    write_narrow(url, tokens)
    vocabulary = storage.read_table(paths.part("vocabulary", index)).column(0).to_pylist()
    marks = read_wide(paths.part("marks", index, "npz"), Marks)
    spans = spans_of(tokens, vocabulary, True) if settings.with_phrases else None
    counts = documents_of.counts_of(tokens, vocabulary, marks, spans, copies.counted)
    _write_counts(counts, index, paths)
    write_narrow(paths.part("copies", index, "npz"), copies)
    about = json_files.read(about_url(paths, index), AboutPart)
    about.copies = int((~copies.counted).sum())
    about.rows = {kind: table.num_rows for kind, table in counts.items()}
    about.unlabelled = int((~tokens.looked_at & copies.counted).sum())
    json_files.write(about_url(paths, index), about)


def _build(
    index: int, settings: KeywordSettings, paths: RunPaths, corpus: str, shards: dict[str, int]
) -> str:
    """Make the graphs and features of a partition's candidates; return their place."""
    about = read_about(corpus)
    vocabulary = storage.read_table(paths.part("vocabulary", index)).column(0).to_pylist()
    tokens = read_wide(paths.part("tokens", index, "npz"), DocumentTokens)
    folds = tokens.fold[tokens.document_of_word]
    keys = stem_keys(vocabulary)[tokens.term]
    of_words = elsewhere_of(WORDS, index, shards[WORDS], paths, keys, folds)
    words = build_batch(
        tokens,
        of_words,
        about.n_documents,
        about.counts[WORDS].rates,
        own_labels=not about.in_phrases,
    )
    batch: KeywordBatch | PhraseBatch = words
    listed = np.zeros(tokens.n_documents, np.int64)
    if settings.with_phrases:
        marks = read_wide(paths.part("marks", index, "npz"), Marks)
        listed = marks.listed
        spans = spans_of(tokens, vocabulary, True)
        folds = tokens.fold[spans.document]
        batch = build_phrases(
            tokens,
            spans,
            words,
            marks.y,
            marks.score,
            int(marks.listed.sum()),
            of_words.frequency,
            elsewhere_of(PHRASES, index, shards[PHRASES], paths, spans.key, folds),
            about.n_documents,
            about.counts[PHRASES].rates,
            own_labels=about.labelled,
        )
    if storage.exists(copies := paths.part("copies", index, "npz")):
        storage.write_bytes(paths.part(EVERY, index, "npz"), to_bytes(batch.compact()))
        counted = read_wide(copies, Copies).counted
        batch = batch.of_documents(counted, int(listed[counted].sum()))
    if settings.model == "corpus":
        batch = batch.compact()
    url = paths.part("partitions", index, "npz")
    storage.write_bytes(url, to_bytes(batch))
    return url


FAMILY = Keywords()
