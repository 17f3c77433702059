"""What the variants report says of no call, of one, and of insertions and deletions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flows.data.runs import Dropped
from flows.variants.calls_report import (
    calls_section,
    power_warnings,
    untested,
)
from flows.variants.detection import LimitCounts
from flows.variants.indel_report import Cluster, IndelFit, PartIndels, section
from flows.variants.limits_report import (
    callable_in_words,
    detection_section,
)
from flows.variants.locations import NO_READS, NO_REFERENCE
from flows.variants.loci import Filtered
from flows.variants.part_calls import NO_STRANDS, PartCalls
from flows.variants.read_account import SampleReads
from flows.variants.report import _next_steps, headline_of
from flows.variants.settings import VariantSettings
from vbmodels.variants.read_filters import AlleleReads

PAIRED = VariantSettings(case="tumour", control="normal")
ALONE = VariantSettings(case="tumour", control="")
CALL = {
    "chrom": "1", "pos": 5, "ref": "A", "alt": "C", "MU": 0.1, "MUCI": (0.05, 0.2), "CMU": 1e-4,
    "CMUCI": (1e-5, 1e-3), "qual": 9.0, "filters": [], "QV": 0.01, "P": 0.9,
    "replicates": {"case": [(3, 30)], "control": [(0, 40)]},
}  # fmt: skip
FIT = IndelFit((("deletion, run of 1", 1e-5, 0.4),), True, 3)


def test_no_call_is_said_and_has_no_empty_table():
    part = calls_section([], PAIRED, {"strand_bias": "these counts have no strands"}, "")
    assert part.text.startswith("No allele is called. Somatic test")
    assert "strand_bias did not run" in part.text
    assert not part.grids
    assert not part.plots


def test_a_call_and_its_chart_have_the_names_of_the_samples():
    part = calls_section([CALL], PAIRED, {}, "")
    assert part.grids[0].columns[2:4] == ("tumour", "normal")
    (row,) = part.grids[0].rows
    assert row[2:4] == ("3/30", "0/40")
    colour = part.plots[0]["layer"][0]["encoding"]["color"]
    assert colour["scale"]["domain"] == ["tumour", "normal"]


def reads_of(n, quality, bare):
    """Return one allele's reads: all but the bare ones have a base quality."""
    one = [np.array([value]) for value in (n, quality * (n - bare), 0, 60 * n, 0, 25 * n, 0, 0, 1)]
    return AlleleReads(*one, np.array([bare]))


def test_a_call_opens_to_what_its_filters_compared():
    compared = Filtered({}, np.zeros(1), (reads_of(10, 30, 2), reads_of(3, 40, 0))).compared(0)
    assert compared["low_mapq"] == [60.0, None]  # three reads are too few
    assert compared["low_baseq"] == [30.0, None]  # of those that have a quality
    call = CALL | {"compared": compared, "samples": {"case": {"strands": (15, 5, 1, 3)}},
                   "filters": ["low_baseq"]}  # fmt: skip
    not_run = {"read_end": "skip_filters names it"}
    (opened,) = calls_section([call], PAIRED, not_run, "").grids[0].details
    assert opened.grids[0].rows[0][2:] == (3, 30, "10.00 %")
    rows = {row[3]: (*row[:3], row[4]) for row in opened.grids[1].rows}
    assert rows["strand_bias"] == ("on the forward strand", "25 %", "75 %", "passed")
    assert rows["low_mapq"] == ("mean mapping quality", "60.0", "too few reads", "not testable")
    assert rows["low_baseq"][3] == "removed"
    for strands, said in (
        ((10, 10, 4, 4), ("50 %", "50 %", "strand_bias", "passed")),
        ((20, 0, 8, 0), ("100 %", "100 %", "strand_bias", "not testable: all are on one strand")),
        ((20, 0, 3, 0), ("too few reads", "100 %", "strand_bias", "not testable")),
    ):
        other = call | {"samples": {"case": {"strands": strands}}}
        (opened,) = calls_section([other], PAIRED, not_run, "").grids[0].details
        assert opened.grids[1].rows[0][1:] == said
    assert rows["read_end"][1:] == ("25.0 bases", "too few reads", "did not run")
    (opened,) = calls_section([CALL], PAIRED, {}, "").grids[0].details
    assert len(opened.grids) == 1


PART = PartCalls(300, 900, ("1",), ())
FOUND = replace(PART, limits=LimitCounts.of(np.array([0.01, 0.2])), callable=b"1\t0\t269\n")


