"""The pipeline's own functions; partitions, workers, resume and the page are vbflows'."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from flows import storage
from flows.family import Each, Family, Finished, Ingested, Prepared
from flows.one_table import ReadsOneTable
from flows.records.runs import Parameter, RunPaths
from flows.tables.partition import Part
from vbflows_lda import vocabulary as words_of
from vbflows_lda.answer import Answer, TopicSummary, answer_of
from vbflows_lda.documents import Documents
from vbflows_lda.model import Global, Local, Topics
from vbflows_lda.schema import DOCUMENT_TOPICS, DOCUMENTS_IN, TOPIC_WORDS
from vbflows_lda.settings import TopicSettings
from vbmodels.core.state import FloatArray


class TopicsFamily(ReadsOneTable, Family):
    """The topics family; see `flows.family.Family`."""

    name = "lda"
    settings = TopicSettings
    table = DOCUMENTS_IN

    def ingest(self, part: Part, settings: TopicSettings, paths: RunPaths) -> Ingested:
        """Count the words of a partition's documents."""
        table, checked = self.read(part, settings)
        counted = words_of.counted(table["doc_id"], table["text"])
        storage.write_table(_url(paths, part.index, "parquet"), counted)
        return Ingested(part.rows, len(table), checked=checked)

    def prepare(
        self, parts: Sequence[Part], settings: TopicSettings, paths: RunPaths,
        fitted: RunPaths | None, each: Each,
    ) -> Prepared:  # fmt: skip
        """Choose the vocabulary, or take that of the fit, and number the words by it."""
        counted = [_url(paths, part.index, "parquet") for part in parts]
        if fitted is None:
            found = each(words_of.documents_with, counted)
            words = words_of.chosen(found, sum(part.rows for part in parts), settings)
        else:
            words = words_of.read_vocabulary(words_of.vocabulary_url(fitted))
        working = _vocabulary(paths)
        storage.write_table(working, pa.table({"word": words}))
        urls = [_url(paths, part.index, "npz") for part in parts]
        without = sum(each(words_of.write_arrays, list(zip(counted, urls, strict=True)), working))
        said = f"{without:,} documents have no word of the vocabulary: their topics are the prior's"
        return Prepared(tuple(urls), Documents, (said,) if without else ())

    def model(self, settings: TopicSettings) -> Topics:
        """Return the model to fit."""
        return Topics(
            settings.topics, settings.alpha, settings.eta, settings.inner, settings.inner_tol
        )

    def score(
        self, model: Topics, q: Global, batch: Documents, local: Local | None, index: int, *,
        settings: TopicSettings, paths: RunPaths, fitted: RunPaths | None,
    ) -> TopicSummary:  # fmt: skip
        """Write every document's topics, from cold so that a later score gives them too."""
        gamma = replace(model, inner=1000, inner_tol=1e-7).local_step(q, batch, None).gamma
        share = gamma / gamma.sum(axis=1, keepdims=True)
        sums = np.concatenate([[0.0], np.cumsum(batch.count)])
        length = sums[batch.offsets[1:]] - sums[batch.offsets[:-1]]
        names = storage.read_table(_url(paths, index, "parquet"), ["doc_id"])["doc_id"]
        table = pa.table(
            [
                names,
                length.astype(np.int64),
                share.argmax(axis=1),
                share.max(axis=1),
                pa.array(share.tolist(), pa.list_(pa.float64())),
            ],
            schema=DOCUMENT_TOPICS.arrow,
        )
        storage.write_table(paths.table("document_topics", index), table)
        rows = _topic_words(q, words_of.read_vocabulary(_vocabulary(paths)), settings.show_words)
        if index == 0:
            columns = [list(column) for column in zip(*rows, strict=True)]
            whole = pa.table(columns, schema=TOPIC_WORDS.arrow)
            storage.write_table(paths.table("topic_words", 0), whole)
        return TopicSummary(len(share), length @ share, _first_words(rows))

    def keep(
        self, q: Global, settings: TopicSettings, paths: RunPaths, fitted: RunPaths | None
    ) -> None:
        """Keep the vocabulary: new documents are counted by it."""
        table = storage.read_table(_vocabulary(paths), ["word"])
        storage.write_table(words_of.vocabulary_url(paths), table)

    def posterior(self, model: Topics, q: Global, paths: RunPaths) -> list[Parameter]:
        """Return the words of every topic that have at least a thousandth of it."""
        words = words_of.read_vocabulary(_vocabulary(paths))
        share, sd = _shares(q)
        at = zip(*np.nonzero(share >= 1e-3), strict=True)
        return [
            Parameter(f"topic {k}", words[w], float(share[k, w]), float(sd[k, w])) for k, w in at
        ]

    def answer(self, finished: Finished) -> Answer:
        """Say what was found, as numbers; ``templates`` has the words."""
        return answer_of(finished.summaries)

    def simulate(self, target: str, rows: int, seed: int) -> list[str]:
        """Draw documents with known topics."""
        from vbflows_lda.simulate import write_documents

        return write_documents(target, rows, seed)


def _shares(q: Global) -> tuple[FloatArray, FloatArray]:
    """Return mean and sd of every word's share of every topic, [K, V] each."""
    total = q.lam.sum(axis=1, keepdims=True)
    mean = q.lam / total
    return mean, np.sqrt(mean * (1.0 - mean) / (total + 1.0))


def _topic_words(
    q: Global, words: Sequence[str], count: int
) -> list[tuple[int, int, str, float, float]]:
    share, sd = _shares(q)
    return [
        (k, rank, words[w], float(share[k, w]), float(sd[k, w]))
        for k in range(len(share))
        for rank, w in enumerate(np.argsort(-share[k], kind="stable")[:count].tolist(), start=1)
    ]


def _first_words(rows: Sequence[tuple[int, int, str, float, float]]) -> tuple[tuple[str, ...], ...]:
    found: dict[int, list[str]] = {}
    for topic, _, word, _, _ in rows:
        found.setdefault(topic, []).append(word)
    return tuple(tuple(words) for words in found.values())


def _vocabulary(paths: RunPaths) -> str:
    return storage.join(paths.work, "vocabulary.parquet")


def _url(paths: RunPaths, index: int, suffix: str) -> str:
    return storage.join(paths.work, "documents", f"part-{index:05d}.{suffix}")


FAMILY = TopicsFamily()
