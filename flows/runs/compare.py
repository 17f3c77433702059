"""Two runs compared: settings, data, results, fit and predictions."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from flows.catalogue import PIPELINES
from flows.data import storage
from flows.data.runs import NO_FIT, RunPaths, RunRecord, open_run
from flows.faults import InputError
from flows.report.labels import AGAINST, label
from flows.runs.changed_rows import counted, rows_in_words
from flows.runs.listing import plain
from flows.runs.paired import compare_held_out
from flows.runs.predictions import (
    Limits,
    Moved,
    compare_predictions,
)
from flows.runs.resume import NON_SEMANTIC
from flows.settings.load import describe
from vbmodels.core.protocol import DRAWN

_MOST = 200  # characters of a value that are shown
_CHANGES = 3  # that the headline names
_NO_MODEL = NON_SEMANTIC | {"tol", "seed"}  # settings under which bounds compare
_NUMBER = r"([-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]\d+)?)(?:\s?%)?"
_INTERVAL = re.compile(rf"{_NUMBER} to {_NUMBER}")  # at the beginning of a tile's note
DEFAULT = "default"
_OWN, _VERSION, _COLUMN, _UNNAMED = "its own", "version of ", "column ", "not named"
_EARLIER = ("fit", "start")  # what a run may have from an earlier one
_MOST_NAMED = 40  # characters of a value in the headline
UNCLEAR = "no clear difference (the intervals overlap)"
CLEAR = "a clear difference (the intervals do not overlap)"
_LOWER = ("log loss", "RMSE")  # what is better where it is lower
_LIMITS = {
    "least_probability": "Follows from the setting: what is less probable is not selected.",
    "most_per_document": "Follows from the setting: beyond it a document gets no new ones.",
}
LIKELY = "likely new "
"""How the label of the number of rows that are more probable than not begins."""
_ASSUMED = " assumed "  # in the label of a number that follows from a setting


@dataclass(frozen=True)
class Row:
    """What differs between two runs under a name: both values, and what to think of that."""

    name: str
    first: str
    second: str
    note: str = ""


@dataclass(frozen=True)
class Comparison:
    """Two finished runs, and by part what both have under a name."""

    runs: tuple[RunPaths, RunPaths]
    records: tuple[RunRecord, RunRecord]
    parts: Mapping[str, Mapping[str, Mapping[str, Any]]]
    predictions: Sequence[Moved]

    def as_json(self, rows: bool = False) -> dict[str, Any]:
        """Return all as plain values, with the rows that changed on request."""
        first, second = (paths.run_id for paths in self.runs)
        predictions = [one.as_json(rows) for one in self.predictions]
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
        "answer": _answer((here, there), (one, two)),
        "settings": _differing(one.settings, two.settings),
        "data": _both(_data(one, two), _data(two, one)),
        "results": _shared_baselines(_both(_flat(one.results), _flat(two.results)), "baselines: "),
        "fit": _fits(one, two),
        "versions": _differing(one.versions, two.versions),
    }
    limits = Limits.of(one.results), Limits.of(two.results)
    return Comparison((here, there), (one, two), parts, compare_predictions(here, there, limits))


def _answer(
    runs: tuple[RunPaths, RunPaths], records: tuple[RunRecord, RunRecord]
) -> dict[str, dict[str, Any]]:
    """Return the numbers at the head of both reports, and whether they differ clearly.

    Where both runs held out the same rows that is decided by pairs of rows, by one number alone.
    """
    heads = [{tile["label"]: tile["value"] for tile in record.tiles} for record in records]
    found = _shared_baselines(_both(*heads), AGAINST)
    paired = compare_held_out(runs, records)
    for name, values in found.items():
        ends = [_interval(record, name) for record in records]
        values["intervals"] = [text for text, _, _ in ends]
        values["clear"] = values["better"] = None
        (text, low, high), (other, least, most) = ends
        if paired is not None:
            if name == paired.name:
                values |= {
                    "first": f"{paired.first:.3f}",
                    "second": f"{paired.second:.3f}",
                    "clear": paired.clear,
                    "better": paired.better,
                    "paired": paired.in_words(),
                }
            continue
        if text and other:
            values["clear"] = max(low, least) > min(high, most)
        if values["clear"]:
            values["better"] = "second" if (least > high) != (name in _LOWER) else "first"
    return found


def _interval(record: RunRecord, name: str) -> tuple[str, float, float]:
    """Return the interval of a number at the head of a report, as shown; empty for none."""
    note = next((tile["note"] for tile in record.tiles if tile["label"] == name), "")
    found = _INTERVAL.match(note)
    if found is None:
        return "", 0.0, 0.0
    low, high = (float(end.replace(",", "")) for end in found.groups())
    return found[0], low, high


def _shared_baselines(rows: dict[str, dict[str, Any]], begin: str) -> dict[str, dict[str, Any]]:
    """Leave out comparisons with a baseline that only one run has: they compare nothing here."""
    return {
        name: values
        for name, values in rows.items()
        if not name.startswith(begin) or None not in (values["first"], values["second"])
    }


def command(found: Comparison) -> str:
    """Return the command that compares two runs again."""
    return " ".join(("vbflows compare", *(shlex.quote(paths.root) for paths in found.runs)))


def headline(found: Comparison) -> str:
    """Say what differs, then what it did to the answer and to the rows."""
    what = [
        _change_in_words(row, row.name in found.parts["settings"], unit(found, row.name))
        for row in changes(found)
    ]
    if len(what) > _CHANGES:
        what[_CHANGES:] = [f"{len(what) - _CHANGES} more changes"]
    said = f"{', '.join(what[:-1])} and {what[-1]}" if len(what) > 1 else "".join(what)
    text = f"With {said or 'the same settings, input and versions'}: "
    rows = [rows_in_words(one) for one in found.predictions[:1]]
    if not (found.predictions and (found.predictions[0].lost or found.predictions[0].gained)):
        rows.insert(0, _effect(found))
    return f"{text}{'; '.join(rows)}.{preference(found)}"


def preference(found: Comparison) -> str:
    """Say which run the numbers of the answer prefer, as a sentence after another; "" for none."""
    differ = {name: v for name, v in found.parts["answer"].items() if differs(v)}
    better = {values["better"] for values in differ.values()} - {None}
    if len(better) == 1:
        names = " and ".join(name for name, values in differ.items() if values["better"])
        return f" Prefer the {better.pop()} run: clearly better by {names}."
    if any(values["clear"] is False for values in differ.values()):
        return " Neither run is shown to be better."
    return "" if differ or any(one.count for one in found.predictions) else " Either run will do."


def unit(found: Comparison, name: str) -> str:
    """Return what a setting is per, in brackets after a space; "" for what is no such setting."""
    kind = PIPELINES.get(found.records[0].pipeline)
    return f" ({kind.units[name]})" if kind is not None and name in kind.units else ""


def _change_in_words(row: Row, is_setting: bool, unit: str) -> str:
    """Say what the second run has in place of what the first has."""
    if max(len(row.first), len(row.second)) > _MOST_NAMED:
        return f"another {row.name}"
    if row.name == "input":
        if row.first == row.second:
            return f"an input that was written again or changed ({row.second})"
        return f"another input ({row.second}, instead of {row.first})"
    if row.name in _EARLIER:
        second, first = (
            f"{run} {row.name}" if run == _OWN else f"the {row.name} of {run}"
            for run in (row.second, row.first)
        )
        return f"{second} instead of {first}"
    if row.name.startswith(_COLUMN):
        joint = " " if row.second == _UNNAMED else "="
        return f"{row.name}{joint}{row.second} (was {row.first})"
    first = f"the {row.first}" if row.first.startswith(DEFAULT) else row.first
    if row.second.startswith(DEFAULT):
        return f"the {row.second} for {row.name} instead of {first}"
    joint = "=" if is_setting else " "
    return f"{row.name.removeprefix(_VERSION)}{joint}{row.second}{unit} instead of {first}"


def _effect(found: Comparison) -> str:
    """Say what became of the first number of the answer that differs, a clear one if any is."""
    answer = found.parts["answer"]
    differ = [(name, values) for name, values in answer.items() if differs(values)]
    differ.sort(key=lambda one: ("paired" not in one[1], one[1]["clear"] is not True))
    if not differ:
        named = [] if any(one.lost is not None for one in found.predictions) else [*answer.items()]
        return "the same answer" + "".join(
            f" ({counted(shown(values['first']), name)})" for name, values in named[:1]
        )
    name, values = differ[0]
    first, second = _with_intervals(values)
    for which, value, other in (("first", first, "second"), ("second", second, "first")):
        if values[other] is None:
            return f"{name} {value} in the {which} run alone"
    if "paired" in values:
        kind = "no clear difference in " if values["clear"] is False else ""
        return f"{kind}{name}, {second} instead of {first}: {values['paired']}"
    if values["clear"] is False:
        return f"no clear difference in {name}, {second} instead of {first}"
    return _in_place_of(name, first, second)


def _in_place_of(name: str, first: str, second: str) -> str:
    """Say what the second run has in place of the first: a number of things, or one number."""
    if _WHOLE.fullmatch(first) and _WHOLE.fullmatch(second):
        return f"{counted(second, name)} instead of {first}"
    return f"{name} {second} instead of {first}"


_WHOLE = re.compile(r"[\d,]+")


def _with_intervals(values: Mapping[str, Any]) -> tuple[str, str]:
    """Return both values of a number, each with its interval if both have one."""
    first, second = (shown(values[which]) for which in ("first", "second"))
    if values["clear"] is None or "paired" in values:
        return first, second
    one, two = values["intervals"]
    return f"{first} ({one})", f"{second} ({two})"


def changes(found: Comparison) -> list[Row]:
    """Return what differs between two runs before their fits: settings, input, start, versions.

    Settings that the user gave come before those that they or the input decide, and the seed last.
    """
    one, two = found.records
    kind = PIPELINES.get(one.pipeline)
    meanings = {} if kind is None else {row[0]: _begin(row[3]) for row in describe(kind)}
    given = one.changed | two.changed
    filled = sorted(found.parts["settings"], key=lambda name: (name not in given, name == "seed"))
    named = [record.settings.get("columns") or {} for record in found.records]
    rows = [
        Row(f"{_COLUMN}{name}", *(shown(of.get(name, _UNNAMED)) for of in named))
        for name in {**named[0], **named[1]}
        if named[0].get(name) != named[1].get(name)
    ]
    rows += [
        Row(name, *_settings_in_words(found, name), meanings.get(name, ""))
        for name in filled
        if name != "columns"
    ]
    if (shared := same_files(found)) is not None:
        count = len(two.inputs)
        note = f"{shared:,} of {count:,} files in the second run are as the first run read them"
        if _extent(one) == _extent(two):
            note += "; the others have the same size and number of rows"
        rows.append(Row("input", _input(one), _input(two), f"{note}."))
    for name, first, second, meaning in (
        ("fit", one.fitted, two.fitted, "The run whose fit is applied."),
        ("start", one.since, two.since, "The run whose posterior the fit starts from (--since)."),
    ):
        if first != second:
            rows.append(Row(name, first or _OWN, second or _OWN, meaning))
    for name, values in found.parts["versions"].items():
        rows.append(Row(f"{_VERSION}{name}", shown(values["first"]), shown(values["second"])))
    return rows


def _begin(meaning: str) -> str:
    """Return the first sentence of a setting's meaning, or what is before its first semicolon.

    >>> _begin("Words that are left out; or a file of them. Empty: none.")
    'Words that are left out.'
    """
    return f"{re.split('[.;] ', meaning)[0].rstrip('.')}."


def same_files(found: Comparison) -> int | None:
    """Return how many files both runs read; None where all are the same."""
    prints = [sorted(file.fingerprint for file in record.inputs) for record in found.records]
    if prints[0] == prints[1]:
        return None
    return len(set(prints[0]) & set(prints[1]))


def _input(record: RunRecord) -> str:
    """Say what a run read."""
    files = "1 file" if len(record.inputs) == 1 else f"{len(record.inputs):,} files"
    used = f"{record.rows_kept:,}"
    if record.rows_kept != record.rows_read:
        used += f" of {record.rows_read:,}"
    return f"{files}, {used} rows"


def _extent(record: RunRecord) -> tuple[int, list[int]]:
    """Return the rows of a run and the sizes of its input files."""
    return record.rows_kept, sorted(one.size for one in record.inputs)


def effects(found: Comparison) -> list[Row]:
    """Return the numbers of the answer that differ, and whether they do clearly; how fits ended."""
    rows = []
    for name, values in found.parts["answer"].items():
        if not differs(values) or _ASSUMED in name:
            continue
        note = " → ".join(values["intervals"])
        note = {None: "", True: f"{note}: {CLEAR}", False: f"{note}: {UNCLEAR}"}[values["clear"]]
        first, second = shown(values["first"]), shown(values["second"])
        note = values.get("paired", note)
        if name.startswith("expected "):
            note = "each run's own estimate, which follows from its settings: not comparable"
        rows.append(Row(name, first, second, note))
    state = found.parts["fit"]["state"]
    return rows + [Row("fit", state["first"], state["second"])] * differs(state)


def implied(found: Comparison) -> list[Row]:
    """Return the numbers that follow from a setting and differ, with what they follow from."""
    notes = {tile["label"]: tile["note"] for tile in found.records[1].tiles}
    rows = [
        Row(name, shown(values["first"]), shown(values["second"]), notes.get(name, ""))
        for name, values in found.parts["answer"].items()
        if differs(values) and _ASSUMED in name
    ]
    for name, meaning in _LIMITS.items():
        values = found.parts["results"].get(name)
        if values and None not in (values["first"], values["second"]) and differs(values):
            first, second = (f"{values[which]:.3g}" for which in ("first", "second"))
            rows.append(Row(label(name), first, second, meaning))
    return rows


def same(found: Comparison) -> list[tuple[str, str]]:
    """Return what does not differ, each with what it is in both runs."""
    one = found.records[0]
    settings = len(one.settings) - len(found.parts["settings"])
    rows = [(f"{'the other ' if found.parts['settings'] else 'all '}{settings} settings", "")]
    if same_files(found) is None:
        rows.append(("the input", _input(one)))
    if not found.parts["versions"]:
        rows.append(("all versions", ""))
    rows += [
        (name, shown(values["first"]))
        for name, values in found.parts["answer"].items()
        if not differs(values)
    ]
    state = found.parts["fit"]["state"]
    return rows + [("the fit", str(state["first"]))] * (not differs(state))


def new_warnings(found: Comparison) -> list[str]:
    """Return the warnings that one run alone has."""
    one, two = (record.warnings for record in found.records)
    return [
        f"Warning of the {which} run alone: {text}"
        for which, own, other in (("first", one, two), ("second", two, one))
        for text in own
        if text not in other
    ]


def _settings_in_words(found: Comparison, name: str) -> tuple[str, str]:
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
    return f"{DEFAULT} ({shown(decided[name])})" if name in decided else DEFAULT


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
        "unchanged_files": shared,
        "rows_read": one.rows_read,
        "rows_kept": one.rows_kept,
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
        "memory_mib": round(record.peak_memory_bytes / 2**20),
        "warnings": len(record.warnings),
    }


def _state(record: RunRecord) -> str:
    if record.elbo is None:
        return NO_FIT
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
