"""Calls as a bgzipped VCF with its tabix index, through htslib."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pysam

from flows import storage
from flows.variants.settings import VariantSettings
from vbmodels.variants.panel.model import PanelNull
from vbmodels.variants.two_groups.batch_null import BatchNull, names_of_types

MOST_QUAL = 9999.0
EXCHANGEABLE = "exchangeable: without a variant the samples differ at random only"
_CONTROL = re.compile(r"[\x00-\x1f]")  # what no name in a VCF can hold
FILTERS = {
    "q_value": "False discovery rate above the level, or more likely an error",
    "strand_bias": "Its reads lie on one strand more than the reference's",
    "read_end": "Nearer to the ends of its reads than the reference is",
    "low_mapq": "Its reads map less surely than the reference's",
    "low_baseq": "Its bases have lower qualities than the reference's",
    "near_indel": "Its reads have an indel near it more often than the reference's",
    "many_mismatches": "Its reads have several mismatches near it more often than the reference's",
    "no_control": "Neither control nor panel has reads here",
    "spectrum": "Errors are spread over the alleles as in the control",
}
_INFO = (
    ("P", 1, "Float", "Posterior probability of a variant (posterior_difference: P(diff > tau))"),
    ("LFDR", 1, "Float", "Probability of no variant (two_groups)"),
    ("QV", 1, "Float", "Least false discovery rate at which it is called"),
    ("MU", 1, "Float", "Posterior mean of the case's rate (posterior_difference: of all errors)"),
    ("MUSD", 1, "Float", "Its standard deviation"),
    ("MUCI", 2, "Float", "Its 95 % interval"),
    ("CMU", 1, "Float", "The same in the control, or around which a panel's samples vary"),
    ("CMUSD", 1, "Float", "Its standard deviation"),
    ("CMUCI", 2, "Float", "Its 95 % interval"),
)
_SHARE = (
    ("AF", "A", "Float", "The allele's share in the case: posterior mean (two_groups)"),
    ("AFCI", 2, "Float", "Its 95 % interval"),
    ("RPZ", 1, "Float", "z of the distance to the read's end, against the reference"),
    ("UNTESTED", ".", "String", "Filters that these reads could not test"),
    ("HRUN", 1, "Integer", "Of an indel: length of the run of one base behind it, at most 6"),
)
_FORMAT = (
    ("GT", 1, "String", "Genotype by share of reads: 1/1 from .9, 0/1 where called or from .2"),
    ("DP", 1, "Integer", "Reads, of all replicates of a sample"),
    ("AD", "R", "Integer", "Reads of reference and allele"),
    ("ADF", "R", "Integer", "AD on the forward strand"),
    ("ADR", "R", "Integer", "AD on the reverse strand"),
    ("SB", 4, "Integer", "Reads of the reference forward and reverse, of the allele the same"),
    ("AF", "A", "Float", "The allele's share of the reads"),
)


def header(
    contigs: Mapping[str, int | None],
    samples: Sequence[str],
    source: str,
    not_run: Mapping[str, str] | None = None,
    null: str | None = None,
) -> pysam.VariantHeader:
    """Return a VCF header with contigs (and their lengths where known), fields and samples.

    Filters that could not run have a line ``vbflows_filter_not_run`` with the reason; what no
    variant means stands in ``vbflows_null``.
    """
    head = pysam.VariantHeader()
    head.add_meta("source", source)
    if null is not None:
        head.add_meta("vbflows_null", null)
    for name, reason in (not_run or {}).items():
        head.add_meta("vbflows_filter_not_run", f"{name}: {reason}")
    for name, length in contigs.items():
        head.contigs.add(name, length=length)
    for name, text in FILTERS.items():
        head.filters.add(name, None, None, text)
    for name, number, kind, text in (*_INFO, *_SHARE):
        head.info.add(name, number, kind, text)
    for name, number, kind, text in _FORMAT:
        head.formats.add(name, number, kind, text)
    for sample in samples:
        head.add_sample(sample)
    return head


def null_of(model: Any, q: Any) -> str:
    """Return what no variant means, for the header."""
    if not isinstance(model, BatchNull):
        return EXCHANGEABLE
    factors = ", ".join(
        f"{name} x{np.exp(b):.2f}" for name, b in zip(names_of_types(), q.shift, strict=True)
    )
    if q.of_context is not None:
        factors += "; by its neighbouring bases too, in the posterior's context_shift"
    against = "panel's" if isinstance(model, PanelNull) else "control's"
    return (
        f"batch: without a variant the case's error rates are the {against} times a factor by "
        f"substitution ({factors}), and sites differ by site_sd = {q.tau:.3f} in logit"
    )


def sample_names(
    columns: Sequence[tuple[str, str]], settings: VariantSettings
) -> dict[str, list[str]]:
    """Return the VCF's samples: of the case and of the control the sample, then its replicates.

    Of a panel the samples alone, each the sum of its replicates.

    >>> sample_names([("tumour", "1"), ("normal", "a")],
    ...              VariantSettings(case="tumour", control="normal"))
    {'case': ['tumour', 'tumour:1'], 'control': ['normal', 'normal:a']}
    """
    roles = {"case": settings.case} | ({"control": settings.control} if settings.control else {})
    roles |= {f"panel{i + 1}": sample for i, sample in enumerate(settings.members)}
    used = set(roles.values())
    names = {}
    for role, sample in roles.items():
        names[role] = [sample]
        if role.startswith("panel"):
            continue
        for owner, replicate in columns:
            name = f"{sample}:{_CONTROL.sub('_', replicate)}"
            while owner == sample and name in used:
                name += "'"
            if owner == sample:
                used.add(name)
                names[role].append(name)
    return names


def named(
    samples: Mapping[str, Mapping[str, Any]], names: Mapping[str, Sequence[str]]
) -> dict[str, Mapping[str, Any]]:
    """Return what a call says of case and control, and of their replicates, by `sample_names`."""
    return {
        name: reads
        for role, of_role in names.items()
        for name, reads in zip(of_role, (samples[role], *samples[role]["replicates"]), strict=True)
    }


def genotype(share: float, depth: int, called: bool) -> tuple[int | None, int | None]:
    """Return the genotype that a share of reads suggests."""
    if depth == 0:
        return (None, None)
    if share >= 0.9:
        return (1, 1)
    return (0, 1) if called or share >= 0.2 else (0, 0)


def write_vcf(
    url: str,
    rows: Sequence[Mapping[str, Any]],
    contigs: Mapping[str, int | None],
    samples: Sequence[str],
    source: str,
    not_run: Mapping[str, str] | None = None,
    null: str | None = None,
    indels: str | None = None,
    thin: Sequence[str] = (),
    mnv: str | None = None,
) -> None:
    """Write calls, in the order of the contigs, and their index.

    Parameters
    ----------
    url
        Where: it ends with .vcf.gz; the index takes .tbi behind that.
    rows
        One record each: chrom, pos, ref, alt, qual, filters, the INFO values by name (None
        where there is none), and by sample its ``depth``, ``ref_reads``, ``reads`` and
        ``called``, and ``strands`` where they are known: reads of the reference forward and
        reverse, then of the allele.
    contigs
        Names and lengths.
    samples
        Names of the samples, case first.
    source
        What made the file.
    not_run
        Filters that could not run, and why.
    null
        What no variant means, for the header.
    indels
        Why insertions and deletions were not called, for the header; None where they were.
    thin
        Replicates without reads, for the header.
    mnv
        Why bases on the same reads were not joined, for the header.
    """
    order = {name: i for i, name in enumerate(contigs)}
    head = header(contigs, samples, source, not_run, null)
    for key, reason in (("vbflows_indels", indels), ("vbflows_mnv", mnv)):
        if reason is not None:
            head.add_meta(key, reason)
    for name in thin:
        head.add_meta("vbflows_without_reads", _CONTROL.sub("_", name))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "variants.vcf.gz")
        with pysam.VariantFile(path, "wz", header=head) as file:
            for row in sorted(
                rows, key=lambda r: (order[r["chrom"]], r["pos"], r["ref"], r["alt"])
            ):
                file.write(_record(file, row, samples))
        pysam.tabix_index(path, preset="vcf", force=True)
        for end in ("", ".tbi"):
            with open(path + end, "rb") as made_file:
                storage.write_bytes(url + end, made_file.read())


def _record(
    file: pysam.VariantFile, row: Mapping[str, Any], samples: Sequence[str]
) -> pysam.VariantRecord:
    info = {name: _plain(row[name]) for name, *_ in (*_INFO, *_SHARE) if row.get(name) is not None}
    record = file.new_record(
        contig=row["chrom"],
        start=int(row["pos"]) - 1,
        stop=int(row["pos"]) - 1 + len(row["ref"]),
        alleles=(row["ref"], row["alt"]),
        qual=round(float(min(row["qual"], MOST_QUAL)), 2),
        filter=list(row["filters"]) or ["PASS"],
        info=info,
    )
    for name in samples:
        reads = row["samples"][name]
        share = reads["reads"] / max(reads["depth"], 1)
        entry = record.samples[name]
        entry["GT"] = genotype(share, reads["depth"], reads["called"])
        entry["DP"] = int(reads["depth"])
        entry["AD"] = (int(reads["ref_reads"]), int(reads["reads"]))
        if reads.get("strands") is not None:
            strands = tuple(int(n) for n in reads["strands"])
            entry["ADF"], entry["ADR"], entry["SB"] = strands[::2], strands[1::2], strands
        entry["AF"] = float(share)
    return record


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, list, np.ndarray)):
        return tuple(map(_plain, value))
    return value if isinstance(value, (int, str)) else float(value)
