"""Everything that a reader of a run of experts may see, as data: ``results`` of run.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa

from flows import storage
from flows.evaluate.rivals import COUNT, NUMBER
from flows.evaluate.tested import (
    ClassTest,
    LabelTest,
    NumberTest,
    of_classes,
    of_label,
    of_number,
)
from flows.evaluate.thresholds import AT, Threshold, thresholds_of
from flows.experts.input.encoding import Encoding, Outside
from flows.experts.input.labels import EXPOSURE
from flows.experts.input.units import GROUP
from flows.experts.parts import (
    MOST_OF_CLASS,
    Chain,
    Effects,
    Expert,
    Part,
    chains_of,
    effects_shown,
    experts_in,
    parts_of,
)
from flows.experts.reasons import Row, Tested
from flows.experts.schema import model_column, probability_of
from flows.experts.scored import ALL, LISTED, WORST, AboutModel, Scored
from flows.experts.settings import ExpertSettings
from flows.experts.tested import BASE, OWN
from flows.family import Finished
from flows.records.runs import RunRecord
from flows.report.answers import answer_of_fit
from flows.tables.names import digests_of
from flows.tables.roles import WEIGHT, effective_size
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.experts.additive.model import AdditiveExperts
from vbmodels.experts.bmem.metropolis import SampledExperts
from vbmodels.tables.levels import NO, YES

Kind = Literal["label", "classes", "levels", "number", "count"]
Test = LabelTest | ClassTest | NumberTest
MOST_TESTED = 1_000_000
"""Tested rows that are measured: of more every second, every fourth, and so on."""
MOST_OUTSIDE = 20
GOOD, PERFECT, LEAST = 0.95, 0.999, 5
"""AUROC that a column may give away, that one does, and rows of each label that this takes."""
NEARLY_ALL = 0.8
"""Share of the score's variance from which on one column may give a good AUROC away."""


@dataclass(frozen=True)
class Names:
    """What the user calls things, as the file has them.

    Attributes
    ----------
    id, label
        Columns.
    positive, negative
        Of two labels.
    are_words
        Whether these say what they are: not so 1 and 0, yes and no.
    classes
        Of several, in their order.
    column
        Column of the table rows to sort by.
    """

    id: str
    label: str
    positive: str = ""
    negative: str = ""
    are_words: bool = False
    classes: tuple[str, ...] = ()
    column: str = ""


@dataclass(frozen=True)
class Counts:
    """Rows: all, those without a label, those fitted, and of these with the positive label.

    ``effective`` is how many rows of one weight would say as much, where rows are weighted.
    """

    rows: int
    unlabelled: int
    fitted: int
    positives: int
    effective: float | None


@dataclass(frozen=True)
class Clear:
    """Rows on one side that are clear: those in the fit's ranges, those outside, wrong ones."""

    rows: int
    outside: int
    expected_wrong: float


@dataclass(frozen=True)
class Listed:
    """Rows of a list, of so many."""

    rows: tuple[Row, ...]
    of: int


@dataclass(frozen=True)
class OfFit:
    """What the fit that a score applies has measured; see `Answer`."""

    test: Test | None
    thresholds: tuple[Threshold, ...]
    folds: int
    base: tuple[float, ...]


