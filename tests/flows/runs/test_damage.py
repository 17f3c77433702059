"""What vbflows wrote and reads again may be damaged: one sentence, and no run is lost by it."""

import json
import random
from pathlib import Path

import pytest

from flows import storage
from flows.cli import main
from flows.faults import InputError
from flows.records import lock
from flows.records.runs import open_run
from flows.run import score as launch_score
from flows.runs import checking
from flows.settings import ComputeSettings
from tests.faults import pipelines

DEEP = b'{"a":' * 100_000
DAMAGES = {
    "nothing": b"",
    "no text": b"\xff\xfe\x00",
    "no JSON": b"{",
    "a list": b"[1, 2]",
    "a number": b"7",
    "null": b"null",
    "deep": DEEP,
    "deep list": b"[" * 100_000,
    "many digits": b'{"pid": 1' + b"0" * 10_000 + b"}",
}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Return the source and the folder of a finished run of a pipeline, made once."""
    known = {}

    def of(name):
        if name not in known:
            folder = tmp_path_factory.mktemp(name)
            source = pipelines.simulate(name, str(folder / "in"))
            outcome = pipelines.run(name, source, str(folder / "out"))
            known[name] = source, folder / "out" / "runs" / outcome["run_id"]
        return known[name]

    return of


@pytest.fixture
def damaged():
    """Change a file for the test."""
    before = {}

    def change(path, content):
        before.setdefault(path, path.read_bytes())
        path.write_bytes(content)

    yield change
    for path, content in before.items():
        path.write_bytes(content)


def mutants(content, number, seed):
    """Yield the content cut short, with changed bytes, and emptied."""
    rng = random.Random(seed)
    for turn in range(number):
        if turn % 4 == 0:
            yield content[: rng.randrange(len(content))]
            continue
        changed = bytearray(content)
        for _ in range(rng.choice((1, 1, 5))):
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        yield bytes(changed)


def score(run, source, target):
    return launch_score(str(run), source, str(target), ComputeSettings())


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_is_wrong_input(fitted, damaged, tmp_path, damage, capsys):
    source, run = fitted("keywords")
    for folder, file in ((run, "run.json"), (run.parents[1], "latest.json")):
        path = folder / file
        damaged(path, DAMAGES[damage])
        for command in (("show", folder), ("score", folder, source, tmp_path)):
            with pytest.raises(SystemExit) as ended:
                main([str(word) for word in command])
            said = capsys.readouterr().err
            assert ended.value.code == 2, said
            assert path.name in said
            assert "Traceback" not in said
            assert len(said) < 2000


def test_a_changed_byte_in_a_record_is_found(fitted, damaged):
    _, run = fitted("keywords")
    path = run / "run.json"
    text = path.read_text()
    record = open_run(str(run))[1]
    damaged(path, text.replace('"rows_kept": ', '"rows_kept": 1').encode())
    with pytest.raises(InputError, match=r"run\.json is damaged.*its checksum does not match"):
        open_run(str(run))
    damaged(path, json.dumps(json.loads(text)).encode())  # the same in another layout
    assert open_run(str(run))[1] == record


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_lock_does_not_keep_a_run_from_being_resumed(tmp_path, damage, monkeypatch):
    monkeypatch.setattr(lock, "SETTLE", 0.01)
    store = str(tmp_path / "run")
    storage.write_bytes(storage.join(store, lock.LOCK), DAMAGES[damage])
    with lock.claim(store, "run") as held:
        held.verify()
    assert not (Path(store) / lock.LOCK).exists()


@pytest.mark.thorough
def test_a_damaged_parquet_file_is_a_fault_of_the_input_at_once(
    fitted, tmp_path, capsys, monkeypatch
):
    """It is read once: what the bytes say does not change by waiting."""
    source, _ = fitted("keywords")
    path = tmp_path / "in.parquet"
    read = []
    monkeypatch.setattr(checking, "_carefully", once(read))
    whole, refused = Path(source).read_bytes(), 0
    for content in mutants(whole, 60, 6):
        path.write_bytes(content)
        with pytest.raises(SystemExit) as ended:
            main(["check", "keywords", str(path), "--quick"])
        said = capsys.readouterr().err
        assert ended.value.code in (0, 2), said
        assert "should not have happened" not in said
        refused += ended.value.code == 2
    assert refused > 30
    assert len(read) == 60


def once(read):
    """Return what a check does with a file, noting how often it does it."""
    carefully = checking._carefully

    def noted(*args):
        read.append(args)
        return carefully(*args)

    return noted
