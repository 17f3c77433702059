"""The commands. What computes is loaded by the command that needs it: help is there at once."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from functools import partial
from importlib import metadata
from typing import Annotated, Any

import typer

from flows import settings as settings_of
from flows.catalogue import PIPELINES, known, pipeline_named
from flows.cli.help import EVERY, Commands, ExampleCommand, PipelineCommand
from flows.cli.options import (
    S3,
    Assign,
    CheckpointEvery,
    Columns,
    Config,
    Encoding,
    Exclude,
    Include,
    Json,
    MaxIter,
    MemoryLimit,
    Partitions,
    Pipeline,
    Resume,
    Run,
    Scheduler,
    Seed,
    Since,
    Source,
    Strict,
    Target,
    Workers,
    argument,
    option,
)
from flows.cli.output import (
    CHECKING,
    err,
    followed,
    line,
    out,
    print_answer,
    print_csv,
    print_json,
    print_outcome,
)
from flows.escape import without_secrets
from flows.faults import InputError, refuse_missing

app = typer.Typer(
    name="vbflows",
    help="Fit interpretable Bayesian models to documents, sequencing reads, tables, surveys and "
    "bags (groups of rows with one label); each run is a folder of tables with probabilities and a "
    "report.",
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _reading(
    pipeline: str,
    column: list[str] | None,
    exclude: list[str] | None,
    include: list[str] | None,
    encoding: str | None,
    strict: bool,
) -> dict[str, Any]:
    """Return the settings of how the input is read; refuse those that a pipeline has not."""
    refused = {"exclude": exclude, "include": include}
    for name in [n for n in refused if refused[n] and n not in known(pipeline).model_fields]:
        found = "has no such option: it reads the columns that its help names, no others"
        raise InputError.of(f"--{name}", "", f"{pipeline} {found}", remedy="leave it out")
    if exclude and include:
        err().print("--exclude leaves columns out of those that --include names")
    return {
        "columns": settings_of.columns(column),
        "exclude": ",".join(exclude) if exclude else None,
        "include": ",".join(include) if include else None,
        "encoding": encoding,
        "strict": strict or None,
    }


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"vbflows {metadata.version('vbflows')}")
        raise typer.Exit


@app.callback()
def _reach(
    context: typer.Context,
    s3: S3 = None,
    version: Annotated[
        bool, option("--version", None, "Print the version.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    if s3:
        from flows.prefect import reached

        context.with_resource(reached(settings_of.load(settings_of.S3Access, None, s3)))


def _existing(source: list[str], resume: str | None = None) -> str | list[str]:
    """Return one source as the text that it is, several as a list; refuse what is not there.

    A run that is resumed by its id may be complete, and then needs its input no more.
    """
    if resume in (None, "latest", "auto"):
        refuse_missing(source)
    return source[0] if len(source) == 1 else source


def _runner(name: str) -> Callable[..., dict[str, Any]]:
    """Return what runs a pipeline or ``score``: as a flow where a Prefect server is configured."""
    from flows.prefect import names_server, require_server

    if names_server():
        # Prefect's log goes to the page of the run.
        os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
        try:
            require_server()
        except InputError as error:
            err().print(f"This run is not recorded: {error}")
        else:
            from flows.pipelines import flow_named

            return flow_named(name)
    from flows.run import run, score

    return score if name == "score" else partial(run, name)


def _help_all(context: typer.Context, wanted: bool) -> None:
    if wanted:
        context.meta[EVERY] = True
        typer.echo(context.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool,
    option(
        "--help-all",
        None,
        "Show all columns, settings and options, and exit.",
        is_eager=True,
        callback=_help_all,
    ),
]


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
        partitions: Partitions = None,
        seed: Seed = None,
        max_iter: MaxIter = None,
        checkpoint_every: CheckpointEvery = None,
        resume: Resume = None,
        since: Since = None,
        json_output: Json = False,
        _all: HelpAll = False,
    ) -> None:
        chosen = settings_of.load(
            known(name),
            config,
            assign or [],
            **_reading(name, column, exclude, include, encoding, strict),
            partitions=partitions,
            seed=seed,
            max_iter=max_iter,
            checkpoint_every=checkpoint_every,
        )
        compute = settings_of.compute_settings(workers, scheduler, memory_limit)
        request = (_existing(source, resume), target, chosen, compute, since, resume)
        with followed(json_output):
            outcome = _runner(name)(*request)
        print_outcome(outcome, json_output)


@app.command(cls=ExampleCommand)
def score(
    run: Run,
    source: Source,
    target: Target,
    workers: Workers = None,
    scheduler: Scheduler = None,
    memory_limit: MemoryLimit = None,
    json_output: Json = False,
) -> None:
    """Predict new documents, bags, rows or locations with a finished run, and write a report.

    The new data's columns are called as in the input of the fit.
    """
    sources = _existing(source)
    if os.path.isfile(run) and os.path.isfile(os.path.join(source[0], "latest.json")):
        raise InputError.of(
            "score",
            "the run first, then the input",
            f"{run}, a file, and the run second",
            remedy=shlex.join(["vbflows", "score", source[0], run, target]),
        )
    compute = settings_of.compute_settings(workers, scheduler, memory_limit)
    with followed(json_output):
        outcome = _runner("score")(run, sources, target, compute)
    print_outcome(outcome, json_output)


@app.command(cls=ExampleCommand)
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
        bool, option("--quick", None, "Read the files only: no columns, time and memory.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Say how each column is read and what is wrong, estimate time and memory; publish nothing."""
    reading = _reading(pipeline, column, exclude, include, encoding, strict)
    chosen = settings_of.load(known(pipeline), config, assign or [], **reading)
    sources = _existing(source)
    from flows.preview import estimate, in_lines

    with followed(json_output, CHECKING):
        preview = estimate(pipeline, sources, chosen, not quick)
    if json_output:
        print_json(preview.as_json())
        return
    for text in in_lines(preview, out().width if out().is_terminal else 0):
        line(text, wraps=True)
    options = {"--config": [config], "--set": assign, "--column": column, "--exclude": exclude}
    options |= {"--include": include, "--encoding": [encoding]}
    given_options = [w for name, vs in options.items() for v in vs or () if v for w in (name, v)]
    files = source if len(source) < 4 else ["SOURCE..."]
    words = ["vbflows", pipeline, *files, "TARGET", *given_options]
    if strict:
        words.append("--strict")
    line(f"next: {without_secrets(shlex.join(words))}")