@dataclass(frozen=True)
class Answer:
    """The answer of a run.

    Attributes
    ----------
    kind
        What is predicted.
    names, counts
        What the user calls things, and numbers of rows.
    on
        Which rows are tested: new ones, held-out ones, or all by folds.
    folds
        How many there were.
    test, thresholds
        How well these rows are predicted; None where nothing is measured.
    base
        What is predicted of a row of which nothing is known: the share of the positive label or of
        each class, or the mean.
    spread
        Tested rows by probability, the positive ones first; of a score all rows.
    predicted, unclear
        Rows that are clearly not, unclear, and clearly positive; or by their most probable class,
        the most frequent first; rows of which no label is clear.
    clear
        Of a score of two labels: rows that are clearly positive, and clearly not.
    called
        Rows of a score at or above each of the fit's thresholds.
    ends
        Smallest and largest predicted number.
    lists
        Rows by the name of their list: worst, unclear, first, last, all.
    outside, outside_rows, outside_columns
        Numbers outside the fit's ranges, the first ones; how many rows have any, and by column.
    effects
        What columns add, to the one sum or to that of each class.
    parts
        What predicts, the largest weight first.
    experts, unsure_shares
        The mixture's, and whether their shares are hardly determined.
    chains, largest_r_hat
        A sampler's.
    repeated
        The column whose values have one label each, though rows of one are fitted and tested.
    giving_away
        The column that alone may make the predictions nearly perfect.
    seconds
        What fitting folds and other models took.
    files, seen
        Input files of a score, and those of them that the fit has read.
    fit
        Of a score.
    logged
        Whether it is a number of which the logarithm is fitted.
    """

    kind: Kind
    names: Names
    counts: Counts
    on: Literal["new", "held out", "folds"]
    folds: int
    test: Test | None
    thresholds: tuple[Threshold, ...]
    base: tuple[float, ...]
    spread: tuple[tuple[int, ...], ...]
    predicted: dict[str, int]
    unclear: int
    clear: tuple[Clear, ...]
    called: tuple[int, ...]
    ends: tuple[float, float] | None
    lists: dict[str, Listed]
    outside: tuple[Outside, ...]
    outside_rows: int
    outside_columns: dict[str, int]
    effects: tuple[Effects, ...]
    parts: tuple[Part, ...]
    experts: tuple[Expert, ...]
    unsure_shares: bool
    chains: tuple[Chain, ...]
    largest_r_hat: float | None
    repeated: str
    giving_away: str
    seconds: float
    files: int
    seen: int
    fit: OfFit | None
    logged: bool = False


def answer_of(finished: Finished) -> Answer:
    """Return the answer of a finished run."""
    scored: Sequence[Scored] = finished.summaries
    tested = scored[0].tested
    about = next(part.about for part in scored if part.about is not None)
    encoding, is_new = about.encoding, finished.fit is not None
    kind, of_fit = _kind_of(encoding), _of_fit(finished.fit)
    # Of input that the fit has read nothing is measured.
    rows = None if finished.seen else _tested_rows(finished, encoding, tested)
    base = () if of_fit is None else of_fit.base
    if rows is not None and BASE in rows.by_model:
        base = tuple(float(value) for value in rows.by_model[BASE].mean(axis=0))
    test = None if rows is None else _measure(rows, kind, base)
    is_label = isinstance(test, LabelTest)
    beyond = [part.beyond for part in scored if part.beyond is not None]
    thresholds = (
        thresholds_of(rows.truth, rows.by_model[OWN][:, 0], rows.group, rows.weight)
        if is_label and rows is not None
        else ()
    )
    called = _sum([part.called for part in scored])
    old = of_fit.thresholds if of_fit is not None and is_new else ()
    effects = () if is_new else _effects_of(about, kind)
    repeated = "" if is_new else encoding.repeated
    ends = min(part.ends[0] for part in scored), max(part.ends[1] for part in scored)
    clear = _sum([part.clear for part in scored]) if kind == "label" and is_new else ()
    answer = Answer(
        kind=kind,
        names=_names_of(encoding, kind, finished.settings),
        counts=_counts_of(finished, scored),
        on=_tested_on(is_new, tested),
        folds=0 if tested is None else tested.folds,
        test=test,
        thresholds=thresholds,
        base=base,
        spread=_spread_of(rows, scored, kind, is_new),
        predicted=_predicted_in(scored, encoding, kind),
        unclear=sum(part.unclear for part in scored),
        clear=tuple(
            Clear(int(rows - outside), int(outside), float(wrong)) for rows, wrong, outside in clear
        ),
        called=tuple(int(called[AT.index(cut.at)]) for cut in old) if called.size else (),
        ends=ends if kind in ("number", "count") and ends[0] <= ends[1] else None,
        lists=_lists_of(scored, tested, is_new),
        outside=tuple(cell for part in beyond for cell in part.some)[:MOST_OUTSIDE],
        outside_rows=sum(part.rows for part in beyond),
        outside_columns=dict(sum((Counter(part.columns) for part in beyond), Counter())),
        effects=effects,
        parts=(),
        experts=(),
        unsure_shares=False,
        chains=(),
        largest_r_hat=None,
        repeated=repeated,
        giving_away=_giving_away(test, effects) if is_label and not repeated else "",
        seconds=0.0 if tested is None else tested.seconds,
        files=finished.files,
        seen=finished.seen,
        fit=of_fit,
        logged=encoding.target is not None and encoding.target.logged,
    )
    return answer if is_new else _with_model(answer, finished, scored, about)


