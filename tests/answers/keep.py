"""Run the small runs of a family and keep their records, with their answers as results.

``python -m tests.answers.keep FAMILY KIND ...``; without kinds, all of the family. A module
``FAMILY_runs.py`` has ``RUNS``, the command of each kind without its target, and ``write_sources``.
"""

import json
import sys
import tempfile
from contextlib import chdir
from importlib import import_module
from pathlib import Path

from flows.records.runs import open_run
from tests.answers.snapshots import HERE
from tests.flows.commands import succeed


def runs_of(family: str):
    """Return the module with a family's runs."""
    return import_module(f"tests.answers.{family[:-1]}_runs")


def command(family: str, name: str, folder: Path | None = None) -> list[str]:
    """Return the words of a run's command, in the folder of the sources or below another."""
    what, first, *rest = runs_of(family).RUNS[name]

    def place(file: str) -> str:
        return file if folder is None else str(folder / file)

    if what == "score":
        return [what, place(first), place(rest[0]), place(name)]
    return [what, place(first), place(name), *rest]


def keep(family: str, names: list[str]) -> None:
    """Run these kinds, or all, and keep their records without what names this machine."""
    with tempfile.TemporaryDirectory() as made, chdir(made):
        folder = Path(made).resolve()
        runs_of(family).write_sources(folder)
        for name in names or runs_of(family).RUNS:
            succeed(*command(family, name))
            _, record = open_run(name)
            fields = json.loads(record.model_dump_json().replace(f"{folder}/", ""))
            text = json.dumps(fields | {"versions": {"vbflows": "0"}}, ensure_ascii=False)
            HERE.joinpath(family, f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    keep(sys.argv[1], sys.argv[2:])
