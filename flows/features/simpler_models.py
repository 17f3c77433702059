"""The features against simpler models of the same rows: shares, latent classes, and one scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows.features.association import PairTest, test_pairs
from flows.features.check import Column
from flows.features.settings import FeatureSettings
from flows.report.page import Grid, Section
from vbmodels.core.state import FloatArray
from vbmodels.features.draw_kernels import draw_uniform, row_keys
from vbmodels.features.forms import searched
from vbmodels.features.imputation.latent import one_hot
from vbmodels.features.latent_class_analysis import few_classes
from vbmodels.features.latent_scale import latent_scale
from vbmodels.features.search.states import SearchGlobal
from vbmodels.features.table import FeatureBatch

MOST_ROWS = 5000
"""Rows that simpler models are fitted to, about."""
MOST_CELLS = 2_000_000
"""Rows times categories that these models are fitted to; of wider tables fewer rows."""
LOOSE, CLOSE = 15.0, 3.0
"""Nats a feature by which the bound may be below the log probability; nats between two BICs."""
_STREAM = 11
SHARES, SCALE = "each column's shares", "one sliding scale"


@dataclass(frozen=True)
class RowSample:
    """Rows of a partition: codes [U, D], how many rows have them and how much these weigh [U]."""

    codes: NDArray[np.int16]
    rows: FloatArray
    count: FloatArray


def sample_rows(batch: FeatureBatch, n_rows: float) -> RowSample:
    """Return a partition's part of about `MOST_ROWS` of ``n_rows`` rows; of fewer, all."""
    most = min(MOST_ROWS, MOST_CELLS / float(batch.levels.sum()))
    lots: FloatArray = draw_uniform(row_keys(batch.row_id, _STREAM), 1)[:, 0]
    taken = np.flatnonzero(lots * n_rows < most)
    rows = np.bincount(batch.row_of[taken], minlength=len(batch.count)).astype(np.float64)
    count = np.bincount(batch.row_of[taken], batch.row_count[taken], len(batch.count))
    there = np.flatnonzero(count)
    return RowSample(batch.codes[there], rows[there], count[there].astype(np.float64))


@dataclass(frozen=True)
class SimplerModels:
    """How well simpler models describe the rows.

    Attributes
    ----------
    rows
        Rows that they were fitted to, as often as each counts.
    each
        log p(rows), approximately, by 1, 2 and so on latent classes, of which one is the columns'
        shares: -BIC / 2.
    features
        The bound on log p(rows) of the features, for as many rows; of one feature, which is the
        same model as two classes, theirs. None where it is not known.
    scale
        As ``each``, by one latent scale; None where fewer different rows can be than that has
        parameters.
    pairs
        A test of whether the columns are related at all.
    """

    rows: float
    each: tuple[float, ...]
    features: float | None = None
    scale: float | None = None
    pairs: PairTest | None = None

    @property
    def shares(self) -> float:
        """-BIC / 2 of the columns' shares, which all models are compared with."""
        return self.each[0]

    def rival(self, features: int) -> tuple[str, float]:
        """Return the best of the models that are not the features' own, and its -BIC / 2."""
        found = [] if self.scale is None else [(SCALE, self.scale)]
        found += [
            (f"{number} latent classes", value)
            for number, value in enumerate(self.each[1:], 2)
            if not (number == 2 and features == 1)  # the same model
        ]
        return max(found, key=lambda one: one[1], default=(SHARES, self.shares))

    def gain(self, value: float) -> float:
        """Return a model's log probability of a row less that by the columns' shares."""
        return (value - self.shares) / self.rows

    def ahead(self, features: int) -> float | None:
        """Return the nats of the features above the best simpler model; None if not known."""
        if self.features is None or not features:
            return None
        return self.features - self.rival(features)[1]

    @property
    def undecided(self) -> str:
        """The model that describes related rows as well as two groups do; empty if none does."""
        name, value = self.rival(1)
        close = abs(self.each[1] - value) < CLOSE
        return name if self.grouped and close else ""

    @property
    def grouped(self) -> bool:
        """Whether two groups or more are clearly better than the columns' shares."""
        return max(self.each[1:]) - self.shares > CLOSE


