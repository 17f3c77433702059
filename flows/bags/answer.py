"""Everything that a reader of a run of bags may see, as data: it is ``results`` of run.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import pdtrc

from flows.bags import models
from flows.bags.input.form import BagForm, read_form
from flows.bags.rivals import BY_SIZE
from flows.bags.rows import Kind, Rows, Which
from flows.bags.settings import GIB, BagSettings
from flows.bags.summary import Bag, Summary, joined, marks_by_name
from flows.evaluate.estimate import auroc_of_counts
from flows.evaluate.rivals import NUMBER, auroc_of
from flows.evaluate.tested import (
    CLEAR,
    ClassTest,
    LabelTest,
    NumberTest,
    of_classes,
    of_label,
    of_number,
)
from flows.evaluate.thresholds import Threshold, thresholds_of
from flows.family import Finished
from flows.report.answers import answer_of_fit
from vbmodels.bags.embedding.number import NumberEmbedding
from vbmodels.bags.stack.model import INSTANCES, PRIMARY
from vbmodels.core.state import FloatArray
from vbmodels.tables.levels import YES

Test = LabelTest | NumberTest | ClassTest
FEWEST, FEATURES = 5, 16
"""Instances from which what a feature adds to them is shown; features that are shown."""
IN_RECORD = 8
"""Bags of each list in run.json, as many as a terminal shows."""
TITLES = ("bag feature", "primary", "contribution", "linear")
"""Blocks of coefficients that are shown."""


@dataclass(frozen=True)
class Names:
    """What the user calls things: columns as given, and labels as the files write them."""

    bag: str
    instance: str
    label: str
    positive: str
    negative: str
    levels: tuple[str, ...]


@dataclass(frozen=True)
class Counts:
    """How many bags, instances, labels, positive ones and held-out bags there are."""

    bags: int
    instances: int
    labelled: int
    positive: int
    held_out: int


@dataclass(frozen=True)
class Likely:
    """Instances that probably make their bag positive: above 0.5, and expected.

    ``auroc`` is that of instances where their truth was given.
    """

    above_half: int
    expected: float
    auroc: float | None


@dataclass(frozen=True)
class Labels:
    """Clear bags with a label: how many disagree with it, and how many should.

    ``doubtful``: whether these are more than chance explains.
    """

    clear: int
    otherwise: int
    expected: float
    doubtful: bool


@dataclass(frozen=True)
class Expected:
    """Bags of a score in a range: how many are wrong by the model, and were so at the fit."""

    rows: int
    wrong: float
    fit_rows: int
    fit_wrong: int


@dataclass(frozen=True)
class Mark:
    """A feature that is foremost in so many likely instances.

    ``adds`` is the mean of what it adds there, ``here`` and ``there`` its means in likely instances
    and in others.
    """

    feature: str
    times: int
    adds: float
    here: float
    there: float


@dataclass(frozen=True)
class Point:
    """An instance in a picture of the two foremost features, and whether it is a likely one."""

    name: str
    x: float
    y: float
    likely: bool


@dataclass(frozen=True)
class Pool:
    """What a standard deviation of a feature's summaries in a bag adds, by summary, and in all."""

    feature: str
    together: float
    parts: dict[str, float]


@dataclass(frozen=True)
class Block:
    """The most certain coefficients of a block, with their standard deviations."""

    name: str
    of_class: str
    features: tuple[str, ...]
    mean: tuple[float, ...]
    sd: tuple[float, ...]


@dataclass(frozen=True)
class OfClass:
    """One of several classes: bags that have it and probably have it, and its AUROC."""

    name: str
    positive: int
    likely: int
    auroc: float | None


