"""The commands. What computes is loaded by the command that needs it: help is there at once."""

from __future__ import annotations

from importlib import metadata
from typing import Annotated, Any

import typer

from flows import settings as settings_of
from flows.catalogue import PIPELINES, known, pipeline_named
from flows.cli.help import Commands, PipelineCommand
from flows.cli.options import (
    S3,
    Assign,
    Columns,
    Config,
    Encoding,
    Exclude,
    Include,
    Json,
    MemoryLimit,
    Pipeline,
    Record,
    Run,
    Scheduler,
    Source,
    Strict,
    Target,
    Workers,
    as_given,
    reading,
)
from flows.cli.output import followed, line, out, print_json, print_outcome
from flows.faults import Fault, InputError

app = typer.Typer(
    name="vbflows",
    help="Fit interpretable Bayesian models to partitioned data, and publish what they find.",
    cls=Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"vbflows {metadata.version('vbflows')}")
        raise typer.Exit


@app.callback()
def _reach(
    context: typer.Context,
    s3: S3 = None,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True, callback=_version),
    ] = False,
) -> None:
    if s3:
        from flows.prefect.credentials import reached

        context.with_resource(reached(settings_of.load(settings_of.S3Access, None, s3)))


def _add_pipeline(name: str) -> None:
    @app.command(name=name, help=PIPELINES[name].question, cls=PipelineCommand)
    def fit(
        source: Source,
        target: Target,
        config: Config = None,
        assign: Assign = None,
        column: Columns = None,
        exclude: Exclude = None,
        include: Include = None,
        encoding: Encoding = None,
        strict: Strict = False,
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
            str | None,
            typer.Option(
                help="Go on with an unfinished run: its id, the latest one, or (auto) one of this "
                "very request, if there is one.",
                metavar="RUN_ID|latest|auto",
            ),
        ] = None,
        since: Annotated[
            str | None,
            typer.Option(
                help="Read only what is new since a run and start from its posterior.",
                metavar="latest|RUN_ID",
            ),
        ] = None,
        record: Record = False,
        json_output: Json = False,
    ) -> None:
        chosen = settings_of.load(
            known(name),
            config,
            assign or [],
            **reading(column, exclude, include, encoding, strict),
            partitions=partitions,
            seed=seed,
            max_iter=max_iter,
            checkpoint_every=checkpoint_every,
        )
        compute = settings_of.compute_settings(workers, scheduler, memory_limit)
        request = (as_given(source), target, chosen, compute, since, resume)
        with followed(json_output):
            if _is_recorded(record):
                from flows.pipelines import flow_named
                from flows.prefect.flow import recorded

                outcome = recorded(flow_named(name), *request)
            else:
                from flows.run import run

                outcome = run(name, *request)
        print_outcome(outcome, json_output)


@app.command()
def score(
    run: Run,
    source: Source,
    target: Target,
    workers: Workers = None,
    scheduler: Scheduler = None,
    memory_limit: MemoryLimit = None,
    record: Record = False,
    json_output: Json = False,
) -> None:
    """Apply a fitted posterior to new data, without fitting."""
    compute = settings_of.compute_settings(workers, scheduler, memory_limit)
    request = (run, as_given(source), target, compute)
    with followed(json_output):
        if _is_recorded(record):
            from flows import pipelines
            from flows.prefect.flow import recorded

            outcome = recorded(pipelines.score, *request)
        else:
            from flows.run import score as score_run

            outcome = score_run(*request)
    print_outcome(outcome, json_output)


def _is_recorded(record: bool) -> bool:
    """Whether a run is recorded: where a Prefect server is configured, or on request."""
    from flows.prefect.profile import names_server

    return record or names_server()


