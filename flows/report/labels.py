"""What people read for a name of run.json or of --json, so that a number has one name."""

from __future__ import annotations

from collections.abc import Container, Mapping
from fractions import Fraction
from typing import Any

LEVEL, UNKNOWN = "right level", "not known"  # a tile's label; the value of one without a number
AGAINST = "against "
"""How the label of a comparison with a baseline begins."""

LABELS = {
    "additive": "additive part",
    "accuracy_interval": "accuracy, 95 % interval",
    "alpha": "concentration (alpha)",
    "auroc": "AUROC",
    "auroc_interval": "AUROC, 95 % interval",
    "bald": "information of a label, nats",
    "base_log_loss": "log loss of the base rate",
    "baseline_seconds": "time of the baselines, s",
    "beats_base_rate": "better than the base rate",
    "bag_id": "bag",
    "chosen": "chosen by held-out rows",
    "chosen: n_experts": "most experts, chosen by held-out rows",
    "chosen: tau": "chosen by held-out rows: prior precision of weights (tau)",
    "doc_id": "document",
    "effect_sd": "effect (sd of the score)",
    "effects": "strength of effect (sd of the score)",
    "expected_primary": "expected primary instances",
    "deviance_explained": "deviance explained",
    "additive: gain": "additive part: log loss, lines minus curves",
    "additive: gain_se": "additive part: standard error of that difference",
    "additive: intercept_log_loss": "log loss of the base rate, rows left out",
    "gaussian_process: gain": "Gaussian process: log loss, without minus with it",
    "pairs: gain": "pairs of columns: log loss, without minus with them",
    "held_out": "held out",
    "instance_auroc": "AUROC of instances",
    "interval": "log loss, baseline minus model: 95 % interval",
    "labelled": "bags with a label",
    "largest_weights": "largest weights",
    "log_loss_interval": "log loss, 95 % interval",
    "log_loss_se": "standard error of the log loss",
    "logistic_log_loss": "log loss of logistic regression",
    "mean_rmse": "RMSE of the mean",
    "more": "log loss, baseline minus model",
    "n_experts": "experts kept in the final fit",
    "passed": "variants",
    "positive": "positive label",
    "predicted_rows": "rows in which it is most probable",
    "r2": "R2",
    "r2_interval": "R2, 95 % interval",
    "rmse": "RMSE",
    "rmse_interval": "RMSE, 95 % interval",
    "share_log_loss": "log loss of the best constant",
    "sigma2": "prior variance of weights (sigma2)",
    "test_positives": "rows held out with the positive label",
    "test_rows": "rows held out",
    "tested": "bags tested",
    "unlabelled_rows": "rows without a label, predicted",
    "used_experts": "experts that lead in at least 1 % of the rows",
    "weights": "weight in the ensemble",
    "without_it": "without its label",
}
"""By the name in run.json; a name within another by both (``chosen: tau``), or by itself."""

_OF_NUMBERS = {
    "more": "R2, model minus baseline",
    "interval": "R2, model minus baseline: 95 % interval",
}
"""Of baselines where a number is predicted."""


def label(name: str, among: Container[str] = ()) -> str:
    """Return what a number of run.json is called; ``among`` all names of the run's numbers.

    >>> label("auroc"), label("baselines: boosted trees: more"), label("distinct_rows")
    ('AUROC', 'boosted trees: log loss, baseline minus model', 'distinct rows')
    """
    if name in LABELS:
        return LABELS[name]
    above, _, last = name.rpartition(": ")
    if f"{above}: rmse" in among and last in _OF_NUMBERS:
        return f"{label(above)}: {_OF_NUMBERS[last]}"
    parts = [part for part in name.split(": ") if part != "baselines"]
    return ": ".join(LABELS.get(part, part.replace("_", " ")) for part in parts)


def labelled(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the result as people read it."""
    return {LABELS.get(name, name): value for name, value in row.items()}


def about_in_words(count: float) -> str:
    """Write an expected count.

    >>> about_in_words(0.2), about_in_words(1.1), about_in_words(1234.4)
    ('fewer than 1', 'about 1', 'about 1,234')
    """
    return "fewer than 1" if count < 0.5 else f"about {count:,.0f}"


def share_in_words(value: float, of: str = "") -> str:
    """Write a share by the nearest small numbers: whole fifths, quarters, thirds, or tenths.

    >>> share_in_words(0.64), share_in_words(0.301, " of them"), share_in_words(0.99)
    ('about 2 in 3', 'about 3 in 10 of them', 'nearly all')
    """
    near = Fraction(value).limit_denominator(5), Fraction(round(10.0 * value), 10)
    share = min(near, key=lambda one: abs(one - value))
    some = f"about {share.numerator} in {share.denominator}{of}"
    return "hardly any" if share == 0 else "nearly all" if share == 1 else some
