"""Every family: a score of the training source gives the tables that the fit published.

Where they may differ the row says by how much, and why; so does the family's page of the docs.
"""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.records.runs import open_run
from tests.flows.commands import run, setting_args, succeed

SOURCES = {
    "keywords": (120, ""),
    "variants": (90, "counts.parquet"),
    "bags": (60, "bags.parquet"),
    "experts": (200, "table.parquet"),
    "features": (200, "table.parquet"),
}
KEYS = {
    "keywords": ["doc_id", "term"],
    "loci": ["chrom", "pos"],
    "bags": ["bag_id"],
    "instances": ["bag_id", "modality", "instance_id"],
    "rows": ["id"],
    "imputed": ["id", "column", "category"],
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sources")
    for family, (rows, _) in SOURCES.items():
        succeed("simulate", family, folder / family, "--rows", rows, "--seed", 3)
    return folder


def tables_of(sources, target, family, names, *options):
    """Fit and score one source; return each table of both, sorted by its rows' names."""
    source = sources / family / SOURCES[family][1]
    settings = [part for option in options for part in ("--set", option)]
    succeed(family, source, target / "fit", "--partitions", 3, *settings)
    succeed("score", target / "fit", source, target / "again")
    roots = [Path(open_run(str(target / name))[0].root) for name in ("fit", "again")]
    page = (roots[1] / "report.html").read_text()
    assert "The fit has read this input" in page or "Do not act on these predictions" in page
    return [
        [pq.read_table(root / name).sort_by([(key, "ascending") for key in KEYS[name]])
         for root in roots]
        for name in names
    ]  # fmt: skip


def differences(fit, again, leave=()):
    """Check that all but numbers are equal; return the largest difference of each row."""
    assert fit.column_names == again.column_names
    worst = np.zeros(len(fit))
    for name in set(fit.column_names) - set(leave):
        one, other = fit[name].combine_chunks(), again[name].combine_chunks()
        if not pa.types.is_floating(one.type):
            assert one.equals(other), f"{name} differs"
            continue
        a, b = (x.to_numpy(zero_copy_only=False).astype(float) for x in (one, other))
        assert np.array_equal(np.isnan(a), np.isnan(b)), f"{name}: not the same are missing"
        np.maximum(worst, np.nan_to_num(np.abs(a - b)), out=worst)
    return worst


def ranked_alike(fit, again, atol):
    """Whether ranks differ only where probabilities are alike, if there are ranks."""
    if "rank" not in fit.column_names:
        return True
    one, other = fit.to_pandas(), again.to_pandas()
    moved = (one["rank"] != other["rank"]).to_numpy()
    at = one.set_index(["doc_id", "rank"])["probability"]
    taken = at.loc[list(zip(other["doc_id"][moved], other["rank"][moved], strict=True))]
    return bool(np.all(np.abs(taken.to_numpy() - one["probability"][moved]) <= 2 * atol))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("family", "names", "options", "atol"),
    [
        ("keywords", ["keywords"], ("model=vbss", "tol=1e-9"), 1e-6),
        ("variants", ["loci"], (), 1e-9),
        pytest.param(
            "variants",
            ["loci"],
            ("test=posterior_difference", "tau=0.01"),
            1e-6,
            marks=pytest.mark.slow,
        ),
        ("bags", ["bags", "instances"], ("held_out=0.2",), 1e-9),
        pytest.param(
            "bags",
            ["bags", "instances"],
            ("model=vmmic", "inference=gibbs", "warmup=5", "draws=20"),
            1e-9,
            marks=pytest.mark.slow,
        ),
        ("experts", ["rows"], ("n_experts=2",), 1e-9),
        ("features", ["rows", "imputed"], ("n_features=6",), 1e-9),
    ],
)
def test_a_score_of_the_training_source_is_what_was_published(
    sources, tmp_path, family, names, options, atol
):
    # A score has seen none of the labels, so none is held out.
    for fit, again in tables_of(sources, tmp_path, family, names, *options):
        assert len(fit) > 50
        found = differences(fit, again, leave=("held_out", "rank", "without_it"))
        assert ranked_alike(fit, again, atol)
        assert found.max() <= atol, f"{int((found > atol).sum())} of {len(found)} rows differ"


def test_a_score_prints_rows_and_their_probabilities(sources, tmp_path, capsys):
    """And measures nothing of what the fit has read."""
    source = sources / "experts" / SOURCES["experts"][1]
    quick = setting_args("n_experts=1", "baselines=false")
    succeed("experts", source, tmp_path / "fit", *quick)
    code, out, _ = run(capsys, "score", tmp_path / "fit", source, tmp_path / "new")
    paths, record = open_run(str(tmp_path / "new"))
    assert (code, record.results["seen"], record.results["test"]) == (0, 1, None)
    assert f"rows: vbflows show {tmp_path / 'new'} rows" in out.splitlines()
    page = (Path(paths.root) / "report.html").read_text()
    assert f"../../../fit/runs/{open_run(str(tmp_path / 'fit'))[1].run_id}/" in page
    succeed("simulate", "experts", tmp_path / "in", "--rows", 80, "--seed", 9)
    succeed("score", tmp_path / "fit", tmp_path / "in", tmp_path / "other")
    assert open_run(str(tmp_path / "other"))[1].results["seen"] == 0
    table = pq.read_table(tmp_path / "in" / "table.parquet")
    names = pa.array([f"new {name}" for name in table["id"].to_pylist()])
    pq.write_table(table.set_column(0, "id", names), tmp_path / "in" / "table.parquet")
    succeed("score", tmp_path / "fit", source, tmp_path / "in", tmp_path / "both")
    both = open_run(str(tmp_path / "both"))[1].results
    assert (both["seen"], both["files"], both["test"]) == (1, 2, None)
    page = tmp_path / "c.html"
    compared = json.loads(
        run(capsys, "compare", tmp_path / "fit", tmp_path / "new", "--json", "--report", page)[1]
    )
    [moved] = compared["moved"]
    assert (moved["table"], moved["column"], moved["shared"]) == (
        "rows", record.results["names"]["column"], record.rows_kept,
    )  # fmt: skip
    assert page.exists()
    code, _, err = run(capsys, "score", tmp_path / "fit", source, tmp_path / "new")
    assert (code, "\nload\n" in err, "\nfit\n" in err) == (0, True, False)
    before = source.read_bytes()
    code, _, err = run(capsys, "compare", tmp_path / "fit", tmp_path / "new", "--report", source)
    assert (code, source.read_bytes()) == (2, before)
    assert "expected a file whose name ends in .html" in err
