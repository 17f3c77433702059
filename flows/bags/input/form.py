"""The form that all partitions of a run of bags share, and what it lets expect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pydantic import Field

from flows import storage
from flows.bags.input import instances as instances_of
from flows.bags.input import labels as bag_classes
from flows.bags.input.groups import Groups
from flows.bags.settings import BagSettings
from flows.faults import Fault, InputError
from flows.records import json_files
from flows.records.runs import RunPaths
from flows.records.states import read_state
from flows.tables.column_table import doubtful_numbers, numbers_in_text
from flows.tables.names import listed
from flows.tables.roles import merge_seen
from vbmodels.bags.bags import UNLABELLED, Bags, few_bags
from vbmodels.bags.multilabel import (
    FEWER_WORDS,
    MOST_WORDS,
    MultiLabelBags,
    unit_rows,
)
from vbmodels.core.state import BoolArray, FloatArray, to_bytes
from vbmodels.tables.columns import Rule
from vbmodels.tables.seen import Seen

MEASURED = 10_000
"""Rows of a partition that a spread is taken of."""
FEWEST_GAPS = 5
"""Instances with and without a feature's value from which its gaps have a column of their own."""


class BagForm(json_files.Form):
    """The modalities, their numbers of features, those of a bag itself, and the classes.

    ``exclusive``: whether each labelled bag has exactly one of several classes. ``fill`` are the
    means that missing features of each modality are set to, and ``indicators`` the numbers of the
    features with a further column, behind all others, that is 1 where the feature is missing;
    ``names`` are those of all columns, none where lists hold the features.
    """

    modalities: list[str]
    widths: list[int]
    own: int
    classes: list[str] = Field(default_factory=list)
    exclusive: bool = False
    fill: list[list[float]] = Field(default_factory=list)
    indicators: list[list[int]] = Field(default_factory=list)
    names: list[str] = Field(default_factory=list)


UNNAMED = "one without a name"
_SAME_COLUMNS = "score data with the same columns, or fit it in a new run"


class FeatureSums(NamedTuple):
    """Of a modality: the sum of each feature, how many of it are missing, and all instances."""

    total: list[float]
    gaps: list[int]
    rows: int

    @classmethod
    def of(cls, features: np.ndarray) -> FeatureSums:
        """Sum the features of instances [n, D]."""
        missing = np.isnan(features)
        total = np.where(missing, 0.0, features).sum(axis=0, dtype=np.float64)
        return cls(total.tolist(), missing.sum(axis=0).tolist(), len(features))

    def plus(self, other: FeatureSums) -> FeatureSums:
        """Add those of other instances; where there are none, no feature is known."""
        if not (self.total and other.total):
            return self if self.total else other
        total, gaps = np.add(self.total, other.total), np.add(self.gaps, other.gaps)
        return FeatureSums(total.tolist(), gaps.tolist(), self.rows + other.rows)


class AboutBags(json_files.Form):
    """What ingest says of a partition; the sum of two is that of both.

    Attributes
    ----------
    sums
        By modality.
    own
        Features of a bag itself.
    classes, exclusive
        As of `BagForm`.
    words
        Columns of text, of more than can be fitted; else 0.
    numbers, labels
        What columns of text hold that are read as numbers; rows of each label that is a word.
    bags, split
        Bags, and those with instances in several files.
    """

    sums: dict[str, FeatureSums]
    own: int = 0
    classes: list[str] = Field(default_factory=list)
    exclusive: bool = True
    words: int = 0
    numbers: dict[str, Seen] = Field(default_factory=dict)
    labels: dict[str, int] = Field(default_factory=dict)
    bags: int = 0
    split: int = 0

    def __add__(self, other: AboutBags) -> AboutBags:
        none = FeatureSums([], [], 0)
        names = sorted(self.sums.keys() | other.sums.keys())
        return AboutBags(
            sums={n: self.sums.get(n, none).plus(other.sums.get(n, none)) for n in names},
            own=max(self.own, other.own),
            classes=sorted({*self.classes, *other.classes}),
            exclusive=self.exclusive and other.exclusive,
            words=max(self.words, other.words),
            numbers=merge_seen([self.numbers, other.numbers]),
            labels=Counter(self.labels) + Counter(other.labels),
            bags=self.bags + other.bags,
            split=self.split + other.split,
        )

    @property
    def rows(self) -> int:
        """All instances."""
        return sum(sums.rows for sums in self.sums.values())


