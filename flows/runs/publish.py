"""What a finished run leaves: its record, its report, and its outcome on the run's page."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np

from flows.catalogue import table_read
from flows.data import storage
from flows.data.column_table import HEADINGS, LABEL, rows_of
from flows.data.column_table import summary as column_summary
from flows.data.runs import (
    Dropped,
    RunPaths,
    RunRecord,
    complete,
    fit_in_words,
    mark_latest,
    peak_memory,
    read_record,
    refuse_removed,
    unsaid,
    versions,
    write_posterior,
    write_trace,
)
from flows.data.table import ROW_ID
from flows.events import Published
from flows.family import Answers, Finished, Reports, Selects, ShowsMore
from flows.fit.driver import FitResult
from flows.report import page as report
from flows.report import plots, render
from flows.report.answers import as_results
from flows.report.commands import Commands
from flows.report.labels import LEVEL, UNKNOWN, label
from flows.runs.checking import all_dropped, loss_warnings
from flows.runs.context import Run
from flows.runs.incremental import news_of
from flows.runs.incremental import section as what_is_new
from flows.runs.listing import rows_command
from flows.runs.listing import rows_of as table_rows
from flows.runs.resume import publish_complete
from flows.runs.shown import commands_of
from vbmodels.core.column_table import ColumnRead
from vbmodels.core.protocol import DRAWN, objective_of


def publish(run: Run) -> dict[str, Any]:
    """Write the record, the posterior and the report, then make the run the latest."""
    family, model, q, fit = run.family, run.model, run.q, run.fit
    summaries = run.summaries
    if isinstance(family, Selects):
        summaries, q = family.select(
            model, q, summaries, settings=run.settings, paths=run.paths, fitted=run.fitted,
            each=partial(run.each, "publish"),
        )  # fmt: skip
    if fit is not None:
        trace = fit.trace
        write_trace(
            run.paths, trace.iteration.tolist(), trace.elbo.tolist(), trace.seconds.tolist()
        )
    if model is not None:
        write_posterior(run.paths, q, family.posterior(model, q, run.paths))
    family.keep(q, run.settings, run.paths, run.fitted)
    make = _answered if isinstance(family, Answers) else _reported
    made = make(run, model, q, summaries)
    url = run.paths.file("report.html")
    storage.write_bytes(url, made.html.encode())
    run.verify()
    refuse_removed(run.paths)
    complete(run.paths, made.record)
    run.complete = True  # another attempt has only to name it the latest
    # What is printed is read before: once it is published, a run cannot fail.
    found = made.outcome
    mark_latest(run.paths, made.record)
    headline, top = made.record.headline, found.get("top", ())
    run.events.emit(Published(made.record, headline, url, top, made.summary))
    return found


@dataclass(frozen=True)
class Made:
    """What a run leaves besides its tables, and what is said of it."""

    record: RunRecord
    html: str
    outcome: dict[str, Any]
    summary: str = ""


def _answered(run: Run, model: Any, q: Any, summaries: Sequence[Any]) -> Made:
    """Make the typed answer, and render it."""
    fit = None if run.fitted is None else read_record(run.fitted)
    read = set() if fit is None else {file.fingerprint for file in fit.inputs}
    finished = Finished(
        model, q, summaries, run.ingested, run.settings, run.paths, fit,
        len(run.inputs), sum(file.fingerprint in read for file in run.inputs),
    )  # fmt: skip
    assert isinstance(run.family, Answers)
    answer = run.family.answer(finished)
    commands = _commands(run)
    name = run.family.name
    record = _record(
        run, render.headline(name, answer, commands), as_results(answer),
        render.warnings(name, answer, commands),
    )  # fmt: skip
    applied = None
    if run.fitted is not None and fit is not None:
        link = render.link_to_report(run.fitted, run.paths.file("report.html"))
        applied = render.AppliedFit(fit.run_id, fit.headline, fit.warnings, link)
    trace = None if run.fit is None else _trace_plot(run.fit, record.objective)
    shown = render.Shown(
        name, answer, record, commands, run.paths.file("report.html"),
        rows_command(run.paths, run.paths.target), news_of(run), applied, trace,
        {**run.settings.defaults(), "partitions": record.partitions},
        run.family.page_data(finished) if isinstance(run.family, ShowsMore) else None,
    )  # fmt: skip
    outcome = _numbers(run.paths, record) | {"text": render.terminal(shown)}
    return Made(record, render.page(shown), outcome, render.markdown(shown))


def _reported(run: Run, model: Any, q: Any, summaries: Sequence[Any]) -> Made:
    """Make the findings, and render them."""
    assert isinstance(run.family, Reports)
    findings = run.family.report(model, q, summaries, run.ingested, run.settings)
    findings = _with_commands(run, _add_figures_of_fit(run, findings))
    record = _record(
        run, findings.headline, findings.results, findings.warnings, findings.notes,
        [asdict(tile) for tile in findings.tiles],
    )  # fmt: skip
    findings = replace(findings, sections=[*filter(None, [what_is_new(run)]), *findings.sections])
    more = _columns_section(run)
    if run.fitted is not None and all(one.title != _OF_FIT for one in findings.sections):
        more = [_fit_section(run.fitted, run.paths), *more]
    html = report.render(
        record, findings, more, run=run.paths.root,
        trace=None if run.fit is None else _trace_section(run.fit, record.objective),
        sweeping=0.0 if run.fit is None else run.fit.seconds, defaults=run.settings.defaults(),
    )  # fmt: skip
    top = findings.top if run.fitted is None else _predictions(run) or findings.top
    return Made(record, html, outcome(run.paths, record, findings.headline, top))


def _commands(run: Run) -> Commands:
    return commands_of(run.family.name, run.inputs, run.source, run.paths, run.changed)


def _with_commands(run: Run, findings: report.Findings) -> report.Findings:
    """Write the run's own command where a text has {again}, with settings that it may name."""
    commands = _commands(run)

    def command(found: re.Match[str]) -> str:
        return commands.again(*found[1].split())

    whole = partial(_AGAIN.sub, command)
    return replace(
        findings,
        warnings=tuple(map(whole, findings.warnings)), notes=tuple(map(whole, findings.notes)),
        tiles=[replace(t, note=t.note.replace("{run}", run.paths.root)) for t in findings.tiles],
        next_steps=[replace(one, command=whole(one.command)) for one in findings.next_steps],
    )  # fmt: skip


