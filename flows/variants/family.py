"""Variants: from reads or base counts of case and control to calls, a VCF, and every location."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pydantic import ValidationError

from flows import storage
from flows.family import Checked, CheckedPiece, Each, Family, Finished, Ingested, Prepared
from flows.faults import Fault, InputError
from flows.records import json_files
from flows.records.runs import Parameter, RunPaths
from flows.records.states import read_state
from flows.storage import InputFile
from flows.tables import partition
from flows.tables.checks import add_up, faults_of
from flows.tables.names import listed
from flows.tables.partition import Part, Slice
from flows.variants.answer import Answer
from flows.variants.answer import answer as answer_of
from flows.variants.calls import calls as variant_calls
from flows.variants.calls.calls import ALPHA, Scored
from flows.variants.calls.indel_calls import fit_url, kept_url
from flows.variants.calls.indel_calls import hyperparameters as indel_hyperparameters
from flows.variants.case_files import KeptPartitions, conclude, fits_of
from flows.variants.input import read_account
from flows.variants.input.alignment_checks import check_sheet, header_warnings
from flows.variants.input.count_checks import Rules, missing_files, read_header
from flows.variants.input.locations import Gathered, marks_in, replicate_columns
from flows.variants.input.read_account import SampleReads, nothing_left, thin_faults
from flows.variants.input.sample_sheet import (
    ALIGNMENTS,
    check_samples,
    inferred,
    is_sheet,
    needs_a_sheet,
    read_sheet,
    settings_of_sheet,
)
from flows.variants.input.sorted_counts import check_slices, gather_counts, sort_part
from flows.variants.input.tallies import count_reads, files_of, gather_reads, plan_reads
from flows.variants.input.training_sites import finish_partition, to_fit
from flows.variants.reads.contigs import Marks, marks_of
from flows.variants.reads.regions import regions_of
from flows.variants.settings import VariantSettings
from vbmodels.core.state import State, to_bytes
from vbmodels.variants.counts import Counts, units
from vbmodels.variants.panel.model import PanelNull
from vbmodels.variants.rvd2.model import RVD2, Pair
from vbmodels.variants.two_groups.batch_null import BatchNull, names_of_types
from vbmodels.variants.two_groups.cases import OfCase, Several
from vbmodels.variants.two_groups.contexts import names_of_contexts
from vbmodels.variants.two_groups.model import MIXTURE, TwoGroups


def hyperparameters(model: Any, q: Any) -> list[Parameter]:
    """Return every hyperparameter of the fit; they are point estimates."""
    if isinstance(model, Pair):
        return [
            Parameter(name, sample, value)
            for sample, prior in (("case", q.case), ("control", q.control))
            for name, value in (
                ("mu0", prior.a0 / (prior.a0 + prior.b0)),
                ("M0", prior.a0 + prior.b0),
                ("log_M", prior.log_m),
            )
        ]
    rows = [
        Parameter("pi", None, q.pi),
        Parameter("w", None, q.w),
        Parameter("log_M_mean", None, q.log_m_mean),
        Parameter("log_M_sd", None, q.log_m_sd),
    ]
    if len(q.rho) > 1:
        means = [f"mean {a / (a + b):.2g}" if a > 1.0 else "any" for a, b in model.alternatives]
        rows += [Parameter("rho", m, float(r)) for m, r in zip(means, q.rho, strict=True)]
    if isinstance(model, BatchNull):
        rows += [
            Parameter("shift_mean", None, q.shift_mean),
            Parameter("site_sd", None, q.tau),
            Parameter("v", None, q.v),
        ]
        rows += [
            Parameter("shift", kind, float(b), float(se))
            for kind, b, se in zip(names_of_types(), q.shift, q.errors.of_type, strict=True)
        ]
    if isinstance(model, BatchNull) and q.of_context is not None:
        rows += [
            Parameter("context_shift", name, float(b), float(se))
            for name, b, se in zip(
                names_of_contexts(), q.of_context.flat, q.errors.of_context.flat, strict=True
            )
        ]
    if isinstance(model, PanelNull):
        rows += [
            Parameter("member_shift", f"{p + 1} {kind}", float(b))
            for p, shifts in enumerate(q.member_shift)
            for kind, b in zip(names_of_types(), shifts, strict=True)
        ]
    for t, kind in enumerate(names_of_types()):
        rows.append(Parameter("error_rate", kind, float(q.a[t] / (q.a[t] + q.b[t]))))
        rows.append(Parameter("error_shape", kind, float(q.a[t])))
    return rows


@dataclass(frozen=True)
class CheckedVariants(Checked):
    """What the check of one file found, with its samples and replicates.

    ``named`` are files that the sheet or the settings name, and what marks their versions.
    """

    samples: tuple[str, ...] = ()
    columns: int = 1
    named: tuple[tuple[str, str], ...] = ()


MOST_NAMED = 3  # samples of which one sentence each says the same


class Variants(Family):
    """The variants family; see `flows.family.Family`."""

    name = "variants"
    suffixes: tuple[str, ...] = (".parquet", ".csv")
    settings = VariantSettings
    compares = True  # whether a sheet must have the case and the control

    def threads(self, settings: VariantSettings) -> bool:
        """Return whether the test is compiled."""
        return settings.test == "two_groups"

    def settings_from_input(
        self, source: storage.Sources, settings: VariantSettings
    ) -> VariantSettings:
        """Return the settings with the case, the control and the panel that a sheet's roles say."""
        try:
            urls = [file.url for file in storage.expand(source, self.suffixes)]
            alone = len(urls) == 1 and is_sheet(urls[0])
            lines = read_sheet(urls[0]) if alone else []
        except storage.TransientStorageError:
            raise
        except (storage.StorageError, InputError):
            return settings  # the check says what is wrong
        sheet = settings_of_sheet(urls[0], lines, settings) if lines else {}
        try:
            return VariantSettings(**{**settings.model_dump(), **sheet}) if sheet else settings
        except ValidationError as error:
            found = "; ".join(
                str(problem["msg"]).removeprefix("Value error, ") for problem in error.errors()
            )
            raise InputError.of(
                file=urls[0], column="role", expected="roles that fit the settings", found=found
            ) from error

    def check(self, part: Part, settings: VariantSettings) -> tuple[CheckedPiece, ...]:
        """Say what is wrong in rows of counts; of reads the header of their sheet is all."""
        if files_of(part):
            return ()
        try:
            rules = Rules.of(settings, marks_of(settings))
        except InputError:  # the check of headers says it
            rules = Rules()
        return tuple(check_slices(part, rules)[1])

    def merge(
        self,
        file: InputFile,
        header: Checked,
        pieces: Sequence[CheckedPiece],
        settings: VariantSettings,
    ) -> Checked:
        """Return the check of a file of counts."""
        faults = faults_of(add_up(piece.faults for piece in pieces))
        return replace(header, faults=(*faults, *header.faults))

    def read_header(self, file: InputFile, settings: VariantSettings) -> Checked:
        """List the faults of a sample sheet, or of the columns of a file of counts."""
        if is_sheet(file.url):
            return self._check_reads(file.url, settings)
        if file.url.lower().endswith(ALIGNMENTS):
            return Checked(0, (needs_a_sheet(file.url),))
        marks: Marks = ()
        wrong = tuple[Fault, ...]()
        try:
            marks = marks_of(settings)
            Rules.of(settings, marks)
        except InputError as error:
            wrong = error.faults
        if settings.primers is not None:
            wrong = (
                *wrong,
                Fault(
                    file="settings",
                    column="primers",
                    expected="reads, whose bases of primers do not count",
                    found="counts",
                    remedy="give primers where the reads are counted",
                ),
            )
        rows, samples, faults = read_header(file.url)
        return CheckedVariants(rows, (*faults, *wrong), (), tuple(sorted(samples)), 6, marks)

    def _check_reads(self, url: str, settings: VariantSettings) -> Checked:
        faults = check_sheet(url, settings, self.compares)
        if faults:
            return Checked(0, tuple(faults))
        marks = marks_of(settings)
        total = sum(r.length for r in regions_of(settings, marks))
        lines = read_sheet(url)
        reads = {x.path: storage.fingerprint_of(x.path) for x in lines}
        named = tuple(sorted((dict(marks) | reads).items()))
        samples = tuple({x.sample for x in lines})
        return CheckedVariants(total, (), (), samples, 1, named, row="position", files=len(reads))

    def validate_dataset(
        self, files: Sequence[InputFile], checked: Sequence[Checked]
    ) -> list[Fault]:
        """List sample sheets given with other files, and counts with gaps."""
        if len(files) > 1 and any(is_sheet(f.url) for f in files):
            names = ", ".join(f.url for f in files[:3])
            return [
                Fault(
                    file=files[0].url,
                    expected="one sample sheet alone, or counts in Parquet",
                    found=f"{len(files)} files: {names}",
                )
            ]
        return missing_files([f.url for f in files])

    def group_files(
        self, files: Sequence[InputFile], checked: Sequence[Checked]
    ) -> list[list[int]]:
        """Take each file of all samples alone, and files of single samples together."""
        samples = {frozenset(getattr(c, "samples", ())) for c in checked}
        alone = len(samples) == 1
        return [[i] for i in range(len(files))] if alone else [list(range(len(files)))]

    def plan(
        self, files: Sequence[InputFile], checked: Sequence[Checked], settings: VariantSettings
    ) -> list[Part]:
        """Cut the regions' positions, or the rows of counts."""
        named = dict(mark for c in checked for mark in getattr(c, "named", ()))
        rows = sum(c.rows for c in checked)
        if is_sheet(files[0].url):
            if checked[0].faults:
                return []
            lines = read_sheet(files[0].url)
            return plan_reads(files[0], lines, named, rows, settings, self.compares)
        samples = {s for c in checked for s in getattr(c, "samples", ())}
        if faults := check_samples(files[0].url, samples, settings):
            raise InputError(faults)
        each = settings.rows_per_partition * max(getattr(c, "columns", 1) for c in checked)
        parts = partition.cut(files, [c.rows for c in checked], each, settings.partitions)
        # The FASTA and the BED say where rows belong: part of what a partition is made of.
        slices = [Slice(url, 0, 0, mark) for url, mark in named.items()]
        return [Part(part.index, (*part.slices, *slices)) for part in parts]

    def ingest(self, part: Part, settings: VariantSettings, paths: RunPaths) -> Ingested:
        """Count the reads of a partition's positions, or sort its rows of counts."""
        ingest = count_reads if files_of(part) else sort_part
        return ingest(part, settings, paths)

    def prepare(
        self,
        parts: Sequence[Part],
        settings: VariantSettings,
        paths: RunPaths,
        fitted: RunPaths | None,
        each: Each,
    ) -> Prepared:
        """Put the locations of every case's partitions together and choose those to be fitted on.

        Where the parts' locations follow one another, partitions are the parts.
        """
        source = parts[0].slices[0].url
        gather = gather_reads if files_of(parts[0]) else gather_counts
        gathered = gather(parts, settings, paths, each)
        partitions = to_fit(gathered, len(settings.tested))
        _refuse_nothing(source, gathered, {p.case for p in partitions}, settings)
        reads = _sample_reads(gathered, settings)
        urls_of = {column: url for column, (url, _) in gathered.files.items()}
        if faults := thin_faults(source, urls_of, reads, settings):
            raise InputError(faults)
        urls = each(finish_partition, partitions, settings, paths, gathered.columns)
        kept = KeptPartitions(
            indices=[p.partition for p in partitions],
            columns=reads.columns,
            cases=[p.case for p in partitions],
            positions=reads.positions,
            locations=reads.locations,
            depth=reads.depth.tolist(),
            account=None if reads.account is None else reads.account.tolist(),
            files=[gathered.files[column] for column in reads.columns] if gathered.files else [],
        )
        json_files.write(paths.part("kept", 0, "json"), kept)
        warnings, notes = list(gathered.warnings), list[str]()
        if gathered.files:
            lines = read_sheet(source)
            used = [line for line in lines if (line.sample, line.replicate) in gathered.files]
            wanted = regions_of(settings, marks_in(parts[0], settings))
            warnings += header_warnings(used, wanted, settings)
            notes += inferred(os.path.dirname(source), lines, settings)
            notes += read_account.replicates_in_words(used)
        warnings += _alike_warnings(gathered, reads, settings)
        warnings += _read_warnings(reads, settings)
        warnings += _test_warnings(settings)
        return Prepared(
            tuple(urls),
            OfCase if settings.several else Counts,
            tuple(warnings),
            tuple(lost for p in gathered.partitions for lost in p.dropped),
            notes=tuple(notes),
        )

    def model(self, settings: VariantSettings) -> Any:
        """Return the two-groups model, or the papers' model of both samples."""
        if settings.several:
            names = tuple(settings.several)
            of_one = self.model(settings.of_case(names[0]))
            return Several(of_one, names, settings.tol, settings.max_iter)
        if settings.test == "two_groups":
            sense = _sense(settings)
            if sense == "germline":
                return TwoGroups(sense, MIXTURE)
            if settings.members:
                return PanelNull(
                    sense, MIXTURE, types=settings.types, matched=bool(settings.control)
                )
            return BatchNull(sense, MIXTURE, types=settings.types)
        return Pair(RVD2())

    def score(
        self,
        model: Any,
        q: Any,
        batch: Any,
        local: Any,
        index: int,
        *,
        settings: VariantSettings,
        paths: RunPaths,
        fitted: RunPaths | None,
    ) -> Scored:
        """Compute every unit's evidence and keep it for the decision over all partitions."""
        if isinstance(model, Several):
            name = model.names[batch.which]
            return self.score(
                model.model,
                q.of[batch.which],
                batch.counts,
                None,
                index,
                settings=settings.of_case(name),
                paths=paths,
                fitted=fitted,
            )
        if isinstance(model, TwoGroups):
            evidence = variant_calls.bayes_factors(model, q, units(batch))
        elif settings.test == "sampled_difference":
            evidence = variant_calls.drawn_differences(model, q, batch, settings, index)
        else:
            evidence = variant_calls.differences(model, q, batch, local, settings)
        storage.write_bytes(paths.part("evidence", index, "npz"), to_bytes(evidence))
        return variant_calls.summarise(evidence)

    def select(
        self,
        model: Any,
        q: Any,
        summaries: Sequence[Scored],
        *,
        settings: VariantSettings,
        paths: RunPaths,
        fitted: RunPaths | None,
        each: Each,
    ) -> tuple[list[Any], Any]:
        """Decide over all partitions of each case, then write every location and the VCF."""
        about = json_files.read(paths.part("kept", 0, "json"), KeptPartitions)
        return conclude(model, q, summaries, about, settings, paths, fitted, each)

    def keep(
        self, q: Any, settings: VariantSettings, paths: RunPaths, fitted: RunPaths | None
    ) -> None:
        """Keep the hyperparameters of the indels with those of the substitutions."""
        for number in range(len(settings.tested)):
            if storage.exists(fit_url(paths, number)):
                fit = storage.read_bytes(fit_url(paths, number))
                storage.write_bytes(kept_url(paths, number), fit)

    def posterior(self, model: Any, q: Any, paths: RunPaths) -> list[Parameter]:
        """Return the hyperparameters; they are point estimates."""
        rows = []
        for number, fit in enumerate(fits_of(model, q)):
            for row in _parameters(fit.model, fit.q, paths, number):
                words = [word for word in (fit.name, row.index) if word]
                rows.append(replace(row, index=" ".join(words) or None))
        return rows

    def answer(self, finished: Finished) -> Answer:
        """Return what was found in every case."""
        return answer_of(finished)

    def simulate(self, target: str, rows: int, seed: int) -> list[str]:
        """Draw counts with their truth."""
        from flows.variants.input.simulate import write_counts

        return write_counts(target, rows, seed)


