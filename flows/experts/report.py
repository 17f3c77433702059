"""What the experts report says: the experts, who is responsible, and how good it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log, log1p
from typing import Any

import numpy as np

from flows.data.mixed import CATEGORY
from flows.data.names import listed
from flows.experts.effect_report import (
    LOG_ODDS,
    MOST_EFFECTS,
    MOST_PAIRS,
    effect_charts,
    moved_by,
    pair_charts,
    pairs_of,
    ranked,
    strength_charts,
    strongest,
)
from flows.experts.encoding import Encoding
from flows.experts.settings import ExpertSettings
from flows.experts.summary import BINS, ExpertSummary
from flows.experts.thresholds import area, area_interval, roc, threshold_table
from flows.experts.tiles import NEXT_STEPS, tiles_of
from flows.report import plots
from flows.report.baselines import shown
from flows.report.page import Findings, Grid, Section
from vbmodels.core.chains import Diagnosis
from vbmodels.core.state import FloatArray
from vbmodels.experts.additive.posterior import AdditivePosterior
from vbmodels.experts.additive.prior_choice import Choice
from vbmodels.experts.additive.states import Additive
from vbmodels.experts.bmem.metropolis import QUANTITIES
from vbmodels.experts.bmem.normals import angles
from vbmodels.experts.columns import Encoded
from vbmodels.experts.forms import AnyPosterior
from vbmodels.experts.posterior import Component

ADDITIVE = "the additive part alone"
"""The baseline without experts."""
UNSURE = 0.1
"""Standard deviation of an expert's mean share from which on shares are hardly determined."""
_NOTHING = 1e-9  # a member's weight below which it has none
FEW = 200
"""Held-out rows below which calibration is rough."""
MAIN = 0.01
"""Share of the rows from which on an expert is counted in the headline."""
MOST_R_HAT = 1.05
MOST_WEIGHTS = 12  # of an expert, shown
MOST_EXPERTS = 10
TOP = 10  # weights whose overlap between experts is counted; of few columns, half


def report(
    posterior: AnyPosterior,
    chosen: Choice | None,
    summaries: Sequence[ExpertSummary],
    settings: ExpertSettings,
    chains: Diagnosis | None = None,
    additive: Additive | None = None,
) -> Findings:
    """Say what was found in all partitions.

    ``chains`` is a sampler's diagnosis, ``additive`` what an additive form was chosen by.
    """
    one = posterior.components[0]
    k = one.mean.shape[1]
    columns = summaries[0].columns
    rows = sum(s.rows for s in summaries)
    responsible = sum((s.responsible for s in summaries), np.zeros(k))
    held_out = sum((s.held_out for s in summaries), np.zeros(7))
    main = int(np.sum(responsible >= MAIN * rows))
    results: dict[str, Any] = {"n_experts": k, "used_experts": main}
    compared, better = baseline_sections(summaries, results)
    label = positive_of(summaries)
    sections = _effects(additive, summaries, results, label)
    sections += _pairs(additive, summaries, results)
    sections += _interaction(additive, results)
    sections += [*_quality(held_out, summaries, results, label), *compared]
    sections += _choice(chosen, results)
    share = sum((s.share for s in summaries), np.zeros(k))
    alone = isinstance(posterior, AdditivePosterior) and (
        not posterior.mixtures or posterior.own_weight < _NOTHING
    )
    if not alone:
        drawn = sum((s.drawn for s in summaries), np.zeros_like(summaries[0].drawn))
        tried = [one.mean.shape[1] for one in posterior.components]
        sections.append(_who(responsible, share, drawn, rows, tried))
        shown = np.where(responsible >= MAIN * rows, responsible, 0.0)
        sections += _weights(one, columns, shown, chains is not None, additive is not None)
        sections += _angles(one, shown, results)
    sections += _chains(chains, results)
    effects = [one for s in summaries for one in s.effects]
    pairs = [one for s in summaries for one in s.pairs]
    order = [e for e in np.argsort(-responsible)[:MOST_EXPERTS] if responsible[e] >= MAIN * rows]
    top: list[dict[str, Any]] = [
        {"effect": name, "sd in log odds": spread} for name, spread in ranked(effects, pairs)[:10]
    ] or [
        {
            "expert": int(e) + 1,
            "rows": int(responsible[e]),
            "largest weights": ", ".join(
                f"{columns[d]} {one.mean[1, e, d]:+.2f}" for d in _largest(one, e)[:5]
            ),
        }
        for e in order
    ]
    made_of = f"{main} expert{'s' if main > 1 else ''}"
    if isinstance(posterior, AdditivePosterior) and additive is not None:
        made_of = _members(posterior, additive, main)
        if not alone and _unclear(results.get("baselines", {}).get(ADDITIVE)):
            made_of += f"; the experts are not clearly better than {ADDITIVE}"
    elif k == 1:
        made_of = "logistic regression"
    elif main == 1:
        made_of = f"{_most(responsible, rows)}: in effect a logistic regression"
    headline = _headline(results, label, rows, made_of)
    headline = f"{headline}. {moved_by(effects, pairs)}".rstrip()
    sections += table_sections([s.encoding for s in summaries], results)
    warnings = better + _warnings(chosen, settings, chains, additive)
    if k > 1 and main == 1 and not alone and not summaries[0].applied:
        own = "logistic regression" if additive is None else ADDITIVE
        warnings += (
            f"{_most(responsible, rows)}: the mixture adds little. n_experts=1 fits {own}.",
        )
    return Findings(
        headline, sections, results, warnings, top, tiles_of(results), NEXT_STEPS
    )  # fmt: skip


