"""What one partition of bags adds to an answer: counts, and the bags that are listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.bags.rows import (
    MOST_INSTANCES,
    Kind,
    Rows,
    floats,
    joined_rows,
    rank_of,
    rows_of,
    without_or,
)
from flows.evaluate.tested import CLEAR
from vbmodels.core.state import BoolArray, FloatArray, IntArray

LISTED, MOST, APART, SHOWN = 200, 60, 20, 5
"""Bags of a score up to which all are listed; unclear, disagreeing and other bags of a list."""
BINS, MOST_SPELLINGS = 2000, 20
Sampled = dict[str, np.ndarray]
"""Instances that a picture shows: ``name`` and ``chance`` [s], ``features`` [s, D]."""
KEYS = ["bag_id", "instance_id", "modality"]


@dataclass(frozen=True)
class Feature:
    """A feature of an instance, its value, and what it adds."""

    name: str
    value: float
    adds: float


@dataclass(frozen=True)
class Instance:
    """An instance of a bag; ``chance`` and ``adds`` are None where the model has none."""

    name: str
    modality: str
    chance: float | None
    adds: float | None
    features: tuple[Feature, ...]


@dataclass(frozen=True)
class Bag:
    """A bag that is listed, or one label of it.

    Attributes
    ----------
    name, of_class
        Its name, and the class that the label is of, or that is predicted.
    predicted, low, high
        A probability or a number, without the bag's own label where that is known, with its
        interval.
    label, given
        The label as a number, and as the files write it; a class or a level by its name.
    level
        The predicted level.
    held_out, size
        Whether its label was held out, and how many instances it has.
    """

    name: str
    of_class: str
    predicted: float
    low: float | None
    high: float | None
    label: float | None
    given: str
    level: str
    held_out: bool
    size: int
    instances: tuple[Instance, ...]


@dataclass(frozen=True)
class Ranked:
    """A bag of a list, with its place: the smallest first."""

    rank: float
    bag: Bag


@dataclass(frozen=True)
class Tables:
    """Published rows of one partition and one class; each instance's bag and truth in ``known``."""

    bags: pa.Table
    instances: pa.Table
    markers: pa.Table | None
    known: pa.Table
    of_class: str = ""


@dataclass(frozen=True)
class Columns:
    """What lists go by, [n]: a row is a bag, or with several classes a label of a bag.

    Attributes
    ----------
    table, row
        Which class's tables it is in, and which row of these.
    predicted, label
        As of `Bag`; NaN where there is none.
    apart
        Whether its label is clearly another one than predicted, by what does not know it.
    unsure
        How unclear the prediction is, the most the smallest; infinite where it is clear.
    """

    table: IntArray
    row: IntArray
    predicted: FloatArray
    label: FloatArray
    apart: BoolArray
    unsure: FloatArray


@dataclass(frozen=True)
class Summary:
    """What one partition adds to an answer, beyond the columns of the table bags.

    Attributes
    ----------
    rows, instances
        What is tested, and how many instances there are.
    others
        Labels that are not positive, as the files write them: `MOST_SPELLINGS` of a partition.
    lists, totals
        The first bags of each list, and how many belong there.
    chances
        Probabilities of instances: how many are above 0.5, and their sum; None where instances have
        none.
    truth
        Instances that are not and are primary in truth, by probability, [2, BINS].
    rivals
        What simpler models predict of all bags; kept in the first partition's summary.
    marks
        By modality and feature, in how many likely instances it is among the first, and the sum
        of what it adds there, [2].
    marked
        How many of these instances there are.
    sums, sample
        See `flows.bags.scored.feature_sums` and `sample_of`.
    """

    rows: Rows
    instances: int
    others: frozenset[str]
    lists: dict[str, tuple[Ranked, ...]]
    totals: dict[str, int]
    chances: FloatArray | None
    truth: IntArray
    marks: dict[str, FloatArray] = field(default_factory=dict)
    marked: int = 0
    sums: dict[str, FloatArray] | None = None
    sample: Sampled | None = None
    rivals: dict[str, FloatArray] = field(default_factory=dict)


