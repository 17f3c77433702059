"""Logistic regression beside the inferences that fit none: the same rows, the same partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from flows.data import storage
from flows.data.runs import RunPlace
from flows.data.states import read_state
from flows.experts.design import work_url
from flows.experts.settings import ExpertSettings
from flows.experts.summary import ExpertSummary, judge
from flows.family import Each
from vbmodels.core.fit import drive
from vbmodels.core.in_process import tree_sum
from vbmodels.core.state import FloatArray, to_bytes
from vbmodels.experts.batch import Rows
from vbmodels.experts.marginal import MarginalExperts
from vbmodels.experts.posterior import Posterior

MOST_PASSES = 1000


def compared(
    summaries: Sequence[ExpertSummary], settings: ExpertSettings, place: RunPlace,
    fitted: RunPlace | None, each: Each,
) -> list[ExpertSummary]:  # fmt: skip
    """Return the summaries with logistic regression judged on the same rows.

    It is fitted here, or it is that of the ``fitted`` run.
    """
    indices = list(range(len(summaries)))
    if fitted is None:
        rival = _fit(indices, settings, place, each)
        storage.write_bytes(_url(place), to_bytes(rival))
    elif storage.exists(_url(fitted)):
        rival = read_state(_url(fitted), Posterior)
    else:
        return list(summaries)
    judged = each(_judged, indices, rival, settings.predict, place)
    return [
        replace(summary, judged=found, has_rival=True)
        for summary, found in zip(summaries, judged, strict=True)
    ]


class _Passes:
    """Sums over partitions that are read anew in every pass."""

    def __init__(
        self, model: MarginalExperts, indices: list[int], place: RunPlace, each: Each
    ) -> None:
        self.model, self.indices, self.place, self.each = model, indices, place, each

    def observe(self) -> Any:
        """Return the counts of all rows."""
        return tree_sum(self.each(_observed, self.indices, self.model, self.place))

    def __call__(self, q: Any, *, number: int, warm: int | None) -> Any:
        """Return the sums of all rows at ``q``; the model has no local states."""
        return tree_sum(self.each(_sums, self.indices, self.model, q, self.place))


def _fit(indices: list[int], settings: ExpertSettings, place: RunPlace, each: Each) -> Posterior:
    model = MarginalExperts(1)
    done = drive(
        model,
        _Passes(model, indices, place, each),
        seed=settings.seed,
        tol=settings.tol,
        max_iter=MOST_PASSES,
    )
    return model.posterior(done.q)


def _observed(index: int, model: MarginalExperts, place: RunPlace) -> Any:
    return model.observe(_batch(work_url(place, "partitions", index, "npz")))


def _sums(index: int, model: MarginalExperts, q: Any, place: RunPlace) -> Any:
    return model.suff_stats(q, _batch(work_url(place, "partitions", index, "npz")), None)


def _judged(index: int, rival: Posterior, method: str, place: RunPlace) -> FloatArray:
    batch = _batch(work_url(place, "partitions", index, "npz"))
    table = storage.read_table(place.table("rows", index), ["probability"])
    own = table["probability"].to_numpy()
    return judge(batch, own, rival.predict(batch, method).probability)


def _batch(url: str) -> Rows:
    # Kept by version: a long-lived process may meet the same run again with other rows.
    return _batch_of(url, storage.fingerprint_of(url))


@lru_cache(maxsize=2)
def _batch_of(url: str, version: str) -> Rows:
    return read_state(url, Rows)


def _url(place: RunPlace) -> str:
    return storage.join(place.root, "posterior", "rival.npz")
