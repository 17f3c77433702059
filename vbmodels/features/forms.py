"""The forms of the feature model behind one set of options: made, read, and applied to rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.state import FloatArray, IntArray
from vbmodels.features.batch import FeatureBatch
from vbmodels.features.completion.filling import filled
from vbmodels.features.completion.judged import Judged, judged
from vbmodels.features.completion.searched import CompletedGlobal, CompletedIBP
from vbmodels.features.completion.states import Completion
from vbmodels.features.gibbs import (
    GibbsIBP,
    by_likelihood,
    drawn_hyperparameters,
    missing_cells,
    score_rows,
)
from vbmodels.features.merging import (
    Merged,
    merged,
    merged_chances,
    merged_draws,
    merged_weights,
)
from vbmodels.features.options import FeatureOptions
from vbmodels.features.patterns import Selection, select_features, selected, selected_weights
from vbmodels.features.polish import Polished, polya_gamma_of
from vbmodels.features.polya_gamma import FeatureGlobal, FeatureLocal, PolyaGammaIBP
from vbmodels.features.predict import impute, impute_sampled
from vbmodels.features.published.laplace_chain import LaplaceIBP
from vbmodels.features.published.text_bound import TextIBP
from vbmodels.features.restarts import Restarts, StartsGlobal, leader, leading
from vbmodels.features.search import SearchIBP, best_fit, best_lane
from vbmodels.features.search_state import SearchGlobal

TRIAL_SWEEPS = 30  # sweeps after the annealing in which the starts compete
TEXT_SWEEPS = 90  # of the text's bound and of the held weights after it
HELD = 8
HOLD = 60  # sweeps of a plain start before each feature's variance moves
_LEAST = 5


class UnfinishedFit(ValueError):
    """A fit was stopped before it came to its last phase, or to the last of its draws."""


@dataclass(frozen=True)
class Reported:
    """A fit as it is reported: the features that stay, with their weights.

    Attributes
    ----------
    chosen
        Which features, and which of them as complements.
    mean, covariance
        [J, F + 1] and [J, F + 1, F + 1] of biases and weights.
    alpha, sigma2
        Concentration and sigma_B^2, the mean over the features that stay where each has its own;
        posterior means over all chains where they are drawn.
    n_rows
        Rows of the fit.
    """

    chosen: Selection
    mean: FloatArray
    covariance: FloatArray
    alpha: float
    sigma2: float
    n_rows: float


@dataclass(frozen=True)
class Hyperparameters:
    """The hyperparameters of a fit, or of one of its chains.

    Attributes
    ----------
    prefix
        Names the chain; empty where there is none.
    alpha, sigma2
        Concentration, and sigma_B^2 [1], or [K] where each feature has its own; posterior means
        where they are drawn.
    alpha_sd, sigma2_sd
        Their posterior standard deviations where they are drawn.
    share
        [K] share of the rows with each fitted feature.
    """

    prefix: str
    alpha: float
    sigma2: FloatArray
    share: FloatArray
    alpha_sd: float | None = None
    sigma2_sd: float | None = None


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
    """Return the model that the settings ask for."""
    variance = 2.0 * settings.sigma2
    if settings.inference == "gibbs":
        return GibbsIBP(
            settings.n_features,
            alpha=settings.alpha,
            weight_variance=variance,
            learn=settings.learn,
            chains=settings.chains,
            warmup=settings.warmup,
            draws=settings.draws,
            keep=min(20, settings.draws),
        )
    single = PolyaGammaIBP(
        settings.n_features,
        alpha=settings.alpha,
        weight_variance=variance,
        learn=settings.learn,
        each=settings.variances == "each",
        anneal=settings.anneal,
        hold=HOLD if settings.variances == "each" else 0,
    )
    plain, polish = replace(single, anneal=0), replace(single, anneal=0, hold=0)
    if settings.inference == "laplace":
        return LaplaceIBP(polish, settings.sigma2, settings.warmup, settings.draws, HELD)
    if settings.search == "moves" and settings.bound == "polya_gamma":
        search = SearchIBP(polish, settings.starts, rows=settings.search_rows)
        if settings.prediction not in ("auto", "stacked"):
            return search
        return CompletedIBP(search, always=settings.prediction == "stacked")
    text = Polished(
        TextIBP(
            settings.n_features,
            alpha=settings.alpha,
            sigma2=settings.sigma2,
            gauge=settings.gauge,
        ),
        polish,
    )
    # Ramps find the images of the text, plain starts are better on mixed tables: take turns.
    own = [single if i % 2 == 0 else plain for i in range(settings.starts)]
    kinds: dict[str, list[Any]] = {"polya_gamma": [*own], "text": [text] * settings.starts}
    kinds["both"] = kinds["polya_gamma"] + kinds["text"]
    held = max(single.held, 0 if settings.bound == "polya_gamma" else TEXT_SWEEPS)
    return Restarts(tuple(kinds[settings.bound]), held + TRIAL_SWEEPS)


def read(model: Any, q: Any, settings: FeatureOptions) -> Reported:
    """Return a fit as it is reported."""
    if isinstance(model, GibbsIBP):
        found = merged_chains(model, q, settings)
        mean, covariance = merged_weights(merged_draws(q.kept_weights, found), found)
        # Labels of features do not touch these, so that all chains tell of them.
        alpha, variance = drawn_hyperparameters(model, q).mean((0, 1)).tolist()
        return Reported(found.chosen, mean, covariance, alpha, 0.5 * variance, q.n_rows)
    at = best_of(q)
    chosen = select_features(
        at.share,
        at.n_rows,
        flip_above=settings.flip_above,
        least_rows=_least_rows(at.n_rows, settings),
    )
    mean, covariance = selected_weights(at.mean, at.covariance, chosen)
    variance = np.broadcast_to(at.variance, at.share.shape)
    kept = variance[chosen.index] if chosen.index.size else variance
    sigma2 = 0.5 * float(kept.mean()) if kept.size else settings.sigma2
    return Reported(chosen, mean, covariance, at.alpha, sigma2, at.n_rows)


def merged_chains(model: GibbsIBP, q: Any, settings: FeatureOptions) -> Merged:
    """Return the features of the sampler's chains, matched over all of them."""
    _refuse_unwritten(model, q)
    order = by_likelihood(q, model.warmup)
    return merged(q.products, order, settings.flip_above, _least_rows(q.n_rows, settings))