@app.command()
def check(
    pipeline: Pipeline,
    source: Source,
    config: Config = None,
    assign: Assign = None,
    column: Columns = None,
    exclude: Exclude = None,
    include: Include = None,
    encoding: Encoding = None,
    strict: Strict = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Look for faults in the files alone: do not prepare.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Say all that a run would say before its fit: faults, warnings, what it will take."""
    given = reading(column, exclude, include, encoding, strict)
    chosen = settings_of.load(known(pipeline), config, assign or [], **given)
    from flows.preview import in_lines, look_ahead

    with followed(json_output):
        foreseen = look_ahead(pipeline, as_given(source), chosen, not quick)
    if json_output:
        print_json(foreseen.as_json())
    else:
        for text in in_lines(foreseen):
            line(text)


@app.command()
def show(
    run: Run,
    table: Annotated[
        str, typer.Argument(help="One of its tables, to print rows of.", metavar="[TABLE]")
    ] = "",
    rows: Annotated[int, typer.Option(min=1, help="Most rows of the table.", metavar="N")] = 20,
    sort: Annotated[
        str,
        typer.Option(
            help="Rows with the largest of a column first; with - before it the smallest.",
            metavar="COLUMN",
        ),
    ] = "",
    open_report: Annotated[
        bool, typer.Option("--open", help="Open the HTML report in a browser.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Say what was fitted, or print rows of a table."""
    from flows.cli.tables import show_rows, show_run
    from flows.data.runs import open_run
    from flows.runs.tables import rows_of

    place, record = open_run(run)
    if table:
        found = rows_of(place, table, sort, rows)
        if json_output:
            print_json({"run_id": record.run_id, "table": table, "rows": found.to_pylist()})
        else:
            show_rows(out(), found)
    elif json_output:
        print_json(record.model_dump(mode="json"))
    else:
        show_run(out(), place, record)
    if open_report:
        import webbrowser

        webbrowser.open(place.file("report.html"))


@app.command()
def runs(
    target: Annotated[
        str, typer.Argument(help="Folder or URL that runs are published to.", metavar="TARGET")
    ],
    sort: Annotated[
        str,
        typer.Option(
            help="started, pipeline, seconds, rows, sweeps, bound, warnings, or a result.",
            metavar="NAME",
        ),
    ] = "started",
    prune: Annotated[
        str,
        typer.Option(
            help="Remove all but the N newest finished runs; what the latest run or --since needs "
            "stays.",
            metavar="keep=N",
        ),
    ] = "",
    json_output: Json = False,
) -> None:
    """List the runs of a target, with what is not the default in them; or remove old ones."""
    from flows.cli.tables import show_runs
    from flows.runs import listing

    if prune:
        gone = listing.prune(target, _kept(prune))
        if json_output:
            print_json({"target": target, "removed": gone})
            return
        for run_id in gone:
            line(f"removed {run_id}")
        line(f"{len(gone)} runs removed" if len(gone) != 1 else "1 run removed")
        return
    found = listing.runs_of(target, sort)
    if json_output:
        print_json(listing.as_json(target, found))
    else:
        show_runs(out(), found)


def _kept(prune: str) -> int:
    name, _, count = prune.partition("=")
    if name.strip() != "keep" or not count.strip().isdigit() or int(count) < 1:
        expected = "keep=N with N at least 1"
        raise InputError([Fault("--prune", expected, repr(prune), remedy="write --prune keep=10")])
    return int(count)


@app.command()
def compare(first: Run, second: Run, json_output: Json = False) -> None:
    """Compare two runs: settings, data, results, fit."""
    from flows.cli.tables import show_comparison
    from flows.runs.compare import compare as compared

    found = compared(first, second)
    if json_output:
        print_json(found.as_json())
    else:
        show_comparison(out(), found)


@app.command()
def simulate(
    pipeline: Pipeline,
    target: Target,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.", metavar="N")] = 0,
    rows: Annotated[
        int, typer.Option(min=1, help="Rows (documents, bags, locations).", metavar="N")
    ] = 500,
) -> None:
    """Draw data from a model, with the truth in a file of its own."""
    from flows.data import storage

    family = pipeline_named(pipeline)
    storage.check_writable(storage.absolute(target))
    for url in family.simulate(target, rows, seed):
        line(url)


@app.command()
def init(
    pipeline: Pipeline,
    file: Annotated[
        str, typer.Argument(help="The file; PIPELINE.yaml if none is named.", metavar="[FILE]")
    ] = "",
) -> None:
    """Write a file of a pipeline's settings, each with its meaning, for --config."""
    from flows.settings.guide import commented

    settings = known(pipeline)
    file = file or f"{pipeline}.yaml"
    try:
        with open(file, "x", encoding="utf-8") as written:
            written.write(commented(pipeline, settings))
    except OSError as error:
        found = (error.strerror or str(error)).lower()
        fault = Fault(file, "a new file that can be written", found, remedy="name another file")
        raise InputError([fault]) from error
    line(f"{file}: change what you need, then vbflows {pipeline} SOURCE TARGET --config {file}")


@app.command()
def demo(
    target: Annotated[
        str, typer.Argument(help="Where the demo is published.", metavar="TARGET")
    ] = "vbflows-demo",
) -> None:
    """Find keywords of the Python packages installed in this very environment."""
    from flows.demo import BEGINS, run_demo

    line(BEGINS)
    with followed(False):
        found = run_demo(target)
    out().print(found.table)
    for text in found.lines:
        line(text)


@app.command(name="compile")
def compile_kernels(
    pipelines: Annotated[
        list[str] | None,
        typer.Argument(help="Pipelines; all of them by default.", metavar="[PIPELINE]..."),
    ] = None,
) -> None:
    """Compile what the first run on a new machine would wait for."""
    names = pipelines or list(PIPELINES)
    for name in names:
        known(name)
    from flows.compile import compiled

    for name, seconds in compiled(names):
        line(f"{name}: {seconds:.0f} s")


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
    chosen: Any = settings_of.load(known("variants"), config, assign or [], partitions=partitions)
    compute = settings_of.compute_settings(workers, scheduler)
    from flows.runs.count import count as count_reads

    with followed(json_output):
        outcome = count_reads(source, target, chosen, compute)
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
    wait: Annotated[
        float,
        typer.Option(
            min=1.0,
            help="Seconds to wait until Prefect's page answers, if one is started.",
            metavar="SECONDS",
        ),
    ] = 120.0,
) -> None:
    """Run pipelines on their schedules on this machine, with Prefect's page, until Ctrl-C."""
    from flows.prefect.serve import read_plan
    from flows.prefect.serve import serve as run_plan

    run_plan(read_plan(plan), port, wait, line)


for _pipeline in PIPELINES:
    _add_pipeline(_pipeline)
