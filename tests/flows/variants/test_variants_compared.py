"""What the filters of reads compared at a call, and which of them could test it."""

import numpy as np
import pytest

from flows.family import Finished
from flows.records.runs import RunPaths
from flows.variants.answer import answer
from flows.variants.calls.alleles import compared, untested
from flows.variants.calls.loci import Filtered
from flows.variants.calls.part_calls import Cluster, IndelFit, IndelRate, PartCalls, PartIndels
from flows.variants.calls.samples import Reads
from flows.variants.case_files import CaseFound
from flows.variants.settings import VariantSettings
from vbmodels.variants.read_filters import AlleleReads

PAIRED = VariantSettings(case="tumour", control="normal")
CALL = {
    "chrom": "1", "pos": 5, "ref": "A", "alt": "C", "MU": 0.1, "MUCI": (0.05, 0.2), "CMU": 1e-4,
    "CMUCI": (1e-5, 1e-3), "qual": 9.0, "filters": [], "QV": 0.01, "P": 0.9,
    "replicates": {"case": [(3, 30)], "control": [(0, 40)]},
}  # fmt: skip
ALIKE = {"read_end": [25.8, 24.4], "low_mapq": [60.0, 60.0], "low_baseq": [40.0, 40.0],
         "near_indel": [0.0, 0.0], "many_mismatches": [0.0, 0.0]}  # fmt: skip


def reads_of(n, quality, bare):
    """Return one allele's reads: all but the bare ones have a base quality."""
    one = [np.array([value]) for value in (n, quality * (n - bare), 0, 60 * n, 0, 25 * n, 0, 0, 1)]
    return AlleleReads(*one, np.array([bare]))


def with_strands(*strands, **more):
    return CALL | {"compared": ALIKE, "samples": {"case": {"strands": strands}}} | more


def answered(*calls, settings=PAIRED, **more):
    """Return the answer of a run of one partition with these calls."""
    part = PartCalls(300, ("1",), calls, **more)
    found = CaseFound(settings.case, [part], None)
    return answer(Finished(None, None, [found], [], settings, RunPaths("o", "1"), None, 1, 0))


def test_reads_are_compared_where_there_are_enough_with_a_quality():
    found = Filtered({}, np.zeros(1), (reads_of(10, 30, 2), reads_of(3, 40, 0))).compared(0)
    assert found["low_mapq"] == [60.0, None]  # three reads are too few
    assert found["low_baseq"] == [30.0, None]  # of those that have a quality


@pytest.mark.parametrize(
    ("strands", "result"),
    [
        ((15, 5, 1, 3), "passed"),
        ((10, 10, 4, 4), "passed"),
        ((20, 0, 8, 0), "all alike"),
        ((20, 0, 3, 0), "too few reads"),
    ],
)
def test_a_call_has_what_came_of_each_filter(strands, result):
    (call,) = answered(with_strands(*strands, filters=["read_end"])).calls
    results = {one.compared.filter: one.result for one in call.tested}
    assert results == {
        "strand_bias": result, "read_end": "removed", "low_mapq": "all alike",
        "low_baseq": "all alike", "near_indel": "passed", "many_mismatches": "passed",
    }  # fmt: skip


def test_filters_that_could_not_remove_a_call_are_counted():
    call = with_strands(1857, 0, 216, 0)
    assert untested(call, PAIRED) == ["strand_bias", "low_mapq", "low_baseq"]
    assert untested(CALL, PAIRED) == []
    skipped = VariantSettings(case="tumour", control="normal", skip_filters="low_mapq")
    assert [one.filter for one in compared(call, skipped.skipped_filters)][2] == "low_baseq"
    assert answered(call).first.alike == ("strand_bias", "low_mapq", "low_baseq")
    assert answered(call, settings=skipped).first.alike == ("strand_bias", "low_baseq")
    usual = {"compared": ALIKE | {"low_mapq": [59.0, 60.0], "low_baseq": [39.0, 38.0]}}
    other = with_strands(900, 957, 100, 116, **usual)
    assert answered(other).first.alike == answered(call, other).first.alike == ()
    assert answered(CALL).first.alike == ()


def test_a_filter_that_a_call_has_not_is_not_said_to_compare_nothing():
    """Calls of indels have fewer filters."""
    short = {"compared": {"low_mapq": [60.0, 60.0]}}
    found = answered(with_strands(9, 9, 9, 9), with_strands(9, 9, 9, 9, **short)).first
    assert found.alike == ("low_mapq", "low_baseq")


def test_the_sample_of_a_panel_with_the_largest_share_is_named():
    panel = VariantSettings(case="tumour", control="", panel="ann,bob")
    of_panel = {"replicates": {"case": [(3, 30)], "panel": [(0, 4000), (2, 4000)]}}
    (call,) = answered(CALL | of_panel, settings=panel).calls
    assert (call.panel, call.most_in, call.most) == (Reads(2, 8000), "bob", Reads(2, 4000))
    assert [(one.sample, one.replicate) for one in call.replicates[1:]] == [
        ("ann", "all"), ("bob", "all"),
    ]  # fmt: skip


def test_places_of_indels_are_the_surest_first():
    less, more = (Cluster("1", at, at + 6, 2, Reads(4, 1000), Reads(0, 900), p) for at, p in
                  ((3, 1e-4), (50, 1e-5)))  # fmt: skip
    fit = IndelFit((IndelRate("deletion, run of 1", 1e-5, 0.4),), True, 3)
    found = answered(indels=PartIndels(10, 1, (), (less, more)), indel_fit=fit).first.indels
    assert [one.name for one in found.places] == ["1:50-56", "1:3-9"]
    assert (found.tested, found.shown, found.called) == (10, 1, 0)
