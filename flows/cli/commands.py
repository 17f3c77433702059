"""The commands."""

from __future__ import annotations

import os
from importlib import metadata
from typing import Annotated

import typer

from flows import settings as settings_of
from flows.catalogue import PIPELINES, known, pipeline_named
from flows.cli.groups import InOrder
from flows.cli.options import (
    S3,
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
)
from flows.cli.pipeline_help import PipelineCommand
from flows.cli.printing import line, listening, out, print_json, print_outcome
from flows.faults import Fault, InputError

app = typer.Typer(
    name="vbflows",
    help="Fit interpretable Bayesian models to partitioned data, and publish what they find.",
    cls=InOrder,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(asked: bool) -> None:
    if asked:
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
        from flows.run.prefect.access import reached

        context.with_resource(reached(settings_of.load(settings_of.S3Access, None, s3)))


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
        recorded: Record = True,
        json_output: Json = False,
    ) -> None:
        chosen = settings_of.load(
            PIPELINES[name],
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
            outcome = launch(name, source, target, chosen, compute, resume, recorded, since, shown)
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
    recorded: Record = True,
    json_output: Json = False,
) -> None:
    """Apply a fitted posterior to new data, without fitting."""
    from flows.run.launch import launch_score

    compute = settings_of.compute_settings(workers, scheduler, memory_limit, reports)
    with listening(json_output) as shown:
        outcome = launch_score(run, source, target, compute, recorded, shown)
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
        foreseen = look_ahead(pipeline_named(pipeline), source, chosen, shown, not quick)
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
    workers: Workers = None,
    scheduler: Scheduler = None,
    partitions: Annotated[int | None, typer.Option(help="Number of files.", metavar="N")] = None,
    json_output: Json = False,
) -> None:
    """Count the bases of BAM or CRAM files once, for the variants pipeline (its settings)."""
    family = pipeline_named("variants")
    chosen = settings_of.load(family.settings, config, assign or [], partitions=partitions)
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
    from flows.run.prefect.serve import read_plan
    from flows.run.prefect.serve import serve as run_plan

    chosen = read_plan(plan)
    if not os.environ.get("PREFECT_API_URL"):
        out().print(f"Prefect's page: http://127.0.0.1:{port}", highlight=False)
    run_plan(chosen, port)


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
    from flows.data.runs import open_run
    from flows.run.show import show_rows, show_run
    from flows.run.tables import rows_of

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
    """List the runs of a target, with their settings beside the defaults; or remove old ones."""
    from flows.run import runs as listing
    from flows.run.show import show_runs

    if prune:
        gone = listing.prune(target, _kept(prune))
        if json_output:
            print_json({"target": target, "removed": gone})
        else:
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
def compare(
    first: Run,
    second: Run,
    html: Annotated[
        str, typer.Option(help="Write a page with both reports, too.", metavar="FILE")
    ] = "",
    json_output: Json = False,
) -> None:
    """Put two runs side by side: settings, data, results, fit; and their reports, on a page."""
    from flows.data import storage
    from flows.run import compare as comparing
    from flows.run.show import show_comparison

    found = comparing.compare(first, second)
    if html:
        storage.write_bytes(storage.absolute(html), comparing.page(found).encode())
    if json_output:
        print_json(found.as_json())
        return
    show_comparison(out(), found)
    if html:
        line(f"page {html}")


@app.command()
def simulate(
    pipeline: Pipeline,
    target: Target,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.", metavar="N")] = 0,
    rows: Annotated[
        int, typer.Option(min=1, help="Rows (documents, bags, locations).", metavar="N")
    ] = 500,
    scenario: Annotated[
        str,
        typer.Option(
            help="variants: how the samples differ, null_oxo5 say; see its docs.", metavar="NAME"
        ),
    ] = "",
) -> None:
    """Draw data from a model, with the truth beside it."""
    from flows.data import storage
    from flows.family import DrawsScenarios

    family = pipeline_named(pipeline)
    known = family.scenarios if isinstance(family, DrawsScenarios) else {}
    if scenario and scenario not in known:
        names = ", ".join(known) or "none there is"
        expected = f"a scenario of {pipeline}: {names}"
        raise InputError([Fault(file="--scenario", expected=expected, found=scenario)])
    storage.check_writable(storage.absolute(target))
    if scenario and isinstance(family, DrawsScenarios):
        written = family.simulate_scenario(target, rows, seed, scenario)
    else:
        written = family.simulate(target, rows, seed)
    for url in written:
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
    with listening(False) as shown:
        found = run_demo(target, shown)
    out().print(found.table)
    for text in found.lines:
        line(text)


@app.command()
def warm(
    pipelines: Annotated[
        list[str] | None,
        typer.Argument(help="Pipelines; all that come with vbflows.", metavar="[PIPELINE]..."),
    ] = None,
) -> None:
    """Compile what the first run on a new machine would wait for."""
    names = pipelines or ["keywords", "bags", "variants", "features", "experts"]
    for name in names:
        known(name)
    from flows.warm import warmed

    for name, seconds in warmed(names):
        line(f"{name}: {seconds:.0f} s")


@app.command()
def certs(
    folder: Annotated[
        str, typer.Argument(help="Local folder for the certificates.", metavar="FOLDER")
    ],
    host: Annotated[
        list[str] | None,
        typer.Option(help="Name or address of a machine; may be repeated.", metavar="NAME"),
    ] = None,
    days: Annotated[
        int, typer.Option(min=1, max=3650, help="How long they are valid.", metavar="N")
    ] = 365,
) -> None:
    """Make a development CA and certificates for a Dask cluster over TLS."""
    from flows.engine.certs import make_certificates

    for path in make_certificates(folder, host or (), days):
        line(path)


for _name in PIPELINES:
    _add_pipeline(_name)
