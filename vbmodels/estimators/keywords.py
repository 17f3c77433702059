"""Keywords of documents, from a few that are known, as an estimator with a transform.

Documents are texts, no table of numbers: of scikit-learn's checks those of parameters,
cloning, storing and tags apply, and no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from vbmodels.estimators.base import LOOP_CONSTRAINTS, Draws, LoopEstimator, positive
from vbmodels.estimators.documents import (
    ReadDocuments,
    WordRules,
    count_terms,
    read_documents,
)
from vbmodels.estimators.tables import cells_of, is_frame, like, names_of
from vbmodels.keywords.features import FEATURE_NAMES
from vbmodels.keywords.graph import DAMPING, WINDOW
from vbmodels.keywords.pooled import PooledVBSS
from vbmodels.keywords.selection import select_by_fdr, word_ranks


class KeywordExtractor(TransformerMixin, LoopEstimator):
    """Keywords of documents by one regression over the corpus (pooled VBSS of ``keywords``).

    A document is a text or a list of tokens. In a table the columns are ``text`` or ``tokens``,
    and ``keywords`` (lists), ``complete`` and ``doc_id`` where there are any.

    Parameters
    ----------
    fdr
        Level of the Bayesian false discovery rate of the selected words.
    keyword_rate
        Share of candidate words that are keywords; None: from documents marked complete.
    document_precision
        Precision of an intercept of each document; None: there is none.
    window
        Largest distance, in words, that counts as co-occurrence.
    damping
        Of TextRank.
    min_count
        Least occurrences of a candidate in its document.
    stop_words
        "english" (scikit-learn's list), a list of words, or None.
    stemmer
        Function from a word in lower case to its stem; None: words stay as they are.
    tokenizer
        Function from a text to its tokens; None: runs of letters, digits, hyphens and
        apostrophes that begin with a letter.
    tol, max_iter, n_partitions, random_state, client
        See `vbmodels.estimators.experts.MixtureOfExperts`.

    Attributes
    ----------
    coef_means_, coef_sds_
        Posterior means and standard deviations of the features' coefficients, for features of
        unit variance, in the order of ``feature_names_``.
    feature_names_
        Names of the features of a word.
    keyword_rate_
        Share of words that are keywords, NaN where it is not known.

    Examples
    --------
    >>> texts = ["the cat sat with a cat on the mat", "a dog ran with the dog to a log"] * 6
    >>> known = [["cat"], ["dog"]] * 6
    >>> found = KeywordExtractor(keyword_rate=0.3).fit(texts, known, complete=[True] * 12)
    >>> found.transform(texts[:2])
    [['cat'], ['dog']]
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "fdr": [Interval(Real, 0.0, 1.0, closed="neither")],
        "keyword_rate": [Interval(Real, 0.0, 1.0, closed="neither"), None],
        "document_precision": [positive(), None],
        "window": [Interval(Integral, 1, 50, closed="both")],
        "damping": [Interval(Real, 0.0, 1.0, closed="neither")],
        "min_count": [positive(Integral)],
        "stop_words": [StrOptions({"english"}), list, None],
        "stemmer": [callable, None],
        "tokenizer": [callable, None],
        **LOOP_CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        fdr: float = 0.1,
        keyword_rate: float | None = None,
        document_precision: float | None = None,
        window: int = WINDOW,
        damping: float = DAMPING,
        min_count: int = 1,
        stop_words: Any = "english",
        stemmer: Any = None,
        tokenizer: Any = None,
        tol: float = 1e-8,
        max_iter: int = 1000,
        n_partitions: int = 1,
        random_state: Any = None,
        client: Any = None,
    ) -> None:
        self.fdr = fdr
        self.keyword_rate = keyword_rate
        self.document_precision = document_precision
        self.window = window
        self.damping = damping
        self.min_count = min_count
        self.stop_words = stop_words
        self.stemmer = stemmer
        self.tokenizer = tokenizer
        self.tol = tol
        self.max_iter = max_iter
        self.n_partitions = n_partitions
        self.random_state = random_state
        self.client = client

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.no_validation = True
        return tags

    def fit(self, X: Any, y: Any = None, *, complete: Any = None, ids: Any = None) -> Self:
        """Fit the regression.

        Parameters
        ----------
        X
            Documents: texts, lists of tokens, or a table.
        y
            Lists of known keywords, one a document; a table may have them itself.
        complete
            Whether a document's keywords are all known, [documents]; by default no.
        ids
            The documents' names; their folds follow from these. By default their numbers.

        Raises
        ------
        ValueError
            If a parameter is out of its range, no word is known, or lengths differ.
        """
        self._validate_params()
        parts = self._parts(*self._columns(X, y, complete, ids))
        if not any(part.tokens.y.any() for part in parts):
            raise ValueError("expected a known keyword among the documents' words, found none")
        self._corpus = count_terms(parts)
        model = PooledVBSS(self.keyword_rate, document_precision=self.document_precision)
        q = self._run(
            model, [part.batch(self._corpus, self.window, self.damping) for part in parts]
        )
        self.feature_names_ = FEATURE_NAMES
        self.coef_means_ = q.mean
        self._covariance = model.posterior_covariance(q)
        self.coef_sds_ = np.sqrt(np.diag(self._covariance))
        self.keyword_rate_ = q.rate
        return self

    def transform(self, X: Any, keywords: Any = None) -> Any:
        """Return the selected words of each document, most probable first.

        Known keywords of new documents help; they are among the selected words. For a table
        the answer is one of the same kind: doc_id and keywords.
        """
        words = self._scored(X, keywords)
        chosen: list[list[str]] = [[] for _ in range(words["n_documents"])]
        order = np.lexsort((words["rank"], words["document"]))
        for i in order:
            if words["selected"][i]:
                chosen[words["document"][i]].append(words["term"][i])
        if not is_frame(X):
            return chosen
        return like(X, {"doc_id": words["ids"], "keywords": chosen})

    def score_words(self, X: Any, keywords: Any = None) -> Any:
        """Return every candidate word: doc_id, term, probability, selected and rank.

        In the kind of table of ``X``; for a list of documents a structured array.
        """
        words = self._scored(X, keywords)
        columns = {
            "doc_id": [words["ids"][d] for d in words["document"]],
            "term": words["term"],
            "probability": words["probability"],
            "selected": words["selected"],
            "rank": words["rank"],
        }
        return like(X if is_frame(X) else None, columns, rows=False)

    def _scored(self, X: Any, keywords: Any) -> dict[str, Any]:
        check_is_fitted(self)
        documents, known, whole, _ = self._columns(X, keywords, None, None)
        read = read_documents(documents, known, whole, None, self._rules())
        batch = read.batch(self._corpus, self.window, self.damping)
        probability = self.model_.predict(self.q_, batch)
        selected = select_by_fdr(probability, batch.y, batch.offsets, self.fdr)
        ids = _column(X, "doc_id") or list(range(_length(X)))
        return {
            "ids": ids,
            "n_documents": len(ids),
            "document": read.kept[batch.document_of_word],
            "term": read.surfaces,
            "probability": probability,
            "selected": selected,
            "rank": word_ranks(probability, batch.offsets),
        }

    def _parts(
        self, documents: list[Any], known: list[Any], whole: list[Any], names: list[str]
    ) -> list[ReadDocuments]:
        """Read the documents of each partition."""
        size = len(documents)
        parts = np.array_split(np.arange(size), min(self.n_partitions, size))
        cuts = [slice(part[0], part[-1] + 1) for part in parts]
        return [
            read_documents(documents[cut], known[cut], whole[cut], names[cut], self._rules())
            for cut in cuts
        ]

    def _columns(
        self, X: Any, y: Any, complete: Any, ids: Any
    ) -> tuple[list[Any], list[Any], list[Any], list[str]]:
        """Return documents, their known keywords, whether these are all, and names."""
        documents = _column(X, "tokens") or _column(X, "text") if is_frame(X) else list(X)
        if not documents:
            raise ValueError("expected documents in a list or in a column text or tokens")
        size = len(documents)
        known = _given(y, _column(X, "keywords"), [()] * size, "a list of keywords")
        whole = _given(complete, _column(X, "complete"), [False] * size, "a mark")
        names = _given(ids, _column(X, "doc_id"), list(range(size)), "a name")
        return documents, known, whole, [str(name) for name in names]

    def _rules(self) -> WordRules:
        stop: Any = self.stop_words
        words = ENGLISH_STOP_WORDS if stop == "english" else frozenset(stop or ())
        return WordRules(self.tokenizer, frozenset(words), self.stemmer, self.min_count)

    def _draws(self, count: int, rng: np.random.Generator) -> Draws:
        factor = np.linalg.cholesky(self._covariance)
        noise = rng.standard_normal((count, len(self.coef_means_)))
        return {"coef": (self.coef_means_ + noise @ factor.T)[None]}, {"coef": ["word_feature"]}


def _column(X: Any, name: str) -> list[Any] | None:
    return cells_of(X, name) if is_frame(X) and name in names_of(X) else None


def _length(X: Any) -> int:
    return len(cells_of(X, names_of(X)[0])) if is_frame(X) else len(X)


def _given(first: Any, second: list[Any] | None, default: Sequence[Any], what: str) -> list[Any]:
    found = list(first) if first is not None else second
    if found is None:
        return list(default)
    if len(found) != len(default):
        raise ValueError(f"expected {what} for each of {len(default)} documents, got {len(found)}")
    return found
