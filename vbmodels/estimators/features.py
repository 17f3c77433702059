"""Latent binary features of tables of categories as a scikit-learn transformer."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from vbmodels.core.options import option
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.estimators.base import (
    ColumnWarning,
    TableEstimator,
    documented,
    intervals,
    largest,
    lines_of,
    warn_of_columns,
    weighted,
)
from vbmodels.features.forms import RowFindings, apply, best_of, make, read
from vbmodels.features.options import FeatureOptions
from vbmodels.features.table import (
    MISSING,
    feature_batch,
    foreign_columns,
    is_measured,
    long_format,
    take_codes,
    why_left_out,
    why_measured,
)
from vbmodels.tables.answers import Split, part_counts, split_questions
from vbmodels.tables.column_table import USED, ColumnRead, column_read
from vbmodels.tables.columns import Reason, Rule, rules_of
from vbmodels.tables.frames import is_frame, labels_of, like, native, objects_of
from vbmodels.tables.levels import Levels, match_levels, new_levels, rare_levels
from vbmodels.tables.readers import CellReader, columns_in, declared, readers_of, seen_of

HIDDEN = 5
"""Groups of columns that are hidden in turn by `LatentFeatures.score`."""
MOST_COPIES = 20
"""Times that a row is drawn, whatever it weighs."""


@documented
@dataclass(eq=False, repr=False)
class LatentFeatures(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, FeatureOptions, TableEstimator
):
    """Hidden binary features behind a table of categories (the Indian buffet process).

    The models are those of the pipeline ``features``. Every distinct value of a column is a
    category; text is read by the rules of the command (`vbmodels.tables.columns`): 4, 4.0 and " 4"
    are one category, "NA" and its like are missing cells, as are None, NaN and pandas' NA. In new
    rows a category is found whatever its case; one that the fit never saw is missing, with a
    warning, and a column without a known category is refused. Where cells hold several answers
    each ("bus; train"), each answer is a column of yes and no, with a warning. Left out, with a
    warning, are columns with one category, columns that name or describe their rows (an id, free
    text), repeated columns, and text that is measurements or dates.

    Attributes
    ----------
    n_features_
        Features found, F.
    weight_means_, weight_sds_
        Posterior means and standard deviations of biases (first) and weights, [units, F + 1];
        a column with R categories has R - 1 units.
    categories_
        The categories of every column in ``columns_``, most frequent first; those that were joined
        stand as a tuple.
    used_columns_
        The columns that are used, by number in ``columns_``.
    features_
        Data frame of the weights: feature, its share of the rows, column, category, and the mean,
        sd and 95 % interval of what the feature adds to the log odds of that category against those
        that follow it in ``categories_``.
    columns_
        Data frame of the table's columns, as ``vbflows check`` prints it: name, what each is read
        as, its missing cells, what it holds, and whether it is used or why not.
    alpha_, sigma2_
        Concentration and variance of the fit.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> has = rng.random((300, 1)) < 0.4  # one hidden feature, seen through six columns
    >>> X = np.where(has ^ (rng.random((300, 6)) < 0.05), "yes", "no")
    >>> found = LatentFeatures(3, random_state=0).fit(X)
    >>> seen = found.transform(X)[:, 0]  # a feature and its complement say the same
    >>> found.n_features_, bool(abs(np.corrcoef(seen, has[:, 0])[0, 1]) > 0.9)
    (1, True)
    """

    inference: Literal["variational", "multinomial"] = option(
        "variational",
        "variational: a search for features and their number; multinomial: the form of Ruiz et al.",
    )
    max_categories: int = option(
        100,
        "Most categories of a column; beyond that the least frequent are joined.",
        ge=2,
        le=10_000,
    )

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the features.

        Parameters
        ----------
        X
            Categories, [rows, columns]: an array, a SciPy sparse matrix (whose zeros are a
            category), or a pandas, polars or Arrow table.
        y
            Not used.
        sample_weight
            Of each row, as how many rows it counts; [rows]. By default 1. A weight of 2 is that row
            twice. A row of a larger weight than 20 is drawn 20 times in the search.

        Raises
        ------
        ValueError
            If a parameter is out of its range, some cells of a column are numbers or dates and
            others are not, or no column has two categories.
        """
        self._validate_params()
        X = native(X)
        cells = self._cells(X, reset=True)
        cells, weight = _repeated(cells, sample_weight)
        self._read_columns(cells, [declared(X, d) for d in range(cells.shape[1])])
        codes, rows = self._codes(cells), np.arange(len(cells))
        # Draws go by the number of a row: in this order equal tables have equal fits.
        order = np.lexsort([weight, *codes.T])
        codes, weight = codes[order], weight[order]
        batches = [
            feature_batch(codes[part], self._levels, part, weight=weight[part])
            for part in np.array_split(rows, min(self.n_partitions, len(rows)))
        ]
        options = {item.name: getattr(self, item.name) for item in fields(FeatureOptions)}
        self._options = FeatureOptions(**options)
        self._options.n_features = min(self.n_features, len(rows) - 1)
        model = make(self._options)
        q = self._run(model, batches)
        fit = read(model, q, self._options)
        self.n_features_ = self._n_features_out = len(fit.chosen.index)
        self.weight_means_ = fit.weights.mean(axis=0)
        self.weight_sds_ = fit.weights.std(axis=0)
        self.alpha_, self.sigma2_ = fit.alpha, fit.sigma2
        share = best_of(q).share[fit.chosen.index]
        self._shares = np.where(fit.chosen.flipped, 1.0 - share, share)
        return self

    def _read_columns(self, cells: Any, orders: list[tuple[str, ...] | None]) -> None:
        """Decide what every column is, and which are used; warn of the others."""
        names = self._names
        columns = columns_in(cells)
        triples = zip(names, columns, orders, strict=True)
        seen = {str(d): seen_of(*one) for d, one in enumerate(triples)}
        rules, unclear = take_codes(seen, *rules_of(seen, names=names))
        readers = readers_of(names, columns, list(seen.values()), rules, unclear)
        cells_of = zip(readers, columns, strict=True)
        whole = {str(d): reader.levels(column)[1] for d, (reader, column) in enumerate(cells_of)}
        split = split_questions(rules, seen, whole, (), self.rare_below, self.max_categories)
        self._split_readers(names, split)
        self.categories_, self._places = [], []
        self._columns: list[ColumnRead] = []
        first: dict[bytes, str] = {}
        counted: dict[str, Levels] = {}
        self._measured = set()
        for reader, column_seen, d in zip(
            self._readers, split.seen.values(), self._sources, strict=True
        ):
            column = columns[d]
            texts, levels = reader.levels(column)
            counted[reader.name] = levels
            why = why_left_out(reader.name, reader.rule, column_seen, levels)
            if not why and is_measured(column_seen, levels, reader.rule):
                if any(isinstance(cell, str) for cell in column):
                    why = why_measured(reader.rule)
                else:
                    self._measured.add(len(self._columns))
            categories, places = self._dictionary(reader, column, texts, levels)
            if not why:
                codes = np.array([MISSING if t is None else places[t] for t in texts])
                before = first.setdefault(codes.tobytes(), reader.name)
                if before != reader.name:
                    why = Reason("copy", f"the same cells as {before}")
            self.categories_.append(categories)
            self._places.append(places)
            self._columns.append(
                column_read(
                    reader.name, reader.rule, column_seen, levels, why or USED, codes=not why
                )
            )
        if long_columns := long_format(
            counted, {one.name: one.reason for one in self._columns if one.reason}
        ):
            raise ValueError(
                "expected one row for all answers of a respondent, found a table in long format; "
                f"pivot it, so that each value of {long_columns[1]!r} is a column"
            )
        self.used_columns_ = np.flatnonzero([not one.left_out for one in self._columns])
        if not self.used_columns_.size:
            listed = "; ".join(f"{one.name}: {one.used}" for one in self._columns[:5])
            raise ValueError(
                f"expected at least one column with two categories, found none ({listed})"
            )
        warn_of_columns(self._columns, 4)
        if self._measured:
            measured = ", ".join(self._columns[d].name for d in sorted(self._measured)[:10])
            warnings.warn(
                f"columns of measurements or dates, each value of which is a category: "
                f"{measured}; cut them into classes, or leave them out",
                ColumnWarning,
                stacklevel=4,
            )

    def _split_readers(self, names: list[str], split: Split) -> None:
        """Set how every column of the fit is read, and of which of the table."""
        self._sources = [int(split.source.get(key, key)) for key in split.rules]
        self._readers = [
            CellReader(names[d] + key.removeprefix(str(d)), rule, bool(split.seen[key].declared))
            for d, (key, rule) in zip(self._sources, split.rules.items(), strict=True)
        ]
        for key in split.several:
            warnings.warn(split.in_words(key, names[int(key)]), ColumnWarning, stacklevel=5)

    @property
    def features_(self) -> Any:
        """The features' weights by name."""
        names = [column.name for column in self._columns]
        features = list(self.get_feature_names_out()) if self.n_features_ else []
        units = [
            (names[d], _category(category))
            for d in self.used_columns_
            for category in self.categories_[d][:-1]
        ]
        size = len(units)
        return intervals(
            {
                "feature": np.repeat(np.array(features, object), size),
                "share": np.repeat(self._shares, size),
                "column": [column for column, _ in units] * len(features),
                "category": [category for _, category in units] * len(features),
            },
            self.weight_means_[:, 1:].T.ravel(),
            self.weight_sds_[:, 1:].T.ravel(),
        )

    def _found(self) -> str:
        used = len(self.used_columns_)
        shares = ", ".join(f"{100.0 * share:.3g} %" for share in self._shares)
        of_rows = f" (shares of the rows: {shares})" if len(self._shares) else ""
        columns = f"{used} of {len(self.categories_)} columns used"
        return f"features found: {self.n_features_}{of_rows}; {columns}."

    def _weights(self) -> list[str]:
        if not self.n_features_:
            return ["No feature was found."]
        rows = largest(self.features_, ("feature", "column", "category"))
        return ["Largest weights (log odds of a category, 95 %):", *lines_of(rows)]

    def _compared(self, X: Any, y: Any) -> str:
        codes = self._codes(self._cells(X, reset=False))
        base = np.concatenate([_log_shares(c[c != MISSING]) for c in codes.T])
        return (
            f"A hidden cell of these rows: mean log probability {self.score(X):.3f} given the "
            f"row's other cells, {base.mean():.3f} by the shares of the categories in these rows."
        )

    def transform(self, X: Any) -> Any:
        """Return the probability of every feature in every row, in the kind of table of ``X``."""
        features = self._applied(X)[0].features
        if not is_frame(X) or _get_output_config("transform", self)["dense"] != "default":
            return features  # scikit-learn makes the kind of table that set_output names
        return like(X, dict(zip(self.get_feature_names_out(), features.T, strict=True)))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log probability of a row's cell given its other cells.

        Every cell is hidden once, together with a fifth of the columns, and imputed from the
        rest; cells of categories that the fit never saw are left out.

        Raises
        ------
        ValueError
            If no cell has a known category.
        """
        check_is_fitted(self)
        codes = self._codes(self._cells(X, reset=False))
        columns = codes.shape[1]
        group = np.random.default_rng(0).permutation(columns) % min(HIDDEN, columns)
        total, cells = 0.0, 0
        for number in range(group.max() + 1):
            batch = feature_batch(np.where(group == number, MISSING, codes), self._levels)
            prediction = apply(self.model_, self.q_, batch, self._options)
            truth = codes[prediction.rows, prediction.columns]
            known = truth != MISSING
            chance = prediction.cells[known, truth[known]]
            total += float(np.log(np.maximum(chance, np.finfo(float).tiny)).sum())
            cells += chance.size
        if not cells:
            raise ValueError("expected a cell with a category that the fit has seen, found none")
        return total / cells

    def impute(self, X: Any) -> Any:
        """Return ``X`` with every missing cell filled by its most probable category.

        Of rare categories that were joined that is the most frequent one.

        Cells of categories that the fit never saw, and those of columns with one category
        only, stay as they are.
        """
        prediction, cells = self._applied(X)
        filled = cells.copy()
        for row, column, chance in zip(
            prediction.rows, prediction.columns, prediction.cells, strict=True
        ):
            d = self.used_columns_[column]
            source, rule = self._sources[d], self._readers[d].rule
            best = self.categories_[d][int(np.argmax(chance))]
            if rule.answer and best == "yes":
                before = filled[row, source]
                answers = [] if self._readers[d].gone(before) else [before]
                filled[row, source] = f"{rule.mark} ".join([*answers, rule.answer])
            elif not rule.answer and self._readers[d].gone(cells[row, source]):
                filled[row, source] = best[0] if isinstance(best, tuple) else best
        if issparse(X):
            X = X.toarray()
        if is_frame(X):
            columns = {str(d): column.tolist() for d, column in enumerate(filled.T)}
            return like(X, columns, labels=labels_of(X))
        return filled.astype(_array(X).dtype)

    def _applied(self, X: Any) -> tuple[RowFindings, Any]:
        check_is_fitted(self)
        cells = self._cells(X, reset=False)
        batch = feature_batch(self._codes(cells), self._levels)
        return apply(self.model_, self.q_, batch, self._options), cells

    def _cells(self, X: Any, reset: bool) -> Any:
        """Return the cells as objects [rows, columns]: no number or mark turns into another."""
        least = 2 if reset else 1
        if is_frame(X):
            validate_data(self, native(X), reset=reset, skip_check_array=True)
            X = objects_of(X)
            cells = check_array(
                X, dtype=None, ensure_all_finite=False, ensure_min_samples=least, estimator=self
            )
        else:
            cells = self._table(
                _array(X),
                reset=reset,
                dtype=None,
                ensure_all_finite="allow-nan",
                ensure_min_samples=least,
            ).astype(object)
        for (n, d), cell in np.ndenumerate(cells):
            if isinstance(cell, float | np.floating) and np.isinf(cell):
                raise ValueError(
                    f"expected no infinity in a table, found {cell} in row {n}, column {d}"
                )
        return cells

    @property
    def _levels(self) -> IntArray:
        return np.array([len(self.categories_[d]) for d in self.used_columns_])

    def _dictionary(
        self, reader: CellReader, cells: list[Any], texts: list[str | None], levels: Levels
    ) -> tuple[list[Any], dict[str, int]]:
        """Return a column's categories as its cells have them, and the place of each by its text.

        A category that is of blank cells alone is its text.
        """
        value: dict[str, Any] = {}
        for text, cell in zip(texts, cells, strict=True):
            if text is not None and value.get(text) is None:
                value[text] = None if reader.gone(cell) or reader.rule.answer else cell
        value = {text: text if cell is None else cell for text, cell in value.items()}
        counts = levels.counts
        rare = rare_levels(counts, self.rare_below, self.max_categories)
        apart = set(rare)
        frequent = [(text,) for text in counts if text not in apart]
        ordered = sorted(
            [*frequent, tuple(rare)] if rare else frequent,
            key=lambda joined: (-sum(counts[text] for text in joined), joined),
        )
        categories = [
            value[joined[0]] if len(joined) == 1 else tuple(value[text] for text in joined)
            for joined in ordered
        ]
        return categories, {text: i for i, joined in enumerate(ordered) for text in joined}

    def _codes(self, cells: Any) -> IntArray:
        """Return the categories of cells; new ones are missing, with a warning.

        Raises
        ------
        ValueError
            If a column of categories has cells, none of which is a category of the fit.
        """
        codes = np.full((len(cells), self.used_columns_.size), MISSING, np.int64)
        counts_of: dict[str, Mapping[str, int]] = {}
        known: dict[str, Sequence[str]] = {}
        unknown: dict[str, list[str]] = {}
        for i, d in enumerate(self.used_columns_.tolist()):
            places, reader, source = self._places[d], self._readers[d], self._sources[d]
            column = list(cells[:, source])
            texts, levels = reader.levels(column)
            match = match_levels(levels.counts, places)
            codes[:, i] = [places[match[t]] if t in match else MISSING for t in texts]
            counts: Mapping[str, int] = levels.counts
            if reader.rule.answer:
                whole = replace(reader, rule=Rule(dash_is_missing=reader.rule.dash_is_missing))
                counts = part_counts(whole.levels(column)[1].counts, reader.rule)
            in_fit = reader.rule.others or list(places)
            if d not in self._measured:
                counts_of[str(source)], known[str(source)] = counts, in_fit  # names may repeat
            unknown[self._names[source]] = [repr(text) for text in new_levels(counts, in_fit)]
        for key in foreign_columns(counts_of, known):
            raise ValueError(
                f"column {self._names[int(key)]!r}: expected categories of the fit, such "
                f"as {list(known[key])[:3]}, found {list(counts_of[key])[:3]}; write these cells "
                "as in the table of the fit, or make them None"
            )
        new = [f"{name}: {', '.join(texts[:5])}" for name, texts in unknown.items() if texts]
        if new:
            warnings.warn(
                f"categories that the fit never saw are left out: {'; '.join(new[:5])}",
                ColumnWarning,
                stacklevel=4,
            )
        return codes


def _repeated(cells: Any, sample_weight: Any) -> tuple[Any, FloatArray]:
    """Return rows as often as their weights say, at most `MOST_COPIES` times, and what each counts.

    >>> _repeated(np.array([["a"], ["b"], ["c"]]), [2.0, 0.0, 0.5])[1].tolist()
    [1.0, 1.0, 0.5]
    """
    cells, _, weight = weighted(cells, np.zeros(len(cells)), sample_weight)
    copies = np.clip(np.floor(weight), 1.0, MOST_COPIES).astype(np.int64)
    return np.repeat(cells, copies, axis=0), np.repeat(weight / copies, copies)


def _category(category: Any) -> str:
    """Return a category as text; of joined ones the first few."""
    if not isinstance(category, tuple):
        return str(category)
    others = f" or {len(category) - 3} more" if len(category) > 3 else ""
    return " or ".join(map(str, category[:3])) + others


def _log_shares(codes: IntArray) -> FloatArray:
    """Return the log of the share of each cell's category among all cells [N] of a column."""
    counts = np.bincount(codes, minlength=1)
    return np.asarray(np.log(counts[codes] / max(len(codes), 1)))


def _array(X: Any) -> Any:
    """Return lists as an array of objects: among text NaN would turn into the word."""
    if isinstance(X, list | tuple):
        return np.array(X, dtype=object)
    return X if hasattr(X, "dtype") or issparse(X) else np.asarray(X)
