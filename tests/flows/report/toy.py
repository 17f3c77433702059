"""An answer whose page has one of each part, with templates of its own in tests/templates/toy."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from flows.records.runs import RunRecord, versions
from flows.report import render
from flows.report.commands import Commands

NOTED = [
    ("b", 1234.5678, "+0.2 ± 0.1"), ("a", 0.000123456, 'says "no", twice'),
    ("d", -5.0, "-0.67 ± 0.03"), ("c", 99999.5, "-1,204"),
    *((f"n{i}", float(i), "rest") for i in range(6)),
]  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """Rows of a name, a value and a note; ``total`` of them in all."""

    rows: Sequence[tuple[str, float, str]]
    total: int
    charts: bool = True


def page(rows=NOTED, total=0, charts=True, record=None, **shown):
    """Return the page of a run that found some rows, with other fields of its record."""
    now = datetime(2026, 1, 2, tzinfo=UTC)
    fields = {
        "run_id": "r1", "pipeline": "toy", "source": "s", "settings": {"tol": 1e-6},
        "versions": versions(), "started": now, "finished": now, "seconds": 1.0,
        "peak_memory_bytes": 1, "inputs": [], "rows_read": 12, "rows_kept": 10,
        "dropped": [], "partitions": 1, "iterations": 3, "converged": True, "elbo": 1.0,
        "warnings": [],
    }  # fmt: skip
    made = RunRecord.model_validate(fields | (record or {}))
    answer = Answer(rows, total or len(rows), charts)
    run = Commands("toy", ["s"], "my out", "my out/runs/r1", made.changed)
    made.headline = render.headline("toy", answer, run)
    return render.page(render.Shown("toy", answer, made, run, "report.html", **shown))
