"""What the estimators share: parameters of the loop, the fit, a summary, data frames, and ArviZ.

Data frames are made by narwhals: pandas' where it is installed, else those of polars or Arrow.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from importlib.util import find_spec
from numbers import Integral, Real
from types import UnionType
from typing import (
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import narwhals
import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import (
    _check_sample_weight,
    check_array,
    check_is_fitted,
    check_X_y,
    validate_data,
)
from threadpoolctl import threadpool_limits

from vbmodels.core.fit import drive
from vbmodels.core.options import Range, option, share
from vbmodels.core.state import FloatArray
from vbmodels.estimators.executors import reduce_over
from vbmodels.tables.column_table import ColumnRead
from vbmodels.tables.columns import Reason
from vbmodels.tables.frames import as_matrix, is_arrow, is_frame, names_of, native

NO_TARGET = "no_validation"
"""What scikit-learn takes for y where there is none to check; None is a target forgotten."""


class ColumnWarning(UserWarning):
    """A column is left out of a fit, or may not be meant as it is read."""


def warn_of_columns(columns: Sequence[ColumnRead], depth: int) -> None:
    """Warn of columns that a fit leaves out, and why; ``depth`` is the warning's stack level."""
    out = [column for column in columns if column.left_out]
    if out:
        listed = "; ".join(f"{column.name} ({column.used})" for column in out[:10])
        others = f"; and {len(out) - 10} more" if len(out) > 10 else ""
        warnings.warn(f"columns not used: {listed}{others}", ColumnWarning, stacklevel=depth)


def warn_of_names(table: Any, known: Sequence[str], what: str, depth: int) -> None:
    """Warn of a table's columns that are none of those that ``what`` have."""
    names = names_of(table) if is_frame(table) else []
    why = Reason("other", f"no column of {what} is called so")
    warn_of_columns(
        [ColumnRead.of(name, "", 0, "", why) for name in names if name not in known], depth + 1
    )


E = TypeVar("E", bound="LoopEstimator")


def parameter(default: Any, accepts: Any, meaning: str) -> Any:
    """Declare a parameter that an estimator alone has, with what scikit-learn accepts for it."""
    return field(default=default, metadata={"accepts": accepts, "meaning": meaning}, kw_only=True)


def documented(estimator: type[E]) -> type[E]:
    """Put a section of parameters, with the meanings that are declared, before the attributes."""
    listed = "".join(f"{item.name}\n    {item.metadata['meaning']}\n" for item in fields(estimator))
    # Python 3.13 removes a docstring's indentation itself, 3.12 does not.
    text = inspect.cleandoc(estimator.__doc__ or "")
    before, attributes, rest = text.partition("Attributes\n----------\n")
    estimator.__doc__ = before + f"Parameters\n----------\n{listed}\n" + attributes + rest
    return estimator


def _accepted(kind: Any, ends: Range) -> list[Any]:
    if get_origin(kind) in (Union, UnionType):
        return [accepted for part in get_args(kind) for accepted in _accepted(part, ends)]
    if get_origin(kind) is Literal:
        return [StrOptions(set(get_args(kind)))]
    if get_origin(kind) is tuple:
        return ["array-like"]
    if kind in (int, float):
        return [_interval(Integral if kind is int else Real, ends)]
    if kind is type(None):
        return [None]
    return ["boolean" if kind is bool else kind]


def _interval(kind: type, ends: Range) -> Any:
    if not ends.given():
        return kind
    low = ends.gt if ends.ge is None else ends.ge
    high = ends.lt if ends.le is None else ends.le
    closed = {(1, 1): "both", (1, 0): "left", (0, 1): "right", (0, 0): "neither"}
    return Interval(kind, low, high, closed=closed[ends.ge is not None, ends.le is not None])


MIXED = {"categorical": True, "string": True, "allow_nan": True, "sparse": True}
"""Tables of numbers, categories and dates, with gaps."""
STACKED = {"two_d_array": False, "three_d_array": True}
"""Arrays of which each sample has several rows."""


