"""Keywords of documents, from a few that are known, as an estimator with a transform.

Documents are texts, no table of numbers: of scikit-learn's checks those of parameters,
cloning, storing and tags apply, and no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any, Self

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from sklearn.metrics import roc_auc_score
from sklearn.utils._param_validation import StrOptions
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted

from vbmodels.core.options import option, share
from vbmodels.core.state import FloatArray
from vbmodels.estimators.base import Draws, LoopEstimator, documented, parameter
from vbmodels.estimators.columns import NamedColumns, by_our_names
from vbmodels.estimators.documents import ReadDocuments, WordRules, count_terms, read_documents
from vbmodels.estimators.findings import draw, intervals, largest, lines_of
from vbmodels.estimators.tables import cells_of, is_frame, is_missing, like, names_of, values_of
from vbmodels.estimators.weights import without_weights
from vbmodels.keywords.corpus.model import CorpusProbit
from vbmodels.keywords.corpus.selection import Histogram, select_above
from vbmodels.keywords.documents import KeywordBatch
from vbmodels.keywords.features import FEATURE_NAMES
from vbmodels.keywords.options import DAMPING, WINDOW, KeywordOptions, conflict
from vbmodels.keywords.selection import word_ranks

COLUMNS = ("doc_id", "text", "tokens", "keywords", "complete", "scored", "scores")
"""What is looked for in a table."""
ABSENT = ("doc_id", "keywords", "complete", "scored", "scores")
"""Those of them that new documents may lack, though the user has named them."""
SEPARATOR = ";"
"""What stands between keywords where a text is given in place of a list."""


@dataclass(frozen=True)
class GivenDocuments:
    """Documents, known keywords, whether these are all, names, scores of the user's own."""

    documents: list[Any]
    known: list[Any]
    whole: list[bool]
    names: list[str]
    scores: list[Any]


def given_documents(X: Any, y: Any, complete: Any, ids: Any, scores: Any) -> GivenDocuments:
    """Return what is given, from arguments or a table.

    Raises
    ------
    ValueError
        If there is no document, or an argument has not one entry for each.
    """
    documents = _documents(X)
    if not documents:
        raise ValueError("expected documents in a list or in a column text or tokens")
    size = len(documents)
    known = _given(y, column_of(X, "keywords"), [None] * size, "a list of keywords")
    known = [None if is_missing(words) else words for words in known]
    known = [w.split(SEPARATOR) if isinstance(w, str) else w for w in known]
    whole = _given(complete, column_of(X, "complete"), [False] * size, "a mark")
    marks = [not is_missing(mark) and bool(mark) for mark in whole]
    names = _given(ids, column_of(X, "doc_id"), list(range(size)), "a name")
    own = _given(scores, _scores_of(X), [None] * size, "a mapping of scores")
    own = [None if is_missing(one) else one for one in own]
    return GivenDocuments(documents, known, marks, [str(name) for name in names], own)


def _scores_of(X: Any) -> list[Any] | None:
    """Return a table's scores as mappings, None where a row has none."""
    words, values = column_of(X, "scored"), column_of(X, "scores")
    if words is None or values is None:
        return None
    return [
        None if is_missing(w) or is_missing(v) else dict(zip(w, v, strict=True))
        for w, v in zip(words, values, strict=True)
    ]


def _documents(X: Any) -> list[Any]:
    """Return texts or lists of tokens; one that is missing has no words."""
    if isinstance(X, str):
        raise ValueError(
            f"expected a list of documents or a table, got one text ({X[:30]!r}): put it in a list"
        )
    if not is_frame(X):
        return ["" if is_missing(document) else document for document in values_of(X)]
    columns = [cells for name in ("tokens", "text") if (cells := column_of(X, name)) is not None]
    return [
        next((cell for cell in cells if cell is not None), "")
        for cells in zip(*columns, strict=True)
    ]


def column_of(X: Any, name: str) -> list[Any] | None:
    """Return a table's column, None where it has none of that name or is no table."""
    return cells_of(X, name) if is_frame(X) and name in names_of(X) else None


def length_of(X: Any) -> int:
    """Return the number of documents."""
    return len(cells_of(X, names_of(X)[0])) if is_frame(X) else len(X)


