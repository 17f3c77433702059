"""What a test on rows that the fit has not seen says of a model: typed, without words.

Rows may have weights, of a mean of 1, which are taken for counts of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.special import pdtr, pdtrc

from flows.evaluate.estimate import (
    Estimate,
    auroc,
    auroc_interval,
    count_rows,
    mean_of,
    ratio_of,
    share_of,
)
from flows.evaluate.rivals import (
    CLASSES,
    LABEL,
    Rival,
    Target,
    class_loss,
    compare,
    label_loss,
    square_loss,
)
from vbmodels.core.state import BoolArray, FloatArray, IntArray

CLEAR = 0.2, 0.8
"""Probabilities between which a row is unclear."""
BINS = 10


@dataclass(frozen=True)
class Band:
    """Rows whose probability is in a range: how many are wrong, and how many should be by it."""

    low: float
    high: float
    rows: int
    wrong: int
    expected: float


@dataclass(frozen=True)
class Bin:
    """Rows of about one prediction: means of it and of what was found, with its error."""

    predicted: float
    observed: float
    error: float
    rows: int


@dataclass(frozen=True)
class LabelTest:
    """How well one of two labels is predicted.

    Attributes
    ----------
    rows, groups, positives
        Tested rows, how many groups they are of, and how many have the positive label.
    loss, base, gain
        Log loss; that of the base rate; the latter less the former.
    better
        Whether the model is better than the base rate beyond chance.
    auroc
        Area under the ROC curve.
    right, share, common
        Rows on the right side of 0.5, their share, and how many one answer for all would have.
    missed, called
        Positives below 0.5, and others above it.
    bands
        Below, between and above `CLEAR`.
    bins, off
        Calibration by tenths of the rows, and how many of these are off the diagonal.
    too_cautious, too_sure
        Whether fewer, or more, are wrong than the probabilities say, beyond chance.
    rivals
        Other models on the same rows, the best first.
    """

    rows: int
    groups: int
    positives: int
    loss: Estimate
    base: float
    gain: Estimate
    better: bool
    auroc: Estimate
    right: int
    share: Estimate
    common: int
    missed: int
    called: int
    bands: tuple[Band, ...]
    bins: tuple[Bin, ...]
    off: int
    too_cautious: bool
    too_sure: bool
    rivals: tuple[Rival, ...]


@dataclass(frozen=True)
class ClassTest:
    """How well one of several classes, or of ordered levels, is predicted.

    Attributes
    ----------
    rows, groups, loss, base, gain, better, right, share, common, rivals
        As of `LabelTest`; the base is the shares of the classes.
    near
        Rows within one level of the truth, where classes are in an order.
    counts
        Rows by their class and the predicted one, [K][K].
    """

    rows: int
    groups: int
    loss: Estimate
    base: float
    gain: Estimate
    better: bool
    right: int
    share: Estimate
    common: int
    near: int | None
    counts: tuple[tuple[int, ...], ...]
    rivals: tuple[Rival, ...]


@dataclass(frozen=True)
class NumberTest:
    """How well a number, or a count, is predicted.

    Attributes
    ----------
    rows, groups
        Tested rows, and how many groups they are of.
    loss, base
        Root of the mean square of the errors, and that of the fit's mean.
    explained
        Share of the squares, or of the deviance, that the model explains.
    better
        Whether the model is better than the mean beyond chance.
    inside
        Share of the rows within their 95 % intervals, where they have any.
    bins
        Means of the label by tenths of the predictions.
    rivals
        Other models on the same rows, the best first.
    """

    rows: int
    groups: int
    loss: Estimate
    base: float
    explained: Estimate
    better: bool
    inside: Estimate | None
    bins: tuple[Bin, ...]
    rivals: tuple[Rival, ...]


def of_label(
    truth: FloatArray,
    p: FloatArray,
    base: FloatArray,
    group: IntArray,
    rivals: Mapping[str, FloatArray],
    weight: FloatArray | float = 1.0,
) -> LabelTest:
    """Test probabilities [n] of labels of 0 and 1 [n], of both of which there are some.

    ``base`` [n] is what the base rate gives each row, ``rivals`` what other models give by name.
    """
    losses, of_base = label_loss(truth, p), label_loss(truth, base)
    gain = mean_of(of_base - losses, group, weight)
    area = auroc(truth.astype(int), p, weight)
    # Rows of a group may be alike to any degree: each label of a group counts once.
    groups = [np.unique(group[truth == value]).size for value in (1, 0)]
    low, high = auroc_interval(area, *groups)
    wrong = (p > 0.5) != (truth == 1)
    doubt = np.minimum(p, 1.0 - p) * weight
    positives = count_rows(truth == 1, weight)
    bins = bins_of(p, truth, weight)
    # Rows of more weight than others say less than as many rows.
    n_wrong, n_expected = (
        float(some.sum()) / np.mean(np.square(weight)) for some in (wrong * weight, doubt)
    )
    return LabelTest(
        rows=truth.size,
        groups=np.unique(group).size,
        positives=positives,
        loss=_not_below_zero(mean_of(losses, group, weight)),
        base=float((of_base * weight).mean()),
        gain=gain,
        better=gain.value > 0.0 and (gain.is_above or low > 0.5),
        auroc=Estimate(area, low, high),
        right=count_rows(~wrong, weight),
        share=share_of(~wrong, group, weight),
        common=max(positives, truth.size - positives),
        missed=count_rows(wrong & (truth == 1), weight),
        called=count_rows(wrong & (truth == 0), weight),
        bands=_bands(p, wrong, doubt, weight),
        bins=bins,
        off=sum(abs(b.observed - b.predicted) > 1.96 * b.error for b in bins),
        too_cautious=bool(pdtr(n_wrong, n_expected) < 0.05),
        too_sure=bool(pdtrc(n_wrong - 1, n_expected) < 0.05),
        rivals=compare(LABEL, truth, p, rivals, group, weight=weight),
    )


def of_classes(
    truth: FloatArray,
    p: FloatArray,
    base: FloatArray,
    group: IntArray,
    rivals: Mapping[str, FloatArray],
    ordered: bool,
    weight: FloatArray | float = 1.0,
) -> ClassTest:
    """Test probabilities [n, K] of classes numbered from 0 [n]; ``base`` is [n, K]."""
    losses, of_base = class_loss(truth, p), class_loss(truth, base)
    gain = mean_of(of_base - losses, group, weight)
    best, classes = p.argmax(axis=1), p.shape[1]
    right = best == truth
    counts = np.zeros((classes, classes))
    np.add.at(counts, (truth.astype(int), best), weight)
    near = count_rows(np.abs(best - truth) <= 1, weight)
    return ClassTest(
        rows=truth.size,
        groups=np.unique(group).size,
        loss=_not_below_zero(mean_of(losses, group, weight)),
        base=float((of_base * weight).mean()),
        gain=gain,
        better=gain.is_above,
        right=count_rows(right, weight),
        share=share_of(right, group, weight),
        common=round(float(counts.sum(axis=1).max())),
        near=near if ordered else None,
        counts=tuple(tuple(map(round, row)) for row in counts.tolist()),
        rivals=compare(CLASSES, truth, p, rivals, group, weight=weight),
    )


def of_number(
    truth: FloatArray,
    predicted: FloatArray,
    base: FloatArray,
    group: IntArray,
    rivals: Mapping[str, FloatArray],
    target: Target,
    inside: FloatArray | None = None,
    weight: FloatArray | float = 1.0,
) -> NumberTest:
    """Test predicted numbers [n]; ``target`` is `NUMBER` or `COUNT`.

    ``base`` [n] is the mean of the fit, ``inside`` [n] whether the truth is in its interval.
    """
    squares = mean_of(square_loss(truth, predicted), group, weight)
    losses = target.loss(truth, predicted)
    assert target.mean is not None
    of_mean = target.loss(truth, target.mean(truth, base, weight)) * weight
    unit = float(of_mean.mean()) or 1.0
    gain = mean_of((target.loss(truth, base) - losses) / unit, group, weight)
    left = (
        ratio_of(losses * weight, of_mean, group)
        if of_mean.any()
        else Estimate(float((losses * weight).mean()))
    )
    ends = [None if end is None else 1.0 - end for end in (left.high, left.low)]
    return NumberTest(
        rows=truth.size,
        groups=np.unique(group).size,
        loss=_root_of(squares),
        base=float(np.sqrt((square_loss(truth, base) * weight).mean())),
        explained=Estimate(1.0 - left.value, *ends),
        better=gain.is_above,
        inside=None if inside is None else share_of(inside.astype(bool), group, weight),
        bins=bins_of(predicted, truth, weight),
        rivals=compare(target, truth, predicted, rivals, group, base, weight),
    )


def bins_of(
    predicted: FloatArray, truth: FloatArray, weight: FloatArray | float = 1.0
) -> tuple[Bin, ...]:
    """Cut rows by what is predicted into at most `BINS` bins of about as many rows."""
    rows = np.ones(truth.size) * weight
    edges = np.unique(np.quantile(predicted, np.linspace(0.0, 1.0, BINS + 1)))
    bin_of = np.clip(np.searchsorted(edges, predicted, side="right") - 1, 0, max(edges.size - 2, 0))
    bins = []
    for b in np.unique(bin_of):
        p, y, w = predicted[bin_of == b], truth[bin_of == b], rows[bin_of == b]
        w = w * (w.sum() / (w @ w))  # a sum of what they are worth (Kish 1965)
        size, mean = w.sum(), (y * w).sum() / w.sum()
        centre = ((y * w).sum() + 2.0) / (size + 4.0)  # Agresti and Coull: of some width at 0 and 1
        spread = centre * (1.0 - centre) / (size + 4.0)
        if not np.isin(truth, (0, 1)).all():
            spread = (w * (y - mean) ** 2).sum() / max(size - 1.0, np.finfo(float).tiny) / size
        bins.append(Bin(float((p * w).sum() / size), float(mean), float(np.sqrt(spread)), y.size))
    return tuple(bins)


def _bands(
    p: FloatArray, wrong: BoolArray, doubt: FloatArray, weight: FloatArray | float
) -> tuple[Band, ...]:
    low, high = CLEAR
    return tuple(
        Band(
            start,
            end,
            count_rows(some, weight),
            count_rows(wrong & some, weight),
            float(doubt[some].sum()),
        )
        for start, end, some in (
            (0.0, low, p <= low),
            (low, high, (p > low) & (p < high)),
            (high, 1.0, p >= high),
        )
    )


def _root_of(square: Estimate) -> Estimate:
    ends = (None if end is None else sqrt(max(end, 0.0)) for end in (square.low, square.high))
    return Estimate(sqrt(square.value), *ends)


def _not_below_zero(loss: Estimate) -> Estimate:
    return Estimate(loss.value, None if loss.low is None else max(loss.low, 0.0), loss.high)
