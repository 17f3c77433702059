"""A case against a panel of controls: from counts and from reads, its report, VCF and faults."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pysam
import pytest

from flows.records.runs import open_run
from flows.variants.calls.samples import Mixed, mixed, mixed_in
from flows.variants.settings import VariantSettings
from tests.flows.commands import answer
from tests.flows.variants.scenario_files import write_scenario
from vbmodels.variants.counts import Counts

NORMALS = "normal1,normal2,normal3"
QUICK = ("--set", "max_iter=3", "--set", "control=", "--set", f"panel={NORMALS}")


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    target = tmp_path_factory.mktemp("panel")
    write_scenario(str(target), 24, 3, "simpanel_carriers")
    path = target / "counts.parquet"
    rows = pq.read_table(path)
    reads = {b: rows[b].to_numpy().copy() for b in "ACGT"}
    carried = (rows["pos"].to_numpy() == 20) & (np.array(rows["sample"].to_pylist()) == "case")
    alt = "A" if rows["ref"][int(np.flatnonzero(carried)[0])].as_py() != "A" else "C"
    reads[alt][carried] += 400
    for b, values in reads.items():
        rows = rows.set_column(rows.column_names.index(b), b, pa.array(values))
    pq.write_table(rows, path)
    return path


def place(target):
    return Path(open_run(str(target))[0].root)


def test_a_tumour_alone_is_called_against_a_panel(capsys, simulated, tmp_path):
    result = answer(capsys, "variants", simulated, tmp_path, *QUICK)
    assert result["results"]["calls"]
    with pysam.VariantFile(str(place(tmp_path) / "variants.vcf.gz")) as vcf:
        names = list(vcf.header.samples)
        assert names == ["case", "case:1", "case:2", "case:3", "normal1", "normal2", "normal3"]
        assert "case's error rates are the panel's times a factor" in str(vcf.header)
        record = next(r for r in vcf if r.pos == 20)
        rows = pq.read_table(simulated).to_pylist()
        for name in ("case", "normal2"):
            own = [r for r in rows if r["pos"] == record.pos and r["sample"] == name]
            assert record.samples[name]["AD"][1] == sum(r[record.alts[0]] for r in own)
        assert record.info["CMU"] < record.info["MU"]
    depth = pq.read_table(place(tmp_path) / "loci")["control_depth"].to_pylist()
    assert max(depth) > 3 * 3 * 3000  # three samples of three replicates
    shifts = pq.read_table(place(tmp_path) / "posterior" / "parameters.parquet").to_pylist()
    assert sum(row["name"] == "member_shift" for row in shifts) == 36


def people(shares):
    """Counts of 5 locations: a case of one replicate, then the control's by share of C."""
    counts = np.zeros((5, 1 + len(shares), 4), np.int32)
    counts[:, :, 0] = 100
    for i, share in enumerate(shares):
        counts[:, 1 + i, 1] = np.rint(100 * np.array(share))
    return Counts(counts, np.zeros(5, np.int8), np.arange(1 + len(shares)) == 0)


def test_replicates_of_different_people_are_reported():
    mine, other = [0.0, 0.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0, 1.0]
    found = mixed(people([mine, other]), VariantSettings())
    assert found == (Mixed("control", 3),)
    assert mixed_in([found]) == (Mixed("control", 3),)
    assert mixed(people([mine, mine]), VariantSettings()) == ()
    assert mixed_in([[Mixed("control", 1)], [Mixed("control", 1)]]) == ()
    # As samples of a panel they may.
    counts = people([mine, other])
    panel = Counts(counts.counts, counts.ref, counts.case, member=np.array([-1, 0, 1]))
    assert mixed(panel, VariantSettings(control="", panel="a,b")) == ()
