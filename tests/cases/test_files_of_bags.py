"""A file a bag: features of slides, flow cytometry, AnnData, and a table with a line a file."""

import json

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows import storage
from flows.bags.family import FAMILY
from flows.bags.input import instances as instances_of
from flows.bags.schema import instances_in
from flows.bags.settings import BagSettings
from flows.storage import expand
from flows.storage.formats.converted import as_parquet
from flows.tables.reading import add_absent_columns
from tests.flows.commands import run

WIDTH, BAGS = 6, 24
MODEL = "--set=model=embedding"
GROUPED = "24 bags are 12 groups by column case_id"


def slides():
    """Features and places of some slides; slides of odd number are positive."""
    random = np.random.default_rng(0)
    for k in range(BAGS):
        rows = 8 + k % 5
        features = random.normal(size=(rows, WIDTH)).astype(np.float32)
        if k % 2:
            features[:3, 0] += 4.0
        places = np.column_stack([np.arange(rows) * 256, np.arange(rows) % 3 * 256])
        yield f"TCGA-{k:02d}.A1", features, places


def write_labels(path, *, ending="", lines=()):
    """Write a table with a line a slide: its case and its label."""
    rows = [
        f"case_{k // 2},TCGA-{k:02d}.A1{ending},{'yes' if k % 2 else 'no'}" for k in range(BAGS)
    ]
    path.write_text("\n".join(["case_id,slide_id,label", *rows, *lines]))


def write_clam(path, features, places):
    with h5py.File(path, "w") as file:
        file["features"], file["coords"] = features, places


def write_trident(path, features, places):
    with h5py.File(path, "w") as file:
        file["features"], file["coords"] = features[None], places[None]


def write_stamp(path, features, places):
    with h5py.File(path, "w") as file:
        file["feats"], file["coords"] = features, places.astype(float)
        file.attrs["extractor"], file.attrs["tile_size_um"] = "uni", 256.0


def write_one_array(path, features, places):
    with h5py.File(path, "w") as file:
        file["embedding"] = features


def write_named_array(path, features, places):
    with h5py.File(path, "w") as file:
        file["embedding"], file["coords"] = features, places


def write_group(path, features, places):
    with h5py.File(path, "w") as file:
        file["uni/features"], file["uni/coords"] = features, places


LAYOUTS = {
    "CLAM": write_clam,
    "TRIDENT": write_trident,
    "STAMP": write_stamp,
    "one array": write_one_array,
    "array of any name": write_named_array,
    "one group": write_group,
}


def check(capsys, *command):
    code, out, err = run(capsys, "check", "bags", *command, "--json")
    assert code == 0, err
    found = json.loads(out)
    return found, {one["name"]: one["used"] for one in found["columns"]}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_folder_of_slides_goes_in_as_it_is(tmp_path, capsys, layout):
    for name, features, places in slides():
        LAYOUTS[layout](tmp_path / f"{name}.h5", features, places)
    again = "case_0,TCGA-00.A1.svs,no"  # a line that stands twice
    write_labels(tmp_path / "labels.csv", ending=".svs", lines=[again])
    found, used = check(capsys, tmp_path)
    assert used["bag_id"] == "bag_id"
    assert used["label"] == "label: positive is yes"
    assert used["case_id"] == "group"
    assert ("instance_id" in used) == (layout != "one array")
    assert "coords" not in used
    assert "slide_id" not in used
    assert any(GROUPED in one for one in found["warnings"])
    assert any("labels.csv has the cells of each file's rows" in one for one in found["warnings"])
    assert not any("left out: " in one or "several files" in one for one in found["warnings"])


