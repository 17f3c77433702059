"""The forms of the feature model behind one set of options: made, read, and applied to rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.features.draw_kernels import row_keys
from vbmodels.features.ibp.model import FeatureGlobal, FeatureLocal, PolyaGammaIBP
from vbmodels.features.ibp.predict import HeldGlobal, impute_sampled, missing_cells
from vbmodels.features.imputation.model import CompletedGlobal, CompletedIBP
from vbmodels.features.imputation.predict import HiddenCells, filled, hidden_cells
from vbmodels.features.imputation.states import Completion
from vbmodels.features.multinomial import HALVINGS, MultinomialIBP, TextIBP
from vbmodels.features.options import FeatureOptions
from vbmodels.features.patterns import (
    Selection,
    select_features,
    selected,
    selected_draws,
)
from vbmodels.features.posterior_draws import WeightDraws, draw_patterns, draws_of, row_chances
from vbmodels.features.search.model import SearchIBP
from vbmodels.features.search.states import SearchGlobal
from vbmodels.features.table import FeatureBatch

HELD = 8  # sweeps of the weights after a form of the papers
_LEAST, _STREAM = 5, 7


class UnfinishedFit(ValueError):
    """A fit was stopped before it came to its last phase, or to the last of its draws."""


@dataclass(frozen=True)
class Reported:
    """A fit as it is reported: the features that stay, with their weights.

    Attributes
    ----------
    chosen
        Which features, and which of them as complements.
    weights
        [S, J, F + 1] draws of their biases and weights.
    alpha, sigma2
        Concentration and sigma_B^2, the mean over the features that stay where each has its own.
    n_rows
        Rows of the fit.
    draws
        Draws of the weights of all features.
    whole
        Whether these are of the chain by which a search ends, or of q(weights).
    """

    chosen: Selection
    weights: FloatArray
    alpha: float
    sigma2: float
    n_rows: float
    draws: WeightDraws
    whole: bool

    def drawn(self, batch: FeatureBatch) -> tuple[FloatArray, Callable[[IntArray], BoolArray]]:
        """Return draws [S, J, F + 1] of the weights, and what draws the features of some rows."""

        def draw(rows: IntArray) -> BoolArray:
            keys = row_keys(batch.row_id[rows], _STREAM)
            z = draw_patterns(self.draws, batch.sign[batch.row_of[rows]], keys)
            return selected(z.astype(np.float64), self.chosen) > 0.5

        return self.weights, draw


@dataclass(frozen=True)
class RowFindings:
    """What a model says of a partition's rows.

    Attributes
    ----------
    features
        [N, F] probabilities of the reported features.
    rows, columns
        [M] place of every missing cell.
    cells
        [M, R] probability of each category in it.
    """

    features: FloatArray
    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    cells: FloatArray


def make(settings: FeatureOptions) -> Any:
    """Return the model that of the settings."""
    form = PolyaGammaIBP(
        settings.n_features,
        alpha=settings.alpha,
        weight_variance=2.0 * settings.sigma2,
        learn=settings.learn,
        each=settings.variances == "each",
    )
    if settings.inference == "multinomial":
        text = TextIBP(settings.n_features, alpha=settings.alpha, sigma2=settings.sigma2)
        return MultinomialIBP(
            text, form, settings.tol, max(1, settings.max_iter - HELD - HALVINGS - 2), HELD
        )
    return CompletedIBP(SearchIBP(form, settings.starts, rows=settings.search_rows))


def read(model: Any, q: Any, settings: FeatureOptions) -> Reported:
    """Return a fit as it is reported."""
    at = best_of(q)
    least = max(_LEAST, at.n_rows / 1000.0)
    if settings.least_rows is not None:
        least = float(settings.least_rows)
    chosen = select_features(at.share, at.n_rows, least_rows=least)
    variance = np.broadcast_to(at.variance, at.share.shape)
    kept = variance[chosen.index] if chosen.index.size else variance
    sigma2 = 0.5 * float(kept.mean()) if kept.size else settings.sigma2
    found = searched(q)
    whole = isinstance(found, SearchGlobal) and len(found.draws.weights) > 0
    draws = found.draws.around(at) if whole else draws_of(at)
    weights = selected_draws(draws.weights, chosen)
    return Reported(chosen, weights, at.alpha, sigma2, at.n_rows, draws, whole)


def best_of(q: Any) -> FeatureGlobal:
    """Return the Polya-Gamma parameters of a fit."""
    q = searched(q)
    if isinstance(q, SearchGlobal):
        if q.fit is None:
            raise UnfinishedFit("max_iter ended the fit while its chains were drawing: raise it")
        return q.fit.q
    if not isinstance(q, HeldGlobal):
        raise UnfinishedFit("max_iter ended the fit before its features were found: raise max_iter")
    return q.inner


def apply(model: Any, q: Any, batch: FeatureBatch, settings: FeatureOptions) -> RowFindings:
    """Return what the fit says of a partition's rows."""
    rows, columns = missing_cells(batch)
    fit = read(model, q, settings)
    nu = row_chances(fit.draws, batch.sign)
    members = completion(model, q)
    cells = filled(members, batch) if members else impute_sampled(best_of(q), batch, nu)
    return RowFindings(selected(nu[batch.row_of], fit.chosen), rows, columns, cells)


def searched(q: Any) -> Any:
    """Return the search of a fit that fills cells, too; any other fit as it is."""
    return q.search if isinstance(q, CompletedGlobal) else q


def completion(model: Any, q: Any) -> Completion | None:
    """Return the models that fill missing cells of a fit; None where there are none."""
    filled = isinstance(q, CompletedGlobal) and not model.filling(q)
    return q.completion if filled else None


def scored_cells(model: Any, q: Any, batch: FeatureBatch, local: Any) -> HiddenCells | None:
    """Return a partition's hidden cells, to score baselines on; None where there are none."""
    members = completion(model, q)
    if members is None or local is None:
        return None
    return hidden_cells(members, batch, local.completion, searched(q).n_rows)


def rows_of(q: Any, local: Any) -> Any:
    """Return the rows' features of a fit; None where it ended at a sample of the rows."""
    if isinstance(q, CompletedGlobal):
        return rows_of(q.search, local.search)
    if isinstance(q, SearchGlobal):
        return FeatureLocal(local.fits[q.place]) if local.sample is None else None
    return local


@dataclass(frozen=True)
class Stability:
    """How many other starts have each reported feature.

    Attributes
    ----------
    found_by
        [F] how many; None where nobody looked.
    of
        How many starts there are besides the best.
    """

    found_by: IntArray | None
    of: int


def stability(model: Any, q: Any, settings: FeatureOptions) -> Stability:
    """Return how far starts agree on the reported features."""
    at = searched(q)
    if not isinstance(at, SearchGlobal) or len(at.matches) != len(best_of(q).share):
        return Stability(None, 0)
    return Stability(at.matches[read(model, q, settings).chosen.index], at.n_pool)