def _refuse_nothing(
    source: str, gathered: Gathered, with_some: set[int], settings: VariantSettings
) -> None:
    """Refuse input in which a case has no location, and say what left out its reads."""
    looked = bool(gathered.files) or any(d.count for p in gathered.partitions for d in p.dropped)
    found = "zero depth everywhere" if looked else "no row of these samples and regions"
    remedy = ""
    if gathered.account is not None:
        why, remedy = nothing_left(gathered.account, settings)
        found = f"{found}: {why}"
    faults = []
    for case, name in enumerate(settings.tested):
        if case not in with_some:
            of_case = f"{found}, for case {name}" if settings.several else found
            faults.append(Fault(source, "a location with reads", of_case, remedy=remedy))
    if faults:
        raise InputError(faults)


def _sample_reads(gathered: Gathered, settings: VariantSettings) -> SampleReads:
    """Return what is known of the replicates' reads: of a control, as one case's locations do."""
    depth = np.zeros((len(gathered.columns), 2), np.int64)
    locations = 0
    for case, name in enumerate(settings.tested):
        of_case = gathered.of_case(case)
        columns = replicate_columns(gathered.columns, settings.of_case(name))
        rows = [gathered.columns.index(column) for column in columns]
        depth[rows] = np.sum([p.depth for p in of_case], axis=0)
        locations = max(locations, sum(p.locations for p in of_case))
    return SampleReads(
        gathered.columns, gathered.positions or locations, locations, depth, gathered.account
    )


