"""The main job on real input that every machine has: the packages installed right here."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flows.data import storage
from flows.data.runs import open_run
from flows.keywords.metadata import installed_packages
from flows.keywords.settings import KeywordSettings
from flows.run.events import Listener
from flows.run.launch import launch
from flows.settings import ComputeSettings

KEYWORD_RATE, RATE_SD = 0.1, 0.4  # a guess for package descriptions, stated to the user
FDR = 0.3
SHOWN = 12
_WIDTH = 32
_LEVELS = "▁▂▃▄▅▆▇█"


def run_demo(target: str, console: Console, listener: Listener | None = None) -> list[str]:
    """Fit keywords of the installed packages, print a table of them; return closing lines."""
    began = time.perf_counter()
    target = storage.absolute(target)
    source = storage.join(target, "packages.parquet")
    documents = installed_packages()
    storage.write_table(source, documents)
    settings = KeywordSettings(
        keyword_rate=KEYWORD_RATE, keyword_rate_sd=RATE_SD, fdr=FDR, rows_per_partition=50
    )
    outcome = launch("keywords", source, target, settings, ComputeSettings(), listener=listener)
    place, record = open_run(target)
    parts = range(record.partitions)
    rows = [
        row for i in parts for row in storage.read_table(place.table("keywords", i)).to_pylist()
    ]
    console.print(_table(rows))
    trace = storage.read_table(place.file("trace.parquet"))["elbo"].to_pylist()
    known = sum(bool(keywords) for keywords in documents["keywords"].to_pylist())
    return [
        f"{documents.num_rows} installed packages, {known} with keywords by their authors; one "
        f"word in {1 / record.results['keyword_rate']:.0f} is taken to be a keyword, by a guess of "
        f"one in {round(1 / KEYWORD_RATE)} and by the labels",
        outcome["lines"][0],
        f"{record.objective} {trace[0]:,.1f} {_sparkline(trace)} {trace[-1]:,.1f} in "
        f"{record.iterations} sweeps",
        f"report {outcome['report']}",
        f"{time.perf_counter() - began:.1f} s",
    ]


def _table(rows: Sequence[dict[str, object]]) -> Table:
    """Show the documents with most keywords known and found."""
    documents: dict[str, list[dict[str, object]]] = {}
    for row in rows:
        documents.setdefault(str(row["doc_id"]), []).append(row)
    table = Table(box=None, pad_edge=False)
    for heading in ("document", "known keywords", "keywords found (probability)"):
        table.add_column(heading, overflow="fold", ratio=None if heading == "document" else 1)
    for doc_id in sorted(documents, key=lambda d: (-_interest(documents[d]), d))[:SHOWN]:
        words = sorted(documents[doc_id], key=lambda row: -float(str(row["probability"])))
        known = ", ".join(str(w["term"]) for w in words if w["observed"])
        found = ", ".join(
            f"{w['term']} {w['probability']:.2f}"
            for w in words
            if w["selected"] and not w["observed"]
        )
        table.add_row(Text(doc_id), Text(known), Text(found))
    return table


def _interest(words: Sequence[dict[str, object]]) -> int:
    known = sum(bool(w["observed"]) for w in words)
    found = sum(bool(w["selected"]) and not w["observed"] for w in words)
    return min(known, 6) * min(found, 6)


def _sparkline(trace: Sequence[float]) -> str:
    """Draw the bound in one line, on a log scale of what is still to rise."""
    shown = np.asarray(trace)[np.unique(np.linspace(0, len(trace) - 1, _WIDTH).astype(int))]
    left = np.log10(np.maximum(shown[-1] - shown, 1e-6))
    height = (left.max() - left) / max(float(np.ptp(left)), 1e-12)
    return "".join(_LEVELS[round(h * (len(_LEVELS) - 1))] for h in height.tolist())