@app.command(cls=ExampleCommand)
def show(
    run: Run,
    table: Annotated[str, argument("[TABLE]", "One of its tables, to print rows of.")] = "",
    rows: Annotated[
        int | None,
        option("--rows", "N", "Most rows of the table: by default 20, with --csv all.", min=1),
    ] = None,
    sort: Annotated[
        str,
        option(
            "--sort",
            "COLUMN",
            "Rows with the largest of a column first; -COLUMN: the smallest. By default of the "
            "probability, the ratio or the first feature.",
        ),
    ] = "",
    where: Annotated[
        list[str] | None,
        option(
            "--where",
            "COLUMN=VALUE",
            "Rows with that value, or COLUMN<VALUE, COLUMN>VALUE; may be repeated: all must hold.",
        ),
    ] = None,
    new: Annotated[
        bool, option("--new", None, "Of table keywords: phrases that the input did not list.")
    ] = False,
    selected: Annotated[
        bool,
        option("--selected", None, "Selected keyphrases, or called variants that pass filters."),
    ] = False,
    columns: Annotated[
        str,
        option(
            "--columns",
            "NAME,NAME,...",
            "The columns to print, in this order; list: all columns and what they mean.",
        ),
    ] = "",
    csv_output: Annotated[bool, option("--csv", None, "Print the rows as CSV.")] = False,
    report: Annotated[bool, option("--open", None, "Open the report in a browser.")] = False,
    json_output: Json = False,
) -> None:
    """Print what a run found, or rows of one of its tables."""
    from flows.cli.tables import open_report, print_columns, print_rows, show_tables
    from flows.read.rows import first_table, no_rows, rows_of, shown_of, values_of
    from flows.records.runs import open_run
    from flows.report.render import terminal

    paths, record = open_run(run)
    if report:
        open_report(paths.file("report.html"))
    of_rows: dict[str, object] = {
        "--rows": rows,
        "--where": where,
        "--new": new,
        "--selected": selected,
    }
    of_rows |= {"--sort": sort, "--columns": columns, "--csv": csv_output}
    options = [name for name, value in of_rows.items() if value]
    if csv_output and json_output:
        raise InputError.of("--csv", "one of --csv and --json", "both")
    if columns == "list":
        if options != ["--columns"]:
            expected = "no condition and no order, since it prints no rows"
            raise InputError.of("--columns list", expected, options[0])
        print_columns(paths, table, json_output)
        return
    table = table or (first_table(paths)[0] if options else "")
    if table:
        having = values_of(paths, table, new, selected)
        most = rows or (sys.maxsize if csv_output else 20)
        read, count = rows_of(paths, table, sort, most, columns, where or [], having)
        if csv_output:
            print_csv(read)
        elif json_output:
            shown = {"table": table, "rows": read.to_pylist(), "count": count}
            print_json({"run_id": record.run_id, **shown})
        elif not len(read):
            line(no_rows(paths, table, where or []))
        else:
            print_rows(read, count, columns, sort, new)
    elif json_output:
        print_json(record.model_dump(mode="json"))
    else:
        print_answer(
            terminal(shown_of(paths, record)) if record.pipeline in PIPELINES else record.headline
        )
        show_tables(out(), paths, run)