def _most(responsible: FloatArray, rows: int) -> str:
    return f"One expert has the largest share of {int(responsible.max()):,} of {rows:,} rows"


def _unclear(baseline: Any) -> bool:
    """Return whether the interval of the difference to a baseline, if it is known, holds 0."""
    return baseline is not None and baseline["interval"][0] <= 0.0 <= baseline["interval"][1]


_FORMS = {
    "intercept": "the share of the label alone",
    "lines": "logistic regression",
    "curves": "a curve for each column",
}


def _members(posterior: AdditivePosterior, additive: Additive, main: int) -> str:
    """Name what predicts, the largest share first; experts are those of `MAIN` of the rows."""
    own = _FORMS[additive.form]
    if posterior.mixtures:
        own += f" and {main} experts" if main > 1 else " and a mixture of experts"
    members = [(posterior.own_weight, own)]
    if posterior.pairs is not None and posterior.pairs.terms is not None:
        name = f"curves with {pairs_of(len(posterior.pairs.terms.pairs))}"
        members.append((posterior.pairs_weight, name))
    if posterior.process is not None:
        members.append((posterior.weight, "a Gaussian process of all columns"))
    kept = sorted((m for m in members if m[0] > _NOTHING), key=lambda m: -m[0])
    if len(kept) > 1:
        return listed([f"{name} ({100.0 * weight:.0f} %)" for weight, name in kept])
    if additive.form == "intercept" and not posterior.mixtures and kept[0][1] == own:
        return "no column predicts it: every row gets the share of the label"
    return kept[0][1]


def _headline(results: dict[str, Any], label: str, rows: int, made_of: str) -> str:
    """State how good the predictions are, against what, and what they are made of."""
    if "log_loss" not in results:
        return f"Label {label} on {rows:,} rows, by {made_of}; no row was held out to say how well"
    said = f"log loss {results['log_loss']:.4f}"
    if "auroc" in results:
        low, high = results["auroc_interval"]
        said = f"AUROC {results['auroc']:.3f} ({low:.3f} to {high:.3f}), {said}"
    said = (
        f"{said[0].upper()}{said[1:]} for label {label} on {results['test_rows']:,} held-out rows"
    )
    return f"{said}{log_losses(results)}; {made_of}"


def log_losses(results: dict[str, Any]) -> str:
    """Return the log losses of baselines in brackets; nothing where there are none."""
    compared = results.get("baselines", {})
    shown = ("logistic regression", "multinomial logistic regression", "boosted trees")
    others = []
    if "share_log_loss" in results:
        others.append(f"by shares alone {results['share_log_loss']:.4f}")
    others += [f"{name} {compared[name]['log_loss']:.4f}" for name in shown if name in compared]
    return f" ({', '.join(others)})" if others else ""


