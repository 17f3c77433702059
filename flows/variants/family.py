"""Variants: from reads or base counts of case and control to calls, a VCF, and every location."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
from flows.tables.names import listed
from flows.tables.partition import Part, Slice
from flows.variants.answer import Answer
from flows.variants.answer import answer as answer_of
from flows.variants.calls import calls as variant_calls
from flows.variants.calls.calls import ALPHA, Scored
from flows.variants.calls.indel_calls import fit_url, kept_url
from flows.variants.calls.indel_calls import hyperparameters as indel_hyperparameters
from flows.variants.case_files import (
    Case,
    KeptPartitions,
    conclude_case,
    conclude_several,
)
from flows.variants.input import read_account
from flows.variants.input.alignment_headers import File, header_warnings
from flows.variants.input.cases import (
    Cases,
    count_reads,
    finish_case,
    of_reads,
    plan_reads,
    separate_cases,
    to_fit,
)
from flows.variants.input.count_checks import Rules, check_counts, missing_files, read_header
from flows.variants.input.counts import Column
from flows.variants.input.locations import (
    Assembled,
    count_part,
    counted,
    marks_in,
    replicate_columns,
    shuffle,
    sort_part,
)
from flows.variants.input.read_account import SampleReads, nothing_left, thin_faults
from flows.variants.input.sample_sheet import (
    ALIGNMENTS,
    SHEETS,
    check_samples,
    check_sheet,
    is_sheet,
    needs_a_sheet,
    read_sheet,
)
from flows.variants.input.sheet_roles import inferred, settings_of_sheet
from flows.variants.input.training_sites import chosen, finish_partition
from flows.variants.reads.regions import Marks, marks_of, regions_of
from flows.variants.settings import VariantSettings
from vbmodels.core.state import IntArray, State, to_bytes
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
            for sample, of in (("case", q.case), ("control", q.control))
            for name, value in (
                ("mu0", of.a0 / (of.a0 + of.b0)), ("M0", of.a0 + of.b0), ("log_M", of.log_m)
            )
        ]  # fmt: skip
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
            for p, of in enumerate(q.member_shift)
            for kind, b in zip(names_of_types(), of, strict=True)
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
        said = settings_of_sheet(urls[0], lines, settings) if lines else {}
        try:
            return VariantSettings(**{**settings.model_dump(), **said}) if said else settings
        except ValidationError as error:
            found = "; ".join(
                str(one["msg"]).removeprefix("Value error, ") for one in error.errors()
            )
            raise InputError.of(
                file=urls[0], column="role", expected="roles that fit the settings", found=found
            ) from error

    def check(self, file: InputFile, settings: VariantSettings) -> Checked:
        """List the faults of a sample sheet, with all that it names, or of a file of counts."""
        return self._checked(file, settings, check_counts)

    def read_header(self, file: InputFile, settings: VariantSettings) -> Checked:
        """List the faults of a sample sheet, or of the columns of a file of counts."""
        return self._checked(file, settings, lambda url, _: read_header(url))

    def merge(
        self, file: InputFile, pieces: Sequence[CheckedPiece], settings: VariantSettings
    ) -> Checked:
        """Return what the pieces of a file say of it."""
        return Checked(sum(one.rows for one in pieces))

    def _checked(
        self, file: InputFile, settings: VariantSettings,
        counts: Callable[[str, Rules], tuple[int, set[str], list[Fault]]],
    ) -> Checked:  # fmt: skip
        if is_sheet(file.url):
            return self._check_reads(file.url, settings)
        if file.url.lower().endswith(ALIGNMENTS):
            return Checked(0, (needs_a_sheet(file.url),))
        marks: Marks = ()
        rules, wrong = Rules(), tuple[Fault, ...]()
        try:
            marks = marks_of(settings)
            rules = Rules.of(settings, marks)
        except InputError as error:
            wrong = error.faults
        if settings.primers is not None:
            wrong = (*wrong, Fault(file="settings", column="primers", expected="reads, whose bases "
                                   "of primers do not count", found="counts",
                                   remedy="give primers where the reads are counted"))  # fmt: skip
        rows, samples, faults = counts(file.url, rules)
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
            return [Fault(file=files[0].url, expected="one sample sheet alone, or counts in "
                          "Parquet", found=f"{len(files)} files: {names}")]  # fmt: skip
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
        if self.compares and settings.several and is_sheet(files[0].url):
            named = dict(mark for c in checked for mark in getattr(c, "named", ()))
            lines = read_sheet(files[0].url)
            return plan_reads(files[0], lines, named, sum(c.rows for c in checked), settings)
        if not is_sheet(files[0].url):
            found = {s for c in checked for s in getattr(c, "samples", ())}
            faults = check_samples(files[0].url, found, settings)
            if faults:
                raise InputError(faults)
        each = settings.rows_per_partition * max(getattr(c, "columns", 1) for c in checked)
        parts = partition.cut(files, [c.rows for c in checked], each, settings.partitions)
        # What is named is part of what a partition is made of, though no rows of it are: the
        # reads of a sheet, and the FASTA and the BED, which say where the rows belong.
        marks = dict.fromkeys(mark for c in checked for mark in getattr(c, "named", ()))
        slices = [Slice(url, 0, 0, mark) for url, mark in marks]
        return [Part(part.index, (*part.slices, *slices)) for part in parts]

    def ingest(self, part: Part, settings: VariantSettings, paths: RunPaths) -> Ingested:
        """Count the reads of a partition's positions, or sort its rows of counts."""
        if of_reads(part):
            return count_reads(part, settings, paths)
        if is_sheet(part.slices[0].url):
            return count_part(part, settings, paths)
        return sort_part(part, settings, paths)

    def prepare(
        self, parts: Sequence[Part], settings: VariantSettings, paths: RunPaths,
        fitted: RunPaths | None, each: Each,
    ) -> Prepared:  # fmt: skip
        """Put the locations of every partition together and choose those to be fitted on.

        Where the parts' locations follow one another, partitions are the parts.
        """
        source = parts[0].slices[0].url
        warnings: list[str] = []
        notes: list[str] = []
        account: IntArray | None = None
        positions, paths_of = 0, dict[Column, str]()
        if settings.several:
            return _prepare_several(source, parts, settings, paths, each)
        if is_sheet(source):
            found = each(counted, [part.index for part in parts], paths)
            lines = read_sheet(source)
            columns = replicate_columns([(x.sample, x.replicate) for x in lines], settings)
            notes += inferred(os.path.dirname(source), lines, settings)
            account = np.array([one.account for one in found], np.int64).sum(axis=0)
            positions = sum(part.rows for part in parts)
            own = [x for x in lines if (x.sample, x.replicate) in columns]
            files = [File(x.sample, x.replicate, x.path) for x in own]
            paths_of = {(file.sample, file.replicate): file.path for file in files}
            wanted = regions_of(settings, marks_in(parts[0], settings))
            warnings += header_warnings(files, wanted, settings)
            notes += read_account.replicates_in_words(columns, [file.path for file in files])
        else:
            found, columns, said = shuffle(parts, settings, paths, each)
            warnings += said
        kept = [one.index for one in found if one.locations]
        if not kept:
            raise InputError([_nothing(source, found, account, settings)])
        reads = _sample_reads(columns, found, account, positions)
        if faults := thin_faults(source, paths_of, reads, settings):
            raise InputError(faults)
        urls = each(finish_partition, kept, settings, paths, chosen(found), columns)
        digests = [one.digests for one in found]
        warnings += read_account.same_reads(columns, digests, reads.depth)
        _keep(paths, reads, kept, files=_files_of(parts, columns, paths_of))
        warnings += _read_warnings(reads, settings)
        warnings += _test_warnings(settings)
        dropped = tuple(dropped for one in found for dropped in one.dropped)
        return Prepared(tuple(urls), Counts, tuple(warnings), dropped, notes=tuple(notes))

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
                )  # fmt: skip
            return BatchNull(sense, MIXTURE, types=settings.types)
        return Pair(RVD2())

    def score(
        self, model: Any, q: Any, batch: Any, local: Any, index: int, *,
        settings: VariantSettings, paths: RunPaths, fitted: RunPaths | None,
    ) -> Scored:  # fmt: skip
        """Compute every unit's evidence and keep it for the decision over all partitions."""
        if isinstance(model, Several):
            name = model.names[batch.which]
            return self.score(
                model.model, q.of[batch.which], batch.counts, None, index,
                settings=settings.of_case(name), paths=paths, fitted=fitted,
            )  # fmt: skip
        if isinstance(model, TwoGroups):
            evidence = variant_calls.bayes_factors(model, q, units(batch))
        elif settings.test == "sampled_difference":
            evidence = variant_calls.drawn_differences(model, q, batch, settings, index)
        else:
            evidence = variant_calls.differences(model, q, batch, local, settings)
        storage.write_bytes(paths.part("evidence", index, "npz"), to_bytes(evidence))
        return variant_calls.summarise(evidence)

    def select(
        self, model: Any, q: Any, summaries: Sequence[Scored], *, settings: VariantSettings,
        paths: RunPaths, fitted: RunPaths | None, each: Each,
    ) -> tuple[list[Any], Any]:  # fmt: skip
        """Decide over all partitions of each case, then write every location and the VCF."""
        about = json_files.read(paths.part("kept", 0, "json"), KeptPartitions)
        if isinstance(model, Several):
            return conclude_several(model, q, summaries, about, settings, paths, fitted, each)
        positions = list(enumerate(about.indices))
        case = Case(0, positions, about.columns, about.reads, about.files)
        return conclude_case(case, model, q, summaries, settings, paths, fitted, each)

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
        if isinstance(model, Several):
            return [
                replace(row, index=f"{name} {row.index}" if row.index else name)
                for number, (name, own) in enumerate(zip(model.names, q.of, strict=True))
                for row in _parameters(model.model, own, paths, number)
            ]
        return _parameters(model, q, paths, 0)

    def answer(self, finished: Finished) -> Answer:
        """Return what was found in every case."""
        return answer_of(finished)

    def simulate(self, target: str, rows: int, seed: int) -> list[str]:
        """Draw counts with their truth."""
        from flows.variants.input.simulate import write_counts

        return write_counts(target, rows, seed)


