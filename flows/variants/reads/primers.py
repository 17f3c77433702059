"""The primers of an amplicon protocol, from a BED file with strands."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from flows.faults import Fault, InputError
from flows.variants.reads.regions import NUMBER, fasta_contigs, in_file, other_names, read_lines
from flows.variants.settings import VariantSettings
from vbmodels.core.state import IntArray

Primers = dict[str, tuple[IntArray, IntArray]]
"""By contig of the FASTA, [P, 2] begin and end (from 0, not included) of each strand's primers."""


def read_primers(path: str, contigs: Mapping[str, int], fasta: str) -> Primers:
    """Read primers from a BED file whose sixth column is the strand.

    Raises `InputError` with every line that is no primer within a contig of the FASTA.
    """
    faults: list[Fault] = []
    found: dict[str, tuple[list[list[int]], list[list[int]]]] = {}
    for row, text in enumerate(read_lines(path), start=1):
        cells = text.split()
        if not cells or cells[0].startswith("#") or cells[0] in ("track", "browser"):
            continue
        whole = len(cells) >= 6 and cells[5] in ("+", "-")
        if not whole or not (NUMBER.fullmatch(cells[1]) and NUMBER.fullmatch(cells[2])):
            faults.append(Fault(file=path, row=row, expected="contig, start, end, name, score and "
                                "strand (+ or -)", found=repr(text.rstrip()[:60])))  # fmt: skip
            continue
        contig = in_file(cells[0], contigs)
        if contig is None:
            faults.append(other_names(path, row, cells[0], contigs, fasta))
            continue
        start, stop, length = int(cells[1]), int(cells[2]), contigs[contig]
        if not start < stop <= length:
            faults.append(
                Fault(
                    file=path,
                    row=row,
                    expected=f"a start below the end, and an end of at most {length:,} ({contig})",
                    found=f"{start:,} to {stop:,}",
                )
            )
            continue
        of_strand = found.setdefault(contig, ([], []))["+-".index(cells[5])]
        of_strand.append([start, stop])
    if not found and not faults:
        faults.append(Fault(file=path, expected="at least one primer", found="none"))
    if faults:
        raise InputError(faults)
    return {
        contig: (
            np.array(own[0], np.int64).reshape(-1, 2),
            np.array(own[1], np.int64).reshape(-1, 2),
        )
        for contig, own in found.items()
    }


def primers_of(settings: VariantSettings) -> Primers:
    """Return the primers that the settings name; none where they name none."""
    if settings.primers is None:
        return {}
    fasta = str(settings.fasta)
    return read_primers(settings.primers, fasta_contigs(fasta), fasta)