def baseline_sections(
    summaries: Sequence[Any], results: dict[str, Any]
) -> tuple[list[Section], tuple[str, ...]]:
    """Compare the fit with simple baselines, and say what these took."""
    sections, better = shown([one for s in summaries for one in s.baselines], results, "rows")
    if sections:
        seconds = sum(s.baseline_seconds for s in summaries)
        results["baseline_seconds"] = round(seconds, 3)
        said = f"{sections[0].text} They took {seconds:.2g} s; baselines=false goes without."
        sections = [replace(sections[0], text=said), *sections[1:]]
    return sections, better


def _warnings(
    chosen: Choice | None,
    settings: ExpertSettings,
    chains: Diagnosis | None,
    additive: Additive | None,
) -> tuple[str, ...]:
    if chains is not None:
        worst = chains.largest_r_hat
        if worst <= MOST_R_HAT:
            return ()
        return (
            f"The chains do not agree (largest R-hat {worst:.2f}, expected at most {MOST_R_HAT}): "
            "raise warmup and draws, or take fewer columns.",
        )
    if chosen is None or chosen.candidates[chosen.best].n_experts > 1 or settings.n_experts == 1:
        return ()
    if additive is not None:
        return (
            "On held-out rows no mixture was better than the additive part by more than one "
            "standard error, so there is none.",
        )
    return (
        "On held-out rows no mixture was better than logistic regression by more than one "
        "standard error, so logistic regression was fitted (one expert).",
    )


def _quality(
    held_out: FloatArray, summaries: Sequence[ExpertSummary], results: dict[str, Any], label: str
) -> list[Section]:
    n = held_out[0]
    if not n:
        return []
    results.update(
        test_rows=int(n), accuracy=float(held_out[1] / n), log_loss=float(held_out[2] / n)
    )
    rows: list[tuple[Any, ...]] = [("this fit", f"{held_out[1] / n:.3f}", f"{held_out[2] / n:.4f}")]
    names = ["model", "accuracy", "log loss"]
    alone = len(summaries[0].responsible) == 1
    comparison = "The model is logistic regression itself." if alone else ""
    if any(s.has_baseline for s in summaries):
        names.append("difference")
        comparison = (
            "The difference is the log loss of logistic regression minus that of the fit, by row, "
            "with its standard error: above 0 the fit is better."
        )
        rows = [(*rows[0], "")]
        gap = held_out[5] / n
        error = float(np.sqrt(max(held_out[6] / n - gap**2, 0.0) / n))
        results.update(logistic_log_loss=float(held_out[4] / n), gain=-float(gap), gain_se=error)
        rows.append(
            (
                "logistic regression",
                f"{held_out[3] / n:.3f}",
                f"{held_out[4] / n:.4f}",
                f"{-gap:+.4f} ± {error:.4f}",
            )
        )
    counts, predicted, found = sum((s.calibration for s in summaries), np.zeros((3, BINS)))
    bins = [
        (f"{i / BINS:.1f} to {(i + 1) / BINS:.1f}", int(c), f"{p / c:.3f}", f"{f / c:.3f}")
        for i, (c, p, f) in enumerate(zip(counts, predicted, found, strict=True))
        if c
    ]
    scores = sum((s.scores for s in summaries), np.zeros_like(summaries[0].scores))
    curve: tuple[plots.Spec, ...] = ()
    tables: tuple[Grid, ...] = ()
    if scores.sum(1).all():
        table, results["thresholds"] = threshold_table(scores, label)
        results["auroc"], results["auroc_interval"] = area(scores), area_interval(scores)
        share = float(scores[1].sum() / n)
        results["share_log_loss"] = -share * log(share) - (1.0 - share) * log1p(-share)
        curve, tables = (roc(scores),), (table,)
    return [
        Section(
            "How good it is",
            f"On {n:,.0f} labelled rows held out of the fit. {comparison}{few_rows(n)}".rstrip(),
            (_calibration(counts, predicted, found), *curve),
            (
                Grid(tuple(names), rows),
                *tables,
                Grid(
                    ("probability", "rows", "mean probability", f"share of label {label}"),
                    bins,
                    "Calibration: the last two columns should agree.",
                ),
            ),
        )
    ]


