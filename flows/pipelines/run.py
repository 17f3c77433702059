"""The one order of every pipeline: check, ingest, partition, fit, score, publish."""

from __future__ import annotations

import hashlib
import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from flows import storage, watch
from flows.block import Job
from flows.families.base import (
    Checked,
    ChecksToFit,
    Concluding,
    Family,
    Ingested,
    NamesParameters,
    Prepared,
)
from flows.families.catalogue import pipeline_named
from flows.faults import ComputeError, Fault, InputError, RunError
from flows.fit import FitResult, Progress, run_fit
from flows.lock import claim
from flows.partition import Part
from flows.pipelines.access import reached
from flows.pipelines.compute import Compute, computing, each_of
from flows.pipelines.stages import Plain, Stages, escape
from flows.publish import plots, report
from flows.publish.report import Findings
from flows.publish.run import (
    Dropped,
    InputRecord,
    PublishError,
    RunPlace,
    RunRecord,
    finish,
    new_run_id,
    open_run,
    peak_memory,
    versions,
    write_posterior,
    write_trace,
)
from flows.settings import ComputeSettings, RunSettings
from flows.storage import InputFile, StorageError
from vbmodels.cavi import remaining_rise
from vbmodels.state import State, from_bytes

R = TypeVar("R")
_MOST_TASKS = 64


class Interrupted(KeyboardInterrupt):
    """A run was stopped by hand; its message says how to go on."""


@dataclass(frozen=True)
class Nothing(State):
    """The global parameters of what has none."""


@dataclass
class _Run:
    """One run as it goes: what it is, and what has been found out so far."""

    family: Family
    source: str
    place: RunPlace
    settings: RunSettings
    stages: Stages
    compute: Compute
    fitted: RunPlace | None = None
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    clock: float = field(default_factory=time.perf_counter)
    files: list[InputFile] = field(default_factory=list)
    checked: list[Checked] = field(default_factory=list)

    def map(
        self, name: str, function: Callable[..., Any], parts: Sequence[Part], *args: Any
    ) -> list[Any]:
        """Apply a function to every partition: a few groups of them as mapped tasks."""
        groups = _groups(parts, _MOST_TASKS)
        named = f"{self.settings.model_dump_json()} {self.family.name}"

        def one(group: list[Part]) -> list[Ingested]:
            return self.compute.call(_apply_to_group, group, function, *args)

        found = self.stages.map(
            name,
            one,
            groups,
            cache_key=lambda group: _digest(named, *(part.fingerprint for part in group)),
        )
        return [result for group in found for result in group]


def run_pipeline(
    family: Family,
    stages: Stages,
    source: str,
    target: str,
    settings: RunSettings,
    compute: ComputeSettings,
    resume: str | None,
) -> dict[str, Any]:
    """Fit a family's model to a source and publish what it finds; return what to print.

    Raises
    ------
    InputError
        If the input or the settings are wrong: every fault, before any compute.
    StorageError
        If storage cannot be read or written.
    """
    with reached(compute.s3):
        return _run_pipeline(family, stages, source, target, settings, compute, resume)


def _run_pipeline(
    family: Family,
    stages: Stages,
    source: str,
    target: str,
    settings: RunSettings,
    compute: ComputeSettings,
    resume: str | None,
) -> dict[str, Any]:
    target = storage.absolute(target)
    place = RunPlace(target, resume or new_run_id())
    watch.current.get().stage("check")
    files, checked = check_files(family, stages, source, settings)
    storage.check_writable(target)
    if resume is not None and not storage.exists(place.work):
        raise PublishError(
            f"there is nothing to resume: {place.work} does not exist; the run finished, never "
            "reached its first checkpoint, or has another target"
        )
    stages.begin(place.run_id, storage.join(place.work, "kept"))
    with computing(compute) as found:
        run = _Run(family, source, place, settings, stages, found, files=files, checked=checked)
        how = f"go on with the same command and --resume {place.run_id}"
        try:
            # One publisher a run: until the end, not only while the model is fitted.
            with claim(place.work, place.run_id):
                return _fit_and_publish(run, resume is not None)
        except KeyboardInterrupt as error:
            raise Interrupted(f"latest.json is as it was; {how}") from error
        except (ComputeError, StorageError) as error:
            raise RunError(f"{error}; latest.json is as it was; {how}") from error