@dataclass(frozen=True)
class Fit:
    """The model itself.

    Attributes
    ----------
    members
        Weights of the models that were averaged.
    pools, blocks
        What features of bags add, and coefficients.
    r_hat, draws
        Of a sampler's chains: the largest R-hat, and the smallest number of effective draws.
    noise
        Standard deviation of a number's noise.
    memory
        GiB that the process of instances would take, where it was left out for that.
    empty_positive
        Positive bags without instances, where the model can learn nothing from them.
    """

    members: dict[str, float]
    pools: tuple[Pool, ...]
    blocks: tuple[Block, ...]
    r_hat: float | None
    draws: float | None
    noise: float | None
    memory: float | None
    empty_positive: int

    @property
    def weak_instances(self) -> float | None:
        """Weight of the member that gives instances their probabilities, where it is small."""
        weights = [w for name, w in self.members.items() if name in (INSTANCES, PRIMARY)]
        return max(weights) if weights and max(weights) < models.LEAST_WEIGHT else None


@dataclass(frozen=True)
class Answer:
    """What a run of bags found.

    Attributes
    ----------
    kind, names, counts
        What is predicted, what things are called, and how many there are.
    new, on, grouped
        Whether another fit is applied; on which bags it is tested; whether bags have groups.
    seen, files
        Files that the fit which is applied has read, of all.
    test, thresholds
        How well labels are predicted, and what other cuts than 0.5 miss; None where nothing new
        can be measured.
    tested_at_fit
        The same of the fit that is applied.
    base
        Share of positives, mean, or shares of levels and classes, of the fitted bags.
    spread
        Bags by probability in steps of 0.05: positive, then others, or all together.
    predicted
        Bags below, between and above the clear probabilities; or by predicted level or class.
    expected_positive
        Sum of the probabilities of bags.
    bags, of_bags
        The first bags of each list, and how many belong there.
    labels, likely, marks, marked
        Labels to check; likely instances and what marks them; of how many of them that is known.
    expected
        Clear, then unclear bags of a score without labels.
    classes
        Each of several classes.
    fit
        The model.
    points
        Some instances by the first two features of ``marks``.
    """

    kind: Kind
    names: Names
    counts: Counts
    new: bool
    on: Which
    grouped: bool
    seen: int
    files: int
    test: Test | None
    thresholds: tuple[Threshold, ...]
    tested_at_fit: Test | None
    base: tuple[float, ...]
    spread: tuple[tuple[int, ...], ...]
    predicted: tuple[int, ...]
    expected_positive: float
    bags: dict[str, tuple[Bag, ...]]
    of_bags: dict[str, int]
    labels: Labels | None
    likely: Likely | None
    marks: tuple[Mark, ...]
    marked: int
    expected: tuple[Expected, ...]
    classes: tuple[OfClass, ...]
    fit: Fit
    points: tuple[Point, ...] = ()

    @property
    def has_chances(self) -> bool:
        """Whether instances have probabilities."""
        listed = [bag for bags in self.bags.values() for bag in bags]
        return any(instance.chance is not None for bag in listed for instance in bag.instances)

    @property
    def by_size(self) -> float | None:
        """Share of the gain in log loss that the number of instances alone gives, if known."""
        if isinstance(self.test, LabelTest) and self.test.better:
            for rival in self.test.rivals:
                if rival.name == BY_SIZE:
                    return (self.test.base - rival.loss) / self.test.gain.value
        return None

    @property
    def is_useful(self) -> bool:
        """Whether predictions are not known to be no better than the base rate."""
        test = self.test or self.tested_at_fit
        return test is None or test.better

    def shortened(self) -> Answer:
        """Return it with the first bags of each list, and their first instances."""
        bags = {
            name: tuple(
                replace(
                    bag,
                    instances=tuple(
                        replace(instance, features=()) for instance in bag.instances[:3]
                    ),
                )
                for bag in listed[:IN_RECORD]
            )
            for name, listed in self.bags.items()
        }
        return replace(self, bags=bags, points=())