def known_instances(data: Bags) -> tuple[int, int]:
    """Return how many instances have a label of their own, and in how many bags these are."""
    bags = [
        instances.bag[instances.known != UNLABELLED]
        for instances in data.modalities
        if instances.known.size
    ]
    every = np.concatenate([np.zeros(0, np.int64), *bags])
    return every.size, np.unique(every).size


def instance_label_warning(
    built: Sequence[Built], form: BagForm, settings: BagSettings
) -> list[str]:
    """Say by what the known labels of instances are used, or that they are not."""
    known, known_bags = np.sum([part.known for part in built], axis=0)
    if not known:
        return []
    model = "a label that is a number" if settings.numeric else f"model={settings.model}"
    used = f"not used by {model}: model=auto and gp_probit use them"
    if form.classes:
        used = "not used: bags have labels of several classes"
    elif settings.model == "gp_probit" and settings.form == "direct":
        used = "used by the Gaussian process"
    elif settings.model == "auto" and settings.witness_memory and not settings.numeric:
        used = "used by the Gaussian process alone"
    return [f"Instance labels of {known:,} instances in {known_bags:,} bags are {used}."]


def numbers_of_text(about: AboutBags, settings: BagSettings) -> tuple[list[str], list[str]]:
    """Return notes on what numbers in text were read as, and warnings of which it is in doubt."""
    seen = {settings.columns.get(name, name): numbers for name, numbers in about.numbers.items()}
    rules = {
        name: Rule("number", decimal="," if name in settings.decimal_comma else ".")
        for name in seen
    }
    return numbers_in_text(seen, rules), doubtful_numbers(seen, rules, settings)


def joined_labels(about: AboutBags) -> list[str]:
    """Say which labels differ in case alone, so that they are one, with their rows."""
    alike: dict[str, list[str]] = {}
    for label, rows in sorted(about.labels.items()):
        alike.setdefault(label.lower(), []).append(f"{label} ({rows:,})")
    joined = [" = ".join(group) for group in alike.values() if len(group) > 1]
    return [f"Labels that differ in case are one (rows): {'; '.join(joined)}."] if joined else []


def split_bags(about: AboutBags) -> list[str]:
    """Say how many bags have instances in several files."""
    if not about.split:
        return []
    return [
        f"{about.split:,} of {about.bags:,} bags have rows in several files and are one bag each: "
        "give different bags different names."
    ]


def too_many_words(data: Bags) -> int:
    """Return the columns of instances that are text of more words than a fit takes, or 0."""
    wide = [m.features for m in data.modalities if m.n_features > MOST_WORDS]
    return max((x.shape[1] for x in wide if unit_rows(x[:1000].astype(float)).all()), default=0)


FILE = "bags.json"


def read_form(paths: RunPaths, work: bool = True) -> BagForm:
    """Read the common form of a run at work, or of a finished one."""
    return json_files.read(paths.kept(FILE, work), BagForm)


def read_about(paths: RunPaths, index: int) -> AboutBags:
    """Read what ingest said of a partition."""
    return json_files.read(paths.part("about", index, "json"), AboutBags)