def summarise(
    kind: Kind,
    tables: Sequence[Tables],
    new: bool,
    show: Sequence[str],
    levels: Sequence[str],
    sums: dict[str, FloatArray] | None = None,
    sample: Sampled | None = None,
) -> Summary:
    """Summarise one partition.

    Parameters
    ----------
    kind, tables
        What is predicted, and the partition's tables, class by class.
    new
        Whether the posterior comes from other bags.
    show
        Bags that are listed in any case.
    levels
        Levels in their order, or classes.
    sums, sample
        See `Summary`.
    """
    tables_of_bags = [table.bags for table in tables]
    tested = rows_of(kind, pa.concat_tables(tables_of_bags), levels)
    columns = columns_of(kind, tested, tables_of_bags, new)
    ranks = _ranks(kind, columns, tables, new, show)
    first = {name: np.argsort(rank, kind="stable")[: _most(name)] for name, rank in ranks.items()}
    totals = {name: int(np.isfinite(rank).sum()) for name, rank in ranks.items()}
    first = {name: rows[: totals[name]] for name, rows in first.items()}
    wanted = np.unique(np.concatenate([*first.values(), np.zeros(0, np.int64)]))
    bags = _bags(kind, tested, columns, tables, wanted, levels)
    lists = {
        name: tuple(Ranked(float(ranks[name][i]), bags[i]) for i in rows.tolist())
        for name, rows in first.items()
    }
    table = tables[0]
    chance = floats(table.instances["probability"])
    marks, marked = _marks(table)
    return Summary(
        rows=tested,
        instances=len(table.instances),
        others=_others(table.bags) if kind == "label" else frozenset(),
        lists=lists,
        totals=totals,
        chances=_chances(chance) if kind == "label" else None,
        truth=_truth(chance, table.known),
        marks=marks,
        marked=marked,
        sums=sums,
        sample=sample,
    )


def joined(parts: Sequence[Summary]) -> Summary:
    """Join the summaries of all partitions."""
    names = list(dict.fromkeys(name for part in parts for name in part.lists))
    if sum(part.rows.label.size for part in parts) > LISTED:
        names = [name for name in names if name != "all"]
    every = {
        name: [entry for part in parts for entry in part.lists.get(name, ())] for name in names
    }
    marks: dict[str, FloatArray] = {}
    for part in parts:
        for name, counts in part.marks.items():
            marks[name] = marks.get(name, np.zeros(2)) + counts
    chances = [part.chances for part in parts if part.chances is not None]
    sums = [part.sums for part in parts if part.sums is not None]
    samples = [part.sample for part in parts if part.sample is not None]
    return Summary(
        rows=joined_rows([part.rows for part in parts], parts[0].rivals),
        instances=sum(part.instances for part in parts),
        others=frozenset().union(*(part.others for part in parts)),
        lists={
            name: tuple(
                sorted(entries, key=lambda entry: (entry.rank, entry.bag.name))[: _most(name)]
            )
            for name, entries in every.items()
            if entries
        },
        totals={name: sum(part.totals.get(name, 0) for part in parts) for name in names},
        chances=np.sum(chances, axis=0) if len(chances) == len(parts) else None,
        truth=np.sum([part.truth for part in parts], axis=0),
        marks=marks,
        marked=sum(part.marked for part in parts),
        sums={
            modality: np.sum([of_part[modality] for of_part in sums], axis=0)
            for modality in sums[0]
        }
        if sums
        else None,
        sample=(
            {key: np.concatenate([of_part[key] for of_part in samples]) for key in samples[0]}
            if samples
            else None
        ),
    )