def _least_rows(n_rows: float, settings: FeatureOptions) -> float:
    least = settings.least_rows
    return max(_LEAST, n_rows / 1000.0) if least is None else float(least)


def best_of(q: Any) -> FeatureGlobal:
    """Return the Polya-Gamma parameters of a fit."""
    q = searched(q)
    if isinstance(q, SearchGlobal):
        if not q.lanes:
            raise UnfinishedFit("max_iter ended the fit while its chains were drawing: raise it")
        return best_fit(q)
    at = leader(q) if isinstance(q, StartsGlobal) else q
    try:
        return polya_gamma_of(at)
    except TypeError as error:
        raise UnfinishedFit(
            "max_iter ended the fit before its first phase gave way to Polya-Gamma: raise "
            "max_iter (the text's bound needs 150 at least, the Laplace sampler warmup + draws "
            f"+ {HELD + 1})"
        ) from error


def _refuse_unwritten(model: GibbsIBP, q: Any) -> None:
    """Refuse chains whose last draws are not written: their places hold zeros."""
    if q.iteration < model.last:
        raise UnfinishedFit(
            f"the chains ended before their draws: expected {model.last} iterations, got "
            f"{q.iteration}; fit again, with max_iter of at least {model.last + 1}"
        )


def hyperparameters(model: Any, q: Any) -> list[Hyperparameters]:
    """Return the hyperparameters of a fit, or of every chain."""
    if isinstance(model, GibbsIBP):
        _refuse_unwritten(model, q)
        pairs = zip(drawn_hyperparameters(model, q), q.share, strict=True)
        return [_of_chain(f"chain {c + 1}, ", *pair) for c, pair in enumerate(pairs)]
    at = best_of(q)
    return [Hyperparameters("", at.alpha, 0.5 * np.atleast_1d(at.variance), at.share)]


