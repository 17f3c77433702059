"""The form that all partitions of a run of bags share, and what it lets expect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

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
from vbmodels.bags.bags import UNLABELLED, Bags, few_bags
from vbmodels.bags.multilabel import (
    FEWER_WORDS,
    MOST_WORDS,
    MultiLabelBags,
    unit_rows,
)
from vbmodels.core.columns import Rule
from vbmodels.core.seen import Seen
from vbmodels.core.state import BoolArray, FloatArray, to_bytes

MEASURED = 10_000
"""Rows of a partition that a spread is taken of."""
FEWEST_GAPS = 5
"""Instances with and without a feature's value from which its gaps have a column of their own."""


def form_url(paths: RunPaths) -> str:
    """Return the URL of the common form while a run works."""
    return storage.join(paths.work, "form.json")


def kept_url(paths: RunPaths) -> str:
    """Return the URL of the common form in a finished run, next to its posterior."""
    return storage.join(paths.root, "posterior", "bags.json")


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


_SAME_COLUMNS = "score data with the same columns, or fit it in a new run"


class AboutBags(BagForm):
    """What one partition has of it, and its words.

    ``words`` is the number of columns of text with more than can be fitted, else 0; ``sums`` are
    of each modality's features, and ``gaps`` how many of them are missing, of so many ``rows``;
    ``known`` counts instances with a label of their own, and their bags; ``numbers`` is what
    columns of text hold that are read as numbers, ``labels`` the rows of each label that is a
    word, and ``split`` how many of its ``bags`` have instances in several files.
    """

    words: int = 0
    sums: list[list[float]] = Field(default_factory=list)
    gaps: list[list[int]] = Field(default_factory=list)
    rows: list[int] = Field(default_factory=list)
    known: list[int] = Field(default_factory=lambda: [0, 0])
    numbers: dict[str, Seen] = Field(default_factory=dict)
    labels: dict[str, int] = Field(default_factory=dict)
    bags: int = 0
    split: int = 0


def known_instances(data: Bags) -> list[int]:
    """Return how many instances have a label of their own, and in how many bags these are."""
    bags = [one.bag[one.known != UNLABELLED] for one in data.modalities if one.known.size]
    every = np.concatenate([np.zeros(0, np.int64), *bags])
    return [every.size, np.unique(every).size]


def instance_label_warning(
    about: Sequence[dict[str, Any]], form: dict[str, Any], settings: BagSettings
) -> list[str]:
    """Say by what the known labels of instances are used, or that they are not."""
    count, bags = np.sum([one["known"] for one in about], axis=0).tolist()
    if not count:
        return []
    named = f"nstance labels of {count:,} instances in {bags:,} bags are"
    if form["classes"]:
        return [f"I{named} not used: bags have labels of several classes."]
    if settings.model == "gp_probit" and settings.form == "direct":
        return [f"I{named} used by the Gaussian process."]
    if settings.model == "auto" and settings.witness_memory and not settings.numeric:
        return [f"I{named} used by the Gaussian process alone."]
    model = "a label that is a number" if settings.numeric else f"model={settings.model}"
    return [f"I{named} not used by {model}: model=auto and gp_probit use them."]


def numbers_of_text(
    about: Sequence[dict[str, Any]], settings: BagSettings
) -> tuple[list[str], list[str]]:
    """Return notes on what numbers in text were read as, and warnings of which it is in doubt."""
    seen: dict[str, Seen] = {}
    for one in about:
        for name, own in one["numbers"].items():
            theirs = settings.columns.get(name, name)
            seen[theirs] = seen.get(theirs, Seen()) + Seen(**own)
    rules = {
        name: Rule("number", decimal="," if name in settings.decimal_comma else ".")
        for name in seen
    }
    return numbers_in_text(seen, rules), doubtful_numbers(seen, rules, settings)


