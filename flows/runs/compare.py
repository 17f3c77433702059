"""Two runs side by side: settings, data, results and fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flows.data import storage
from flows.data.runs import RunRecord, fit_in_words, open_run
from flows.runs.listing import plain

_MOST = 200  # characters of a value that are shown


@dataclass(frozen=True)
class Line:
    """A thing that two runs have, and its two values."""

    name: str
    first: Any
    second: Any

    @property
    def differs(self) -> bool:
        """Whether the values are not the same."""
        return bool(plain(self.first) != plain(self.second))

    @property
    def change(self) -> float | None:
        """The difference of two numbers; truth values are none."""
        both = (self.first, self.second)
        if any(isinstance(value, bool) or not isinstance(value, int | float) for value in both):
            return None
        return float(self.second - self.first)


@dataclass(frozen=True)
class Comparison:
    """Two runs, and all that is compared of them, by part."""

    first: str
    second: str
    parts: Mapping[str, list[Line]]

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        parts = {
            part: {
                x.name: {"first": x.first, "second": x.second, "change": x.change} for x in lines
            }
            for part, lines in self.parts.items()
        }
        return {"first": self.first, "second": self.second, **parts}


def compare(first: str, second: str) -> Comparison:
    """Put two runs side by side.

    Raises
    ------
    InputError
        If one of them is no finished run.
    """
    (here, one), (there, two) = open_run(first), open_run(second)
    parts = {
        "settings": [line for line in _both(one.settings, two.settings) if line.differs],
        "data": list(_both(_data(one, two), _data(two, one))),
        "results": list(_both(_flat(one.results), _flat(two.results))),
        "fit": list(_both(_fit(one), _fit(two))),
        "versions": [line for line in _both(one.versions, two.versions) if line.differs],
    }
    return Comparison(here.run_id, there.run_id, parts)


def _flat(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results by name, those of each of several cases too."""
    found: dict[str, Any] = {}
    for name, value in results.items():
        if isinstance(value, Mapping) and all(isinstance(own, Mapping) for own in value.values()):
            found |= {f"{of}: {what}": v for of, own in value.items() for what, v in own.items()}
        else:
            found[name] = value
    return found


def _both(one: Mapping[str, Any], two: Mapping[str, Any]) -> Iterator[Line]:
    for name in dict.fromkeys((*one, *two)):
        yield Line(name, one.get(name), two.get(name))


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
