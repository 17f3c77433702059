"""What a finished run leaves: its record, its report, and its outcome on the run's page."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from flows.data import storage
from flows.data.runs import (
    Dropped,
    RunPaths,
    RunRecord,
    complete,
    fit_in_words,
    name_latest,
    peak_memory,
    versions,
    write_posterior,
    write_trace,
)
from flows.family import Concluding, Ingested, Prepared
from flows.fit.compute import each_of
from flows.fit.driver import FitResult
from flows.report import page as report
from flows.report import plots
from flows.run.checking import header_warnings
from flows.run.events import Published
from flows.run.running import Run
from flows.run.since import section as what_is_new
from vbmodels.core.protocol import CLIMBED, objective_of
from vbmodels.core.state import State


def publish(
    run: Run,
    ingested: Sequence[Ingested],
    prepared: Prepared,
    model: Any,
    q: State,
    fitted: FitResult | None,
    summaries: Sequence[Any],
) -> dict[str, Any]:
    """Write the record, the posterior and the report, then make the run the latest."""
    each = each_of(run.compute, run.on_progress("publish"))
    if isinstance(run.family, Concluding):
        summaries, q = run.family.conclude(
            model,
            q,
            summaries,
            settings=run.settings,
            paths=run.paths,
            fitted=run.fitted,
            each=each,
        )
    findings = run.family.report(model, q, summaries, ingested, run.settings)
    warnings = [*header_warnings(run.files), *prepared.warnings, *findings.warnings]
    warnings += [] if run.since is None else run.since.notes
    if fitted is not None and not fitted.converged:
        objective = objective_of(model)
        climbed = objective in CLIMBED
        what = f"The {objective} had not converged" if climbed else "It was stopped"
        warnings.append(f"{what} after {fitted.iterations} sweeps; raise max_iter or tol.")
    before = run.since
    record = RunRecord(
        run_id=run.paths.run_id,
        pipeline=run.family.name,
        source=run.source,
        settings=run.settings.model_dump(),
        versions=versions(),
        started=run.started,
        finished=datetime.now(UTC),
        seconds=time.perf_counter() - run.clock,
        peak_memory_bytes=peak_memory(),
        inputs=run.inputs,
        rows_read=sum(i.rows_read for i in ingested),
        rows_kept=rows_used(ingested, prepared),
        dropped=total_dropped([*(d for i in ingested for d in i.dropped), *prepared.dropped]),
        partitions=len(prepared.partitions),
        workers=run.workers,
        threads=run.threads,
        iterations=0 if fitted is None else fitted.iterations,
        converged=fitted is None or fitted.converged,
        elbo=None if fitted is None else float(fitted.trace.elbo[-1]),
        objective=objective_of(model),
        warnings=warnings,
        since=before.earlier.run_id if before and before.earlier else None,
        results=findings.results,
    )
    news = [section for section in (what_is_new(run),) if section]
    sections = [*news, *findings.sections]
    if model is not None:
        write_posterior(run.paths, q, run.family.posterior(model, q, run.paths))
    run.family.keep(q, run.settings, run.paths, run.fitted)
    if fitted is not None:
        trace = fitted.trace
        write_trace(
            run.paths, trace.iteration.tolist(), trace.elbo.tolist(), trace.seconds.tolist()
        )
        sections.append(_trace_section(fitted, record.objective))
    html = report.render(record, findings.headline, sections)
    storage.write_bytes(run.paths.file("report.html"), html.encode())
    run.confirm()
    complete(run.paths, record)
    name_latest(run.paths, record)
    run.events.tell(
        Published(
            record,
            findings.headline,
            run.paths.file("report.html"),
            findings.top,
            None if fitted is None else fitted.trace,
        )
    )
    return outcome(run.paths, record, findings.headline, findings.top)


def _trace_section(fitted: FitResult, objective: str) -> report.Section:
    trace = fitted.trace
    plot = plots.trace(trace.iteration.tolist(), trace.elbo.tolist(), objective)
    took = f"after {fitted.iterations} sweeps in {fitted.seconds:.1f} s."
    if objective not in CLIMBED:
        state = "The draws ended" if fitted.converged else "The draws were stopped"
        text = f"{state} {took} The {objective} of the draws wanders once it has arrived."
        return report.Section(f"The {objective}'s trace", text, [plot])
    state = f"The {objective} {'converged' if fitted.converged else 'had not converged'}"
    text = f"{state} {took} Sweeps of accelerated steps that were not taken are left out."
    if np.any(np.diff(trace.elbo) < -1e-6 * np.abs(trace.elbo[:-1])):
        text += " Where it falls, the fit went on to its next stage, which has a bound of its own."
    return report.Section(f"The {objective}'s trace", text, [plot])


def outcome(
    paths: RunPaths, record: RunRecord, headline: str, top: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Return what the command prints of a published run."""
    lines = [headline, f"run {record.run_id} in {record.seconds:.1f} s"]
    if record.elbo is not None:
        lines.append(fit_in_words(record))
    lines += [f"warning: {warning}" for warning in record.warnings]
    lines.append(f"report {paths.file('report.html')}")
    return {
        "run_id": record.run_id,
        "target": paths.target,
        "top": [dict(row) for row in top],
        "report": paths.file("report.html"),
        "converged": record.converged,
        "elbo": record.elbo,
        "iterations": record.iterations,
        "rows_read": record.rows_read,
        "rows_kept": record.rows_kept,
        "warnings": record.warnings,
        "results": record.results,
        "lines": lines,
    }


def rows_used(ingested: Sequence[Ingested], prepared: Prepared) -> int:
    """Return how many rows a run has used: those kept, but for what turned out to be of no use."""
    return sum(i.rows_kept for i in ingested) - sum(d.count for d in prepared.dropped)


def total_dropped(dropped: Sequence[Dropped]) -> list[Dropped]:
    """Add up what was dropped for one reason; leave out what was not."""
    total: dict[str, Dropped] = {}
    for item in dropped:
        before = total.get(item.reason, Dropped(reason=item.reason, count=0))
        total[item.reason] = Dropped(
            reason=item.reason,
            count=before.count + item.count,
            examples=(before.examples + item.examples)[:100],
        )
    return [item for item in total.values() if item.count]
