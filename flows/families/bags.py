"""Bags: from instances of bags with one label each to probabilities of bags and instances."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from flows import partition, storage
from flows.families import bag_models
from flows.families.base import Checked, Each, Findings, Ingested, Prepared
from flows.faults import Fault, InputError
from flows.ingest import bag_classes, bags_check
from flows.ingest import bags as instances_of
from flows.partition import Part, Slice
from flows.publish.bag_report import BagSummary, Block, report, summarise
from flows.publish.run import Dropped, RunPlace
from flows.schemas import BAGS, INSTANCES, INSTANCES_IN
from flows.settings import BagSettings
from flows.storage import InputFile
from vbmodels.mil.batch import Bags, even_bounds
from vbmodels.mil.gp_data import MultiLabelBags
from vbmodels.state import from_bytes, to_bytes

MANY_SLICES = 16
_COLUMNS = [column.name for column in INSTANCES_IN.columns]


@dataclass(frozen=True)
class CheckedBags(Checked):
    """What the check of one file found, with where its bags stand."""

    runs: bags_check.Runs | None = None
    multi: bool = False


class BagsFamily:
    """The bags family; see `flows.families.base.Family`."""

    name = "bags"
    suffixes = (".parquet",)
    settings = BagSettings

    def check(self, file: InputFile, settings: BagSettings) -> CheckedBags:
        """List the faults of one file of instances."""
        table = storage.read_table(file.url)
        multi = settings.model != "vmmic" and "labels" in table.column_names
        faults, runs = bags_check.check_bags(table, file.url, settings.model != "vmmic")
        return CheckedBags(table.num_rows, tuple(faults), (), runs, multi)

    def check_together(self, files: Sequence[InputFile], checked: Sequence[Checked]) -> list[Fault]:
        """List what files say differently."""
        return bags_check.check_together([f.url for f in files], _runs(checked))

    def check_to_fit(self, files: Sequence[InputFile], checked: Sequence[Checked]) -> list[Fault]:
        """List what a fit lacks beyond what scoring needs."""
        if any(getattr(c, "multi", False) for c in checked):
            return []
        source = files[0].url if len(files) == 1 else f"{len(files)} files"
        return bags_check.check_to_fit(source, _runs(checked))

    def plan(
        self, files: Sequence[InputFile], checked: Sequence[Checked], settings: BagSettings
    ) -> list[Part]:
        """Cut the bags, whole, into partitions with about as many instances each."""
        order = np.argsort([f.url for f in files], kind="stable")
        files = [files[i] for i in order]
        places = bags_check.bounds_of(_runs([checked[i] for i in order]))
        count = settings.partitions or -(-len(places) // settings.rows_per_partition)
        sizes = np.array([sum(stop - start for _, start, stop in rows) for rows in places])
        bounds = even_bounds(sizes, count)
        return [
            Part(index, _slices(files, places[bounds[index] : bounds[index + 1]]))
            for index in range(len(bounds) - 1)
        ]

    def ingest(self, part: Part, settings: BagSettings, place: RunPlace) -> Ingested:
        """Group a partition's instances by bag."""
        found = instances_of.read(
            _rows(part), part.index, settings.held_out, settings.seed, settings.precision
        )
        storage.write_bytes(_work(place, "read", part.index, "npz"), to_bytes(found.bags))
        storage.write_table(_work(place, "bag_rows", part.index), found.bag_rows)
        storage.write_table(_work(place, "instance_rows", part.index), found.instance_rows)
        label = found.bags.label
        about = {
            "modalities": list(found.modalities),
            "widths": [m.n_features for m in found.bags.modalities],
            "own": found.bags.bag_features.shape[1],
            "classes": _classes(found.bag_rows, settings),
            "labels": [int(np.count_nonzero(label == value)) for value in (0, 1)],
        }
        storage.write_bytes(_work(place, "about", part.index, "json"), json.dumps(about).encode())
        n_empty = len(found.empty)
        return Ingested(
            rows_read=part.rows,
            rows_kept=found.instance_rows.num_rows,
            dropped=(
                Dropped(
                    reason="bag without instances, scored by the intercept",
                    count=n_empty,
                    examples=list(found.empty[:100]),
                ),
            ),
            notes={"bags": found.bag_rows.num_rows},
        )

    def prepare(
        self, parts: Sequence[Part], settings: BagSettings, place: RunPlace,
        fitted: RunPlace | None, each: Each,
    ) -> Prepared:  # fmt: skip
        """Bring all partitions to the same modalities."""
        about = [_read_json(_work(place, "about", p.index, "json")) for p in parts]
        form = _form(about) if fitted is None else _kept_form(fitted, about)
        if settings.model != "vmmic" and len(form["modalities"]) > 1:
            raise InputError([_one_modality(settings.model, form["modalities"])])
        storage.write_bytes(_form_url(place), json.dumps(form).encode())
        built = each(_build, [part.index for part in parts], settings, place, form)
        warnings = [] if fitted is not None else _warnings(about, form, built)
        batch = MultiLabelBags if form.get("classes") else Bags
        return Prepared(tuple(url for url, *_ in built), batch, tuple(warnings))

    def model(self, settings: BagSettings) -> Any:
        """Return the model to fit."""
        return bag_models.make(settings)

    def score(
        self, model: Any, q: Any, batch: Bags | MultiLabelBags, local: Any, index: int, *,
        settings: BagSettings, place: RunPlace, fitted: RunPlace | None,
    ) -> list[BagSummary]:  # fmt: skip
        """Write the probability of every bag and of every instance."""
        form = _read_json(_form_url(place))
        about = _read_json(_work(place, "about", index, "json"))
        rows = storage.read_table(_work(place, "bag_rows", index))
        told = storage.read_table(_work(place, "instance_rows", index))
        # In new data every label is one that the fit has not seen.
        held_out = rows["held_out"] if fitted is None else pa.array(np.zeros(len(rows), bool))
        classes = form.get("classes") or []
        labels = bag_classes.matrix(rows["labels"].to_pylist(), classes)
        written: list[tuple[pa.Table, pa.Table]] = []
        summaries = []
        for c, found in enumerate(bag_models.apply(model, q, batch)):
            name, label = None, rows["label"]
            if classes:
                name = classes[c]
                label = pa.array(labels[:, c], pa.int8(), mask=labels[:, c] < 0)
            bald = _or_nulls(found.bag_bald, rows.num_rows)
            bags = pa.table(
                [rows["bag_id"], label, pa.array(found.bags), held_out, bald,
                 pa.array([name] * rows.num_rows, pa.string())],
                schema=BAGS.arrow,
            )  # fmt: skip
            instances = _instance_table(found, told, rows["bag_id"], about, form, name)
            written.append((bags, instances))
            shown, known = _for_report(bags, told, name)
            summaries.append(
                summarise(
                    shown,
                    instances,
                    known,
                    tuple(form["modalities"]),
                    new=fitted is not None,
                    show=tuple(_named(bag, name) for bag in settings.show_bags),
                )
            )
        for table, parts in zip(("bags", "instances"), zip(*written, strict=True), strict=True):
            storage.write_table(place.table(table, index), pa.concat_tables(parts))
        return summaries

    def keep(self, q: Any, settings: BagSettings, place: RunPlace, fitted: RunPlace | None) -> None:
        """Keep the names of the modalities and their numbers of features."""
        form = storage.read_bytes(_form_url(place))
        storage.write_bytes(storage.join(place.root, "posterior", "bags.json"), form)

    def posterior(self, model: Any, q: Any) -> list[tuple[Any, ...]]:
        """Return the coefficients; an index is modality.feature, both counted from 1."""
        rows: list[tuple[Any, ...]] = []
        for block in bag_models.coefficients(model, q):
            place = "" if block.modality is None else f"{block.modality + 1}."
            for i, (mean, sd) in enumerate(zip(block.mean, block.sd, strict=True)):
                rows.append((block.name, f"{place}{i + 1}", float(mean), float(sd)))
        return rows

    def report(
        self, model: Any, q: Any, summaries: Sequence[Sequence[BagSummary]],
        ingested: Sequence[Ingested], settings: BagSettings,
    ) -> Findings:  # fmt: skip
        """Say what was found."""
        numbers, warnings = bag_models.trust(q)
        blocks = [
            Block(c.name, c.modality, c.mean, c.sd) for c in bag_models.coefficients(model, q)
        ]
        flat = [summary for one in summaries for summary in one]
        return report(flat, blocks, numbers, warnings, settings.show_bags)

    def simulate(self, target: str, rows: int, seed: int) -> list[str]:
        """Draw bags with known truth."""
        from flows.families.bag_simulation import write_bags

        return write_bags(target, rows, seed)