@dataclass(eq=False, repr=False)
class LoopEstimator(BaseEstimator):
    """An estimator whose model is fitted by the common loop.

    Its parameters are the fields of a dataclass: its own, and the options of its family.

    Attributes
    ----------
    model_
        The model, with its priors.
    q_
        Its global parameters.
    elbo_
        The bound (a sampler: the log density) at the end.
    trace_
        The same after every evaluation; [n_iter_] or fewer.
    n_iter_
        Evaluations of all rows.
    converged_
        Whether the loop ended by itself.
    """

    tol: float = share(
        1e-8,
        "Stop where the rise of the bound that is still expected is less than "
        "this share of the bound.",
    )
    max_iter: int = option(1000, "Maximum number of sweeps.", ge=1)
    n_partitions: int = option(
        1, "Parts that the rows are cut into; at least as many as a client has workers.", ge=1
    )
    random_state: Any = parameter(
        None,
        ["random_state"],
        "Seed of the starts; an integer means what ``seed`` means to the pipeline.",
    )
    client: Any = parameter(
        None,
        "no_validation",
        "Where to fit: None for this process, a ``distributed.Client``, the address of a Dask "
        "scheduler, or an executor (`vbmodels.estimators.executors`).",
    )

    input_kinds: ClassVar[Mapping[str, bool]] = {}
    """What its input is, beyond a table of numbers: tags of scikit-learn's ``InputTags``."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        for name, value in self.input_kinds.items():
            setattr(tags.input_tags, name, value)
        tags.no_validation = not tags.input_tags.two_d_array
        return tags

    @property
    def _parameter_constraints(self) -> dict[str, Any]:
        hints = get_type_hints(type(self))
        return {
            item.name: item.metadata["accepts"]
            if "accepts" in item.metadata
            else _accepted(hints[item.name], item.metadata["range"])
            for item in fields(self)
        }

    def _run(self, model: Any, batches: Sequence[Any], depth: int = 4) -> Any:
        """Fit a model to partitions and keep what is common to all fits.

        ``depth`` is the stack level of a warning.
        """
        # Small products gain nothing by a second thread, whose waiting costs more than they do.
        with threadpool_limits(1, "blas"), reduce_over(self.client, model, batches) as reduce:
            done = drive(model, reduce, seed=self._seed(), tol=self.tol, max_iter=self.max_iter)
        if done.doing:
            raise ValueError(
                f"the fit stopped after {done.iterations} evaluations while {done.doing}: "
                "there is no posterior; raise max_iter"
            )
        if not done.converged:
            warnings.warn(
                f"the bound had not converged after {done.iterations} evaluations; raise max_iter "
                "or tol",
                ConvergenceWarning,
                stacklevel=depth,
            )
        self.model_, self.q_ = model, done.q
        self.elbo_, self.trace_ = float(done.trace[-1]), np.array(done.trace)
        self.n_iter_, self.converged_ = done.iterations, done.converged
        return done.q

    def _table(self, X: Any, y: Any = NO_TARGET, *, reset: bool, **options: Any) -> Any:
        """Return a table's cells as an array (with ``y``: both), its columns checked.

        New tables must have the columns of the fit, in their order. ``options`` are those of
        scikit-learn's ``check_array``. A sparse matrix is made dense.
        """
        if is_frame(X):
            X = native(X)
        if issparse(X):
            X = check_array(X, accept_sparse="csr", dtype=None, ensure_all_finite=False).toarray()
        if not is_arrow(X):
            return validate_data(self, X, y, reset=reset, **options)
        validate_data(self, X, reset=reset, skip_check_array=True)
        if isinstance(y, str) and y == NO_TARGET:
            return check_array(as_matrix(X), estimator=self, **options)
        return check_X_y(as_matrix(X), y, estimator=self, **options)

    def _seed(self) -> int:
        """Return the seed: an integer as it is, as the pipelines take it."""
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy; a client is shared, since a connection cannot be copied."""
        parameters = self.get_params(deep=False)
        copies = {
            name: value if name == "client" else clone(value, safe=False)
            for name, value in parameters.items()
        }
        return type(self)(**copies)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is stored: everything but a client, which is a connection."""
        state = dict(super().__getstate__())
        if not isinstance(state.get("client"), str):
            state["client"] = None
        return state

    def summary(self, X: Any = None, y: Any = None) -> str:
        """Return what the fit found, how sure that is, and what it compares with, as text.

        Parameters
        ----------
        X, y
            Rows that the fit has not seen, and their labels: the text then says how well these are
            predicted, against what needs no model.
        """
        check_is_fitted(self)
        end = "converged" if self.converged_ else "not converged: raise max_iter or tol"
        lines = [
            f"{type(self).__name__}: {self._found()}",
            *self._weights(),
            f"Fit: {self.n_iter_} evaluations, {end}; bound {self.elbo_:.6g}.",
        ]
        return "\n".join(lines if X is None else [*lines, self._compared(X, y)])

    def _found(self) -> str:
        """Return what the fit found, as a sentence or two."""
        raise NotImplementedError

    def _weights(self) -> list[str]:
        """Return the largest weights with their intervals, as lines."""
        return []

    def _compared(self, X: Any, y: Any) -> str:
        """Return how well rows are predicted, and what they are compared with."""
        raise NotImplementedError


@dataclass(eq=False, repr=False)
class TableEstimator(LoopEstimator):
    """What is fitted to a table whose columns are read by the rules of files."""

    input_kinds = MIXED

    @property
    def columns_(self) -> Any:
        """Every column of the table as it was read."""
        names = [item.name for item in fields(ColumnRead)]
        cells = {name: [getattr(column, name) for column in self._columns] for name in names}
        return frame(
            {**cells, "reason": [getattr(column.reason, "kind", "") for column in self._columns]}
        )

    @property
    def _names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [f"x{d}" for d in range(self.n_features_in_)] if names is None else list(names)


Method = TypeVar("Method", bound=Callable[..., Any])


def without_weights(reason: str) -> Callable[[Method], Method]:
    """Make a method refuse ``sample_weight`` and say why.

    The method's signature stays as it is: by that scikit-learn's tools see that there are no
    weights, so that bagging, say, draws rows again in place of weighing them.

    Parameters
    ----------
    reason
        Why there are none, and what to do.

    Examples
    --------
    >>> class Model:
    ...     @without_weights("a bag counts once")
    ...     def fit(self, X):
    ...         return self
    >>> Model().fit([], sample_weight=[])
    Traceback (most recent call last):
    TypeError: Model takes no sample_weight: a bag counts once
    """

    def refusing(method: Method) -> Method:
        @wraps(method)
        def called(self: Any, *args: Any, **options: Any) -> Any:
            if "sample_weight" in options:
                raise TypeError(f"{type(self).__name__} takes no sample_weight: {reason}")
            return method(self, *args, **options)

        return called  # type: ignore[return-value]

    return refusing


def weighted(X: FloatArray, y: Any, sample_weight: Any) -> tuple[FloatArray, Any, FloatArray]:
    """Return the rows that have a weight, their labels and these weights; [N, D], [N] and [N].

    Raises
    ------
    ValueError
        If weights are not as many numbers of 0 to 1e15 as rows, or all are 0.

    Examples
    --------
    >>> x, y, weight = weighted(np.ones((3, 1)), np.array([0, 1, 1]), [1.0, 0.0, 2.0])
    >>> len(x), y.tolist(), weight.tolist()
    (2, [0, 1], [1.0, 2.0])
    """
    if sample_weight is None:
        return X, y, np.ones(len(X))
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    weighs = weight > 0.0
    if not weighs.any():
        raise ValueError("sample_weight: expected a weight above 0, found zeros only")
    if weight.max() > 1e15:
        raise ValueError("sample_weight: expected at most 1e15; divide all weights by one number")
    return X[weighs], y[weighs], weight[weighs]


MOST = 12
"""Coefficients that a summary and a picture show."""
_TWO_SIDED = 1.959964  # sd of a normal between its 2.5 and 97.5 % quantiles


def frame(columns: Mapping[str, Any]) -> Any:
    """Return columns of one length as a data frame.

    Raises
    ------
    ImportError
        If no library of data frames is installed.
    """
    for library in ("pandas", "polars", "pyarrow"):
        if find_spec(library) is not None:
            return narwhals.from_dict(dict(columns), backend=library).to_native()
    raise ImportError("a table of a fit needs pandas, polars or pyarrow: pip install pandas")


def intervals(columns: Mapping[str, Any], mean: Any, sd: Any) -> Any:
    """Return a data frame of weights: ``columns``, mean, sd, and the 95 % interval low to high."""
    mean, sd = np.asarray(mean, float), np.asarray(sd, float)
    away = _TWO_SIDED * sd
    return frame({**columns, "mean": mean, "sd": sd, "low": mean - away, "high": mean + away})


def largest(table: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the rows of `intervals` of the largest means, without intercepts; named in one column.

    Parameters
    ----------
    table
        Of `intervals`.
    names
        The columns whose texts together name a row; those that it does not have do not count.
    """
    rows = narwhals.from_native(table, eager_only=True)
    parts = rows.select([name for name in names if name in rows.columns])
    name = np.array(
        [" ".join(str(part) for part in row if part != "") for row in parts.iter_rows()], object
    )
    slopes = np.array(
        [i for i, text in enumerate(name) if not text.endswith("intercept")], np.int64
    )
    order = slopes[np.argsort(-np.abs(rows["mean"].to_numpy()[slopes]), kind="stable")[:MOST]]
    numbers = {column: rows[column].to_numpy()[order] for column in ("mean", "low", "high")}
    return {"name": name[order], **numbers}