def joined_labels(about: Sequence[dict[str, Any]]) -> list[str]:
    """Say which labels differ in case alone, so that they are one, with their rows."""
    counts: Counter[str] = Counter()
    for one in about:
        counts.update(one["labels"])
    alike: dict[str, list[str]] = {}
    for label, rows in sorted(counts.items()):
        alike.setdefault(label.lower(), []).append(f"{label} ({rows:,})")
    joined = [" = ".join(group) for group in alike.values() if len(group) > 1]
    return [f"Labels that differ in case are one (rows): {'; '.join(joined)}."] if joined else []


def split_bags(about: Sequence[dict[str, Any]], files: int) -> list[str]:
    """Say how many bags have instances in several files."""
    split, bags = (sum(one[name] for one in about) for name in ("split", "bags"))
    if not split:
        return []
    where = "both files" if files == 2 else f"several of {files:,} files"
    return [
        f"{split:,} of {bags:,} bags have rows in {where} and are one bag each: give different "
        "bags different names."
    ]


def too_many_words(data: Bags) -> int:
    """Return the columns of instances that are text of more words than a fit takes, or 0."""
    wide = [m.features for m in data.modalities if m.n_features > MOST_WORDS]
    return max((x.shape[1] for x in wide if unit_rows(x[:1000].astype(float)).all()), default=0)


def read_form(url: str) -> dict[str, Any]:
    """Read the common form."""
    return json_files.read(url, BagForm).model_dump()


def read_about(paths: RunPaths, index: int) -> dict[str, Any]:
    """Read what ingest said of a partition."""
    return json_files.read(paths.part("about", index, "json"), AboutBags).model_dump()