def _alike_warnings(gathered: Gathered, reads: SampleReads, settings: VariantSettings) -> list[str]:
    """Say which replicates of a case and its controls have the same reads."""
    warnings: dict[str, None] = {}
    for case, name in enumerate(settings.tested):
        of_case = reads.of(replicate_columns(gathered.columns, settings.of_case(name)))
        digests = [p.digests for p in gathered.of_case(case)]
        warnings |= dict.fromkeys(read_account.same_reads(of_case.columns, digests, of_case.depth))
    return list(warnings)


def _read_warnings(reads: SampleReads, settings: VariantSettings) -> list[str]:
    lines = read_account.mismatch_warnings(reads, settings)
    if reads.account is not None:
        lines += read_account.warnings(reads.account, reads.columns, settings)
    if reads.thin:
        lines.append(f"Without reads, so that nothing is found in them: {', '.join(reads.thin)}.")
    with_reads = [column for column in reads.columns if " ".join(column) not in reads.thin]
    return lines + _replicate_warnings(with_reads, settings)


def _test_warnings(settings: VariantSettings) -> list[str]:
    if settings.test == "two_groups" or settings.tau > 0.0 or not settings.control:
        return []
    return [
        f"At tau = 0 the specificity is only {1 - ALPHA:g}: among few variants many calls are "
        "false; set tau=5e-4, or go by q_value."
    ]


def _parameters(model: Any, q: Any, paths: RunPaths, number: int) -> list[Parameter]:
    rows = hyperparameters(model, q)
    if storage.exists(fit_url(paths, number)):
        rows += indel_hyperparameters(read_state(fit_url(paths, number), State))
    return rows


def _sense(settings: VariantSettings) -> Any:
    if not settings.controls:
        return "germline"
    return "either" if settings.two_sided else "gain"


def _replicate_warnings(columns: Sequence[tuple[str, str]], settings: VariantSettings) -> list[str]:
    count = Counter(sample for sample, _ in columns)
    single = [name for name in (*settings.tested, settings.control) if name and count[name] == 1]
    if not single:
        return []
    names = listed(single, MOST_NAMED)
    return [
        f"One replicate of {names}: how far replicates differ (M) is set by its prior. Two or "
        "three find more."
    ]


FAMILY = Variants()
