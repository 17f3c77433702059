"""Keywords: from documents with a few known keywords to a probability for every other word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from flows.data import json_files, partition, storage
from flows.data.checks import shared_names
from flows.data.partition import Part
from flows.data.run_tables import Parameter
from flows.data.runs import Dropped, RunPaths
from flows.data.slabs import slabs
from flows.data.storage import InputFile
from flows.family import Checked, CheckedPiece, Each, Findings, Ingested, Prepared
from flows.faults import Fault, InputError, RunError
from flows.keywords import check
from flows.keywords import documents as documents_of
from flows.keywords.asked import Nodes
from flows.keywords.check import check_documents
from flows.keywords.counts import add_counts, reduce_counts
from flows.keywords.findings import findings_of, parameters_of
from flows.keywords.gold import gold_labels
from flows.keywords.kept_counts import read_counts, write_counts
from flows.keywords.kept_parts import AboutPart, about_url, write_phrases
from flows.keywords.models import document_model, phrase_model, sample
from flows.keywords.names import PHRASES, WORDS
from flows.keywords.narrow import read_wide, write_narrow
from flows.keywords.phrase_shards import (
    add_phrases,
    elsewhere_of,
    keep_phrase_counts,
    read_about,
)
from flows.keywords.phrases import PhraseMarks, build_partition
from flows.keywords.publish import (
    SCORES,
    Published,
    Scored,
    Scores,
    keep_scores,
    phrases_asked,
    publish,
)
from flows.keywords.publish_phrases import keep_phrase_scores, publish_phrases
from flows.keywords.report import phrases_alone, together
from flows.keywords.schema import DOCUMENTS
from flows.keywords.settings import KeywordSettings
from flows.keywords.text import TextOptions
from flows.keywords.told import Told
from flows.keywords.work import work_url
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray, to_bytes
from vbmodels.keywords.batch import DocumentTokens, KeywordBatch
from vbmodels.keywords.chosen import model_of
from vbmodels.keywords.corpus import (
    RATE_OF_LABELS,
    CorpusGlobal,
    CorpusProbit,
    average,
    doubts,
)
from vbmodels.keywords.features import FEATURE_NAMES
from vbmodels.keywords.graph import ss, textrank
from vbmodels.keywords.phrase_mates import in_phrases
from vbmodels.keywords.phrases.batch import PhraseBatch
from vbmodels.keywords.phrases.features import PHRASE_FEATURES
from vbmodels.keywords.phrases.model import Keyphrases, PhraseGlobal
from vbmodels.keywords.pooled import PooledGlobal, PooledVBSS, reliability

CORPUS_WIDE = ("corpus", "pooled")
CHECKED_ROWS = 2**13
"""Documents that are checked at once."""
NOTHING_TO_LEARN = (
    "No known keyword is a candidate phrase, so phrases have nothing to learn from: list some as "
    "the documents write them, or set unit=word."
)


@dataclass(frozen=True)
class CheckedDocuments(Checked):
    """What the check of one file found, and in how many documents a keyword is known."""

    listed: int = 0


class Keywords:
    """The keywords family; see `flows.family.Family`."""

    name = "keywords"
    suffixes = (*storage.SUFFIXES, *storage.DOCUMENTS)
    settings = KeywordSettings

    def check(self, file: InputFile, settings: KeywordSettings) -> Checked:
        """List the faults of one file of documents."""
        table = DOCUMENTS.of(settings)
        checker, listed = check_documents(slabs(file.url, CHECKED_ROWS), file.url, table)
        found = Checked(checker.rows, tuple(checker.found.faults()), checker.names)
        return _checked(found, listed, settings)

    def look(self, file: InputFile, settings: KeywordSettings) -> Checked:
        """List the faults of one file's columns, and of the settings."""
        return _checked(check.look(file, DOCUMENTS.of(settings)), 0, settings)

    def joined(
        self, file: InputFile, pieces: Sequence[CheckedPiece], settings: KeywordSettings
    ) -> Checked:
        """Return what the pieces of a file say of it."""
        return _checked(*check.joined(file.url, pieces), settings)

    def check_together(self, files: Sequence[InputFile], checked: Sequence[Checked]) -> list[Fault]:
        """List document names that two files share."""
        return shared_names(DOCUMENTS, [f.url for f in files], [c.keys for c in checked])

    def check_to_fit(self, files: Sequence[InputFile], checked: Sequence[Checked]) -> list[Fault]:
        """List what a fit lacks beyond what scoring needs: a known keyword."""
        if any(one.listed for one in checked if isinstance(one, CheckedDocuments)):
            return []
        return [
            Fault(
                file=files[0].url if len(files) == 1 else f"{len(files)} files",
                column="keywords",
                expected="known keywords of some documents",
                found="none",
                remedy="give some, or rank words without any by model=textrank",
            )
        ]

    def plan(
        self, files: Sequence[InputFile], checked: Sequence[Checked], settings: KeywordSettings
    ) -> list[Part]:
        """Cut the documents by number."""
        rows = [c.rows for c in checked]
        # The corpus sampler moves all documents in turn: it has one partition.
        partitions = 1 if settings.sampled and settings.model == "pooled" else settings.partitions
        return partition.cut(files, rows, settings.rows_per_partition, partitions)

    def ingest(self, part: Part, settings: KeywordSettings, paths: RunPaths) -> Ingested:
        """Turn a partition's documents into candidate words and their counts."""
        table, read, checked = DOCUMENTS.of(settings), [], []
        for _, checker, rows in partition.checked(part, table):
            read.append(rows)
            checked.append(check.piece(checker, rows))
        documents = partition.joined(read, table)
        options = _text_options(settings)
        prepared = documents_of.prepare(documents, options, settings.with_phrases)
        gold = gold_labels(documents, prepared.words, options)
        words = prepared.words.append_column("gold", gold)
        vocabulary = pa.table({"stem": prepared.vocabulary})
        write_narrow(work_url(paths, "tokens", part.index, "npz"), prepared.tokens)
        storage.write_table(work_url(paths, "words", part.index), words)
        storage.write_table(work_url(paths, "vocabulary", part.index), vocabulary)
        storage.write_table(work_url(paths, "counts", part.index), prepared.counts)
        write_phrases(prepared, part.index, paths)
        told = prepared.report
        kept = told.documents - told.without_words.count
        return Ingested(
            rows_read=told.documents,
            rows_kept=kept,
            dropped=(
                _dropped("document without a candidate word", told.without_words),
                _dropped(
                    "known keyword with a word that is no candidate of its document",
                    told.absent_keywords,
                ),
                _dropped(
                    "known keyword that is no candidate phrase of its document",
                    Told(prepared.unmatched),
                ),
                _dropped(
                    f"document cut to its {settings.max_words} most frequent words",
                    told.shortened,
                ),
                _dropped("score of a term without a candidate word", told.unused_scores),
            ),
            notes={"words": told.words, "observed": told.observed},
            checked=tuple(checked),
        )

    def prepare(
        self, parts: Sequence[Part], settings: KeywordSettings, paths: RunPaths,
        fitted: RunPaths | None, each: Each,
    ) -> Prepared:  # fmt: skip
        """Add the corpus counts, then make graphs and features of every partition."""
        if fitted is not None and settings.sampled and settings.model == "pooled":
            raise RunError(
                "a pooled run by sampling keeps no posterior for new documents; fit it with "
                "inference vi"
            )
        about = [json_files.read(about_url(paths, part.index), AboutPart) for part in parts]
        if fitted is None:
            read = (storage.read_table(work_url(paths, "counts", part.index)) for part in parts)
            counts = reduce_counts(add_counts(read))
            _demand_words(parts, sum(one.documents for one in about))
            known, several = sum(one.known for one in about), sum(one.several for one in about)
            counts = replace(counts, in_phrases=in_phrases(known, several))
            write_counts(_corpus(paths, None), counts, sum(one.documents for one in about))
        corpus, shards = _corpus(paths, fitted), 0
        indices = [part.index for part in parts]
        if settings.with_phrases:
            rows = sum(one.phrases for one in about)
            shards = add_phrases(
                indices, rows, settings.phrase_rows, paths, corpus, fitted is None, each
            )
        urls = each(_build, indices, settings, paths, corpus, shards)
        warning = read_counts(corpus)[0].warning
        warnings = (warning,) if warning else ()
        batch = PhraseBatch if settings.with_phrases else KeywordBatch
        return Prepared(tuple(urls), batch, warnings, of_parts=True)

    def model(self, settings: KeywordSettings) -> Any:
        """Return the corpus model, the per-document model, or nothing for plain scores."""
        if settings.model in SCORES or settings.sampled:
            return None
        if settings.with_phrases:
            return phrase_model(settings)
        return model_of(settings) if settings.model in CORPUS_WIDE else document_model(settings)

    def score(
        self, model: Any, q: Any, batch: Any, local: Any, index: int, *,
        settings: KeywordSettings, paths: RunPaths, fitted: RunPaths | None,
    ) -> Scored:  # fmt: skip
        """Score every candidate; its selection is decided by `conclude`."""
        if isinstance(model, Keyphrases):
            return self._score_both(model, q, batch, index, settings, paths, fitted is None)
        about: dict[str, Any] = {"offsets": batch.offsets, "complete": batch.complete}
        if settings.sampled:
            r, r_hat = sample(settings, batch, index)
            scores = Scores(r, **about, r_hat=r_hat)
        elif isinstance(model, CorpusProbit):
            nodes = model.by_node(q, batch, fitted=fitted is None)
            scores = Scores(average(q, batch, nodes), **about, by_node=nodes, weights=q.weights)
        else:
            r = _probabilities(model, q, batch, local, settings, fitted is not None)
            scores = Scores(r, **about)
        return keep_scores(scores, batch, index, settings, paths)

    def _score_both(
        self, model: Keyphrases, q: PhraseGlobal, batch: PhraseBatch, index: int,
        settings: KeywordSettings, paths: RunPaths, fitted: bool,
    ) -> Scored:  # fmt: skip
        """Score the phrases of a partition, and its words where they are published."""
        scored = Scored(index, None)
        if q.words is not None:
            scored = self.score(
                model.words, q.words, batch.words, None, index, settings=settings, paths=paths,
                fitted=None if fitted else paths,
            )  # fmt: skip
        histogram = keep_phrase_scores(model, q, batch, index, fitted, settings, paths)
        return replace(scored, phrases=histogram)

    def conclude(
        self, model: Any, q: Any, summaries: Sequence[Scored], *, settings: KeywordSettings,
        paths: RunPaths, fitted: RunPaths | None, each: Each,
    ) -> tuple[list[Published], Any]:  # fmt: skip
        """Decide the selection over all partitions and write the tables."""
        if not isinstance(model, Keyphrases):
            nodes = _nodes(q) if isinstance(model, CorpusProbit) else None
            return [Published(one) for one in publish(summaries, nodes, settings, paths, each)], q
        indices = [one.index for one in summaries]
        histograms = [one.phrases for one in summaries if one.phrases is not None]
        learned = bool(q.observed.known)
        tables = publish_phrases(indices, histograms, settings, paths, each, learned)
        nodes = None if q.phrases is None else _nodes(q.phrases)
        phrases = phrases_asked(tables, indices, nodes, settings, paths)
        if q.words is None:
            return [Published(None, one) for one in phrases], q
        words = publish(summaries, _nodes(q.words), settings, paths, each)
        return [Published(*pair) for pair in zip(words, phrases, strict=True)], q

    def keep(
        self, q: Any, settings: KeywordSettings, paths: RunPaths, fitted: RunPaths | None
    ) -> None:
        """Keep the corpus counts: new documents take their features from them."""
        counts, n_documents = read_counts(_corpus(paths, fitted))
        target = storage.join(paths.root, "posterior", "corpus")
        write_counts(target, counts, n_documents)
        if settings.with_phrases:
            keep_phrase_counts(_corpus(paths, fitted), target)

    def posterior(self, model: Any, q: Any, paths: RunPaths) -> list[Parameter]:
        """Return the parameters of a corpus's model; the others have no global ones."""
        if isinstance(model, Keyphrases):
            found = [] if q.words is None else parameters_of(model.words, q.words, FEATURE_NAMES)
            if q.phrases is not None:
                own = parameters_of(model.phrases, q.phrases, PHRASE_FEATURES)
                found += [replace(p, name=f"phrase_{p.name}") for p in own]
            return found
        if not isinstance(model, CorpusProbit | PooledVBSS):
            return []
        return parameters_of(model, q, FEATURE_NAMES)

    def report(
        self, model: Any, q: Any, summaries: Sequence[Published],
        ingested: Sequence[Ingested], settings: KeywordSettings,
    ) -> Findings:  # fmt: skip
        """Say what was found."""
        words = [one.words for one in summaries if one.words is not None]
        if not isinstance(model, Keyphrases):
            return findings_of(model, q, words, settings, FEATURE_NAMES, WORDS)
        phrases = [one.phrases for one in summaries if one.phrases is not None]
        found = findings_of(model.phrases, q.phrases, phrases, settings, PHRASE_FEATURES, PHRASES)
        if not q.observed.known:
            found = replace(found, warnings=(NOTHING_TO_LEARN, *found.warnings))
        found = replace(found, warnings=(*_too_many(model, q), *found.warnings))
        if q.words is None:
            return phrases_alone(found)
        of_words = findings_of(model.words, q.words, words, settings, FEATURE_NAMES, WORDS)
        return together(of_words, found)

    def foresee(self, q: Any, settings: KeywordSettings) -> list[str]:
        """Say what the rate and the number of documents let expect of the false discovery rate."""
        known: tuple[str, ...] = ()
        if isinstance(q, PhraseGlobal):
            known = _too_many(phrase_model(settings), q)
            q = q.scorer if q.words is None else q.words
        reasons: tuple[str, ...] = ()
        if isinstance(q, CorpusGlobal):
            reasons = doubts(q)
            if not q.sources.speaking:
                reasons = (RATE_OF_LABELS, *reasons)
        elif isinstance(q, PooledGlobal):
            reasons = reliability(q, settings.keyword_rate is not None).reasons
        unreliable = [f"The false discovery rate is not reliable: {reason}." for reason in reasons]
        return [*known, *unreliable]

    def simulate(self, target: str, rows: int, seed: int) -> list[str]:
        """Draw documents with known truth."""
        from flows.keywords.simulate import write_documents

        return write_documents(target, rows, seed)


