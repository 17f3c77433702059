"""Results of a partition: the tables of its rows and of weights, and what it adds to the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from flows import storage
from flows.evaluate.rivals import class_loss, label_loss
from flows.evaluate.tested import CLEAR
from flows.evaluate.thresholds import called_at
from flows.experts.input.design import Forms
from flows.experts.input.encoding import Beyond, Encoding, count_beyond
from flows.experts.input.units import read_names
from flows.experts.reasons import Picked, Reasons, Shown, Tested
from flows.experts.schema import CLASS_EXPERTS, EXPERTS, class_rows, expert_rows, number_rows
from flows.experts.settings import ExpertSettings
from flows.records.runs import Parameter, RunPaths
from flows.tables.roles import ID, LABEL
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.experts.additive.counts import CountAdditive, CountPosterior
from vbmodels.experts.additive.gaussian import GaussianAdditive, GaussianPosterior
from vbmodels.experts.additive.one_vs_rest import ClassRows, OneVersusRest
from vbmodels.experts.additive.posterior import AdditivePosterior, Part
from vbmodels.experts.effects import Effect, GroupEffect, PairEffect
from vbmodels.experts.forms import AnyPosterior, Names, names_of, weights_of
from vbmodels.experts.posterior import unweighted
from vbmodels.experts.terms.step_rows import CountRows, TargetRows


def table_of(posterior: AnyPosterior, names: Names) -> list[Any]:
    """Return the columns of the table of experts."""
    return [pa.array(values) for values in zip(*weights_of(posterior, names), strict=True)]


def parameters_in(model: Any, q: Any) -> list[Parameter]:
    """Return every weight on the scale of the fit; of several classes by their numbers."""
    posterior = model.posterior(q)
    if isinstance(posterior, CountPosterior | GaussianPosterior):
        name, value = "dispersion", getattr(posterior, "dispersion", 0.0)
        if isinstance(posterior, GaussianPosterior):
            name, value = "noise sd", float(np.sqrt(posterior.noise))
        return [*_coefficients(posterior.part), Parameter(name, "0", value, 0.0)]
    if isinstance(model, OneVersusRest):
        return [
            replace(parameter, name=f"class {number + 1} {parameter.name}")
            for number, part in enumerate(posterior.parts)
            for parameter in parameters_of(part)
        ]
    return parameters_of(posterior)


def _coefficients(part: Part) -> list[Parameter]:
    pairs = zip(part.coefficients, part.sd, strict=True)
    return [Parameter("additive", str(d), float(m), float(sd)) for d, (m, sd) in enumerate(pairs)]


def parameters_of(posterior: AnyPosterior) -> list[Parameter]:
    """Return every weight of the additive part, where there is one, and of the best start."""
    parameters = []
    if isinstance(posterior, AdditivePosterior):
        parameters = _coefficients(posterior.part)
    component = posterior.components[0]
    return parameters + [
        Parameter(
            f"{role} {k + 1}", str(d), float(component.mean[r, k, d]), float(component.sd[r, k, d])
        )
        for r, role in enumerate(("gate", "expert"))
        for k in range(component.mean.shape[1])
        for d in range(component.mean.shape[2])
    ]


NumberModel = GaussianAdditive | CountAdditive
BINS = 40
"""Of the probabilities in the chart."""
WORST, LISTED, ALL = 10, 50, 200
"""Rows predicted worst; rows of another list; rows up to which a score lists all of them."""
BORDER = 0.4
"""From 0.5: rows whose probabilities are nearer have reasons."""
DRAWS = 20
"""Draws of the posterior under which shares of experts are summed up."""


@dataclass(frozen=True)
class Predicted:
    """What is predicted of rows.

    Attributes
    ----------
    own
        Probability of the positive label [N, 1], of each class [N, K], or a number [N, 1].
    ends
        Ends of the 95 % intervals of numbers [N, 2], else None.
    sd
        Standard deviations of numbers around their predictions; [N].
    """

    own: FloatArray
    ends: FloatArray | None = None
    sd: FloatArray | None = None


def predict(posterior: Any, batch: Any, forms: Forms) -> Predicted:
    """Predict the rows of a batch that was made by ``forms``."""
    weights, target = forms.design.weights, forms.encoding.target
    if target is not None:
        exposure = [batch.exposure] if isinstance(batch, CountRows) else []
        mean, sd, low, high = target.predicted(*posterior.predict(batch.rows, *exposure))
        return Predicted(mean[:, None], np.column_stack([low, high]), sd)
    if isinstance(batch, ClassRows):
        return Predicted(unweighted(posterior.probabilities(batch), weights))
    return Predicted(unweighted(posterior.predict(batch).probability, weights)[:, None])


@dataclass(frozen=True)
class Shares:
    """Of each expert: rows of which it has the largest share, its shares' sum, and that by draws.

    [K], [K] and [draws, K]; the draws are those of every partition.
    """

    responsible: FloatArray
    share: FloatArray
    drawn: FloatArray


@dataclass(frozen=True)
class AboutModel:
    """What is said of the model: with the first partition.

    Attributes
    ----------
    encoding
        What became of the columns and labels.
    effects
        What columns add: to the one sum that there is, or to that of each class.
    pairs, groups
        What pairs and groups of columns add.
    columns
        Names of the columns of the mixture of experts.
    """

    encoding: Encoding
    effects: tuple[tuple[Effect, ...], ...]
    pairs: tuple[PairEffect, ...] = ()
    groups: tuple[GroupEffect, ...] = ()
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scored:
    """What a partition adds to the answer.

    Attributes
    ----------
    rows, fitted, positives
        All, those that were fitted, and those of the latter with the positive label.
    spread
        Rows by probability: of the positive label, or of the most probable class; [BINS].
    predicted
        Rows below, within and above the unclear probabilities; of classes those of each; [K].
    unclear
        Rows of which no label is clear.
    clear
        Of two labels, for those that are clearly positive and clearly not: rows, wrong ones
        expected among those within the ranges of the fit, and rows outside these; [2, 3].
    called
        Rows at or above each of the thresholds that are looked at.
    ends
        Smallest and largest predicted number.
    lists
        Rows by the name of their list.
    beyond
        Of a score: rows with numbers outside the ranges of the fit.
    shares
        Those of experts, where there are any.
    about, tested
        With the first partition; the latter once all are scored.
    """

    rows: int
    fitted: int
    positives: int
    spread: IntArray
    predicted: IntArray
    unclear: int = 0
    clear: FloatArray = field(default_factory=lambda: np.zeros((2, 3)))
    called: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    ends: tuple[float, float] = (np.inf, -np.inf)
    lists: Mapping[str, Picked] = field(default_factory=dict)
    beyond: Beyond | None = None
    shares: Shares | None = None
    about: AboutModel | None = None
    tested: Tested | None = None


def score(
    model: Any,
    q: Any,
    batch: Any,
    index: int,
    settings: ExpertSettings,
    paths: RunPaths,
    is_new: bool,
) -> Scored:
    """Write what is predicted of a partition's rows; return what it adds to the answer."""
    posterior, forms = model.posterior(q), Forms.read(paths)
    named = read_names(paths, index, settings)
    names, present = [named[ID], named[LABEL]], named.drop_columns([ID, LABEL])
    held_out = is_held_out(batch) & (not is_new)
    shares, labels = None, forms.encoding.labels
    if isinstance(model, NumberModel):
        predicted = predict(posterior, batch, forms)
        assert predicted.ends is not None
        assert forms.encoding.target is not None
        label = forms.encoding.target.values(named[LABEL].combine_chunks())[0]
        names[1] = pa.array(label, from_pandas=True)
        numbers = [predicted.own[:, 0], predicted.sd, *predicted.ends.T]
        schema = number_rows(present.column_names)
    elif isinstance(model, OneVersusRest):
        predicted = predict(posterior, batch, forms)
        names.append(pa.array(labels, pa.string()).take(pa.array(predicted.own.argmax(axis=1))))
        numbers, schema = [*predicted.own.T], class_rows(labels, present.column_names)
    else:
        whole = posterior.predict(batch)
        predicted = Predicted(unweighted(whole.probability, forms.design.weights)[:, None])
        numbers = [predicted.own[:, 0], *whole.responsibility]
        schema = expert_rows(len(whole.responsibility), labels[-1], present.column_names)
        best = np.argmax(whole.responsibility, axis=0)
        shares = Shares(
            np.bincount(best, minlength=len(whole.responsibility)).astype(float),
            whole.responsibility.sum(axis=1),
            posterior.drawn_shares(batch, DRAWS, settings.seed),
        )
    arrays = [*names, *(pa.array(np.ascontiguousarray(values)) for values in numbers)]
    untested = pa.nulls(len(held_out), schema.arrow.field("without_it").type)
    rows = pa.table([*arrays, untested, pa.array(held_out), *present.columns], schema=schema.arrow)
    storage.write_table(paths.table("rows", index), rows)
    reasons = reasons_of(model, posterior, forms, paths, index)
    shown = Shown(rows, predicted.own, predicted.ends, forms.encoding, reasons, is_new)
    lists = lists_of_score(shown, index) if is_new else worst_of(shown, batch, held_out, forms)
    counted = replace(_counted(shown, batch, is_new), lists=lists, shares=shares)
    if index > 0:
        return counted
    return replace(counted, about=_about(model, posterior, forms, paths))


