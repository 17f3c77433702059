"""Count the reads of BAM or CRAM files once, so that fits and refits need no reads."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from flows import storage
from flows.events import Events, Stage
from flows.faults import Fault, InputError
from flows.records.runs import RunPaths, new_run_id
from flows.runs.checking import look_at_files
from flows.runs.context import Run, computing
from flows.settings import ComputeSettings
from flows.tables.partition import Part
from flows.variants.family import Variants
from flows.variants.input.count_checks import file_name
from flows.variants.input.read_account import SampleReads, as_rows, dropped, warnings
from flows.variants.input.sample_sheet import inferred, only_fasta, read_sheet
from flows.variants.input.tallies import write_part_counts
from flows.variants.settings import VariantSettings

ACCOUNT = "reads.json"  # the account of reads, next to the counts
USUAL = 6  # replicates of a case and a control, for which the size of a partition is meant


class Counted(Variants):
    """The variants family where every sample of a sheet is counted, and none is compared."""

    suffixes: tuple[str, ...] = (".csv",)
    compares = False

    def settings_from_input(
        self, source: storage.Sources, settings: VariantSettings
    ) -> VariantSettings:
        """Return the settings with the only FASTA in the sheet's folder, where they name none."""
        if settings.fasta is not None:
            return settings
        try:
            urls = [file.url for file in storage.expand(source, self.suffixes)]
            fasta = only_fasta(os.path.dirname(urls[0])) if len(urls) == 1 else None
        except storage.TransientStorageError:
            raise
        except storage.StorageError:
            return settings  # the check says what is wrong
        return settings.model_copy(update={"fasta": fasta})


def count(
    source: str,
    target: str,
    settings: VariantSettings,
    compute: ComputeSettings,
) -> dict[str, Any]:
    """Write base counts of all samples of a sample sheet as Parquet; return what was written.

    Where the settings name no FASTA, the only one in the sheet's folder is the reference.

    A count that fails leaves no file behind.

    Raises
    ------
    InputError
        If the sheet or what it names is wrong, or the target has counts: every fault.
    """
    target = storage.absolute(target)
    family = Counted()
    settings = family.settings_from_input(source, settings)
    run = Run(family, source, RunPaths(target, new_run_id()), settings, Events())
    run.events.emit(Stage("check"))
    look_at_files(run)
    storage.check_writable(target)
    _refuse_counts(target)
    replicates = len(read_sheet(run.files[0].url))
    rows = max(1, settings.rows_per_partition * USUAL // max(replicates, USUAL))
    wider = settings.model_copy(update={"rows_per_partition": rows})
    parts = run.family.plan(run.files, run.checked, wider)
    mark = _mark(parts, settings)
    names = [file_name(mark, part.index, len(parts)) for part in parts]
    run.events.emit(Stage("count"))
    try:
        with computing(compute) as run.compute:
            written = run.each("count", write_part_counts, parts, settings, target, names)
    except BaseException:
        for name in set(names) & set(_counts(target)):
            storage.delete(storage.join(target, name))
        raise
    rows = sum(part.rows for part in written)
    account = np.sum([part.account for part in written], axis=0)
    columns = written[0].columns
    nothing = np.zeros((len(columns), 2), np.int64)
    reads = as_rows(SampleReads(columns, rows, rows, nothing, account), settings)
    storage.write_bytes(storage.join(target, ACCOUNT), json.dumps(reads, indent=1).encode())
    lines = [
        *inferred(os.path.dirname(run.files[0].url), (), settings),
        *(f"{loss.reason}: {loss.count:,}" for loss in dropped(account, settings) if loss.count),
        *warnings(account, columns, settings),
    ]
    return {
        "headline": f"{rows:,} rows of counts in {len(written)} files below {target}",
        "target": target,
        "files": len(written),
        "rows": rows,
        "reads": reads,
        "lines": lines,
    }


def _mark(parts: Sequence[Part], settings: VariantSettings) -> str:
    """Return a digest of what is counted and how."""
    slices = (repr(s) for part in parts for s in part.slices)
    text = "|".join([settings.model_dump_json(), *slices])
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _counts(target: str) -> list[str]:
    return [name for name in storage.names(target) if name.endswith(".parquet")]


def _refuse_counts(target: str) -> None:
    """Refuse a folder with counts: those of another sheet would be taken for this one's."""
    there = _counts(target)
    if there:
        raise InputError(
            [
                Fault(
                    file=target,
                    expected="a folder without counts",
                    found=f"{there[0]}",
                    remedy="name another folder, or empty this one",
                )
            ]
        )