@pytest.mark.parametrize(
    ("labels", "used"),
    [
        ({0: "no", 50: "yes"}, "label: positive is yes"),
        ({0: "0", 50: "1"}, "label: positive is 1"),
        ({0: "1", 20: "2", 35: "3", 52: "4"}, "label: the level is predicted"),
    ],
)
@pytest.mark.parametrize("form", ["list", "files"])
def test_labels_of_files_in_their_order_are_all_known(form, labels, used, tmp_path, capsys):
    """The first files have one label alone."""
    random = np.random.default_rng(0)
    lines = ["slide,result"]
    for k in range(54):
        label = [word for first, word in labels.items() if first <= k][-1]
        lines.append(f"s{k:02d},{label}")
        features = random.normal(size=(3, 4)).astype(np.float32)
        if form == "list":
            write_clam(tmp_path / f"s{k:02d}.h5", features, np.zeros((3, 2)))
        else:
            rows = [f"{label},{','.join(map(str, row))}" for row in features]
            (tmp_path / f"s{k:02d}.csv").write_text("\n".join(["result,a,b,c,d", *rows]))
    if form == "list":
        absent = [f"gone{k},pending" for k in range(5)]
        (tmp_path / "labels.csv").write_text("\n".join([*lines, *absent]))
    of_files = ["--column", "bag_id=FILE"] if form == "files" else []
    _, found = check(capsys, tmp_path, "--column", "label=result", *of_files)
    assert found["result"] == used


def test_a_label_in_the_files_counts_before_that_of_their_list(tmp_path, capsys):
    for k, (name, features, places) in enumerate(slides()):
        write_clam(tmp_path / f"{name}.h5", features, places)
        with h5py.File(tmp_path / f"{name}.h5", "a") as file:
            file.attrs["label"] = "tumor" if k % 2 else "normal"
    rows = [f"TCGA-{k:02d}.A1,{'other' if k % 3 else ''}" for k in range(BAGS)]
    (tmp_path / "labels.csv").write_text("\n".join(["slide,label", *rows]))
    _, used = check(capsys, tmp_path)
    assert used["label"] == "label: positive is tumor"


def test_folders_name_the_classes_of_a_fit_and_none_of_a_score(tmp_path, capsys):
    for k, (name, features, places) in enumerate(slides()):
        folder = tmp_path / "in" / ("tumor" if k % 2 else "normal")
        folder.mkdir(parents=True, exist_ok=True)
        write_clam(folder / f"{name}.h5", features, places)
    used = ("--column", "label=FOLDER", MODEL)
    code, out, err = run(capsys, "bags", tmp_path / "in", tmp_path / "out", *used, "--json")
    assert code == 0, err
    found = json.loads(out)["results"]
    assert found["names"]["positive"] == "tumor"
    assert found["counts"]["positive"] == BAGS // 2
    assert found["test"]["better"]
    code, out, err = run(
        capsys, "score", tmp_path / "out", tmp_path / "in", tmp_path / "new", "--json"
    )
    assert code == 0, err
    assert json.loads(out)["results"]["counts"]["labelled"] == 0


def test_coordinates_that_repeat_within_slides_name_no_instances_and_that_is_said(tmp_path, capsys):
    for k, (name, features, places) in enumerate(slides()):
        if k < 3:
            places[:2] = places[2]
        write_clam(tmp_path / f"{name}.h5", features, places)
    write_labels(tmp_path / "labels.csv")
    found, _ = check(capsys, tmp_path)
    wanted = "2 more: coordinates that repeat name no instances (bags: 3, repeats: 6)."
    assert [one for one in found["warnings"] if one.endswith(wanted)]
    code, out, err = run(capsys, "bags", tmp_path, tmp_path / "out", MODEL, "--json")
    assert code == 0, err
    assert wanted in " ".join(json.loads(out)["warnings"])
    names = {}
    for name in ("TCGA-00.A1", "TCGA-03.A1"):
        of = ("--where", f"bag_id={name}", "--json")
        _, out, _ = run(capsys, "show", tmp_path / "out", "instances", *of)
        names[name] = {one["instance_id"] for one in json.loads(out)["rows"]}
    assert names["TCGA-00.A1"] == set("12345678")
    assert "256_256" in names["TCGA-03.A1"]


