"""Commands to begin with: data to try, a file of settings, certificates, compiled code."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.catalogue import PIPELINES, known, pipeline_named
from flows.cli.app import app
from flows.cli.options import Pipeline, Target
from flows.cli.printing import line, listening, out
from flows.faults import Fault, InputError


@app.command()
def simulate(
    pipeline: Pipeline,
    target: Target,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.", metavar="N")] = 0,
    rows: Annotated[
        int, typer.Option(min=1, help="Rows (documents, bags, locations).", metavar="N")
    ] = 500,
) -> None:
    """Draw data from a model, with the truth beside it."""
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
    with listening(False) as shown:
        found = run_demo(target, shown)
    out().print(found.table)
    for text in found.lines:
        line(text)


@app.command()
def warm(
    pipelines: Annotated[
        list[str] | None,
        typer.Argument(help="Pipelines; all of them by default.", metavar="[PIPELINE]..."),
    ] = None,
) -> None:
    """Compile what the first run on a new machine would wait for."""
    names = pipelines or list(PIPELINES)
    for name in names:
        known(name)
    from flows.warm import warmed

    for name, seconds in warmed(names):
        line(f"{name}: {seconds:.0f} s")