def _checked(found: Checked, listed: int, settings: KeywordSettings) -> CheckedDocuments:
    """Add what is wrong with the settings, and the documents with a known keyword."""
    try:
        _text_options(settings)
    except InputError as error:
        found = replace(found, faults=(*error.faults, *found.faults))
    # The rankings learn nothing from known keywords.
    listed = found.rows if settings.model in SCORES else listed
    return CheckedDocuments(found.rows, found.faults, found.keys, listed)


def _too_many(model: Keyphrases, q: PhraseGlobal) -> tuple[str, ...]:
    sentence = model.too_many(q.observed)
    return () if sentence is None else (f"{sentence}.",)


def _demand_words(parts: Sequence[Part], documents: int) -> None:
    """Refuse a corpus in which no document has a candidate word."""
    if documents:
        return
    files = sorted({one.url for part in parts for one in part.slices})
    raise InputError(
        [
            Fault(
                file=files[0] if len(files) == 1 else f"{len(files)} files",
                expected="documents with candidate words",
                found="none",
                remedy="see whether texts are empty or have no spaces between words (then give "
                "tokens); tag=false takes words of every kind, min_count=1 rare ones",
            )
        ]
    )


def _nodes(q: CorpusGlobal) -> Nodes:
    return Nodes(q.weights, q.sources.combined()[1], q.law.complete_dispersion)


