"""Logistic regression beside the inferences that fit none: the same rows, the same partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from flows.data import storage
from flows.data.runs import RunPaths
from flows.data.states import read_state
from flows.experts.design import read_batch
from flows.experts.settings import ExpertSettings
from flows.experts.summary import ExpertSummary, judge
from flows.family import Each
from vbmodels.core.fit import drive
from vbmodels.core.in_process import tree_sum
from vbmodels.core.state import FloatArray, to_bytes
from vbmodels.experts.posterior import Posterior
from vbmodels.experts.published.cavi import BoundedExperts

MOST_PASSES = 1000


def compared(
    summaries: Sequence[ExpertSummary], settings: ExpertSettings, paths: RunPaths,
    fitted: RunPaths | None, each: Each,
) -> list[ExpertSummary]:  # fmt: skip
    """Return the summaries with logistic regression judged on the same rows.

    It is fitted here, or it is that of the ``fitted`` run.
    """
    indices = list(range(len(summaries)))
    if fitted is None:
        baseline = _fit(indices, settings, paths, each)
        storage.write_bytes(_url(paths), to_bytes(baseline))
    elif storage.exists(_url(fitted)):
        baseline = read_state(_url(fitted), Posterior)
    else:
        return list(summaries)
    judged = each(_judged, indices, baseline, paths)
    return [
        replace(summary, judged=found, has_baseline=True)
        for summary, found in zip(summaries, judged, strict=True)
    ]


class _Passes:
    """Sums over partitions that are read in every pass."""

    most_sweeps: int | None = None

    def __init__(
        self, model: BoundedExperts, indices: list[int], paths: RunPaths, each: Each
    ) -> None:
        self.model, self.indices, self.paths, self.each = model, indices, paths, each

    def observe(self) -> Any:
        """Return the counts of all rows."""
        return tree_sum(self.each(_observed, self.indices, self.model, self.paths))

    def __call__(self, q: Any, *, number: int, warm: int | None) -> Any:
        """Return the sums of all rows at ``q``; one expert needs no local states."""
        return tree_sum(self.each(_sums, self.indices, self.model, q, self.paths))


def _fit(indices: list[int], settings: ExpertSettings, paths: RunPaths, each: Each) -> Posterior:
    model = BoundedExperts(1, tau=settings.tau or 1.0)
    done = drive(
        model,
        _Passes(model, indices, paths, each),
        seed=settings.seed,
        tol=settings.tol,
        max_iter=MOST_PASSES,
    )
    return model.posterior(done.q)


def _observed(index: int, model: BoundedExperts, paths: RunPaths) -> Any:
    return model.observe(read_batch(paths, index))


def _sums(index: int, model: BoundedExperts, q: Any, paths: RunPaths) -> Any:
    batch = read_batch(paths, index)
    return model.suff_stats(q, batch, model.local_step(q, batch, None))


def _judged(index: int, baseline: Posterior, paths: RunPaths) -> FloatArray:
    batch = read_batch(paths, index)
    table = storage.read_table(paths.table("rows", index), ["probability"])
    own = table["probability"].to_numpy()
    return judge(batch, own, baseline.predict(batch).probability)


def _url(paths: RunPaths) -> str:
    return storage.join(paths.root, "posterior", "rival.npz")
