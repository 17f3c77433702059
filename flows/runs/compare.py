"""Two runs compared: settings, data, results, fit and predictions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from flows.catalogue import PIPELINES
from flows.data import storage
from flows.data.runs import RunPaths, RunRecord, fit_in_words, open_run
from flows.faults import InputError
from flows.report.labels import AGAINST
from flows.runs.listing import plain
from flows.runs.predictions import MOST_ROWS, Moved, compare_predictions
from flows.runs.resume import NON_SEMANTIC
from vbmodels.core.protocol import DRAWN

_MOST = 200  # characters of a value that are shown
HEADINGS = {
    "answer": "Answer",
    "settings": "Settings that differ",
    "data": "Data",
    "fit": "Fit",
    "versions": "Versions that differ",
    "results": "Results",
}
_CAUSES = 3  # that are named
_NO_MODEL = NON_SEMANTIC | {"tol", "seed"}  # settings under which bounds compare
_INTERVAL = re.compile(r"(-?[\d.]+) to (-?[\d.]+)")  # at the beginning of a tile's note


@dataclass(frozen=True)
class Comparison:
    """Two finished runs, and by part what both have under a name."""

    runs: tuple[RunPaths, RunPaths]
    records: tuple[RunRecord, RunRecord]
    parts: Mapping[str, Mapping[str, Mapping[str, Any]]]
    predictions: Sequence[Moved]

    def as_json(self) -> dict[str, Any]:
        """Return all as plain values."""
        first, second = (paths.run_id for paths in self.runs)
        predictions = [one.as_json() for one in self.predictions]
        head = {"headline": headline(self), "first": first, "second": second}
        return {**head, **self.parts, "predictions": predictions}


def compare(first: str, second: str) -> Comparison:
    """Compare two finished runs of one pipeline; raise `InputError` for two pipelines."""
    (here, one), (there, two) = open_run(first), open_run(second)
    if one.pipeline != two.pipeline:
        raise InputError.of(
            "compare", "two runs of one pipeline",
            f"a first run of {one.pipeline} and a second of {two.pipeline}",
        )  # fmt: skip
    parts = {
        "answer": _shared_baselines(_both(_answer(one), _answer(two)), AGAINST),
        "settings": _differing(one.settings, two.settings),
        "data": _both(_data(one, two), _data(two, one)),
        "results": _shared_baselines(_both(_flat(one.results), _flat(two.results)), "baselines: "),
        "fit": _fits(one, two),
        "versions": _differing(one.versions, two.versions),
    }
    return Comparison((here, there), (one, two), parts, compare_predictions(here, there))


def _answer(record: RunRecord) -> dict[str, str]:
    """Return the numbers at the head of a run's report."""
    return {tile["label"]: tile["value"] for tile in record.tiles}


def _shared_baselines(rows: dict[str, dict[str, Any]], begin: str) -> dict[str, dict[str, Any]]:
    """Leave out comparisons with a baseline that only one run has: they compare nothing here."""
    return {
        name: values
        for name, values in rows.items()
        if not name.startswith(begin) or None not in (values["first"], values["second"])
    }


def headline(found: Comparison) -> str:
    """Say what changed in the answer, and which settings, data or versions changed with it."""
    answer = [
        f"{name}: {shown(values['first'])} → {shown(values['second'])}"
        for name, values in found.parts["answer"].items()
        if differs(values)
    ]
    causes = _causes(found)
    unclear = _unclear(found)
    if unclear:
        text = f"No clear difference: {unclear}. {_differences(causes)}"
        return text + _changed(found)
    if not causes:
        why = "with the same settings, data and versions"
    elif answer and len(causes) == 1:  # where one alone differs, it is the cause
        why = f"because of {causes[0]}"
    else:
        why = f"with {'; '.join(causes)}"
    text = f"{answer[0]}, {why}." if answer else f"The same answer, {why}."
    text += _changed(found)
    return f"{text[0].upper()}{text[1:]}"


def _changed(found: Comparison) -> str:
    """Say how many rows of the first table changed: their selection where it has one."""
    for moved in found.predictions[:1]:
        of = f"of {moved.shared:,}"
        if moved.lost is None:
            return f" {moved.crossed:,} {of} probabilities in {moved.table}/ crossed 0.5."
        return (
            f" No longer selected: {moved.lost:,} {of} rows in {moved.table}/; newly selected: "
            f"{moved.gained:,}."
        )
    return ""


def _unclear(found: Comparison) -> str:
    """Return the first number that differs, with its intervals, where they overlap."""
    for name, values in found.parts["answer"].items():
        if differs(values):
            notes = [
                next((t["note"] for t in record.tiles if t["label"] == name), "")
                for record in found.records
            ]
            one, two = (_INTERVAL.match(note) for note in notes)
            if one is None or two is None:
                return ""
            low, high = max(float(one[1]), float(two[1])), min(float(one[2]), float(two[2]))
            if low > high:
                return ""
            return f"{name} {values['first']} ({one[0]}) → {values['second']} ({two[0]})"
    return ""


def _differences(causes: Sequence[str]) -> str:
    if not causes:
        return "The settings, data and versions are the same."
    return f"What differs: {'; '.join(causes)}."