def lines_of(table: Mapping[str, Any]) -> list[str]:
    """Return `largest` as lines of text."""
    if not len(table["name"]):
        return []
    width = max(map(len, table["name"]))
    rows = zip(table["name"], table["mean"], table["low"], table["high"], strict=True)
    return [f"  {n:<{width}}  {mean:+.3g} ({low:.3g} to {high:.3g})" for n, mean, low, high in rows]


def classified(classifier: Any, X: Any, y: Any, share: Any) -> str:
    """Return the log loss of rows against that of the classes' shares [C] in the fit."""
    chance = classifier.predict_proba(X)
    code_of = {label: c for c, label in enumerate(classifier.classes_.tolist())}
    labels = np.asarray(y).tolist()
    if strange := sorted({str(label) for label in labels if label not in code_of}):
        raise ValueError(f"expected labels of the fit, found {', '.join(strange[:5])}")
    code = np.array([code_of[label] for label in labels])
    loss = -np.log(np.maximum(chance[np.arange(len(code)), code], np.finfo(float).tiny))
    base = -np.log(np.asarray(share)[code])
    gain = base - loss
    many = len(gain) > 1
    error = 1.96 * gain.std(ddof=1) / np.sqrt(len(gain)) if many else np.inf
    better = "better" if gain.mean() > error else "not surely better"
    sure = f" (difference {gain.mean():.3f} +- {error:.3f})" if many else ""
    return (
        f"On {len(code)} rows: log loss {loss.mean():.3f}, of the classes' shares in the fit "
        f"{base.mean():.3f}; {better}{sure}."
    )