def score_pipeline(
    fitted_run: str, stages: Stages, source: str, target: str, compute: ComputeSettings
) -> dict[str, Any]:
    """Apply the posterior of a finished run to new data and publish the result."""
    with reached(compute.s3):
        return _score_pipeline(fitted_run, stages, source, target, compute)


def _score_pipeline(
    fitted_run: str, stages: Stages, source: str, target: str, compute: ComputeSettings
) -> dict[str, Any]:
    fitted, record = open_run(fitted_run)
    family = pipeline_named(record.pipeline)
    settings = family.settings(**record.settings)
    place = RunPlace(storage.absolute(target), new_run_id())
    watch.current.get().stage("check")
    files, checked = check_files(family, stages, source, settings, to_fit=False)
    storage.check_writable(place.target)
    stages.begin(place.run_id, storage.join(place.work, "kept"))
    with computing(compute) as found:
        run = _Run(
            family, source, place, settings, stages, found, fitted, files=files, checked=checked
        )
        ingested, prepared = _partitions(run)
        model = family.model(settings)
        q: State = Nothing()
        if model is not None:
            url = storage.join(fitted.root, "posterior", "q.npz")
            q = from_bytes(storage.read_bytes(url), State, url)
        job = _job(run, model, prepared)
        executor = found.executor(job)
        try:
            summaries = stages.call("score", _score, run, executor, q, None)
        finally:
            executor.close()
        return stages.call("publish", _publish, run, ingested, prepared, model, q, None, summaries)


def check_source(family: Family, source: str, settings: RunSettings) -> tuple[list[InputFile], int]:
    """Validate a source; return its files and rows.

    Raises
    ------
    InputError
        With every fault found.
    """
    files, checked = check_files(family, Plain(), source, settings)
    return files, sum(c.rows for c in checked)


def check_files(
    family: Family, stages: Stages, source: str, settings: RunSettings, to_fit: bool = True
) -> tuple[list[InputFile], list[Checked]]:
    """Read every input file once and raise all faults at once."""
    try:
        files = storage.expand(source, family.suffixes)
    except storage.TransientStorageError:
        raise
    except StorageError as error:
        raise InputError(
            [
                Fault(
                    file=storage.shown(source),
                    expected="input that can be read",
                    found=str(error),
                )
            ]
        ) from error
    checked = stages.map("check", partial(_check, family), files, settings)
    faults = [fault for one in checked for fault in one.faults]
    faults = faults or family.check_together(files, checked)
    if to_fit and isinstance(family, ChecksToFit):
        faults = faults or family.check_to_fit(files, checked)
    if faults:
        raise InputError(faults)
    return files, checked


def _check(family: Family, file: InputFile, settings: RunSettings) -> Checked:
    try:
        return family.check(file, settings)
    except storage.TransientStorageError:
        raise
    except StorageError as error:
        fault = Fault(file=file.url, expected="a file that can be read", found=str(error))
        return Checked(0, (fault,))


def _fit_and_publish(run: _Run, resume: bool) -> dict[str, Any]:
    ingested, prepared = _partitions(run)
    model = run.family.model(run.settings)
    job = _job(run, model, prepared)
    executor = run.compute.executor(job)
    try:
        fitted: FitResult | None = None
        q: State = Nothing()
        if model is not None:
            watch.current.get().stage("fit")
            fitted = run.stages.call(
                "fit", partial(run_fit, job, executor, on_step=_teller(run), resume=resume)
            )
            q = fitted.q
        number = None if fitted is None else fitted.number
        summaries = _scored(run, executor, q, number)
    finally:
        executor.close()
    return _published(run, ingested, prepared, model, q, fitted, summaries)


def _partitions(run: _Run) -> tuple[list[Ingested], Prepared]:
    watch.current.get().stage("ingest")
    parts = run.family.plan(run.files, run.checked, run.settings)
    ingested = run.map("ingest", run.family.ingest, parts, run.settings, run.place)
    watch.current.get().stage("partition")
    prepared = run.stages.call(
        "partition",
        run.family.prepare,
        parts,
        run.settings,
        run.place,
        run.fitted,
        each_of(run.compute),
    )
    return ingested, prepared


