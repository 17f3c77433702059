"""A bit flipped in a file of a stopped run: its resume makes that again and has the same bits."""

import random
from pathlib import Path

import pytest

from tests.faults import journeys, pipelines
from tests.faults.seam import Seam

STOPS = ("fit", "publish")
EACH = 2
ALL = [(name, stop) for name in sorted(pipelines.SETTINGS) for stop in STOPS]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    journeys.quicken(monkeypatch)


def stopped(name, stop, folder):
    """Return a run that was stopped in its last checkpoint, or before its record was written."""
    made = journeys.set_out(name, "resume", folder, str(folder))
    if stop == "publish":
        changes = journeys.changes_of(made)
        at = next(n for n, (_, path) in enumerate(changes, 1) if "run.json" in path)
        made.begin()
        journeys.stop(made, Seam(stop_at=at))
        made.before = made.contents()
    return made


def working_files(made):
    """Return what the run made for itself, of each kind the same ones every time."""
    work = Path(made.target) / "runs" / made.stopped / "work"
    return sorted(path for path in work.rglob("*") if path.is_file() and path.name != "lock.json")


def flipped(content, rng, cut):
    if cut:
        return content[: rng.randrange(len(content))]
    changed = bytearray(content)
    changed[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def damage(made, number, seed, cut):
    """Damage the file of a number, and resume once."""
    made.begin()
    path = working_files(made)[number]
    path.write_bytes(flipped(path.read_bytes(), random.Random(f"{seed} {number}"), cut))
    made.check(made.go())


def damage_each(made, numbers, seed, cut):
    failed = {}
    for number in numbers:
        try:
            damage(made, number, seed, cut)
        except Exception as error:
            failed[str(working_files(made)[number])] = f"{type(error).__name__}: {error}"[:300]
    assert not failed


@pytest.mark.parametrize(
    "name",
    ["keywords", *(pytest.param(name, marks=pytest.mark.thorough)
                   for name in sorted(pipelines.SETTINGS) if name != "keywords")],
)  # fmt: skip
def test_a_flipped_bit_of_a_few_working_files(name, tmp_path):
    made = stopped(name, "publish", tmp_path)
    made.begin()
    count = len(working_files(made))
    chosen = random.Random(name).sample(range(count), min(EACH, count))
    damage_each(made, chosen, "few", False)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("cut", [False, True], ids=["flipped", "cut"])
@pytest.mark.parametrize(("name", "stop"), ALL)
def test_every_working_file_damaged(name, stop, cut, tmp_path):
    made = stopped(name, stop, tmp_path)
    made.begin()
    damage_each(made, range(len(working_files(made))), "each", cut)
