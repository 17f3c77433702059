"""Experts: from a table as it comes to the probability of a label, and who is responsible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from flows import storage
from flows.experts import scored, tested
from flows.experts.answer import answer_of
from flows.experts.input.design import Forms
from flows.experts.input.encoding import AboutRows, check_finite, faults_of_fit
from flows.experts.input.prepare import prepared
from flows.experts.input.simulate import write_rows
from flows.experts.input.units import group_by_beginning
from flows.experts.schema import ROWS_IN
from flows.experts.scored import Scored, parameters_in
from flows.experts.settings import ExpertSettings
from flows.family import Checked, Each, Family, Ingested, Prepared
from flows.faults import Fault
from flows.one_table import ReadsColumns, columns_of
from flows.records import json_files
from flows.records.runs import Parameter, RunPaths
from flows.storage import InputFile
from flows.tables.partition import Part
from flows.tables.roles import LABEL, concat_files
from vbmodels.experts.additive.counts import CountAdditive
from vbmodels.experts.additive.gaussian import GaussianAdditive
from vbmodels.experts.additive.one_vs_rest import ClassRows, OneVersusRest, OrderedRows
from vbmodels.experts.forms import make
from vbmodels.experts.options import ExpertTuning
from vbmodels.experts.terms.step_rows import CountRows, TargetRows


class Experts(ReadsColumns, Family):
    """The experts family; see `flows.family.Family`."""

    name = "experts"
    settings = ExpertSettings
    table = ROWS_IN

    check_cells = staticmethod(check_finite)
    prepare = staticmethod(prepared)
    answer = staticmethod(answer_of)
    simulate = staticmethod(write_rows)

    def require_labels(self, files: Sequence[InputFile], checked: Sequence[Checked]) -> list[Fault]:
        """List what a fit lacks beyond what scoring needs: labels, and columns that are sound."""
        return faults_of_fit(files, columns_of(checked))

    def ingest(self, part: Part, settings: ExpertSettings, paths: RunPaths) -> Ingested:
        """Keep a partition's rows with its columns in order, and count what they hold."""
        rows = self.read_rows(part, settings)
        table = group_by_beginning(concat_files(rows.taken), settings.group_parts)
        storage.write_table(paths.part("rows", part.index), table)
        about = AboutRows(contents=rows.contents)
        json_files.write(paths.part("about", part.index, "json"), about)
        return Ingested(
            rows_read=part.rows,
            rows_kept=len(table),
            notes={
                "columns": float(len(rows.contents.seen)),
                "unlabelled": float(table[LABEL].null_count),
                **rows.contents.weights.notes,
            },
            checked=rows.checked,
        )

    def model(self, settings: ExpertSettings) -> Any:
        """Return the model to fit."""
        return make(ExpertTuning.of(settings))

    def model_for_data(self, model: Any, prepared: Prepared) -> Any:
        """Return the model for a number, or for as many classes as were found."""
        if prepared.batch is CountRows:
            return CountAdditive(pairs=model.n_experts > 1)
        if prepared.batch is TargetRows:
            return GaussianAdditive(pairs=model.n_experts > 1)
        if prepared.batch is OrderedRows:
            return OneVersusRest(model, ordered=True)
        return OneVersusRest(model) if prepared.batch is ClassRows else model

    def score(
        self,
        model: Any,
        q: Any,
        batch: Any,
        local: Any,
        index: int,
        *,
        settings: ExpertSettings,
        paths: RunPaths,
        fitted: RunPaths | None,
    ) -> Scored:
        """Write what is predicted of every row, and who is responsible for it."""
        return scored.score(model, q, batch, index, settings, paths, fitted is not None)

    def select(
        self,
        model: Any,
        q: Any,
        summaries: Sequence[Any],
        *,
        settings: ExpertSettings,
        paths: RunPaths,
        fitted: RunPaths | None,
        each: Each,
    ) -> tuple[Sequence[Any], Any]:
        """Predict rows without their labels, by this model and by others."""
        if fitted is not None:
            return summaries, q
        rows = [part.rows for part in summaries]
        of_tested = tested.write_tested(model, q, rows, settings, paths, each)
        first, *others = summaries
        return [replace(first, tested=of_tested), *others], q

    def keep(
        self, q: Any, settings: ExpertSettings, paths: RunPaths, fitted: RunPaths | None
    ) -> None:
        """Keep what became of columns: new rows are brought to it."""
        Forms.read(paths).write(paths, work=False)

    def posterior(self, model: Any, q: Any, paths: RunPaths) -> list[Parameter]:
        """Return every weight of the additive part, where there is one, and of the best start."""
        return parameters_in(model, q)


FAMILY = Experts()