def few_rows(n: float) -> str:
    """Say so where rows are too few to see calibration."""
    if n >= FEW:
        return ""
    return " On so few rows the calibration is rough: a bin has a handful of them."


def _calibration(counts: FloatArray, predicted: FloatArray, found: FloatArray) -> plots.Spec:
    some = counts > 0
    at, share = predicted[some] / counts[some], found[some] / counts[some]
    return plots.calibration(at.tolist(), share.tolist(), counts[some].tolist(), "Calibration")


def _effects(
    additive: Additive | None, summaries: Sequence[ExpertSummary], results: dict[str, Any],
    label: str,
) -> list[Section]:  # fmt: skip
    if additive is None:
        return []
    results["additive"] = {
        "form": additive.form, "gain": additive.gain, "gain_se": additive.error,
        "intercept_log_loss": -additive.intercept,
    }  # fmt: skip
    rows = [("the intercept alone", "", f"{-additive.intercept:.4f}")]
    rows += [
        ("lines (logistic regression)", f"{tau:g}", f"{-value:.4f}")
        for tau, value in zip(additive.taus, additive.left_out, strict=True)
    ]
    if additive.curves is not None:
        rows.append(("lines and curves", "of each block", f"{-additive.curves:.4f}"))
    effects = [one for s in summaries for one in s.effects]
    results["effects"] = {one.column: one.spread for one in effects}
    shown = f"The {MOST_EFFECTS} of {len(effects)} columns" if len(effects) > MOST_EFFECTS else (
        "The columns"
    )  # fmt: skip
    small = abs(additive.gain) < 2.0 * additive.error
    unclear = ", which is not distinguishable from 0" if small else ""
    text = (
        f"What each column adds to the log odds of the label {label}, less its mean over rows, "
        f"with 95 % bands. {shown} that move them most come first, all on one scale; ticks below "
        "a curve are quantiles of the column. "
        f"On rows left out curves predict better than lines by {additive.gain:.4f} ± "
        f"{additive.error:.4f} a row{unclear}; curves are used where that is above 0."
    )
    return [
        Section(
            "What each column says",
            text,
            tuple(
                strength_charts(effects, [one for s in summaries for one in s.pairs], LOG_ODDS)
                + effect_charts(effects[:MOST_EFFECTS], "added log odds")
            ),
            (Grid(("form", "tau", "log loss, each row left out"), rows),),
        )
    ]


def _pairs(
    additive: Additive | None, summaries: Sequence[ExpertSummary], results: dict[str, Any]
) -> list[Section]:
    if additive is None or additive.pairs_weight == 0.0:
        return []
    weight, gain = additive.pairs_weight, additive.pairs_gain
    results["pairs"] = {"weight": weight, "gain": gain}
    every = [one for s in summaries for one in s.pairs]
    pairs = every[:MOST_PAIRS]
    return [
        Section(
            "What pairs of columns say",
            f"Curves with {pairs_of(len(every))} have a weight of {weight:.2f} in the "
            f"probabilities: on held-out rows, which neither chose the pairs nor fitted them, "
            f"that gained {gain:.4f} a row. A cell is what the two columns add to the log odds "
            "beyond their curves, blue above 0 and orange below; the strongest colour is "
            f"{strongest(pairs):.2g}. The pairs that move most come first.",
            tuple(pair_charts(pairs)),
        )
    ]


def _interaction(additive: Additive | None, results: dict[str, Any]) -> list[Section]:
    if additive is None or not additive.process:
        return []
    weight, taus, left_out = additive.weight, *additive.process
    results["gaussian_process"] = {"weight": weight, "gain": additive.process_gain}
    said = (
        f"Its probabilities have a weight of {weight:.2f} in those of the table of rows, and the "
        f"rest {1.0 - weight:.2f}: on held-out rows "
        f"that gained {additive.process_gain:.4f} a row. gaussian_process=false goes without."
        if weight
        else "On held-out rows it added nothing to the rest, so it has no weight."
    )
    rows = [(f"{1.0 / t:g}", f"{-v:.4f}") for t, v in zip(taus, left_out, strict=True)]
    return [
        Section(
            "What columns say together",
            "A Gaussian process on the ranked columns can find what columns do together, which "
            f"separate curves cannot. {said}",
            (),
            (Grid(("variance", "log loss, each row left out"), rows),),
        )
    ]