def form_of(about: AboutBags, names: Sequence[str] = ()) -> BagForm:
    """Return the form of all partitions: modalities, sorted, their numbers of features and means.

    ``names`` are those of the features, which it has where all modalities have these. A feature
    that has gaps enough in one modality then has an indicator in all.
    """
    sums = {name: of_modality for name, of_modality in about.sums.items() if of_modality.total}
    sums = sums or {"": FeatureSums([], [], 0)}
    fill, indicators = [], []
    for of_modality in sums.values():
        gaps = np.array(of_modality.gaps, np.int64)
        fill.append((np.array(of_modality.total) / np.maximum(of_modality.rows - gaps, 1)).tolist())
        is_enough = (gaps >= FEWEST_GAPS) & (of_modality.rows - gaps >= FEWEST_GAPS)
        indicators.append(np.flatnonzero(is_enough).tolist())
    widths, columns = [len(of_modality.total) for of_modality in sums.values()], list(names)
    if any(width != len(names) for width in widths):
        columns = []
    else:
        missing = sorted({d for indicated in indicators for d in indicated})
        indicators = [missing] * len(indicators)
        columns += [f"{names[d]} missing" for d in missing]
    return BagForm(
        modalities=list(sums),
        widths=widths,
        own=about.own,
        classes=about.classes,
        exclusive=len(about.classes) > 1 and about.exclusive,
        fill=fill,
        indicators=indicators,
        names=columns,
    )


def columns_named(form: BagForm, k: int) -> list[str]:
    """Return a name or number for each column of modality k."""
    if form.names:
        return form.names
    missing = [f"{d + 1} (missing)" for d in form.indicators[k]]
    return [*(str(d + 1) for d in range(form.widths[k])), *missing]


def gaps_of(about: AboutBags, form: BagForm) -> dict[str, tuple[int, bool]]:
    """Return how many values of each feature are missing, and whether a column says which."""
    gaps = {}
    for modality, indicated in zip(form.modalities, form.indicators, strict=True):
        where = f" of modality {modality}" if modality and len(form.modalities) > 1 else ""
        sums = about.sums.get(modality, FeatureSums([], [], 0))
        for d, missing in enumerate(sums.gaps):
            name = form.names[d] if form.names else f"feature {d + 1}"
            if missing:
                gaps[f"{name}{where}"] = missing, d in indicated
    return gaps


def gap_warnings(gaps: dict[str, tuple[int, bool]]) -> list[str]:
    """Say how missing features are filled, with their counts."""
    warnings = []
    hows = ("without a column for so few or so many", "with a column that says where")
    for indicated in (True, False):
        names = [
            f"{name} ({count:,})"
            for name, (count, has_column) in gaps.items()
            if has_column == indicated
        ]
        if names:
            how = f"{hows[indicated]}: {listed(names, 8)}"
            warnings.append(f"Missing features are mean-imputed, {how}.")
    return warnings


def filled(
    data: Bags, fill: Sequence[Sequence[float]], indicators: Sequence[Sequence[int]], kind: str
) -> Bags:
    """Return bags whose missing features are means, with the indicators behind the features."""
    parts = []
    for instances, means, indicated in zip(data.modalities, fill, indicators, strict=True):
        missing = np.isnan(instances.features)
        if not indicated and not missing.any():
            parts.append(instances)
            continue
        values = np.where(missing, np.asarray(means, kind), instances.features)
        columns = np.hstack([values, missing[:, list(indicated)].astype(kind)])
        parts.append(replace(instances, features=columns))
    return replace(data, modalities=tuple(parts))


def kept_form(fitted: RunPaths, about: AboutBags, names: Sequence[str]) -> BagForm:
    """Return the form of the fitted run, refusing new data that have another.

    ``names`` are the new data's features; none where lists hold these.

    Raises
    ------
    InputError
        With one fault for each feature that is not there, and for each modality that was not
        fitted or has other features.
    """
    old, new = read_form(fitted, work=False), form_of(about)

    def fault(expected: str, found: str, column: str | None = None) -> Fault:
        return Fault(fitted.root, expected, found, column, remedy=_SAME_COLUMNS)

    gone = [name for name in old.names[: max(old.widths)] if name not in names]
    if names and gone:
        lacks = "data without this column"
        raise InputError([fault("the features of the fitted run", lacks, name) for name in gone])
    widths = dict(zip(old.modalities, old.widths, strict=True))
    known = ", ".join(f"{name or UNNAMED} ({width})" for name, width in widths.items())
    expected = f"the modalities (features) of the fitted run: {known}"
    faults = [
        fault(expected, f"{name or UNNAMED} ({width})")
        for name, width in zip(new.modalities, new.widths, strict=True)
        if width and width != widths.get(name)
    ]
    if new.own != old.own:
        expected = f"{old.own} features of a bag, as in the fitted run"
        faults.append(fault(expected, str(new.own), "bag_features"))
    if faults:
        raise InputError(faults)
    return old