_AGAIN = re.compile(r"\{again((?: \w+=[^\s}]+)*)\}")
_REFIT = re.compile(r" [^.:]*: (vbflows|--).*$")  # what to fit next: no matter of a score


def _add_figures_of_fit(run: Run, findings: report.Findings) -> report.Findings:
    """Say what the fit measured where a score has no labels, or those that the fit read."""
    if run.fitted is None:
        return findings
    fit = read_record(run.fitted)
    read = {file.fingerprint for file in fit.inputs}
    seen, files = sum(file.fingerprint in read for file in run.inputs), len(run.inputs)
    measured = bool({"auroc", "accuracy", "r2", "log_loss", "tested"} & {*findings.results})
    which = "this input" if seen == files else f"{seen:,} of {files:,} files"
    if not findings.predicted:
        again = f". The fit has read {which}: nothing here is new" * (seen == files)
        return replace(findings, headline=f"{findings.headline.rstrip('.')}{again}")
    if measured and not seen:
        return findings
    why = f"The fit has read {which}"
    if not measured:
        why = f"{'Too few' if findings.results.get('labelled') else 'No'} labels here"
    headline = f"{findings.predicted}. {why}, so nothing new is measured"
    if measured:
        headline = f"{why}, so nothing new is measured: go by the fit's report"
    tiles = [tile for tile in findings.tiles if tile.label not in _FIGURES]
    figures = [] if fit.fitted else _read_figures(fit.tiles)
    for name, value, interval, rows in figures[:1]:
        between = f" (95 % interval {interval})" * bool(interval)
        of_fit = f"{name} {value}{between} on {rows}"
        headline += f" ({of_fit})" if measured else f"; the fit had {of_fit}"
        notes = (f"{interval} (95\u00a0%)" * bool(interval), rows)
        tiles.append(report.Tile(f"{name} of the fit", value, "; ".join(filter(None, notes))))
    if figures and findings.with_fit and not (measured or seen):
        quoted = findings.with_fit(findings, fit.results)
        findings, headline = (quoted, quoted.headline) if quoted else (findings, headline)
    fit_section = _fit_section(run.fitted, run.paths)
    if not measured:
        steps, sections = [*findings.next_steps[:2], _MEASURE], [*findings.sections, fit_section]
        return replace(
            findings, headline=headline, tiles=tiles, next_steps=steps, sections=sections
        )
    fitted = shlex.quote(run.fitted.root)
    warning = (
        "The fit has seen these labels, so its predictions lean towards them and too few look "
        f"uncertain: go by the fit's report, vbflows show {fitted}"
    )
    score = f"vbflows score {fitted} NEW_INPUT scored/"
    return replace(
        findings, headline=headline, tiles=[one for one in tiles if one.label != "uncertain"],
        sections=[*(one for one in findings.sections if not one.measures), fit_section],
        warnings=(*findings.warnings, warning),
        next_steps=[
            *findings.next_steps[:1],
            report.NextStep(f"Score {findings.row}s that the fit has not read:", score),
        ],
    )  # fmt: skip


