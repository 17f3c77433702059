"""Settings of variant calls."""

from __future__ import annotations

import math
import re
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from flows.settings.base import Probability
from flows.settings.declared import declared
from vbmodels.variants.options import CallOptions

READ_FILTERS = (
    "strand_bias", "read_end", "low_mapq", "low_baseq", "near_indel", "many_mismatches",
)  # fmt: skip
NO_FOLDER = re.compile(r"[/\\\x00-\x1f]|^\.{1,2}$")  # what no folder's name can be or have
MOST_NAME = 200  # bytes of the name of one of several cases
_LEAST_TAIL_DRAWS = 10  # draws below the level that a call must not reach


class VariantSettings(declared(CallOptions)):  # type: ignore[misc]
    """Variants of a case against a control, from reads or from base counts."""

    question = "Which alleles are in the case's reads beyond errors, compared with a control?"
    family = "flows.variants.family"
    reads = "flows.variants.schema:COUNTS"
    example = (
        "vbflows simulate variants simulated/ --rows 200",
        "vbflows variants simulated/counts.parquet results/",
    )
    page = "docs/pipelines/variants.md"
    first = ("fasta", "case", "control", "fdr", "bed")
    groups: ClassVar[dict[str, tuple[str, ...]]] = {
        "data": (
            "cases", "panel", "region", "chr_names", "min_base_quality", "min_mapping_quality",
            "max_mismatch", "overlaps", "orphans", "max_depth", "strand", "indels",
        ),
        "output": ("strict", "two_sided", "filter_level", "skip_filters", "callable_share"),
        "expert": (
            "contamination", "tau", "alpha", "inference", "dispersion", "chains", "warmup", "draws",
            "thin", "fit_units",
        ),
    }  # fmt: skip
    told_by_parts: ClassVar[frozenset[str]] = frozenset({"cases"})
    old_names: ClassVar[dict[str, str]] = {"burn_in": "warmup", "strand_bias": "filter_level"}

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
        description="Name of the sample it is compared with; empty: the germline test of the "
        "case alone.",
    )
    panel: str = Field(
        "",
        pattern=r"^[^\t\r\n]*$",
        description="Names of samples of other people, with commas between them, that the case is "
        "compared with too: a panel of controls. A sample sheet says it by role=panel. With "
        "control empty: tumour-only.",
    )
    contamination: Probability = Field(
        0.01, description="panel: probability that one of it carries an allele itself."
    )
    fasta: str | None = Field(
        None,
        description="Reference FASTA; needed for BAM and CRAM. Counts are compared with it and "
        "come in the order of its contigs.",
    )
    bed: str | None = Field(
        None,
        description="BED file of the intervals to look at, plain or packed with gzip; with a "
        "region, of the parts of them that lie in it.",
    )
    region: str | None = Field(
        None,
        description="One region, such as 17:7572000-7591000 (positions from 1, both included); "
        "with a BED file, what both have.",
    )
    chr_names: Literal["exact", "map"] = Field(
        "exact", description="map: take contig 'chr1' for '1' and the other way round."
    )
    min_base_quality: int = Field(
        20,
        ge=0,
        le=93,
        description="Least quality of a base; with overlaps=once 0 means 1, since the mate that "
        "does not count has 0.",
    )
    min_mapping_quality: int = Field(20, ge=0, le=255, description="Least mapping quality.")
    max_mismatch: Probability = Field(
        0.25,
        description="Largest share of a file's confident bases that may differ from the FASTA; "
        "above it, its reads are of another sequence and are refused. A sample is compared.",
    )
    overlaps: Literal["once", "both"] = Field(
        "once", description="Whether overlapping mates count once or twice."
    )
    orphans: bool = Field(False, description="Whether paired reads without their mate count.")
    max_depth: int = Field(
        0,
        ge=0,
        description="Most reads of one file that are counted at a position, chosen by hashes of "
        "their names, so alike however the positions are cut; it spares no time. 0: no cap.",
    )
    strand: Literal["both", "forward", "reverse"] = Field(
        "both", description="Reads of which strand are counted; both are summed."
    )
    indels: bool = Field(
        True,
        description="Whether insertions and deletions of up to 50 bases are called too: from "
        "reads, by test two_groups, without max_depth.",
    )
    test: Literal["two_groups", "posterior_difference"] = Field(
        "two_groups",
        description="two_groups: empirical Bayes with a point null per allele; "
        "posterior_difference: the papers' RVD2, per location.",
    )
    tau: float = Field(
        0.0,
        ge=0.0,
        lt=1.0,
        description="posterior_difference: least difference of the rates. At 0 the rule has no "
        "point null and about half its calls are false with 14 variants in 400 locations; "
        "5e-4 controls that. Without a control: least rate, above 0 (the papers take 0.05).",
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
    alpha: Probability = Field(
        0.05, description="posterior_difference: a call needs P(difference > tau) > 1 - alpha."
    )
    inference: Literal["collapsed", "mean_field", "gibbs"] = Field(
        "collapsed",
        description="posterior_difference: collapsed integrates theta out; mean_field is the "
        "text's, whose sd is too small by about sqrt(1 + M/n); gibbs draws the rates of every "
        "location at collapsed's hyperparameters, some hundred times slower.",
    )
    dispersion: Literal["shared", "per_location"] = Field(
        "shared",
        description="posterior_difference: one M for all locations, or log M_j with a normal "
        "prior, which strong variants can drive into a useless optimum.",
    )
    chains: int = Field(4, ge=2, le=100, description="gibbs: independent chains of a location.")
    warmup: int = Field(200, ge=0, description="gibbs: sweeps left out at first.")
    draws: int = Field(1000, ge=10, description="gibbs: draws kept of each chain.")
    thin: int = Field(1, ge=1, description="gibbs: sweeps from one kept draw to the next.")
    fit_units: int = Field(
        6000,
        ge=300,
        description="two_groups: most units (three a location) that the hyperparameters are "
        "fitted on. Of more locations a sample is drawn in which those that differ between the "
        "samples come sooner; each counts for as many as it stands for.",
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

    callable_share: Probability = Field(
        0.05,
        description="Share of an allele that must be called with a probability of .95 where a "
        "location counts as callable, in callable.bed and the report.",
    )

    @model_validator(mode="after")
    def _filters_that_are(self) -> VariantSettings:
        unknown = sorted(self.skipped_filters - set(READ_FILTERS))
        if unknown:
            raise ValueError(
                f"skip_filters names {unknown[0]!r}; the filters of reads are "
                f"{', '.join(READ_FILTERS)}"
            )
        return self

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

    @model_validator(mode="after")
    def _several_cases(self) -> VariantSettings:
        names = self.several
        if not names:
            return self
        if self.case != type(self).model_fields["case"].default:
            raise ValueError(
                f"case names {self.case!r}, cases {self.cases!r}; give one of the two settings"
            )
        if not self.controls:
            raise ValueError(
                "several cases in one run share a control or a panel, and none is named; without "
                "one give each case a run of its own"
            )
        if self.test != "two_groups":
            raise ValueError(f"several cases in one run need test two_groups, not {self.test}")
        twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if twice:
            raise ValueError(f"cases names {twice[0]!r} twice; name each case once")
        of_control = [name for name in names if name in self.controls]
        if of_control:
            raise ValueError(
                f"sample {of_control[0]!r} is named as a case and as a control; each sample has "
                "one role"
            )
        unfit = [n for n in names if NO_FOLDER.search(n) or len(n.encode()) > MOST_NAME]
        if unfit:
            raise ValueError(
                f"case {unfit[0]!r} cannot name the folder of its results: expected at most "
                f"{MOST_NAME} bytes without a slash or backslash, and not . or .."
            )
        return self

    @model_validator(mode="after")
    def _two_samples(self) -> VariantSettings:
        if self.control == self.case and not self.several:
            raise ValueError(
                f"case and control are both {self.case!r}; name two samples, or leave control "
                "empty for the germline test"
            )
        return self

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
    def _a_panel_of_others(self) -> VariantSettings:
        names = [*self.tested, *self.controls]
        twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if self.members and twice:
            raise ValueError(
                f"sample {twice[0]!r} is named twice among case, control and panel; each sample "
                "has one role"
            )
        if self.members and self.test != "two_groups":
            raise ValueError(f"a panel needs test two_groups, not {self.test}")
        return self

    @model_validator(mode="after")
    def _a_rate_to_exceed(self) -> VariantSettings:
        if self.test == "posterior_difference" and not self.control and self.tau == 0.0:
            raise ValueError(
                "test posterior_difference without a control asks for tau above 0, the least rate "
                "of a variant: every rate exceeds 0; the papers take 0.05"
            )
        return self

    @model_validator(mode="after")
    def _a_fasta_for_contexts(self) -> VariantSettings:
        if self.types == "trinucleotide" and self.fasta is None:
            raise ValueError(
                "types trinucleotide needs the bases beside each location, and no FASTA is "
                "named: give --set fasta=FILE, or types=12"
            )
        return self

    @model_validator(mode="after")
    def _draws_that_can_call(self) -> VariantSettings:
        if self.inference != "gibbs":
            return self
        if self.test != "posterior_difference":
            raise ValueError(
                f"inference gibbs goes with test posterior_difference, not {self.test}"
            )
        least = math.ceil(_LEAST_TAIL_DRAWS / self.alpha)
        if self.chains * self.draws < least:
            raise ValueError(
                f"chains * draws must be at least {least} with alpha = {self.alpha:g}, not "
                f"{self.chains * self.draws}: fewer draws cannot tell P above {1 - self.alpha:g}"
            )
        return self
