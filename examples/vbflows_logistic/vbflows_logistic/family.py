"""The pipeline's own functions; partitions, workers, resume and the page are vbflows'."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from flows.data import scale as scale_of
from flows.data import storage
from flows.data.partition import Part
from flows.data.run_tables import Parameter
from flows.data.runs import RunPaths
from flows.family import Each, Findings, Ingested, Prepared
from flows.one_table import ReadsOneTable
from vbflows_logistic.model import Global, Local, LogisticRegression, Rows
from vbflows_logistic.predict import probability
from vbflows_logistic.report import LabelSummary, report
from vbflows_logistic.schema import LABELS, ROWS_IN
from vbflows_logistic.settings import LogisticSettings
from vbmodels.core.state import to_bytes


class LogisticFamily(ReadsOneTable):
    """The family of the regression; see `flows.family.Family`."""

    name = "logistic"
    settings = LogisticSettings
    table = ROWS_IN

    def ingest(self, part: Part, settings: LogisticSettings, paths: RunPaths) -> Ingested:
        """Keep a partition's names, and its numbers and labels as arrays."""
        table, checked = self.read(part, settings)
        x = scale_of.features_of(table, part.slices[0].url)
        label = table["label"].fill_null(-1).to_numpy().astype(np.int64)
        storage.write_table(_url(paths, part.index, "parquet"), table.select(["id", "label"]))
        storage.write_bytes(_url(paths, part.index, "read.npz"), to_bytes(Rows(x, label)))
        return Ingested(
            part.rows, len(table), notes={"labels": float((label >= 0).sum())}, checked=checked
        )

    def prepare(
        self, parts: Sequence[Part], settings: LogisticSettings, paths: RunPaths,
        fitted: RunPaths | None, each: Each,
    ) -> Prepared:  # fmt: skip
        """Bring columns to one scale, that of all partitions or of the fit."""
        read = [_url(paths, part.index, "read.npz") for part in parts]
        scale = _scale(paths)
        if fitted is None:
            storage.write_bytes(
                scale, to_bytes(scale_of.merged(each(scale_of.moments, read, Rows)))
            )
        else:
            storage.copy(scale_of.scale_url(fitted), scale)
        urls = [_url(paths, part.index, "npz") for part in parts]
        each(scale_of.scaled, list(zip(read, urls, strict=True)), scale, Rows, True)
        return Prepared(tuple(urls), Rows, of_parts=True)

    def model(self, settings: LogisticSettings) -> LogisticRegression:
        """Return the model to fit."""
        return LogisticRegression(settings.shape, settings.rate, settings.intercept_variance)

    def score(
        self, model: LogisticRegression, q: Global, batch: Rows, local: Local | None, index: int, *,
        settings: LogisticSettings, paths: RunPaths, fitted: RunPaths | None,
    ) -> LabelSummary:  # fmt: skip
        """Write the probability of every row's label."""
        chance, mean, sd = probability(q, batch.x)
        names = storage.read_table(_url(paths, index, "parquet"), ["id", "label"])
        columns = [names["id"], names["label"], chance, mean, sd]
        storage.write_table(paths.table("labels", index), pa.table(columns, schema=LABELS.arrow))
        known = batch.label >= 0
        told = np.where(batch.label == 1, chance, 1.0 - chance)[known]
        return LabelSummary(
            len(chance), int(known.sum()), int((batch.label == 1).sum()), float(np.log(told).sum())
        )

    def keep(
        self, q: Global, settings: LogisticSettings, paths: RunPaths, fitted: RunPaths | None
    ) -> None:
        """Keep the scale of the columns: new rows are brought to it."""
        storage.copy(_scale(paths), scale_of.scale_url(paths))

    def posterior(self, model: LogisticRegression, q: Global, paths: RunPaths) -> list[Parameter]:
        """Return every weight, of columns with standard deviation 1, and the slopes' precision."""
        sd = np.sqrt(np.diag(q.w.covariance))
        names = ["intercept", *(f"feature {j}" for j in range(len(sd) - 1))]
        rows = zip(names, q.w.mean.tolist(), sd.tolist(), strict=True)
        found = [Parameter("weight", *row) for row in rows]
        a = q.a
        return [*found, Parameter("precision", None, float(a.mean), float(np.sqrt(a.variance)))]

    def report(
        self, model: LogisticRegression, q: Global, summaries: Sequence[LabelSummary],
        ingested: Sequence[Ingested], settings: LogisticSettings,
    ) -> Findings:  # fmt: skip
        """Say what was found."""
        return report(q, summaries)

    def simulate(self, target: str, rows: int, seed: int) -> list[str]:
        """Draw rows with known weights."""
        from vbflows_logistic.simulate import write_rows

        return write_rows(target, rows, seed)


def _scale(paths: RunPaths) -> str:
    return storage.join(paths.work, "scale.npz")


def _url(paths: RunPaths, index: int, suffix: str) -> str:
    return storage.join(paths.work, "rows", f"part-{index:05d}.{suffix}")


FAMILY = LogisticFamily()
