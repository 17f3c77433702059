"""Two runs side by side: settings, data, results, and their reports on one page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flows.data import storage
from flows.data.runs import RunRecord, fit_in_words, open_run
from flows.report.page import rendered
from flows.run.runs import plain

_MOST = 200  # characters of a value that are shown

SETTINGS, DATA, RESULTS, FIT = "settings", "data", "results", "fit"
_HEADINGS = {SETTINGS: "Settings that differ", DATA: "Data", RESULTS: "Results", FIT: "Fit"}


@dataclass(frozen=True)
class Line:
    """A thing that two runs have: the values, and by how much the second is larger."""

    part: str
    name: str
    first: Any
    second: Any
    change: float | None = None

    @property
    def differs(self) -> bool:
        """Whether the values are not the same."""
        return bool(plain(self.first) != plain(self.second))


@dataclass(frozen=True)
class Comparison:
    """Two runs, and all that is compared of them."""

    first: str
    second: str
    reports: tuple[str, str]
    lines: tuple[Line, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        parts: dict[str, Any] = {part: {} for part in _HEADINGS}
        for line in self.lines:
            values = {"first": line.first, "second": line.second, "change": line.change}
            parts[line.part][line.name] = values
        return {"first": self.first, "second": self.second, **parts}

    def parts(self) -> Iterator[tuple[str, list[Line]]]:
        """Yield the heading of each part with its lines."""
        for part, heading in _HEADINGS.items():
            yield heading, [line for line in self.lines if line.part == part]


def compare(first: str, second: str) -> Comparison:
    """Put two runs side by side.

    Raises
    ------
    InputError
        If one of them is no finished run.
    """
    (here, one), (there, two) = open_run(first), open_run(second)
    settings = _both(SETTINGS, one.settings, two.settings)
    lines = [
        *(line for line in settings if line.differs),
        *_both(DATA, _data(one, two), _data(two, one)),
        *compared_results(one.results, two.results),
        *_both(FIT, _fit(one), _fit(two)),
        *(line for line in _both(FIT, _versions(one), _versions(two)) if line.differs),
    ]
    reports = here.file("report.html"), there.file("report.html")
    return Comparison(here.run_id, there.run_id, reports, tuple(lines))


def compared_results(one: Mapping[str, Any], two: Mapping[str, Any]) -> list[Line]:
    """Put the results of two runs side by side, and those of each of several cases."""
    return list(_both(RESULTS, _flat(one), _flat(two)))


def _flat(results: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in results.items():
        if isinstance(value, Mapping) and all(isinstance(own, Mapping) for own in value.values()):
            found |= {f"{of}: {what}": v for of, own in value.items() for what, v in own.items()}
        else:
            found[name] = value
    return found


def _both(part: str, one: Mapping[str, Any], two: Mapping[str, Any]) -> Iterator[Line]:
    for name in dict.fromkeys((*one, *two)):
        first, second = one.get(name), two.get(name)
        yield Line(part, name, first, second, _change(first, second))


def _change(first: object, second: object) -> float | None:
    """Return the difference of two numbers; truth values are none."""
    if isinstance(first, bool) or isinstance(second, bool):
        return None
    if isinstance(first, int | float) and isinstance(second, int | float):
        return second - first
    return None


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


def _versions(record: RunRecord) -> dict[str, str]:
    return {f"version of {name}": version for name, version in record.versions.items()}


def shown(value: Any) -> str:
    """Return a value as a reader wants it, cut where it is long."""
    if value is None:
        return "-"
    text = f"{value:.5g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _MOST else f"{text[:_MOST]} ..."


def page(found: Comparison) -> str:
    """Return one self-contained page: the tables, and below them both reports side by side."""
    reports = [
        (name, storage.read_bytes(url).decode())
        for name, url in zip((found.first, found.second), found.reports, strict=True)
        if storage.exists(url)
    ]
    title = f"{found.first} and {found.second}"
    return rendered("compare.html", title=title, parts=found.parts(), reports=reports, shown=shown)
