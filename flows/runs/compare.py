"""Two runs side by side: settings, data, results and fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flows.data import storage
from flows.data.runs import RunRecord, fit_in_words, open_run
from flows.runs.listing import plain

_MOST = 200  # characters of a value that are shown


def compare(first: str, second: str) -> dict[str, Any]:
    """Put two finished runs side by side: their ids, and by part what both have under a name."""
    (here, one), (there, two) = open_run(first), open_run(second)
    parts = {
        "settings": _differing(one.settings, two.settings),
        "data": _both(_data(one, two), _data(two, one)),
        "results": _both(_flat(one.results), _flat(two.results)),
        "fit": _both(_fit(one), _fit(two)),
        "versions": _differing(one.versions, two.versions),
    }
    return {"first": here.run_id, "second": there.run_id, **parts}


def _both(one: Mapping[str, Any], two: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    found = {}
    for name in dict.fromkeys((*one, *two)):
        first, second = one.get(name), two.get(name)
        numbers = all(type(value) in (int, float) for value in (first, second))
        change = float(second - first) if numbers else None  # type: ignore[operator]
        found[name] = {"first": first, "second": second, "change": change}
    return found


def _differing(one: Mapping[str, Any], two: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: values for name, values in _both(one, two).items() if differs(values)}


def differs(values: Mapping[str, Any]) -> bool:
    """Whether two runs do not have the same under a name."""
    return bool(plain(values["first"]) != plain(values["second"]))


def _flat(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results by name, those of each of several cases too."""
    found: dict[str, Any] = {}
    for name, value in results.items():
        if isinstance(value, Mapping) and all(isinstance(own, Mapping) for own in value.values()):
            found |= {f"{of}: {what}": v for of, own in value.items() for what, v in own.items()}
        else:
            found[name] = value
    return found


def _data(one: RunRecord, other: RunRecord) -> dict[str, Any]:
    """Return what a run read, and how many of its files the other one had as they are."""
    theirs = {(file.url, file.fingerprint) for file in other.inputs}
    shared = sum((file.url, file.fingerprint) in theirs for file in one.inputs)
    return {
        "pipeline": one.pipeline,
        "source": storage.source_in_words(one.source),
        "files": len(one.inputs),
        "files that both read, unchanged": shared,
        "rows read": one.rows_read,
        "rows used": one.rows_kept,
        **{f"not used: {dropped.reason}": dropped.count for dropped in one.dropped},
    }


def _fit(record: RunRecord) -> dict[str, Any]:
    return {
        "fit": fit_in_words(record),
        record.objective: record.elbo,
        "sweeps": record.iterations,
        "partitions": record.partitions,
        "seconds": round(record.seconds, 2),
        "memory at most, MiB": round(record.peak_memory_bytes / 2**20),
        "warnings": len(record.warnings),
    }


def shown(value: Any) -> str:
    """Return a value as a reader wants it, cut where it is long."""
    if value is None:
        return "-"
    text = f"{value:.5g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _MOST else f"{text[:_MOST]} ..."
