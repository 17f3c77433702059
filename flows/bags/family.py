"""Bags: from instances of bags with one label each to probabilities of bags and instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows import storage
from flows.bags import numbers
from flows.bags.answer import Answer, answer, kind_of
from flows.bags.input import check as bags_check
from flows.bags.input import classes as bag_classes
from flows.bags.input import input_columns
from flows.bags.input import instances as instances_of
from flows.bags.input import pieces as pieces_of
from flows.bags.input.column_roles import describe
from flows.bags.input.form import (
    AboutBags,
    BagForm,
    build,
    form_of,
    form_url,
    gap_warnings,
    gaps_of,
    instance_label_warning,
    joined_labels,
    kept_form,
    kept_url,
    known_instances,
    numbers_of_text,
    read_about,
    read_form,
    split_bags,
    sums_of,
    too_many_words,
    with_names,
)
from flows.bags.input.form_warnings import (
    constant_columns,
    many_words,
    one_modality,
    warnings_of,
    without_instances,
)
from flows.bags.input.found_groups import with_groups
from flows.bags.input.groups import groups_of, instance_prints, said_of_copied_instances
from flows.bags.input.pieces import slices_of
from flows.bags.models import models as bag_models
from flows.bags.models import rivals
from flows.bags.models.markers import explainer, feature_sums
from flows.bags.models.stacked import memory_needed
from flows.bags.models.tables import Coefficients, written
from flows.bags.schema import instances_in
from flows.bags.settings import GIB, HELD_OUT, BagSettings
from flows.bags.summary import Summary, Tables, summarise
from flows.family import (
    Checked,
    CheckedPiece,
    Each,
    Family,
    Finished,
    Ingested,
    Prepared,
    reading_of,
)
from flows.faults import Fault, InputError
from flows.records import json_files
from flows.records.runs import Dropped, Parameter, RunPaths
from flows.report.figures import plain
from flows.report.render import say
from flows.storage import InputFile, Sources
from flows.tables.partition import Part, chunks
from vbmodels.bags.bags import Bags, even_bounds
from vbmodels.bags.embedding.number import NumberModel
from vbmodels.bags.multilabel import MultiLabelBags, bags_of
from vbmodels.core.column_table import ColumnRead
from vbmodels.core.state import to_bytes


@dataclass(frozen=True)
class CheckedBags(Checked):
    """What the check of one file found, with where its bags stand."""

    runs: bags_check.Runs | None = None
    multi: bool = False


NUMBER = (
    "The label is predicted as a number, from pooled features; for two classes, --set "
    "threshold=NUMBER (positive from there on)."
)
ORDERED = (
    "The label's levels are fitted as the numbers 1 to k, from pooled features; for two "
    "classes, --set positive=LEVEL,LEVEL."
)
MOST_COMPARED = 20_000_000
"""Instances beyond which copies among them are not counted."""
EMPTY = "bag without instances: its probability is 0"
_SCORED_BY = {
    "gp_probit": "the leak",
    "vmmic": "the intercept",
    "auto": "its size and the base rate",
    "embedding": "its size",
}
EMPTY_BY = {model: f"bag without instances, scored by {by}" for model, by in _SCORED_BY.items()}
"""What becomes of a bag without instances, by the model."""


class BagsFamily(Family):
    """The bags family; see `flows.family.Family`."""

    name = "bags"
    suffixes = (*storage.SUFFIXES, *storage.ARRAYS)
    settings = BagSettings

    def threads(self, settings: BagSettings) -> bool:
        """Return True: half of the time is in products of matrices (benchmarks/scale.md)."""
        return True

    def settings_from_input(self, source: Sources, settings: BagSettings) -> BagSettings:
        """Return the settings with groups, features and the positive label as the input says."""
        try:
            files = storage.expand(source, self.suffixes)
            with reading_of(self, settings), storage.sharing(files):
                storage.fetch_ahead(file.url for file in files)
                grouped = with_groups(files, settings)
                return input_columns.settings_from_input(files, grouped)
        except storage.StorageError:
            return settings  # the check says it

    def check(self, file: InputFile, settings: BagSettings) -> CheckedBags:
        """List the faults of one file of instances."""
        several = settings.model == "gp_probit"
        table = instances_in(settings)
        checker, runs = bags_check.check_bags(chunks(file.url), file.url, several, table)
        multi = several and bag_classes.has_classes(checker.columns)
        return CheckedBags(checker.rows, tuple(checker.found.faults()), (), runs, multi)

    def read_header(self, file: InputFile, settings: BagSettings) -> CheckedBags:
        """List the faults of one file's columns, and say where its bags stand."""
        several = settings.model == "gp_probit"
        checker, runs = pieces_of.read_header(file.url, several, instances_in(settings))
        return CheckedBags(checker.rows, tuple(checker.found.faults()), (), runs)

    def merge(
        self, file: InputFile, pieces: Sequence[CheckedPiece], settings: BagSettings
    ) -> CheckedBags:
        """Return what the pieces of a file say of it."""
        runs, multi, faults = pieces_of.merge(file.url, pieces)
        return CheckedBags(sum(one.rows for one in pieces), tuple(faults), (), runs, multi)

    def validate_dataset(
        self, files: Sequence[InputFile], checked: Sequence[Checked]
    ) -> list[Fault]:
        """List what files say differently."""
        return bags_check.validate_dataset([f.url for f in files], _runs(checked))

    def group_files(
        self, files: Sequence[InputFile], checked: Sequence[Checked]
    ) -> list[list[int]]:
        """Group files that share a bag."""
        return bags_check.sharing_bags(_runs(checked))

    def require_labels(self, files: Sequence[InputFile], checked: Sequence[Checked]) -> list[Fault]:
        """List what a fit lacks beyond what scoring needs."""
        if any(getattr(c, "multi", False) for c in checked):
            return []
        source = files[0].url if len(files) == 1 else f"{len(files)} files"
        return bags_check.require_labels(source, _runs(checked))

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
            Part(index, slices_of(files, places[bounds[index] : bounds[index + 1]]))
            for index in range(len(bounds) - 1)
        ]

    def ingest(self, part: Part, settings: BagSettings, paths: RunPaths) -> Ingested:
        """Group a partition's instances by bag."""
        several = settings.model == "gp_probit"
        checked = pieces_of.check_part(part, several, instances_in(settings))
        found = instances_of.read(
            checked.rows,
            part.index,
            settings.held_out or 0.0,
            settings.seed,
            settings.precision,
            settings.group_parts or 0,
        )
        storage.write_bytes(paths.part("read", part.index, "npz"), to_bytes(found.bags))
        storage.write_table(paths.part("bag_rows", part.index), found.bag_rows)
        storage.write_table(paths.part("instance_rows", part.index), found.instance_rows)
        storage.write_table(paths.part("prints", part.index), instance_prints(found.bags))
        sums = [sums_of(m.features) for m in found.bags.modalities]
        about = AboutBags(
            modalities=list(found.modalities),
            widths=[m.n_features for m in found.bags.modalities],
            own=found.bags.bag_features.shape[1],
            classes=_classes(found.bag_rows, settings),
            exclusive=bag_classes.one_each(found.bag_rows["labels"].combine_chunks()),
            words=too_many_words(found.bags),
            sums=[total for total, _, _ in sums],
            gaps=[missing for _, missing, _ in sums],
            rows=[count for _, _, count in sums],
            known=known_instances(found.bags),
            numbers=checked.seen.columns,
            labels=dict(checked.seen.labels),
            bags=found.bag_rows.num_rows,
            split=len(checked.split),
        )
        json_files.write(paths.part("about", part.index, "json"), about)
        n_empty = len(found.empty)
        is_positive = pc.equal(found.bag_rows["label"], 1)
        positive = found.bag_rows.filter(is_positive)["bag_id"].to_pylist()
        return Ingested(
            rows_read=part.rows,
            rows_kept=found.instance_rows.num_rows,
            dropped=(
                Dropped(
                    reason=EMPTY if settings.leakless else EMPTY_BY[settings.model],
                    count=n_empty,
                    examples=list(found.empty[:100]),
                    of=found.bag_rows.num_rows,
                    cause="Check that the input has their instances, by bag_id",
                ),
            ),
            notes={
                "bags": found.bag_rows.num_rows,
                "empty_positive": len(set(positive) & set(found.empty)),
            },
            checked=checked.pieces,
        )

    def prepare(
        self, parts: Sequence[Part], settings: BagSettings, paths: RunPaths,
        fitted: RunPaths | None, each: Each,
    ) -> Prepared:  # fmt: skip
        """Bring all partitions to the same modalities."""
        about = [read_about(paths, p.index) for p in parts]
        s = parts[0].slices[0]
        first = InputFile(s.url, s.size, s.fingerprint)
        with reading_of(self, settings):
            names = input_columns.names_of_features(first, settings)
        form = form_of(about) if fitted is None else kept_form(fitted, about, names)
        if settings.model == "gp_probit" and len(form["modalities"]) > 1:
            raise InputError([one_modality(settings.model, form["modalities"])])
        none = not any(sum(one["widths"]) for one in about)
        if fitted is None and none and settings.needs_instances:
            raise InputError([without_instances(settings.model)])
        words = max((one["words"] for one in about), default=0)
        if fitted is None and words and settings.takes_words:
            raise InputError([many_words(settings.model, words)])
        if fitted is None:
            form = with_names(form, names)
        json_files.write(form_url(paths), BagForm(**form))
        groups, counts, said = groups_of(len(parts), paths, each, settings)
        items = [(part.index, own) for part, own in zip(parts, groups, strict=True)]
        built = each(build, items, settings, paths, form)
        warnings: list[str] = []
        notes: list[str] = []
        gaps = gaps_of(about, form)
        columns: tuple[ColumnRead, ...] = ()
        if fitted is None:
            if sum(sum(one["rows"]) for one in about) <= MOST_COMPARED:
                said += said_of_copied_instances(len(parts), paths, each)
            warnings, notes = warnings_of(counts, form, built, settings.numeric)
            warnings += said
            if settings.held_out == HELD_OUT:
                held = sum(int(own.held.sum()) for own in groups)
                warnings.append(
                    f"{held:,} bags are held out of the fit to test it; --set held_out=0 fits all."
                )
            if settings.numeric:
                warnings.append(ORDERED if settings.label_order else NUMBER)
            warnings += instance_label_warning(about, form, settings)
            with reading_of(self, settings):
                constant = constant_columns(form, built)
                columns, said = describe(first, settings, gaps, counts, constant)
            warnings += said
        warnings += gap_warnings(gaps)
        read_as, doubts = numbers_of_text(about, settings)
        warnings += doubts + joined_labels(about)
        warnings += split_bags(about, len({one.url for part in parts for one in part.slices}))
        with reading_of(self, settings):
            warnings += input_columns.other_levels(first, settings)
        batch = MultiLabelBags if form.get("classes") else Bags
        partitions = tuple(u for u, *_ in built)
        return Prepared(
            partitions, batch, tuple(warnings), columns=columns, notes=(*notes, *read_as)
        )

    def model(self, settings: BagSettings) -> Any:
        """Return the model to fit."""
        return bag_models.make(settings)

    def score(
        self, model: Any, q: Any, batch: Bags | MultiLabelBags, local: Any, index: int, *,
        settings: BagSettings, paths: RunPaths, fitted: RunPaths | None,
    ) -> Summary:  # fmt: skip
        """Write the probability of every bag and of every instance."""
        if isinstance(model, NumberModel):
            new = fitted is not None
            assert isinstance(batch, Bags)
            return numbers.score(
                model, q, batch, local, index, settings=settings, paths=paths, new=new
            )
        form = read_form(form_url(paths))
        about = read_about(paths, index)
        rows = storage.read_table(paths.part("bag_rows", index))
        instance_rows = storage.read_table(paths.part("instance_rows", index))
        # In new data every label is one that the fit has not seen.
        held_out = rows["held_out"] if fitted is None else pa.array(np.zeros(len(rows), bool))
        found = bag_models.apply(model, q, batch, local if fitted is None else None)
        data = bags_of(batch)
        explain = explainer(model, q, data)
        tables = list(written(found, rows, instance_rows, about, form, held_out, data, explain))
        for name in ("bags", "instances", "reasons", "markers"):
            parts = [getattr(one, name) for one in tables]
            if parts[0] is not None:
                storage.write_table(paths.table(name, index), pa.concat_tables(parts))
        of = [
            Tables(one.bags, one.instances, one.markers, instance_rows, one.name or "")
            for one in tables
        ]
        return summarise(
            kind_of(settings, form), of, fitted is not None, settings.show_bags, form["classes"],
            None if explain is None else feature_sums(of[0].instances, data, form),
        )  # fmt: skip

    def select(
        self, model: Any, q: Any, summaries: Sequence[Any], *, settings: BagSettings,
        paths: RunPaths, fitted: RunPaths | None, each: Each,
    ) -> tuple[Sequence[Any], Any]:  # fmt: skip
        """Write what simpler models predict of the bags that a fit is tested on."""
        if fitted is not None:
            return summaries, q
        first, *others = summaries
        found = rivals.write(len(summaries), settings, paths, each)
        return [replace(first, rivals=found), *others], q

    def keep(self, q: Any, settings: BagSettings, paths: RunPaths, fitted: RunPaths | None) -> None:
        """Keep the names of the modalities and their numbers of features."""
        json_files.write(kept_url(paths), json_files.read(form_url(paths), BagForm))

    def posterior(self, model: Any, q: Any, paths: RunPaths) -> list[Parameter]:
        """Return the coefficients; an index is modality.feature, by name or counted from 1."""
        form = read_form(form_url(paths))
        rows = []
        for block in bag_models.coefficients(model, q):
            of, modality = "", ""
            if block.of_class is not None:
                of = f" of class {form['classes'][block.of_class]}"
            if block.modality is not None and form["modalities"][block.modality]:
                modality = f"{form['modalities'][block.modality]}."
            rows += [
                Parameter(block.name + of, f"{modality}{i}", float(mean), float(sd))
                for i, mean, sd in zip(_indices(block, form), block.mean, block.sd, strict=True)
            ]
        return rows

    def answer(self, finished: Finished) -> Answer:
        """Return everything that a reader of the run may see."""
        return answer(finished)

    def warnings_before_fit(self, q: Any, settings: BagSettings) -> Sequence[str]:
        """Say before the fit that it will be without the Gaussian process of instances."""
        needed = memory_needed(q, settings)
        if needed is None:
            return ()
        return (plain(say(self.name, "without_process", needed / GIB)),)

    def simulate(self, target: str, rows: int, seed: int) -> list[str]:
        """Draw bags with known truth."""
        from flows.bags.input.simulate import write_bags

        return write_bags(target, rows, seed)


def _indices(block: Coefficients, form: dict[str, Any]) -> Sequence[Any]:
    """Return the names of a block's features, or their numbers."""
    named = block.modality is not None and len(form["names"]) == block.mean.size
    return form["names"] if named else range(1, block.mean.size + 1)


def _classes(bag_rows: pa.Table, settings: BagSettings) -> list[str]:
    if settings.model != "gp_probit":
        return []
    return bag_classes.names_of(bag_rows["labels"].combine_chunks())


def _runs(checked: Sequence[Any]) -> list[bags_check.Runs]:
    return [c.runs for c in checked if c.runs is not None]


FAMILY = BagsFamily()
