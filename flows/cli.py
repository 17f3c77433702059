"""The command line: it parses, calls a pipeline, prints, and turns errors into exit codes."""

from __future__ import annotations

import _thread
import json
import os
import signal
import sys
import threading
import traceback
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any, NoReturn

import typer
from pydantic_core import to_json
from rich.console import Console
from rich.table import Table
from typer.core import TyperCommand

from flows import settings as settings_of
from flows.catalogue import PIPELINES, pipeline_named
from flows.data import storage
from flows.data.runs import open_run
from flows.faults import Fault, InputError, RunError
from flows.run.events import Listener
from flows.run.show import show_run
from flows.run.terminal import Bar, Lines
from vbmodels.core.protocol import NonFiniteBound

DONE, FAILED, WRONG_INPUT = 0, 1, 2
_INTERRUPTED = 130  # what Typer makes of Ctrl-C

app = typer.Typer(
    name="vbflows",
    help="Fit interpretable Bayesian models to partitioned data, and publish what they find.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
_out = Console(emoji=False)  # what is printed may hold names such as a:cat:b
_err = Console(stderr=True, emoji=False)


Source = Annotated[str, typer.Argument(help="Path, folder, glob or URL of the input.")]
Target = Annotated[str, typer.Argument(help="Folder or URL that the run is published to.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, no more.")]
Config = Annotated[
    str | None, typer.Option("--config", help="YAML or JSON file of settings.", metavar="FILE")
]
Assign = Annotated[
    list[str] | None, typer.Option("--set", help="One setting; may be repeated.", metavar="K=V")
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Local worker processes; none by default.")
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        help="What the input calls a column, such as text=Abstract or features='f*'; may be "
        "repeated.",
        metavar="OURS=YOURS",
    ),
]
Scheduler = Annotated[
    str | None, typer.Option("--scheduler", help="Address of a running Dask scheduler.")
]
MemoryLimit = Annotated[
    str | None, typer.Option("--memory-limit", help="Memory of one local worker, such as 4GiB.")
]
Record = Annotated[
    bool, typer.Option("--record/--no-record", help="Whether Prefect records the run.")
]


S3 = Annotated[
    list[str] | None,
    typer.Option(
        "--s3",
        help="How s3:// is reached, before the command; may be repeated: endpoint_url, ca_file, "
        "region, profile, anonymous, requester_pays, block.",
        metavar="K=V",
    ),
]


@app.callback()
def _reach(context: typer.Context, s3: S3 = None) -> None:
    if s3:
        from flows.run.prefect.access import reached

        context.with_resource(reached(settings_of.load(settings_of.S3Access, None, s3)))


def _settings_table(name: str) -> Table:
    table = Table(title=f"Settings of {name} (--set or --config)", title_justify="left", box=None)
    for heading in ("setting", "default", "range", "meaning"):
        table.add_column(heading, overflow="fold")
    for setting, bounds, default, meaning in settings_of.describe(PIPELINES[name]):
        table.add_row(setting, default, bounds, meaning)
    return table


class _PipelineCommand(TyperCommand):
    """A command whose help ends with its settings."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the usual help, then every setting with its default, range and meaning."""
        super().format_help(ctx, formatter)
        console = Console(width=min(_out.width, 120), no_color=True, highlight=False)
        with console.capture() as capture:
            console.print(_settings_table(str(ctx.info_name)))
        formatter.write("\n" + capture.get())