def answer(finished: Finished) -> Answer:
    """Make the answer from what a run has published."""
    settings, new = finished.settings, finished.fit is not None
    form, summary = read_form(finished.paths), joined(finished.summaries)
    kind = kind_of(settings, form)
    before: Answer | None = answer_of_fit(BagSettings, finished.fit)
    levels = settings.label_order or tuple(form.classes)
    rows = summary.rows
    on: Which = "held out" if rows.held.any() else "without"
    on = "new" if new else on
    base = base_of(kind, rows) if before is None else before.base
    test = None if finished.seen else tested(kind, rows, on, base)
    names = _names(settings, levels, summary.others, before)
    best, marks = rows.best, _marks(summary, form)
    at_fit = None if before is None else before.test
    return Answer(
        kind=kind,
        names=names,
        counts=_counts(rows, summary, len(levels)),
        new=new,
        on=on,
        grouped=rows.group.size > 0,
        seen=finished.seen,
        files=finished.files,
        test=test,
        thresholds=_thresholds(rows, on) if kind == "label" and test is not None else (),
        tested_at_fit=at_fit,
        base=base,
        spread=_spread(rows, on, test) if kind in ("label", "several") else (),
        predicted=_predicted(kind, best),
        expected_positive=float(best.sum()) if kind == "label" else 0.0,
        bags={
            name: tuple(entry.bag for entry in entries) for name, entries in summary.lists.items()
        },
        of_bags=summary.totals,
        labels=_labels(rows, new) if kind == "label" and not finished.seen else None,
        likely=_likely(summary),
        marks=marks,
        marked=summary.marked,
        points=_points(summary, marks, form) if len(marks) > 1 else (),
        expected=_expected(best, at_fit) if new and test is None and kind == "label" else (),
        classes=_classes(rows, names, on) if kind == "several" else (),
        fit=_fit(finished, form),
    )


def kind_of(settings: BagSettings, form: BagForm) -> Kind:
    """Return what is predicted."""
    if settings.numeric:
        return "levels" if settings.label_order else "number"
    if not form.classes:
        return "label"
    return "classes" if form.exclusive else "several"


def base_of(kind: Kind, rows: Rows) -> tuple[float, ...]:
    """Return what is predicted of every bag without looking at it, from the fitted labels."""
    fitted = rows.fitted
    if not fitted.size:
        return ()
    if kind == "number":
        return (float(fitted.mean()),)
    if kind in ("levels", "classes"):
        count = np.bincount(fitted.astype(int), minlength=rows.own.shape[1]) + 0.5
        return tuple((count / count.sum()).tolist())
    return (float((fitted.sum() + 0.5) / (fitted.size + 1.0)),)


def tested(kind: Kind, rows: Rows, on: Which, base: tuple[float, ...]) -> Test | None:
    """Test what is predicted of labels that it does not know; None where there are too few."""
    is_tested = rows.is_tested(on)
    truth, best = rows.label[is_tested], rows.best[is_tested]
    group = rows.group[is_tested] if rows.group.size else np.arange(truth.size)
    rivals = {
        name: p[is_tested] for name, p in rows.rivals.items() if not np.isnan(p[is_tested]).any()
    }
    if kind in ("label", "several"):
        if np.unique(truth).size < 2:
            return None
        share = base[0] if base else (truth.sum() + 0.5) / (truth.size + 1.0)
        return of_label(truth, best, np.full(truth.size, share), group, rivals)
    if truth.size < 2:
        return None
    if kind == "number":
        mean = np.full(truth.size, base[0] if base else truth.mean())
        if on == "without":
            mean = mean + (mean - truth) / max(rows.fitted.size - 1, 1)
        inside = ((truth >= rows.low[is_tested]) & (truth <= rows.high[is_tested])).astype(float)
        return of_number(truth, best, mean, group, rivals, NUMBER, inside)
    shares = np.array(base or [1.0 / best.shape[1]] * best.shape[1])
    return of_classes(
        truth, best, np.tile(shares, (truth.size, 1)), group, rivals, kind == "levels"
    )


def _thresholds(rows: Rows, on: Which) -> tuple[Threshold, ...]:
    """Return what thresholds miss among the bags that are tested."""
    is_tested = rows.is_tested(on)
    group = rows.group[is_tested] if rows.group.size else np.arange(is_tested.sum())
    thresholds = thresholds_of(rows.label[is_tested], rows.best[is_tested], group)
    return tuple(threshold for threshold in thresholds if threshold.matters)


