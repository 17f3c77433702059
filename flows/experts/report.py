"""What the experts report says: the experts, who is responsible, and how good it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log, log1p, sqrt
from typing import Any

import numpy as np

from flows.evaluate.auroc import auroc_interval
from flows.experts.choice_report import (
    MOST_EXPERTS,
    NOTHING,
    chain_sections,
    choice_sections,
    expert_section,
    largest_weights,
    left_out_log_loss,
    tau_in_words,
)
from flows.experts.effect_report import effect_sections, effects_text, pair_sections, ranked
from flows.experts.encoding import Encoding, beyond_ranges
from flows.experts.predictions import (
    BEYOND,
    HOW,
    IN_RANGE,
    REASONS,
    count_predictions,
    predictions_section,
    rows_to_look_at,
    with_content,
    with_tested,
)
from flows.experts.settings import ExpertSettings
from flows.experts.summary import BINS, WORST, ExpertSummary
from flows.experts.thresholds import area, misses_in_words, threshold_tables
from flows.experts.tiles import (
    FEW,
    TOO_FEW,
    next_steps,
    of_tested_rows,
    steps_after_score,
    tested_rows,
    tiles_of,
    with_rivals,
)
from flows.report import plots
from flows.report.baselines import share_interval, shown, with_model
from flows.report.page import Findings, Grid, Section
from vbmodels.core.chains import Diagnosis
from vbmodels.core.levels import NO, YES
from vbmodels.core.state import FloatArray
from vbmodels.experts.additive.posterior import AdditivePosterior
from vbmodels.experts.additive.prior_choice import Choice
from vbmodels.experts.additive.states import Additive
from vbmodels.experts.forms import AnyPosterior

WITHOUT_EXPERTS = "this model without experts"
WITHOUT_PROCESS = "this model without the Gaussian process"
"""Baselines that are the model less one of its parts."""
POSITIVES = "positives"
"""What rows with a label such as 1 or yes are called."""
MAIN = 0.01
"""Share of the rows from which on an expert is counted."""
MOST_R_HAT = 1.05
DISAGREE = (
    "The chains do not agree (largest R-hat {:.2f}, expected at most 1.05): raise warmup and "
    "draws, or take fewer columns."
)
FEWEST = 5
"""Rows predicted worst that are listed, if no more are wrong."""
GOOD, PERFECT, LEAST = 0.95, 0.999, 5  # AUROC that a column may give away, rows of each class
NEARLY_ALL = 0.8
"""Share of the score's variance from which on one column may give a good AUROC away."""


def report(
    posterior: AnyPosterior, chosen: Choice | None, summaries: Sequence[ExpertSummary],
    settings: ExpertSettings, chains: Diagnosis | None = None, additive: Additive | None = None,
) -> Findings:  # fmt: skip
    """Say what was found in all partitions.

    ``chains`` is a sampler's diagnosis, ``additive`` what an additive form was chosen by.
    """
    one = posterior.components[0]
    k = one.mean.shape[1]
    columns = summaries[0].columns
    rows = sum(s.rows for s in summaries)
    responsible = sum((s.responsible for s in summaries), np.zeros(k))
    held_out = sum((s.held_out for s in summaries), np.zeros(4))
    main = int(np.sum(responsible >= MAIN * rows))
    results: dict[str, Any] = {"n_experts": k, "used_experts": main}
    compared, better = baseline_sections(summaries, results)
    label = positive_of(summaries)
    predicted = f"{settings.columns.get('label', 'label')} = {label}"
    alone = isinstance(posterior, AdditivePosterior) and (
        not posterior.mixtures or posterior.own_weight < NOTHING
    )
    applied = summaries[0].applied
    if additive is not None:
        results["left_out_log_loss"] = left_out_log_loss(additive, chosen)
    plain = label.isalpha() and label.lower() not in (*YES, *NO)
    word = label if plain else POSITIVES
    which, quality = _quality(held_out, summaries, results, word, compared)
    named = f"P({label if plain else predicted})"
    sections = predictions_section(summaries, (named, "prediction"), settings, word)
    sections += which
    sections += _effects(additive, summaries, results, predicted, not alone)
    sections += [*quality, *_worst(summaries, results, named, label, settings)]
    sections += choice_sections(posterior, additive, chosen, results)
    if not alone and (main > 1 or additive is None):
        shown = np.where(responsible >= MAIN * rows, responsible, 0.0)
        adds, drawn = additive is not None, chains is not None
        sections.append(expert_section(posterior, summaries, shown, adds, drawn))
    sections += chain_sections(chains, results)
    curves = [one for s in summaries for one in s.effects]
    pairs = [one for s in summaries for one in s.pairs]
    order = [int(e) for e in np.argsort(-responsible)[: min(main, MOST_EXPERTS)]]
    top: list[dict[str, Any]] = [
        {"column": name, "effect_sd": spread} for name, spread in ranked(curves, pairs)[:10]
    ] or [
        {"expert": e + 1, "rows": int(responsible[e]),
         "largest_weights": ", ".join(
             f"{columns[d]} {one.mean[1, e, d]:+.2f}" for d in largest_weights(one, e)[:5]
         )}
        for e in order
    ]  # fmt: skip
    counted, counts = count_predictions(
        summaries, f"are probably {label}" if plain else f"probably have {predicted}", named
    )
    encoding = encoding_of(summaries)
    if encoding is not None and encoding.repeated and not applied:
        results["one_label_per"] = encoding.repeated
    headline = _headline(results, predicted, word, summaries)
    other = isinstance(posterior, AdditivePosterior) and posterior.own_weight < 1.0 - NOTHING
    if additive is not None and additive.form == "intercept" and alone and not other:
        headline += " No column predicts it: every row gets the share of the label."
    if encoding is not None:
        results.update(labels=list(encoding.labels), left_out=sorted(encoding.left_out))
    scored = [p.beyond for s in summaries if (p := s.predictions) and p.beyond]
    warnings = (*better, *beyond_ranges(scored, BEYOND))
    if not applied:
        warnings += (*_too_good(results, top),)
        if chains is not None and chains.largest_r_hat > MOST_R_HAT:
            warnings += (DISAGREE.format(chains.largest_r_hat),)
    return Findings(
        headline, sections, results, warnings, top,
        [*tiles_of(results, applied), *counts["auroc" in results :]],
        steps_after_score(*rows_to_look_at(summaries))
        if applied
        else next_steps(f"probability_{label}", results.get("test_rows", 0)),
        predicted=counted,
        limits=IN_RANGE * applied,
        with_fit=with_tested if applied else None,
        used={"positive": label} | ({"tau": tau_in_words(additive, chosen)} if additive else {}),
    )  # fmt: skip


