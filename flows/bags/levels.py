"""What the report says of labels that are levels in an order: predicted and true levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from flows.bags.numbers import NumberSummary
from flows.report.baselines import log_loss_tile, mean_error
from flows.report.labels import LEVEL
from flows.report.page import Findings, Grid, Section, Tile
from vbmodels.core.state import FloatArray, IntArray


def with_levels(found: Findings, summaries: Sequence[NumberSummary], order: Sequence[str],
                which: str, tested: np.ndarray, group: IntArray) -> Findings:  # fmt: skip
    """Return findings of the levels' numbers that begin with the predicted levels.

    Parameters
    ----------
    found, summaries, order
        Findings of the numbers 1 to k, the partitions' summaries, the levels from the lowest.
    which, tested, group
        On which bags; the bags whose level the fit did not see, [B]; their groups, [B].
    """
    chance = np.concatenate([s.chances for s in summaries])
    label = np.concatenate([s.label for s in summaries])
    predicted = chance.argmax(axis=1)
    counts = np.bincount(predicted, minlength=len(order)).tolist()
    said = ", ".join(f"{number:,} {name}" for name, number in zip(order, counts, strict=True))
    lines = [f"Predicted levels of {len(label):,} bags: {said}."]
    found = replace(found, predicted=lines[0][:-1])
    how = (
        f"The levels {', '.join(order)} are fitted as the numbers 1 to {len(order)}; the "
        "probability of a level is that of the numbers nearer to it than to another, and the "
        "predicted level is the most probable one. Steps between neighbours count alike."
    )
    if np.count_nonzero(tested) < 2:
        short = Section("In short", "\n".join([*lines, how]), measures=True)
        return replace(found, headline=lines[0][:-1], sections=[short, *found.sections[1:]])
    true, own = label[tested].astype(np.int64) - 1, predicted[tested]
    table = np.zeros((len(order), len(order)), np.int64)
    np.add.at(table, (true, own), 1)
    shares = table.sum(axis=1) / len(true)
    common = int(shares.argmax())
    results = dict(found.results)
    right, near = float(np.mean(true == own)), float(np.mean(np.abs(true - own) <= 1))
    losses = [
        _losses(p[np.arange(len(true)), true])
        for p in (chance[tested], shares[None].repeat(len(true), 0))
    ]
    gain = losses[1] - losses[0]
    better = bool(gain.mean() > 1.96 * mean_error(gain, group[tested]))
    results.update(
        accuracy=right, within_one=near, base_accuracy=float(shares[common]),
        log_loss=float(losses[0].mean()), log_loss_se=mean_error(losses[0], group[tested]),
        base_log_loss=float(losses[1].mean()),
        beats_base_rate=better, levels=list(order),
    )  # fmt: skip
    headline = (
        f"The level of {right:.0%} of the bags is predicted right ({order[common]} for all: "
        f"{shares[common]:.0%}), {near:.0%} to within one level, {which}; log loss "
        f"{results['log_loss']:.3f} (levels' shares {results['base_log_loss']:.3f})"
    )
    if not better:
        headline = f"No better than the levels' shares: {headline[0].lower()}{headline[1:]}"
    rows = [(name, *table[j].tolist()) for j, name in enumerate(order)]
    grid = Grid(("true level", *(f"predicted {name}" for name in order)), rows)
    text = f"The diagonal is right. {how}"
    section = Section("Predicted and true levels", text, (), (grid,), measures=True)
    more = found.sections[0].text.split("\n")[1:]
    short = Section("In short", "\n".join([*lines, *more]), measures=True)
    tiles = [
        Tile(LEVEL, f"{right:.0%}", f"{shares[common]:.0%} for {order[common]} alone"),
        Tile("within one level", f"{near:.0%}", f"{len(true):,} bags"),
        *log_loss_tile(results, "base_log_loss", ""),
        *(tile for tile in found.tiles if tile.label not in ("R2", "RMSE")),
    ]
    return replace(
        found, headline=headline, results=results, tiles=tiles,
        sections=[short, section, *found.sections[1:]],
    )  # fmt: skip


def _losses(p: FloatArray) -> FloatArray:
    losses: FloatArray = -np.log(np.maximum(p, 1e-15))
    return losses
