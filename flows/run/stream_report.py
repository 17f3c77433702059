"""What a run that learns from new files alone says of them."""

from __future__ import annotations

from flows.report import plots
from flows.report.page import Section
from flows.run.stream import Stream
from vbmodels.core.drift import Drift

_SHOWN = 30  # nights


def warnings(stream: Stream) -> list[str]:
    """Say so where the new rows are unlike those before them."""
    found = stream.found
    if found is None or not found.alarm:
        return []
    how = "less" if found.difference < 0.0 else "more"
    return [
        f"The new rows are unlike those before them: a row is {abs(found.difference):.3g} nats "
        f"{how} probable than expected (standard error {found.sd:.2g}, {_chance(found)}). They "
        "were learnt from; look at what has changed in them."
    ]


def results(stream: Stream) -> dict[str, float]:
    """Return the numbers of the record."""
    told = {}
    if stream.judged:
        told["new_rows_log_density"] = stream.judged[-1].mean
    if stream.found is not None:
        told["drift"] = stream.found.difference
        told["drift_p"] = stream.found.p
    return told


def sections(stream: Stream, files: int, rows: int) -> list[Section]:
    """Say what was new, and how it compares with what was known."""
    some = "1 file is" if files == 1 else f"{files:,} files are"
    if stream.before is None:
        text = (
            f"All of it: the target had no run to go on from. From the next run on new files "
            f"alone are read, and what these {rows:,} rows told weighs {stream.factor:g} of what "
            "it did."
        )
        return [Section("What is new", text)]
    weight = stream.factor * stream.before.learnt.rows
    text = (
        f"Since run {stream.before.record.run_id}: {some} new, with {rows:,} rows; they alone "
        f"were read, and the results are of them. What earlier rows told stands for "
        f"{weight:,.0f} rows beside them (forgetting factor {stream.factor:g})."
    )
    return [Section("What is new", text), _drift(stream)]


def _drift(stream: Stream) -> Section:
    title, found = "Do the new rows drift?", stream.found
    tonight = stream.judged[-1]
    told = (
        f"Before they were learnt from, a new row had a log density of {tonight.mean:,.4g} nats on "
        "average."
    )
    if found is None:
        why = "there are too few rows, here or before, that were told in the same way"
        return Section(title, f"{told} Nothing can be compared with that yet: {why}.")
    verdict = (
        "Chance does not explain that: they have drifted."
        if found.alarm
        else "That is within what chance explains."
    )
    runs = len(stream.judged) - 1
    before = "the run" if runs == 1 else f"{runs} runs"
    text = (
        f"{told} From {before} before {found.expected:,.4g} was expected, so "
        f"it is {abs(found.difference):.3g} {'less' if found.difference < 0 else 'more'}, with a "
        f"standard error of {found.sd:.2g} ({_chance(found)}). {verdict}"
    )
    shown = stream.judged[-_SHOWN:]
    return Section(
        title,
        text,
        [
            plots.intervals(
                [night.run_id for night in shown],
                [night.mean - found.expected for night in shown],
                [(night.variance / max(night.units, 1)) ** 0.5 for night in shown],
                "nats a row, beyond what is expected",
                "Log density of each run's new rows before they were learnt from",
            )
        ],
    )


def _chance(found: Drift) -> str:
    return f"p = {found.p:.2g}" if found.p >= 1e-6 else "p < 1e-6"