def is_held_out(batch: Any) -> np.ndarray:
    """Say which rows have a label and no weight in the fit; [N]."""
    return np.asarray(~np.isnan(truth_of(batch)) & (batch.weight == 0.0))


def truth_of(batch: Any) -> FloatArray:
    """Return 0 or 1, the number of a class, or a number on the scale of the fit; NaN without."""
    if isinstance(batch, ClassRows):
        return np.where(batch.classes < 0, np.nan, batch.classes)
    if isinstance(batch, TargetRows):
        return np.where(batch.rows.t == 0.0, np.nan, batch.y)
    return np.where(batch.t == 0.0, np.nan, batch.t > 0.0)


def reasons_of(model: Any, posterior: Any, forms: Forms, paths: RunPaths, index: int) -> Reasons:
    """Return what explains rows of a partition."""
    url = paths.part("rows", index)
    if isinstance(model, NumberModel | OneVersusRest):
        return Reasons(url, forms)
    return Reasons(url, forms, lambda batch: predict(posterior, batch, forms).own[:, 0])


def worst_of(shown: Shown, batch: Any, tested: np.ndarray, forms: Forms) -> dict[str, Picked]:
    """List the tested rows that are predicted worst."""
    truth = np.where(tested, truth_of(batch), np.nan)
    if forms.encoding.target is not None:
        labels = shown.names["label"].to_numpy()
        by = np.where(tested, -np.abs(labels - shown.own[:, 0]), np.nan)
    else:
        loss = label_loss(truth, shown.own[:, 0])
        if isinstance(batch, ClassRows):
            loss = class_loss(np.nan_to_num(truth), shown.own)
        by = np.where(np.isnan(truth), np.nan, -loss)
    return {"worst": shown.first(by, WORST, WORST)}


