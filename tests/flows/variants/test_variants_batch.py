"""A case whose library differs from the control's: what the run, its report and its VCF say."""

import json
from pathlib import Path

import pysam
import pytest

from flows.cli import main
from tests.flows.variants.scenario_files import write_scenario

FAST = ("--set", "tol=1e-4")


def run(capsys, *arguments):
    """Return (exit code, stdout, stderr) of a command."""
    with pytest.raises(SystemExit) as stopped:
        main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return stopped.value.code, captured.out, captured.err


@pytest.fixture(scope="module")
def oxidised(tmp_path_factory):
    target = tmp_path_factory.mktemp("oxidised")
    write_scenario(str(target), 300, 1, "null_oxo5")
    return target / "counts.parquet"


def answer(capsys, oxidised, target, *options):
    code, out, err = run(capsys, "variants", oxidised, target, *FAST, *options, "--json")
    assert code == 0, err
    (place,) = Path(target, "runs").glob("*")
    return json.loads(out), place


def test_oxidation_is_said_and_not_called(capsys, oxidised, tmp_path):
    told, place = answer(capsys, oxidised, tmp_path)
    assert told["results"]["calls"] == 0
    assert 3.0 < told["results"]["largest_factor"] < 8.0
    warned = " ".join(told["warnings"])
    for name in ("G>T", "C>A"):
        assert f"{name} errors are" in warned
    assert "A>G errors are" not in warned
    assert "taken as the null" in warned
    page = (place / "report.html").read_text()
    assert "Differences between the samples" in page
    with pysam.VariantFile(str(place / "variants.vcf.gz")) as vcf:
        (null,) = [r.value for r in vcf.header.records if r.key == "vbflows_null"]
    assert null.startswith("batch:")
    assert "G>T x" in null


def test_scores_and_later_runs_take_up_the_fit(capsys, oxidised, tmp_path):
    _, place = answer(capsys, oxidised, tmp_path)
    code, out, err = run(capsys, "score", place, oxidised, tmp_path / "scored",
                         "--json")  # fmt: skip
    assert code == 0, err
    assert json.loads(out)["results"]["calls"] == 0
    code, _, err = run(capsys, "variants", oxidised, tmp_path, *FAST, "--since", "latest")
    assert code == 0, err
