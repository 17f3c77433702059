"""Files of a run that MultiQC finds: its custom content, names ending _mqc.json."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flows.variants.calls.part_calls import PartCalls
from flows.variants.input import read_account
from flows.variants.settings import VariantSettings
from vbmodels.variants.two_groups.batch_null import BatchGlobal, names_of_types

_MOST_POINTS = 1000


def files(parts: Sequence[PartCalls], q: Any, settings: VariantSettings) -> dict[str, bytes]:
    """Return the files by name: calls, depth, reads, and errors by substitution where known.

    Parameters
    ----------
    parts
        What the partitions found.
    q
        The fit.
    settings
        The run's; the case names the sample.
    """
    calls = [call for part in parts for call in part.calls]
    filtered = sum(bool(call["filters"]) for call in calls)
    found = {
        "vbflows_calls": {
            "section_name": "vbflows: variants",
            "description": "Alleles called in the case: those that pass all filters, and others.",
            "plot_type": "bargraph",
            "pconfig": {"id": "vbflows_calls_plot", "title": "vbflows: variants",
                        "ylab": "alleles"},
            "data": {settings.case: {"PASS": len(calls) - filtered, "filtered": filtered}},
        },
        "vbflows_depth": {
            "section_name": "vbflows: depth",
            "description": "Reads of a sample, of all its replicates, at locations along the "
            "regions, in order.",
            "plot_type": "linegraph",
            "pconfig": {"id": "vbflows_depth_plot", "title": "vbflows: depth",
                        "xlab": "location", "ylab": "reads"},
            "data": _depths(parts, settings),
        },
    }  # fmt: skip
    reads = parts[0].sample_reads if parts else None
    if reads is not None and (rows := read_account.as_rows(reads, settings)):
        found["vbflows_reads"] = {
            "section_name": "vbflows: reads",
            "description": "Reads in the regions: those that count, and those that a rule left "
            "out.",
            "plot_type": "bargraph",
            "pconfig": {"id": "vbflows_reads_plot", "title": "vbflows: reads", "ylab": "reads"},
            "data": read_account.for_multiqc(rows),
        }
    if isinstance(q, BatchGlobal):
        control = q.a / (q.a + q.b)
        rates = {settings.case: control * np.exp(q.shift), settings.compared_with: control}
        found["vbflows_errors"] = {
            "section_name": "vbflows: errors by substitution",
            "description": "Error rates of each sample; what differs alike at all locations is "
            "not called.",
            "plot_type": "bargraph",
            "pconfig": {"id": "vbflows_errors_plot", "title": "vbflows: errors by substitution",
                        "ylab": "errors per million", "stacking": "group"},
            "data": {
                sample: {name: round(1e6 * float(rate), 3)
                         for name, rate in zip(names_of_types(), of, strict=True)}
                for sample, of in rates.items()
            },
        }  # fmt: skip
    return {
        f"{name}_mqc.json": json.dumps({"id": name, **content}, indent=1).encode()
        for name, content in found.items()
    }


def merge(files: Sequence[Mapping[str, bytes]]) -> dict[str, bytes]:
    """Put the files of several cases together: a sample each; of a control, what comes first."""
    found: dict[str, dict[str, Any]] = {}
    for own in files:
        for name, text in own.items():
            content = json.loads(text)
            data = found.setdefault(name, content)["data"]
            for sample, of in content["data"].items():
                data.setdefault(sample, of)
    return {name: json.dumps(content, indent=1).encode() for name, content in found.items()}


def _depths(parts: Sequence[PartCalls], settings: VariantSettings) -> dict[str, list[list[float]]]:
    """Return points of each sample: as keys of an object they would be drawn in order of text."""
    points = [point for part in parts for point in part.depth]
    points = points[:: max(1, -(-len(points) // _MOST_POINTS))]
    samples = {settings.case: 2} | ({settings.compared_with: 3} if settings.controls else {})
    return {
        sample: [[i, round(float(point[column]), 2)] for i, point in enumerate(points)]
        for sample, column in samples.items()
    }
