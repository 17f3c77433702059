"""What vbflows wrote and reads again may be damaged: one sentence, and no run is lost by it."""

import json
from pathlib import Path

import pytest

from flows import storage
from flows.cli import main
from flows.faults import InputError
from flows.records import lock
from flows.records.runs import open_run
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
    """Return the source and the folder of a finished run."""
    folder = tmp_path_factory.mktemp("fitted")
    source = pipelines.simulate("keywords", str(folder / "in"))
    outcome = pipelines.run("keywords", source, str(folder / "out"))
    return source, folder / "out" / "runs" / outcome["run_id"]


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


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_is_wrong_input(fitted, damaged, tmp_path, damage, capsys):
    source, run = fitted
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
    _, run = fitted
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
