"""A case whose library differs from the control's, by substitution and by the bases around it."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from flows.variants.input.counts import Loci
from flows.variants.input.training_sites import contexts_of
from flows.variants.settings import VariantSettings
from tests.flows.commands import answer, succeed
from tests.flows.variants.scenario_files import write_scenario
from tests.flows.variants.variant_files import loci, options
from tests.vbmodels.variants.contexts_along import along
from vbmodels.variants.two_groups.contexts import UNKNOWN

FAST = ("--set", "tol=1e-4")


@pytest.fixture(scope="module")
def deaminated(tmp_path_factory):
    target = tmp_path_factory.mktemp("deaminated")
    write_scenario(str(target), 450, 2, "null_cpg8")
    return target


@pytest.mark.thorough
def test_contexts_are_said_not_called_and_the_same_however_rows_are_cut(
    capsys, deaminated, tmp_path
):
    source = deaminated / "counts.parquet"
    how = (*FAST, *options(fasta=deaminated / "reference.fa", types="trinucleotide"))
    result = answer(capsys, "variants", source, tmp_path / "a", *how, "--partitions", 4)
    succeed("variants", source, tmp_path / "b", *how, "--partitions", 1)
    assert not result["results"]["calls"]
    contexts = result["results"]["cases"][0]["differences"]["contexts"]
    assert contexts
    assert all("[C>T]G" in one["name"] or "C[G>A]" in one["name"] for one in contexts)
    (place,) = Path(tmp_path, "a", "runs").glob("*")
    rows = pq.read_table(place / "posterior" / "parameters.parquet").to_pylist()
    of = {r["index"]: r["mean"] for r in rows if r["name"] == "context_shift"}
    assert len(of) == 204
    assert of["A[C>T]G"] > 1.2 > of["A[C>T]A"]
    one, other = (loci(tmp_path / name).sort_by("pos") for name in "ab")
    for column in ("prob", "case_mean", "case_q95"):
        a, b = one[column].to_numpy(), other[column].to_numpy()
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-9, err_msg=column)


def test_contexts_of_locations_come_from_the_fasta(deaminated):
    fasta = deaminated / "reference.fa"
    settings = VariantSettings(fasta=str(fasta), types="trinucleotide")
    ref = np.array(["ACGT".index(base) for base in fasta.read_text().split("\n")[1]])
    pos = np.array([450, 1, 2, 17, 300])
    places = Loci(np.array(["chrsimulated"] * 5), pos, None, None, None)
    assert contexts_of(places, settings).tolist() == along(ref)[pos - 1].tolist()
    assert contexts_of(places, settings)[:2].tolist() == [UNKNOWN, UNKNOWN]
    other = Loci(np.array(["elsewhere"]), np.array([5]), None, None, None)
    assert contexts_of(other, settings).tolist() == [UNKNOWN]
    assert contexts_of(places, VariantSettings()) is None
