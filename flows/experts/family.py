"""Experts: from a table as it comes to the probability of a label, and who is responsible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from flows import storage
from flows.experts import scored, tested
from flows.experts.answer import Answer, answer_of
from flows.experts.input import check
from flows.experts.input import ingest as tables_of
from flows.experts.input.check import CheckedRows, checked_file, faults_of_fit, rows_of
from flows.experts.input.design import read_basis, read_design, working_encoding, write_basis
from flows.experts.input.encoding import write as write_encoding
from flows.experts.input.labels import LABEL
from flows.experts.input.prepare import prepared
from flows.experts.input.units import GROUP, row_groups
from flows.experts.schema import ROWS_IN
from flows.experts.scored import Scored
from flows.experts.settings import ExpertSettings
from flows.experts.weights import parameters_in
from flows.family import Checked, CheckedPiece, Each, Family, Finished, Ingested, Prepared
from flows.faults import Fault
from flows.records import json_files
from flows.records.runs import Parameter, RunPaths
from flows.storage import InputFile
from flows.tables import partition
from flows.tables.checks import other_columns, shared_names
from flows.tables.mixed_rows import joined
from flows.tables.partition import Part
from flows.tables.row_weights import with_named
from vbmodels.core.state import to_bytes
from vbmodels.experts.additive.counts import CountAdditive, CountRows
from vbmodels.experts.additive.gaussian import GaussianAdditive, TargetRows
from vbmodels.experts.additive.one_vs_rest import ClassRows, OneVersusRest, OrderedRows
from vbmodels.experts.forms import make
from vbmodels.experts.options import ExpertTuning


class Experts(Family):
    """The experts family; see `flows.family.Family`."""

    name = "experts"
    suffixes = storage.SUFFIXES
    settings = ExpertSettings

    def check(self, file: InputFile, settings: ExpertSettings) -> CheckedRows:
        """List the faults of one file."""
        return checked_file(file, settings)

    def read_header(self, file: InputFile, settings: ExpertSettings) -> CheckedRows:
        """List the faults of one file's columns."""
        return check.read_header(file, settings)

    def merge(
        self, file: InputFile, pieces: Sequence[CheckedPiece], settings: ExpertSettings
    ) -> CheckedRows:
        """Return what the pieces of a file say of it."""
        return check.merge(pieces, settings)

    def validate_dataset(
        self, files: Sequence[InputFile], checked: Sequence[Checked]
    ) -> list[Fault]:
        """List rows that two files share, and files with other columns than the first."""
        faults = shared_names(ROWS_IN, [f.url for f in files], [c.keys for c in checked])
        columns = [tuple(rows_of(c).seen) for c in checked]
        named = any(c.labels.counts or "label" in c.settings.columns for c in map(rows_of, checked))
        return other_columns([f.url for f in files], columns, labelled=not named) + faults

    def require_labels(self, files: Sequence[InputFile], checked: Sequence[Checked]) -> list[Fault]:
        """List what a fit lacks beyond what scoring needs: labels, and columns that are sound."""
        return faults_of_fit(files, [rows_of(c) for c in checked])

    def plan(
        self, files: Sequence[InputFile], checked: Sequence[Checked], settings: ExpertSettings
    ) -> list[Part]:
        """Cut the rows by number."""
        rows = [c.rows for c in checked]
        return partition.cut(files, rows, settings.rows_per_partition, settings.partitions)

    def ingest(self, part: Part, settings: ExpertSettings, paths: RunPaths) -> Ingested:
        """Keep a partition's rows with its columns in order, and count what they hold."""
        pieces, labels, groups, abouts, checked = [], [], [], [], []
        for checkers, rows in partition.checked_together(part, with_named(ROWS_IN, settings)):
            found, own, about = tables_of.taken(rows, checkers[0], settings, len(checkers) == 1)
            check.check_finite(checkers[0], found)
            checkers[0].refuse()
            pieces.append(found)
            labels.append(own)
            groups += row_groups(rows, settings)
            abouts.append(about)
            # What rows of several files hold is said once: it is added up over files.
            none = tables_of.nothing_in(about)
            checked += [check.piece(c, none if i else about) for i, c in enumerate(checkers)]
        table = joined(pieces).append_column(LABEL, pa.concat_arrays(labels))
        if groups:
            table = table.append_column(GROUP, pa.concat_arrays(groups))
        about = tables_of.merged(abouts)
        storage.write_table(paths.part("rows", part.index), table)
        json_files.write(paths.part("about", part.index, "json"), about)
        unlabelled = float(table[LABEL].null_count)
        return Ingested(
            rows_read=part.rows,
            rows_kept=len(table),
            notes={
                "columns": float(len(about.seen)),
                "unlabelled": unlabelled,
                **about.weights.notes,
            },
            checked=tuple(checked),
        )

    def prepare(
        self, parts: Sequence[Part], settings: ExpertSettings, paths: RunPaths,
        fitted: RunPaths | None, each: Each,
    ) -> Prepared:  # fmt: skip
        """Choose what every column becomes, then make the arrays of every partition."""
        return prepared(parts, settings, paths, fitted, each)

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
        rows = [one.rows for one in summaries]
        found = tested.write_tested(model, q, rows, settings, paths, each)
        first, *others = summaries
        return [replace(first, tested=found), *others], q

    def keep(
        self, q: Any, settings: ExpertSettings, paths: RunPaths, fitted: RunPaths | None
    ) -> None:
        """Keep the scale and the knots of every column: new rows are brought to them."""
        url = storage.join(paths.root, "posterior", "design.npz")
        storage.write_bytes(url, to_bytes(read_design(paths, work=True)))
        write_basis(paths, read_basis(paths, work=True))
        write_encoding(paths, working_encoding(paths))

    def posterior(self, model: Any, q: Any, paths: RunPaths) -> list[Parameter]:
        """Return every weight of the additive part, where there is one, and of the best start."""
        return parameters_in(model, q)

    def answer(self, finished: Finished) -> Answer:
        """Return everything that a reader of the run may see."""
        return answer_of(finished)

    def simulate(self, target: str, rows: int, seed: int) -> list[str]:
        """Draw rows with known experts."""
        from flows.experts.input.simulate import write_rows

        return write_rows(target, rows, seed)


FAMILY = Experts()