def _headline(
    results: dict[str, Any], label: str, name: str, summaries: Sequence[ExpertSummary]
) -> str:
    """State how good the predictions are, and against what; ``name`` is that of the positives."""
    if "log_loss" not in results:
        rows = sum(s.rows for s in summaries)
        return f"{label} in {rows:,} rows; no row was held out to say how well it is predicted."
    yes, n = results["test_positives"], results["test_rows"]
    on = f"{n:,} {tested_rows(summaries[0].applied)}"
    if "thresholds" not in results:
        said = f"{label}: log loss {results['log_loss']:.3f} on {on} ({yes:,} of them {name})"
        return with_rivals(said, results)
    called = f"{name} ({label})" if name == POSITIVES else name
    said = f"Of {on} {misses_in_words(results['thresholds'], called)}"
    if n < TOO_FEW:
        said += f". {n:,} are too few to check the probabilities"
    return with_rivals(said, results)


def baseline_sections(
    summaries: Sequence[Any], results: dict[str, Any]
) -> tuple[list[Grid], tuple[str, ...]]:
    """Compare the fit with other models on the same rows; warn of a better one."""
    sections, better = shown([one for s in summaries for one in s.baselines], results, "rows")
    if not sections:
        return [], better
    results["baseline_seconds"] = round(sum(s.baseline_seconds for s in summaries), 3)
    (found,) = sections[0].grids
    return [replace(found, caption=sections[0].text)], better


def _too_good(results: Mapping[str, Any], top: Sequence[Mapping[str, Any]]) -> list[str]:
    """Ask whether a column gives the label away, where predictions are nearly perfect."""
    positives = results.get("test_positives", 0)
    fewer = min(positives, results.get("test_rows", 0) - positives)
    if results.get("auroc", 0.0) < GOOD or fewer < LEAST or not top or "column" not in top[0]:
        return []
    if results.get("one_label_per") is not None:
        return []
    squares = [one["effect_sd"] ** 2 for one in top]
    if results["auroc"] < PERFECT and squares[0] < NEARLY_ALL * sum(squares):
        return []
    column = top[0]["column"]
    return [
        f"An AUROC of {results['auroc']:.3f} is rarely real, and {column} has the largest effect. "
        f"Is {column} known before the label is? Else these figures do not hold for new rows."
    ]