def _job(run: _Run, model: Any, prepared: Prepared) -> Job:
    return Job(
        model=model,
        batch=prepared.batch,
        partitions=prepared.partitions,
        store=run.place.work,
        run_id=run.place.run_id,
        seed=run.settings.seed,
        tol=run.settings.tol,
        max_iter=run.settings.max_iter,
        checkpoint_every=run.settings.checkpoint_every,
        settings=tuple(
            (name, repr(value)) for name, value in sorted(run.settings.model_dump().items())
        ),
    )


def _scored(run: _Run, executor: Any, q: State, number: int | None) -> list[Any]:
    watch.current.get().stage("score")
    return run.stages.call("score", _score, run, executor, q, number)


def _published(run: _Run, *found: Any) -> dict[str, Any]:
    watch.current.get().stage("publish")
    return run.stages.call("publish", _publish, run, *found)


def _score(run: _Run, executor: Any, q: State, number: int | None) -> list[Any]:
    function = partial(run.family.score, settings=run.settings, place=run.place, fitted=run.fitted)
    return list(executor.map(function, q, number))


def _teller(run: _Run) -> Callable[[Progress], None]:
    """Tell the terminal and the run's page how the fit goes."""
    seen: list[float] = []

    def tell(progress: Progress) -> None:
        seen.append(progress.elbo)
        left = _sweeps_left(seen, run.settings.tol)
        watch.current.get().sweep(progress.iteration, progress.elbo, progress.rise, left)
        done = progress.iteration + 1
        fraction = done / (done + left) if left is not None else done / progress.max_iter
        run.stages.progress(min(fraction, 1.0), f"sweep {done}, bound {progress.elbo:,.4f}")

    return tell


def _sweeps_left(trace: Sequence[float], tol: float) -> float | None:
    """Estimate how many sweeps a geometric rise needs to come below the tolerance."""
    if len(trace) < 3:
        return None
    now, before = trace[-1] - trace[-2], trace[-2] - trace[-3]
    rate = now / before if before > 0 else 0.0
    goal = tol * max(1.0, abs(trace[-1]))
    left = remaining_rise(trace)
    if not 0.0 < rate < 1.0 or left <= goal:
        return None
    return math.log(goal / left) / math.log(rate)


def _publish(
    run: _Run,
    ingested: Sequence[Ingested],
    prepared: Prepared,
    model: Any,
    q: State,
    fitted: FitResult | None,
    summaries: Sequence[Any],
) -> dict[str, Any]:
    if isinstance(run.family, Concluding):
        summaries = run.family.conclude(
            model,
            q,
            summaries,
            settings=run.settings,
            place=run.place,
            fitted=run.fitted,
            each=each_of(run.compute),
        )
    findings = run.family.report(model, q, summaries, ingested, run.settings)
    warnings = [*prepared.warnings, *findings.warnings]
    if fitted is not None and not fitted.converged:
        warnings.append(
            f"The bound had not converged after {fitted.iterations} sweeps; raise max_iter or tol."
        )
    record = RunRecord(
        run_id=run.place.run_id,
        pipeline=run.family.name,
        source=run.source,
        settings=run.settings.model_dump(),
        versions=versions(),
        started=run.started,
        finished=datetime.now(UTC),
        seconds=time.perf_counter() - run.clock,
        peak_memory_bytes=peak_memory(),
        inputs=[
            InputRecord(url=f.url, size=f.size, fingerprint=f.fingerprint, rows=c.rows)
            for f, c in zip(run.files, run.checked, strict=True)
        ],
        rows_read=sum(i.rows_read for i in ingested),
        rows_kept=sum(i.rows_kept for i in ingested),
        dropped=_total_dropped(ingested),
        partitions=len(prepared.partitions),
        iterations=0 if fitted is None else fitted.iterations,
        converged=fitted is None or fitted.converged,
        elbo=None if fitted is None else float(fitted.trace.elbo[-1]),
        warnings=warnings,
        results=findings.results,
    )
    sections = list(findings.sections)
    if model is not None:
        rows: Sequence[tuple[Any, ...]] = run.family.posterior(model, q)
        if isinstance(run.family, NamesParameters):
            rows = run.family.name_parameters(rows, run.place)
        write_posterior(run.place, q, rows)
        run.family.keep(q, run.settings, run.place, run.fitted)
    if fitted is not None:
        trace = fitted.trace
        write_trace(run.place, trace.iteration, trace.elbo, trace.seconds)
        sections.append(_trace_section(fitted))
    html = report.render(record, findings.headline, sections)
    storage.write_bytes(run.place.file("report.html"), html.encode())
    finish(run.place, record)
    _tell_page(run, record, findings, fitted)
    return _outcome(run.place, record, findings)