def test_partitions_go_by_numbers_and_hold_halves_where_these_are_exact(tmp_path):
    """Of features in 16 bits a footer counts a fifth of what they take."""
    random = np.random.default_rng(0)
    for k in range(2):
        with h5py.File(tmp_path / f"s{k}.h5", "w") as file:
            file["features"] = random.normal(size=(4000, 40)).astype(np.float16)
            file.attrs["label"] = k
    settings = BagSettings()
    files = expand(str(tmp_path), FAMILY.suffixes)
    checked = [FAMILY.read_header(file, settings) for file in files]
    assert all(8 * 4000 * 40 <= one.size <= 8 * 4000 * 43 for one in checked)
    rows = pa.concat_tables([pq.read_table(as_parquet(one.url)) for one in files])
    assert rows["features"].type.value_type == pa.float32()
    rows = add_absent_columns(instances_in(settings), rows)
    for given, kind in ((rows, np.float32), (with_a_third(rows), np.float64)):
        found = instances_of.read(given, 0, settings)
        assert found.bags.modalities[0].features.dtype == kind
        flat = given["features"].combine_chunks().flatten().to_numpy()
        assert np.array_equal(found.bags.modalities[0].features.ravel(), flat)


def with_a_third(rows):
    """Rows of which one number needs 64 bits."""
    numbers = rows["features"].to_pylist()
    numbers[5][3] = 1.0 / 3.0
    place = rows.column_names.index("features")
    return rows.set_column(place, "features", pa.array(numbers, pa.list_(pa.float64())))


def test_what_has_no_partner_is_said_and_a_run_and_a_score_use_their_own_tables(tmp_path, capsys):
    fit, new = tmp_path / "fit", tmp_path / "new"
    for folder in (fit, new):
        folder.mkdir()
        for name, features, places in slides():
            write_clam(folder / f"{name}.h5", features, places)
    write_labels(fit / "labels.csv", lines=["case_9,gone,yes"])
    (fit / "TCGA-99.h5").write_bytes((fit / "TCGA-00.A1.h5").read_bytes())
    code, out, err = run(capsys, "bags", fit, tmp_path / "out", "--json")
    assert code == 0, err
    shown = " ".join(json.loads(out)["warnings"])
    assert "No line in labels.csv, so none of its cells: 1 of 25 files (TCGA-99)." in shown
    assert "No file of 1 of 25 lines of labels.csv (gone)." in shown
    code, out, err = run(capsys, "score", tmp_path / "out", new, tmp_path / "scored", "--json")
    assert code == 0, err
    assert "labels.csv" not in " ".join(json.loads(out)["warnings"])


def test_a_named_table_that_cannot_be_used_is_refused(tmp_path, capsys):
    for name, features, places in slides():
        write_clam(tmp_path / f"{name}.h5", features, places)
    (tmp_path / "other.csv").write_text("slide,label\nx,1\ny,0\n")
    for table, said in (("none.csv", "cannot read"), ("other.csv", "found none")):
        named = ("--set", f"file_table={tmp_path / table}")
        code, _, err = run(capsys, "check", "bags", tmp_path, *named)
        assert code == 2
        assert table in err
        assert said in err


def test_a_changed_table_is_read_again(tmp_path, capsys):
    for name, features, places in slides():
        write_clam(tmp_path / f"{name}.h5", features, places)
    table = tmp_path / "labels.csv"
    write_labels(table)
    target = tmp_path / "out"
    assert run(capsys, "bags", tmp_path, target, "--since", "latest")[0] == 0
    table.write_text(table.read_text().replace("TCGA-01.A1,yes", "TCGA-01.A1,no"))
    assert run(capsys, "bags", tmp_path, target, "--since", "latest")[0] == 0
    code, out, err = run(capsys, "show", target, "bags", "--where", "bag_id=TCGA-01.A1", "--json")
    assert code == 0, err
    assert json.loads(out)["rows"][0]["label"] == 0


def test_a_table_that_has_rows_of_its_own_is_no_table_of_files(tmp_path, capsys):
    for name, features, places in slides():
        write_clam(tmp_path / f"{name}.h5", features, places)
    rows = [
        {"bag_id": name, "label": k % 2, "features": features[0].tolist()}
        for k, (name, features, _) in enumerate(slides())
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "labels.parquet")
    found, _ = check(capsys, tmp_path)
    assert not any("line" in one for one in found["warnings"])
    assert found["rows"] == sum(len(features) + 1 for _, features, _ in slides())