def _classes(bag_rows: pa.Table, settings: BagSettings) -> list[str]:
    if settings.model == "vmmic":
        return []
    return bag_classes.names_of(bag_rows["labels"].combine_chunks())


def _named(bag: str, name: str | None) -> str:
    return bag if name is None else f"{bag}, class {name}"


def _for_report(bags: pa.Table, told: pa.Table, name: str | None) -> tuple[pa.Table, pa.Table]:
    """Name the class with each bag; whether an instance is primary is not told by class."""
    if name is None:
        return bags, told
    names = pa.array([_named(bag, name) for bag in bags["bag_id"].to_pylist()], pa.string())
    place = told.column_names.index("primary")
    unknown = pa.nulls(len(told), pa.bool_())
    return bags.set_column(0, "bag_id", names), told.set_column(place, "primary", unknown)


def _or_nulls(values: np.ndarray | None, size: int) -> pa.Array:
    return pa.nulls(size, pa.float64()) if values is None else pa.array(values)


def _one_modality(model: str, names: Sequence[str]) -> Fault:
    return Fault(
        file="settings",
        column="model",
        expected=f"instances of one modality with model={model}",
        found=f"{len(names)}: {', '.join(name or 'one without a name' for name in names)}",
        remedy="give it the instances of one modality, or take model=vmmic",
    )