def _prepare_several(
    source: str, parts: Sequence[Part], settings: VariantSettings, paths: RunPaths, each: Each
) -> Prepared:
    """Do what `Variants.prepare` does for every case."""
    cases = separate_cases(parts, settings, paths, each)
    wanted = to_fit(cases, settings)
    with_some = {one.case for one in wanted}
    lacking = [name for c, name in enumerate(settings.several) if c not in with_some]
    if lacking:
        fault = _nothing(source, cases.found, cases.account, settings)
        raise InputError([replace(fault, found=f"{fault.found}, for case {name}")
                          for name in lacking])  # fmt: skip
    reads = _reads_of_cases(source, parts, cases, settings)
    urls = each(finish_case, wanted, settings, paths, cases.columns)
    own = {(f.sample, f.replicate): f.url for part in parts for f in of_reads(part)}
    files = _files_of(parts, cases.columns, own)
    _keep(paths, reads, [one.index for one in wanted], [one.case for one in wanted], files)
    dropped = (*cases.dropped, *(dropped for one in cases.found for dropped in one.dropped))
    notes = tuple(inferred(os.path.dirname(settings.fasta or ""), (), settings))
    warnings = (*cases.said, *_read_warnings(reads, settings))
    return Prepared(tuple(urls), OfCase, warnings, dropped, notes=notes)


