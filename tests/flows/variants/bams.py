"""What every simulation of reads writes: a sheet, a FASTA, a BAM for every replicate, the truth."""

import os
import tempfile
from collections.abc import Callable, Iterable

import pyarrow as pa
import pysam

from flows import storage

CONTIG = "simulated"
SAMPLES = ("case", "control")

Reads = Callable[[str, pysam.AlignmentHeader], Iterable[pysam.AlignedSegment]]
"""The reads of a replicate of a sample, by position."""


def write_files(
    target: str, reference: str, replicates: int, reads: Reads, name: str, truth: pa.Table
) -> list[str]:  # fmt: skip
    """Write the files of a simulation; return the URLs.

    ``samples.csv``, ``reference.fa``, a BAM with its index for every replicate, and
    ``_truth/NAME.parquet``.

    Parameters
    ----------
    target
        The folder.
    reference
        The bases of its one contig.
    replicates
        Of each sample.
    reads
        Draws the reads of a replicate of a sample.
    name, truth
        Name of the table of what the case carries, and the table.
    """
    urls = [storage.join(target, file) for file in ("samples.csv", "reference.fa")]
    lines = ["sample,replicate,path"]
    header = pysam.AlignmentHeader.from_dict(
        {"HD": {"VN": "1.6", "SO": "coordinate"}, "SQ": [{"SN": CONTIG, "LN": len(reference)}]}
    )
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "reads.bam")
        for sample in SAMPLES:
            for replicate in range(1, replicates + 1):
                with pysam.AlignmentFile(path, "wb", header=header) as file:
                    for read in reads(sample, header):
                        file.write(read)
                pysam.index(path)
                bam = f"{sample}{replicate}.bam"
                for end in ("", ".bai"):
                    with open(path + end, "rb") as written:
                        storage.write_bytes(storage.join(target, bam + end), written.read())
                urls.append(storage.join(target, bam))
                lines.append(f"{sample},{replicate},{bam}")
    storage.write_bytes(urls[0], ("\n".join(lines) + "\n").encode())
    storage.write_bytes(urls[1], f">{CONTIG}\n{reference}\n".encode())
    urls.append(storage.join(target, "_truth", f"{name}.parquet"))
    storage.write_table(urls[-1], truth)
    return urls