def _quality(
    held_out: FloatArray, summaries: Sequence[ExpertSummary], results: dict[str, Any], label: str,
    compared: list[Grid],
) -> tuple[list[Section], list[Section]]:  # fmt: skip
    """Return which threshold to take, and how good the predictions are."""
    n, which = held_out[0], list[Section]()
    if not n:
        return which, []
    encoding = encoding_of(summaries)
    effect = 1.0 if encoding is None else encoding.design_effect
    results.update(
        test_rows=int(n), accuracy=float(held_out[1] / n),
        accuracy_interval=share_interval(held_out[1] / effect, n / effect),
        **log_loss_of(n, held_out[2], held_out[3], effect),
    )  # fmt: skip
    scores = sum((s.scores for s in summaries), np.zeros_like(summaries[0].scores))
    results["test_positives"] = int(scores[1].sum())
    counts, predicted, found = sum((s.calibration for s in summaries), np.zeros((3, BINS)))
    area_said = ""
    if scores.sum(1).all():
        called = tested_rows(summaries[0].applied)
        tables, results["thresholds"] = threshold_tables(scores, label, called)
        which = [Section("Which threshold to take", grids=tables, measures=True)]
        results["auroc"] = area(scores)
        no, yes = (int(one) for one in scores.sum(1))
        ends = auroc_interval(results["auroc"], yes / effect, no / effect)
        results["auroc_interval"] = list(ends)
        area_said = f"{results['auroc']:.3f}"
        share = float(scores[1].sum() / n)
        results["share_log_loss"] = -share * log(share) - (1.0 - share) * log1p(-share)
    own = ("this model", area_said, f"{results['log_loss']:.3f}", "")
    models = tuple(with_model(grid, own) for grid in compared)
    text = of_tested_rows(n, summaries[0].applied)
    fitted, positives = sum((s.fitted for s in summaries), np.zeros(2))
    if fitted:
        text += (
            f" Of these {100.0 * results['test_positives'] / n:.0f} % are {label}, of the "
            f"fitted rows {100.0 * positives / fitted:.0f} %."
        )
        results["fitted_share"] = float(positives / fitted)
    text += few_rows(n)
    title = f"Calibration on {tested_rows(summaries[0].applied)}"
    picture = () if n < TOO_FEW else (calibration(counts, predicted, found, title),)
    return which, [Section("How good it is", text, picture, models, measures=True)]


def _worst(
    summaries: Sequence[ExpertSummary], results: dict[str, Any], named: str, label: str,
    settings: ExpertSettings,
) -> list[Section]:  # fmt: skip
    """List the tested rows whose label had the smallest probability."""
    n = results.get("test_rows", 0)
    wrong = n - round(n * results.get("accuracy", 0.0))
    rows = sorted((one for s in summaries for one in s.worst), key=lambda one: one[0])
    if not (rows := rows[: min(max(wrong, FEWEST), WORST)]):
        return []
    name, own = (settings.columns.get(one, one) for one in ("id", "label"))
    grid = with_content((name, named, own, REASONS), [row for _, row in rows])
    of = tested_rows(summaries[0].applied)
    how = HOW.format(label=label) if REASONS in grid.columns else ""
    text = (
        f"{wrong:,} of {n:,} {of} are on the wrong side of 0.5. "
        f"The {len(rows)} whose own label had the smallest probability:"
    )
    title = f"{of[0].upper()}{of[1:]} predicted worst"
    return [Section(title, text, (), (grid,), how=how, measures=True)]


def log_loss_of(n: float, total: float, square: float, effect: float = 1.0) -> dict[str, Any]:
    """Return the mean log loss of ``n`` rows with its 95 % interval, from sums, as results.

    Equal losses, and one alone, say nothing of how they vary: they have no interval. ``effect`` is
    how many rows say as much as one.
    """
    mean = float(total / n)
    variance = float(square) / n - mean**2
    if n < 2 or variance <= 1e-12 * mean**2:
        return {"log_loss": mean}
    half = 1.96 * sqrt(effect * variance / n)
    return {"log_loss": mean, "log_loss_interval": [max(mean - half, 0.0), mean + half]}


def few_rows(n: float) -> str:
    """Say so where rows are too few to see calibration."""
    if n < TOO_FEW:
        return f" {n:,.0f} {'row is' if n == 1 else 'rows are'} too few to see calibration."
    return " On so few, calibration is rough: a bin has a handful of rows." if n < FEW else ""


def calibration(counts: FloatArray, p: FloatArray, found: FloatArray, title: str) -> plots.Spec:
    """Plot shares that were found against probabilities, from sums of both by bin [K]."""
    some = counts > 0
    at, share = p[some] / counts[some], found[some] / counts[some]
    return plots.calibration(at.tolist(), share.tolist(), counts[some].tolist(), title)


def _effects(
    additive: Additive | None, summaries: Sequence[ExpertSummary], results: dict[str, Any],
    label: str, mixture: bool,
) -> list[Section]:  # fmt: skip
    if additive is None:
        return []
    effects = [one for s in summaries for one in s.effects]
    results["effects"] = {one.column: one.spread for one in effects}
    pairs = [one for s in summaries for one in s.pairs]
    text = effects_text(f"log odds of {label}")
    text += " The mixture of experts, which the reasons of rows include, is left out." * mixture
    groups = [one for s in summaries for one in s.groups]
    sections = effect_sections(effects, label, "added log odds", text, mixture, groups)
    if (weight := additive.pairs_weight) == 0.0:
        return sections
    results["pairs"] = {"weight": weight, "gain": additive.pairs_gain}
    more = (
        f" Curves with pairs have a weight of {100.0 * weight:.0f} % in the predictions and "
        f"make the log loss in cross-validation {additive.pairs_gain:.4f} smaller."
    )
    return sections + pair_sections(pairs, f"the log odds of {label}", more)


def encoding_of(summaries: Sequence[ExpertSummary]) -> Encoding | None:
    """Return what became of the columns."""
    return next((s.encoding for s in summaries if s.encoding is not None), None)


def positive_of(summaries: Sequence[ExpertSummary]) -> str:
    """Return the label that the probability is of."""
    found = encoding_of(summaries)
    return "1" if found is None else found.labels[-1]
