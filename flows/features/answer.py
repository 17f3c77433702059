"""What a run of features found: every number and name that its readers may see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from flows import storage
from flows.family import Finished
from flows.features.input.categories import Column
from flows.features.meaning import Feature, MeaningSums, features_of
from flows.features.patterns import (
    Copies,
    Together,
    find_copies,
    together_of,
)
from flows.features.settings import FeatureSettings
from flows.features.simpler_models import (
    CellTest,
    RowSample,
    SimplerModels,
    compare_models,
    evaluate_cells,
)
from flows.records.runs import RunRecord
from flows.report.answers import answer_of_fit
from flows.tables.roles import effective_size
from vbmodels.core.state import tree_sum
from vbmodels.features.forms import Reported, completion, stability
from vbmodels.features.imputation.model import CompletedGlobal
from vbmodels.features.imputation.predict import HiddenCells
from vbmodels.features.imputation.states import MEMBERS, Completion
from vbmodels.features.patterns import Patterns

FEWEST_ROWS = 40
"""Rows a feature below which the number of features is a guess."""


@dataclass(frozen=True)
class FeatureSummary:
    """What one partition adds to the answer; the first one brings the columns too.

    ``names`` are those of the rows of ``hidden``.
    """

    rows: int
    patterns: Patterns
    imputed: int
    meaning: MeaningSums
    hidden: HiddenCells | None = None
    names: tuple[str, ...] = ()
    sample: RowSample | None = None
    columns: tuple[Column, ...] = ()


@dataclass(frozen=True)
class AnswersOfColumn:
    """A column of the input: the rows with each of its categories, and those with none."""

    name: str
    shown: str
    levels: Mapping[str, int]
    missing: int


@dataclass(frozen=True)
class Member:
    """A model that fills missing cells: its weight in the mixture, its loss on hidden cells."""

    name: str
    weight: float
    loss: float


@dataclass(frozen=True)
class Scored:
    """How many files were scored, and those of them that the fit has read."""

    files: int
    seen: int


@dataclass(frozen=True)
class Answer:
    """What a run found.

    Attributes
    ----------
    rows, effective
        Rows, and where they are weighted how many of one weight would say as much.
    columns
        The columns that are modelled.
    features
        The features, the most common first; of a score as the fit has them, with their shares of
        the new rows.
    starts
        Starts of the search; 0 where nobody looked which found a feature.
    clearest
        The feature that says most of the columns, by its place among them.
    absorbed
        Fitted features that nearly every row has, which belong to the biases.
    models
        The features against simpler models; None where there are too few rows, and of a score.
    together
        Which features rows have together; None of fewer than two.
    copies
        Rows that are copies, where there are more than by chance.
    imputed
        Missing cells that were filled.
    cells
        How well hidden cells were predicted; of a score, by the fit.
    members
        The models that fill missing cells.
    sweeps_to_fill
        The sweeps that these need, where the fit ended before they had learned.
    scored
        Of a score.
    """

    rows: int
    effective: float | None
    columns: tuple[AnswersOfColumn, ...]
    features: tuple[Feature, ...]
    starts: int
    clearest: int
    absorbed: int
    models: SimplerModels | None
    together: Together | None
    copies: Copies | None
    imputed: int
    cells: CellTest | None
    members: tuple[Member, ...]
    sweeps_to_fill: int | None
    scored: Scored | None = None

    @property
    def unclear(self) -> int:
        """Rows of which it is not clear whether they have the clearest feature."""
        return round((1.0 - self.features[self.clearest].sure) * self.rows)

    @property
    def has_few_rows(self) -> bool:
        """Whether so few rows do not determine how many features there are."""
        return len(self.features) > 1 and self.rows < FEWEST_ROWS * len(self.features)


def answer_of(finished: Finished, fit: Reported) -> Answer:
    """Return what was found in all partitions; ``fit`` is the posterior as it is reported."""
    model, q, parts = finished.model, finished.q, finished.summaries
    columns = next(part.columns for part in parts if part.columns)
    stable = stability(model, q, finished.settings)
    features = features_of(tree_sum(part.meaning for part in parts), columns, stable, fit.whole)
    nats = [feature.nats for feature in features]
    samples = [part.sample for part in parts if part.sample is not None]
    copies = find_copies(samples) if samples else None
    filling = completion(model, q)
    is_untaught = filling is None and isinstance(q, CompletedGlobal) and q.completion is not None
    answer = Answer(
        rows=sum(part.rows for part in parts),
        effective=effective_size([part.notes for part in finished.ingested], finished.settings),
        columns=tuple(_column(column) for column in columns),
        features=tuple(features),
        starts=0 if stable.found_by is None else stable.of + 1,
        clearest=nats.index(max(nats)) if nats else 0,
        absorbed=len(fit.chosen.absorbed),
        models=compare_models(samples, columns, q, fit.n_rows, len(features)) if samples else None,
        together=together_of([part.patterns for part in parts]) if len(features) > 1 else None,
        copies=copies if copies is not None and copies.too_many else None,
        imputed=sum(part.imputed for part in parts),
        cells=_test_of_cells(finished) if finished.fit is None else None,
        members=() if filling is None else tuple(_members(filling)),
        sweeps_to_fill=model.members.sweeps() if is_untaught else None,
    )
    return answer if finished.fit is None else _scored(answer, finished, finished.fit)


def _scored(answer: Answer, finished: Finished, record: RunRecord) -> Answer:
    """Return a score's answer, with the features as the fit describes them."""
    scored = replace(answer, scored=Scored(finished.files, finished.seen))
    fit: Answer | None = answer_of_fit(FeatureSettings, record)
    if fit is None:
        return scored
    features = (
        replace(old, share=new.share, sure=new.sure, at_fit=old.share)
        for old, new in zip(fit.features, answer.features, strict=True)
    )
    return replace(
        scored, features=tuple(features), starts=fit.starts, clearest=fit.clearest, cells=fit.cells
    )


def _column(column: Column) -> AnswersOfColumn:
    levels = dict(zip(column.levels, column.counts, strict=True))
    return AnswersOfColumn(column.name, column.shown, levels, column.missing)


def _test_of_cells(finished: Finished) -> CellTest | None:
    """Test the models on the run's table of hidden cells; None where none were hidden."""
    if all(part.hidden is None for part in finished.summaries):
        return None
    return evaluate_cells(storage.read_table(finished.paths.table("hidden", 0)))


def _members(filling: Completion) -> Iterator[Member]:
    """Yield the models that fill missing cells."""
    for name, weight, log_p in zip(MEMBERS, filling.weights, filling.log_p, strict=True):
        yield Member(name, float(weight), -float(log_p))
