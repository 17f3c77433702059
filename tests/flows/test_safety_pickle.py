"""Nothing that is read from storage is unpickled, and nothing stored can grow when it is read."""

import io
import pickle
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flows.fit.driver import run_fit
from flows.fit.executor import InProcess
from flows.storage import DamagedError
from tests.fit.jobs import Killed, kill_at, toy_job
from vbmodels.core.state import State, StateError, from_bytes, same_bits, to_bytes

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [p for name in ("flows", "vbmodels") for p in sorted((ROOT / name).rglob("*.py"))]


class Bomb:
    """What runs code when it is unpickled: it leaves a file behind."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self):
        return open, (str(self.witness), "w")


def bombs(witness: Path) -> dict[str, bytes]:
    """Return the forms in which a pickle can stand in a store."""
    bare = pickle.dumps(Bomb(witness))
    array = io.BytesIO()
    np.save(array, np.array([Bomb(witness)], dtype=object), allow_pickle=True)
    archive = io.BytesIO()
    np.savez(archive, header=np.array([Bomb(witness)], dtype=object), allow_pickle=True)
    return {"pickle": bare, "npy": array.getvalue(), "npz": archive.getvalue()}


def test_the_bombs_work(tmp_path):
    pickle.loads(bombs(tmp_path / "witness")["pickle"]).close()
    assert (tmp_path / "witness").exists()
    with np.load(io.BytesIO(bombs(tmp_path / "second")["npz"]), allow_pickle=True) as archive:
        archive["header"][0].close()
    assert (tmp_path / "second").exists()


def test_no_source_allows_pickles():
    """Ruff refuses the modules and functions that unpickle (TID251, S301); here NumPy's switch."""
    for path in SOURCES:
        assert "allow_pickle=True" not in path.read_text(encoding="utf-8"), path


@pytest.mark.parametrize("form", ["pickle", "npy", "npz"])
def test_a_planted_pickle_does_nothing(tmp_path, form):
    witness = tmp_path / "witness"
    planted = bombs(witness)[form]
    job = toy_job(tmp_path)
    alone = replace(job, store=job.store + "-whole")
    whole = run_fit(alone, InProcess(alone))
    with pytest.raises(Killed):
        run_fit(job, InProcess(job), on_step=kill_at(8))
    store = Path(job.store)
    newest = sorted((store / "checkpoints").iterdir())[-1]
    for path in newest.iterdir():
        path.write_bytes(planted)
    for name in ("job.pickle", "work/job.pickle", "lock.json", "work/x/globals-00000001.npz"):
        (store / name).parent.mkdir(parents=True, exist_ok=True)
        (store / name).write_bytes(planted)
    assert same_bits(run_fit(job, InProcess(job), resume=True).q, whole.q)
    Path(job.partitions[0]).write_bytes(planted)
    with pytest.raises(DamagedError, match="damaged or not a vbflows state file"):
        run_fit(job, InProcess(job))
    assert not witness.exists()


def test_a_state_that_would_grow_is_refused(tmp_path):
    job = toy_job(tmp_path)
    stored = io.BytesIO(Path(job.partitions[0]).read_bytes())
    grown = io.BytesIO()
    with zipfile.ZipFile(stored) as before, zipfile.ZipFile(grown, "w") as after:
        for name in before.namelist():
            after.writestr(name, before.read(name), compress_type=zipfile.ZIP_DEFLATED)
    with pytest.raises(StateError, match="compressed"):
        from_bytes(grown.getvalue(), State)
    state = from_bytes(stored.getvalue(), State)
    assert to_bytes(state) == stored.getvalue()