_MEASURE = report.NextStep(
    "When the labels are known, add them and score again: the report then measures the predictions."
)
_MEASURES = {label("auroc"), label("accuracy"), label("r2"), label("deviance_explained"), LEVEL}
_FIGURES = _MEASURES | {label("log_loss"), label("rmse")}
"""Tiles that say how good predictions are; a score quotes the first of the former."""


def _read_figures(tiles: Sequence[Mapping[str, str]]) -> list[tuple[str, str, str, str]]:
    """Return each measure: its name, its value, its interval, and the rows that it is of.

    >>> note = "0.985 to 1.000; 46 held-out rows; higher is better"
    >>> _read_figures([{"label": "AUROC", "value": "0.996", "note": note}])
    [('AUROC', '0.996', '0.985 to 1.000', '46 held-out rows')]
    """
    found = []
    for tile in tiles:
        interval, *more = tile["note"].replace(" (95\u00a0%)", "").split("; ")
        rows = next((one for one in more if one[:1].isdigit()), "labels that it had not seen")
        if tile["label"] in _MEASURES and tile["value"] != UNKNOWN:
            interval = interval * (" to " in interval)
            found.append((tile["label"], tile["value"], interval, rows))
    return found


def _predictions(run: Run) -> Sequence[Mapping[str, Any]]:
    """Return the first rows that a score predicts; the model the fit has shown already."""
    if _ROWS not in storage.names(run.paths.root):
        return ()
    found: Sequence[Mapping[str, Any]] = table_rows(run.paths, _ROWS, "", _SHOWN, counted=False)[
        0
    ].to_pylist()
    return found


_ROWS, _SHOWN = "rows", 8


def _record(
    run: Run, headline: str, results: dict[str, Any], said: Sequence[str],
    notes: Sequence[str] = (), tiles: Sequence[dict[str, str]] = (),
) -> RunRecord:  # fmt: skip
    fit, objective = run.fit, objective_of(run.model, run.q)
    warnings = [*run.file_warnings, *run.prepared.warnings, *loss_warnings(run), *said]
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
        rows_read=sum(one.rows_read for one in run.ingested),
        rows_kept=sum(one.rows_kept for one in run.ingested)
        - sum(one.count for one in run.prepared.dropped),
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
        notes=[*run.prepared.notes, *notes],
        since=run.earlier.run_id if run.earlier is not None and run.earlier.is_used else None,
        fitted=None if run.fitted is None else run.fitted.run_id,
        headline=headline,
        tiles=list(tiles),
        results=results,
        columns=list(run.prepared.columns),
    )


_OF_FIT = "The fit that was applied"


def _fit_section(fitted: RunPaths, paths: RunPaths) -> report.Section:
    """Return what the fit that a score applies found, with its warnings and its report."""
    fit = read_record(fitted)
    warnings = (_REFIT.sub("", one) for one in fit.warnings)
    text = [f"Its own result: {fit.headline.rstrip('.')}."]
    text += [f"The fit's own warning: {one}" for one in warnings]
    link = report.link_to_report(fitted, paths.file("report.html"))
    row = f"{fit.run_id}, finished {fit.finished:%Y-%m-%d %H:%M}", link
    return report.Section(
        _OF_FIT, "\n".join(text), grids=(report.Grid(("run (UTC)", "report"), [row]),)
    )