def _with_model(
    answer: Answer, finished: Finished, scored: Sequence[Scored], about: AboutModel
) -> Answer:
    """Add what is known of the model."""
    model, q = finished.model, finished.q
    chains: tuple[Chain, ...] = ()
    experts: tuple[Expert, ...] = ()
    largest, unsure = None, False
    if isinstance(model, SampledExperts):
        chains, largest = chains_of(model.diagnose(q))
    shares = [part.shares for part in scored if part.shares is not None]
    only = isinstance(model, AdditiveExperts) and not q.points
    if shares and not only:
        rows = answer.counts.rows
        experts, unsure = experts_in(model.posterior(q), shares, about.columns, rows)
    return replace(
        answer,
        parts=parts_of(model, q),
        experts=experts,
        unsure_shares=unsure,
        chains=chains,
        largest_r_hat=largest,
    )


def _kind_of(encoding: Encoding) -> Kind:
    if encoding.target is not None:
        return "count" if encoding.target.count else "number"
    if len(encoding.labels) == 2:
        return "label"
    return "levels" if encoding.ordered else "classes"


def _names_of(encoding: Encoding, kind: Kind, settings: ExpertSettings) -> Names:
    name, label = (settings.columns.get(role, role) for role in ("id", "label"))
    if kind in ("number", "count"):
        return Names(name, label, column="predicted")
    if kind != "label":
        return Names(name, label, classes=tuple(encoding.labels), column="predicted")
    negative, positive = encoding.labels
    words = positive.isalpha() and positive.lower() not in (*YES, *NO)
    return Names(name, label, positive, negative, words, column=probability_of(positive))


def _counts_of(finished: Finished, scored: Sequence[Scored]) -> Counts:
    notes = [part.notes for part in finished.ingested]
    return Counts(
        rows=sum(part.rows for part in scored),
        unlabelled=int(sum(note["unlabelled"] for note in notes)),
        fitted=sum(part.fitted for part in scored),
        positives=sum(part.positives for part in scored),
        effective=effective_size(notes, finished.settings),
    )


def _tested_on(is_new: bool, tested: Tested | None) -> Literal["new", "held out", "folds"]:
    if is_new:
        return "new"
    return "folds" if tested is not None and tested.folds else "held out"


def _of_fit(record: RunRecord | None) -> OfFit | None:
    """Return what a fit has measured; None where its record is one of another version."""
    fit: Answer | None = answer_of_fit(ExpertSettings, record)
    return None if fit is None else OfFit(fit.test, fit.thresholds, fit.folds, fit.base)


@dataclass(frozen=True)
class _Rows:
    """Tested rows: labels as numbers, weights, groups, and predictions [n, W] by model."""

    truth: FloatArray
    weight: FloatArray
    group: IntArray
    ends: FloatArray
    by_model: dict[str, FloatArray]

    def take(self, rows: slice | np.ndarray) -> _Rows:
        """Return some of them."""
        by_model = {name: values[rows] for name, values in self.by_model.items()}
        return _Rows(
            self.truth[rows], self.weight[rows], self.group[rows], self.ends[rows], by_model
        )