def _of_chain(prefix: str, draws: FloatArray, share: FloatArray) -> Hyperparameters:
    alpha, variance = draws.mean(0)
    found = Hyperparameters(prefix, float(alpha), np.array([0.5 * variance]), share)
    if len(draws) == 1:
        return found
    alpha_sd, variance_sd = draws.std(0, ddof=1)
    return replace(found, alpha_sd=float(alpha_sd), sigma2_sd=0.5 * float(variance_sd))


def apply(
    model: Any, q: Any, batch: FeatureBatch, local: Any, settings: FeatureOptions
) -> RowFindings:
    """Return what the fit says of a partition's rows; ``local`` is None for new ones."""
    rows, columns = missing_cells(batch)
    if isinstance(model, GibbsIBP):
        found = merged_chains(model, q, settings)
        counted = model.keep if local is None else model.draws
        local = score_rows(model, q, batch) if local is None else local
        chances = [chain.chance / counted for chain in local.chains]
        cells = local.cells / (counted * model.chains)
        return RowFindings(merged_chances(chances, found), rows, columns, cells)
    chosen, at = read(model, q, settings).chosen, best_of(q)
    own = None if local is None else rows_of(q, local)
    own = _single(model, q).features(at, batch) if own is None else own
    nu = own.nu[batch.row_of]
    members = completion(model, q)
    if members is not None:
        cells = filled(members, batch)
    elif settings.prediction == "mean":
        cells = impute(nu[rows], at.mean, at.covariance, batch.levels, columns)
    else:
        cells = impute_sampled(at, batch, own.nu)
    return RowFindings(selected(nu, chosen), rows, columns, cells)


def searched(q: Any) -> Any:
    """Return the search of a fit that fills cells, too; any other fit as it is."""
    return q.search if isinstance(q, CompletedGlobal) else q


def completion(model: Any, q: Any) -> Completion | None:
    """Return the models that fill missing cells of a fit; None where there are none."""
    if not isinstance(q, CompletedGlobal) or model.filling(q):
        return None
    return q.completion


def judged_cells(model: Any, q: Any, batch: FeatureBatch, local: Any) -> Judged | None:
    """Return a partition's hidden cells for rivals to be judged by; None where there are none."""
    members = completion(model, q)
    if members is None or local is None:
        return None
    return judged(members, batch, local.completion, searched(q).n_rows)


def rows_of(q: Any, local: Any) -> Any:
    """Return the rows' features of a fit; None where it ended at a sample of the rows."""
    if isinstance(q, CompletedGlobal):
        return rows_of(q.search, local.search)
    if isinstance(q, SearchGlobal):
        return FeatureLocal(local.lanes[best_lane(q)]) if local.sample is None else None
    return leading(q, local) if isinstance(q, StartsGlobal) else local


@dataclass(frozen=True)
class Stability:
    """How many other starts, or how many chains, have each reported feature.

    Attributes
    ----------
    found_by
        [F] how many; None where nobody looked.
    of
        How many starts there are beside the best, or chains.
    chains
        Whether these are chains: then the feature's own are among them.
    """

    found_by: IntArray | None
    of: int
    chains: bool = False


def stability(model: Any, q: Any, settings: FeatureOptions) -> Stability:
    """Return how far starts or chains agree on the reported features."""
    if isinstance(model, GibbsIBP):
        return Stability(merged_chains(model, q, settings).found_by, model.chains, chains=True)
    at = searched(q)
    if not isinstance(at, SearchGlobal) or len(at.matches) != len(best_of(q).share):
        return Stability(None, 0)
    return Stability(at.matches[read(model, q, settings).chosen.index], at.n_pool)


def _single(model: Any, q: Any) -> PolyaGammaIBP:
    """Return the model that gives new rows their features."""
    if isinstance(model, LaplaceIBP):
        return model.weights_of(q)
    if isinstance(model, CompletedIBP):
        return model.search.fit
    if isinstance(model, SearchIBP):
        return model.fit
    chosen = model.models[max(q.chosen, 0)]
    found: PolyaGammaIBP = chosen.polya if isinstance(chosen, Polished) else chosen
    return found