def _given(first: Any, second: list[Any] | None, default: Sequence[Any], what: str) -> list[Any]:
    found = values_of(first) if first is not None else second
    if found is None:
        return list(default)
    if len(found) != len(default):
        raise ValueError(f"expected {what} for each of {len(default)} documents, got {len(found)}")
    return found


OF_DOCUMENTS = "every document counts once; leave out documents that should not count"


@documented
@dataclass(eq=False, repr=False)
class KeywordExtractor(TransformerMixin, KeywordOptions, NamedColumns, LoopEstimator):
    """Keywords of documents by one regression over the corpus (`vbmodels.keywords.corpus.model`).

    A document is a text or a list of tokens. In a table the columns are ``text`` or ``tokens``,
    and ``keywords`` (lists), ``complete``, ``doc_id``, ``scored`` and ``scores`` where there are
    any. A missing document has no words; tokens go before the text of the same row. A missing
    list of keywords is one that nobody has made, an empty one says that somebody looked and
    listed none; a text in place of a list has ``;`` between keywords. Where more than a tenth of
    the known keywords have several words, features that compare a word with its document's known
    ones are left out (`vbmodels.keywords.phrase_mates`).

    Attributes
    ----------
    coef_means_, coef_sds_
        Posterior means and standard deviations of the features' coefficients, for features of
        unit variance, in the order of ``feature_names_``.
    feature_names_
        Names of the features of a word.
    coefficients_
        The same as a data frame: feature, mean, sd, and the 95 % interval from low to high.
    keyword_rate_
        Share of words that are keywords.

    Examples
    --------
    >>> texts = ["the cat sat with a cat on the mat", "a dog ran with the dog to a log"] * 6
    >>> known = [["cat"], ["dog"]] * 6
    >>> found = KeywordExtractor(keyword_rate=0.3).fit(texts, known, complete=[True] * 12)
    >>> found.transform(texts[:2])
    [['cat'], ['dog']]
    """

    window: int = option(
        WINDOW, "Largest distance, in words, that counts as co-occurrence.", ge=1, le=50
    )
    damping: float = share(DAMPING, "Damping of TextRank.")
    min_count: int = option(1, "Least occurrences of a candidate in its document.", ge=1)
    stop_words: Any = parameter(
        "english",
        [StrOptions({"english"}), list, None],
        '"english" (scikit-learn\'s list), a list of words, or None.',
    )
    stemmer: Any = parameter(
        None,
        [callable, None],
        "Function from a word in lower case to its stem; None: words stay as they are.",
    )
    tokenizer: Any = parameter(
        None,
        [callable, None],
        "Function from a text to its tokens; None: runs of letters, digits, hyphens and "
        "apostrophes that begin with a letter.",
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
            Lists of known keywords, one a document; a table may have them itself. None in the
            place of a list: nobody has looked for that document's.
        complete
            Whether a document's keywords are all known, [documents]; by default no.
        ids
            The documents' names; their folds follow from these. By default their numbers.
        scores
            Scores of your own: of each document a mapping from words to numbers on any scale, or
            None. In a table the columns ``scored`` (lists of words) and ``scores``.

        Raises
        ------
        ValueError
            If a parameter is out of its range, parameters do not go together, no word is
            known, or lengths differ.
        """
        self._validate_params()
        self._fit(given_documents(self._ours(X), y, complete, ids, scores))
        return self

    @without_weights(OF_DOCUMENTS)
    def fit_transform(
        self, X: Any, y: Any = None, *, complete: Any = None, ids: Any = None, scores: Any = None
    ) -> Any:
        """Fit the regression and return the selected words of the same documents.

        They are selected by the fit's own posterior, with all that is known of the documents;
        ``fit(X, y).transform(X)`` takes the documents for new ones without known keywords.
        Parameters are those of `fit`; the answer is that of `transform`.
        """
        self._validate_params()
        found, ours = [], self._ours(X)
        for read, batch in self._fit(given_documents(ours, y, complete, ids, scores)):
            found.append((read, batch, self.model_.probabilities(self.q_, batch, None)))
        return self._given_back(X, self._words(ours, ids, found))

    def _fit(self, given: GivenDocuments) -> list[tuple[ReadDocuments, KeywordBatch]]:
        """Fit, and return each partition's documents as they were read and as arrays."""
        parts = self._parts(given)
        if not any(part.tokens.y.any() for part in parts):
            raise ValueError("expected a known keyword among the documents' words, found none")
        if sentence := conflict(self):
            raise ValueError(sentence)
        self._corpus, self._names = count_terms(parts), frozenset(given.names)
        model = CorpusProbit(keyword_rate=self.keyword_rate, keyword_rate_sd=self.rate_sd)
        batches = [part.batch(self._corpus, self.window, self.damping) for part in parts]
        q = self._run(model, batches)
        self.feature_names_ = FEATURE_NAMES
        self.coef_means_ = q.mean
        self._covariance = model.posterior_covariance(q)
        self.coef_sds_ = np.sqrt(np.diag(self._covariance))
        self.keyword_rate_ = q.rate
        self._known = sum(int(part.tokens.y.sum()) for part in parts)
        return list(zip(parts, batches, strict=True))

    @property
    def coefficients_(self) -> Any:
        """The coefficients by name."""
        return intervals({"feature": self.feature_names_}, self.coef_means_, self.coef_sds_)

    def _found(self) -> str:
        documents, known = self._corpus.n_documents, self._known
        return (
            f"{documents} documents with {known} known words; {100.0 * self.keyword_rate_:.3g} % "
            "of words are keywords."
        )

    def _weights(self) -> list[str]:
        head = "Largest coefficients (of features of unit variance, 95 %):"
        return [head, *lines_of(largest(self.coefficients_, ["feature"]))]

    def _compared(self, X: Any, y: Any) -> str:
        chance = self.score(X, y)
        return f"A known keyword ranks above another word: {100.0 * chance:.3g} % (chance: 50 %)."

    def plot(self, ax: Any = None) -> Any:
        """Draw the coefficients with 95 % intervals on matplotlib's axes, and return these."""
        check_is_fitted(self)
        table = largest(self.coefficients_, ["feature"])
        return draw(table, ax, "coefficient, with 95 % interval")

    def transform(
        self, X: Any, keywords: Any = None, *, ids: Any = None, scores: Any = None
    ) -> Any:
        """Return the selected words of each document, most probable first.

        Parameters
        ----------
        X
            Documents as for `fit`.
        keywords
            Known keywords of each: they help, and are among the selected words.
        ids
            The documents' names. One that the fit saw stands for its document: what the fit
            learned from the labels of that document's fold is then left out of the feature
            that counts how often a word is a keyword. Without names all documents are new.
        scores
            As for `fit`.

        Returns
        -------
        words
            A list of words for each document; for a table one of the same kind: doc_id and
            keywords.
        """
        return self._given_back(X, self._scored(X, keywords, ids, scores))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns that `transform` gives a table: doc_id and keywords."""
        return np.array(["doc_id", "keywords"], object)

    def predict(self, X: Any, *, ids: Any = None, scores: Any = None) -> Any:
        """Return the selected words of documents of which no keyword is known.

        What a table lists in ``keywords`` is not looked at, so that scikit-learn's
        ``cross_val_predict`` says what would be found without it.

        Returns
        -------
        words
            A list of words for each document, most probable first; an array of lists,
            [documents].
        """
        none = [None] * length_of(X)
        found = np.empty(len(none), object)
        found[:] = _chosen(self._scored(X, none, ids, scores))
        return found

    def score(self, X: Any, y: Any = None, *, ids: Any = None, scores: Any = None) -> float:
        """Return how well known keywords are ranked when nothing is said of them.

        Parameters
        ----------
        X, ids, scores
            As for `transform`.
        y
            Lists of known keywords; a table may have them itself. They are used for the
            score only.

        Returns
        -------
        auroc
            The chance that a known keyword has a higher probability than another word of its
            document; the mean over documents that have both.

        Raises
        ------
        ValueError
            If no document has both.
        """
        check_is_fitted(self)
        given = given_documents(self._ours(X), y, None, ids, scores)
        known = self._reading(given, given.known)[0].tokens
        words = self._scored(X, [None] * len(given.names), ids, scores)
        found = [
            roc_auc_score(known.y[part], words["probability"][part])
            for start, stop in pairwise(known.offsets)
            if 0 < known.y[part := slice(start, stop)].sum() < stop - start
        ]
        if not found:
            raise ValueError(
                "expected a document with a known keyword and another word, found none"
            )
        return float(np.mean(found))

    def score_words(
        self, X: Any, keywords: Any = None, *, ids: Any = None, scores: Any = None
    ) -> Any:
        """Return every candidate word: doc_id, term, probability, selected and rank.

        In the kind of table of ``X``; for a list of documents a structured array. Parameters
        are those of `transform`.
        """
        words = self._scored(X, keywords, ids, scores)
        columns = {
            "doc_id": [words["ids"][d] for d in words["document"]],
            "term": words["term"],
            "probability": words["probability"],
            "selected": words["selected"],
            "rank": words["rank"],
        }
        return like(X if is_frame(X) else None, columns, rows=False)

    def _scored(self, X: Any, keywords: Any, ids: Any, scores: Any) -> dict[str, Any]:
        check_is_fitted(self)
        ours = self._ours(X)
        given = given_documents(ours, keywords, None, ids, scores)
        named = ids is not None or column_of(ours, "doc_id") is not None
        seen = [name if named and name in self._names else None for name in given.names]
        read, batch = self._reading(given, given.known, seen)
        return self._words(ours, ids, [(read, batch, self.model_.predict(self.q_, batch))])

    def _reading(
        self, given: GivenDocuments, known: list[Any], seen: Sequence[str | None] | None = None
    ) -> tuple[ReadDocuments, KeywordBatch]:
        """Read documents with these known keywords; ``seen`` are the fit's names of them."""
        read = read_documents(
            given.documents, known, given.whole, seen or [None] * len(known), self._rules(),
            given.scores,
        )  # fmt: skip
        return read, read.batch(self._corpus, self.window, self.damping)

    def _ours(self, X: Any) -> Any:
        return by_our_names(X, self.columns, COLUMNS, ABSENT)

    def _words(
        self, X: Any, ids: Any, found: Sequence[tuple[ReadDocuments, KeywordBatch, FloatArray]]
    ) -> dict[str, Any]:
        """Return all words of the partitions with their probabilities."""
        names = column_of(X, "doc_id") if ids is None else values_of(ids)
        parts = (Histogram.of(p, b.y, b.offsets, self.per_document) for _, b, p in found)
        least = reduce(add, parts).least(self.select, self.fdr)
        chosen = [select_above(p, b.y, b.offsets, least, self.per_document) for _, b, p in found]
        return {
            "ids": names or list(range(length_of(X))),
            "document": np.concatenate([r.kept[b.document_of_word] for r, b, _ in found]),
            "term": [term for read, _, _ in found for term in read.surfaces],
            "probability": np.concatenate([p for _, _, p in found]),
            "selected": np.concatenate(chosen),
            "rank": np.concatenate([word_ranks(p, batch.offsets) for _, batch, p in found]),
        }

    def _given_back(self, X: Any, words: dict[str, Any]) -> Any:
        """Return the selected words as a table where one was given, else as lists."""
        columns = {"doc_id": words["ids"], "keywords": _chosen(words)}
        if _get_output_config("transform", self)["dense"] != "default":
            return columns  # scikit-learn makes a table of them
        return like(X, columns) if is_frame(X) else columns["keywords"]

    def _parts(self, given: GivenDocuments) -> list[ReadDocuments]:
        """Read the documents of each partition; they keep their numbers among all."""
        size = len(given.documents)
        parts = np.array_split(np.arange(size), min(self.n_partitions, size))
        read = []
        for part in parts:
            cut = slice(part[0], part[-1] + 1)
            some = read_documents(
                given.documents[cut], given.known[cut], given.whole[cut], given.names[cut],
                self._rules(), given.scores[cut],
            )  # fmt: skip
            read.append(replace(some, kept=some.kept + part[0]))
        return read

    def _rules(self) -> WordRules:
        stop: Any = self.stop_words
        words = ENGLISH_STOP_WORDS if stop == "english" else frozenset(stop or ())
        return WordRules(self.tokenizer, frozenset(words), self.stemmer, self.min_count)

    def _draws(self, count: int, rng: np.random.Generator) -> Draws:
        factor = np.linalg.cholesky(self._covariance)
        noise = rng.standard_normal((count, len(self.coef_means_)))
        return {"coef": (self.coef_means_ + noise @ factor.T)[None]}, {"coef": ["word_feature"]}


def _chosen(words: dict[str, Any]) -> list[list[str]]:
    """Return the selected words of each document, most probable first."""
    chosen: list[list[str]] = [[] for _ in words["ids"]]
    for i in np.lexsort((words["rank"], words["document"])):
        if words["selected"][i]:
            chosen[words["document"][i]].append(words["term"][i])
    return chosen
