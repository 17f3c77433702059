"""Count the reads of BAM or CRAM files once, so that fits and refits need no reads."""

from __future__ import annotations

from typing import Any

from flows import storage, watch
from flows.families.variant_locations import write_part_counts
from flows.families.variants import FAMILY
from flows.pipelines.compute import computing, each_of
from flows.pipelines.run import check_files
from flows.pipelines.stages import Plain
from flows.settings import ComputeSettings, VariantSettings


def count(
    source: str, target: str, settings: VariantSettings, compute: ComputeSettings
) -> dict[str, Any]:
    """Write base counts of a sample sheet's files as Parquet; return what was written.

    Raises
    ------
    InputError
        If the sheet or what it names is wrong: every fault.
    """
    watch.current.get().stage("check")
    files, checked = check_files(FAMILY, Plain(), source, settings)
    target = storage.absolute(target)
    storage.check_writable(target)
    parts = FAMILY.plan(files, checked, settings)
    watch.current.get().stage("count")
    with computing(compute) as found:
        rows = each_of(found)(write_part_counts, parts, settings, target)
    line = f"{sum(rows):,} rows of counts in {len(rows)} files below {target}"
    return {"target": target, "files": len(rows), "rows": sum(rows), "lines": [line]}