def columns_of(kind: Kind, rows: Rows, bags: Sequence[pa.Table], new: bool) -> Columns:
    """Return what lists go by, from the table bags, class by class."""
    predicted, label, size = rows.best, rows.label, len(bags[0])
    if kind == "levels":
        predicted, label = without_or(bags[0], "predicted", "without_it"), rows.label + 1.0
    table = np.repeat(np.arange(len(bags)), size)
    unsure = np.full(len(label), np.inf)
    if kind == "number":
        apart = (label < rows.low) | (label > rows.high)
    elif kind == "levels":
        apart = rows.best.argmax(axis=1) != rows.label
    elif kind == "classes":
        table, predicted = predicted.argmax(axis=1), predicted.max(axis=1)
        apart, unsure = label != table, np.where(predicted < CLEAR[1], predicted, np.inf)
    else:
        apart, middle = np.abs(predicted - label) >= CLEAR[1], np.abs(predicted - 0.5)
        unsure = np.where((predicted > CLEAR[0]) & (predicted < CLEAR[1]), middle, np.inf)
    apart &= rows.known & (new | rows.is_unseen)
    row = np.arange(len(label)) % max(size, 1)
    return Columns(table, row, predicted, label, apart, unsure)


def _ranks(
    kind: Kind, columns: Columns, tables: Sequence[Tables], new: bool, show: Sequence[str]
) -> dict[str, FloatArray]:
    """Return the place of each row in each list that has any; infinite where it is in none."""
    p, away = columns.predicted, np.abs(columns.predicted - columns.label)
    ids = tables[0].bags["bag_id"].to_numpy(zero_copy_only=False)[columns.row]
    places = {name: float(i) for i, name in enumerate(show)}
    ranks = {
        "requested": np.array([places.get(name, np.inf) for name in ids]),
        "unclear": columns.unsure,
        "otherwise": np.where(columns.apart, -p if kind == "classes" else -away, np.inf),
        "most": -p,
        "least": p,
    }
    if kind == "label":
        ranks["below"] = np.where(p <= CLEAR[0], -p, np.inf)
    if kind == "classes":
        del ranks["least"]
    if new and p.size <= LISTED:
        ranks["all"] = -p
    return {name: rank for name, rank in ranks.items() if np.isfinite(rank).any()}


def _most(name: str) -> int:
    return {"unclear": MOST, "otherwise": APART, "all": LISTED, "requested": LISTED}.get(
        name, SHOWN
    )


def _bags(
    kind: Kind,
    tested: Rows,
    columns: Columns,
    tables: Sequence[Tables],
    wanted: IntArray,
    levels: Sequence[str],
) -> dict[int, Bag]:
    """Return the bags of some rows, by row; each table is read once."""
    bags: dict[int, Bag] = {}
    for t in np.unique(columns.table[wanted]).tolist():
        table, rows = tables[t], wanted[columns.table[wanted] == t]
        records = table.bags.take(pa.array(columns.row[rows])).to_pylist()
        instances = _foremost(kind, table, columns.row[rows])
        for i, record, of_bag in zip(rows.tolist(), records, instances, strict=True):
            first, last = np.searchsorted(
                table.known["bag"].to_numpy(), columns.row[i] + np.arange(2)
            )
            label = _number_or_none(columns.label[i])
            label_text = record.get("label_given") or record.get("level") or ""
            if kind == "classes" and label is not None:
                label_text = tables[int(label)].of_class
            level = levels[int(tested.best[i].argmax())] if kind == "levels" else ""
            bags[i] = Bag(
                name=record["bag_id"],
                of_class=table.of_class,
                predicted=float(columns.predicted[i]),
                low=_number_or_none(tested.low[i]),
                high=_number_or_none(tested.high[i]),
                label=label,
                given=label_text,
                level=level,
                held_out=record["held_out"],
                size=int(last - first),
                instances=of_bag,
            )
    return bags


