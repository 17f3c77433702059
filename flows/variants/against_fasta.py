"""Whether counts are of the FASTA that comes with them: contigs, positions, reference bases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pysam

from flows.data.checks import Found
from flows.faults import Fault
from flows.variants.alignments import described, local_fasta, quiet
from flows.variants.reads import base_codes
from flows.variants.regions import in_file, other_names
from flows.variants.settings import VariantSettings
from vbmodels.core.state import IntArray
from vbmodels.variants.bases import BASES

_GAP = 2**12  # bases that are rather read than jumped over
_WINDOW = 20  # bits of a position that are read at once: 1 MiB
_REMEDY = "give the FASTA that the reads were aligned to"


class Against:
    """A FASTA that counts are compared with; open within a ``with`` block.

    Parameters
    ----------
    settings
        Name the FASTA.
    contigs
        Its contigs with their lengths.
    """

    def __init__(self, settings: VariantSettings, contigs: dict[str, int]) -> None:
        self.path = str(settings.fasta)
        self.chr_names = settings.chr_names
        self.contigs = contigs
        self.unknown: set[str] = set()

    def __enter__(self) -> Self:
        with quiet():
            self.file = pysam.FastaFile(local_fasta(self.path))
        return self

    def __exit__(self, *given: object) -> None:
        self.file.close()

    def check(self, table: pa.Table, found: Found) -> None:
        """Tell of the rows whose contig, position or reference base is not the FASTA's.

        Bases other than A, C, G and T, on either side, are not compared.
        """
        try:
            self._compare(table, found)
        except (OSError, ValueError, IndexError) as error:
            found.tell(
                Fault(
                    file=self.path, expected="a whole FASTA, as its index (.fai) has it",
                    found=described(error), remedy=f"run: samtools faidx {self.path}",
                )
            )  # fmt: skip

    def _compare(self, table: pa.Table, found: Found) -> None:
        pos = pc.fill_null(table["pos"], 0).to_numpy()
        letters = pc.index_in(pc.utf8_upper(table["ref"]), value_set=pa.array(list(BASES)))
        ref = np.asarray(pc.fill_null(letters, -1)).astype(np.int8)
        for name, rows in _by_contig(table["chrom"]):
            contig = in_file(name, self.contigs, self.chr_names)
            if contig is None:
                if name not in self.unknown:
                    what = other_names(found.file, None, name, self.contigs, self.path)
                    found.rows(rows[:1], None, what.expected, what.found, what.remedy)
                self.unknown.add(name)
                continue
            length = self.contigs[contig]
            found.rows(
                rows[pos[rows] > length], "pos",
                lambda row, contig=contig, length=length:
                f"a position within {contig}:1-{length} of {self.path}",
                lambda row: str(pos[row]), _REMEDY,
            )  # fmt: skip
            rows = rows[(pos[rows] >= 1) & (pos[rows] <= length) & (ref[rows] >= 0)]
            there = np.full(len(ref), -1, np.int8)
            there[rows] = bases_at(self.file, contig, pos[rows])
            found.rows(
                rows[(there[rows] >= 0) & (there[rows] != ref[rows])], "ref",
                lambda row, there=there, contig=contig:
                f"{BASES[there[row]]} as at {contig}:{pos[row]} of {self.path}",
                lambda row: repr(BASES[ref[row]]), _REMEDY,
            )  # fmt: skip


def bases_at(file: pysam.FastaFile, contig: str, pos: IntArray) -> Any:
    """Return the bases at positions (from 1) as indices in ACGT, -1 for others."""
    unique, at = np.unique(pos, return_inverse=True)
    apart = (np.diff(unique) > _GAP) | (np.diff(unique >> _WINDOW) != 0)
    found = [
        base_codes(file.fetch(contig, int(run[0]) - 1, int(run[-1])))[run - run[0]]
        for run in np.split(unique, np.flatnonzero(apart) + 1)
        if run.size
    ]
    return np.concatenate(found)[at] if found else np.zeros(0, np.int8)


def _by_contig(column: pa.ChunkedArray) -> Iterator[tuple[str, IntArray]]:
    """Yield every contig with its rows, in order; rows without one are left out."""
    encoded = column.combine_chunks().dictionary_encode()
    code = np.asarray(pc.fill_null(encoded.indices, -1)).astype(np.int64)
    order = np.argsort(code, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(code[order])) + 1):
        if rows.size and code[rows[0]] >= 0:
            yield encoded.dictionary[int(code[rows[0]])].as_py(), rows
