"""What the variants report says of no call, of one, and of insertions and deletions."""

from __future__ import annotations

from flows.variants.indel_report import Cluster, IndelFit, PartIndels, section
from flows.variants.report import _calls, _depth
from flows.variants.settings import VariantSettings

PAIRED = VariantSettings(case="tumour", control="normal")
ALONE = VariantSettings(case="tumour", control="")
CALL = {
    "chrom": "1", "pos": 5, "ref": "A", "alt": "C", "MU": 0.1, "MUCI": (0.05, 0.2), "CMU": 1e-4,
    "CMUCI": (1e-5, 1e-3), "qual": 9.0, "filters": [], "QV": 0.01, "P": 0.9,
    "replicates": {"case": [(3, 30)], "control": [(0, 40)]},
}  # fmt: skip
FIT = IndelFit((("deletion, run of 1", 1e-5, 0.4),), True, 3)


def test_no_call_is_said_and_has_no_empty_table():
    part = _calls([], PAIRED, {"strand_bias": "these counts have no strands"}, "")
    assert part.text.startswith("No allele is called. Somatic test")
    assert "strand_bias did not run" in part.text
    assert not part.grids
    assert not part.plots


def test_a_call_and_its_chart_have_the_names_of_the_samples():
    part = _calls([CALL], PAIRED, {}, "")
    assert part.grids[0].columns[2:4] == ("tumour", "normal")
    (row,) = part.grids[0].rows
    assert row[2:4] == ("3/30", "0/40")
    colour = part.plots[0]["layer"][0]["encoding"]["color"]
    assert colour["scale"]["domain"] == ["tumour", "normal"]


def test_the_depth_leads_to_a_limit_where_there_is_one():
    assert _depth([], PAIRED, True).how.endswith("see Limit of detection.")
    assert "Limit" not in _depth([], PAIRED, False).how


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
