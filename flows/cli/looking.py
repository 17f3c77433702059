"""Commands that look at runs."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.cli.app import app
from flows.cli.options import Json, Run
from flows.cli.printing import line, out, print_json
from flows.faults import Fault, InputError


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
        str, typer.Option(help="Also write a page with both reports.", metavar="FILE")
    ] = "",
    json_output: Json = False,
) -> None:
    """Compare two runs: settings, data, results, fit."""
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