def _sample_reads(
    columns: Sequence[Column], found: Sequence[Assembled], account: IntArray | None, positions: int
) -> SampleReads:
    """Return what is known of the replicates' reads."""
    locations = sum(one.locations for one in found)
    depth = np.array([one.depth for one in found], np.int64).sum(axis=0)
    return SampleReads(columns, positions or locations, locations, depth, account)


def _reads_of_cases(
    source: str, parts: Sequence[Part], cases: Cases, settings: VariantSettings
) -> SampleReads:
    """Return the same of all samples: of a control, as one case's locations have it."""
    depth = np.zeros((len(cases.columns), 2), np.int64)
    locations = 0
    for number, name in enumerate(settings.several):
        own = [one for one, c in zip(cases.found, cases.case, strict=True) if c == number]
        alone = replicate_columns(cases.columns, settings.of_case(name))
        at = [cases.columns.index(column) for column in alone]
        depth[at] = np.array([one.depth for one in own], np.int64).sum(axis=0)
        locations = max(locations, sum(one.locations for one in own))
    positions = 0
    if of_reads(parts[0]):
        positions = sum(part.rows for part in parts) // (len(settings.several) + 1)
    reads = SampleReads(cases.columns, positions or locations, locations, depth, cases.account)
    files = {(f.sample, f.replicate): f.url for part in parts for f in of_reads(part)}
    if faults := thin_faults(source, files, reads, settings):
        raise InputError(faults)
    return reads


