"""Which locations a run's hyperparameters are fitted on, and what each of them counts for."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pysam

from flows import storage
from flows.records.runs import RunPaths
from flows.variants.input.count_checks import bases_at
from flows.variants.input.counts import Column, Loci
from flows.variants.input.locations import (
    Assembled,
    Gathered,
    members_of,
    read_counts,
    read_indels,
    read_loci,
    replicate_columns,
)
from flows.variants.reads.alignments import described, local_fasta, quiet
from flows.variants.reads.contigs import fasta_contigs, in_file
from flows.variants.settings import VariantSettings
from vbmodels.core.draws import GOLDEN, mix
from vbmodels.core.state import FloatArray, IntArray, to_bytes
from vbmodels.variants.counts import Counts
from vbmodels.variants.sampling import differing, probabilities
from vbmodels.variants.two_groups import contexts
from vbmodels.variants.two_groups.cases import OfCase


def contexts_of(loci: Loci, settings: VariantSettings) -> IntArray | None:
    """Return the context of each location, [J]; None where no shift differs by them."""
    if settings.types != "trinucleotide":
        return None
    try:
        return contexts.contexts(*_neighbours(loci, settings))
    except (OSError, ValueError, IndexError) as error:
        raise storage.StorageError(
            f"the neighbouring bases of locations cannot be read from {settings.fasta}: "
            f"{described(error)}; run: samtools faidx {settings.fasta}"
        ) from error


def _neighbours(loci: Loci, settings: VariantSettings) -> IntArray:
    """Return the bases before and behind locations as indices in ACGT, [2, J], -1 for none."""
    path = str(settings.fasta)
    lengths = fasta_contigs(path)
    neighbours = np.full((2, len(loci.pos)), -1)
    names, code = np.unique(loci.chrom, return_inverse=True)
    with quiet(), pysam.FastaFile(local_fasta(path)) as file:
        for number, name in enumerate(names.tolist()):
            contig = in_file(name, lengths)
            if contig is None:
                continue
            for side, step in enumerate((-1, 1)):
                pos = loci.pos + step
                there = np.flatnonzero(
                    (code.ravel() == number) & (pos >= 1) & (pos <= lengths[contig])
                )
                neighbours[side, there] = bases_at(file, contig, pos[there])
    return neighbours


FIT_UNITS = 6000
"""About how many units, three a location, the hyperparameters of two_groups are fitted on."""


def chosen(partitions: Sequence[Assembled]) -> FloatArray:
    """Return with which probability a location of each level is taken, over all partitions."""
    number = np.sum([p.levels for p in partitions], axis=0)
    return probabilities(number, FIT_UNITS / 3.0)


def even(loci: Loci, seed: int) -> FloatArray:
    """Return numbers evenly distributed from 0 to 1, [J], by hashes of locations and the seed.

    So the draw is the same however the locations are cut into partitions. The hash is
    SplitMix64's finaliser (Steele, Lea, Flood 2014).
    """
    names, code = np.unique(loci.chrom, return_inverse=True)
    contig = np.array([zlib.crc32(str(name).encode()) for name in names], np.uint64)[code.ravel()]
    x = loci.pos.astype(np.uint64) + (contig << np.uint64(31))
    x = mix((x + np.uint64((seed + 1) % 2**64)) * GOLDEN)
    return np.asarray((x >> np.uint64(11)).astype(float) * 2.0**-53)


class ToFit(NamedTuple):
    """A partition that is fitted: its number, its case, its place among the case's.

    ``probability`` is what `chosen` returns.
    """

    partition: int
    case: int
    part: int
    probability: FloatArray


def to_fit(gathered: Gathered, cases: int) -> list[ToFit]:
    """Return the partitions with locations, each with the training sites of its case."""
    partitions: list[ToFit] = []
    for case in range(cases):
        of_case = [part for part in gathered.of_case(case) if part.locations]
        if of_case:
            probability = chosen(of_case)
            partitions += [ToFit(p.index, case, i, probability) for i, p in enumerate(of_case)]
    return sorted(partitions, key=lambda fit: fit.partition)


def finish_partition(
    item: ToFit, settings: VariantSettings, paths: RunPaths, columns: Sequence[Column]
) -> str:
    """Write a partition as it is fitted and scored: counts with the weights of their locations."""
    alone = settings.of_case(settings.tested[item.case])
    counts = _weighed(item, alone, paths, replicate_columns(columns, alone))
    url = paths.part("partitions", item.partition, "npz")
    state = OfCase(item.case, item.part, counts) if settings.several else counts
    storage.write_bytes(url, to_bytes(state))
    return url


def _weighed(
    item: ToFit, settings: VariantSettings, paths: RunPaths, columns: Sequence[Column]
) -> Counts:
    loci = read_loci(paths, item.partition)
    counts = read_counts(paths, item.partition, "counts")
    context = contexts_of(loci, settings)
    counts = replace(counts, member=members_of(columns, settings), context=context)
    least = float(item.probability.min())
    if least == 1.0:
        return counts
    probability = item.probability[differing(counts, read_indels(paths, item.partition))]
    taken = even(loci, settings.seed) < probability
    return replace(counts, weight=np.where(taken, least / probability, 0.0), share=least)
