"""Experts: from a table as it comes to the probability of a label, and who is responsible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from flows.data import json_files, partition, storage
from flows.data.checks import other_columns, shared_names
from flows.data.mixed_rows import joined
from flows.data.partition import Part
from flows.data.row_weights import with_named
from flows.data.run_tables import Parameter
from flows.data.runs import RunPaths, read_record
from flows.data.storage import InputFile
from flows.experts import check, numbers, several
from flows.experts import ingest as tables_of
from flows.experts.check import CheckedRows, checked_file, faults_of_fit, rows_of
from flows.experts.class_report import class_report
from flows.experts.design import (
    effects_in,
    groups_in,
    read_basis,
    read_design,
    working_encoding,
    write_basis,
)
from flows.experts.encoding import write as write_encoding
from flows.experts.labels import LABEL
from flows.experts.number_report import number_report
from flows.experts.numbers import NumberModel, NumberSummary
from flows.experts.predictions import OF_FIT, Reasons, predictions_of
from flows.experts.prepare import prepared
from flows.experts.report import WITHOUT_EXPERTS, WITHOUT_PROCESS, report
from flows.experts.schema import EXPERTS, ROWS_IN, expert_rows
from flows.experts.settings import ExpertSettings
from flows.experts.several import ClassSummary
from flows.experts.summary import (
    DRAWS,
    ExpertSummary,
    summarise,
    with_baselines,
    worst_rows,
)
from flows.experts.units import GROUP, read_names, row_groups
from flows.experts.weights import parameters_of, table_of
from flows.family import (
    Checked,
    CheckedPiece,
    Each,
    Findings,
    Ingested,
    Prepared,
    with_effective_size,
)
from flows.faults import Fault
from vbmodels.core.state import to_bytes
from vbmodels.experts.additive.counts import CountAdditive, CountRows
from vbmodels.experts.additive.gaussian import GaussianAdditive, TargetRows
from vbmodels.experts.additive.model import AdditiveExperts
from vbmodels.experts.additive.one_vs_rest import ClassRows, OneVersusRest, OrderedRows
from vbmodels.experts.bmem.metropolis import SampledExperts
from vbmodels.experts.forms import AnyPosterior, make, names_of
from vbmodels.experts.options import ExpertTuning
from vbmodels.experts.posterior import unweighted


class Experts:
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
        self, model: Any, q: Any, batch: Any, local: Any, index: int, *,
        settings: ExpertSettings, paths: RunPaths, fitted: RunPaths | None,
    ) -> ExpertSummary | ClassSummary | NumberSummary:  # fmt: skip
        """Write the probability of every row and who is responsible for it."""
        found: ExpertSummary | ClassSummary | NumberSummary
        new = fitted is not None
        if isinstance(model, OneVersusRest):
            found = several.score(model, q, batch, index, settings, paths, new)
        elif isinstance(model, NumberModel):
            found = numbers.score(model, q, batch, index, settings, paths, new)
        else:
            return self._score(model, q, batch, index, settings, paths, fitted)
        if not new:
            return found
        rows = storage.read_table(paths.table("rows", index))
        return replace(found, applied=True, predictions=predictions_of(rows))

    def _score(
        self, model: Any, q: Any, batch: Any, index: int, settings: ExpertSettings,
        paths: RunPaths, fitted: RunPaths | None,
    ) -> ExpertSummary:  # fmt: skip
        new = fitted is not None
        posterior: AnyPosterior = model.posterior(q)
        weights = read_design(paths, work=True).weights
        found = posterior.predict(batch)
        found = replace(found, probability=unweighted(found.probability, weights))
        encoding = working_encoding(paths)
        kept, of = read_names(paths, index, settings)
        schema = expert_rows(len(found.responsibility), encoding.labels[-1], bool(of)).arrow
        arrays = [
            kept[tables_of.ID], kept[LABEL],
            pa.array(found.probability), *map(pa.array, found.responsibility),
            pa.array((batch.t != 0.0) & (batch.weight == 0.0) & (not new)), *of,
        ]  # fmt: skip
        rows = pa.table(arrays, schema=schema)
        storage.write_table(paths.table("rows", index), rows)
        design, basis = read_design(paths, work=True), read_basis(paths, work=True)
        most = 50 if index < 4 else 10  # those nearest to 0.5 are hardly all in one partition
        reasons = Reasons(
            paths.part("rows", index),
            lambda one: unweighted(posterior.predict(one).probability, weights),
            encoding,
            design,
            basis,
            most,
        )
        more: dict[str, Any] = {"worst": worst_rows(batch, found.probability, rows, reasons)}
        if fitted is not None:
            of_fit = {} if index else read_record(fitted).results
            fit = {name: of_fit[name] for name in OF_FIT if name in of_fit}
            predictions = replace(predictions_of(rows, reasons), fit=fit)
            more.update(applied=True, predictions=predictions)
        named = names_of(posterior, design.columns, basis)
        if index == 0:
            table = pa.table(table_of(posterior, named), schema=EXPERTS.arrow)
            storage.write_table(paths.table("experts", 0), table)
        drawn = posterior.drawn_shares(batch, DRAWS, settings.seed)
        if index > 0:
            return replace(summarise(batch, found, drawn, ()), **more)
        effects, pairs = effects_in(posterior, encoding, design, basis)
        groups = groups_in(posterior, encoding, design, basis)
        more.update(effects=effects, pairs=pairs, groups=groups, encoding=encoding)
        return replace(summarise(batch, found, drawn, named.mixture[:-1]), **more)

    def select(
        self, model: Any, q: Any, summaries: Sequence[Any], *,
        settings: ExpertSettings, paths: RunPaths, fitted: RunPaths | None, each: Each,
    ) -> tuple[Sequence[Any], Any]:  # fmt: skip
        """Compare a fit with simple forms on the rows that it has not seen."""
        if fitted is not None:
            return summaries, q
        if isinstance(model, NumberModel):
            columns = len(read_design(paths, work=True).columns)
            return numbers.with_baselines(summaries, model, q, columns, settings, paths, each), q
        if isinstance(model, OneVersusRest):
            columns = len(read_design(paths, work=True).columns)
            return with_baselines(summaries, {}, columns, settings, paths, each), q
        if not any(summary.held_out[0] > 0.0 for summary in summaries):
            return summaries, q
        others = {}
        if isinstance(model, AdditiveExperts):
            others["logistic regression"] = model.baseline(q)
            if q.additive.weight > 0.0:
                others[WITHOUT_PROCESS] = model.without_process(q)
            if q.points:
                others[WITHOUT_EXPERTS] = model.additive_part(q)
        columns = len(read_design(paths, work=True).columns)
        return with_baselines(summaries, others, columns, settings, paths, each), q

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
        if isinstance(model, OneVersusRest):
            return several.parameters(model, q)
        if isinstance(model, NumberModel):
            return numbers.parameters(model, q)
        return parameters_of(model.posterior(q))

    def report(
        self, model: Any, q: Any, summaries: Sequence[Any],
        ingested: Sequence[Ingested], settings: ExpertSettings,
    ) -> Findings:  # fmt: skip
        """Say what was found."""
        if isinstance(model, OneVersusRest):
            found = class_report(summaries, settings)
        elif isinstance(model, NumberModel):
            found = number_report(summaries, settings)
        else:
            chains = model.diagnose(q) if isinstance(model, SampledExperts) else None
            chosen = additive = None
            if isinstance(model, AdditiveExperts):
                chosen, additive = q.chosen, q.additive
            found = report(model.posterior(q), chosen, summaries, settings, chains, additive)
        found.results["unlabelled_rows"] = int(sum(one.notes["unlabelled"] for one in ingested))
        return with_effective_size(found, ingested, settings)

    def simulate(self, target: str, rows: int, seed: int) -> list[str]:
        """Draw rows with known experts."""
        from flows.experts.simulate import write_rows

        return write_rows(target, rows, seed)


FAMILY = Experts()