@app.command(cls=ExampleCommand)
def runs(
    target: Annotated[str, argument("TARGET", "Folder or URL that runs are published to.")],
    prune: Annotated[
        str,
        option(
            "--prune",
            "keep=N",
            "Remove all but the N newest finished runs; what others need stays.",
        ),
    ] = "",
    json_output: Json = False,
) -> None:
    """List the runs of a target and the settings that were changed, or remove old runs."""
    from flows.cli.tables import show_runs
    from flows.runs import listing

    if prune:
        removed = listing.prune(target, _kept(prune))
        if json_output:
            print_json({"target": target, "removed": removed})
            return
        for run_id in removed:
            line(f"removed {run_id}")
        line(f"{len(removed)} runs removed" if len(removed) != 1 else "1 run removed")
        return
    listed = listing.runs_of(target)
    if json_output:
        print_json(listing.as_json(target, listed))
    else:
        show_runs(out(), listed)


def _kept(prune: str) -> int:
    name, _, count = prune.partition("=")
    if name.strip() != "keep" or not count.strip().isdecimal() or int(count) < 1:
        raise InputError.of(
            "--prune", "keep=N with N at least 1", repr(prune), remedy="write --prune keep=10"
        )
    return int(count)


@app.command(cls=ExampleCommand)
def compare(
    first: Annotated[str, argument("FIRST", "The earlier run: TARGET/runs/RUN_ID, or a TARGET.")],
    second: Annotated[str, argument("SECOND", "The later run: TARGET or TARGET/runs/RUN_ID.")],
    report: Annotated[
        str, option("--report", "FILE", "Write a page too, such as compared.html.")
    ] = "",
    rows: Annotated[
        bool, option("--rows", None, "Print all rows that changed, with both probabilities.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Say what was changed between two runs, what that did to the answer, and which rows changed.

    A row changed if only one run selects it, or its probability crossed 0.5 or moved by more than
    0.1.
    """
    from flows.read import compare as comparing

    if report and not report.lower().endswith((".html", ".htm")):
        raise InputError.of("--report", "a file whose name ends in .html", repr(report))
    comparison = comparing.compare(first, second, report)
    if report:
        report = comparing.write_page(comparison, report)
    if json_output:
        print_json(comparison.as_json(rows) | ({"report": report} if report else {}))
        return
    print_answer(comparing.terminal(comparison, _ALL_ROWS if rows else _FEW_ROWS))
    if report:
        line(f"report {report}")


_FEW_ROWS, _ALL_ROWS = 5, 1000  # of a table that changed


@app.command(cls=ExampleCommand)
def simulate(
    pipeline: Pipeline,
    target: Annotated[str, argument("TARGET", "Folder or URL for the data.")],
    seed: Annotated[int, option("--seed", "N", "Seed of the random numbers.", min=0)] = 0,
    rows: Annotated[int, option("--rows", "N", "Rows (documents, bags, locations).", min=1)] = 500,
) -> None:
    """Generate synthetic data and its ground truth.

    The truth is in TARGET/_truth/ (experts, features, variants), or in columns of the data that no
    model sees (gold of keywords, primary of bags).
    """
    from flows import storage

    family = pipeline_named(pipeline)
    storage.check_writable(storage.absolute(target))
    for url in family.simulate(target, rows, seed):
        line(url)


@app.command(cls=ExampleCommand)
def init(
    pipeline: Pipeline,
    file: Annotated[str, argument("[FILE]", "The file; PIPELINE.yaml if none is named.")] = "",
) -> None:
    """Write a file of all settings of a pipeline, each with its meaning, for --config."""
    from flows.settings.load import commented

    settings = known(pipeline)
    file = file or f"{pipeline}.yaml"
    try:
        with open(file, "x", encoding="utf-8") as written:
            written.write(commented(pipeline, settings))
    except OSError as error:
        there = isinstance(error, FileExistsError)
        found = "it is there already" if there else (error.strerror or str(error)).lower()
        raise InputError.of(
            file, "a new file", found, remedy=f"name another: vbflows init {pipeline} FILE"
        ) from error
    line(f"{file}: change what you need, then vbflows {pipeline} SOURCE TARGET --config {file}")


@app.command(cls=ExampleCommand)
def demo(
    target: Annotated[
        str, argument("[TARGET]", "Folder for the results; vbflows-demo if none is named.")
    ] = "vbflows-demo",
) -> None:
    """Find keyphrases in the descriptions of the installed Python packages."""
    from flows.cli.demo import BEGINS, run_demo

    line(BEGINS)
    with followed(False):
        outcome, read = run_demo(target)
    line(read)
    print_outcome(outcome, False)
    line("next: vbflows keywords --help, for documents of your own")


@app.command(name="compile", cls=ExampleCommand)
def compile_kernels(
    pipelines: Annotated[
        list[str] | None, argument("[PIPELINE]", "Pipelines; all of them by default.")
    ] = None,
) -> None:
    """Precompile the numerical kernels."""
    names = pipelines or list(PIPELINES)
    for name in names:
        known(name)
    from flows.cli.compile import compiled

    for name, seconds in compiled(names):
        line(f"{name}: {seconds:.0f} s")


@app.command(cls=ExampleCommand)
def count(
    source: Annotated[str, argument("SHEET", "Sample sheet: CSV of sample, replicate, path.")],
    target: Annotated[str, argument("TARGET", "Folder or URL for the Parquet counts.")],
    config: Config = None,
    assign: Assign = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    partitions: Partitions = None,
    json_output: Json = False,
) -> None:
    """Count the bases of BAM or CRAM files once, for several runs of vbflows variants."""
    chosen: Any = settings_of.load(known("variants"), config, assign or [], partitions=partitions)
    compute = settings_of.compute_settings(workers, scheduler)
    from flows.count import count as count_reads

    with followed(json_output):
        outcome = count_reads(source, target, chosen, compute)
    print_outcome(outcome, json_output)


@app.command(cls=ExampleCommand)
def serve(
    plan: Annotated[
        str, argument("PLAN", "YAML file of deployments; in the documentation: howto/nightly.")
    ],
) -> None:
    """Run pipelines on their schedules on this machine, by the Prefect server, until Ctrl-C."""
    from flows.prefect import serve as serving

    serving.serve(serving.read_plan(plan), line)


for _pipeline in PIPELINES:
    _add_pipeline(_pipeline)
