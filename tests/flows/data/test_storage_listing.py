"""What a source stands for: folders, links, globs and odd names, with nothing left out."""

import os

import pytest

from flows import storage
from flows.escape import without_secrets
from flows.faults import InputError
from flows.storage import StorageError
from flows.storage.objects import staging
from flows.storage.objects.urls import refuse_secrets, shown

RUN = "runs/20260102T030405-0a1b2c/keywords/part-00000.parquet"


@pytest.fixture
def here(tmp_path):
    def put(*names):
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"12345")

    put("in/a.parquet", "in/sub/b.parquet", "in/c.csv", "away/x.parquet", "away/deep/y.parquet")
    (tmp_path / "put").mkdir()
    return tmp_path, put


def found(root, source):
    files = storage.expand(str(root / source), [".parquet"])
    return [os.path.relpath(file.url, root) for file in files]


def test_links_in_a_folder_are_followed(here):
    root, _ = here
    os.symlink(root / "away" / "x.parquet", root / "in" / "link.parquet")
    os.symlink(root / "away", root / "in" / "linked")
    os.symlink(root / "in", root / "in" / "loop")
    assert found(root, "in") == [
        "in/a.parquet", "in/link.parquet", "in/linked/deep/y.parquet", "in/linked/x.parquet",
        "in/sub/b.parquet",
    ]  # fmt: skip
    (file,) = storage.expand(str(root / "in" / "link.parquet"), [])
    (again,) = [f for f in storage.expand(str(root / "in"), [".parquet"]) if f.url == file.url]
    assert (again, file.size) == (file, 5)
    storage.refuse_changed(file.url, file.fingerprint)


def test_what_cannot_be_read_is_named(here):
    root, _ = here
    os.symlink(root / "nowhere.parquet", root / "in" / "gone.parquet")
    with pytest.raises(StorageError, match=r"in/gone\.parquet: it is a link to nothing"):
        found(root, "in")
    os.remove(root / "in" / "gone.parquet")
    os.symlink(root / "nowhere", root / "in" / "gone")
    with pytest.raises(StorageError, match="in/gone: it is a link to nothing"):
        found(root, "in")
    os.remove(root / "in" / "gone")
    os.mkfifo(root / "in" / "pipe.parquet")
    with pytest.raises(StorageError, match=r"in/pipe\.parquet"):
        found(root, "in/*.parquet")


@pytest.mark.parametrize("store", ["local", "memory"])
def test_folders_that_a_glob_matches_are_searched(here, store):
    root, put = here
    put("in/_truth/t.parquet", "in/sub/.h.parquet")
    os.remove(root / "in" / "c.csv")
    if store == "memory":
        url = f"memory://{root.name}"
        for path in (root / "in").rglob("*.parquet"):
            storage.write_bytes(f"{url}/{path.relative_to(root)}", b"1")
        names = [f.url for f in storage.expand(f"{url}/in/*", [".parquet"])]
        storage.delete(url)
        assert [name.rpartition(f"{root.name}/")[2] for name in names] == [
            "in/a.parquet", "in/sub/b.parquet",
        ]  # fmt: skip
        return
    assert found(root, "in/*") == ["in/a.parquet", "in/sub/b.parquet"]
    assert found(root, "in/**/*.parquet") == [
        "in/_truth/t.parquet", "in/a.parquet", "in/sub/.h.parquet", "in/sub/b.parquet",
    ]  # fmt: skip
    assert found(root, "*/*/b.parquet") == ["in/sub/b.parquet"]
    with pytest.raises(StorageError, match="no input found"):
        found(root, "none/*")


def test_a_name_that_is_there_comes_before_the_glob(here):
    root, put = here
    put("odd/x[1].parquet", "odd/x1.parquet", "br[1]/z.parquet")
    assert found(root, "odd/x[1].parquet") == ["odd/x[1].parquet"]
    assert found(root, "br[1]") == ["br[1]/z.parquet"]
    assert found(root, "odd/x[12].parquet") == ["odd/x1.parquet"]


def test_targets_that_a_client_would_take_for_a_glob_are_refused():
    storage.write_bytes("memory://kept/ab", b"1")
    with pytest.raises(InputError, match=r"without '\*', '\?' and '\[', found \["):
        storage.check_writable("memory://kept/a[b]")
    with pytest.raises(StorageError, match="would take it for a glob"):
        storage.delete("memory://kept/a[b]")
    assert storage.exists("memory://kept/ab")
    storage.delete("memory://kept")


def test_results_of_earlier_runs_are_no_input(here, caplog):
    root, put = here
    put(f"in/{RUN}", f"in/out/{RUN}")
    kept = ["in/a.parquet", "in/sub/b.parquet"]
    assert found(root, "in") == kept
    assert "2 files below" in caplog.text
    assert found(root, "in/**/*.parquet") == kept
    assert found(root, "i*/*")[:1] == kept[:1]
    # Whoever names the results, means them.
    assert found(root, "in/runs") == [f"in/{RUN}"]
    assert found(root, "in/runs/*/keywords/*.parquet") == [f"in/{RUN}"]


def test_a_name_that_is_no_text_is_refused(here):
    root, _ = here
    name = os.fsdecode(os.fsencode(root) + b"/in/bad\xff.parquet")
    with open(name, "wb"):
        pass
    for source in (name, str(root / "in")):
        with pytest.raises(StorageError, match=r"bad\\xff\.parquet: its name has bytes"):
            storage.expand(source, [".parquet"])


