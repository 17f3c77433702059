"""What a finished run leaves: its record, its report, and its outcome on the run's page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np

from flows import storage
from flows.events import Published
from flows.family import Finished
from flows.fit.driver import FitResult
from flows.read.rows import commands_of, rows_command, shown_of
from flows.records.runs import (
    RunPaths,
    RunRecord,
    complete,
    mark_latest,
    peak_memory,
    read_record,
    refuse_removed,
    versions,
    write_posterior,
    write_trace,
)
from flows.report import plots, render
from flows.report.answers import as_results
from flows.runs.checking import all_dropped, loss_warnings
from flows.runs.context import Run
from flows.runs.incremental import news_of
from flows.runs.resume import publish_complete
from vbmodels.core.algorithm import DRAWN, objective_of


def publish(run: Run) -> dict[str, Any]:
    """Write the record, the posterior and the report, then make the run the latest."""
    family, model, q, fit = run.family, run.model, run.q, run.fit
    summaries, q = family.select(
        model,
        q,
        run.summaries,
        settings=run.settings,
        paths=run.paths,
        fitted=run.fitted,
        each=partial(run.each, "publish"),
    )
    if fit is not None:
        write_trace(run.paths, fit.trace.iteration, fit.trace.elbo, fit.trace.seconds)
    write_posterior(run.paths, q, family.posterior(model, q, run.paths))
    family.keep(q, run.settings, run.paths, run.fitted)
    shown = _answer(run, model, q, summaries)
    storage.write_bytes(shown.report, render.page(shown).encode())
    # What is printed is made before: once it is published, a run cannot fail.
    outcome = _numbers(run.paths, shown.record) | {"text": render.terminal(shown)}
    published = Published(shown.record, shown.report, render.markdown(shown))
    run.verify()
    refuse_removed(run.paths)
    complete(run.paths, shown.record)
    run.complete = True  # another attempt has only to name it the latest
    mark_latest(run.paths, shown.record)
    run.events.emit(published)
    return outcome


def _answer(run: Run, model: Any, q: Any, summaries: Sequence[Any]) -> render.Shown:
    """Make the answer, and all that is shown with it."""
    fit = None if run.fitted is None else read_record(run.fitted)
    read = set() if fit is None else {file.fingerprint for file in fit.inputs}
    finished = Finished(
        model,
        q,
        summaries,
        run.ingested,
        run.settings,
        run.paths,
        fit,
        files=len(run.inputs),
        seen=sum(file.fingerprint in read for file in run.inputs),
    )
    answer = run.family.answer(finished)
    name = run.family.name
    commands = commands_of(name, run.inputs, run.source, run.paths, run.changed)
    headline = render.headline(name, answer, commands)
    warnings = render.warnings(name, answer, commands)
    record = _record(run, headline, as_results(answer), warnings)
    applied = None
    if run.fitted is not None and fit is not None:
        link = render.link_to_report(run.fitted, run.paths.file("report.html"))
        applied = render.AppliedFit(fit.run_id, fit.headline, fit.warnings, link)
    trace = None if run.fit is None else _trace_plot(run.fit, record.objective)
    return render.Shown(
        name,
        answer,
        record,
        commands,
        run.paths.file("report.html"),
        rows_command(run.paths, run.paths.target),
        news_of(run),
        applied,
        trace,
        {**run.settings.defaults(), "partitions": record.partitions},
        run.family.page_data(finished),
    )


def _record(run: Run, headline: str, results: dict[str, Any], doubts: Sequence[str]) -> RunRecord:
    fit, objective = run.fit, objective_of(run.model, run.q)
    warnings = [*run.file_warnings, *run.prepared.warnings, *loss_warnings(run), *doubts]
    warnings += [] if run.earlier is None else run.earlier.notes
    if fit is not None and not fit.converged:
        what = "It was stopped" if objective in DRAWN else f"The {objective} had not converged"
        warnings.append(f"{what} after {fit.iterations} sweeps; raise max_iter or tol.")
    return RunRecord(
        run_id=run.paths.run_id,
        pipeline=run.family.name,
        source=run.source,
        settings=run.settings.model_dump(),
        changed=run.changed,
        versions=versions(),
        started=run.started,
        finished=datetime.now(UTC),
        seconds=time.perf_counter() - run.clock,
        peak_memory_bytes=peak_memory(),
        inputs=run.inputs,
        rows_read=sum(part.rows_read for part in run.ingested),
        rows_kept=sum(part.rows_kept for part in run.ingested)
        - sum(d.count for d in run.prepared.dropped),
        dropped=all_dropped(run),
        partitions=len(run.prepared.partitions),
        workers=run.options.workers or run.compute.size,
        scheduler=run.options.scheduler,
        threads=run.threads,
        iterations=0 if fit is None else fit.iterations,
        converged=fit is None or fit.converged,
        elbo=None if fit is None else float(fit.trace.elbo[-1]),
        objective=objective,
        warnings=warnings,
        notes=list(run.prepared.notes),
        since=run.earlier.run_id if run.earlier is not None and run.earlier.is_used else None,
        fitted=None if run.fitted is None else run.fitted.run_id,
        headline=headline,
        results=results,
        columns=list(run.prepared.columns),
    )


def _trace_plot(fitted: FitResult, objective: str) -> plots.Spec:
    trace = fitted.trace
    text = f"It is {trace.elbo[-1]:,.4f} nats at the end"
    if objective in DRAWN:
        text += f". The {objective} of the draws wanders once it has arrived."
        return plots.trace(trace.iteration.tolist(), trace.elbo.tolist(), objective, text)
    text += ". The chart leaves out rejected steps"
    if (first := int(trace.iteration[0])) > 0:
        text += f", and the sweeps before {first}, which prepare the fit"
    if np.any(np.diff(trace.elbo) < -1e-6 * np.abs(trace.elbo[:-1])):
        text += ". Where the line falls, the next stage begins, with another objective"
    return plots.trace(trace.iteration.tolist(), trace.elbo.tolist(), objective, f"{text}.")


def _numbers(paths: RunPaths, record: RunRecord) -> dict[str, Any]:
    return {
        "headline": record.headline,
        "run_id": record.run_id,
        "target": paths.target,
        "report": paths.file("report.html"),
        "converged": record.converged,
        "elbo": record.elbo,
        "iterations": record.iterations,
        "rows_read": record.rows_read,
        "rows_kept": record.rows_kept,
        "warnings": record.warnings,
        "notes": record.notes,
        "columns": [asdict(c) for c in record.columns],
        "dropped": [d.model_dump() for d in record.dropped],
        "results": record.results,
    }


def outcome_of_complete(run: Run) -> dict[str, Any]:
    """Publish a run that was complete when it was stopped, unless nothing is new since."""
    record = read_record(run.paths)
    headline = f"No new files since run {record.run_id}; nothing to do."
    if run.begun or run.is_resume:
        headline = publish_complete(run)
    text = f"{headline}\n{render.terminal(shown_of(run.paths, record))}"
    return {**_numbers(run.paths, record), "headline": headline, "text": text}
