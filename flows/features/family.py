"""Features: from a table of categories to hidden binary features of its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from flows import storage
from flows.family import Checked, CheckedPiece, Each, Family, Finished, Ingested, Prepared
from flows.faults import Fault, InputError, RunError
from flows.features.answer import Answer, FeatureSummary, answer_of
from flows.features.hidden_cells import hidden_table
from flows.features.input import check
from flows.features.input import coding as feature_coding
from flows.features.input.check import CheckedTable, checked_file
from flows.features.meaning import meaning_sums
from flows.features.patterns import answer_patterns
from flows.features.schema import CATEGORIES_IN, feature_rows
from flows.features.settings import FeatureSettings
from flows.features.simpler_models import sample_rows
from flows.records.runs import Parameter, RunPaths
from flows.storage import InputFile
from flows.tables import partition
from flows.tables.checks import other_columns, shared_names
from flows.tables.mixed_rows import ID
from flows.tables.partition import Part
from vbmodels.core.seen import Seen
from vbmodels.features import forms
from vbmodels.features.ibp.model import FeatureGlobal
from vbmodels.features.imputation.predict import HiddenCells, together
from vbmodels.features.options import LARGEST_LAPLACE
from vbmodels.features.patterns import count_patterns
from vbmodels.features.table import FeatureBatch

T = TypeVar("T")


class FeaturesFamily(Family):
    """The features family; see `flows.family.Family`."""

    name = "features"
    suffixes = storage.SUFFIXES
    settings = FeatureSettings

    def check(self, file: InputFile, settings: FeatureSettings) -> CheckedTable:
        """List the faults of one file."""
        return checked_file(file, settings)

    def read_header(self, file: InputFile, settings: FeatureSettings) -> CheckedTable:
        """List the faults of one file's columns."""
        return check.read_header(file, settings)

    def merge(
        self, file: InputFile, pieces: Sequence[CheckedPiece], settings: FeatureSettings
    ) -> CheckedTable:
        """Return what the pieces of a file say of it."""
        return check.merge(pieces, settings)

    def validate_dataset(
        self, files: Sequence[InputFile], checked: Sequence[Checked]
    ) -> list[Fault]:
        """List what files say differently."""
        faults = shared_names(CATEGORIES_IN, [f.url for f in files], [c.keys for c in checked])
        return other_columns([f.url for f in files], [_columns(c) for c in checked]) + faults

    def require_labels(self, files: Sequence[InputFile], checked: Sequence[Checked]) -> list[Fault]:
        """List the columns that cannot be read."""
        return check.faults_of_fit(files, [c for c in checked if isinstance(c, CheckedTable)])

    def plan(
        self, files: Sequence[InputFile], checked: Sequence[Checked], settings: FeatureSettings
    ) -> list[Part]:
        """Cut the rows by number."""
        rows = [c.rows for c in checked]
        if settings.inference != "laplace":
            return partition.cut(files, rows, settings.rows_per_partition, settings.partitions)
        _refuse_many_rows(sum(rows))
        return partition.cut(files, rows, sum(rows), 1)

    def ingest(self, part: Part, settings: FeatureSettings, paths: RunPaths) -> Ingested:
        """Store a partition's cells as text."""
        return feature_coding.store_cells(part, settings, paths)

    def prepare(
        self, parts: Sequence[Part], settings: FeatureSettings, paths: RunPaths,
        fitted: RunPaths | None, each: Each,
    ) -> Prepared:  # fmt: skip
        """Fix the categories of every column, then code the cells of every partition."""
        return feature_coding.code_parts(parts, settings, paths, fitted, each)

    def model(self, settings: FeatureSettings) -> Any:
        """Return the model to fit."""
        return forms.make(settings)

    def score(
        self, model: Any, q: Any, batch: FeatureBatch, local: Any, index: int, *,
        settings: FeatureSettings, paths: RunPaths, fitted: RunPaths | None,
    ) -> FeatureSummary:  # fmt: skip
        """Write the probability of every feature in every row, and of missing cells."""
        columns = feature_coding.read_dictionary(paths)
        found = _finished(forms.apply, model, q, batch, local, settings)
        if any(column.structural for column in columns):
            chosen = ~feature_coding.skipped_cells(found, batch, columns)
            found = replace(
                found, rows=found.rows[chosen], columns=found.columns[chosen],
                cells=found.cells[chosen],
            )  # fmt: skip
        ids = storage.read_table(paths.part("names", index), [ID])[ID]
        arrays = [ids.cast(pa.string()), *(pa.array(p) for p in found.features.T)]
        rows = pa.table(arrays, schema=feature_rows(found.features.shape[1]).arrow)
        storage.write_table(paths.table("rows", index), rows)
        storage.write_table(
            paths.table("imputed", index), feature_coding.imputed_table(found, ids, columns)
        )
        fit = _finished(forms.read, model, q, settings)
        if index == 0:
            storage.write_table(
                paths.table("weights", 0), feature_coding.weight_table(fit, columns)
            )
        count = batch.row_count
        hidden = forms.scored_cells(model, q, batch, local)
        return FeatureSummary(
            rows=batch.n_rows,
            patterns=count_patterns(found.features > 0.5, count),
            imputed=len(found.rows),
            meaning=meaning_sums(
                found.features,
                *fit.drawn(batch),
                batch.codes[batch.row_of],
                batch.levels,
                batch.row_id,
                count,
                fit.n_rows,
            ),
            answers=answer_patterns(batch.codes[batch.row_of].astype(int), count, found.features),
            hidden=hidden,
            names=() if hidden is None else _names_of(hidden, batch, ids),
            sample=None if fitted is not None else sample_rows(batch, fit.n_rows),
            columns=tuple(columns) if index == 0 else (),
        )

    def select(
        self, model: Any, q: Any, summaries: Sequence[FeatureSummary], *,
        settings: FeatureSettings, paths: RunPaths, fitted: RunPaths | None, each: Each,
    ) -> tuple[Sequence[FeatureSummary], Any]:  # fmt: skip
        """Write what the simpler models say of the hidden cells of all partitions."""
        cells = [one.hidden for one in summaries if one.hidden is not None]
        if cells:
            names = [name for one in summaries for name in one.names]
            columns = feature_coding.read_dictionary(paths)
            table = hidden_table(together(cells), names, columns)
            storage.write_table(paths.table("hidden", 0), table)
        return summaries, q

    def keep(
        self, q: Any, settings: FeatureSettings, paths: RunPaths, fitted: RunPaths | None
    ) -> None:
        """Keep the column dictionary: new rows are coded by it."""
        storage.copy(feature_coding.dictionary_url(paths), feature_coding.kept_url(paths))

    def posterior(self, model: Any, q: Any, paths: RunPaths) -> list[Parameter]:
        """Return the hyperparameters and the share of rows with each feature of the fit."""
        return _global_rows(forms.best_of(q))

    def answer(self, finished: Finished) -> Answer:
        """Return what was found."""
        fit = _finished(forms.read, finished.model, finished.q, finished.settings)
        return answer_of(finished, fit)

    def simulate(self, target: str, rows: int, seed: int) -> list[str]:
        """Draw a table with known features."""
        from flows.features.input.simulate import write_table

        return write_table(target, rows, seed)


