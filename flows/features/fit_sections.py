"""How the fit of the features went: the search, and the filling of cells."""

from __future__ import annotations

from typing import Any

from flows.features.filling_section import filling_section
from flows.report.page import Grid, Section
from vbmodels.features.completion.searched import CompletedGlobal
from vbmodels.features.published.laplace_chain import LaplaceIBP
from vbmodels.features.search_state import (
    BIRTH,
    DELETE,
    RARE,
    REFIT,
    RELABEL,
    SWAP,
    SearchGlobal,
)


def fit_section(model: Any, q: Any, results: dict[str, Any]) -> tuple[list[Section], list[str]]:
    """Return the section on the fit and its warnings; numbers go to ``results``."""
    if isinstance(model, LaplaceIBP):
        return [], [
            "Features are those of the last draw of the collapsed sampler's one chain; their "
            f"probabilities are shares of its {model.draws} draws after {model.warmup}. The trace "
            "is log p(data, features), then the bound at these features."
        ]
    if isinstance(q, CompletedGlobal):
        cells, told = filling_section(model, q, results)
        return [*cells, _search(q.search, results)], told
    return [], []


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
