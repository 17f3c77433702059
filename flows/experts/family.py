"""Experts: from numeric columns to the probability of a label, and who is responsible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa

from flows.data import partition, storage
from flows.data.checks import Checker, other_columns, shared_names
from flows.data.partition import Part
from flows.data.run_tables import Parameter
from flows.data.runs import Dropped, RunPaths
from flows.data.slabs import slabs
from flows.data.storage import InputFile
from flows.experts import ingest as tables_of
from flows.experts.baseline import compared
from flows.experts.design import (
    build,
    fitted_rows,
    groups_of,
    read_design,
    settle,
    sums_of,
    work_url,
)
from flows.experts.report import AnyPosterior, report
from flows.experts.schema import EXPERTS, ROWS_IN, expert_rows
from flows.experts.settings import ExpertSettings
from flows.experts.summary import ExpertSummary, summarise
from flows.family import Checked, Each, Findings, Ingested, Prepared
from flows.faults import Fault, InputError
from vbmodels.core.state import to_bytes
from vbmodels.experts.batch import Rows
from vbmodels.experts.forms import make
from vbmodels.experts.marginal import MarginalExperts
from vbmodels.experts.published.metropolis import SampledExperts


@dataclass(frozen=True)
class CheckedRows(Checked):
    """What the check of one file found, with its columns and labels."""

    columns: tuple[str, ...] = ()
    positive: int = 0
    negative: int = 0


class Experts:
    """The experts family; see `flows.family.Family`."""

    name = "experts"
    suffixes = storage.SUFFIXES
    settings = ExpertSettings

    def check(self, file: InputFile, settings: ExpertSettings) -> CheckedRows:
        """List the faults of one file."""
        checker = Checker(ROWS_IN.of(settings), file.url)
        columns: tuple[str, ...] = ()
        positive = negative = 0
        for table in checker.slabs(slabs(file.url)):
            columns = tuple(tables_of.columns_of(table))
            if tables_of.LABEL in table.column_names:
                labels = table[tables_of.LABEL].to_numpy()
                positive += int(np.count_nonzero(labels == 1.0))
                negative += int(np.count_nonzero(labels == 0.0))
        faults = tuple(checker.found.faults())
        return CheckedRows(checker.rows, faults, checker.names, columns, positive, negative)

    def check_together(self, files: Sequence[InputFile], checked: Sequence[Checked]) -> list[Fault]:
        """List rows that two files share, and files with other columns than the first."""
        faults = shared_names(ROWS_IN, [f.url for f in files], [c.keys for c in checked])
        return faults + other_columns([f.url for f in files], [_rows(c).columns for c in checked])

    def check_to_fit(self, files: Sequence[InputFile], checked: Sequence[Checked]) -> list[Fault]:
        """List what a fit lacks beyond what scoring needs: both labels."""
        positive = sum(_rows(c).positive for c in checked)
        negative = sum(_rows(c).negative for c in checked)
        if positive and negative:
            return []
        return [
            Fault(
                file=files[0].url if len(files) == 1 else f"{len(files)} files",
                column=tables_of.LABEL,
                expected="rows with the label 1 and rows with the label 0",
                found=f"{positive} with 1 and {negative} with 0",
                remedy="give rows of both classes",
            )
        ]

    def plan(
        self, files: Sequence[InputFile], checked: Sequence[Checked], settings: ExpertSettings
    ) -> list[Part]:
        """Cut the rows by number."""
        rows = [c.rows for c in checked]
        return partition.cut(files, rows, settings.rows_per_partition, settings.partitions)

    def ingest(self, part: Part, settings: ExpertSettings, paths: RunPaths) -> Ingested:
        """Keep a partition's rows with its columns in order, and sum its columns up."""
        given = partition.read(part, ROWS_IN.of(settings))
        names, columns = given[tables_of.ID].to_pylist(), tables_of.columns_of(given)
        x, t = tables_of.numbers_of(given, columns)
        arrays = {f"c.{name}": column for name, column in zip(columns, x.T, strict=True)}
        table = pa.table({tables_of.ID: names, tables_of.LABEL: t, **arrays})
        storage.write_table(work_url(paths, "rows", part.index), table)
        fit = fitted_rows(groups_of(x, columns), t, settings.test_share)
        return Ingested(
            rows_read=part.rows,
            rows_kept=len(t),
            dropped=(
                Dropped(
                    reason="row without a label: predicted, not fitted",
                    count=int(np.sum(t == 0.0)),
                    examples=[n for n, v in zip(names, t, strict=True) if v == 0.0][:100],
                ),
            ),
            notes={"fitted": float(fit.sum()), "columns": float(len(columns))},
        )

    def prepare(
        self, parts: Sequence[Part], settings: ExpertSettings, paths: RunPaths,
        fitted: RunPaths | None, each: Each,
    ) -> Prepared:  # fmt: skip
        """Settle the scale of every column, then make the arrays of every partition."""
        indices = [part.index for part in parts]
        warnings: tuple[str, ...] = ()
        if fitted is None:
            table = storage.read_table(work_url(paths, "rows", 0))
            columns = [n.removeprefix("c.") for n in table.column_names if n.startswith("c.")]
            sums = reduce(add, each(sums_of, indices, settings, paths))
            if not (sums.positive and sums.negative):
                raise InputError(
                    [
                        Fault(
                            file="settings",
                            column="test_share",
                            expected="rows of both labels left for the fit",
                            found=f"{sums.positive} with 1 and {sums.negative} with 0",
                            remedy="lower test_share or give more rows",
                        )
                    ]
                )
            design, warnings = settle(columns, sums, settings)
        else:
            design = read_design(fitted)
        storage.write_bytes(storage.join(paths.work, "design.npz"), to_bytes(design))
        urls = each(build, indices, settings, paths, fitted is not None)
        return Prepared(tuple(urls), Rows, warnings)

    def model(self, settings: ExpertSettings) -> Any:
        """Return the model to fit."""
        return make(settings)

    def score(
        self, model: Any, q: Any, batch: Rows, local: Any, index: int, *,
        settings: ExpertSettings, paths: RunPaths, fitted: RunPaths | None,
    ) -> ExpertSummary:  # fmt: skip
        """Write the probability of every row and who is responsible for it."""
        posterior: AnyPosterior = model.posterior(q)
        found = posterior.predict(batch, settings.predict)
        names = storage.read_table(work_url(paths, "rows", index), [tables_of.ID])[tables_of.ID]
        schema = expert_rows(len(found.responsibility)).arrow
        arrays = [names, pa.array(found.probability), *map(pa.array, found.responsibility)]
        storage.write_table(paths.table("rows", index), pa.table(arrays, schema=schema))
        columns = read_design(paths, work=True).columns
        if index == 0:
            table = pa.table(_weights(posterior, columns), schema=EXPERTS.arrow)
            storage.write_table(paths.table("experts", 0), table)
        baseline = model.baseline(q) if isinstance(model, MarginalExperts) else None
        plain = None if baseline is None else baseline.predict(batch, settings.predict).probability
        return summarise(batch, found, plain, tuple(columns) if index == 0 else ())

    def conclude(
        self, model: Any, q: Any, summaries: Sequence[ExpertSummary], *,
        settings: ExpertSettings, paths: RunPaths, fitted: RunPaths | None, each: Each,
    ) -> tuple[Sequence[ExpertSummary], Any]:  # fmt: skip
        """Compare with logistic regression where the model has none beside it."""
        held_out = any(summary.judged[0] > 0.0 for summary in summaries)
        if isinstance(model, MarginalExperts) or settings.n_experts == 1 or not held_out:
            return summaries, q
        return compared(summaries, settings, paths, fitted, each), q

    def keep(
        self, q: Any, settings: ExpertSettings, paths: RunPaths, fitted: RunPaths | None
    ) -> None:
        """Keep the scale of every column: new rows are brought to it."""
        url = storage.join(paths.root, "posterior", "design.npz")
        storage.write_bytes(url, to_bytes(read_design(paths, work=True)))

    def posterior(self, model: Any, q: Any, paths: RunPaths) -> list[Parameter]:
        """Return every weight of the first component."""
        one = model.posterior(q).components[0]
        return [
            Parameter(f"{role} {k + 1}", str(d), float(one.mean[r, k, d]), float(one.sd[r, k, d]))
            for r, role in enumerate(("gate", "expert"))
            for k in range(one.mean.shape[1])
            for d in range(one.mean.shape[2])
        ]

    def report(
        self, model: Any, q: Any, summaries: Sequence[ExpertSummary],
        ingested: Sequence[Ingested], settings: ExpertSettings,
    ) -> Findings:  # fmt: skip
        """Say what was found."""
        chosen = q.chosen if isinstance(model, MarginalExperts) else None
        chains = model.diagnose(q) if isinstance(model, SampledExperts) else None
        return report(model.posterior(q), chosen, summaries, settings, chains)

    def simulate(self, target: str, rows: int, seed: int) -> list[str]:
        """Draw rows with known experts."""
        from flows.experts.simulate import write_rows

        return write_rows(target, rows, seed)


def _rows(checked: Checked) -> CheckedRows:
    return checked if isinstance(checked, CheckedRows) else CheckedRows(checked.rows)


def _weights(posterior: AnyPosterior, columns: Sequence[str]) -> list[Any]:
    """Return the columns of the table of experts, of the best start."""
    one = posterior.components[0]
    named = [*(str(c) for c in columns), "intercept"]
    rows = [
        (k + 1, role, name, float(one.mean[r, k, d]), float(one.sd[r, k, d]))
        for k in range(one.mean.shape[1])
        for r, role in ((1, "expert"), (0, "gate"))
        for d, name in enumerate(named)
    ]
    return [pa.array(values) for values in zip(*rows, strict=True)]


FAMILY = Experts()
