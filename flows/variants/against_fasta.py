"""Whether counts are of the FASTA that comes with them: contigs, positions, reference bases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pysam

from flows.faults import Fault
from flows.variants.alignments import local_fasta, quiet, told
from flows.variants.reads import base_codes
from flows.variants.regions import in_file, other_names
from flows.variants.settings import VariantSettings
from vbmodels.core.state import IntArray
from vbmodels.variants.batch import BASES

MOST_FAULTS = 20
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

    def __enter__(self) -> Self:
        with quiet():
            self.file = pysam.FastaFile(local_fasta(self.path))
        return self

    def __exit__(self, *given: object) -> None:
        self.file.close()

    def faults(self, table: pa.Table, url: str, before: int) -> list[Fault]:
        """List the rows whose contig, position or reference base is not the FASTA's.

        Bases other than A, C, G and T, on either side, are not compared.

        Parameters
        ----------
        table
            Rows of counts.
        url
            Their file, for messages.
        before
            Rows of it that come before them.
        """
        try:
            return self._differences(table, url, before)
        except (OSError, ValueError, IndexError) as error:
            return [
                Fault(
                    file=self.path, expected="a whole FASTA, as its index (.fai) has it",
                    found=told(error), remedy=f"run: samtools faidx {self.path}",
                )
            ]  # fmt: skip

    def _differences(self, table: pa.Table, url: str, before: int) -> list[Fault]:
        pos = np.asarray(pc.fill_null(table["pos"], 0)).astype(np.int64)
        letters = pc.index_in(
            pc.utf8_upper(table["ref"].cast(pa.string())), value_set=pa.array(list(BASES))
        )
        ref = np.asarray(pc.fill_null(letters, -1)).astype(np.int8)
        faults: list[Fault] = []
        for name, rows in _by_contig(table["chrom"]):
            if len(faults) >= MOST_FAULTS:
                break
            contig = in_file(name, self.contigs, self.chr_names)
            if contig is None:
                row = before + int(rows[0]) + 1
                faults.append(other_names(url, row, name, self.contigs, self.path))
                continue
            length = self.contigs[contig]
            for row in rows[pos[rows] > length][:MOST_FAULTS]:
                faults.append(
                    Fault(
                        file=url, column="pos", row=before + int(row) + 1, remedy=_REMEDY,
                        expected=f"a position within {contig}:1-{length} of {self.path}",
                        found=str(pos[row]),
                    )
                )  # fmt: skip
            rows = rows[(pos[rows] >= 1) & (pos[rows] <= length) & (ref[rows] >= 0)]
            there = self._bases(contig, pos[rows])
            for at in np.flatnonzero((there >= 0) & (there != ref[rows]))[:MOST_FAULTS]:
                row = int(rows[at])
                faults.append(
                    Fault(
                        file=url, column="ref", row=before + row + 1, remedy=_REMEDY,
                        expected=f"{BASES[there[at]]} as at {contig}:{pos[row]} of {self.path}",
                        found=repr(BASES[ref[row]]),
                    )
                )  # fmt: skip
        return faults[:MOST_FAULTS]

    def _bases(self, contig: str, pos: IntArray) -> Any:
        """Return the bases at positions (from 1) as indices in ACGT, -1 for others."""
        unique, at = np.unique(pos, return_inverse=True)
        apart = (np.diff(unique) > _GAP) | (np.diff(unique >> _WINDOW) != 0)
        found = [
            base_codes(self.file.fetch(contig, int(run[0]) - 1, int(run[-1])))[run - run[0]]
            for run in np.split(unique, np.flatnonzero(apart) + 1)
            if run.size
        ]
        return np.concatenate(found)[at] if found else np.zeros(0, np.int8)


def _by_contig(column: pa.ChunkedArray) -> Iterator[tuple[str, IntArray]]:
    """Yield every contig with its rows, in order; rows without one are left out."""
    encoded = column.cast(pa.string()).combine_chunks().dictionary_encode()
    code = np.asarray(pc.fill_null(encoded.indices, -1)).astype(np.int64)
    order = np.argsort(code, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(code[order])) + 1):
        if rows.size and code[rows[0]] >= 0:
            yield encoded.dictionary[int(code[rows[0]])].as_py(), rows
