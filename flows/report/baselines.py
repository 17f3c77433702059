"""Simple baselines that a model must beat, by the log loss of the same rows.

Differences are of paired rows, with 95 % intervals by the bootstrap over them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from flows.evaluate.auroc import auroc
from flows.report.labels import AGAINST, label
from flows.report.page import Grid, Section, Tile
from vbmodels.core.state import FloatArray, IntArray

DRAWS = 1000
SHARE = "the share of each label"
"""The baseline that gives all rows the labels' shares of the fit."""


@dataclass(frozen=True)
class Baseline:
    """A simple baseline on what was held out.

    ``more`` is its log loss less the model's, with its 95 % interval: above 0 the model is better.
    """

    name: str
    auroc: float
    log_loss: float
    more: float
    low: float
    high: float


def trees(
    x: np.ndarray, y: IntArray, seed: int, careful: bool = True
) -> Callable[[np.ndarray], FloatArray]:
    """Return a function of new rows that gives P by boosted trees, fitted to rows [n, P].

    ``careful``: slower steps on fewer columns than scikit-learn's own, whose log loss on few rows
    is far worse. They take one thread, as the models do.
    """
    predict = class_trees(x, y, seed, careful)
    return lambda new: predict(new)[:, 1]


def class_trees(
    x: np.ndarray, y: IntArray, seed: int, careful: bool = True
) -> Callable[[np.ndarray], FloatArray]:
    """Return a function of new rows that gives P [n, K] by boosted trees, fitted to K classes."""
    # Workers load this module and grow no trees: scikit-learn takes a second of CPU to load.
    from sklearn.ensemble import HistGradientBoostingClassifier

    settings: dict[str, Any] = {}
    if careful:
        settings = {
            "learning_rate": 0.05,
            "max_features": 0.3,
            "min_samples_leaf": int(np.clip(len(y) // 4, 1, 20)),
        }
    return _with_one_thread(HistGradientBoostingClassifier(random_state=seed, **settings), x, y)


FARTHEST = 1e100
"""Size of a number beyond which it counts as that: its square overflows."""


def within_range(x: np.ndarray) -> np.ndarray:
    """Return numbers whose squares are finite; those of 32 bits are."""
    return np.clip(x, -FARTHEST, FARTHEST) if x.dtype == np.float64 else x


def multinomial(x: np.ndarray, y: IntArray) -> Callable[[np.ndarray], FloatArray]:
    """Return a function of new rows that gives P [n, K] by ridge multinomial regression.

    On standardised columns, a missing cell at its column's mean, with scikit-learn's ridge.
    """
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    imputer = SimpleImputer(keep_empty_features=True)
    model = make_pipeline(imputer, StandardScaler(), LogisticRegression(max_iter=2000))
    return _with_one_thread(model, x, y)


def _with_one_thread(model: Any, x: np.ndarray, y: IntArray) -> Callable[[np.ndarray], FloatArray]:
    def predict(new: np.ndarray) -> FloatArray:
        with threadpool_limits(1):
            return np.asarray(model.predict_proba(within_range(new)))

    with threadpool_limits(1):
        model.fit(within_range(x), y)
    return predict


def compared_classes(
    name: str, p: FloatArray, own: FloatArray, truth: IntArray, seed: int,
    group: IntArray | None = None,
) -> Baseline:  # fmt: skip
    """Compare probabilities [n, K] with the model's; the AUROC is the mean of the classes'."""
    at = np.arange(truth.size)
    losses = [-np.log(np.maximum(q[at, truth], 1e-15)) for q in (p, own)]
    areas = [
        auroc(truth == k, p[:, k])
        for k in range(p.shape[1])
        if 0 < np.count_nonzero(truth == k) < truth.size
    ]
    area = float(np.mean(areas)) if areas else np.nan
    return _compare(name, area, losses[0], losses[1], seed, group)


def compared(
    name: str, p: FloatArray, own: FloatArray, truth: IntArray, seed: int,
    group: IntArray | None = None,
) -> Baseline:  # fmt: skip
    """Compare a baseline's probabilities with the model's on rows with both labels.

    Rows of one ``group`` [n] are drawn together.
    """
    losses = [_loss(q, truth) for q in (p, own)]
    return _compare(name, auroc(truth, p), losses[0], losses[1], seed, group)


def _compare(
    name: str, auroc: float, loss: FloatArray, own: FloatArray, seed: int,
    group: IntArray | None = None,
) -> Baseline:  # fmt: skip
    away = loss - own
    drawn = resampled_means(away, np.arange(away.size) if group is None else group, seed)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Baseline(
        name=name,
        auroc=auroc,
        log_loss=float(loss.mean()),
        more=float(away.mean()),
        low=float(low),
        high=float(high),
    )


def resampled_means(values: FloatArray, group: IntArray, seed: int) -> FloatArray:
    """Return means of values [n] over groups that are drawn with replacement, [`DRAWS`]."""
    _, of = np.unique(group, return_inverse=True)
    size, total = np.bincount(of).astype(float), np.bincount(of, values)
    drawn = np.random.default_rng(seed).integers(size.size, size=(DRAWS, size.size))
    means: FloatArray = total[drawn].sum(axis=1) / size[drawn].sum(axis=1)
    return means


def _loss(p: FloatArray, truth: IntArray) -> FloatArray:
    p = np.clip(p, 1e-15, 1.0 - 1e-15)
    result: FloatArray = -np.log(np.where(truth == 1, p, 1.0 - p))
    return result


def share_interval(part: float, of: float) -> list[float]:
    """Return the 95 % interval of a share (Wilson 1927).

    >>> [round(end, 3) for end in share_interval(13, 14)]
    [0.685, 0.987]
    """
    square = 1.96**2
    centre = (part + 0.5 * square) / (of + square)
    half = 1.96 * float(np.sqrt(part * (of - part) / of + 0.25 * square)) / (of + square)
    return [float(max(centre - half, 0.0)), float(min(centre + half, 1.0))]


def shown(
    baselines: Sequence[Baseline], results: dict[str, Any], units: str, in_folds: bool = False
) -> tuple[list[Section], tuple[str, ...]]:
    """Compare the model with the baselines, and warn of the best one that is better.

    ``units`` is what was held out, in the plural; ``in_folds``: each once.
    """
    if not baselines:
        return [], ()
    results["baselines"] = {
        r.name: {
            "auroc": r.auroc, "log_loss": r.log_loss, "more": r.more, "interval": [r.low, r.high],
        }
        for r in baselines
    }  # fmt: skip
    rows = [
        (r.name, f"{r.auroc:.3f}", f"{r.log_loss:.3f}",
         f"{r.more:+.3f} ({r.low:+.3f} to {r.high:+.3f})")
        for r in sorted(baselines, key=lambda r: r.log_loss)
    ]  # fmt: skip
    columns = ("model", "AUROC", "log loss", DIFFERENCE)
    where = f"{units} held out of their fit"
    how = f"Fitted to the same {units} and compared on the same held-out {units}"
    if in_folds:
        how = f"Each of the {units} is predicted by fits to the other folds"
    text = (
        f"{rival_in_words(baselines, 'log loss')} {how}; intervals are by the bootstrap over "
        f"{units}."
    )
    better = [r for r in baselines if r.high < 0.0 and r.name != SHARE]
    warnings = tuple(
        f"On {where}, {r.name} {predicts(r.name)} better: the log loss is {r.log_loss:.3f}, "
        f"{-r.more:.3f} less ({-r.high:.3f} to {-r.low:.3f})."
        for r in sorted(better, key=lambda r: r.log_loss)[:1]
    )
    return [Section("Against simpler models", text, (), (Grid(columns, rows),))], warnings


def predicts(rival: str) -> str:
    """Return the verb of a rival's name.

    >>> predicts("boosted trees on pooled features"), predicts("multinomial logistic regression")
    ('predict', 'predicts')
    """
    return "predict" if re.search(r"\btrees\b", rival) else "predicts"


def with_model(grid: Grid, own: tuple[str, ...]) -> Grid:
    """Return a table of baselines with the model's own line first, and AUROC if it has one."""
    rows = [own, *grid.rows]
    columns: tuple[str, ...] = ("model", *grid.columns[1:])
    if not own[1]:
        columns, rows = (columns[0], *columns[2:]), [(row[0], *row[2:]) for row in rows]
    return replace(grid, columns=columns, rows=rows)


def rival_in_words(found: Sequence[Any], what: str) -> str:
    """Say how the best baseline does against the model by ``what``, and if that may be chance."""
    own = "this model "  # less one of its parts: no rival
    best = min(found, key=lambda one: (one.name.startswith(own) or one.name == SHARE, one.more))
    clear = best.low > 0.0 or best.high < 0.0
    which = "best other" if len(found) > 1 else "other"
    more, low, high = (
        f"{abs(one):.3f} {'worse' if one > 0.0 else 'better'}"
        for one in (best.more, best.low, best.high)
    )
    if {abs(round(one, 3)) for one in (best.more, best.low, best.high)} == {0.0}:
        return f"The {which} kind of model, {best.name}, is equal in {what} to three decimals."
    return (
        f"The {which} kind of model, {best.name}, is {more} in {what} (95 % interval: {low} to "
        f"{high}): {'' if clear else 'no '}more than chance explains."
    )


def baseline_tile(results: Mapping[str, Any]) -> list[Tile]:
    """Compare the log loss with that of the best simple baseline."""
    baselines = results.get("baselines")
    if not baselines:
        return []
    name, best = min(baselines.items(), key=lambda one: one[1]["log_loss"])
    what = label("more")
    if "auroc" in results:
        what = f"AUROC {results['auroc']:.3f} against {best['auroc']:.3f}; {what}"
    return [against(name, what, best["more"], *best["interval"])]


def against(name: str, what: str, more: float, low: float, high: float) -> Tile:
    """Compare the model with a baseline by ``more`` of ``what``, with its 95 % interval."""
    value = UNCLEAR
    if low > 0.0 or high < 0.0:
        value = f"this model is {'better' if low > 0.0 else 'worse'}"
    return Tile(f"{AGAINST}{name}", value, f"{what}: {more:+.3f} ({low:+.3f} to {high:+.3f})")


DIFFERENCE = "log loss, baseline minus model (95 %)"
UNCLEAR = "no clear difference"
