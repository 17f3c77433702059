"""Bags: from instances of bags with one label each to probabilities of bags and instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pyarrow.compute as pc

from flows import storage
from flows.bags import models as bag_models
from flows.bags import rivals, scored
from flows.bags.answer import answer
from flows.bags.input import check as bags_check
from flows.bags.input import instances as instances_of
from flows.bags.input.check import CheckedBags, slices_of
from flows.bags.input.form import (
    FILE,
    AboutBags,
    FeatureSums,
    build,
    constant_columns,
    form_of,
    gap_warnings,
    gaps_of,
    instance_label_warning,
    joined_labels,
    kept_form,
    numbers_of_text,
    read_about,
    read_form,
    refuse_unfit,
    split_bags,
    too_many_words,
    warnings_of,
)
from flows.bags.input.groups import (
    groups_of,
    instance_prints,
    said_of_copied_instances,
    with_groups,
)
from flows.bags.input.roles import (
    FirstRows,
    describe,
    feature_names,
    other_levels,
    settings_from_input,
)
from flows.bags.input.simulate import write_bags
from flows.bags.models import memory_needed
from flows.bags.settings import GIB, HELD_OUT, BagSettings
from flows.bags.summary import Summary
from flows.family import (
    Checked,
    Each,
    Family,
    Ingested,
    Prepared,
    reading_of,
)
from flows.faults import Fault
from flows.records import json_files
from flows.records.runs import Dropped, Parameter, RunPaths
from flows.report.figures import plain
from flows.report.render import say
from flows.storage import InputFile, Sources
from flows.tables.file_table import without_table
from flows.tables.partition import Part
from vbmodels.bags.bags import Bags, even_bounds
from vbmodels.bags.multilabel import MultiLabelBags
from vbmodels.core.state import to_bytes
from vbmodels.tables.column_table import ColumnRead

NUMBER = (
    "The label is predicted as a number, from pooled features; for two classes, --set "
    "threshold=NUMBER (positive from there on)."
)
ORDERED = (
    "The label's levels are fitted as the numbers 1 to k, from pooled features; for two "
    "classes, --set positive=LEVEL,LEVEL."
)
MOST_BYTES = 2**27
"""Bytes of files, decoded, that are one partition, but for a bag that has more."""
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
            files = without_table(storage.expand(source, self.suffixes), settings)
            with reading_of(self, settings), storage.sharing(files):
                storage.fetch_ahead(file.url for file in files)
                return settings_from_input(files, with_groups(files, settings))
        except storage.StorageError:
            return settings  # the check says it

    check = staticmethod(bags_check.check)
    read_header = staticmethod(bags_check.read_header)
    merge = staticmethod(bags_check.merge)
    require_labels = staticmethod(bags_check.require_labels)
    model = staticmethod(bag_models.make)
    answer = staticmethod(answer)
    simulate = staticmethod(write_bags)

    def validate_dataset(
        self, files: Sequence[InputFile], checked: Sequence[Checked]
    ) -> list[Fault]:
        """List what files say differently."""
        return bags_check.validate_files(files, checked)

    def group_files(
        self, files: Sequence[InputFile], checked: Sequence[Checked]
    ) -> list[list[int]]:
        """Group files that share a bag."""
        return bags_check.sharing_bags(bags_check.runs_in(checked))

    def plan(
        self, files: Sequence[InputFile], checked: Sequence[Checked], settings: BagSettings
    ) -> list[Part]:
        """Cut the bags, whole, into partitions with about as many instances each.

        Their number is even, so that two workers, or two threads, have the same to do.
        """
        order = np.argsort([f.url for f in files], kind="stable")
        files = [files[i] for i in order]
        places = bags_check.bounds_of(bags_check.runs_in([checked[i] for i in order]))
        sizes = np.array([sum(stop - start for _, start, stop in rows) for rows in places])
        size = sum(file.size for file in checked if isinstance(file, CheckedBags))
        least = max(len(places) / settings.rows_per_partition, size / MOST_BYTES)
        even = 2 * int(np.ceil(least / 2.0)) if least > 1.0 else 1
        count = settings.partitions or min(even, len(places))
        bounds = even_bounds(sizes, count)
        return [
            Part(index, slices_of(files, places[bounds[index] : bounds[index + 1]]))
            for index in range(len(bounds) - 1)
        ]

    def ingest(self, part: Part, settings: BagSettings, paths: RunPaths) -> Ingested:
        """Group a partition's instances by bag."""
        rows, checked = bags_check.check_part(part, settings)
        bags_check.refuse(checked.pieces, settings)
        grouped = instances_of.read(rows, part.index, settings)
        del rows  # as much memory as what was made of them
        storage.write_bytes(paths.part("read", part.index, "npz"), to_bytes(grouped.bags))
        storage.write_table(paths.part("bag_rows", part.index), grouped.bag_rows)
        storage.write_table(paths.part("instance_rows", part.index), grouped.instance_rows)
        storage.write_table(paths.part("prints", part.index), instance_prints(grouped.bags))
        classes = grouped.bag_rows["labels"].combine_chunks()
        sums = map(FeatureSums.of, (modality.features for modality in grouped.bags.modalities))
        about = AboutBags(
            sums=dict(zip(grouped.modalities, sums, strict=True)),
            own=grouped.bags.bag_features.shape[1],
            classes=sorted(set(classes.flatten().to_pylist())) if settings.takes_classes else [],
            exclusive=not pc.any(pc.not_equal(pc.list_value_length(classes), 1)).as_py(),
            words=too_many_words(grouped.bags),
            numbers=checked.seen.columns,
            labels=dict(checked.seen.labels),
            bags=grouped.bag_rows.num_rows,
            split=len(checked.split),
        )
        json_files.write(paths.part("about", part.index, "json"), about)
        is_positive = pc.equal(grouped.bag_rows["label"], 1)
        positive = grouped.bag_rows.filter(is_positive)["bag_id"].to_pylist()
        return Ingested(
            rows_read=part.rows,
            rows_kept=grouped.instance_rows.num_rows,
            dropped=(
                Dropped(
                    reason=EMPTY if settings.leakless else EMPTY_BY[settings.model],
                    count=len(grouped.empty),
                    examples=list(grouped.empty[:100]),
                    of=grouped.bag_rows.num_rows,
                    cause="Check that the input has their instances, by bag_id",
                ),
            ),
            notes={
                "bags": grouped.bag_rows.num_rows,
                "empty_positive": len(set(positive) & set(grouped.empty)),
            },
            checked=checked.pieces,
        )

    def prepare(
        self,
        parts: Sequence[Part],
        settings: BagSettings,
        paths: RunPaths,
        fitted: RunPaths | None,
        each: Each,
    ) -> Prepared:
        """Bring all partitions to the same modalities."""
        about = reduce(add, (read_about(paths, part.index) for part in parts))
        first = FirstRows(parts[0].slices[0].file, settings)
        names = feature_names(first)
        form = form_of(about, names) if fitted is None else kept_form(fitted, about, names)
        if fitted is None:
            refuse_unfit(form, about, settings)
        json_files.write(paths.kept(FILE, work=True), form)
        groups, counts, remarks = groups_of(len(parts), paths, each, settings, fitted is not None)
        items = [(part.index, of_part) for part, of_part in zip(parts, groups, strict=True)]
        built = each(build, items, settings, paths, form)
        warnings: list[str] = []
        notes: list[str] = []
        gaps = gaps_of(about, form)
        columns: tuple[ColumnRead, ...] = ()
        if fitted is None:
            if about.rows <= MOST_COMPARED:
                remarks += said_of_copied_instances(len(parts), paths, each)
            warnings, notes = warnings_of(counts, form, built, settings.numeric)
            warnings += remarks
            if settings.held_out == HELD_OUT:
                count = sum(int(of_part.held.sum()) for of_part in groups)
                warnings.append(
                    f"{count:,} bags are held out of the fit to test it; --set held_out=0 fits all."
                )
            if settings.numeric:
                warnings.append(ORDERED if settings.label_order else NUMBER)
            warnings += instance_label_warning(built, form, settings)
            constant = constant_columns(form, built)
            columns, remarks = describe(first, gaps, counts, constant)
            warnings += remarks
        warnings += gap_warnings(gaps)
        read_as, doubts = numbers_of_text(about, settings)
        warnings += doubts + joined_labels(about)
        warnings += split_bags(about)
        warnings += other_levels(first)
        storage.refuse_changed(first.file.url, first.file.fingerprint)  # of which names are
        partitions = tuple(partition.url for partition in built)
        return Prepared(
            partitions,
            MultiLabelBags if form.classes else Bags,
            tuple(warnings),
            columns=columns,
            notes=(*notes, *read_as),
        )

    def score(
        self,
        model: Any,
        q: Any,
        batch: Bags | MultiLabelBags,
        local: Any,
        index: int,
        *,
        settings: BagSettings,
        paths: RunPaths,
        fitted: RunPaths | None,
    ) -> Summary:
        """Write the probability of every bag and of every instance."""
        return scored.score(model, q, batch, local, index, settings, paths, fitted is not None)

    def select(
        self,
        model: Any,
        q: Any,
        summaries: Sequence[Any],
        *,
        settings: BagSettings,
        paths: RunPaths,
        fitted: RunPaths | None,
        each: Each,
    ) -> tuple[Sequence[Any], Any]:
        """Write what simpler models predict of the bags that a fit is tested on."""
        if fitted is not None:
            return summaries, q
        first, *others = summaries
        by_rival = rivals.write([part.rows for part in summaries], settings, paths, each)
        return [replace(first, rivals=by_rival), *others], q

    def keep(self, q: Any, settings: BagSettings, paths: RunPaths, fitted: RunPaths | None) -> None:
        """Keep the names of the modalities and their numbers of features."""
        json_files.write(paths.kept(FILE), read_form(paths))

    def posterior(self, model: Any, q: Any, paths: RunPaths) -> list[Parameter]:
        """Return the coefficients; an index is modality.feature, by name or counted from 1."""
        form = read_form(paths)
        rows = []
        for block in bag_models.coefficients(model, q):
            of_class, modality = "", ""
            if block.of_class is not None:
                of_class = f" of class {form.classes[block.of_class]}"
            if block.modality is not None and form.modalities[block.modality]:
                modality = f"{form.modalities[block.modality]}."
            named = block.modality is not None and len(form.names) == block.mean.size
            indices = form.names if named else range(1, block.mean.size + 1)
            rows += [
                Parameter(block.name + of_class, f"{modality}{i}", float(mean), float(sd))
                for i, mean, sd in zip(indices, block.mean, block.sd, strict=True)
            ]
        return rows

    def warnings_before_fit(self, q: Any, settings: BagSettings) -> Sequence[str]:
        """Say before the fit that it will be without the Gaussian process of instances."""
        needed = memory_needed(q, settings)
        if needed is None:
            return ()
        return (plain(say(self.name, "without_process", needed / GIB)),)


FAMILY = BagsFamily()
