"""Variants: from reads or base counts of case and control to calls, a VCF, and every location."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from flows.data import json_files, partition, storage
from flows.data.partition import Part, Slice
from flows.data.run_tables import Parameter
from flows.data.runs import RunPaths
from flows.data.states import read_state
from flows.data.storage import InputFile
from flows.family import Checked, CheckedPiece, Cost, Each, Findings, Ingested, Prepared
from flows.faults import Fault, InputError
from flows.variants import calls as variant_calls
from flows.variants import detection, multiqc
from flows.variants.batch_report import null_of
from flows.variants.by_depth import boundaries
from flows.variants.calls import Decision, Scored
from flows.variants.count_checks import Rules, check_counts, look
from flows.variants.count_files import missing_files
from flows.variants.hyperparameters import hyperparameters
from flows.variants.indel_calls import KEPT as INDEL_FIT
from flows.variants.indel_calls import call_indels, fit_url, not_called
from flows.variants.indel_calls import hyperparameters as indel_hyperparameters
from flows.variants.locations import (
    count_part,
    counted,
    finish_partition,
    read_counts,
    read_loci,
    replicate_columns,
    shuffle,
    sort_part,
    work_url,
)
from flows.variants.loci import MOST_DEPTHS, conclude_part
from flows.variants.regions import (
    fasta_contigs,
    marks_of,
    names_a_contig,
    regions_of,
)
from flows.variants.report import PartCalls, filters_not_run, of_settings, report
from flows.variants.sample_sheet import (
    ALIGNMENTS,
    check_samples,
    check_sheet,
    needs_a_sheet,
    read_sheet,
    settled_by,
)
from flows.variants.settings import VariantSettings
from flows.variants.vcf import named, sample_names, write_vcf
from vbmodels.core.state import State, to_bytes
from vbmodels.variants.batch import Counts
from vbmodels.variants.batch_null import BatchGlobal, BatchNull
from vbmodels.variants.panel import PanelNull
from vbmodels.variants.published.pair import Pair
from vbmodels.variants.published.rvd2 import RVD2
from vbmodels.variants.two_groups import BROAD, MIXTURE, TwoGroups


@dataclass(frozen=True)
class CheckedVariants(Checked):
    """What the check of one file found, with its samples and replicates.

    ``named`` are files that the sheet or the settings name, and what marks their versions.
    """

    samples: tuple[str, ...] = ()
    columns: int = 1
    named: tuple[tuple[str, str], ...] = ()


class KeptPartitions(json_files.Form):
    """The contents of ``kept/part-00000.json``: the partitions with locations, the replicates."""

    indices: list[int]
    columns: list[tuple[str, str]]


class Variants:
    """The variants family; see `flows.family.Family`."""

    name = "variants"
    suffixes: tuple[str, ...] = (".parquet", ".csv")
    settings = VariantSettings
    compares = True  # whether a sheet must have the case and the control

    def cost(self, settings: VariantSettings) -> Cost:
        """Return what a row costs with default settings (benchmarks/scale.md)."""
        return Cost(2e-4, 1.5e-4)

    def settled(self, source: str, settings: VariantSettings) -> VariantSettings:
        """Return the settings with the case, the control and the panel that a sheet's roles say."""
        try:
            urls = [file.url for file in storage.expand(source, self.suffixes)]
            alone = len(urls) == 1 and urls[0].endswith(".csv")
            lines = read_sheet(urls[0]) if alone else []
        except storage.TransientStorageError:
            raise
        except (storage.StorageError, InputError):
            return settings  # the check says what is wrong
        said = settled_by(lines, settings)
        try:
            return VariantSettings(**{**settings.model_dump(), **said}) if said else settings
        except ValidationError as error:
            asked = "; ".join(
                str(one["msg"]).removeprefix("Value error, ") for one in error.errors()
            )
            raise InputError(
                [Fault(file=urls[0], column="role", expected="roles that fit the settings",
                       found=asked)]
            ) from error  # fmt: skip

    def check(self, file: InputFile, settings: VariantSettings) -> Checked:
        """List the faults of a sample sheet, with all that it names, or of a file of counts."""
        return self._checked(file, settings, check_counts)

    def look(self, file: InputFile, settings: VariantSettings) -> Checked:
        """List the faults of a sample sheet, or of the columns of a file of counts."""
        return self._checked(file, settings, lambda url, _: look(url))

    def joined(
        self, file: InputFile, pieces: Sequence[CheckedPiece], settings: VariantSettings
    ) -> Checked:
        """Return what the pieces of a file say of it."""
        return Checked(sum(one.rows for one in pieces))

    def _checked(
        self, file: InputFile, settings: VariantSettings,
        counts: Callable[[str, Rules], tuple[int, set[str], list[Fault]]],
    ) -> Checked:  # fmt: skip
        if file.url.endswith(".csv"):
            return self._check_reads(file.url, settings)
        if file.url.lower().endswith(ALIGNMENTS):
            return Checked(0, (needs_a_sheet(file.url),))
        marks, rules, wrong = (), Rules(), ()
        try:
            marks = marks_of(settings)
            rules = Rules.of(settings, marks)
        except InputError as error:
            wrong = error.faults
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
        return CheckedVariants(total, (), (), tuple({x.sample for x in lines}), 1, named)

    def check_together(self, files: Sequence[InputFile], checked: Sequence[Checked]) -> list[Fault]:
        """List sample sheets beside other files, as one stands alone, and counts with gaps."""
        if len(files) > 1 and any(f.url.endswith(".csv") for f in files):
            names = ", ".join(f.url for f in files[:3])
            return [Fault(file=files[0].url, expected="one sample sheet alone, or counts in "
                          "Parquet", found=f"{len(files)} files: {names}")]  # fmt: skip
        return missing_files([f.url for f in files])

    def together(self, files: Sequence[InputFile], checked: Sequence[Checked]) -> list[list[int]]:
        """Take files of all samples each by itself, and files of single samples together."""
        samples = {frozenset(getattr(c, "samples", ())) for c in checked}
        alone = len(samples) == 1
        return [[i] for i in range(len(files))] if alone else [list(range(len(files)))]

    def plan(
        self, files: Sequence[InputFile], checked: Sequence[Checked], settings: VariantSettings
    ) -> list[Part]:
        """Cut the regions' positions, or the rows of counts."""
        if not files[0].url.endswith(".csv"):
            found = {s for c in checked for s in getattr(c, "samples", ())}
            faults = check_samples(files[0].url, found, settings)
            if faults:
                raise InputError(faults)
        each = settings.rows_per_partition * max(getattr(c, "columns", 1) for c in checked)
        parts = partition.cut(files, [c.rows for c in checked], each, settings.partitions)
        if files[0].url.endswith(".csv"):
            parts = _by_depth(parts, settings)
        # What is named is part of what a partition is made of, though no rows of it are: the
        # reads of a sheet, and the FASTA and the BED, which say where the rows belong.
        marks = dict.fromkeys(mark for c in checked for mark in getattr(c, "named", ()))
        named = [Slice(url, 0, 0, mark) for url, mark in marks]
        return [Part(part.index, (*part.slices, *named)) for part in parts]

    def ingest(self, part: Part, settings: VariantSettings, paths: RunPaths) -> Ingested:
        """Count the reads of a partition's positions, or sort its rows of counts."""
        if part.slices[0].url.endswith(".csv"):
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
        if source.endswith(".csv"):
            found, own = each(counted, [part.index for part in parts], paths), True
            lines = [(x.sample, x.replicate) for x in read_sheet(source)]
            columns = replicate_columns(lines, settings)
        else:
            found, own, columns = shuffle(parts, settings, paths, each)
        kept = [one.index for one in found if one.locations]
        if not kept:
            looked = source.endswith(".csv") or any(d.count for one in found for d in one.dropped)
            nothing = "zero depth everywhere" if looked else "no row of these samples and regions"
            raise InputError([Fault(file=source, expected="a location with reads", found=nothing)])
        share = settings.fit_units / max(3 * sum(one.locations for one in found), 1)
        urls = each(finish_partition, kept, settings, paths, share, columns)
        json_files.write(
            work_url(paths, "kept", 0, "json"), KeptPartitions(indices=kept, columns=columns)
        )
        own = own and len(kept) == len(parts)
        warnings = _replicate_warnings(columns, settings)
        dropped = tuple(dropped for one in found for dropped in one.dropped)
        return Prepared(tuple(urls), Counts, warnings, own, dropped)

    def model(self, settings: VariantSettings) -> Any:
        """Return the two-groups model, or the papers' model of both samples."""
        if settings.test == "two_groups":
            shares = MIXTURE if settings.alternative == "mixture" else (BROAD,)
            sense = _sense(settings)
            if settings.null == "exchangeable" or sense == "germline":
                return TwoGroups(sense=sense, alternatives=shares)
            growing = settings.noise == "multiplicative"
            if settings.members:
                return PanelNull(
                    sense, shares, types=settings.types, growing=growing,
                    contamination=settings.contamination, matched=bool(settings.control),
                )  # fmt: skip
            return BatchNull(sense, shares, types=settings.types, growing=growing)
        form = "collapsed" if settings.inference == "gibbs" else settings.inference
        return Pair(RVD2(inference=form, dispersion=settings.dispersion))

    def score(
        self, model: Any, q: Any, batch: Counts, local: Any, index: int, *,
        settings: VariantSettings, paths: RunPaths, fitted: RunPaths | None,
    ) -> Scored:  # fmt: skip
        """Compute every unit's evidence and keep it for the decision over all partitions."""
        model = _model_of(model, q)
        if isinstance(model, TwoGroups):
            evidence = variant_calls.bayes_factors(model, q, batch)
        elif settings.inference == "gibbs":
            evidence = variant_calls.drawn_differences(model, q, batch, settings, index)
        else:
            evidence = variant_calls.differences(model, q, batch, local, settings)
        storage.write_bytes(work_url(paths, "evidence", index, "npz"), to_bytes(evidence))
        return variant_calls.summarise(evidence)

    def conclude(
        self, model: Any, q: Any, summaries: Sequence[Scored], *, settings: VariantSettings,
        paths: RunPaths, fitted: RunPaths | None, each: Each,
    ) -> tuple[list[PartCalls], Any]:  # fmt: skip
        """Decide over all partitions at once, then write every location and the VCF.

        P(H1) over all units replaces the fit's, which is of a sample.
        """
        model = _model_of(model, q)
        pi = getattr(q, "pi", 0.5)
        decision = variant_calls.decide(summaries, pi, settings, refit=fitted is None)
        if isinstance(model, TwoGroups):
            q = replace(q, pi=decision.pi)
        # Through storage, as it is too large to travel with every task.
        storage.write_bytes(work_url(paths, "decision", 0, "npz"), to_bytes(decision))
        about = json_files.read(work_url(paths, "kept", 0, "json"), KeptPartitions)
        kept = about.indices
        positions = list(enumerate(kept))
        points = max(2, MOST_DEPTHS // len(kept))
        found = each(_write_loci, positions, model, q, points, settings, paths)
        why_not = not_called(kept, settings, paths)
        if why_not is None:
            indels = call_indels(kept, model, settings, paths, fitted, each)
            both = zip(found, indels.parts, strict=True)
            found = [
                replace(part, calls=part.calls + own.calls, indels=own, indel_fit=indels.fit)
                for part, own in both
            ]
        else:
            found = [replace(part, no_indels=why_not) for part in found]
        contigs = _contigs(settings, found)
        names = sample_names(about.columns, settings)
        records = [
            {**call, "samples": named(call["samples"], names)}
            for part in found
            for call in part.calls
        ]
        write_vcf(
            paths.file("variants.vcf.gz"), records, contigs,
            [name for own in names.values() for name in own],
            f"vbflows variants, test {settings.test}", filters_not_run(found, settings),
            null_of(model, q), why_not,
        )  # fmt: skip
        if isinstance(model, TwoGroups):
            regions = detection.joined_regions([r for part in found for r in part.callable])
            storage.write_bytes(paths.file("callable.bed"), detection.bed(regions))
        for name, text in multiqc.files(found, q, settings).items():
            storage.write_bytes(paths.file(name), text)
        return found, q

    def keep(
        self, q: Any, settings: VariantSettings, paths: RunPaths, fitted: RunPaths | None
    ) -> None:
        """Keep the hyperparameters of the indels, beside those of the substitutions."""
        if storage.exists(fit_url(paths)):
            kept = storage.join(paths.root, "posterior", INDEL_FIT)
            storage.write_bytes(kept, storage.read_bytes(fit_url(paths)))

    def posterior(self, model: Any, q: Any, paths: RunPaths) -> list[Parameter]:
        """Return the hyperparameters; they are point estimates."""
        rows = hyperparameters(_model_of(model, q), q)
        if storage.exists(fit_url(paths)):
            rows += indel_hyperparameters(read_state(fit_url(paths), State))
        return rows

    def report(
        self, model: Any, q: Any, summaries: Sequence[PartCalls], ingested: Sequence[Ingested],
        settings: VariantSettings,
    ) -> Findings:  # fmt: skip
        """Say what was found."""
        model = _model_of(model, q)
        rows, caps = hyperparameters(model, q), model.caps_hit(q)
        batch = q if isinstance(model, BatchNull) else None
        return report(summaries, rows, caps, settings, batch)

    def foresee(self, q: Any, settings: VariantSettings) -> list[str]:
        """Return what the settings ask to be warned of."""
        return of_settings(settings)

    def simulate(self, target: str, rows: int, seed: int) -> list[str]:
        """Draw counts with their truth."""
        from flows.variants.simulate import write_counts

        return write_counts(target, rows, seed)

    @property
    def scenarios(self) -> dict[str, str]:
        """What each scenario of samples that differ stands for."""
        from flows.variants.simulate_reads import READ_SCENARIOS
        from vbmodels.variants.read_artefacts import ARTEFACTS
        from vbmodels.variants.scenarios import SCENARIOS

        every = {**SCENARIOS, **READ_SCENARIOS, **ARTEFACTS}
        return {name: scenario.meaning for name, scenario in every.items()}

    def simulate_scenario(self, target: str, rows: int, seed: int, scenario: str) -> list[str]:
        """Draw the counts, or the reads, of a scenario with their truth."""
        from flows.variants.simulate import write_scenario
        from flows.variants.simulate_artefacts import write_artefacts
        from flows.variants.simulate_reads import READ_SCENARIOS, write_read_scenario
        from vbmodels.variants.read_artefacts import ARTEFACTS

        if scenario in READ_SCENARIOS:
            return write_read_scenario(target, rows, seed, scenario)
        if scenario in ARTEFACTS:
            return write_artefacts(target, rows, seed, ARTEFACTS[scenario])
        return write_scenario(target, rows, seed, scenario)


def _by_depth(parts: Sequence[Part], settings: VariantSettings) -> list[Part]:
    """Cut the positions of a sample sheet into as many parts, by positions and by reads."""
    sheet = parts[0].slices[0]
    wanted = regions_of(settings, marks_of(settings))
    paths = [line.path for line in read_sheet(sheet.url)]
    edges = boundaries(wanted, paths, len(parts), settings)
    return [
        replace(part, slices=(replace(sheet, start=low, stop=high),))
        for part, (low, high) in zip(parts, itertools.pairwise(edges), strict=True)
    ]


def _model_of(model: Any, q: Any) -> Any:
    """Return the model that ``q`` is of: posteriors of older runs are of the exchangeable null."""
    if isinstance(model, BatchNull) and not isinstance(q, BatchGlobal):
        return TwoGroups(model.sense, model.alternatives, model.compiled)
    return model


def _sense(settings: VariantSettings) -> Any:
    if not settings.controls:
        return "germline"
    return "either" if settings.two_sided else "gain"


def _replicate_warnings(
    columns: Sequence[tuple[str, str]], settings: VariantSettings
) -> tuple[str, ...]:
    told = []
    for name in (settings.case, settings.control):
        if name and sum(sample == name for sample, _ in columns) == 1:
            told.append(
                f"Sample {name} has one replicate: how far replicates differ (M) is then set by "
                "its prior. Two or three find more."
            )
    return tuple(told)


def _write_loci(
    where: tuple[int, int], model: Any, q: Any, points: int, settings: VariantSettings,
    paths: RunPaths,
) -> PartCalls:  # fmt: skip
    index, kept = where
    url = work_url(paths, "decision", 0, "npz")
    decision = read_state(url, Decision)
    url = work_url(paths, "evidence", index, "npz")
    evidence = read_state(url, variant_calls.Evidence)
    counts, loci = read_counts(paths, kept), read_loci(paths, kept)
    table, found = conclude_part(model, q, counts, loci, evidence, decision, settings, points)
    storage.write_table(paths.table("loci", index), table)
    if not isinstance(model, TwoGroups):
        return found
    limit = detection.limits(model, q, counts, decision, settings)
    storage.write_table(paths.table("detection", index), detection.table(limit, counts, loci))
    regions = detection.callable_regions(limit, loci, settings.callable_share)
    return replace(found, limits=detection.histogram(limit), callable=regions)


def _contigs(settings: VariantSettings, found: Sequence[PartCalls]) -> dict[str, int | None]:
    if settings.fasta is not None:
        known = fasta_contigs(settings.fasta)
        return {name: length for name, length in known.items() if names_a_contig(name)}
    return {name: None for name in sorted({c for part in found for c in part.contigs})}


FAMILY = Variants()