def _names(
    settings: BagSettings, levels: tuple[str, ...], others: frozenset[str], before: Answer | None
) -> Names:
    """Call things as the files do; ``others`` are labels that are not positive."""
    columns = settings.columns
    positive, negative = settings.positive_name or "", "negative"
    if settings.numeric or positive.lower() in ("", *YES):
        positive = "positive"
    elif before is None:
        spelt = {label.strip().casefold(): label.strip() for label in sorted(others)}
        negative = next(iter(spelt.values())) if len(spelt) == 1 else f"not {positive}"
    else:
        positive, negative = before.names.positive, before.names.negative
    label = columns.get("label") or columns.get("labels") or "label"
    return Names(
        columns.get("bag_id", "bag"),
        columns.get("instance_id", "instance"),
        label,
        positive,
        negative,
        levels,
    )


def _counts(rows: Rows, summary: Summary, classes: int) -> Counts:
    per_bag = classes if rows.of_class.size else 1
    known = rows.label[rows.known]
    return Counts(
        bags=rows.label.size // per_bag,
        instances=summary.instances,
        labelled=known.size // per_bag,
        positive=int((known == 1.0).sum()),
        held_out=int(rows.held.sum()) // per_bag,
    )


def _spread(rows: Rows, on: Which, test: Test | None) -> tuple[tuple[int, ...], ...]:
    is_tested = rows.is_tested(on)
    every = np.ones(is_tested.size, bool)
    parts = [every] if test is None else [is_tested & (rows.label == side) for side in (1.0, 0.0)]
    return tuple(tuple(np.histogram(rows.best[part], 20, (0.0, 1.0))[0].tolist()) for part in parts)


def _predicted(kind: Kind, best: FloatArray) -> tuple[int, ...]:
    if kind == "number":
        return ()
    if best.ndim == 2:
        return tuple(np.bincount(best.argmax(axis=1), minlength=best.shape[1]).tolist())
    low, high = CLEAR
    sides = best <= low, (best > low) & (best < high), best >= high
    return tuple(int(side.sum()) for side in sides)


def _labels(rows: Rows, new: bool) -> Labels:
    """Count clear bags whose label is the other one, and those that should be by the model."""
    p, label = rows.best, rows.label
    unseen = rows.known & (new | rows.held | ~np.isnan(rows.without))
    clear = unseen & ((p <= CLEAR[0]) | (p >= CLEAR[1]))
    apart = int(((p > 0.5) != (label == 1.0))[clear].sum())
    expected = float(np.minimum(p, 1.0 - p)[clear].sum())
    doubtful = apart > 0 and bool(pdtrc(apart - 1, expected) < 0.05)  # of so many or more
    return Labels(int(clear.sum()), apart, expected, doubtful)


def _likely(summary: Summary) -> Likely | None:
    if summary.chances is None:
        return None
    above, expected = summary.chances.tolist()
    negative, positive = summary.truth
    area = auroc_of_counts(negative, positive) if negative.sum() and positive.sum() else None
    return Likely(int(above), expected, area)


def _marks(summary: Summary, form: BagForm) -> tuple[Mark, ...]:
    """Rank features by how many likely instances they are among the first in."""
    if summary.sums is None:
        return ()
    means: dict[str, list[float]] = {}
    for modality, sums in summary.sums.items():
        each = (sums[:, :-1] / np.maximum(sums[:, -1:], 1.0)).T.tolist()
        names = form.names or map(str, range(1, len(each) + 1))
        means |= {
            f"{modality} {name}".strip(): mean for name, mean in zip(names, each, strict=True)
        }
    marks = []
    for name in marks_by_name(summary.marks, FEWEST)[:FEATURES]:
        times, adds = summary.marks[name].tolist()
        marks.append(Mark(name, int(times), adds / times, *means[name]))
    return tuple(marks)


def _points(summary: Summary, marks: Sequence[Mark], form: BagForm) -> tuple[Point, ...]:
    """Return the sampled instances by the first two features that mark likely ones."""
    if (sample := summary.sample) is None or not form.names:
        return ()
    names = [f"{form.modalities[0]} {name}".strip() for name in form.names]
    x, y = (sample["features"][:, names.index(mark.feature)].tolist() for mark in marks[:2])
    return tuple(map(Point, sample["name"], x, y, (sample["chance"] > 0.5).tolist()))


