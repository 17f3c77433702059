"""Features: from a table of categories to hidden binary features of its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from flows import storage
from flows.family import Checked, Each, Family, Finished, Ingested
from flows.faults import Fault, RunError
from flows.features.answer import Answer, FeatureSummary, answer_of
from flows.features.input import coding as feature_coding
from flows.features.input.columns import faults_of_fit
from flows.features.input.simulate import write_table
from flows.features.meaning import meaning_sums
from flows.features.schema import CATEGORIES_IN, feature_rows
from flows.features.settings import FeatureSettings
from flows.features.simpler_models import hidden_table, sample_rows
from flows.one_table import ReadsColumns, columns_of
from flows.records.runs import Parameter, RunPaths
from flows.storage import InputFile
from flows.tables.partition import Part
from flows.tables.roles import ID
from vbmodels.features import forms
from vbmodels.features.ibp.model import FeatureGlobal
from vbmodels.features.imputation.predict import HiddenCells, together
from vbmodels.features.patterns import Patterns, merge_patterns
from vbmodels.features.table import FeatureBatch

T = TypeVar("T")


class FeaturesFamily(ReadsColumns, Family):
    """The features family; see `flows.family.Family`."""

    name = "features"
    settings = FeatureSettings
    table = CATEGORIES_IN
    prepare = staticmethod(feature_coding.code_parts)
    model = staticmethod(forms.make)
    simulate = staticmethod(write_table)

    def require_labels(self, files: Sequence[InputFile], checked: Sequence[Checked]) -> list[Fault]:
        """List the columns that cannot be read."""
        return faults_of_fit(files, columns_of(checked))

    def ingest(self, part: Part, settings: FeatureSettings, paths: RunPaths) -> Ingested:
        """Store a partition's cells as text."""
        return feature_coding.store_cells(part.index, self.read_rows(part, settings), paths)

    def score(
        self,
        model: Any,
        q: Any,
        batch: FeatureBatch,
        local: Any,
        index: int,
        *,
        settings: FeatureSettings,
        paths: RunPaths,
        fitted: RunPaths | None,
    ) -> FeatureSummary:
        """Write the probability of every feature in every row, and of missing cells."""
        columns = feature_coding.read_dictionary(paths)
        findings = _finished(forms.apply, model, q, batch, settings)
        if any(column.structural for column in columns):
            chosen = ~feature_coding.skipped_cells(findings, batch, columns)
            findings = replace(
                findings,
                rows=findings.rows[chosen],
                columns=findings.columns[chosen],
                cells=findings.cells[chosen],
            )
        ids = storage.read_table(paths.part("names", index), [ID])[ID]
        arrays = [ids.cast(pa.string()), *(pa.array(p) for p in findings.features.T)]
        rows = pa.table(arrays, schema=feature_rows(findings.features.shape[1]).arrow)
        storage.write_table(paths.table("rows", index), rows)
        storage.write_table(
            paths.table("imputed", index), feature_coding.imputed_table(findings, ids, columns)
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
            patterns=merge_patterns([Patterns(findings.features > 0.5, count)]),
            imputed=len(findings.rows),
            meaning=meaning_sums(
                findings.features,
                *fit.drawn(batch),
                batch.levels,
                batch.row_id,
                count,
                fit.n_rows,
            ),
            hidden=hidden,
            names=() if hidden is None else _names_of(hidden, batch, ids),
            sample=None if fitted is not None else sample_rows(batch, fit.n_rows),
            columns=tuple(columns) if index == 0 else (),
        )

    def select(
        self,
        model: Any,
        q: Any,
        summaries: Sequence[FeatureSummary],
        *,
        settings: FeatureSettings,
        paths: RunPaths,
        fitted: RunPaths | None,
        each: Each,
    ) -> tuple[Sequence[FeatureSummary], Any]:
        """Write what the simpler models say of the hidden cells of all partitions."""
        cells = [part.hidden for part in summaries if part.hidden is not None]
        if cells:
            names = [name for part in summaries for name in part.names]
            columns = feature_coding.read_dictionary(paths)
            table = hidden_table(together(cells), names, columns)
            storage.write_table(paths.table("hidden", 0), table)
        return summaries, q

    def keep(
        self, q: Any, settings: FeatureSettings, paths: RunPaths, fitted: RunPaths | None
    ) -> None:
        """Keep the column dictionary: new rows are coded by it."""
        storage.copy(paths.kept(feature_coding.FILE, work=True), paths.kept(feature_coding.FILE))

    def posterior(self, model: Any, q: Any, paths: RunPaths) -> list[Parameter]:
        """Return the hyperparameters and the share of rows with each feature of the fit."""
        return _global_rows(forms.best_of(q))

    def answer(self, finished: Finished) -> Answer:
        """Return what was found."""
        fit = _finished(forms.read, finished.model, finished.q, finished.settings)
        return answer_of(finished, fit)


def _finished(say: Callable[..., T], *of_fit: Any) -> T:
    """Return what is said of a fit; one that was stopped too early is said to be so."""
    try:
        return say(*of_fit)
    except forms.UnfinishedFit as error:
        raise RunError(str(error)) from error


def _names_of(hidden: HiddenCells, batch: FeatureBatch, ids: pa.ChunkedArray) -> tuple[str, ...]:
    """Return the names of the rows that have hidden cells, or may have some."""
    return tuple(
        ids.filter(pa.array(np.isin(batch.row_id, hidden.row_id))).cast(pa.string()).to_pylist()
    )


def _global_rows(q: FeatureGlobal) -> list[Parameter]:
    sigma2 = (0.5 * np.atleast_1d(q.variance)).tolist()
    rows = [Parameter("alpha", "alpha", q.alpha)]
    if sigma2 and len(set(sigma2)) == 1:
        rows.append(Parameter("sigma2", "sigma2", sigma2[0]))
    else:
        rows += [Parameter("sigma2", f"fitted feature {k}", v) for k, v in enumerate(sigma2)]
    rows += [Parameter("share", f"fitted feature {k}", float(s)) for k, s in enumerate(q.share)]
    return rows


FAMILY = FeaturesFamily()