def _files_of(
    parts: Sequence[Part], columns: Sequence[Column], paths: Mapping[Column, str]
) -> list[tuple[str, str]]:
    """Return each replicate's file of reads, and what marks its version; none of counts."""
    marks = {s.url: s.fingerprint for part in parts for s in part.slices}
    return [(paths[c], marks[paths[c]]) for c in columns] if paths else []


def _keep(
    paths: RunPaths, reads: SampleReads, indices: list[int], cases: Sequence[int] = (),
    files: Sequence[tuple[str, str]] = (),
) -> None:  # fmt: skip
    kept = KeptPartitions(
        indices=indices, columns=list(reads.columns), cases=list(cases),
        positions=reads.positions, locations=reads.locations, depth=reads.depth.tolist(),
        account=None if reads.account is None else reads.account.tolist(), files=list(files),
    )  # fmt: skip
    json_files.write(paths.part("kept", 0, "json"), kept)


def _read_warnings(reads: SampleReads, settings: VariantSettings) -> list[str]:
    said = read_account.mismatch_warnings(reads, settings)
    if reads.account is not None:
        said += read_account.warnings(reads.account, reads.columns, settings)
    if reads.thin:
        said.append(f"Without reads, so that nothing is found in them: {', '.join(reads.thin)}.")
    with_reads = [column for column in reads.columns if " ".join(column) not in reads.thin]
    return said + _replicate_warnings(with_reads, settings)


def _test_warnings(settings: VariantSettings) -> list[str]:
    if settings.test == "two_groups" or settings.tau > 0.0 or not settings.control:
        return []
    return [
        f"At tau = 0 the specificity is only {1 - ALPHA:g}: among few variants many calls are "
        "false; set tau=5e-4, or go by q_value."
    ]


def _nothing(
    source: str, found: Sequence[Assembled], account: IntArray | None, settings: VariantSettings
) -> Fault:
    looked = source.lower().endswith((*SHEETS, *ALIGNMENTS))
    looked = looked or any(d.count for one in found for d in one.dropped)
    nothing = "zero depth everywhere" if looked else "no row of these samples and regions"
    fault = Fault(file=source, expected="a location with reads", found=nothing)
    if account is None:
        return fault
    why, remedy = nothing_left(account, settings)
    return replace(fault, found=f"{nothing}: {why}", remedy=remedy)


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
