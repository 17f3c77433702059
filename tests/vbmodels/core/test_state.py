"""States come back as they went, damage is seen, and statistics add leaf by leaf."""

import contextlib
import importlib
import io
import json
import pkgutil
import re
import zipfile
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import flows
import vbmodels
from vbmodels.core.state import (
    State,
    StateError,
    Stats,
    aligned,
    from_bytes,
    leaves,
    same_bits,
    to_bytes,
)


@dataclass(frozen=True)
class Inner(State):
    weights: np.ndarray
    note: Any = None


@dataclass(frozen=True)
class Outer(State):
    x: np.ndarray
    inner: Inner
    pair: tuple[Any, ...]
    count: int
    rate: float
    flag: bool
    absent: Any = None


@dataclass(frozen=True)
class Sums(Stats):
    n: float
    xx: np.ndarray
    parts: tuple[Any, ...] = ()
    deeper: Any = None


def outer(seed: int = 0) -> Outer:
    rng = np.random.default_rng(seed)
    return Outer(
        x=rng.standard_normal((3, 2)),
        inner=Inner(np.arange(4, dtype=np.int32), "a sentence: ü"),
        pair=(np.array(["ab", "cde"]), Inner(np.zeros((0, 5)), np.float32(1.5))),
        count=-(2**62),
        rate=0.1,
        flag=True,
    )


def test_round_trip_keeps_bits_types_and_structure():
    state = outer()
    back = from_bytes(to_bytes(state), Outer)
    assert same_bits(back, state)
    for (name, left), (other, right) in zip(leaves(state), leaves(back), strict=True):
        assert name == other
        assert type(left) is type(right), name
    assert back.inner.note == "a sentence: ü"


@pytest.mark.parametrize(
    "leaf",
    [
        np.array(3.0),
        np.array([np.nan, -0.0, np.inf]),
        np.float64(0.1),
        np.bool_(True),
        np.array([], dtype="U3"),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(5, dtype=">f8"),
        ((), (None, 1.0)),
    ],
    ids=repr,
)
def test_every_kind_of_leaf_comes_back(leaf):
    back = from_bytes(to_bytes(Inner(np.ones(1), leaf)), Inner)
    assert same_bits(back, Inner(np.ones(1), leaf))
    assert type(back.note) is type(leaf)
    if isinstance(leaf, np.ndarray):
        assert back.note.dtype == leaf.dtype


def test_same_bits_sees_the_smallest_difference():
    assert same_bits(outer(), outer())
    for change in ({"rate": np.nextafter(0.1, 1)}, {"count": 1}, {"absent": 0.0}):
        assert not same_bits(outer(), replace(outer(), **change))


def test_every_changed_byte_is_seen_or_changes_nothing():
    """A flipped byte never restores another state (some bytes of a zip mean nothing)."""
    state = Inner(np.arange(3.0), 2.5)
    data = to_bytes(state)
    unseen = 0
    for i in range(len(data)):
        for mask in (0x01, 0xFF):
            changed = data[:i] + bytes([data[i] ^ mask]) + data[i + 1 :]
            with contextlib.suppress(StateError):
                assert same_bits(from_bytes(changed, Inner), state)
                unseen += 1
    assert unseen < len(data)


def test_every_truncation_is_seen():
    data = to_bytes(Inner(np.arange(3.0)))
    for end in range(0, len(data), 7):
        with pytest.raises(StateError, match="the checkpoint is damaged"):
            from_bytes(data[:end], Inner, "the checkpoint")