def _tested_rows(finished: Finished, encoding: Encoding, tested: Tested | None) -> _Rows | None:
    """Read tested rows from the published tables; of very many, some."""
    step, parts = 1, list[_Rows]()
    for part in _read(finished, encoding, tested):
        parts.append(part.take(slice(None, None, step)))
        if sum(part.truth.size for part in parts) > MOST_TESTED:
            step, parts = 2 * step, [part.take(slice(None, None, 2)) for part in parts]
    if sum(part.truth.size for part in parts) < 2:
        return None
    truth, weight, group, ends = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("truth", "weight", "group", "ends")
    )
    by_model = {
        name: np.concatenate([part.by_model[name] for part in parts]) for name in parts[0].by_model
    }
    return _Rows(truth, weight / weight.mean(), group, ends, by_model)


def _read(finished: Finished, encoding: Encoding, tested: Tested | None) -> Iterator[_Rows]:
    if finished.fit is None and tested is None:
        return
    columns = _columns_of(encoding, tested)
    for index in range(len(finished.summaries)):
        name = "rows" if tested is None else "tested"
        table = storage.read_table(finished.paths.table(name, index))
        group = _groups_of(table) if tested is None else table["unit"].to_numpy()
        truth = _truth_in(table, encoding)
        weight = table[WEIGHT].to_numpy() if WEIGHT in table.column_names else np.ones(len(truth))
        ends = np.empty((len(truth), 0))
        if encoding.target is not None:
            ends = np.column_stack([table["low"], table["high"]])
        by_model = {
            model: np.column_stack([table[column] for column in names])
            for model, names in columns.items()
        }
        if tested is None and EXPOSURE in table.column_names and encoding.target is not None:
            by_model[BASE] = encoding.target.mean * encoding.target.exposures(table)[:, None]
        yield _Rows(truth, weight, group, ends, by_model).take(~np.isnan(truth) & (weight > 0.0))


def _columns_of(encoding: Encoding, tested: Tested | None) -> dict[str, list[str]]:
    """Return the columns of each model's predictions: of tested rows, or of those of a score."""
    several = len(encoding.labels) > 2
    if tested is not None:
        labels = encoding.labels if several else [""]
        return {model: [model_column(model, label) for label in labels] for model in tested.models}
    if encoding.target is not None:
        return {OWN: ["predicted"]}
    first = 0 if several else 1
    return {OWN: [probability_of(label) for label in encoding.labels[first:]]}


def _truth_in(table: pa.Table, encoding: Encoding) -> FloatArray:
    if encoding.target is not None:
        return np.asarray(table["label"].to_numpy(), float)
    codes = encoding.classes.of_rows(table["label"].combine_chunks())
    return np.where(codes < 0, np.nan, codes)


def _groups_of(rows: pa.Table) -> IntArray:
    """Return the numbers of rows' groups; a row without one is alone."""
    names = rows["id"].to_pylist()
    if GROUP not in rows.column_names:
        return digests_of(names)
    groups = rows[GROUP].to_pylist()
    return digests_of(
        [name if group is None else group for group, name in zip(groups, names, strict=True)]
    )


def _measure(rows: _Rows, kind: Kind, base: tuple[float, ...]) -> Test | None:
    """Test what is predicted; None where all tested rows have one label."""
    predicted, truth, group = rows.by_model[OWN], rows.truth, rows.group
    rivals = {name: values for name, values in rows.by_model.items() if name not in (OWN, BASE)}
    if kind in ("classes", "levels"):
        shares = base or np.bincount(truth.astype(int), minlength=predicted.shape[1]) / truth.size
        same = rows.by_model.get(BASE, np.tile(shares, (truth.size, 1)))
        return of_classes(truth, predicted, same, group, rivals, kind == "levels", rows.weight)
    same = rows.by_model.get(BASE, np.full((truth.size, 1), base[0] if base else truth.mean()))
    theirs = {name: values[:, 0] for name, values in rivals.items()}
    if kind == "label":
        if np.unique(truth).size < 2:
            return None
        return of_label(truth, predicted[:, 0], same[:, 0], group, theirs, rows.weight)
    inside = ((rows.ends[:, 0] <= truth) & (truth <= rows.ends[:, 1])).astype(float)
    target = COUNT if kind == "count" else NUMBER
    return of_number(truth, predicted[:, 0], same[:, 0], group, theirs, target, inside, rows.weight)