def _runs(checked: Sequence[Any]) -> list[bags_check.Runs]:
    return [c.runs for c in checked if c.runs is not None]


def _slices(
    files: Sequence[InputFile], places: Sequence[Sequence[tuple[int, int, int]]]
) -> tuple[Slice, ...]:
    """Join neighbouring rows of one file, in the order of files and rows."""
    slices: list[Slice] = []
    for i, start, stop in sorted(run for rows in places for run in rows):
        before = slices[-1] if slices else None
        if before is not None and (before.url, before.stop) == (files[i].url, start):
            slices[-1] = Slice(before.url, before.start, stop, before.fingerprint)
        else:
            slices.append(Slice(files[i].url, start, stop, files[i].fingerprint))
    return tuple(slices)


def _rows(part: Part) -> pa.Table:
    """Read a partition's rows; where they are scattered, all between the first and the last."""
    if len(part.slices) <= MANY_SLICES:
        return partition.read(part, _COLUMNS, INSTANCES_IN.arrow)
    tables = []
    for url in sorted({s.url for s in part.slices}):
        own = [s for s in part.slices if s.url == url]
        first = own[0].start
        table = storage.read_rows(url, first, own[-1].stop, _COLUMNS)
        rows = np.concatenate([np.arange(s.start, s.stop) for s in own]) - first
        tables.append(partition.conform(table.take(pa.array(rows)), INSTANCES_IN.arrow))
    return pa.concat_tables(tables)


def _work(place: RunPlace, name: str, index: int, suffix: str = "parquet") -> str:
    return storage.join(place.work, name, f"part-{index:05d}.{suffix}")


def _form_url(place: RunPlace) -> str:
    return storage.join(place.work, "form.json")