def _foremost(kind: Kind, table: Tables, rows: IntArray) -> list[tuple[Instance, ...]]:
    """Return the first instances of some bags, with their features."""
    instances, bag = table.instances, table.known["bag"].to_numpy()
    rank, best = rank_of(instances, kind in ("number", "levels")), []
    for row in rows.tolist():
        first, last = np.searchsorted(bag, [row, row + 1])
        best.append(first + np.argsort(-rank[first:last], kind="stable")[:MOST_INSTANCES])
    records = instances.take(pa.array(np.concatenate(best))).to_pylist()
    features = _features(table.markers, table.bags["bag_id"].take(pa.array(rows)))
    ends = np.cumsum([of_bag.size for of_bag in best]).tolist()
    return [
        tuple(
            Instance(
                record["instance_id"],
                record["modality"] or "",
                record["probability"],
                record["contribution"],
                tuple(
                    features.get((record["bag_id"], record["instance_id"], record["modality"]), ())
                ),
            )
            for record in records[end - of_bag.size : end]
        )
        for of_bag, end in zip(best, ends, strict=True)
    ]


def _features(
    markers: pa.Table | None, bags: pa.ChunkedArray
) -> dict[tuple[str, str, str | None], list[Feature]]:
    """Return the features of the instances of some bags, in one pass over the table markers."""
    by_instance: dict[tuple[str, str, str | None], list[Feature]] = {}
    if markers is None:
        return by_instance
    records = markers.filter(pc.is_in(markers["bag_id"], bags.combine_chunks())).to_pylist()
    for record in records:
        key = record["bag_id"], record["instance_id"], record["modality"]
        by_instance.setdefault(key, []).append(
            Feature(record["feature"], record["value"], record["adds"])
        )
    return by_instance


def _marks(part: Tables) -> tuple[dict[str, FloatArray], int]:
    """Return `Summary.marks` and ``marked``."""
    if part.markers is None or part.instances["probability"].null_count:
        return {}, 0
    likely = part.instances.filter(pc.greater(part.instances["probability"], 0.5)).select(KEYS)
    # A join matches no nulls.
    tables = [
        table.set_column(2, "modality", table["modality"].fill_null(""))
        for table in (part.markers, likely)
    ]
    matched = tables[0].join(tables[1], KEYS, join_type="left semi")
    by = ["modality", "feature"]
    sums = matched.group_by(by).aggregate([("adds", "count"), ("adds", "sum")]).to_pylist()
    marks = {
        f"{entry['modality']} {entry['feature']}".strip(): np.array(
            [entry["adds_count"], entry["adds_sum"]], float
        )
        for entry in sums
    }
    return marks, matched.group_by(KEYS).aggregate([]).num_rows


def _chances(chance: FloatArray) -> FloatArray | None:
    """Return `Summary.chances`, of probabilities of instances."""
    unknown = bool(np.isnan(chance).any())
    return None if unknown else np.array([np.sum(chance > 0.5), chance.sum()])


def _others(bags: pa.Table) -> frozenset[str]:
    """Return `Summary.others`."""
    spellings = pc.unique(bags.filter(pc.equal(bags["label"], 0))["label_given"]).drop_null()
    return frozenset(spellings[:MOST_SPELLINGS].to_pylist())


def _truth(chance: FloatArray, known: pa.Table) -> IntArray:
    """Count instances of known truth by their probability, [2, BINS]."""
    is_known = known["primary"].is_valid().to_numpy() & ~np.isnan(chance)
    true = known["primary"].fill_null(False).to_numpy()
    counts = [
        np.histogram(chance[is_known & (true == side)], BINS, (0.0, 1.0))[0] for side in (0, 1)
    ]
    return np.array(counts)


def _number_or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def marks_by_name(marks: Mapping[str, FloatArray], least: int) -> list[str]:
    """Return features of at least so many likely instances, the most frequent first."""
    frequent = [name for name, sums in marks.items() if sums[0] >= least]
    return sorted(frequent, key=lambda name: (-marks[name][0], -marks[name][1], name))