@dataclass(frozen=True)
class Built:
    """A partition's arrays, and what its features are, by modality.

    Attributes
    ----------
    url
        Where the arrays are.
    low, high
        The ends of each feature.
    spreads
        The median and the spread of each feature, [2, D]; none without instances.
    counts
        Bags that do not have each class, and those that have.
    known
        Instances with a label of their own in bags that are not held out, and their bags.
    """

    url: str
    low: list[FloatArray]
    high: list[FloatArray]
    spreads: list[FloatArray | None]
    counts: list[list[int]]
    known: tuple[int, int]


def build(item: tuple[int, Groups], settings: BagSettings, paths: RunPaths, form: BagForm) -> Built:
    """Store a partition in the common form."""
    index, groups = item
    data = instances_of.widen(
        read_state(paths.part("read", index, "npz"), Bags),
        tuple(read_about(paths, index).sums),
        tuple(form.modalities),
        np.array(form.widths),
        settings.precision,
    )
    data = filled(data, form.fill, form.indicators, settings.precision)
    rows = storage.read_table(paths.part("bag_rows", index))
    held_out = rows["held_out"].to_numpy(zero_copy_only=False)
    if (groups.held != held_out).any():
        held_out, position = groups.held, rows.column_names.index("held_out")
        rows = rows.set_column(position, "held_out", pa.array(held_out))
        storage.write_table(paths.part("bag_rows", index), rows)
    known = known_instances(without_known(data, held_out))
    data = replace(
        without_known(data, held_out | bool(form.classes)),
        label=np.where(held_out, np.int8(UNLABELLED), data.label),
        group=groups.number,
        target=np.where(held_out, np.nan, data.target) if data.target.size else data.target,
    )
    labels = bag_classes.matrix(rows["labels"].to_pylist(), form.classes)
    labels[held_out] = UNLABELLED
    # What ingest left stays until the run is published: a resumed run builds from it again.
    url = paths.part("partitions", index, "npz")
    batch = MultiLabelBags(data, labels) if form.classes else data
    storage.write_bytes(url, to_bytes(batch))
    return Built(
        url,
        [instances.features.min(axis=0, initial=np.inf) for instances in data.modalities],
        [instances.features.max(axis=0, initial=-np.inf) for instances in data.modalities],
        [_spread(instances.features) for instances in data.modalities],
        [[int(np.count_nonzero(column == value)) for value in (0, 1)] for column in labels.T],
        known,
    )


def without_known(data: Bags, held_out: BoolArray) -> Bags:
    """Return bags in which the instances of those that are held out have no known label."""
    parts = [
        replace(
            instances,
            known=np.where(held_out[instances.bag], UNLABELLED, instances.known).astype(np.int8),
        )
        if instances.known.size
        else instances
        for instances in data.modalities
    ]
    return replace(data, modalities=tuple(parts))