def _finished(say: Callable[..., T], *of_fit: Any) -> T:
    """Return what is said of a fit; one that was stopped too early is said to be so."""
    try:
        return say(*of_fit)
    except forms.UnfinishedFit as error:
        raise RunError(str(error)) from error


def _names_of(hidden: HiddenCells, batch: FeatureBatch, ids: pa.ChunkedArray) -> tuple[str, ...]:
    """Return the names of the rows that have hidden cells, or may have some."""
    rows = np.flatnonzero(np.isin(batch.row_id, hidden.row_id))
    return tuple(ids.take(pa.array(rows)).cast(pa.string()).to_pylist())


def _columns(checked: Checked) -> Mapping[str, Seen]:
    return checked.columns if isinstance(checked, CheckedTable) else {}


def _refuse_many_rows(rows: int) -> None:
    if rows <= LARGEST_LAPLACE:
        return
    raise InputError.of(
        file="settings",
        column="inference",
        expected=f"at most {LARGEST_LAPLACE:,} rows for the collapsed sampler (laplace)",
        found=f"{rows:,}",
        remedy="set inference to variational",
    )


def _global_rows(at: FeatureGlobal) -> list[Parameter]:
    sigma2 = (0.5 * np.atleast_1d(at.variance)).tolist()
    rows = [Parameter("alpha", "alpha", at.alpha)]
    if sigma2 and len(set(sigma2)) == 1:
        rows.append(Parameter("sigma2", "sigma2", sigma2[0]))
    else:
        rows += [Parameter("sigma2", f"fitted feature {k}", v) for k, v in enumerate(sigma2)]
    rows += [Parameter("share", f"fitted feature {k}", float(s)) for k, s in enumerate(at.share)]
    return rows


FAMILY = FeaturesFamily()