def _add_pipeline(name: str) -> None:
    @app.command(name=name, help=PIPELINES[name].question, cls=_PipelineCommand)
    def run(
        source: Source,
        target: Target,
        config: Config = None,
        assign: Assign = None,
        column: Columns = None,
        workers: Workers = None,
        scheduler: Scheduler = None,
        memory_limit: MemoryLimit = None,
        partitions: Annotated[int | None, typer.Option(help="Number of partitions.")] = None,
        seed: Annotated[int | None, typer.Option(help="Seed of everything random.")] = None,
        max_iter: Annotated[int | None, typer.Option(help="Most sweeps.")] = None,
        checkpoint_every: Annotated[
            int | None, typer.Option(help="Sweeps between two checkpoints.")
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
        compute = settings_of.compute_settings(workers, scheduler, memory_limit)
        from flows.run.launch import launch

        with _shown(json_output) as shown:
            outcome = launch(name, source, target, chosen, compute, resume, recorded, since, shown)
        _print_outcome(outcome, json_output)


@app.command()
def score(
    run: Annotated[str, typer.Argument(help="A finished run: TARGET or TARGET/runs/RUN_ID.")],
    source: Source,
    target: Target,
    workers: Workers = None,
    scheduler: Scheduler = None,
    memory_limit: MemoryLimit = None,
    recorded: Record = True,
    json_output: Json = False,
) -> None:
    """Apply a fitted posterior to new data, without fitting."""
    from flows.run.launch import launch_score

    compute = settings_of.compute_settings(workers, scheduler, memory_limit)
    with _shown(json_output) as shown:
        outcome = launch_score(run, source, target, compute, recorded, shown)
    _print_outcome(outcome, json_output)


@app.command()
def check(
    pipeline: Annotated[str, typer.Argument(help="Which pipeline the data are for.")],
    source: Source,
    config: Config = None,
    assign: Assign = None,
    column: Columns = None,
    json_output: Json = False,
) -> None:
    """Validate only, and list every fault found."""
    family = pipeline_named(pipeline)
    columns = settings_of.columns(column)
    chosen = settings_of.load(family.settings, config, assign or [], columns=columns)
    from flows.run.pipeline import check_source

    files, rows = check_source(family, source, chosen)
    if json_output:
        _print_json({"files": len(files), "rows": rows, "faults": []})
    else:
        _out.print(f"{rows:,} rows in {len(files)} files: nothing is wrong with them")


@app.command()
def count(
    source: Annotated[str, typer.Argument(help="Sample sheet: CSV of sample, replicate, path.")],
    target: Annotated[str, typer.Argument(help="Folder or URL for the Parquet counts.")],
    config: Config = None,
    assign: Assign = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    partitions: Annotated[int | None, typer.Option(help="Number of files.")] = None,
    json_output: Json = False,
) -> None:
    """Count the bases of BAM or CRAM files once, for the variants pipeline (its settings)."""
    family = pipeline_named("variants")
    chosen = settings_of.load(family.settings, config, assign or [], partitions=partitions)
    compute = settings_of.compute_settings(workers, scheduler)
    from flows.run.count import count as count_reads

    with _shown(json_output) as shown:
        outcome = count_reads(source, target, chosen, compute, shown)
    _print_outcome(outcome, json_output)


@app.command()
def serve(
    plan: Annotated[str, typer.Argument(help="YAML file of deployments; see deploy/README.md.")],
    port: Annotated[int, typer.Option(help="Port of Prefect's page, if one is started.")] = 4200,
) -> None:
    """Run pipelines on their schedules on this machine, with Prefect's page, until Ctrl-C."""
    from flows.run.prefect.serve import read_plan
    from flows.run.prefect.serve import serve as run_plan

    chosen = read_plan(plan)
    if not os.environ.get("PREFECT_API_URL"):
        _out.print(f"Prefect's page: http://127.0.0.1:{port}", highlight=False)
    run_plan(chosen, port)


@app.command()
def show(
    run: Annotated[str, typer.Argument(help="A finished run: TARGET or TARGET/runs/RUN_ID.")],
    open_report: Annotated[
        bool, typer.Option("--open", help="Open the HTML report in a browser.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Say what was fitted."""
    place, record = open_run(run)
    if json_output:
        _print_json(record.model_dump(mode="json"))
        return
    show_run(_out, place, record)
    if open_report:
        webbrowser.open(place.file("report.html"))


@app.command()
def simulate(
    pipeline: Annotated[str, typer.Argument(help="Which model to draw from.")],
    target: Target,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    rows: Annotated[int, typer.Option(min=1, help="Rows (documents, bags, locations).")] = 500,
    scenario: Annotated[
        str, typer.Option(help="variants: how the samples differ, null_oxo5 say; see its docs.")
    ] = "",
) -> None:
    """Draw data from a model, with the truth beside it."""
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
        _out.print(url, markup=False, highlight=False, soft_wrap=True)


@app.command()
def demo(
    target: Annotated[str, typer.Argument(help="Where the demo is published.")] = "vbflows-demo",
) -> None:
    """Find keywords of the Python packages installed in this very environment."""
    from flows.demo import run_demo

    with _shown(False) as shown:
        lines = run_demo(target, _out, shown)
    for line in lines:
        _out.print(line, markup=False, highlight=False, soft_wrap=True)


@app.command()
def certs(
    folder: Annotated[str, typer.Argument(help="Local folder for the certificates.")],
    host: Annotated[
        list[str] | None, typer.Option(help="Name or address of a machine; may be repeated.")
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=3650, help="How long they are valid.")] = 365,
) -> None:
    """Make a development CA and certificates for a Dask cluster over TLS."""
    from flows.engine.certs import make_certificates

    for path in make_certificates(folder, host or (), days):
        _out.print(path, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _shown(quiet: bool) -> Iterator[Listener]:
    """Show how a run goes in the way that fits where the output goes."""
    if quiet:
        yield Listener()
    elif _err.is_terminal:
        bar = Bar(_err)
        try:
            yield bar
        finally:
            bar.close()
    else:
        yield Lines(_err)


def _print_json(value: Any) -> None:
    """Print a value; JSON has no infinity and no NaN, so these are null."""
    plain = json.loads(to_json(value, inf_nan_mode="null"))
    sys.stdout.write(json.dumps(plain, sort_keys=True) + "\n")


def _print_outcome(outcome: dict[str, Any], json_output: bool) -> None:
    if json_output:
        _print_json(outcome)
        return
    for line in outcome["lines"]:
        _out.print(line, markup=False, highlight=False, soft_wrap=True)


for _name in PIPELINES:
    _add_pipeline(_name)


class _Stop:
    """How a command ends that did not do what it was asked for."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    def __call__(
        self, sentence: str, code: int, error: BaseException | None, faults: Sequence[Fault] = ()
    ) -> NoReturn:
        """Say why on stderr, and as one JSON object on stdout where that is asked for."""
        if error is not None and os.environ.get("VBFLOWS_DEBUG") == "1":
            traceback.print_exception(error)
        lines = (f"vbflows: {line}" for line in sentence.splitlines())
        _err.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)
        self.tell(sentence, code, faults)

    def tell(self, sentence: str, code: int, faults: Sequence[Fault] = ()) -> NoReturn:
        """Exit, after one JSON object on stdout where that is asked for."""
        if self._as_json:
            listed = [asdict(fault) for fault in faults]
            _print_json({"error": sentence, "exit": code, "faults": listed})
        sys.exit(code)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


@contextmanager
def _no_interrupt_lost() -> Iterator[None]:
    """Heed a Ctrl-C that met a callback, where nothing can be raised, a moment later.

    Python would print a traceback of it, and the run would go on.
    """
    before = sys.unraisablehook

    def again(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            # Not at once: that would meet this callback, and be lost again.
            threading.Timer(0.01, _thread.interrupt_main).start()
        else:
            before(unraisable)

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = before


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 the run failed, 2 input or settings are wrong."""
    signal.signal(signal.SIGTERM, _interrupt)
    stop = _Stop("--json" in (sys.argv[1:] if arguments is None else arguments))
    try:
        with _no_interrupt_lost():
            code = app(args=arguments, standalone_mode=False)
    except typer.TyperException as error:
        error.show()  # type: ignore[attr-defined]
        stop.tell(str(error), WRONG_INPUT)
    except InputError as error:
        stop(str(error), WRONG_INPUT, error, error.faults)
    except (RunError, NonFiniteBound) as error:
        stop(str(error), FAILED, error)
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except Exception as error:
        stop(
            f"this should not have happened: {type(error).__name__}: "
            f"{(str(error) or 'no message').splitlines()[0]}; VBFLOWS_DEBUG=1 shows where",
            FAILED,
            error,
        )
    if code == _INTERRUPTED:
        stop("interrupted before anything was computed", FAILED, None)
    sys.exit(code or DONE)
