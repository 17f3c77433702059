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
from vbflows_mixture.model import Global, Mixture, Rows
from vbflows_mixture.predict import told
from vbflows_mixture.report import GroupSummary, report
from vbflows_mixture.schema import GROUPS, ROWS_IN
from vbflows_mixture.settings import MixtureSettings
from vbmodels.core.state import FloatArray, to_bytes


class MixtureFamily(ReadsOneTable):
    """The family of the mixture; see `flows.family.Family`."""

    name = "mixture"
    settings = MixtureSettings
    table = ROWS_IN

    def ingest(self, part: Part, settings: MixtureSettings, paths: RunPaths) -> Ingested:
        """Keep a partition's names, and its numbers as arrays."""
        table, checked = self.read(part, settings)
        x = scale_of.features_of(table, part.slices[0].url)
        storage.write_table(_url(paths, part.index, "parquet"), table.select(["id"]))
        storage.write_bytes(_url(paths, part.index, "read.npz"), to_bytes(Rows(x)))
        return Ingested(part.rows, len(table), checked=checked)

    def prepare(
        self, parts: Sequence[Part], settings: MixtureSettings, paths: RunPaths,
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
        each(scale_of.scaled, list(zip(read, urls, strict=True)), scale, Rows)
        return Prepared(tuple(urls), Rows, of_parts=True)

    def model(self, settings: MixtureSettings) -> Mixture:
        """Return the model to fit."""
        return Mixture(
            settings.components, settings.alpha, settings.weight0, settings.freedom, settings.spread
        )

    def score(
        self, model: Mixture, q: Global, batch: Rows, local: None, index: int, *,
        settings: MixtureSettings, paths: RunPaths, fitted: RunPaths | None,
    ) -> GroupSummary:  # fmt: skip
        """Write every row's group."""
        r, density = told(q, batch.x)
        density = density - np.log(scale_of.read(_scale(paths)).sd).sum()
        names = storage.read_table(_url(paths, index, "parquet"), ["id"])["id"]
        columns = [names, r.argmax(axis=1), r.max(axis=1), density]
        storage.write_table(paths.table("groups", index), pa.table(columns, schema=GROUPS.arrow))
        return GroupSummary(r.sum(axis=0), float(density.sum()))

    def keep(
        self, q: Global, settings: MixtureSettings, paths: RunPaths, fitted: RunPaths | None
    ) -> None:
        """Keep the scale of the columns: new rows are brought to it."""
        storage.copy(_scale(paths), scale_of.scale_url(paths))

    def posterior(self, model: Mixture, q: Global, paths: RunPaths) -> list[Parameter]:
        """Return the share, the means and the standard deviations of every group."""
        scale = scale_of.read(_scale(paths))
        share = q.conc / q.conc.sum()
        error = np.sqrt(share * (1.0 - share) / (q.conc.sum() + 1.0))
        mean, sd, doubt = columns_of(q, scale)
        found = [
            Parameter("share", f"group {k}", float(p), float(e))
            for k, (p, e) in enumerate(zip(share, error, strict=True))
        ]
        for k, j in np.ndindex(mean.shape):
            where = f"group {k}, feature {j}"
            found.append(Parameter("mean", where, float(mean[k, j]), float(doubt[k, j])))
            found.append(Parameter("standard deviation", where, float(sd[k, j])))
        return found

    def report(
        self, model: Mixture, q: Global, summaries: Sequence[GroupSummary],
        ingested: Sequence[Ingested], settings: MixtureSettings,
    ) -> Findings:  # fmt: skip
        """Say what was found."""
        return report(summaries)

    def simulate(self, target: str, rows: int, seed: int) -> list[str]:
        """Draw rows of known groups."""
        from vbflows_mixture.simulate import write_rows

        return write_rows(target, rows, seed)


def columns_of(q: Global, scale: scale_of.Scale) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mean, sd and the mean's own sd of every column of every group, as given; [K, D] each.

    E Sigma = W^-1 / (shape - D - 1); where the shape is too small for a mean, its mode is taken.
    """
    size = q.mean.shape[1]
    inverse = np.einsum("kij,kij->ki", q.factor, q.factor)  # the diagonal of W^-1
    freedom = q.shape - size - 1.0
    freedom = np.where(freedom > 0.0, freedom, q.shape + size + 1.0)
    sd = np.sqrt(inverse / freedom[:, None])
    return q.mean * scale.sd + scale.mean, sd * scale.sd, sd / np.sqrt(q.weight)[:, None] * scale.sd


def _scale(paths: RunPaths) -> str:
    return storage.join(paths.work, "scale.npz")


def _url(paths: RunPaths, index: int, suffix: str) -> str:
    return storage.join(paths.work, "rows", f"part-{index:05d}.{suffix}")


FAMILY = MixtureFamily()