def _trace_section(fitted: FitResult) -> report.Section:
    trace = fitted.trace
    state = "The bound converged" if fitted.converged else "The bound had not converged"
    return report.Section(
        "The bound's trace",
        f"{state} after {fitted.iterations} sweeps in {fitted.seconds:.1f} s. Sweeps of "
        "accelerated steps that were not taken are left out.",
        [plots.trace(trace.iteration.tolist(), trace.elbo.tolist())],
    )


def _tell_page(run: _Run, record: RunRecord, findings: Findings, fitted: FitResult | None) -> None:
    """Put the outcome on the run's page."""
    run.stages.progress(1.0, "published")
    lines = [f"## {escape(findings.headline)}", "", "| | |", "|---|---|"]
    facts = {
        "run": record.run_id,
        "rows used": f"{record.rows_kept:,} of {record.rows_read:,}",
        "bound": "none" if record.elbo is None else f"{record.elbo:,.4f}",
        "sweeps": f"{record.iterations}, {'' if record.converged else 'not '}converged",
        "seconds": f"{record.seconds:.1f}",
        **{f"setting {name}": str(value) for name, value in record.settings.items()},
    }
    lines += [f"| {escape(name)} | {escape(value)} |" for name, value in facts.items()]
    lines += ["", *(f"- warning: {escape(warning)}" for warning in record.warnings)]
    run.stages.markdown("summary", "\n".join(lines))
    run.stages.table("top-results", list(findings.top))
    run.stages.link("report", run.place.file("report.html"), "the report")
    if fitted is not None:
        trace = fitted.trace
        figure = plots.trace_figure(trace.iteration.tolist(), trace.elbo.tolist())
        run.stages.image("bound", plots.png(figure))


def _outcome(place: RunPlace, record: RunRecord, findings: Findings) -> dict[str, Any]:
    lines = [findings.headline, f"run {record.run_id} in {record.seconds:.1f} s"]
    if record.elbo is not None:
        state = "converged" if record.converged else "NOT converged"
        lines.append(f"bound {record.elbo:,.4f} after {record.iterations} sweeps, {state}")
    lines += [f"warning: {warning}" for warning in record.warnings]
    lines.append(f"report {place.file('report.html')}")
    return {
        "run_id": record.run_id,
        "target": place.target,
        "report": place.file("report.html"),
        "converged": record.converged,
        "elbo": record.elbo,
        "iterations": record.iterations,
        "rows_read": record.rows_read,
        "rows_kept": record.rows_kept,
        "warnings": record.warnings,
        "results": record.results,
        "lines": lines,
    }


def _total_dropped(ingested: Sequence[Ingested]) -> list[Dropped]:
    total: dict[str, Dropped] = {}
    for item in (dropped for one in ingested for dropped in one.dropped):
        before = total.get(item.reason, Dropped(reason=item.reason, count=0))
        total[item.reason] = Dropped(
            reason=item.reason,
            count=before.count + item.count,
            examples=(before.examples + item.examples)[:100],
        )
    return [item for item in total.values() if item.count]


def _groups(parts: Sequence[Part], most: int) -> list[list[Part]]:
    count = min(most, len(parts))
    cuts = [len(parts) * i // count for i in range(count + 1)]
    return [list(parts[a:b]) for a, b in itertools.pairwise(cuts)]


def _apply_to_group(group: Sequence[Part], function: Callable[..., R], *args: Any) -> list[R]:
    results = [function(part, *args) for part in group]
    # Looked at after reading: what was read is then what was checked.
    for url, fingerprint in sorted({(s.url, s.fingerprint) for p in group for s in p.slices}):
        storage.refuse_changed(url, fingerprint)
    return results


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]