@pytest.mark.parametrize(
    "url",
    [
        "https://host?sig=abc",
        "https://user:pw@host",
        "zip://x.parquet::https://user:pw@host/a.zip",
        "zip://x.parquet::https://host/a.zip?X-Amz-Signature=abc",
        "s3://bucket/a?token=abc",
        "abfs://container:abc@account.dfs.core.windows.net/in",
        "https://host/a#token=abc",
        "https://host/a;pw=abc",
        "https://host/a?%70wd=abc",
        "https://host/a%3Fpwd=abc",
    ],
)
def test_secrets_are_found_in_every_part_of_a_url(url):
    with pytest.raises(StorageError, match="holds a user name, key or signature"):
        refuse_secrets(url)
    assert not {"abc", "pw", "sig", "token"} & set(shown(url).replace("?", "/").split("/"))
    assert "abc" not in shown(url)
    assert "abc" not in without_secrets(f"cannot read {url}: no answer from '{url}'")
    assert "@" not in shown(url)


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/a@b",
        "abfs://container@account.dfs.core.windows.net/in",
        "/a::b@c",
        "https://host/a@b?page=2",
        "a@b",
        "/a?pwd=x;pw=1#token=2",
        "https://host/a?keyword=maps&author=x&design=2&passengers=3",
        "s3://bucket/a;b#c",
    ],
)
def test_what_is_no_secret_is_let_through(url):
    refuse_secrets(url)


def test_an_index_that_comes_later_is_copied_too(tmp_path, monkeypatch):
    monkeypatch.setenv("VBFLOWS_STAGING", str(tmp_path / "staging"))
    url = f"memory://{tmp_path.name}"

    def copies():
        names = os.listdir(os.path.dirname(storage.local_copy(f"{url}/a.bam", ".bai")))
        return sorted(name for name in names if name != storage.MARK)

    storage.write_bytes(f"{url}/a.bam", b"reads")
    assert copies() == ["a.bam"]
    assert len(os.listdir(tmp_path / "staging")) == 2  # the copy and its lock
    assert copies() == ["a.bam"]
    assert len(os.listdir(tmp_path / "staging")) == 2
    storage.write_bytes(f"{url}/a.bam.bai", b"index")
    assert copies() == ["a.bam", "a.bam.bai"]
    storage.write_bytes(f"{url}/a.bam.bai", b"another index")
    assert storage.local_copy(f"{url}/a.bam", ".bai").endswith("a.bam")
    with open(storage.local_copy(f"{url}/a.bam", ".bai") + ".bai", "rb") as file:
        assert file.read() == b"another index"
    storage.delete(url)


def test_folders_of_others_are_neither_counted_nor_removed(tmp_path, monkeypatch):
    staging = tmp_path / "scratch"
    monkeypatch.setenv("VBFLOWS_STAGING", str(staging))
    monkeypatch.setenv("VBFLOWS_STAGING_GIB", str(3000 / 2**30))
    url = f"memory://{tmp_path.name}"
    theirs = [staging / "bam", staging / ("a" * 24), tmp_path / "elsewhere"]
    for folder in theirs:
        folder.mkdir(parents=True)
        (folder / "sample.bam").write_bytes(b"reads" * 1000)
        os.utime(folder, (0, 0))
    storage.own(str(theirs[2]), "copy")
    (staging / ("b" * 24)).symlink_to(theirs[2])
    copies = []
    for name in "abc":
        storage.write_bytes(f"{url}/{name}.bam", b"x" * 1200)
        copies.append(storage.local_copy(f"{url}/{name}.bam"))
    assert [os.path.exists(copy) for copy in copies] == [False, True, True]
    assert all((folder / "sample.bam").exists() for folder in theirs)
    assert (staging / ("b" * 24)).is_symlink()
    storage.delete(url)


def test_what_looks_like_data_and_is_not_read_is_said_on_a_store_too(tmp_path, caplog):
    url = f"memory://{tmp_path.name}"
    ours = ("latest.json", "reads.json", f"{RUN[:-3]}json", "_truth/d.json")
    names = ("a.txt", "b.html", "c.rtf", "e.png", *ours)
    for place in (url, str(tmp_path)):
        caplog.clear()
        for name in names:
            storage.write_bytes(f"{place}/{name}", b"text")
        assert [file.url.rpartition("/")[2] for file in storage.expand(place, [".txt"])] == [
            "a.txt"
        ]
        (said,) = caplog.messages
        assert said.startswith("b.html (and 1 more such file) in the folder ")
        assert said.endswith("is not read; save it in another format: as text, CSV or Parquet")
    storage.delete(url)


def test_the_folder_of_copies_is_not_measured_for_each_copy(tmp_path, monkeypatch):
    """Thousands of small objects would take hours."""
    monkeypatch.setenv("VBFLOWS_STAGING", str(tmp_path / "scratch"))
    url = f"memory://{tmp_path.name}"
    measured = []
    monkeypatch.setattr(staging, "_measured", lambda copy: measured.append(copy) or (0.0, 0, copy))
    for number in range(30):
        storage.write_bytes(f"{url}/{number}.bam", b"x")
        storage.local_copy(f"{url}/{number}.bam")
    assert len(measured) < 30
    storage.delete(url)


def test_of_a_link_the_link_is_removed(tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").write_text("theirs")
    (tmp_path / "ours").mkdir()
    for link in (tmp_path / "link", tmp_path / "ours" / "link"):
        link.symlink_to(tmp_path / "theirs")
    storage.delete(str(tmp_path / "link"))
    storage.delete(str(tmp_path / "ours"))
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]
    assert (tmp_path / "theirs" / "file").read_text() == "theirs"
    with pytest.raises(StorageError, match="is not removed: vbflows did not make it"):
        storage.remove_own(str(tmp_path / "theirs"), "run")