def write_csv(path, name, features):
    lines = [
        ",".join(f"CD{d}" for d in range(WIDTH)),
        *(",".join(map(str, one)) for one in features),
    ]
    (path / f"export_{name}_Live.csv").write_text("\n".join(lines))


def write_parquet(path, name, features):
    table = pa.table({f"CD{d}": features[:, d] for d in range(WIDTH)})
    pq.write_table(table, path / f"{name}.parquet")


def write_fcs(path, name, features):
    from flowio import create_fcs

    events = np.column_stack([features, np.arange(len(features))])  # when an event came is none
    with open(path / f"{name}.fcs", "wb") as file:
        create_fcs(file, events.ravel().tolist(), [*(f"CD{d}" for d in range(WIDTH)), "Time"])


@pytest.mark.parametrize("write", [write_csv, write_parquet, write_fcs])
def test_one_file_a_sample_is_named_by_the_file(tmp_path, capsys, write):
    folder = tmp_path / "samples"
    folder.mkdir()
    for name, features, _ in slides():
        write(folder, name, features)
    files = sorted(one.name for one in folder.iterdir())
    lines = [f"{name},{k % 2}" for k, name in enumerate(files)]
    (tmp_path / "cohort.csv").write_text("\n".join(["file,label", *lines]))
    _, used = check(capsys, folder, tmp_path / "cohort.csv")
    assert used["FILE"] == "bag_id"
    assert [used[f"CD{d}"] for d in range(WIDTH)] == ["feature"] * WIDTH
    assert "Time" not in used
    code, _, err = run(capsys, "check", "bags", folder)
    assert code == 2
    assert "--column bag_id=YOURS, or bag_id=FILE (one a file)" in err
    code, _, err = run(capsys, "check", "bags", folder, "--column", "bag_id=FILE")
    assert code == 2
    assert "no bag with a label" in err