def _spread(rows: np.ndarray) -> FloatArray | None:
    """Return the median and the spread of each column of some rows, [2, D]; None without rows.

    The spread is the distance of the quartiles; where those are alike, the median distance of the
    values that differ from them.
    """
    if not rows.size:
        return None
    sampled = rows[:: max(1, len(rows) // MEASURED)]
    low, middle, high = np.quantile(sampled, [0.25, 0.5, 0.75], axis=0)
    width = high - low
    for d in np.flatnonzero(width == 0.0):
        away = np.abs(sampled[:, d] - middle[d])
        width[d] = np.median(away[away > 0.0]) if away.any() else 0.0
    return np.array([middle, width])


FAR_OUT = 1e4
"""Spreads beyond which a value swamps its feature."""


def warnings_of(
    counts: Sequence[int], form: BagForm, built: Sequence[Built], numeric: bool
) -> tuple[list[str], list[str]]:
    """Say what the data let expect: few bags, a class lost to testing; note constant features.

    ``counts`` are the fitted bags with the labels 0 and 1.
    """
    if min(counts) == 0 and not form.classes:
        what, low, high = "classes", "labelled 0", "labelled 1"
        if numeric:
            what, low, high = "halves", "below the threshold", "from it on"
        raise InputError.of(
            file="settings",
            column="held_out",
            expected=f"labelled bags of both {what} left for the fit",
            found=f"{counts[0]} {low} and {counts[1]} {high}",
            remedy="hold fewer bags out",
        )
    warnings, notes = [], []
    if form.classes:
        of_classes = np.sum([part.counts for part in built], axis=0)
        warnings += [
            f"Class {name} has {positive} positive and {negative} negative bags: its "
            "probabilities rest on the prior."
            for name, (negative, positive) in zip(form.classes, of_classes.tolist(), strict=True)
            if not (negative and positive)
        ]
    if few := few_bags(float(sum(counts)), sum(form.widths) + form.own):
        warnings.append(few)
    for k, name in enumerate(form.modalities):
        low_end, high_end = _ends(built, k)
        where = f" of modality {name}" if name else ""
        columns = [f"{column}{where}" for column in columns_named(form, k)]
        notes += _constant(where, columns_named(form, k), low_end == high_end)
        warnings += _swamped(columns, low_end, high_end, [part.spreads[k] for part in built])
    return warnings, notes


def _ends(built: Sequence[Built], k: int) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the features of modality k in all partitions."""
    low = np.min([part.low[k] for part in built], axis=0)
    return low, np.max([part.high[k] for part in built], axis=0)


def _constant(where: str, columns: Sequence[str], is_constant: BoolArray) -> list[str]:
    """Note which features of a modality have one value."""
    same = [columns[d] for d in np.flatnonzero(is_constant).tolist()]
    if not same:
        return []
    subject = f"{len(same):,} of {is_constant.size:,} features{where}"
    return [f"{subject} constant, so not used: {listed(same, 5)}."]


def constant_columns(form: BagForm, built: Sequence[Built]) -> set[str]:
    """Return the named features that have one value in all instances."""
    if not form.names:
        return set()
    ends = [_ends(built, k) for k in range(len(form.modalities))]
    low, high = np.min([low for low, _ in ends], axis=0), np.max([high for _, high in ends], axis=0)
    return {form.names[d] for d in np.flatnonzero(low == high).tolist()}


def _swamped(
    columns: Sequence[str], low: FloatArray, high: FloatArray, spreads: Sequence[FloatArray | None]
) -> list[str]:
    """Warn of features in which a value lies so far out that z-scores see nothing else."""
    by_part = np.array([spread for spread in spreads if spread is not None])
    if not by_part.size:
        return []
    middle, width = np.median(by_part[:, 0], axis=0), by_part[:, 1].max(axis=0)
    away = np.maximum(high - middle, middle - low)
    far = np.flatnonzero((width > 0.0) & (away > FAR_OUT * width))
    return [
        f"Feature {columns[d]} has a value {away[d]:.3g} from its median where others "
        f"spread over {width[d]:.3g}: look for a code for missing values, clip it or take its "
        "logarithm."
        for d in far[:5].tolist()
    ]


def refuse_unfit(form: BagForm, about: AboutBags, settings: BagSettings) -> None:
    """Refuse data that a model cannot take.

    Raises
    ------
    InputError
        If there are several modalities, no instances, or too many words.
    """
    with_model = f"with model={settings.model}"
    if settings.takes_classes and len(form.modalities) > 1:
        raise InputError.of(
            file="settings",
            column="model",
            expected=f"instances of one modality {with_model}",
            found=f"{len(form.modalities)}: {', '.join(n or UNNAMED for n in form.modalities)}",
            remedy="take model=vmmic",
        )
    if not about.rows and settings.needs_instances:
        raise InputError.of(
            file="settings",
            column="model",
            expected=f"instances in some bag {with_model}",
            found="none in any bag",
            remedy="take model=embedding or model=vmmic",
        )
    if about.words and settings.takes_words:
        raise InputError.of(
            file="settings",
            column="model",
            expected=f"at most {MOST_WORDS:,} words (features of rows of length 1) {with_model}",
            found=f"{about.words:,}",
            remedy=FEWER_WORDS,
        )
