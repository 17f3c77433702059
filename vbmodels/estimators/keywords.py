"""Keywords of documents, from a few that are known, as an estimator with a transform.

Documents are texts, no table of numbers: of scikit-learn's checks those of parameters,
cloning, storing and tags apply, and no others.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.metrics import roc_auc_score
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted

from vbmodels.core.options import option, share
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.estimators.base import (
    LoopEstimator,
    documented,
    frame,
    intervals,
    largest,
    lines_of,
    parameter,
    warn_of_names,
    without_weights,
)
from vbmodels.estimators.documents import (
    COLUMNS,
    OUTSIDE,
    Corpus,
    GivenDocuments,
    ReadPart,
    column_of,
    given_documents,
    length_of,
)
from vbmodels.keywords.corpus.model import CorpusProbit
from vbmodels.keywords.corpus.selection import Histogram, most_new, number_of, select_above
from vbmodels.keywords.corpus.states import CorpusGlobal, average
from vbmodels.keywords.features import FEATURE_NAMES
from vbmodels.keywords.learnt_prior import LearntPrior, keyphrases_model, prior_of, words_model
from vbmodels.keywords.options import DAMPING, WINDOW, KeywordOptions, conflict
from vbmodels.keywords.phrases.batch import PhraseBatch
from vbmodels.keywords.phrases.features import PHRASE_FEATURES
from vbmodels.keywords.phrases.model import Keyphrases
from vbmodels.keywords.selection import (
    with_whole_phrases,
    without_near_duplicates,
    without_parts,
    word_ranks,
)
from vbmodels.keywords.units import KeywordBatch
from vbmodels.tables.frames import is_frame, like, values_of
from vbmodels.text.candidate_words import Vocabulary
from vbmodels.text.languages import named, plain
from vbmodels.text.reading import Named
from vbmodels.text.result_rows import longer_phrases
from vbmodels.text.tokens import completed, find_copies, shared_sentences
from vbmodels.text.words import TextOptions


class Scored(NamedTuple):
    """A partition's candidates: as they were read, as units of a regression, probabilities [M]."""

    part: ReadPart
    units: KeywordBatch
    probability: FloatArray


TABLE = (
    "term",
    "surface",
    "stem",
    "words",
    "probability",
    "observed",
    "selected",
    "rank",
    "position",
    "occurrences",
)
"""Columns of the table of candidates, after doc_id."""
OF_DOCUMENTS = "every document counts once; leave out documents that should not count"