def test_the_headline_has_the_surest_variant_and_where_one_would_have_been_called():
    callable_ = (
        " An allele in 5 % of the reads would have been called, with a probability of 0.95, at "
    )
    callable_ += "269 of 300 positions."
    call = (
        "1:5 A>C in 3 of 30 reads of tumour (10.0 %, 95 % interval 5.0 to 20.0), 0 of 40 of "
        "normal. The call is false with a probability of about 1 in 8 (QUAL 9.0)."
    )
    filtered = CALL | {"filters": ["strand_bias"]}
    level = "at a false discovery rate of 0.05"
    for calls, said in (
        ([CALL], f"1 variant: {call}{callable_}"),
        ([CALL, CALL], f"2 variants {level}; the surest: {call}{callable_}"),
        ([], f"0 variants {level}.{callable_}"),
        ([filtered], f"0 variants {level} (1 more filtered).{callable_}"),
        ([filtered, CALL], f"1 variant (1 more filtered): {call}{callable_}"),
    ):
        assert headline_of([FOUND], calls, PAIRED) == said
    alone = headline_of([FOUND], [CALL], ALONE)
    assert alone.startswith(
        "1 variant: 1:5 A>C in 3 of 30 reads of tumour (10.0 %, 95 % interval 5.0 to 20.0). The "
        "call is false"
    )
    assert f"(QUAL 9.0).{callable_[:-1]}; without a control errors" in alone
    most = replace(FOUND, callable=b"1\t0\t270\n")  # of 300: the card has it
    assert headline_of([most], [CALL], PAIRED) == f"1 variant: {call}"
    for calls in ([], [filtered]):
        assert headline_of([most], calls, PAIRED).endswith(" at 270 of 300 positions.")
    assert "(QUAL 9.0). Without a control errors" in headline_of([most], [CALL], ALONE)
    reads = SampleReads([("tumour", "1"), ("tumour", "2")], 300, 300, np.array([[900, 0], [0, 0]]))
    thin = headline_of([replace(most, sample_reads=reads)], [CALL], PAIRED)
    assert thin.endswith(" at 270 of 300 positions; without reads: tumour 2.")
    papers = VariantSettings(case="tumour", control="normal", test="posterior_difference", tau=5e-4)
    said = f"1 variant by P(difference > 0.0005) > 0.95: {call} 300 positions were tested."
    assert headline_of([PART], [CALL], papers) == said
    assert headline_of([PART], [], papers).endswith(" 300 positions were tested.")


def test_of_several_cases_the_range_of_positions_is_said():
    other = replace(FOUND, callable=b"1\t0\t12\n")
    assert callable_in_words([[FOUND], [other]], PAIRED).endswith(
        " 12 to 269 of 300 positions of each case"
    )


def test_positions_without_reads_are_found():
    depth = np.array([[600, 0], [600, 0]])
    reads = SampleReads([("tumour", "1"), ("normal", "1")], 300, 200, depth)
    limits = LimitCounts(np.array([0.01, 0.2]), np.array([150, 50]))
    part = replace(FOUND, locations=200, limits=limits, sample_reads=reads)
    lost = [Dropped(reason=NO_READS, count=99, examples=["1:7", "1:8"]),
            Dropped(reason=NO_REFERENCE, count=1)]  # fmt: skip
    found = detection_section([part], PAIRED, lost)
    assert found.grids[0].rows[-2:] == [
        ("99 more (some are named in Input files)", "not detectable", "no read in any sample", "0",
         "0"),
        ("1 more", "not detectable", "the reference is not A, C, G or T", "", ""),
    ]  # fmt: skip
    one = [Dropped(reason=NO_READS, count=1, examples=["1:300"])]
    assert detection_section([part], PAIRED, one).grids[0].rows[-1][0] == "1:300"


def test_a_single_call_is_open_above_the_text():
    assert calls_section([CALL], PAIRED, {}, "").tables_first
    assert not calls_section([CALL, CALL], PAIRED, {}, "").tables_first
    (chart,) = calls_section([CALL], PAIRED, {}, "").plots
    said = "No read of normal has the allele: its point is the error rate expected."
    assert chart["usermeta"]["how"].endswith(said)
    (chart,) = calls_section([CALL | {"replicates": {"case": [(3, 30)]}}], ALONE, {}, "").plots
    assert "has the allele" not in chart["usermeta"]["how"]


def test_samples_of_a_panel_are_named():
    panel = VariantSettings(case="tumour", control="", panel="ann,bob")
    call = CALL | {"replicates": {"case": [(3, 30)], "panel": [(0, 4000), (2, 4000)]}}
    (grid,) = calls_section([call], panel, {}, "").grids
    assert grid.rows[0][3] == "2/8,000; 2/4,000 in bob"
    assert grid.details[0].grids[0].rows[1:] == [
        ("ann", "all", 0, 4000, "0.00 %"), ("bob", "all", 2, 4000, "0.05 %"),
    ]  # fmt: skip


