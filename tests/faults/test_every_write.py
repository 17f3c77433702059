"""Stopped before every write, and in it: what goes on from there ends with the same bits."""

import random
from itertools import cycle

import numpy as np
import pyarrow as pa
import pytest

from flows import storage
from flows.bags import family as bags
from tests.faults import journeys, pipelines, stores

SEED, EACH = 15, 1
ALL = [(name, kind) for name in sorted(pipelines.SETTINGS) for kind in journeys.JOURNEYS]
# Every pipeline and every journey by default, all pairs of them every night.
DEFAULT = set(zip(sorted(pipelines.SETTINGS), cycle(journeys.JOURNEYS), strict=False))
PAIRS = [
    pytest.param(*pair, marks=[] if pair in DEFAULT else [pytest.mark.thorough]) for pair in ALL
]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    journeys.quicken(monkeypatch)


def moments(made):
    """Return every moment to stop at: before each call that changes storage, and in it.

    What is written next to its place is stopped at once, before it is put there: until then a
    stop leaves the same as that, but for the bytes of a hidden file.
    """
    changes = list(enumerate(journeys.changes_of(made), 1))
    shown = [(n, kind) for n, (kind, path) in changes if not path.endswith(".part")]
    whole = [(n, False) for n, kind in shown]
    return whole + [(n, True) for n, kind in shown if kind in ("write", "delete")]


def stop_at(made, chosen):
    failed = {}
    for number, half in chosen:
        try:
            journeys.stopped_at(made, number, half)
        except Exception as error:
            failed[number, half] = f"{type(error).__name__}: {error}"[:300]
    assert not failed


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_a_stop_at_a_few_writes(name, kind, tmp_path):
    made = journeys.set_out(name, kind, tmp_path, str(tmp_path))
    chosen = random.Random(f"{SEED} {name} {kind}").sample(moments(made), EACH)
    stop_at(made, chosen)


def test_a_stop_at_a_few_writes_of_phrases(tmp_path):
    made = journeys.set_out(
        "keywords", "fit", tmp_path, str(tmp_path), unit="phrase", keyword_rate=None, max_iter=60
    )
    stop_at(made, random.Random(SEED).sample(moments(made), EACH))


def test_the_stops_find_a_stage_that_removes_what_another_left(tmp_path, monkeypatch):
    made = journeys.set_out("bags", "fit", tmp_path, str(tmp_path))
    paths = [path for _, path in journeys.changes_of(made)]
    last = max(
        n for n, path in enumerate(paths, 1) if path.split("/")[-3:-1] == ["work", "partitions"]
    )
    original = bags.build

    def build(item, settings, place, form):
        index, _ = item
        found = original(item, settings, place, form)
        storage.delete(place.part("read", index, "npz"))
        return found

    monkeypatch.setattr(bags, "build", build)
    monkeypatch.setattr("flows.run.DamagedWork", ZeroDivisionError)  # which is made again
    with pytest.raises(AssertionError, match="DamagedWork: cannot read"):
        stop_at(made, [(last + 2, False)])


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("name", "kind"), ALL)
def test_a_stop_at_every_write(name, kind, tmp_path):
    made = journeys.set_out(name, kind, tmp_path, str(tmp_path))
    stop_at(made, moments(made))


@pytest.fixture
def bucket(server, monkeypatch):
    stores.enter(monkeypatch, server.url)
    return stores.make_bucket()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "kind"),
    [("keywords", "since"), ("experts", "fit")],
)
def test_a_stop_at_a_few_writes_to_s3(name, kind, bucket, tmp_path):
    made = journeys.set_out(name, kind, tmp_path, bucket)
    chosen = random.Random(f"{SEED} {name} {kind}").sample(moments(made), EACH)
    stop_at(made, chosen)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("name", "kind"), ALL)
def test_a_stop_at_every_write_to_s3(name, kind, bucket, tmp_path):
    made = journeys.set_out(name, kind, tmp_path, bucket)
    stop_at(made, moments(made))


PANEL = {"control": "", "panel": "normal1,normal2,normal3"}
CASES = {"cases": "case1,case2,case3"}


def renamed(sample):
    """Return a function that makes a sample of every replicate of a sample."""

    def change(table):
        samples, replicates = (np.array(table[n].to_pylist()) for n in ("sample", "replicate"))
        of = samples == sample
        word = {"control": "normal", "case": "case"}[sample]
        names = np.where(of, np.char.add(word, replicates.astype(str)), samples)
        return table.set_column(
            table.column_names.index("sample"), "sample", pa.array(names.tolist())
        )

    return change


@pytest.fixture
def set_out(monkeypatch, tmp_path):
    def made(kind, sample, changes):
        real, change = journeys._input, renamed(sample)
        monkeypatch.setattr(
            journeys, "_input", lambda *where: [change(table) for table in real(*where)]
        )
        return journeys.set_out("variants", kind, tmp_path, str(tmp_path), **changes)

    return made


@pytest.mark.thorough
@pytest.mark.parametrize("kind", journeys.JOURNEYS)
@pytest.mark.parametrize(("sample", "changes"), [("control", PANEL), ("case", CASES)])
def test_a_stop_at_a_few_writes_of_a_panel_and_of_cases(set_out, kind, sample, changes):
    made = set_out(kind, sample, changes)
    stop_at(made, random.Random(f"{SEED} {kind}").sample(moments(made), 2))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("sample", "changes"), [("control", PANEL), ("case", CASES)])
def test_a_stop_at_every_write_of_a_panel_and_of_cases(set_out, sample, changes):
    made = set_out("fit", sample, changes)
    stop_at(made, moments(made))
