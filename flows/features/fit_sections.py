"""How the fit of the features went: which start was chosen, how chains agreed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from flows.features.filling_section import filling_section
from flows.features.models import merged_chains
from flows.features.settings import FeatureSettings
from flows.report.page import Grid, Section
from vbmodels.features.candidates import SAME
from vbmodels.features.completion.searched import CompletedGlobal
from vbmodels.features.gibbs import GibbsIBP
from vbmodels.features.polish import Polished
from vbmodels.features.published.laplace_chain import LaplaceIBP
from vbmodels.features.restarts import Restarts, StartsGlobal
from vbmodels.features.search_state import (
    BIRTH,
    DELETE,
    RARE,
    REFIT,
    RELABEL,
    SWAP,
    SearchGlobal,
)

_GOOD_R_HAT = 1.1


def fit_section(
    model: Any, q: Any, results: dict[str, Any], settings: FeatureSettings
) -> tuple[list[Section], list[str]]:
    """Return the section on the fit and its warnings; numbers go to ``results``."""
    if isinstance(model, GibbsIBP):
        section, told = _chains(model, q, results, settings)
        return [section], told
    if isinstance(model, LaplaceIBP):
        return [], [
            "Features are those of the last draw of the collapsed sampler's one chain; their "
            f"probabilities are shares of its {model.draws} draws after {model.warmup}. The trace "
            "is log p(data, features), then the bound at these features."
        ]
    if isinstance(q, CompletedGlobal):
        cells, told = filling_section(model, q, results)
        return [*cells, _search(q.search, results)], told
    if isinstance(q, SearchGlobal):
        return [_search(q, results)], []
    if isinstance(q, StartsGlobal) and len(q.bounds) > 1:
        return [_starts(model, q, results)], []
    return [], []


def _starts(model: Restarts, q: StartsGlobal, results: dict[str, Any]) -> Section:
    chosen = int(q.chosen) if q.chosen >= 0 else int(np.argmax(q.bounds))
    kinds = [_kind(one) for one in model.models]
    measured = bool(np.isfinite(q.yardstick).all())
    results["starts"] = {
        "kinds": kinds,
        "bounds": q.bounds.tolist(),
        "yardstick": q.yardstick.tolist() if measured else None,
        "error": q.error.tolist() if measured else None,
        "chosen": chosen + 1,
    }
    best = float(q.yardstick[chosen])
    rows = [
        (
            i + 1,
            kinds[i],
            f"{q.yardstick[i]:,.1f} ± {q.error[i]:.1f}" if measured else "",
            f"{q.yardstick[i] - best:,.1f}" if measured else "",
            f"{q.bounds[i]:,.1f}",
            "chosen" if i == chosen else "stopped",
        )
        for i in np.argsort(-(q.yardstick if measured else q.bounds), kind="stable").tolist()
    ]
    columns = ("start", "kind", "yardstick (nats)", "behind", "own bound", "")
    return Section(
        "Starts",
        "Bounds of different kinds do not compare. The yardstick is the true bound by Monte "
        "Carlo, with its error, when the starts were last looked at; the start with the highest "
        "went on alone. Own bounds are those of the last sweep that the start made.",
        (),
        (Grid(columns, rows),),
    )


def _search(q: SearchGlobal, results: dict[str, Any]) -> Section:
    history = q.history
    moves: list[dict[str, Any]] = [
        {"move": str(stage), "before": int(size[0]), "after": int(size[1]), "gain": float(gain)}
        for stage, size, gain in zip(history.stages, history.sizes, history.gains, strict=True)
    ]
    results["search"] = {
        "starts": q.starts.tolist(),
        "slots": q.slots,
        "rounds": q.round,
        "passes": q.sweep,
        "sampled": bool(q.widened),
        "judged": history.tried,
        "moves": moves,
    }
    rows = [(_MOVES[m["move"]], m["before"], m["after"], f"{m['gain']:,.1f}") for m in moves]
    return Section(
        "Search",
        f"The best of {len(q.starts)} starts was improved by moves in {q.round} rounds: of "
        f"{history.tried} proposals judged by the yardstick, the true bound by Monte Carlo, "
        f"{len(moves)} were accepted. The whole fit took {q.sweep + 1} passes over the rows."
        + (_SAMPLED if q.widened else "")
        + (_RESIDUALS if q.probes else ""),
        (),
        (Grid(("move", "features before", "after", "yardstick rose by (nats)"), rows),)
        if rows
        else (),
    )


_SAMPLED = (
    " A sample of them, about `search_rows`, was searched; then all rows were fitted to what it "
    "showed, and moves were tried on all of them once more."
)
_RESIDUALS = " What all rows left unexplained was looked at for features that few of them have."
_MOVES = {
    DELETE: "deleted",
    REFIT: "rows drawn anew by a chain from the fit",
    RELABEL: "a pair divided anew",
    BIRTH: "taken from another start",
    SWAP: "replaced by one of another start",
    RARE: "born of what rows left unexplained",
}


def _kind(model: Any) -> str:
    if isinstance(model, Polished):
        return "text's bound, polished"
    return "annealed Polya-Gamma" if model.anneal else "plain Polya-Gamma"


def _chains(
    model: GibbsIBP, q: Any, results: dict[str, Any], settings: FeatureSettings
) -> tuple[Section, list[str]]:
    found = merged_chains(model, q, settings)
    kept, used = len(found.chosen.index), found.used.tolist()
    results["merging"] = {
        "chains": model.chains,
        "features_of_chains": used,
        "different_features": found.member.shape[1],
        "features": kept,
        "found_by": found.found_by.tolist(),
    }
    warnings: list[str] = []
    rows: list[tuple[Any, ...]] = []
    if model.chains > 1 and q.iteration > model.warmup + 3:
        names, seen = model.diagnose(q)
        results["diagnostics"] = {
            name: {key: float(value[i]) for key, value in asdict(seen).items()}
            for i, name in enumerate(names)
        }
        rows = [
            (name.replace("_", " "), float(seen.mean[i]), float(seen.sd[i]), float(seen.r_hat[i]),
             float(seen.ess_bulk[i]))
            for i, name in enumerate(names)
        ]  # fmt: skip
        if seen.largest_r_hat > _GOOD_R_HAT:
            warnings.append(
                f"The chains do not agree (largest R-hat {seen.largest_r_hat:.2f}): raise warmup "
                "and draws; averaged predictions still gain from several chains."
            )
    grid = Grid(
        ("quantity", "mean", "sd", "R-hat", "effective draws"),
        rows,
        "Means over the draws that count, of all chains.",
    )
    if 2 * kept < min(used):
        warnings.append(
            f"Of the {min(used)} features or more that each chain holds {kept} "
            f"{'is' if kept == 1 else 'are'} found by most chains and reported: raise warmup and "
            "draws, or take inference=variational for features and this one for missing cells."
        )
    text = _merging(used, found.member.shape[1], kept)
    return Section("Chains", text, (), (grid,) if rows else ()), warnings


def _merging(used: list[int], different: int, kept: int) -> str:
    """Say what became of the chains' features."""
    if len(used) == 1:
        return "One chain: no other tells which of its features are there for good. Take chains=3."
    listed = " and ".join([", ".join(map(str, used[:-1])), str(used[-1])])
    return (
        f"The {len(used)} chains hold {listed} features. Matched by the rows that have them "
        f"(correlation above {SAME:g}) they come to {different} different ones, of which {kept} "
        f"{'is' if kept == 1 else 'are'} in more than half of the chains. These are reported: "
        "their rows, and their weights, are averages over the chains that have them. "
        "Probabilities of missing cells, alpha and sigma2 average all chains."
    )