def lists_of_score(shown: Shown, index: int) -> dict[str, Picked]:
    """List the rows of a score by what is predicted, and those that are least clear."""
    best = shown.own[:, 0] if shown.ends is not None else shown.own.max(axis=1)
    lists = {"first": shown.first(-best, ALL)}
    if shown.ends is not None:
        return lists | {"last": shown.first(best, LISTED)}
    if shown.own.shape[1] > 1:
        return lists | {"unclear": shown.first(best, LISTED)}
    away = np.abs(best - 0.5)
    near = int(np.sum(away < BORDER))
    most = LISTED if index < 4 else WORST  # those nearest to 0.5 are hardly all in one partition
    return lists | {"unclear": shown.first(away, LISTED, min(near, most))}


def _counted(shown: Shown, batch: Any, is_new: bool) -> Scored:
    best, reasons = shown.own.max(axis=1), shown.reasons
    fitted = batch.weight > 0.0
    beyond = None
    if is_new:
        beyond = count_beyond(reasons.raw, shown.encoding, shown.names["id"].to_pylist())
    is_label = shown.own.shape[1] == 1 and shown.ends is None
    counted = Scored(
        best.size,
        int(fitted.sum()),
        int(np.sum(fitted & (truth_of(batch) == 1.0))) if is_label else 0,
        np.zeros(BINS, np.int64),
        np.zeros(0, np.int64),
        beyond=beyond,
    )
    low, high = CLEAR
    if shown.ends is not None:
        ends = float(best.min(initial=np.inf)), float(best.max(initial=-np.inf))
        return replace(counted, ends=ends)
    counted = replace(counted, spread=np.histogram(best, BINS, (0.0, 1.0))[0])
    if shown.own.shape[1] > 1:
        counts = np.bincount(shown.own.argmax(axis=1), minlength=shown.own.shape[1])
        return replace(counted, predicted=counts, unclear=int(np.sum(best < high)))
    sides = np.array([best >= high, best <= low])
    unclear = int(best.size - sides.sum())
    counted = replace(
        counted,
        predicted=np.array([sides[1].sum(), unclear, sides[0].sum()]),
        unclear=unclear,
        called=called_at(best),
    )
    if not is_new:
        return counted
    far = reasons.outside
    clear = [
        (side.sum(), wrong[side & ~far].sum(), far[side].sum())
        for side, wrong in zip(sides, (1.0 - best, best), strict=True)
    ]
    return replace(counted, clear=np.array(clear, float))


def _about(model: Any, posterior: Any, forms: Forms, paths: RunPaths) -> AboutModel:
    """Write the table of weights, and return what is said of the model."""
    encoding, design, basis = forms.encoding, forms.design, forms.basis
    url = paths.table("experts", 0)
    if isinstance(model, OneVersusRest):
        rows: list[pa.Table] = []
        every = []
        for label, part in zip(encoding.splits, posterior.parts, strict=True):
            columns = table_of(part, names_of(part, design.columns, basis))
            arrays = [pa.array([label] * len(columns[0]), pa.string()), *columns]
            rows.append(pa.table(arrays, schema=CLASS_EXPERTS.arrow))
            every.append(forms.effects(part)[0])
        storage.write_table(url, pa.concat_tables(rows))
        return AboutModel(encoding, tuple(every))
    number = isinstance(model, NumberModel)
    alone = AdditivePosterior(posterior.part, ()) if number else posterior
    named = names_of(alone, design.columns, basis)
    storage.write_table(url, pa.table(table_of(alone, named), schema=EXPERTS.arrow))
    effects, pairs = forms.effects(posterior)
    if number:
        return AboutModel(encoding, (effects,), pairs)
    mixture = tuple(str(name) for name in named.mixture[:-1])
    return AboutModel(encoding, (effects,), pairs, forms.groups(posterior), mixture)
