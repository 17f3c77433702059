"""The main job on real input that every machine has: the packages installed right here."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from flows.data import storage
from flows.data.runs import open_run
from flows.escape import escaped
from flows.keywords.metadata import installed_packages
from flows.keywords.settings import KeywordSettings
from flows.run import run
from flows.settings import ComputeSettings

KEYPHRASES, KEYPHRASES_SD = 8.0, 0.4  # a guess for a package, stated to the user
PER_DOCUMENT = 8
FALSE = 0.35  # most are right
SHOWN = 12


@dataclass(frozen=True)
class Demo:
    """What the demo shows: a table of keyphrases, and lines below it."""

    table: Table
    lines: tuple[str, ...]


BEGINS = (
    "Finding keyphrases in what the Python packages installed here say of themselves, given "
    "those that some authors list."
)


def run_demo(target: str) -> Demo:
    """Fit keyphrases of the installed packages; return what to show of them."""
    began = time.perf_counter()
    target = storage.absolute(target)
    source = storage.join(target, "packages.parquet")
    documents = installed_packages()
    storage.write_table(source, documents)
    settings = KeywordSettings(
        keyphrases=KEYPHRASES,
        rate_sd=KEYPHRASES_SD,
        select="fdr",
        fdr=FALSE,
        per_document=PER_DOCUMENT,
        rows_per_partition=50,
    )
    compute = ComputeSettings()
    outcome = run("keywords", source, target, settings, compute)
    place, record = open_run(target)
    parts = range(record.partitions)
    rows = [
        row for i in parts for row in storage.read_table(place.table("keywords", i)).to_pylist()
    ]
    known = sum(bool(keywords) for keywords in documents["keywords"].to_pylist())
    return Demo(
        _table(rows),
        (
            "",
            f"{documents.num_rows} packages, {known} with keywords by their authors. "
            f"{outcome['lines'][0]}",
            _rate(record.results),
            f"Done in {time.perf_counter() - began:.0f} s. In: {source}",
            f"Out: {place.table('keywords')}",
            f"Report: {outcome['report']}",
            "Next: vbflows keywords --help, for documents of your own.",
        ),
    )


def _rate(results: dict[str, Any]) -> str:
    """Say which share of the phrases are keyphrases, and from what that is estimated."""
    rate, sd = results["keyword_rate"], results["keyword_rate_log_sd"]
    names = {"given": f"a guess of {KEYPHRASES:g} a package", "labels": "the known ones"}
    sources = (names.get(name, name) for name in results["keyword_rate_sources"])
    return (
        f"{rate:.1%} of the candidate phrases are keyphrases ({rate / math.exp(sd):.1%} to "
        f"{min(rate * math.exp(sd), 1.0):.1%}), estimated from {' and '.join(sources)}."
    )


def _table(rows: Sequence[dict[str, object]]) -> Table:
    """Show the documents with most keywords known and found."""
    documents: dict[str, list[dict[str, object]]] = {}
    for row in rows:
        documents.setdefault(str(row["doc_id"]), []).append(row)
    table = Table(box=None, pad_edge=False)
    for heading in ("document", "known phrases", "phrases found (probability)"):
        table.add_column(heading, overflow="fold", ratio=None if heading == "document" else 1)
    for doc_id in sorted(documents, key=lambda d: (-_interest(documents[d]), d))[:SHOWN]:
        words = documents[doc_id]
        known = ", ".join(str(w["term"]) for w in words if w["observed"])
        found = ", ".join(f"{w['term']} {w['probability']:.2f}" for w in _distinct(words))
        table.add_row(*(Text(escaped(text)) for text in (doc_id, known, found)))
    return table


def _distinct(words: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Return the found phrases of a document, best first, but parts of others and the reverse."""
    ordered = sorted(words, key=lambda row: (not row["observed"], -float(str(row["probability"]))))
    taken: list[frozenset[str]] = []
    shown = []
    for row in ordered:
        stems = frozenset(str(row["stem"]).split())
        if not row["selected"] or any(stems <= other or other <= stems for other in taken):
            continue
        taken.append(stems)
        if not row["observed"]:
            shown.append(row)
    return shown


def _interest(words: Sequence[dict[str, object]]) -> int:
    known = sum(bool(w["observed"]) for w in words)
    found = len(_distinct(words))
    return min(known, 6) * min(found, 6)