def _sum(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.asarray(np.sum(parts, axis=0))


def _spread_of(
    rows: _Rows | None, scored: Sequence[Scored], kind: Kind, is_new: bool
) -> tuple[tuple[int, ...], ...]:
    """Count rows by probability: tested ones by their label, or all of a score."""
    if kind == "label" and rows is not None:
        p, bins = rows.by_model[OWN][:, 0], len(scored[0].spread) // 2
        counts = [np.histogram(p[rows.truth == label], bins, (0.0, 1.0))[0] for label in (1.0, 0.0)]
        return tuple(tuple(counted.tolist()) for counted in counts)
    if kind in ("number", "count") or not is_new:
        return ()
    return (tuple(_sum([part.spread for part in scored]).tolist()),)


def _predicted_in(scored: Sequence[Scored], encoding: Encoding, kind: Kind) -> dict[str, int]:
    counts = [int(count) for count in _sum([part.predicted for part in scored])]
    if kind == "label":
        return dict(zip(("negative", "unclear", "positive"), counts, strict=True))
    pairs = zip(encoding.labels, counts, strict=True)
    return dict(sorted(pairs, key=lambda pair: -pair[1]))


def _lists_of(scored: Sequence[Scored], tested: Tested | None, is_new: bool) -> dict[str, Listed]:
    """Merge the lists of partitions; a score of few rows has one of all."""
    names = list(dict.fromkeys(name for part in scored for name in part.lists))
    every = {
        name: sorted(
            (row for part in scored for row in part.lists.get(name, ())), key=lambda o: o[0]
        )
        for name in names
    }
    if tested is not None and tested.worst:
        every["worst"] = list(tested.worst)
    total, unclear = sum(part.rows for part in scored), sum(part.unclear for part in scored)
    lists = {}
    for name, rows in every.items():
        n_rows, most = total, LISTED
        if name == "worst":
            n_rows, most = len(rows), WORST
        elif name == "unclear":
            n_rows, most = unclear, min(unclear, LISTED)
        elif name == "first" and total <= ALL:
            most = ALL
        if rows[:most]:
            lists[name] = Listed(tuple(row for _, row in rows[:most]), n_rows)
    if is_new and total <= ALL and "first" in lists:
        lists["all"] = lists.pop("first")
        lists.pop("last", None)
    return lists


def _effects_of(about: AboutModel, kind: Kind) -> tuple[Effects, ...]:
    if kind in ("classes", "levels"):
        splits = zip(about.encoding.splits, about.effects, strict=True)
        shown = [effects_shown(effects, of=split, most=MOST_OF_CLASS) for split, effects in splits]
    else:
        shown = [effects_shown(about.effects[0], about.pairs, about.groups)]
    return tuple(effects for effects in shown if effects is not None)


def _giving_away(test: Test | None, effects: Sequence[Effects]) -> str:
    """Return the column that may give the label away, where predictions are nearly perfect."""
    if not isinstance(test, LabelTest) or not effects:
        return ""
    fewer = min(test.positives, test.rows - test.positives)
    squares = [strength**2 for strength in effects[0].strengths.values()]
    if test.auroc.value < GOOD or fewer < LEAST:
        return ""
    if test.auroc.value < PERFECT and squares[0] < NEARLY_ALL * sum(squares):
        return ""
    return next(iter(effects[0].strengths))
