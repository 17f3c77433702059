"""Commands that compute: the pipelines, scores, checks, counts, and schedules of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from flows import settings as settings_of
from flows.catalogue import PIPELINES, known, pipeline_named, table_read
from flows.cli.app import app
from flows.cli.options import (
    Assign,
    Columns,
    Config,
    Json,
    MemoryLimit,
    Pipeline,
    Record,
    Reports,
    Run,
    Scheduler,
    Source,
    Target,
    Workers,
    as_given,
)
from flows.cli.printing import line, listening, print_json, print_outcome
from flows.data.table import Column, Table
from flows.settings import describe
from flows.settings.guide import FIRST, GROUPS, grouped


class PipelineCommand(TyperCommand):
    """A command whose help teaches the pipeline."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write usage and question, then columns, example, settings, options and page."""
        name = str(ctx.info_name)
        settings, table = known(name), table_read(name)
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        if table is not None:
            _write_columns(formatter, table)
        if settings.example:
            _write_lines(formatter, "Example", settings.example)
        told = {row[0]: row for row in describe(settings)}
        for group, members in grouped(settings).items():
            heading = GROUPS[group]
            if group == FIRST:
                heading += " (--set NAME=VALUE, or a file: vbflows init " + name + ")"
            rows = [(told[m][0], _in_words(*told[m][1:])) for m in members]
            with formatter.section(heading):
                formatter.write_dl(rows)
        super().format_options(ctx, formatter)
        if settings.page:
            _write_lines(formatter, "More", [settings.page])


def _write_columns(formatter: Any, table: Table) -> None:
    with formatter.section("What goes in"):
        formatter.write_text(table.meaning.replace("`", ""))
        must = " Columns with a * must be there." if any(c.required for c in table.columns) else ""
        formatter.write_text(
            "Parquet, CSV, TSV, JSON lines or Arrow; where your columns have other names, "
            f"--column OURS=YOURS.{must}"
        )
        formatter.write_paragraph()
        rows = [(_name(column), _told(column)) for column in table.columns]
        if table.others:
            rows.append(("any other", f"{table.others.name}: {_told(table.others)}"))
        formatter.write_dl(rows)


def _name(column: Column) -> str:
    return f"{column.name} *" if column.required else column.name


def _told(column: Column) -> str:
    return f"{column.type}: {column.meaning}"


def _in_words(bounds: str, default: str, meaning: str) -> str:
    shown = "empty" if default in ("None", "()", "{}") else default.strip("'")
    return f"{meaning} [{bounds}; default {shown}]"


def _write_lines(formatter: Any, heading: str, lines: Sequence[str]) -> None:
    with formatter.section(heading):
        for text in lines:
            formatter.write(f"{'':>{formatter.current_indent}}{text}\n")


def _add_pipeline(name: str) -> None:
    @app.command(name=name, help=PIPELINES[name].question, cls=PipelineCommand)
    def run(
        source: Source,
        target: Target,
        config: Config = None,
        assign: Assign = None,
        column: Columns = None,
        workers: Workers = None,
        scheduler: Scheduler = None,
        memory_limit: MemoryLimit = None,
        partitions: Annotated[
            int | None, typer.Option(help="Number of partitions.", metavar="N")
        ] = None,
        seed: Annotated[
            int | None, typer.Option(help="Seed of everything random.", metavar="N")
        ] = None,
        max_iter: Annotated[int | None, typer.Option(help="Most sweeps.", metavar="N")] = None,
        checkpoint_every: Annotated[
            int | None, typer.Option(help="Sweeps between two checkpoints.", metavar="N")
        ] = None,
        resume: Annotated[
            str | None, typer.Option(help="Go on with an interrupted run.", metavar="RUN_ID")
        ] = None,
        since: Annotated[
            str | None,
            typer.Option(
                help="Read only what is new since a run and start from its posterior.",
                metavar="latest|RUN_ID",
            ),
        ] = None,
        reports: Reports = None,
        record: Record = False,
        json_output: Json = False,
    ) -> None:
        chosen = settings_of.load(
            known(name),
            config,
            assign or [],
            columns=settings_of.columns(column),
            partitions=partitions,
            seed=seed,
            max_iter=max_iter,
            checkpoint_every=checkpoint_every,
        )
        compute = settings_of.compute_settings(workers, scheduler, memory_limit, reports)
        from flows.run.launch import launch

        with listening(json_output) as shown:
            outcome = launch(
                name, as_given(source), target, chosen, compute, resume, record, since, shown
            )
        print_outcome(outcome, json_output)