def test_a_file_a_patient_is_a_group_of_rows_with_a_label(tmp_path, capsys):
    """As each file's label and age are those of its line, its rows are tested together."""
    (tmp_path / "visits").mkdir()
    lines = ["patient,age,relapse"]
    for k, (_, features, _) in enumerate(slides()):
        rows = [f"{v},{one[0]}" for v, one in enumerate(features)]
        (tmp_path / "visits" / f"P{k}.csv").write_text("\n".join(["visit,bp", *rows]))
        lines.append(f"P{k},{40 + k},{'yes' if k % 2 else 'no'}")
    (tmp_path / "clinical.csv").write_text("\n".join(lines))
    source = (tmp_path / "visits", tmp_path / "clinical.csv")
    code, out, err = run(capsys, "check", "experts", *source, "--column", "label=relapse", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert any("rows of one FILE are left out together: 24 groups" in n for n in found["notes"])
    assert {one["name"] for one in found["columns"]} == {"relapse", "visit", "bp", "age"}


def write_cells(path, width, *, obsm, genes=()):
    """Write an AnnData of cells of some patients."""
    random = np.random.default_rng(1)
    patient = np.repeat(np.arange(BAGS), 10)
    with h5py.File(path, "w") as file:
        file.attrs["encoding-type"] = "anndata"
        file["X"] = random.normal(size=(len(patient), width)).astype(np.float32)
        if genes:
            file["var/_index"] = [gene.encode() for gene in genes]
            file["var"].attrs["_index"] = "_index"
        if obsm:
            file["obsm/X_pca"] = random.normal(size=(len(patient), 4))
        obs = file.create_group("obs")
        obs.attrs["_index"] = "barcode"
        obs["barcode"] = [f"cell{i}".encode() for i in range(len(patient))]
        obs["patient/codes"], obs["patient/categories"] = patient, [f"P{k}" for k in range(BAGS)]
        obs["response"] = patient % 2


def test_cells_of_an_anndata_go_in_by_columns_of_obs(tmp_path, capsys):
    write_cells(tmp_path / "cells.h5ad", 5, obsm=True)
    named = ("--column", "bag_id=patient", "--column", "label=response")
    found, used = check(capsys, tmp_path / "cells.h5ad", *named)
    assert found["rows"] == 10 * BAGS
    assert (used["patient"], used["features"]) == ("bag_id", "features")
    assert used["cell"].startswith("left out: id")
    assert "label" in used["response"]
    _, used = check(capsys, tmp_path / "cells.h5ad", *named, "--column", "features=X_pca")
    assert used["X_pca"] == "feature"
    write_cells(tmp_path / "wide.h5ad", 3000, obsm=True)
    found, used = check(capsys, tmp_path / "wide.h5ad", *named)
    assert used["X_pca"] == "feature"
    assert any("left out: X" in one for one in found["warnings"])
    write_cells(tmp_path / "wide.h5ad", 3000, obsm=False)
    code, _, err = run(capsys, "check", "bags", tmp_path / "wide.h5ad", *named)
    assert code == 2
    assert "at most 2,000 columns" in err


def test_genes_of_an_anndata_are_columns_by_their_names_in_any_order(tmp_path):
    """A gene that stands elsewhere in another file is the same column."""
    genes = ["CD3", "TCRγδ", "CD8"]
    for file, order in (("a", genes), ("b", genes[::-1])):
        write_cells(tmp_path / f"{file}.h5ad", 3, obsm=False, genes=order)
    a, b = (storage.read_table(str(tmp_path / f"{file}.h5ad")) for file in "ab")
    assert a.column_names == ["cell", "patient", "response", "CD3", "TCRγδ", "CD8"]
    with h5py.File(tmp_path / "b.h5ad") as file:
        np.testing.assert_array_equal(a["CD3"], file["X"][:, 0])
        np.testing.assert_array_equal(b["CD3"], file["X"][:, 2])


@pytest.mark.parametrize(
    ("genes", "obsm"),
    [
        (["0", "1", "2"], False),
        (["CD3", "CD4", "patient"], False),
        (["CD3", "CD4", "CD4"], False),
        (["CD3", "CD4", "CD8"], True),
    ],
)
def test_genes_without_names_of_their_own_are_one_list(tmp_path, genes, obsm):
    write_cells(tmp_path / "a.h5ad", 3, obsm=obsm, genes=genes)
    assert storage.read_table(str(tmp_path / "a.h5ad"))["features"].type.value_type == "float"


def test_a_slide_without_tiles_is_a_bag_and_a_tensor_beside_is_said(tmp_path, capsys, caplog):
    for k, (name, features, places) in enumerate(slides()):
        rows = 0 if k == 5 else len(features)
        write_clam(tmp_path / f"{name}.h5", features[:rows], places[:rows])
    write_labels(tmp_path / "labels.csv")
    (tmp_path / "more.pt").touch()
    code, out, err = run(capsys, "check", "bags", tmp_path)
    assert code == 0, err
    assert "bag without instances, scored by its size and the base rate: 1" in out
    assert "more.pt in the folder" in caplog.text


def test_tensors_are_refused_with_what_converts_them(tmp_path, capsys):
    (tmp_path / "a.pt").touch()
    write_labels(tmp_path / "labels.csv")
    code, _, err = run(capsys, "check", "bags", tmp_path)
    assert code == 2
    assert "a.pt is a pickle; in Python: h5py.File('a.h5', 'w')['features']" in err


def test_a_column_of_files_that_names_none_is_refused(tmp_path, capsys):
    """Tube_000 in the table is no file called Specimen_001_Tube_000_T cells.csv."""
    for k in range(4):
        name = f"Specimen_001_Tube_{k:03d}_T cells.csv"
        (tmp_path / name).write_text("CD4,CD8\n1.5,2.5\n0.5,1.0\n")
    lines = [f"Tube_{k:03d},{'yes' if k % 2 else 'no'}" for k in range(4)]
    (tmp_path / "labels.csv").write_text("\n".join(["sample,response", *lines]))
    named = ("--column", "FILE=sample", "--column", "label=response")
    code, _, said = run(capsys, "check", "bags", tmp_path, *named)
    assert code == 2
    assert "column sample: expected a column that names half of the files, found none" in said