def _choice(chosen: Choice | None, results: dict[str, Any]) -> list[Section]:
    if chosen is None:
        return []
    best = chosen.candidates[chosen.best]
    results["chosen"] = {"n_experts": best.n_experts, "tau": best.tau}
    order = np.argsort(-chosen.held_out)[:20]
    rows = [
        (c.n_experts, c.tau, f"{-chosen.held_out[i]:.4f}",
         "chosen" if i == chosen.best else "also fitted" if i in chosen.kept else "")
        for i, c in ((int(i), chosen.candidates[i]) for i in order)
    ]  # fmt: skip
    return [
        Section(
            "How the prior was chosen",
            "By the log loss of rows held out of a first fit, with one expert (the additive part "
            "alone) among the candidates. The best mixture's gain "
            f"over it was {chosen.gain:.4f} "
            f"± {chosen.error:.4f} a row; a mixture is taken if that is more than one standard "
            "error. The bound is looser with more experts, so it does not choose their number.",
            (),
            (Grid(("experts", "tau", "log loss", ""), rows),),
        )
    ]


def _who(
    responsible: FloatArray, share: FloatArray, drawn: FloatArray, rows: int, tried: Sequence[int]
) -> Section:
    order = np.argsort(-responsible)
    table = [(k + 1, int(responsible[k]), f"{share[k] / rows:.3f}") for k in order]
    more = ""
    if len(set(tried)) > 1:
        more = (
            f" Fits with {listed([str(n) for n in sorted(set(tried))])} experts are averaged; the "
            f"one shown here has {tried[0]}."
        )
    if drawn.std(0).max() >= UNSURE * rows:
        more += " The shares are hardly determined: do not interpret single experts."
    return Section(
        "Who is responsible",
        "How many rows each expert has the largest share of (given the label where there is one), "
        f"and its mean share.{more}",
        (),
        (Grid(("expert", "rows", "mean share"), table),),
    )


def _largest(one: Component, expert: int) -> list[int]:
    return [int(d) for d in np.argsort(-np.abs(one.mean[1, expert, :-1]))[:MOST_WEIGHTS]]


def _chains(chains: Diagnosis | None, results: dict[str, Any]) -> list[Section]:
    if chains is None:
        return []
    names = QUANTITIES if len(chains.mean) == len(QUANTITIES) else (QUANTITIES[0], QUANTITIES[2])
    results.update(
        largest_r_hat=chains.largest_r_hat,
        smallest_effective_draws=float(chains.ess_bulk.min()),
    )
    rows = [
        (name, float(chains.mean[i]), float(chains.sd[i]), f"{chains.r_hat[i]:.3f}",
         f"{chains.ess_bulk[i]:,.0f}", f"{chains.ess_tail[i]:,.0f}")
        for i, name in enumerate(names)
    ]  # fmt: skip
    return [
        Section(
            "How far the chains can be trusted",
            "Numbers that do not depend on the order of the experts. R-hat near 1 says that the "
            "chains agree; effective draws count what is independent, for means and for tails.",
            (),
            (Grid(("quantity", "mean", "sd", "R-hat", "effective draws", "in the tails"), rows),),
        )
    ]


