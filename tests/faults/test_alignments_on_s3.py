"""BAM and FASTA on an object store: copied to the machine, bounded, the same variants."""

import os
import time
from pathlib import Path

import pytest
from numpy.testing import assert_array_equal

from flows import stages, storage
from flows.cli import main
from flows.faults import RunError
from flows.storage import StorageError
from flows.storage.objects import staging
from flows.variants.reads.contigs import fasta_contigs
from flows.variants.reads.reads import reference
from flows.variants.reads.regions import regions
from flows.variants.settings import VariantSettings
from tests.faults import pipelines, stores
from tests.faults.proxy import Proxy
from tests.flows.variants.pileup import count_region

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@pytest.fixture
def store(server, monkeypatch, tmp_path):
    """The server, with a folder for copies that is this test's own."""
    stores.enter(monkeypatch, server.url)
    monkeypatch.setenv("VBFLOWS_STAGING", str(tmp_path / "copies"))
    return server


def names(depth=400):
    samples = f"case_{depth}_0.01", f"ctrl_{depth}"
    return [f"{sample}_{i}.bam" for sample in samples for i in range(3)]


def uploaded(simbam, index=True):
    """Put reads, reference and a sheet on the store; return the sheet's URL."""
    lines = ["sample,replicate,path"]
    for name in [*names(), "ref400.fa"]:
        for end in ("", ".bai", ".fai"):
            source = simbam / f"{name}{end}"
            if source.exists() and (index or not end):
                storage.write_bytes(f"s3://reads/{source.name}", source.read_bytes())
            elif source.exists():
                storage.delete(f"s3://reads/{source.name}")
        if name.endswith(".bam"):
            sample = "case" if name.startswith("case") else "control"
            lines.append(f"{sample},{name.split('_')[-1][0]},{name}")
    storage.write_bytes("s3://reads/sheet.csv", "\n".join([*lines, ""]).encode())
    return "s3://reads/sheet.csv"


def copies(tmp_path):
    return {
        p.name
        for p in (tmp_path / "copies").rglob("*")
        if p.is_file() and p.suffix != ".lock" and p.name != storage.MARK
    }


@pytest.mark.thorough
def test_reads_on_s3_are_counted_alike(store, shared_data):
    simbam = shared_data / "variants" / "simbam"
    uploaded(simbam)
    here = VariantSettings(fasta=str(simbam / "ref400.fa"))
    there = VariantSettings(fasta="s3://reads/ref400.fa")
    (region,) = regions(there, fasta_contigs(str(there.fasta)))
    assert region.length == 400
    for name in (names()[0], names()[-1]):
        expected = count_region(str(simbam / name), region, here).counts
        assert expected.sum() > 10_000
        assert_array_equal(count_region(f"s3://reads/{name}", region, there).counts, expected)
    assert_array_equal(reference(str(there.fasta), region), reference(str(here.fasta), region))


@pytest.mark.thorough
def test_a_missing_file_has_its_sentence(store, shared_data, tmp_path, capsys):
    sheet = uploaded(shared_data / "variants" / "simbam")
    storage.delete(f"s3://reads/{names()[1]}")
    with pytest.raises(SystemExit) as ended:
        main(["check", "variants", sheet, "--set", "fasta=s3://reads/ref400.fa"])
    assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert f"s3://reads/{names()[1]}" in printed
    assert "there is no such file" in printed
    with pytest.raises(SystemExit):
        main(["check", "variants", sheet, "--set", "fasta=s3://reads/none.fa"])
    assert "s3://reads/none.fa" in capsys.readouterr().err


def test_copies_take_no_more_than_they_may(store, tmp_path, monkeypatch):
    for k in range(6):
        storage.write_bytes(f"s3://reads/many/{k}", bytes([k]) * 2**20)
    monkeypatch.setenv("VBFLOWS_STAGING_GIB", str(3.5 / 1024))
    for k in range(6):
        path = Path(storage.local_copy(f"s3://reads/many/{k}"))
        assert path.read_bytes() == bytes([k]) * 2**20
        taken = sum(p.stat().st_size for p in (tmp_path / "copies").rglob("*") if p.is_file())
        assert taken <= 3.5 * 2**20
        time.sleep(0.01)
    assert copies(tmp_path) == {"3", "4", "5"}
    monkeypatch.setenv("VBFLOWS_STAGING_GIB", str(0.5 / 1024))
    with pytest.raises(StorageError, match="raise VBFLOWS_STAGING_GIB"):
        storage.local_copy("s3://reads/many/0")
    for wrong in ("fifty", "0", "nan"):
        monkeypatch.setenv("VBFLOWS_STAGING_GIB", wrong)
        with pytest.raises(StorageError, match=f"a number of GiB above 0 in .* found '{wrong}'"):
            storage.local_copy("s3://reads/many/1")


def test_a_copy_goes_on_where_a_dropped_connection_left_it(store, tmp_path, monkeypatch):
    data = os.urandom(3 * 2**20 + 17)
    storage.write_bytes("s3://reads/dropped", data)
    monkeypatch.setattr(staging, "PIECE", 2**20)
    proxy = Proxy(store.port, lambda n, line: "drop" if n in (3, 5) else None)
    try:
        stores.enter(monkeypatch, proxy.url)
        assert Path(storage.local_copy("s3://reads/dropped")).read_bytes() == data
    finally:
        proxy.close()


@pytest.mark.thorough
@pytest.mark.parametrize("where", ["s3", "local"])
def test_reads_that_change_during_the_run_are_refused(
    store, shared_data, tmp_path, monkeypatch, where
):
    """The sheet stays as it is; a file that it names does not."""
    simbam = shared_data / "variants" / "simbam"
    sheet = uploaded(simbam)
    changing, fasta = f"s3://reads/{names()[2]}", "s3://reads/ref400.fa"
    if where == "local":
        for path in (store.folder / "reads").iterdir():
            if path.is_file():
                (tmp_path / path.name).write_bytes(path.read_bytes())
        sheet, fasta = str(tmp_path / "sheet.csv"), str(tmp_path / "ref400.fa")
        changing = str(tmp_path / names()[2])
    other = (simbam / names(4000)[2]).read_bytes()
    begun = stages.computing

    def change(*given):
        storage.write_bytes(changing, other)
        return begun(*given)

    monkeypatch.setattr(stages, "computing", change)
    with pytest.raises(RunError, match=f"{names()[2]} has changed since this run first read it"):
        pipelines.run("variants", sheet, str(tmp_path / "out"), fasta=fasta, partitions=2)
    assert not (tmp_path / "out" / "latest.json").exists()