def test_a_pickle_is_refused():
    buffer = io.BytesIO()
    np.save(buffer, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(StateError, match="damaged or not"):
        from_bytes(buffer.getvalue(), State)


@pytest.mark.parametrize(
    ("known", "said"), [(None, "does not know"), (Sums, r"another version.*'note'")]
)
def test_an_unknown_type_and_another_set_of_fields_are_refused(monkeypatch, known, said):
    data, name = to_bytes(Inner(np.ones(1))), f"{__name__}.Inner"
    if known is None:
        monkeypatch.delitem(State._registry, name)
    else:
        monkeypatch.setitem(State._registry, name, known)
    with pytest.raises(StateError, match=said):
        from_bytes(data, State)


def test_every_state_has_its_own_kind_that_names_no_module():
    for package in (vbmodels, flows):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    own = [cls for cls in subclasses(State) if cls.__module__.startswith(("vbmodels.", "flows."))]
    assert len(own) > 160
    unfit = [cls for cls in own if not re.fullmatch(r"\w+(/\w+)?\.\w+", cls.state_kind)]
    assert not unfit
    assert len({cls.state_kind for cls in own}) == len(own)


def subclasses(cls):
    for sub in cls.__subclasses__():
        yield sub
        yield from subclasses(sub)


def test_a_stored_state_names_its_kind_wherever_its_class_has_moved():
    @dataclass(frozen=True)
    class Kept(State, kind="tests/kinds.Kept"):
        x: np.ndarray

    data = to_bytes(Kept(np.arange(3.0)))
    with np.load(io.BytesIO(data)) as archive:
        header = json.loads(archive["header"].tobytes())
    assert header["tree"]["state"] == "tests/kinds.Kept"

    del State._registry["tests/kinds.Kept"]  # another version of the program defines it elsewhere

    @dataclass(frozen=True)
    class Moved(State, kind="tests/kinds.Kept"):
        x: np.ndarray

    assert same_bits(from_bytes(data, Moved), Moved(np.arange(3.0)))


def test_a_kind_that_two_classes_have_is_refused_when_the_second_is_defined():
    class First(State, kind="tests/kinds.Same"):
        pass

    with pytest.raises(TypeError, match=r"First and .*Second have the same kind 'tests/kinds.Same"):

        class Second(State, kind="tests/kinds.Same"):
            pass


def test_what_cannot_be_stored_says_so():
    @dataclass(frozen=True)
    class Clash(State):
        file: float

    class Plain(Inner):
        pass

    with pytest.raises(TypeError, match="may not call a field 'file'"):
        to_bytes(Clash(1.0))
    with pytest.raises(TypeError, match=r"decorate it with @dataclass\(frozen=True\)"):
        to_bytes(Plain(np.ones(1)))


def test_sums_add_leaf_by_leaf_and_change_neither():
    a = Sums(1.0, np.ones(2), (np.ones(1), 2), Sums(1.0, np.zeros(1)))
    b = Sums(2.0, np.full(2, 3.0), (np.ones(1), 5), Sums(4.0, np.ones(1)))
    c = a + b
    assert (c.n, c.parts[1], c.deeper.n) == (3.0, 7, 5.0)
    assert c.xx.tolist() == [4.0, 4.0]
    assert a.xx.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("other", "error", "message"),
    [
        (Sums(1.0, np.ones(3)), ValueError, r"\(2,\) and \(3,\)"),
        (Sums(np.ones(2), np.ones(2)), ValueError, r"\(\) and \(2,\)"),
        (Sums(1.0, np.ones(2), (1,)), ValueError, "zip"),
        (Sums(1.0, np.ones(2), (), Sums(1.0, np.ones(2))), TypeError, "only Stats add up"),
        (1.0, TypeError, "unsupported operand"),
    ],
)
def test_statistics_that_do_not_match_do_not_add(other, error, message):
    with pytest.raises(error, match=message):
        Sums(1.0, np.ones(2)) + other


def test_aligned_copies_only_what_it_must():
    raw = np.frombuffer(b"x" + np.arange(4.0).tobytes(), dtype=np.uint8)[1:].view(np.float64)
    assert not raw.flags.aligned
    good = np.arange(3.0)
    state = aligned(Sums(1.0, raw, (good, np.asfortranarray(np.ones((2, 3))))))
    assert state.xx.flags.aligned
    assert state.xx.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert state.parts[0] is good
    assert state.parts[1].flags.c_contiguous


def test_a_stop_while_a_state_is_written_stays_a_stop(monkeypatch):
    opened, handles = zipfile.ZipFile.open, []

    def stopped(self, *args, **kwargs):
        handles.append(opened(self, *args, **kwargs))
        raise KeyboardInterrupt

    monkeypatch.setattr(zipfile.ZipFile, "open", stopped)
    with pytest.raises(KeyboardInterrupt):
        to_bytes(outer())
    for handle in handles:
        handle.close()