def compare_models(
    samples: Sequence[RowSample], columns: Sequence[Column], q: Any, n_rows: float,
    features: int = 0,
) -> SimplerModels | None:  # fmt: skip
    """Fit simpler models to the sampled rows; None where there is no row or no two classes."""
    codes = np.concatenate([one.codes for one in samples])
    count = np.concatenate([one.count for one in samples])
    levels = np.array([len(column.levels) for column in columns])
    cells_of = one_hot(codes, levels)
    fits = few_classes(cells_of, levels, count)
    if len(fits) < 2:
        return None
    # More parameters than different rows can have: such a model is not determined.
    free, cells = int(np.sum(levels - 1)), np.prod(levels.astype(float)) - 1.0
    scale = None
    if 2 * free <= cells:
        scale = -0.5 * latent_scale(cells_of, levels, count, fits[1]).bic
    rows = float(count.sum())
    each = tuple(
        -0.5 * fit.bic for k, fit in enumerate(fits, 1) if k < 3 or k * free + k - 1 <= cells
    )
    at, bound = searched(q), None
    if isinstance(at, SearchGlobal) and at.fit is not None:
        bound = max(at.fit.bound, at.fit.value) * rows / n_rows
        bound = bound if np.isfinite(bound) else None  # max_iter came before it was measured
    if features == 1:
        bound = each[1]
    pairs = test_pairs(columns, cells_of.T @ (cells_of * count[:, None]))
    return SimplerModels(rows, each, bound, scale, pairs)


def model_results(found: SimplerModels, features: int) -> dict[str, Any]:
    """Return the comparison, for run.json."""
    name, value = found.rival(features)
    return asdict(found) | {"best": name, "best_log_probability": value}


def model_section(found: SimplerModels, features: int) -> Section:
    """Compare the features with latent classes and a scale, all against the columns' shares."""
    models = [(SHARES, found.shares)]
    models += [(f"{number} latent classes", v) for number, v in enumerate(found.each[1:], 2)]
    if features == 1:
        models[1] = ("1 feature (2 latent classes)", found.each[1])
    elif features and found.features is not None:
        models.append((f"{features} features", found.features))
    if found.scale is not None:
        models.append((SCALE, found.scale))
    text = (
        "How much more probable each model makes a row's answers than the columns' shares do: the "
        "mean log probability of a row, allowing for the number of parameters (BIC, or a lower "
        "bound), less that by the shares."
    )
    if features and found.features is not None:
        text += f" Differences below {slack_of(features) / found.rows:.4f} are not clear."
    rows = [(name, f"{found.gain(value):+.4f}") for name, value in models]
    heads = ("model", "log probability of a row, above the shares (nats)")
    return Section("How many features or groups, or a scale", text, (), (Grid(heads, rows),))


def slack_of(features: int) -> float:
    """Return the nats between features and another model below which no difference is clear."""
    return LOOSE * features if features > 1 else CLOSE


def describes(name: str) -> str:
    """Return a model with its verb.

    >>> describes("one sliding scale"), describes("4 latent classes")
    ('one sliding scale describes', '4 latent classes describe')
    """
    return f"{name} describes" if name == SCALE else f"{name} describe"


def difference_in_words(found: SimplerModels | None, features: int) -> str:
    """Say how the features compare with the best simpler model; nothing where it is not known."""
    ahead = None if found is None else found.ahead(features)
    if found is None or ahead is None:
        return ""
    how = "worse" if ahead > 0.0 else "better"
    if abs(ahead) < slack_of(features):
        how = "about as well"
    return f"{describes(found.rival(features)[0])} the answers {how}"


def groups_in_words(found: SimplerModels | None, rows: int) -> str:
    """Say that one feature makes two groups, and whether that is better than none and than more."""
    if found is None:
        return f"The model describes the answers of {rows:,} rows by two groups"
    if not found.grouped:
        said = f"That the answers of {rows:,} rows are related is not sure"
        return f"{said}; the model describes them by two groups"
    said = f"The answers of {rows:,} rows are related"
    if found.undecided:
        return f"{said}; the data do not decide between two groups and {found.undecided}"
    if found.each[1] > found.rival(1)[1]:
        return f"{said}, best described (of the models tried) by two groups"
    return f"{said}, here described by two groups"


def no_feature_in_words(found: SimplerModels | None, settings: FeatureSettings) -> tuple[str, str]:
    """Return what a fit without features says in the headline, and what to do as a warning."""
    more = "More rows, or more answers a row, may show features."
    if found is None:
        return "there are too few rows to compare models", more
    name, value = found.rival(0)
    again = f"search again: --set starts={max(6, 2 * settings.starts)}, or another --seed."
    if value > found.shares:
        model = "an item response model" if name == SCALE else f"a latent class model ({name})"
        said = f"but {describes(name)} the rows better than each column's shares"
        return said, f"No feature was found, {said}. Fit {model}, or {again}"
    pairs = found.pairs
    if pairs is not None and pairs.related:
        said = f"but the columns are related (a test of {pairs.pairs:,} pairs, p = {pairs.p:.1g})"
        return said, f"No feature was found, {said}; the cells are too few to say how. {more}"
    if pairs is None or pairs.power < LEAST_POWER:
        said = "there are too few cells to say whether answers are related"
        return said, f"No feature was found: {said}. {more}"
    said = "the rows do not say more than each column's shares, and simpler models agree"
    return said, f"No feature was found: {said}."


# Power of a test of the columns from which on it is said that they are not related.
LEAST_POWER = 0.8