def _expected(best: FloatArray, fit: Test | None) -> tuple[Expected, ...]:
    """Say of clear and of unclear bags how many are wrong by the model, and were at the fit."""
    unclear = (best > CLEAR[0]) & (best < CLEAR[1])
    doubt = np.minimum(best, 1.0 - best)
    bands = fit.bands if isinstance(fit, LabelTest) else ()
    sides = (~unclear, (bands[:1] + bands[2:])), (unclear, bands[1:2])
    return tuple(
        Expected(
            int(side.sum()),
            float(doubt[side].sum()),
            sum(band.rows for band in of_side),
            sum(band.wrong for band in of_side),
        )
        for side, of_side in sides
    )


def _classes(rows: Rows, names: Names, on: Which) -> tuple[OfClass, ...]:
    """Count each class, and say how well it is ranked."""
    classes = []
    for c, name in enumerate(names.levels):
        of_class = rows.of_class == c
        is_tested = of_class & rows.is_tested(on)
        classes.append(
            OfClass(
                name,
                int((rows.label[of_class] == 1.0).sum()),
                int((rows.best[of_class] > 0.5).sum()),
                auroc_of(rows.label[is_tested], rows.best[is_tested]) if is_tested.any() else None,
            )
        )
    return tuple(classes)


def _fit(finished: Finished, form: BagForm) -> Fit:
    q, model, settings = finished.q, finished.model, finished.settings
    trusted = models.trust(q)
    noise, unit = None, 1.0
    if isinstance(q, NumberEmbedding):
        unit = q.scale
        noise = float(q.scale * np.sqrt(q.noise.rate / q.noise.shape))
    empty = sum(int(part.notes.get("empty_positive", 0)) for part in finished.ingested)
    needed = models.memory_needed(q, settings)
    return Fit(
        members=models.weights_of(q),
        pools=_pools(q, unit, form) if models.pooled_counts(q) else (),
        blocks=_blocks(models.coefficients(model, q), form),
        r_hat=trusted.get("largest_r_hat"),
        draws=trusted.get("smallest_effective_draws"),
        noise=noise,
        memory=None if needed is None else needed / GIB,
        empty_positive=empty if settings.leakless else 0,
    )


def _pools(q: Any, unit: float, form: BagForm) -> tuple[Pool, ...]:
    """Rank features by what their summaries in a bag add together."""
    pools = []
    for modality, weights in zip(form.modalities, models.markers_of(q), strict=False):
        if not weights:
            continue
        table = unit * np.array(list(weights.values()))
        names = form.names if len(form.names) == table.shape[1] else ()
        together = np.abs(table).sum(axis=0)
        for d in np.argsort(-together, kind="stable")[:FEATURES].tolist():
            name = names[d] if names else str(d + 1)
            parts = dict(zip(weights, table[:, d].tolist(), strict=True))
            pools.append(Pool(f"{modality} {name}".strip(), float(together[d]), parts))
    return tuple(sorted(pools, key=lambda pool: -pool.together)[:FEATURES])


def _blocks(coefficients: Sequence[Any], form: BagForm) -> tuple[Block, ...]:
    """Return the most certain coefficients of each block that has a title."""
    blocks = []
    for block in coefficients:
        if block.name not in TITLES or not block.mean.size:
            continue
        order = np.argsort(-np.abs(block.mean) / np.maximum(block.sd, 1e-12), kind="stable")[
            :FEATURES
        ]
        modality = "" if block.modality is None else form.modalities[block.modality]
        named = block.modality is not None and len(form.names) == block.mean.size
        features = [form.names[i] if named else str(i + 1) for i in order.tolist()]
        blocks.append(
            Block(
                block.name,
                "" if block.of_class is None else form.classes[block.of_class],
                tuple(f"{modality} {name}".strip() for name in features),
                tuple(block.mean[order].tolist()),
                tuple(block.sd[order].tolist()),
            )
        )
    return tuple(blocks)
