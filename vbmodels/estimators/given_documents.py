"""Documents as an estimator gets them: in arguments, or in the columns of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vbmodels.estimators.tables import cells_of, is_frame, is_missing, names_of, values_of

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