@documented
@dataclass(eq=False, repr=False)
class KeywordExtractor(TransformerMixin, KeywordOptions, LoopEstimator):
    """Keyphrases, or keywords, of documents, as the pipeline ``keywords`` finds them.

    Texts become candidates by the pipeline's rules, and the model is its default: for phrases
    `vbmodels.keywords.phrases.model`, for words `vbmodels.keywords.corpus.model`.

    A document is a text or a list of tokens. In a table the columns are ``text`` or ``tokens``
    (with ``pos`` and ``sentence`` where known), and ``keywords`` (lists), ``complete``,
    ``doc_id``, ``scored`` and ``scores`` where there are any. A missing document has no words;
    tokens go before the text of the same row. A missing list of keywords is one that nobody has
    made, an empty one says that somebody looked and listed none; a text in place of a list has
    ``;`` between keywords.

    Attributes
    ----------
    coef_means_, coef_sds_
        Posterior means and standard deviations of the features' coefficients, for features of
        unit variance, in the order of ``feature_names_``.
    feature_names_
        Names of the features of a candidate.
    coefficients_
        The same as a data frame: feature, mean, sd, and the 95 % interval from low to high.
    candidates_
        Every candidate of the fitted documents with the columns of the pipeline's table
        ``keywords``, as a data frame: doc_id, term (as it is most often written), surface (as it
        is written first), stem, words, probability, observed, selected, rank, position and
        occurrences.
    keyword_rate_
        Share of candidates that are keywords.

    Examples
    --------
    >>> texts = ["the cat sat with a cat on the mat", "a dog ran with the dog to a log"] * 6
    >>> known = [["cat"], ["dog"]] * 6
    >>> found = KeywordExtractor(keyphrases=1).fit(texts, known, complete=[True] * 12)
    >>> found.transform(texts[:2])
    [['cat'], ['dog']]
    """

    window: int = option(
        WINDOW, "Largest distance, in words, that counts as co-occurrence.", ge=1, le=50
    )
    damping: float = share(DAMPING, "Damping of TextRank.")
    stop_words: Any = parameter(
        True,
        ["boolean", list, tuple, set, frozenset],
        "Whether stop words are left out; or a list of more of them.",
    )
    prior: Any = parameter(
        None,
        [str, os.PathLike, LearntPrior, None],
        "What is learnt from other corpora: a `LearntPrior`, its file, or none; None: that of ten "
        "public corpora.",
    )
    vocabulary: Any = parameter(
        None,
        [list, tuple, None],
        "Terms: these, where a text has them, are the candidates (unit phrase).",
    )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.no_validation = True
        return tags

    @without_weights(OF_DOCUMENTS)
    def fit(
        self, X: Any, y: Any = None, *, complete: Any = None, ids: Any = None, scores: Any = None
    ) -> Self:
        """Fit the regression.

        Parameters
        ----------
        X
            Documents: texts, lists of tokens, or a table.
        y
            Lists of known keyphrases, one a document; a table may have them itself. None in the
            place of a list: nobody has looked for that document's.
        complete
            Whether a document's keywords are all known, [documents]; by default no.
        ids
            The documents' names; their folds follow from these. By default their numbers.
        scores
            Scores of your own: of each document a mapping from words or phrases to numbers on any
            scale, or None. In a table the columns ``scored`` (lists of them) and ``scores``.

        Raises
        ------
        ValueError
            If a parameter is out of its range, parameters do not go together, no candidate is
            known, lengths differ, or a language cannot be read.
        """
        self._validate_params()
        self._fit(X, y, complete, ids, scores)
        return self

    @without_weights(OF_DOCUMENTS)
    def fit_transform(
        self, X: Any, y: Any = None, *, complete: Any = None, ids: Any = None, scores: Any = None
    ) -> Any:
        """Fit the regression and return the selected candidates of the same documents.

        They are selected by the fit's own posterior, with all that is known of the documents;
        ``fit(X, y).transform(X)`` takes the documents for new ones without known keyphrases.
        Parameters are those of `fit`; the answer is that of `transform`.
        """
        self._validate_params()
        self._fit(X, y, complete, ids, scores)
        return self._given_back(X, self._fitted)

    def _fit(self, X: Any, y: Any, complete: Any, ids: Any, scores: Any) -> None:
        documents = given_documents(X, y, complete, ids, scores)
        warn_of_names(X, COLUMNS, "documents", 5)
        if sentence := conflict(self):
            raise ValueError(sentence)
        parts = self._parts(documents, frozenset())
        shared = shared_sentences(part.read.sample for part in parts)
        if shared:
            parts = self._parts(documents, shared)
        copies = find_copies([part.read.originals for part in parts])
        parts = [part.with_copies(repeated) for part, repeated in zip(parts, copies, strict=True)]
        if not any(len(part.read.spans.key) for part in parts):
            raise ValueError(
                "expected a candidate in some document, found none: texts are empty, or hold no "
                "term of the vocabulary"
            )
        prior = prior_of(self.prior)
        absent = sum((part.read.report.absent_keywords for part in parts), start=Named())
        if not any(part.read.marks.y.any() for part in parts):
            if prior is None:
                raise ValueError(
                    "expected a known keyphrase among the documents' candidates, found none: give "
                    "some, or leave out prior='none'"
                )
            if absent.count:
                warnings.warn(
                    f"none of the {absent.count} known keyphrases is in its document's text, such "
                    f"as {absent.names[0]}: the fit is that of texts without any",
                    stacklevel=4,
                )
        phrases = self.unit == "phrase"
        self._corpus, self._names = Corpus.of(parts, phrases, shared), frozenset(documents.names)
        batches = [self._batch(part) for part in parts]
        counted = [
            every if part.counted.all() else self._batch(part, True)
            for part, every in zip(parts, batches, strict=True)
        ]
        q = self._run(self._model(prior), counted)
        most = self.model_.most_per_document(q.observed) if phrases else None
        if most is not None:
            warnings.warn(
                f"keyphrases={self.model_.per_document:g} is more than a document can have: "
                f"expected at most {most:.3g}",
                stacklevel=4,
            )
        own, its = self._regression()
        self.feature_names_ = PHRASE_FEATURES if phrases else FEATURE_NAMES
        self.coef_means_ = its.mean
        self._covariance = own.posterior_covariance(its)
        self.coef_sds_ = np.sqrt(np.diag(self._covariance))
        self.keyword_rate_ = its.rate
        self._known = sum(int(part.read.marks.y.sum()) + len(part.read.listed) for part in parts)
        self._absent = absent.count
        report = reduce(add, (part.read.report for part in parts))
        self._left_out = (
            (sum(int((~part.counted).sum()) for part in parts), "exact copies do not count."),
            (report.shared.count, "documents are read without sentences that most have."),
            (report.marks.total(), "lists are a mark for none given."),
        )
        scored = [self._score(*one, fitted=True) for one in zip(parts, batches, strict=True)]
        self._fitted = self._candidates(X, ids, scored)

    def _batch(self, part: ReadPart, counted: bool = False) -> KeywordBatch | PhraseBatch:
        return part.batch(self._corpus, self.window, self.damping, counted)

    def _model(self, prior: LearntPrior | None) -> CorpusProbit | Keyphrases:
        kind = None if self.lists == "complete" else self.lists
        if self.unit == "phrase":
            return keyphrases_model(prior, kind, self.keyphrases, self.rate_sd)
        return words_model(prior, kind, self.keyword_rate, self.rate_sd)

    def _regression(self) -> tuple[CorpusProbit, CorpusGlobal]:
        """Return the regression of the candidates and its fit."""
        if isinstance(self.model_, Keyphrases):
            return self.model_.phrases, self.q_.phrases
        return self.model_, self.q_

    def _score(self, part: ReadPart, batch: KeywordBatch | PhraseBatch, *, fitted: bool) -> Scored:
        """Return a partition's candidates with probabilities; ``fitted``: the fit saw them."""
        regression, its = self._regression()
        units: KeywordBatch
        if isinstance(batch, PhraseBatch):
            units, scores = self.model_.phrases_and_scores(self.q_, batch)
        else:
            units, scores = batch, None
        nodes = regression.by_node(its, units, fitted=fitted, extra=scores)
        return Scored(part, units, average(its, units, nodes))

    @property
    def candidates_(self) -> Any:
        """The candidates of the fitted documents."""
        return frame(_table(self._fitted))

    @property
    def coefficients_(self) -> Any:
        """The coefficients by name."""
        return intervals({"feature": self.feature_names_}, self.coef_means_, self.coef_sds_)

    def _found(self) -> str:
        absent = f" {self._absent} known keyphrases are no candidates." if self._absent else ""
        absent += "".join(f" {count} {what}" for count, what in self._left_out if count)
        return (
            f"{self._corpus.n_documents} documents with {self._known} known keyphrases; "
            f"{100.0 * self.keyword_rate_:.3g} % of the candidate {self.unit}s are "
            f"keyphrases.{absent}"
        )

    def _weights(self) -> list[str]:
        head = "Largest coefficients (of features of unit variance, 95 %):"
        return [head, *lines_of(largest(self.coefficients_, ["feature"]))]

    def _compared(self, X: Any, y: Any) -> str:
        chance = self.score(X, y)
        return (
            f"A known keyphrase ranks above another candidate: {100.0 * chance:.3g} % "
            "(chance: 50 %)."
        )

    def transform(
        self, X: Any, keywords: Any = None, *, ids: Any = None, scores: Any = None
    ) -> Any:
        """Return the selected candidates of each document, most probable first.

        Parameters
        ----------
        X
            Documents as for `fit`.
        keywords
            Known keyphrases of each: they help, and are among the selected candidates.
        ids
            The documents' names. One that the fit saw is its document's: what the fit learned
            from the labels of that document's fold is then left out of the feature that counts
            how often a candidate is a keyword. Without names all documents are new.
        scores
            As for `fit`.

        Returns
        -------
        terms
            A list of candidates for each document, each as it is most often written; for a table
            one of the same kind: doc_id and keywords.
        """
        return self._given_back(X, self._scored(X, keywords, ids, scores))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns that `transform` gives a table: doc_id and keywords."""
        return np.array(["doc_id", "keywords"], object)

    def predict(self, X: Any, *, ids: Any = None, scores: Any = None) -> Any:
        """Return the selected candidates of documents of which no keyword is known.

        What a table lists in ``keywords`` is not looked at, so that scikit-learn's
        ``cross_val_predict`` says what would be found without it.

        Returns
        -------
        terms
            A list of candidates for each document, most probable first; an array of lists,
            [documents].
        """
        selected = np.empty(length_of(X), object)
        selected[:] = _chosen(self._scored(X, None, ids, scores, blind=True))
        return selected

    def score(self, X: Any, y: Any = None, *, ids: Any = None, scores: Any = None) -> float:
        """Return how well known keyphrases are ranked when nothing is said of them.

        Parameters
        ----------
        X, ids, scores
            As for `transform`.
        y
            Lists of known keyphrases; a table may have them itself. They are used for the
            score only.

        Returns
        -------
        auroc
            The chance that a known keyphrase has a higher probability than another candidate of its
            document; the mean over documents that have both.

        Raises
        ------
        ValueError
            If no document has both.
        """
        check_is_fitted(self)
        documents = given_documents(X, y, None, ids, scores)
        known = self._read(documents, documents.folds, self._corpus.shared)
        true = {
            (int(d), int(key))
            for d, key in zip(
                known.documents[known.read.spans.document[known.read.marks.y]],
                known.read.spans.key[known.read.marks.y],
                strict=True,
            )
        }
        words = self._scored(X, None, ids, scores, blind=True)
        pairs = zip(words["document"].tolist(), words["key"].tolist(), strict=True)
        y = np.array([pair in true for pair in pairs], bool)
        ends = np.searchsorted(words["document"], np.arange(len(documents.names) + 1))
        areas = [
            roc_auc_score(y[rows], words["probability"][rows])
            for start, stop in pairwise(ends.tolist())
            if 0 < y[rows := slice(start, stop)].sum() < stop - start
        ]
        if not areas:
            raise ValueError(
                "expected a document with a known keyphrase and another candidate, found none"
            )
        return float(np.mean(areas))

    def score_candidates(
        self, X: Any, keywords: Any = None, *, ids: Any = None, scores: Any = None
    ) -> Any:
        """Return every candidate of documents with the columns of ``candidates_``.

        They are in the kind of table of ``X``, for a list of documents a structured array.
        Parameters are those of `transform`.
        """
        columns = _table(self._scored(X, keywords, ids, scores))
        return like(X if is_frame(X) else None, columns, rows=False)

    def _scored(
        self, X: Any, keywords: Any, ids: Any, scores: Any, blind: bool = False
    ) -> dict[str, Any]:
        """Score documents; ``blind``: without what a table says of their keywords."""
        check_is_fitted(self)
        documents = given_documents(X, keywords, None, ids, scores)
        if blind:
            documents = documents.without_labels()
        known = ids is not None or column_of(X, "doc_id") is not None
        seen = np.array([known and name in self._names for name in documents.names], bool)
        part = self._read(documents, np.where(seen, documents.folds, OUTSIDE), self._corpus.shared)
        return self._candidates(X, ids, [self._score(part, self._batch(part), fitted=False)])

    def _candidates(self, X: Any, ids: Any, scored: Sequence[Scored]) -> dict[str, Any]:
        """Return all candidates of the partitions with their probabilities and selection."""
        names = column_of(X, "doc_id") if ids is None else values_of(ids)
        select = self.select or ("best_f" if self.unit == "phrase" else "fdr")
        parts = [
            Histogram.of(r, units.y, units.offsets, self._most(units)) for _, units, r in scored
        ]
        least = reduce(add, parts).least(select, self.fdr)
        columns = [self._columns(entry, least) for entry in scored]
        return {
            "ids": names or list(range(length_of(X))),
            **{name: _joined([part[name] for part in columns]) for name in columns[0]},
        }

    def _most(self, units: KeywordBatch) -> int | IntArray | None:
        """Return how many new candidates of a document may be selected."""
        if self.per_document is not None or self.unit == "word":
            return self.per_document
        return most_new(number_of(self._regression()[1], self.keyphrases), units.y, units.offsets)

    def _columns(self, scored: Scored, least: int) -> dict[str, Any]:
        """Return the columns of a partition's candidates; those from bin ``least`` are selected."""
        part, units, r = scored
        chosen = select_above(r, units.y, units.offsets, least, self._most(units))
        if self.unit == "phrase":
            chosen = with_whole_phrases(chosen, units.y, part.read.spans, part.read.tokens.n_tokens)
        rows = part.rows
        texts, spans = rows.texts, rows.spans
        r, known, chosen = rows.take(r, 1.0), rows.take(units.y, True), rows.take(chosen, True)
        if self.unit == "phrase":
            chosen = without_near_duplicates(chosen, known, r, texts.stem, spans.offsets)
            chosen = without_parts(chosen, known, r, spans)
        return {
            "document": part.documents[spans.document],
            "key": spans.key,
            "term": list(texts.term),
            "surface": list(texts.surface),
            "stem": list(texts.stem),
            "words": rows.words,
            "probability": r,
            "observed": known,
            "selected": chosen,
            "rank": word_ranks(r, rows.offsets),
            "position": texts.position,
            "occurrences": texts.occurrences,
        }

    def _given_back(self, X: Any, words: dict[str, Any]) -> Any:
        """Return the selected candidates as a table where one was given, else as lists."""
        columns = {"doc_id": words["ids"], "keywords": _chosen(words)}
        if _get_output_config("transform", self)["dense"] != "default":
            return columns  # scikit-learn makes a table of them
        return like(X, columns) if is_frame(X) else columns["keywords"]

    def _parts(self, documents: GivenDocuments, shared: frozenset[int]) -> list[ReadPart]:
        """Read the documents of each partition."""
        size = len(documents.rows)
        cuts = np.array_split(np.arange(size), min(self.n_partitions, size))
        rows = [slice(int(cut[0]), int(cut[-1]) + 1) for cut in cuts]
        return [self._read(documents, documents.folds, shared, chunk) for chunk in rows]

    def _read(
        self,
        documents: GivenDocuments,
        folds: IntArray,
        shared: frozenset[int],
        rows: slice = slice(None),
    ) -> ReadPart:
        """Read some of the documents, of which all the folds are given, without some sentences."""
        terms = tuple(dict.fromkeys(map(str, self.vocabulary or ())))
        whole = self.lists == "complete"
        return ReadPart.of(
            [completed(row) if whole else row for row in documents.rows[rows]],
            folds,
            self._text_options(),
            self.unit == "phrase",
            Vocabulary(terms, bool(terms) and self.vocabulary_only),
            shared,
        )

    def _text_options(self) -> TextOptions:
        plainly = isinstance(self.stop_words, bool | np.bool_)
        added = () if plainly else self.stop_words
        return TextOptions(
            language=named(self.language),
            stem=self.stem,
            stop_words=bool(self.stop_words) if plainly else True,
            more_stop_words=frozenset(map(plain, map(str, added))),
            min_count=self.min_count,
            max_words=self.max_words,
        )


def _table(words: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of the table of candidates."""
    names = [words["ids"][d] for d in words["document"]]
    pairs = zip(words["term"], names, strict=True)
    own_name = np.array([term.lower() == str(name).lower() for term, name in pairs], bool)
    part_of = longer_phrases(
        *(words[name] for name in ("document", "stem", "term", "selected", "observed"))
    )
    table = {name: words[name] for name in TABLE}
    return {"doc_id": names, **table, "own_name": own_name, "part_of": part_of}


def _joined(parts: list[Any]) -> Any:
    """Return a column of partitions, a list or an array, in one piece."""
    if isinstance(parts[0], list):
        return [cell for part in parts for cell in part]
    return np.concatenate(parts)


def _chosen(words: dict[str, Any]) -> list[list[str]]:
    """Return the selected candidates of each document, most probable first."""
    chosen: list[list[str]] = [[] for _ in words["ids"]]
    for i in np.lexsort((words["rank"], words["document"])):
        if words["selected"][i]:
            chosen[words["document"][i]].append(words["term"][i])
    return chosen
