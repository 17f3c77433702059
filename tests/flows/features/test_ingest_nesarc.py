"""The NESARC reader: its mapping against the codebook's margins, and the real rows there are."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from flows.cli import main
from flows.faults import InputError
from flows.features.nesarc import CRITERIA, DIAGNOSES, read_nesarc

N = 43_093


@pytest.fixture(scope="module")
def codebook(shared_data):
    """Every variable's codes and their numbers of people."""
    table = pq.read_table(shared_data / "features" / "nesarc_codebook_marginals.parquet")
    found: dict[str, dict[str, int]] = {}
    for row in table.to_pylist():
        found.setdefault(row["var"], {})[row["code"]] = row["freq"]
    return found


@pytest.fixture(scope="module")
def raw(codebook):
    """A file with the codebook's exact margins, people in random order in each variable."""
    rng = np.random.default_rng(0)
    variables = {v for parts in (*CRITERIA.values(), *DIAGNOSES.values()) for v, _ in parts}
    columns = {"IDNUM": pa.array(np.arange(1, N + 1))}
    for name in sorted(variables):
        codes = codebook[name]
        values = np.repeat([c if c != "BL" else "" for c in codes], list(codes.values()))
        assert len(values) == N, name
        columns[name] = pa.array(rng.permutation(values))
    return pa.table(columns)


def test_every_variable_is_in_the_codebook_and_has_the_codes_expected(codebook):
    assert (len(CRITERIA), len(DIAGNOSES)) == (52, 20)
    for parts in (*CRITERIA.values(), *DIAGNOSES.values()):
        for variable, codes in parts:
            assert set(codes) & set(codebook[variable]), variable
            assert set(codebook[variable]) <= {"0", "1", "2", "3", "9", "BL"}, variable


def test_criteria_have_the_codebooks_rates(raw, shared_data):
    found = read_nesarc(raw, "nesarc_criteria", "raw")
    margins = pa.csv.read_csv(shared_data / "features" / "appendixD_criteria_marginals.csv")
    rows = {row["criterion"]: row for row in margins.to_pylist()}
    assert found.column_names == ["id", *rows]
    for name, row in rows.items():
        assert [v for v, _ in CRITERIA[name]] == row["vars"].split("|"), name
        rate = sum(x == "yes" for x in found[name].to_pylist()) / N
        assert row["rate_lo"] - 1e-9 <= rate <= row["rate_hi"] + 1e-9, name


def test_unknown_is_missing_and_what_was_not_asked_is_no(raw, codebook):
    found = read_nesarc(raw, "nesarc_criteria", "raw")
    assert found["AvPD1"].null_count == codebook["S10Q1A1"]["9"]
    assert found["APD7"].null_count <= codebook["S11AQ8A"]["9"] + codebook["S11AQ8B"]["9"]


def test_diagnoses_have_the_codebooks_counts(raw, codebook):
    found = read_nesarc(raw, "nesarc_diagnoses", "raw")
    for name, parts in DIAGNOSES.items():
        counts = [sum(codebook[v].get(c, 0) for c in codes) for v, codes in parts]
        yes = sum(x == "yes" for x in found[name].to_pylist())
        assert max(counts) <= yes <= sum(counts), name


def test_absent_variables_are_all_named(raw):
    with pytest.raises(InputError) as caught:
        read_nesarc(raw.drop_columns(["S10Q1A1", "GENAXLIFE", "S11AQ8A"]), "nesarc_criteria", "f")
    assert [fault.column for fault in caught.value.faults] == ["S10Q1A1", "S11AQ8A"]


def test_the_94_real_rows_run_through_the_pipeline(shared_data, tmp_path, capsys):
    source = shared_data / "features" / "nesarc_94rows_criteria52.parquet"
    with pytest.raises(SystemExit) as stopped:
        main(["features", str(source), str(tmp_path), "--set",
              "form=nesarc_criteria", "--set", "n_features=4", "--set", "tol=1e-5"])  # fmt: skip
    said = "".join(capsys.readouterr())
    assert stopped.value.code == 0, said
    run_id = json.loads((tmp_path / "latest.json").read_text())["run_id"]
    record = json.loads((tmp_path / "runs" / run_id / "run.json").read_text())
    assert record["rows_kept"] == 94
    assert "with one category only were left out" in said
    assert "DPD6" in said


@pytest.mark.parametrize("cells", [[0.5, 1.0], [float("inf"), 1.0], [[1], [2]]])
def test_what_is_no_code_is_named(cells):
    parts = [v for own in DIAGNOSES.values() for v, _ in own]
    table = pa.table({v: pa.array(cells if v == "DYSLIFE" else [1, 0]) for v in parts})
    with pytest.raises(
        InputError, match="column DYSLIFE: expected codes, as whole numbers or text"
    ):
        read_nesarc(table, "nesarc_diagnoses", "x.parquet")
