"""What is shown of a finished run, from its record and its tables alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from flows import storage
from flows.catalogue import PIPELINES, known
from flows.read.rows import rows_command
from flows.records.runs import InputRecord, PublishError, RunPaths, RunRecord
from flows.report.answers import of_results
from flows.report.commands import Commands
from flows.report.render import Shown

_FILES = 4  # from which on commands name the source


def commands_of(
    pipeline: str,
    inputs: Sequence[InputRecord],
    source: storage.Sources,
    paths: RunPaths,
    changed: Mapping[str, Any],
) -> Commands:
    """Return the commands that name a run."""
    files = [file.url for file in inputs]
    if len(files) >= _FILES:
        files = [storage.source_in_words(source)]
    return Commands(pipeline, files, paths.target, paths.root, changed)


def is_answered(record: RunRecord) -> bool:
    """Whether a run's pipeline is installed, so that its answer can be read."""
    return record.pipeline in PIPELINES


def shown_of(paths: RunPaths, record: RunRecord) -> Shown:
    """Return the answer of a finished run and what is said around it.

    Raises
    ------
    PublishError
        If its answer is of another version.
    """
    try:
        answer = of_results(known(record.pipeline), record.results)
    except ValidationError as error:
        raise PublishError(
            paths.root, "an answer of this version", "one of another", "fit again"
        ) from error
    return Shown(
        record.pipeline,
        answer,
        record,
        commands_of(record.pipeline, record.inputs, record.source, paths, record.changed),
        paths.file("report.html"),
        rows_command(paths, paths.target),
    )