def _weights(
    one: Component, columns: Sequence[str], responsible: FloatArray, drawn: bool, adds_to_part: bool
) -> list[Section]:
    pictures = []
    used = [k for k in np.argsort(-responsible) if responsible[k] > 0]
    for k in used[:MOST_EXPERTS]:
        chosen = _largest(one, int(k))
        title = f"Expert {k + 1} ({responsible[k]:,.0f} rows)"
        label = f"weight per sd of the column: expert {k + 1}"
        pictures.append(
            plots.intervals(
                [columns[d] for d in chosen],
                [float(one.mean[1, k, d]) for d in chosen],
                [float(one.sd[1, k, d]) for d in chosen],
                label,
                title,
            )
        )
    kind = (
        "of the draws, each brought to the experts of the densest one"
        if drawn
        else "of the variational posterior, which are somewhat too short"
    )
    adds = "They add to the additive part. " if adds_to_part else ""
    return [
        Section(
            "The experts",
            f"{adds}The largest weights with 95 % intervals {kind}; columns of 0 and 1 as they "
            "are. "
            "Experts of fewer than 1 % of the rows are in the table experts/ alone. Where several "
            "starts were averaged these are the experts of the best one.",
            tuple(pictures),
        )
    ]


def _angles(one: Component, responsible: FloatArray, results: dict[str, Any]) -> list[Section]:
    used = np.flatnonzero(responsible > 0)
    if len(used) < 2:
        return []
    vectors = one.mean[1][used][:, :-1]
    found = np.degrees(angles(vectors))
    most = min(TOP, max(1, vectors.shape[1] // 2))
    tops = [set(np.argsort(-np.abs(v))[:most].tolist()) for v in vectors]
    i, j = np.triu_indices(len(used), 1)
    overlap = [len(tops[a] & tops[b]) / len(tops[a] | tops[b]) for a, b in zip(i, j, strict=True)]
    results.update(mean_angle=float(found.mean()), mean_overlap=float(np.mean(overlap)))
    rows = [
        (f"{used[a] + 1} and {used[b] + 1}", f"{angle:.1f}", f"{o:.2f}")
        for angle, a, b, o in sorted(zip(found, i, j, overlap, strict=True))
    ]
    return [
        Section(
            "How different the experts are",
            f"The angle between every two experts' weights (mean {found.mean():.0f} degrees; 90 is "
            f"unrelated) and how far their {most} largest weights are the same columns (mean "
            f"{np.mean(overlap):.2f}). With many columns random directions are near 90 degrees.",
            (),
            (Grid(("experts", "angle (degrees)", "overlap of top weights"), rows[:45]),),
        )
    ]


MOST_COLUMNS = 200  # of the input, shown


def encoding_of(summaries: Sequence[ExpertSummary]) -> Encoding | None:
    """Return what became of the columns."""
    return next((s.encoding for s in summaries if s.encoding is not None), None)


def positive_of(summaries: Sequence[ExpertSummary]) -> str:
    """Return the label that the probability is of."""
    found = encoding_of(summaries)
    return "1" if found is None else found.labels[-1]


def table_sections(found: Sequence[Encoding | None], results: dict[str, Any]) -> list[Section]:
    """Describe how every column was read."""
    encoding = next((one for one in found if one is not None), None)
    if encoding is None:
        return []
    results["labels"] = list(encoding.labels)
    results["left_out"] = sorted(encoding.left_out)
    rows = [_row(one) for one in encoding.columns[:MOST_COLUMNS]]
    rows += [(name, kind, "left out", "", "") for name, kind in encoding.left_out.items()]
    more = len(encoding.columns) - MOST_COLUMNS
    text = "The label is a number. "
    if encoding.labels:
        text = f"The labels are {listed(encoding.labels)}"
        text += "; probabilities are of the latter. " if len(encoding.labels) == 2 else ". "
    text += (
        "Each level listed has a column of 0 and 1; levels of the reference, and levels that "
        "the fit never saw, have 0 in all of them. The same is in posterior/columns.json, by "
        "which new tables are read."
    )
    if more > 0:
        text += f" {more:,} more columns are not shown."
    names = ("column", "read as", "columns of the model", "reference", "missing cells")
    return [Section("How the table was read", text, (), (Grid(names, rows),))]


def _row(one: Encoded) -> tuple[Any, ...]:
    missing = f"{one.cells[-1]:,}" if one.cells else ""
    if one.missing:
        missing += ", with a column of their own"
    levels = [f"{text} ({n:,})" for text, n in zip(one.levels, one.cells, strict=False)]
    levels_said = listed(levels) if one.kind == CATEGORY else "1"
    return one.name, one.kind, levels_said, listed(one.reference), missing
