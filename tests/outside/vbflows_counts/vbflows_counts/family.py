"""The pipeline's own functions; partitions, workers, resume and the page are vbflows'."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flows import storage
from flows.family import Each, Family, Finished, Ingested, Prepared
from flows.one_table import ReadsOneTable
from flows.records.runs import Parameter, RunPaths
from flows.tables.partition import Part
from vbflows_counts.answer import Answer
from vbflows_counts.model import Counts, GroupedCounts
from vbflows_counts.schema import COUNTS_IN, RATES
from vbflows_counts.settings import CountSettings
from vbmodels.core.state import to_bytes


class CountsFamily(ReadsOneTable, Family):
    """The counts family; see `flows.family.Family`."""

    name = "counts"
    suffixes = (".parquet",)
    settings = CountSettings
    table = COUNTS_IN

    def ingest(self, part: Part, settings: CountSettings, paths: RunPaths) -> Ingested:
        """Keep a partition's rows, and its counts as arrays."""
        table, checked = self.read(part, settings)
        y = np.column_stack([table[name].to_numpy() for name in ("first", "second")])
        storage.write_table(_url(paths, part.index, "parquet"), table)
        storage.write_bytes(_url(paths, part.index, "npz"), to_bytes(Counts(y.astype(float))))
        return Ingested(part.rows, len(table), checked=checked)

    def prepare(
        self, parts: Sequence[Part], settings: CountSettings, paths: RunPaths,
        fitted: RunPaths | None, each: Each,
    ) -> Prepared:  # fmt: skip
        """Nothing needs all partitions at once."""
        return Prepared(tuple(_url(paths, part.index, "npz") for part in parts), Counts)

    def model(self, settings: CountSettings) -> GroupedCounts:
        """Return the model to fit."""
        return GroupedCounts(a=settings.shape)

    def score(
        self, model: GroupedCounts, q: Any, batch: Counts, local: Any, index: int, *,
        settings: CountSettings, paths: RunPaths, fitted: RunPaths | None,
    ) -> tuple[int, float]:  # fmt: skip
        """Write the posterior of every rate; return the groups and the sum of the means."""
        rate = model.local_step(q, batch, None).lam
        names = storage.read_table(_url(paths, index, "parquet"), ["group"])["group"]
        columns = [names, pa.array(rate.mean), pa.array(np.sqrt(rate.variance))]
        storage.write_table(paths.table("rates", index), pa.table(columns, schema=RATES.arrow))
        return len(names), float(rate.mean.sum())

    def keep(self, q: Any, settings: Any, paths: RunPaths, fitted: RunPaths | None) -> None:
        """New groups need the posterior alone."""

    def posterior(self, model: GroupedCounts, q: Any, paths: RunPaths) -> list[Parameter]:
        """Return the scale of the rates."""
        return [Parameter("beta", None, q.shape / q.rate, float(np.sqrt(q.shape)) / q.rate)]

    def answer(self, finished: Finished) -> Answer:
        """Say what was found, as numbers; ``templates`` has the words."""
        groups, total = (sum(parts) for parts in zip(*finished.summaries, strict=True))
        return Answer(groups, total / groups)

    def simulate(self, target: str, rows: int, seed: int) -> list[str]:
        """Draw groups with known rates."""
        rng = np.random.default_rng(seed)
        rates = rng.gamma(2.0, 2.0, rows)
        first, second = rng.poisson(rates, (2, rows))
        names = [f"group-{i:06d}" for i in range(rows)]
        table = pa.table([names, first, second], schema=COUNTS_IN.arrow)
        url = storage.join(storage.absolute(target), "counts.parquet")
        storage.write_table(url, table)
        truth = storage.join(storage.absolute(target), "_truth", "rates.parquet")
        storage.write_table(truth, pa.table({"group": names, "rate": rates}))
        return [url, truth]


def _url(paths: RunPaths, index: int, suffix: str) -> str:
    return storage.join(paths.work, "groups", f"part-{index:05d}.{suffix}")


FAMILY = CountsFamily()