def form_of(about: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the modalities of all partitions, sorted, and their numbers of features."""
    widths = {
        name: width
        for one in about
        for name, width in zip(one["modalities"], one["widths"], strict=True)
        if width
    }
    names = sorted(widths) or [""]
    fill, gaps, rows = _means(about, names, widths)
    classes = sorted({name for one in about for name in one["classes"]})
    enough = [
        np.flatnonzero((missing >= FEWEST_GAPS) & (count - missing >= FEWEST_GAPS)).tolist()
        for missing, count in zip(gaps, rows, strict=True)
    ]
    return {
        "modalities": names,
        "widths": [widths.get(name, 0) for name in names],
        "own": max(one["own"] for one in about),
        "classes": classes,
        "exclusive": len(classes) > 1 and all(one["exclusive"] for one in about),
        "fill": [one.tolist() for one in fill],
        "indicators": enough,
        "names": [],
    }


def with_names(form: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Return the form with the names of its columns, where all modalities have these.

    A feature that has gaps enough in one modality then has an indicator in all.
    """
    if any(width != len(names) for width in form["widths"]):
        return form
    missing = sorted({d for own in form["indicators"] for d in own})
    return {
        **form,
        "indicators": [missing] * len(form["indicators"]),
        "names": [*names, *(f"{names[d]} missing" for d in missing)],
    }


def columns_named(form: dict[str, Any], k: int) -> list[str]:
    """Return a name or number for each column of modality k."""
    if form["names"]:
        return list(form["names"])
    missing = [f"{d + 1} (missing)" for d in form["indicators"][k]]
    return [*(str(d + 1) for d in range(form["widths"][k])), *missing]


def _means(
    about: Sequence[dict[str, Any]], names: Sequence[str], widths: dict[str, int]
) -> tuple[list[FloatArray], list[FloatArray], list[int]]:
    """Return each modality's means, how many values of each feature are missing, and its rows."""
    sums = [np.zeros(widths.get(name, 0)) for name in names]
    gaps, rows = [np.zeros_like(one) for one in sums], [0] * len(names)
    for one in about:
        parts = zip(one["modalities"], one["sums"], one["gaps"], one["rows"], strict=True)
        for name, total, missing, count in parts:
            if name in names and len(total) == widths.get(name, 0):
                k = names.index(name)
                sums[k] = sums[k] + np.array(total)
                gaps[k] = gaps[k] + np.array(missing)
                rows[k] += count
    means = [
        total / np.maximum(count - missing, 1)
        for total, missing, count in zip(sums, gaps, rows, strict=True)
    ]
    return means, gaps, rows


def gaps_of(about: Sequence[dict[str, Any]], form: dict[str, Any]) -> dict[str, tuple[int, bool]]:
    """Return how many values of each feature are missing, and whether a column says which."""
    widths = dict(zip(form["modalities"], form["widths"], strict=True))
    _, gaps, _ = _means(about, form["modalities"], widths)
    found = {}
    parts = zip(form["modalities"], gaps, form["indicators"], strict=True)
    for modality, missing, indicated in parts:
        of = f" of modality {modality}" if modality and len(gaps) > 1 else ""
        for d in np.flatnonzero(missing).tolist():
            name = form["names"][d] if form["names"] else f"feature {d + 1}"
            found[f"{name}{of}"] = int(missing[d]), d in indicated
    return found


def gap_warnings(gaps: dict[str, tuple[int, bool]]) -> list[str]:
    """Say how missing features are filled, with their counts."""
    texts = {
        True: "Missing features are mean-imputed, with a column that says where: {}.",
        False: "Missing features are mean-imputed, without a column for so few or so many: {}.",
    }
    found = []
    for indicated, text in texts.items():
        some = [f"{name} ({count:,})" for name, (count, own) in gaps.items() if own == indicated]
        more = f" and {len(some) - 8} more" if len(some) > 8 else ""
        if some:
            found.append(text.format(f"{', '.join(some[:8])}{more}"))
    return found


def sums_of(features: np.ndarray) -> tuple[list[float], list[int], int]:
    """Return the sums of some rows' features, how many are missing, and the rows."""
    missing = np.isnan(features)
    total = np.where(missing, 0.0, features).sum(axis=0, dtype=np.float64)
    return total.tolist(), missing.sum(axis=0).tolist(), len(features)


def filled(
    data: Bags, fill: Sequence[Sequence[float]], indicators: Sequence[Sequence[int]]
) -> Bags:
    """Return bags whose missing features are means, with the indicators behind the features."""
    parts = []
    for one, means, indicated in zip(data.modalities, fill, indicators, strict=True):
        missing = np.isnan(one.features)
        if not indicated and not missing.any():
            parts.append(one)
            continue
        kind = one.features.dtype
        values = np.where(missing, np.asarray(means, kind), one.features)
        columns = np.hstack([values, missing[:, list(indicated)].astype(kind)])
        parts.append(replace(one, features=columns))
    return replace(data, modalities=tuple(parts))


def kept_form(
    fitted: RunPaths, about: Sequence[dict[str, Any]], names: Sequence[str]
) -> dict[str, Any]:
    """Return the form of the fitted run, refusing new data that have another.

    ``names`` are the new data's features; none where lists hold these.

    Raises
    ------
    InputError
        With one fault for each feature that is not there, and for each modality that was not
        fitted or has other features.
    """
    kept = read_form(kept_url(fitted))
    gone = [one for one in kept["names"][: max(kept["widths"])] if one not in names]
    if names and gone:
        raise InputError(
            [
                Fault(
                    file=fitted.root,
                    column=one,
                    expected="the features of the fitted run",
                    found="data without this column",
                    remedy=_SAME_COLUMNS,
                )
                for one in gone
            ]
        )
    widths = dict(zip(kept["modalities"], kept["widths"], strict=True))
    new = form_of(about)
    faults = []
    for name, width in zip(new["modalities"], new["widths"], strict=True):
        if width and width != widths.get(name):
            known = ", ".join(f"{k or 'one without a name'} ({w})" for k, w in widths.items())
            faults.append(
                Fault(
                    file=fitted.root,
                    expected=f"the modalities (features) of the fitted run: {known}",
                    found=f"{name or 'one without a name'} ({width})",
                    remedy=_SAME_COLUMNS,
                )
            )
    if new["own"] != kept["own"]:
        faults.append(
            Fault(
                file=fitted.root,
                column="bag_features",
                expected=f"{kept['own']} features of a bag, as in the fitted run",
                found=str(new["own"]),
                remedy=_SAME_COLUMNS,
            )
        )
    if faults:
        raise InputError(faults)
    return kept


def build(
    item: tuple[int, Groups], settings: BagSettings, paths: RunPaths, form: dict[str, Any]
) -> tuple[str, list[list[float]], list[list[float]], list[list[int]], list[list[list[float]]]]:
    """Store a partition in the common form; return its URL, every feature's range, where there
    are classes how many bags have and have not each one, and every feature's median and spread.
    """
    index, groups = item
    url = paths.part("read", index, "npz")
    data = read_state(url, Bags)
    about = read_about(paths, index)
    wide = instances_of.widen(
        data,
        tuple(about["modalities"]),
        tuple(form["modalities"]),
        np.array(form["widths"]),
        settings.precision,
    )
    wide = filled(wide, form["fill"], form["indicators"])
    target = paths.part("partitions", index, "npz")
    classes = form.get("classes") or []
    rows = storage.read_table(paths.part("bag_rows", index))
    held = rows["held_out"].to_numpy(zero_copy_only=False)
    if (groups.held != held).any():
        held, place = groups.held, rows.column_names.index("held_out")
        rows = rows.set_column(place, "held_out", pa.array(held))
        storage.write_table(paths.part("bag_rows", index), rows)
    label = np.where(held, np.int8(UNLABELLED), wide.label)
    numbers = np.where(held, np.nan, wide.target) if wide.target.size else wide.target
    wide = replace(
        without_known(wide, held | bool(form.get("classes"))),
        label=label,
        group=groups.number,
        target=numbers,
    )
    labels = bag_classes.matrix(rows["labels"].to_pylist(), classes)
    labels = bag_classes.hidden(labels, held)
    batch = MultiLabelBags(wide, labels) if classes else wide
    storage.write_bytes(target, to_bytes(batch))
    # What ingest left stays until the run is published: a resumed run builds from it again.
    counts = [[int(np.count_nonzero(column == value)) for value in (0, 1)] for column in labels.T]
    low = [m.features.min(axis=0, initial=np.inf).tolist() for m in wide.modalities]
    high = [m.features.max(axis=0, initial=-np.inf).tolist() for m in wide.modalities]
    return target, low, high, counts, [_spread(m.features) for m in wide.modalities]


def without_known(data: Bags, held: BoolArray) -> Bags:
    """Return bags in which the instances of those that are held out have no known label."""
    if not any(one.known.size for one in data.modalities):
        return data
    parts = [
        replace(one, known=np.where(held[one.bag], UNLABELLED, one.known).astype(np.int8))
        if one.known.size
        else one
        for one in data.modalities
    ]
    return replace(data, modalities=tuple(parts))


def _spread(rows: np.ndarray) -> list[list[float]]:
    """Return the median and the spread of each column of some rows, [2, D]; none without rows.

    The spread is the distance of the quartiles; where those are alike, the median distance of the
    values that differ from them.
    """
    if not rows.size:
        return []
    some = rows[:: max(1, len(rows) // MEASURED)]
    low, middle, high = np.quantile(some, [0.25, 0.5, 0.75], axis=0)
    width = high - low
    for d in np.flatnonzero(width == 0.0):
        away = np.abs(some[:, d] - middle[d])
        width[d] = np.median(away[away > 0.0]) if away.any() else 0.0
    return [middle.tolist(), width.tolist()]


FAR_OUT = 1e4
"""Spreads beyond which a value swamps its feature."""


def warnings_of(
    counts: Sequence[int], form: dict[str, Any], built: Sequence[Any], numeric: bool
) -> tuple[list[str], list[str]]:
    """Say what the data let expect: few bags, a class lost to testing; note constant features.

    ``counts`` are the fitted bags with the labels 0 and 1.
    """
    if min(counts) == 0 and not form["classes"]:
        sides = ("below the threshold", "from it on") if numeric else ("labelled 0", "labelled 1")
        raise InputError.of(
            file="settings",
            column="held_out",
            expected=f"labelled bags of both {'halves' if numeric else 'classes'} left for the fit",
            found=f"{counts[0]} {sides[0]} and {counts[1]} {sides[1]}",
            remedy="hold fewer bags out",
        )
    warnings: list[str] = []
    notes: list[str] = []
    if form["classes"]:
        warnings += bag_classes.one_sided(
            form["classes"], np.sum([one[3] for one in built], axis=0)
        )
    if few := few_bags(float(sum(counts)), sum(form["widths"]) + form["own"]):
        warnings.append(few)
    for k, name in enumerate(form["modalities"]):
        low = np.min([b[1][k] for b in built], axis=0)
        high = np.max([b[2][k] for b in built], axis=0)
        named = columns_named(form, k)
        same = [named[d] for d in np.flatnonzero(low == high).tolist()]
        if same:
            which = ", ".join(same[:5])
            which += f" and {len(same) - 5:,} more" if len(same) > 5 else ""
            where = f" of modality {name}" if name else ""
            notes.append(
                f"Feature {which}{where} is constant, so not used."
                if len(same) == 1
                else f"{len(same):,} of {low.size:,} features{where} are constant, so not used: "
                f"{which}."
            )
        warnings += _swamped(name, low, high, [b[4][k] for b in built if b[4][k]], named)
    return warnings, notes


def constant_columns(form: dict[str, Any], built: Sequence[Any]) -> set[str]:
    """Return the named features that have one value in all instances."""
    if not form["names"]:
        return set()
    low = np.min([own for one in built for own in one[1]], axis=0)
    high = np.max([own for one in built for own in one[2]], axis=0)
    return {form["names"][d] for d in np.flatnonzero(low == high).tolist()}


def _swamped(
    name: str, low: FloatArray, high: FloatArray, spreads: list[Any], named: Sequence[Any]
) -> list[str]:
    """Warn of features in which a value lies so far out that z-scores see nothing else."""
    if not spreads:
        return []
    found = np.array(spreads)
    middle, width = np.median(found[:, 0], axis=0), found[:, 1].max(axis=0)
    away = np.maximum(high - middle, middle - low)
    far = np.flatnonzero((width > 0.0) & (away > FAR_OUT * width))
    where = f" of modality {name}" if name else ""
    return [
        f"Feature {named[d]}{where} has a value {away[d]:.3g} from its median where the others "
        f"spread over {width[d]:.3g}: scaled, they are all alike; look for a code for missing "
        "values, clip it or take its logarithm."
        for d in far[:5].tolist()
    ]


def many_words(model: str, found: int) -> Fault:
    """Say that a model cannot take so many words."""
    return Fault(
        file="settings",
        column="model",
        expected=f"at most {MOST_WORDS:,} words (features of rows of length 1) with model={model}",
        found=f"{found:,}",
        remedy=FEWER_WORDS,
    )


def one_modality(model: str, names: Sequence[str]) -> Fault:
    """Say that a model cannot take several modalities."""
    return Fault(
        file="settings",
        column="model",
        expected=f"instances of one modality with model={model}",
        found=f"{len(names)}: {', '.join(name or 'one without a name' for name in names)}",
        remedy="give it one modality, or take model=vmmic",
    )


def without_instances(model: str) -> Fault:
    """Say that a model has nothing to learn from where no bag has an instance."""
    return Fault(
        file="settings",
        column="model",
        expected=f"instances in some bag with model={model}",
        found="none in any bag",
        remedy="give instances their features, or take model=embedding or model=vmmic",
    )
