"""What one partition of bags adds to the report: counts, and the bags that say most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.bags.markers import MOST_INSTANCES
from flows.report.baselines import Baseline
from vbmodels.core.state import BoolArray, FloatArray, IntArray

Instance = tuple[str, str, float | None, float | None, float | None]
"""Name, modality, P, contribution and bald, None where a model has none."""
Marker = tuple[str, float, float]
"""A feature, its value, and what it adds."""
EXAMPLES = 5  # bags of each sort
MOST_LISTED = 200  # bags of a score up to which each is shown
MOST_UNSURE = 60  # bags nearest to 0.5
MOST_WRONG = 20  # bags predicted otherwise than labelled
BINS = 2000


@dataclass(frozen=True)
class Example:
    """One bag with its most probable primary instances.

    ``markers`` are those of the instance with that name and modality.
    """

    bag_id: str
    label: int | None
    probability: float
    instances: tuple[Instance, ...]
    markers: dict[tuple[str, str], list[Marker]] = field(default_factory=dict)
    held_out: bool = False
    size: int = 0  # instances in all


@dataclass(frozen=True)
class BagSummary:
    """What one partition adds to the report.

    Attributes
    ----------
    label
        [B] 0, 1 or -1 of every bag, with its probability, without it where that is known, and
        whether it was held out.
    group
        Number of each bag's group, [B]; [0] where bags have none.
    without
        Probability of each fitted bag, predicted without it; NaN where it is not known, [B].
    truth
        [2, BINS] instances that are not and are primary in truth, by probability.
    examples
        Bags that the model is sure are positive, sure are negative, unsure of, and those farthest
        from their labels.
    expected_primary
        Sum of the instances' probabilities, of all bags and of those labelled 0, and how many are
        above 0.5; None where the model has none.
    of_class
        Name of the class that the labels are of, where there are several.
    exclusive
        Whether each bag has exactly one of these, so that their probabilities sum to one.
    marks
        By modality and feature, how many probably primary instances it is foremost in, and the sum
        of what it adds there, [2]; of these instances ``marked`` says how many there are.
    sums
        By modality, sums of each feature's values over its probably primary instances and over its
        others, with their numbers in a last column, [2, D + 1].
    baselines
        What simple baselines get on the bags held out; kept in the first partition's summary.
    """

    label: IntArray
    probability: FloatArray
    held_out: BoolArray
    group: IntArray
    without: FloatArray
    instances: int
    expected_primary: tuple[float, float, float] | None
    truth: IntArray
    modalities: tuple[str, ...]
    features: tuple[str, ...]
    new: bool
    examples: tuple[Example, ...]
    of_class: str | None = None
    exclusive: bool = False
    baselines: tuple[Baseline, ...] = ()
    marks: dict[str, FloatArray] = field(default_factory=dict)
    marked: int = 0
    sums: dict[str, FloatArray] | None = None

    @property
    def unseen(self) -> bool:
        """Whether every bag is predicted without its own label."""
        known = (self.label >= 0) & ~self.held_out & np.isnan(self.without)
        return self.new or not known.any()


def summarise(
    bags: pa.Table,
    instances: pa.Table,
    rows_known: pa.Table,
    modalities: tuple[str, ...],
    features: tuple[str, ...],
    *,
    new: bool,
    group: IntArray,
    show: tuple[str, ...] = (),
    of_class: str | None = None,
    exclusive: bool = False,
    markers: pa.Table | None = None,
    sums: dict[str, FloatArray] | None = None,
) -> BagSummary:
    """Summarise one partition's tables.

    Parameters
    ----------
    bags, instances
        Rows of the tables of these names.
    rows_known
        Each instance's bag, by number, and its truth.
    modalities, features
        Their names; of features none where lists hold them.
    new
        Whether the posterior comes from other data.
    group
        Of each bag, [B] or [0].
    show
        Bags that the report shows in any case.
    of_class
        Name of the class, where there are several.
    exclusive
        Whether each bag has exactly one of the classes.
    markers
        Rows of the table of this name, where the model gives any.
    sums
        See `BagSummary`.
    """
    without = bags["without_it"].fill_null(np.nan).to_numpy()
    probability = np.where(np.isnan(without), bags["probability"].to_numpy(), without)
    place = bags.column_names.index("probability")
    bags = bags.set_column(place, "probability", pa.array(probability))
    label = bags["label"].cast(pa.int64()).fill_null(-1).to_numpy()
    requested: Iterable[int] = (
        np.flatnonzero(np.isin(bags["bag_id"].to_numpy(), show)) if show else []
    )
    away = np.where(label < 0, 0.0, np.abs(probability - label))
    wrong = map(int, np.argsort(-away, kind="stable")[:MOST_WRONG])
    chosen = sorted({*_extreme(probability, EXAMPLES), *map(int, requested), *wrong})
    if new and bags.num_rows <= MOST_LISTED:
        chosen = [*range(bags.num_rows)]
    bag = rows_known["bag"].to_numpy()
    primary = instances["probability"].fill_null(np.nan).to_numpy()
    ranked = np.where(np.isnan(primary), instances["score"].to_numpy(), primary)
    known = rows_known["primary"].is_valid().to_numpy() & ~np.isnan(primary)
    true = rows_known["primary"].fill_null(False).to_numpy()
    truth = [
        np.histogram(primary[known & (true == value)], BINS, (0.0, 1.0))[0] for value in (0, 1)
    ]
    chance = None
    if not np.isnan(primary).any():
        in_negative = float(primary[label[bag] == 0].sum())
        chance = float(primary.sum()), in_negative, float(np.sum(primary > 0.5))
    marks, marked = _marks(instances, markers)
    return BagSummary(
        label=label,
        probability=probability,
        held_out=bags["held_out"].to_numpy(),
        group=group,
        without=without,
        instances=instances.num_rows,
        expected_primary=chance,
        truth=np.array(truth),
        modalities=modalities,
        features=features,
        new=new,
        examples=tuple(_example(i, bags, label, instances, bag, ranked, markers) for i in chosen),
        of_class=of_class,
        exclusive=exclusive,
        marks=marks,
        marked=marked,
        sums=sums,
    )


def _marks(instances: pa.Table, markers: pa.Table | None) -> tuple[dict[str, FloatArray], int]:
    """Return `BagSummary.marks` and ``marked`` from the tables of these names."""
    if markers is None or instances["probability"].null_count:
        return {}, 0
    keys = ["bag_id", "instance_id", "modality"]
    likely = instances.filter(pc.greater(instances["probability"], 0.5)).select(keys)
    # A join matches no nulls.
    tables = [one.set_column(2, "modality", one["modality"].fill_null(""))
              for one in (markers, likely)]  # fmt: skip
    found = tables[0].join(tables[1], keys, join_type="left semi")
    by = ["modality", "feature"]
    sums = found.group_by(by).aggregate([("adds", "count"), ("adds", "sum")])
    rows = np.column_stack([sums[name].to_numpy() for name in ("adds_count", "adds_sum")])
    names = zip(*(sums[name].to_pylist() for name in by), strict=True)
    marks = {f"{m} {f}".strip(): row for (m, f), row in zip(names, rows.astype(float), strict=True)}
    return marks, found.group_by(keys).aggregate([]).num_rows


def _extreme(probability: FloatArray, count: int) -> list[int]:
    """Number the most and the least probable bags and those nearest to one half."""
    order = np.argsort(-probability, kind="stable")
    unsure = np.argsort(np.abs(probability - 0.5), kind="stable")
    picked = [*order[:count], *order[-count:], *unsure[:MOST_UNSURE]]
    return sorted({int(i) for i in picked})


def _example(
    i: int,
    bags: pa.Table,
    label: IntArray,
    instances: pa.Table,
    bag: IntArray,
    ranked: FloatArray,
    markers: pa.Table | None = None,
) -> Example:
    return Example(
        bag_id=bags["bag_id"][i].as_py(),
        label=int(label[i]) if label[i] >= 0 else None,
        probability=bags["probability"][i].as_py(),
        instances=foremost_of(i, instances, bag, ranked),
        markers=markers_by_instance(bags["bag_id"][i].as_py(), markers),
        held_out=bags["held_out"][i].as_py(),
        size=int(np.searchsorted(bag, i + 1) - np.searchsorted(bag, i)),
    )


def foremost_of(
    i: int, instances: pa.Table, bag: IntArray, ranked: FloatArray
) -> tuple[Instance, ...]:
    """Return the instances of bag ``i`` that are ranked first."""
    first, last = np.searchsorted(bag, [i, i + 1])
    best = first + np.argsort(-ranked[first:last], kind="stable")[:MOST_INSTANCES]
    rows = instances.take(pa.array(best)).to_pylist()
    return tuple(
        (r["instance_id"], r["modality"] or "", r["probability"], r["contribution"], r["bald"])
        for r in rows
    )


def markers_by_instance(
    bag_id: str, markers: pa.Table | None
) -> dict[tuple[str, str], list[Marker]]:
    """Return the features that add most, by instance and modality."""
    found: dict[tuple[str, str], list[Marker]] = {}
    if markers is None:
        return found
    for row in markers.filter(pc.equal(markers["bag_id"], bag_id)).to_pylist():
        name = row["instance_id"], row["modality"] or ""
        found.setdefault(name, []).append((row["feature"], row["value"], row["adds"]))
    return found
