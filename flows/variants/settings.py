"""Settings of variant calls."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from flows.settings.base import Probability, declared
from vbmodels.variants.options import CallOptions

READ_FILTERS = (
    "strand_bias",
    "read_end",
    "low_mapq",
    "low_baseq",
    "near_indel",
    "many_mismatches",
)
NO_FOLDER = re.compile(r"[/\\\x00-\x1f]|^\.{1,2}$")  # what no folder's name can be or have
MOST_NAME = 200  # bytes of the name of one of several cases


class VariantSettings(declared(CallOptions)):  # type: ignore[misc]
    """Variants of a case against a control, from reads or from base counts."""

    question = "Which variants does a sample have beyond sequencing errors?"
    family = "flows.variants.family"
    answer = "flows.variants.answer"
    reads = "flows.variants.schema:COUNTS"
    example = (
        "vbflows simulate variants simulated/ --rows 200",
        "vbflows variants simulated/counts.parquet results/",
    )
    own_file = "vbflows variants samples.csv out/ --set fasta=reference.fa"
    page = "docs/pipelines/variants.md"
    first = ("fasta", "case", "control", "fdr", "bed")
    groups: ClassVar[dict[str, tuple[str, ...]]] = {
        "data": (
            "cases",
            "panel",
            "region",
            "primers",
            "primer_offset",
            "min_base_quality",
            "min_mapping_quality",
            "orphans",
            "duplicates",
            "min_depth",
            "indels",
            "mnv",
        ),
        "output": ("e_bh", "two_sided", "callable_share", "filter_level", "skip_filters"),
        "expert": ("tau",),
    }
    partitioning: ClassVar[frozenset[str]] = frozenset({"cases"})

    case: str = Field(
        "case", pattern=r"^[^\t\r\n]+$", description="Name of the sample that is tested."
    )
    cases: str = Field(
        "",
        pattern=r"^[^\t\r\n]*$",
        description="Names of several cases, with commas between them, in place of case: each is "
        "compared with the same control or panel, which is read once, by a fit of its own. A "
        "sample sheet says it by role=case.",
    )
    control: str | None = Field(
        "control",
        pattern=r"^[^\t\r\n]*$",
        description="Name of the sample it is compared with; empty: the case alone is "
        "compared with errors, as a sample that is alone in its sheet is.",
    )
    panel: str = Field(
        "",
        pattern=r"^[^\t\r\n]*$",
        description="Names of samples of other people, with commas between them, that the case is "
        "compared with too: a panel of controls. A sample sheet says it by role=panel. With "
        "control empty: tumour-only.",
    )
    fasta: str | None = Field(
        None,
        description="Reference FASTA, needed for BAM and CRAM; by default the only FASTA in "
        "the sample sheet's folder. Counts are compared with it and come in the order of its "
        "contigs.",
    )
    bed: str | None = Field(
        None,
        description="Intervals to look at: a BED file, a Picard interval_list or GATK intervals, "
        "plain or packed with gzip; with a region, the parts of them in it.",
    )
    region: str | None = Field(
        None,
        description="One region, such as 17:7572000-7591000 (positions from 1, both included); "
        "with a BED file, what both have.",
    )
    primers: str | None = Field(
        None,
        description="BED file of an amplicon protocol's primers, with strands (six columns): of "
        "reads that begin within a primer the bases up to its end do not count, as ivar trim has "
        "it. From BAM and CRAM.",
    )
    primer_offset: int = Field(
        0,
        ge=0,
        le=1000,
        description="Bases by which a read may begin before its primer, as in ivar trim -x.",
    )
    min_base_quality: int = Field(
        20,
        ge=0,
        le=93,
        description="Least quality of a base; of two mates that overlap one base counts.",
    )
    min_mapping_quality: int = Field(20, ge=0, le=255, description="Least mapping quality.")
    orphans: bool = Field(
        False,
        description="Whether paired reads count that are not flagged as a proper pair; mates that "
        "overlap are then found by their name alone.",
    )
    duplicates: Literal["drop", "keep"] = Field(
        "drop",
        description="Whether reads count that are flagged as duplicates: keep for amplicons, whose "
        "reads all begin at the primers.",
    )
    min_depth: float = Field(
        1.0,
        ge=0.0,
        description="Least mean depth of every replicate at the locations with reads; 0 allows "
        "samples without reads.",
    )
    indels: bool = Field(
        True,
        description="Whether insertions and deletions of up to 50 bases are called too: from "
        "reads, by test two_groups.",
    )
    mnv: int = Field(
        3,
        ge=1,
        le=30,
        description="From reads: called bases on the same reads, within so many bases of each "
        "other, are one record of the VCF, a multi-nucleotide variant; 1: every base is its own.",
    )
    test: Literal["two_groups", "posterior_difference", "sampled_difference"] = Field(
        "two_groups",
        description="two_groups: empirical Bayes with a point null per allele; "
        "posterior_difference: the papers' RVD2, per location, by its mean field; "
        "sampled_difference: the same by draws, some hundred times slower.",
    )
    tau: float = Field(
        0.0,
        ge=0.0,
        lt=1.0,
        description="Only for posterior_difference and sampled_difference: least difference of the "
        "rates. Always set it, for example 5e-4: at the default 0 about half the calls were false "
        "in a simulation (14 variants in 400 locations). Without a control: least rate, above 0 "
        "(the papers take 0.05). two_groups does not use it.",
    )
    types: Annotated[
        Literal["12", "trinucleotide"],
        BeforeValidator(lambda value: str(value) if type(value) is int else value),
    ] = Field(
        "12",
        description="By what the error rates of case and control may differ: each of 12 "
        "substitutions, or trinucleotide: each substitution by the bases before and behind it too "
        "(needs the FASTA).",
    )
    callable_share: Probability = Field(
        0.05,
        description="A position is callable, and in callable.bed, where an allele in this share of "
        "the reads would be called with a probability of .95.",
    )
    filter_level: Probability = Field(
        1e-3,
        description="Largest probability with which each filter of reads (strand_bias, read_end, "
        "low_mapq, low_baseq, near_indel, many_mismatches) takes a true variant.",
    )
    skip_filters: str = Field(
        "",
        description="Filters of reads that are not run, with commas between them: many_mismatches "
        "where variants come linked, as in mixed populations of a virus.",
    )

    @property
    def skipped_filters(self) -> set[str]:
        """The filters of reads that are not run."""
        return {name.strip() for name in self.skip_filters.split(",") if name.strip()}

    @property
    def several(self) -> list[str]:
        """The cases where there are several in one run; else none."""
        return [name.strip() for name in self.cases.split(",") if name.strip()]

    @property
    def tested(self) -> list[str]:
        """The samples that are tested."""
        return self.several or [self.case]

    def of_case(self, name: str) -> VariantSettings:
        """Return the settings of one of several cases: those of a run of it alone."""
        return self.model_copy(update={"case": name, "cases": ""})

    @property
    def members(self) -> list[str]:
        """The samples of the panel."""
        return [name.strip() for name in self.panel.split(",") if name.strip()]

    @property
    def controls(self) -> list[str]:
        """The samples that the case is compared with: its control, then the panel."""
        return ([self.control] if self.control else []) + self.members

    @property
    def compared_with(self) -> str:
        """What the case is compared with, in words; empty for nothing."""
        panel = f"a panel of {len(self.members)}" if self.members else ""
        return " and ".join(name for name in (self.control, panel) if name)

    @model_validator(mode="after")
    def _compatible(self) -> VariantSettings:
        for sentence in (*self._conflicts_of_cases(), *self._conflicts()):
            raise ValueError(sentence)
        return self

    def _conflicts_of_cases(self) -> Iterator[str]:
        """Yield what is wrong with the names of several cases in one run."""
        names = self.several
        if not names:
            return
        if self.case != type(self).model_fields["case"].default:
            yield f"case names {self.case!r}, cases {self.cases!r}; give one of the two settings"
        if not self.controls:
            yield (
                "several cases in one run share a control or a panel, and none is named; without "
                "one give each case a run of its own"
            )
        if self.test != "two_groups":
            yield f"several cases in one run need test two_groups, not {self.test}"
        for name in _twice(names):
            yield f"cases names {name!r} twice; name each case once"
        for name in names:
            if name in self.controls:
                yield (
                    f"sample {name!r} is named as a case and as a control; each sample has one role"
                )
        for name in names:
            if NO_FOLDER.search(name) or len(name.encode()) > MOST_NAME:
                yield (
                    f"case {name!r} cannot name the folder of its results: expected at most "
                    f"{MOST_NAME} bytes without a slash or backslash, and not . or .."
                )

    def _conflicts(self) -> Iterator[str]:
        """Yield what else does not go together."""
        if unknown := sorted(self.skipped_filters - set(READ_FILTERS)):
            known = ", ".join(READ_FILTERS)
            yield f"skip_filters names {unknown[0]!r}; the filters of reads are {known}"
        if self.control == self.case and not self.several:
            yield (
                f"case and control are both {self.case!r}; name two samples, or leave control "
                "empty for a case without a control"
            )
        for name in _twice([*self.tested, *self.controls]) if self.members else ():
            yield (
                f"sample {name!r} is named twice among case, control and panel; each sample has "
                "one role"
            )
        if self.members and self.test != "two_groups":
            yield f"a panel needs test two_groups, not {self.test}"
        if self.test != "two_groups" and not self.control and self.tau == 0.0:
            yield (
                f"test {self.test} without a control needs tau above 0, the least rate of a "
                "variant: every rate exceeds 0; the papers take 0.05"
            )
        if self.types == "trinucleotide" and self.fasta is None:
            yield (
                "types trinucleotide needs the bases next to each location, and no FASTA is "
                "named: give --set fasta=FILE, or types=12"
            )


def _twice(names: Sequence[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if names.count(name) > 1]