def _causes(found: Comparison) -> list[str]:
    """Return the settings that differ, with both values, and whether data and versions do."""
    one, two = found.records
    causes = [
        f"{name}: {' → '.join(settings_in_words(found, name))}" for name in found.parts["settings"]
    ]
    if len(causes) > _CAUSES:
        causes[_CAUSES:] = [f"{len(causes) - _CAUSES} more settings"]
    if sorted(f.fingerprint for f in one.inputs) != sorted(f.fingerprint for f in two.inputs):
        if _extent(one) == _extent(two):
            causes.append("an input written again, as large and with as many rows")
        else:
            causes.append(f"other data: {one.rows_kept:,} → {two.rows_kept:,} rows")
    if one.fitted != two.fitted:
        causes.append(f"another fit: {one.fitted or 'its own'} → {two.fitted or 'its own'}")
    if one.since != two.since:
        causes.append(f"another start: {one.since or 'none'} → {two.since or 'none'}")
    if versions := found.parts["versions"]:
        causes.append(f"other versions of {', '.join(versions)}")
    return causes


def _extent(record: RunRecord) -> tuple[int, list[int]]:
    """Return the rows of a run and the sizes of its input files."""
    return record.rows_kept, sorted(one.size for one in record.inputs)


def settings_in_words(found: Comparison, name: str) -> tuple[str, str]:
    """Return a setting of both runs as a reader wants it, a default with its value if known."""
    values = found.parts["settings"][name]
    one, two = (
        shown(values[which]) if values[which] is not None else _default(record, name)
        for which, record in zip(("first", "second"), found.records, strict=True)
    )
    return one, two


def _default(record: RunRecord, name: str) -> str:
    """Say what an empty setting was; "default" alone where the data decide it."""
    kind = PIPELINES.get(record.pipeline)
    try:
        decided = {} if kind is None else kind.model_validate(record.settings).decided()
    except ValidationError:  # another version's settings
        decided = {}
    return f"default ({shown(decided[name])})" if name in decided else "default"


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


def _flat(results: Mapping[str, Any], of: str = "") -> dict[str, Any]:
    """Return the results by name, those within another by both names.

    >>> _flat({"a": 1, "b": {"c": 2}})
    {'a': 1, 'b: c': 2}
    """
    found: dict[str, Any] = {}
    for name, value in results.items():
        found |= _flat(value, f"{of}{name}: ") if isinstance(value, Mapping) else {of + name: value}
    return found


def _data(one: RunRecord, other: RunRecord) -> dict[str, Any]:
    """Return what a run read, and how many of its files the other one had as they are."""
    theirs = {(file.url, file.fingerprint) for file in other.inputs}
    shared = sum((file.url, file.fingerprint) in theirs for file in one.inputs)
    return {
        "source": storage.source_in_words(one.source),
        "files": len(one.inputs),
        "files that both read, unchanged": shared,
        "rows read": one.rows_read,
        "rows used": one.rows_kept,
        **{f"not used: {dropped.reason}": dropped.count for dropped in one.dropped},
    }


def _fits(one: RunRecord, two: RunRecord) -> dict[str, dict[str, Any]]:
    """Return how both fits ended; bounds only where data and all settings of the model agree."""
    found = _both(_fit(one), _fit(two))
    data = [sorted(f.fingerprint for f in record.inputs) for record in (one, two)]
    if data[0] != data[1] or set(_differing(one.settings, two.settings)) - _NO_MODEL:
        for name in {one.objective, two.objective}:
            del found[name]
    return found


def _fit(record: RunRecord) -> dict[str, Any]:
    return {
        "state": _state(record),
        record.objective: record.elbo,
        "sweeps": record.iterations,
        "partitions": record.partitions,
        "seconds": round(record.seconds, 2),
        "memory at most, MiB": round(record.peak_memory_bytes / 2**20),
        "warnings": len(record.warnings),
    }


def _state(record: RunRecord) -> str:
    if record.elbo is None:
        return fit_in_words(record)
    if record.objective in DRAWN:
        return "all draws made" if record.converged else "stopped before the last draw"
    return "converged" if record.converged else "NOT converged"


def shown(value: Any) -> str:
    """Return a value as a reader wants it, cut where it is long.

    >>> shown([0.123456789, 2]), shown([{}, {}]), shown(None)
    ('0.12346, 2', '2 entries', '-')
    """
    if value is None:
        return "-"
    if isinstance(value, list):
        nested = any(isinstance(one, (Mapping, list)) for one in value)
        text = f"{len(value)} entries" if nested else ", ".join(map(shown, value)) or "none"
    elif isinstance(value, Mapping):
        text = ", ".join(f"{name}={shown(one)}" for name, one in value.items()) or "none"
    else:
        text = f"{value:.5g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _MOST else f"{text[:_MOST]} ..."


def moved_in_words(one: Moved) -> str:
    """Say in a line how the probabilities of a table moved."""
    correlation = "" if one.correlation is None else f", correlation {one.correlation:.3f}"
    alone = one.only_first + one.only_second
    return (
        f"{one.table}: {one.shared:,} rows in both ({alone:,} in one alone); "
        f"{changes_in_words(one)}{correlation}; {one.moved:,} moved by more than 0.1, "
        f"{one.crossed:,} crossed 0.5{_of_the_first(one)}"
    )


def changes_in_words(one: Moved) -> str:
    """Say the mean change of a table's probabilities, and its mean size."""
    of = "" if one.free == one.shared else f" of the {one.free:,} that are no known keyphrases"
    return f"mean change{of} {one.mean_change:+.3g}, mean size of a change {one.mean_size:.3g}"


def _of_the_first(one: Moved) -> str:
    return f"; of the first {MOST_ROWS:,} rows of each run" if one.cut else ""