def _columns_section(run: Run) -> list[report.Section]:
    """Return the table of columns as a part of the report."""
    columns = run.prepared.columns
    if not columns:
        return []
    table, named = table_read(run.family.name), (run.settings.columns or {}).get("id", "")
    if named and table is not None and table.id is ROW_ID:
        columns = (ColumnRead(named, "id", None, "", "names the rows, not modelled"), *columns)
    how = "How each column was read, what it holds, and whether it is used."
    read = run.prepared.columns
    inputs = [one for one in read if not one.used.startswith(LABEL)]
    plain = all(one.missing == 0 and not one.left_out for one in inputs)
    folded = plain or len(columns) >= _MANY_COLUMNS
    caption = "; ".join(column_summary(read)) if folded else ""
    grid = report.Grid(HEADINGS, rows_of(columns), caption, folded=folded)
    return [report.Section("Columns", grids=(grid,), how=how)]


_MANY_COLUMNS = 20  # from which on their table is folded


def _trace_section(fitted: FitResult, objective: str) -> report.Section:
    plot = _trace_plot(fitted, objective)
    return report.Section(plot["description"], "", [plot])


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
        text += ". Where the line falls, the next stage of the fit begins, with another objective"
    return plots.trace(trace.iteration.tolist(), trace.elbo.tolist(), objective, f"{text}.")


def outcome(
    paths: RunPaths, record: RunRecord, headline: str, top: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Return what the command prints of a published run."""
    lines = [f"run {record.run_id} in {record.seconds:.1f} s"]
    if record.elbo is not None or record.fitted:
        lines.append(fit_in_words(record, brief=True))
    table, named = table_read(record.pipeline), record.settings.get("columns") or {}
    unnamed = table is not None and table.id is ROW_ID and not (record.fitted or named.get("id"))
    lines += column_summary(record.columns, unnamed)
    lines += [
        f"not used: {one.reason}: {one.count:,}{_examples(one)}"
        for one in unsaid(record.dropped, record.warnings)[:_LINES]
    ]
    lines += [f"note: {note}" for note in record.notes]
    lines += [f"warning: {warning}" for warning in record.warnings]
    lines.append(f"report {paths.file('report.html')}")
    command = rows_command(paths, paths.target)
    if record.fitted and _ROWS in storage.names(paths.root):
        command = f"vbflows show {shlex.quote(paths.target)} {_ROWS}"
    if command:
        lines.append(f"rows: {command}")
    return _numbers(paths, record) | {"top": [dict(row) for row in top], "lines": lines}


def _numbers(paths: RunPaths, record: RunRecord) -> dict[str, Any]:
    return {
        "headline": headline,
        "run_id": record.run_id,
        "target": paths.target,
        "headline": record.headline,
        "report": paths.file("report.html"),
        "converged": record.converged,
        "elbo": record.elbo,
        "iterations": record.iterations,
        "rows_read": record.rows_read,
        "rows_kept": record.rows_kept,
        "warnings": record.warnings,
        "notes": record.notes,
        "columns": [one.as_json() for one in record.columns],
        "dropped": [one.model_dump() for one in record.dropped],
        "results": record.results,
    }


def outcome_of_complete(run: Run) -> dict[str, Any]:
    """Publish a run that was complete when it was stopped, unless nothing is new since."""
    record = read_record(run.paths)
    if run.begun or run.is_resume:
        return {**outcome(run.paths, record, ""), "headline": publish_complete(run)}
    found = outcome(run.paths, record, f"No new files since run {record.run_id}; nothing to do.")
    del found["lines"][0]  # how long the run took that found it
    return found


_LINES = 12  # of what was not used


def _examples(dropped: Dropped) -> str:
    named = [name for name in dropped.examples if name][:3]
    more = ", ..." if dropped.count > len(named) else ""
    return f" ({', '.join(named)}{more})" if named else ""