def test_what_a_warning_says_of_filters_is_not_repeated():
    text = calls_section([CALL], PAIRED, {"strand_bias": NO_STRANDS}, "").text
    assert NO_STRANDS not in text


def test_pass_names_the_filters_that_ran():
    text = calls_section([CALL], PAIRED, {"strand_bias": "no strands"}, "").text
    assert "PASS: called, and not removed by any filter (read_end, low_mapq" in text
    assert "strand_bias did not run: no strands." in text


def test_indels_have_short_heads_and_no_control_no_column():
    one = Cluster("1", 3, 9, 2, (4, 1000), (0, 900), 1e-5)
    paired = section([PartIndels(10, 1, (), (one,))], FIT, PAIRED)
    assert paired.text.startswith("The reads show 1 insertion or deletion of")
    assert "At 1 place tumour has" in paired.text
    assert [grid.columns for grid in paired.grids] == [
        ("error", "rate", "factor"), ("place", "alleles", "tumour", "normal", "p"),
    ]  # fmt: skip
    assert paired.grids[1].rows == [("1:3-9", 2, "4/1,000", "0/900", 1e-5)]
    alone = section([PartIndels(10, 2, (), (one,))], FIT, ALONE)
    assert [grid.columns for grid in alone.grids] == [
        ("error", "rate"), ("place", "alleles", "tumour", "p"),
    ]  # fmt: skip
    assert "reads of tumour." in alone.how


def without(name):
    return VariantSettings(case="tumour", control="normal", skip_filters=name)


def test_filters_that_could_not_remove_a_call_are_counted_and_a_warning():
    alike = {"read_end": [25.8, 24.4], "low_mapq": [60.0, 60.0], "low_baseq": [40.0, 40.0],
             "near_indel": [0.0, 0.0], "many_mismatches": [0.0, 0.0]}  # fmt: skip
    call = CALL | {"compared": alike, "samples": {"case": {"strands": (1857, 0, 216, 0)}}}
    assert power_warnings([call], PAIRED) == [
        "All reads of the case at the call are on one strand, of one mapping "
        "quality (MAPQ) and of one base quality, so strand bias, mapping quality and "
        "base quality could not be checked. More reads of the same kind do not help: confirm with "
        "reads of both strands, or by another method, such as digital PCR."
    ]
    said = (
        "(QUAL 9.0); an artefact is not excluded, as 3 of 6 filters could not be tested. An allele"
    )
    assert said in headline_of([FOUND], [call], PAIRED)
    (row,) = calls_section([call], PAIRED, {}, "").grids[0].rows
    assert row[5] == "PASS (3 of 6 filters not testable)"
    assert untested(call, PAIRED) == ["strand_bias", "low_mapq", "low_baseq"]
    assert untested(CALL, PAIRED) == []
    step, *_ = _next_steps([FOUND], [call], PAIRED)
    assert step.text.startswith("Confirm ")
    assert "both strands" in step.text
    assert step.text.endswith(": strand_bias, low_mapq, low_baseq could not be tested.")
    skipped = without("strand_bias,low_mapq,low_baseq")
    assert not any(s.text.startswith("Confirm ") for s in _next_steps([FOUND], [call], skipped))
    (row,) = calls_section([call], without("read_end"), {}, "").grids[0].rows
    assert row[5] == "PASS (4 of 6 filters not testable)"
    usual = call | {"compared": alike | {"low_mapq": [59.0, 60.0], "low_baseq": [39.0, 38.0]},
                    "samples": {"case": {"strands": (900, 957, 100, 116)}}}  # fmt: skip
    assert power_warnings([usual], PAIRED) == []
    equal = usual | {"compared": usual["compared"] | {"low_mapq": [60.0, 60.0]}}
    assert power_warnings([equal, usual], PAIRED) == []
    assert power_warnings([equal], without("low_mapq")) == []
    (warned,) = power_warnings([equal, equal], PAIRED)
    assert warned.startswith(
        "All reads of the case at every call are of one mapping quality (MAPQ), so mapping quality "
    )
    few = usual | {"samples": {"case": {"strands": (900, 957, 3, 0)}}}
    assert power_warnings([few], PAIRED) == []


def test_a_filter_that_a_call_has_not_is_not_said_to_compare_nothing():
    alike = {"low_mapq": [60.0, 60.0], "low_baseq": [40.0, 40.0]}
    calls = [{"ref": "A", "alt": "C", "samples": {"case": {"strands": None}}, "compared": one}
             for one in (alike, {"low_mapq": [60.0, 60.0], "low_baseq": [30.0, 40.0]})]  # fmt: skip
    (warned,) = power_warnings(calls, PAIRED)
    assert "so mapping quality could not be checked." in warned
    assert power_warnings([], PAIRED) == []