def _read_json(url: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(storage.read_bytes(url))
    return found


def _form(about: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the modalities of all partitions, sorted, and their numbers of features."""
    widths = {
        name: width
        for one in about
        for name, width in zip(one["modalities"], one["widths"], strict=True)
        if width
    }
    names = sorted(widths) or [""]
    return {
        "modalities": names,
        "widths": [widths.get(name, 0) for name in names],
        "own": max(one["own"] for one in about),
        "classes": sorted({name for one in about for name in one["classes"]}),
    }


def _kept_form(fitted: RunPlace, about: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the form of the fitted run, refusing new data that have another.

    Raises
    ------
    InputError
        With one fault for each modality that was not fitted or has other features.
    """
    kept = _read_json(storage.join(fitted.root, "posterior", "bags.json"))
    widths = dict(zip(kept["modalities"], kept["widths"], strict=True))
    new = _form(about)
    faults = []
    for name, width in zip(new["modalities"], new["widths"], strict=True):
        if width and width != widths.get(name):
            known = ", ".join(f"{k or 'one without a name'} ({w})" for k, w in widths.items())
            faults.append(
                Fault(
                    file=fitted.root,
                    expected=f"the modalities of the fitted run and their features: {known}",
                    found=f"{name or 'one without a name'} ({width})",
                    remedy="score data of the same form, or fit them anew",
                )
            )
    if new["own"] != kept["own"]:
        faults.append(
            Fault(
                file=fitted.root,
                column="bag_features",
                expected=f"{kept['own']} features of a bag, as in the fitted run",
                found=str(new["own"]),
                remedy="score data of the same form, or fit them anew",
            )
        )
    if faults:
        raise InputError(faults)
    return kept


def _build(
    index: int, settings: BagSettings, place: RunPlace, form: dict[str, Any]
) -> tuple[str, list[list[float]], list[list[float]], list[list[int]]]:
    """Store a partition in the common form; return its URL, every feature's range and, where
    there are classes, how many bags have and have not each one.
    """
    url = _work(place, "read", index, "npz")
    data = from_bytes(storage.read_bytes(url), Bags, url)
    about = _read_json(_work(place, "about", index, "json"))
    wide = instances_of.widen(
        data,
        tuple(about["modalities"]),
        tuple(form["modalities"]),
        np.array(form["widths"]),
        settings.precision,
    )
    target = _work(place, "partitions", index, "npz")
    classes = form.get("classes") or []
    rows = storage.read_table(_work(place, "bag_rows", index))
    labels = bag_classes.matrix(rows["labels"].to_pylist(), classes)
    labels = bag_classes.hidden(labels, rows["held_out"].to_numpy(zero_copy_only=False))
    batch = MultiLabelBags(wide, labels) if classes else wide
    storage.write_bytes(target, to_bytes(batch))
    storage.delete(url)
    counts = [[int(np.count_nonzero(column == value)) for value in (0, 1)] for column in labels.T]
    low = [m.features.min(axis=0, initial=np.inf).tolist() for m in wide.modalities]
    high = [m.features.max(axis=0, initial=-np.inf).tolist() for m in wide.modalities]
    return target, low, high, counts


def _warnings(
    about: Sequence[dict[str, Any]], form: dict[str, Any], built: Sequence[Any]
) -> list[str]:
    """Say what the data let expect: few bags, constant features, a class lost to testing."""
    counts = np.sum([one["labels"] for one in about], axis=0)
    if counts.min() == 0 and not form["classes"]:
        raise InputError(
            [
                Fault(
                    file="settings",
                    column="held_out",
                    expected="labelled bags of both classes left for the fit",
                    found=f"{counts[0]} labelled 0 and {counts[1]} labelled 1",
                    remedy="hold fewer bags out",
                )
            ]
        )
    warnings = []
    if form["classes"]:
        warnings += bag_classes.one_sided(
            form["classes"], np.sum([one[3] for one in built], axis=0)
        )
    features, bags = sum(form["widths"]) + form["own"], int(counts.sum())
    if bags < 2 * features:
        warnings.append(
            f"{bags:,} labelled bags for {features:,} features: the fit rests on its prior; "
            "compare it with a simple regression on each bag's mean."
        )
    for k, name in enumerate(form["modalities"]):
        low = np.min([b[1][k] for b in built], axis=0)
        high = np.max([b[2][k] for b in built], axis=0)
        same = np.flatnonzero(low == high) + 1
        if same.size:
            which = ", ".join(map(str, same[:20])) + (" ..." if same.size > 20 else "")
            where = f" of modality {name}" if name else ""
            warnings.append(f"Feature {which}{where} is constant and tells nothing.")
    return warnings


def _instance_table(
    found: bag_models.Scores, told: pa.Table, bag_ids: Any, about: dict[str, Any],
    form: dict[str, Any], name: str | None,
) -> pa.Table:  # fmt: skip
    """Put the modalities' instances back into one table, bag by bag."""
    local = told["modality"].to_numpy()
    kind = np.array([form["modalities"].index(m) if m in form["modalities"] else -1
                     for m in about["modalities"]])[local]  # fmt: skip

    def gathered(columns: Sequence[np.ndarray]) -> pa.Array:
        values = np.empty(kind.size)
        for k, column in enumerate(columns):
            values[kind == k] = column
        return pa.array(values)

    names = pa.array([name or None for name in form["modalities"]], pa.string())
    contribution, bald = (
        pa.nulls(kind.size, pa.float64()) if columns is None else gathered(columns)
        for columns in (found.contribution, found.bald)
    )
    return pa.table(
        [
            bag_ids.take(told["bag"].combine_chunks()),
            told["instance_id"],
            names.take(pa.array(kind)),
            gathered(found.probability),
            gathered(found.score),
            contribution,
            bald,
            pa.array([name] * kind.size, pa.string()),
        ],
        schema=INSTANCES.arrow,
    )


FAMILY = BagsFamily()