def _text_options(settings: KeywordSettings) -> TextOptions:
    return TextOptions(
        language=settings.language,
        stem=settings.stem,
        stop_words=settings.stop_words,
        tag=settings.tag,
        min_count=settings.min_count,
        max_words=settings.max_words,
    )


def _corpus(paths: RunPaths, fitted: RunPaths | None) -> str:
    """Where the corpus counts are: with the fitted run, or with this one as it goes."""
    if fitted is None:
        return storage.join(paths.work, "corpus")
    return storage.join(fitted.root, "posterior", "corpus")


def _tokens(paths: RunPaths, index: int) -> DocumentTokens:
    url = work_url(paths, "tokens", index, "npz")
    return read_wide(url, DocumentTokens)


def _dropped(reason: str, told: Told) -> Dropped:
    return Dropped(reason=reason, count=told.count, examples=list(told.names))


def _build(index: int, settings: KeywordSettings, paths: RunPaths, corpus: str, shards: int) -> str:
    counts, n_documents = read_counts(corpus)
    vocabulary = storage.read_table(work_url(paths, "vocabulary", index))["stem"].combine_chunks()
    tokens = _tokens(paths, index)
    words = documents_of.build(
        tokens,
        vocabulary,
        counts,
        n_documents,
        window=settings.window,
        damping=settings.damping,
        self_loops=settings.self_loops,
    )
    batch: KeywordBatch | PhraseBatch = words
    if settings.with_phrases:
        marks = read_wide(work_url(paths, "marks", index, "npz"), PhraseMarks)
        batch = build_partition(
            tokens,
            vocabulary,
            words,
            marks,
            counts,
            partial(elsewhere_of, index, shards, paths),
            read_about(corpus).rates,
            n_documents,
        )
    if settings.model == "corpus":
        batch = batch.compact()
    url = work_url(paths, "partitions", index, "npz")
    storage.write_bytes(url, to_bytes(batch))
    return url


def _as_fitted(batch: KeywordBatch, q: Any) -> KeywordBatch:
    """Return the words with the features of the fit: later ones were added at the end."""
    return replace(batch, x=np.ascontiguousarray(batch.features[:, : len(q.location)]), coded=None)


def _probabilities(
    model: Any, q: Any, batch: KeywordBatch, local: Any, settings: KeywordSettings, new: bool
) -> FloatArray:
    if settings.model in SCORES:
        score = textrank if settings.model == "textrank" else None
        values = [
            score(a, settings.damping) if score else ss(a, y, settings.damping)
            for y, a in batch.documents()
        ]
        return np.concatenate(values) if values else np.zeros(0)
    if new and isinstance(model, PooledVBSS):
        return model.predict(q, _as_fitted(batch, q))
    if new:
        fitted = fit(model, [batch], tol=settings.tol, max_iter=settings.max_iter)
        (local,) = fitted.reduce.local_states(fitted.iterations - 1)
    probabilities: FloatArray = model.probabilities(q, batch, local)
    return probabilities


FAMILY = Keywords()