@app.command()
def score(
    run: Run,
    source: Source,
    target: Target,
    workers: Workers = None,
    scheduler: Scheduler = None,
    memory_limit: MemoryLimit = None,
    reports: Reports = None,
    record: Record = False,
    json_output: Json = False,
) -> None:
    """Apply a fitted posterior to new data, without fitting."""
    from flows.run.launch import launch_score

    compute = settings_of.compute_settings(workers, scheduler, memory_limit, reports)
    with listening(json_output) as shown:
        outcome = launch_score(run, as_given(source), target, compute, record, shown)
    print_outcome(outcome, json_output)


@app.command()
def check(
    pipeline: Pipeline,
    source: Source,
    config: Config = None,
    assign: Assign = None,
    column: Columns = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Look for faults in the files alone: do not prepare.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Say all that a run would say before its fit: faults, warnings, what it will take."""
    columns = settings_of.columns(column)
    chosen = settings_of.load(known(pipeline), config, assign or [], columns=columns)
    from flows.run.foresight import look_ahead, told

    with listening(json_output) as shown:
        foreseen = look_ahead(pipeline_named(pipeline), as_given(source), chosen, shown, not quick)
    if json_output:
        print_json(foreseen.as_json())
    else:
        for text in told(foreseen):
            line(text)


@app.command()
def count(
    source: Annotated[
        str, typer.Argument(help="Sample sheet: CSV of sample, replicate, path.", metavar="SHEET")
    ],
    target: Annotated[
        str, typer.Argument(help="Folder or URL for the Parquet counts.", metavar="TARGET")
    ],
    config: Config = None,
    assign: Assign = None,
    workers: Annotated[
        int, typer.Option(min=0, help="Local worker processes; 0: this process.", metavar="N")
    ] = 0,
    scheduler: Scheduler = None,
    partitions: Annotated[int | None, typer.Option(help="Number of files.", metavar="N")] = None,
    json_output: Json = False,
) -> None:
    """Count the bases of BAM or CRAM files once, for the variants pipeline (its settings)."""
    family = pipeline_named("variants")
    chosen: Any = settings_of.load(family.settings, config, assign or [], partitions=partitions)
    compute = settings_of.compute_settings(workers, scheduler)
    from flows.run.count import count as count_reads

    with listening(json_output) as shown:
        outcome = count_reads(source, target, chosen, compute, shown)
    print_outcome(outcome, json_output)


@app.command()
def serve(
    plan: Annotated[
        str,
        typer.Argument(help="YAML file of deployments; see deploy/README.md.", metavar="PLAN"),
    ],
    port: Annotated[
        int, typer.Option(help="Port of Prefect's page, if one is started.", metavar="N")
    ] = 4200,
) -> None:
    """Run pipelines on their schedules on this machine, with Prefect's page, until Ctrl-C."""
    from flows.run.prefect import password
    from flows.run.prefect.profile import names_server
    from flows.run.prefect.serve import read_plan
    from flows.run.prefect.serve import serve as run_plan

    chosen = read_plan(plan)
    if not names_server():
        where = f"http://127.0.0.1:{port}; log in with the line in {password.path()}"
        line(f"Prefect's page: {where}")
    run_plan(chosen, port)


for _pipeline in PIPELINES:
    _add_pipeline(_pipeline)
