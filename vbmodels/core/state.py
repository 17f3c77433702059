"""States: frozen dataclasses of arrays that can be saved, restored, compared and added.

Everything that a fit must keep (global parameters, a partition's data and local
parameters, statistics, the position of a loop) is a `State`. Its leaves are NumPy
arrays, Python scalars and ``None``; its branches are tuples and other states. So one
pair of functions writes and reads them all, without pickle and with a checksum.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
import weakref
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cache, cached_property
from itertools import repeat
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

FORMAT = "vbflows-state/1"
_HEADER = "header"
# Names that an archive of arrays, or the function that writes it, uses itself.
_RESERVED = frozenset({_HEADER, "file", "allow_pickle"})


class StateError(ValueError):
    """Stored bytes that are damaged, of another format, or of another type than expected."""


def _path(cls: type[Any]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


@dataclass(frozen=True)
class State:
    """Base of every frozen dataclass of arrays.

    A stored state names its class by the class's kind, given with the class as in
    ``class Global(State, kind="family/model.Global")``: its module can then move. Without one
    the kind is the class's module and name. Only classes that are defined are restored: reading
    a file never imports or runs anything that the file names.

    Raises
    ------
    TypeError
        At the definition of a class whose kind another class has.
    """

    state_kind: ClassVar[str] = "core.State"
    _registry: ClassVar[dict[str, type[State]]] = {}

    def __init_subclass__(cls, kind: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.state_kind = _path(cls) if kind is None else kind
        known = State._registry.get(cls.state_kind, cls)
        if _path(known) != _path(cls):
            raise TypeError(
                f"{_path(known)} and {_path(cls)} have the same kind {kind!r}: rename one of them"
            )
        State._registry[cls.state_kind] = cls

    @cached_property
    def nbytes(self) -> int:
        """Bytes held by its arrays."""
        return sum(leaf.nbytes for _, leaf in leaves(self) if isinstance(leaf, np.ndarray))

    def __getstate__(self) -> dict[str, Any]:
        """Send the fields alone: what was computed from them stays where it was."""
        return {name: getattr(self, name) for name in _names(type(self))}

    def extended(self, cls: type[S], **added: Any) -> S:
        """Return a state of a derived class: these fields, and those that it has besides."""
        return cls(**self.__getstate__(), **added)


@dataclass(frozen=True)
class Stats(State, kind="core.Stats"):
    """A state whose sum over partitions is meaningful, leaf by leaf."""

    def __add__(self, other: Self) -> Self:
        if type(other) is not type(self):
            return NotImplemented
        return type(self)(
            **{name: _add(getattr(self, name), getattr(other, name)) for name in _names(type(self))}
        )

    def scaled(self, by: float) -> Self:
        """Return the sum as if every unit in it had the weight ``by``."""
        return type(self)(**{name: _scaled(getattr(self, name), by) for name in _names(type(self))})


S = TypeVar("S", bound=State)
T = TypeVar("T", bound=Stats)


def _scaled(value: Any, by: float) -> Any:
    if isinstance(value, tuple):
        return tuple(_scaled(item, by) for item in value)
    if isinstance(value, Stats):
        return value.scaled(by)
    return None if value is None else value * by


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, tuple):
        return tuple(_add(a, b) for a, b in zip(left, right, strict=True))
    if left is None and right is None:
        return None
    if isinstance(left, State) or left is None or right is None:
        if not isinstance(left, Stats) or not isinstance(right, Stats):
            raise TypeError(
                f"only Stats add up, got {type(left).__name__} and {type(right).__name__}"
            )
    elif np.shape(left) != np.shape(right):
        raise ValueError(
            f"statistics of two partitions differ in shape: {np.shape(left)} and {np.shape(right)}"
        )
    return left + right


def tree_sum(parts: Iterable[T]) -> T:
    """Return a sum of statistics over the fixed binary tree of their positions.

    The tree splits n parts at the largest power of two below n, so the sum over complete
    subtrees can be made elsewhere and finished here with the same bits. Parts arrive one at a
    time: at most log2(n) + 1 partial sums are held.
    """
    pending: list[tuple[int, T]] = []
    for part in parts:
        size, total = 1, part
        while pending and pending[-1][0] == size:
            size, total = 2 * size, pending.pop()[1] + total
        pending.append((size, total))
    if not pending:
        raise ValueError("there is nothing to add: expected at least one partition")
    _, total = pending.pop()
    while pending:
        total = pending.pop()[1] + total
    return total


def leaves(state: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted name, leaf) for every array, scalar and None of a state, in field order."""
    to_do = [(name, state)]
    while to_do:
        name, value = to_do.pop()
        if isinstance(value, State):
            keys = _names(type(value))
            items = [getattr(value, key) for key in keys]
        elif isinstance(value, tuple):
            keys, items = tuple(map(str, range(len(value)))), list(value)
        else:
            yield name, value
            continue
        names = [f"{name}.{key}" if name else key for key in keys]
        to_do += reversed(list(zip(names, items, strict=True)))


def same_bits(left: State, right: State) -> bool:
    """Whether two states are equal to the last bit, NaN equal to NaN."""
    if type(left) is not type(right):
        return False
    a, b = list(leaves(left)), list(leaves(right))
    return len(a) == len(b) and all(
        x == y and _bits(u) == _bits(v) for (x, u), (y, v) in zip(a, b, strict=True)
    )


def _bits(leaf: Any) -> tuple[str, tuple[int, ...], bytes]:
    if leaf is None:
        return ("none", (), b"")
    array = np.asarray(leaf)
    return (array.dtype.str, array.shape, array.tobytes())


def aligned(state: S) -> S:
    """Copy what is not C-contiguous and aligned; a state in which all is comes back itself.

    Arrays that arrive over a network may start off an 8-byte boundary, where NumPy takes
    another path through matrix products and the last bits differ.
    """
    # A check is quicker than a copy, and nearly all states are as they should be.
    value: Any = state
    if _is_aligned(value):
        return state
    if isinstance(value, np.ndarray):
        return cast(S, np.require(value, requirements=["C", "A"]))
    if isinstance(value, tuple):
        return cast(S, tuple(map(aligned, value)))
    return type(state)(**{name: aligned(getattr(value, name)) for name in _names(type(value))})


def _is_aligned(value: Any) -> bool:
    to_do = [value]
    while to_do:
        value = to_do.pop()
        if isinstance(value, np.ndarray):
            if not (value.flags.c_contiguous and value.flags.aligned):
                return False
        elif isinstance(value, tuple):
            to_do += value
        elif isinstance(value, State):
            to_do += [getattr(value, name) for name in _names(type(value))]
    return True


_names: Callable[[Any], tuple[str, ...]] = cache(lambda kind: tuple(f.name for f in fields(kind)))
"""From a class to the names of its fields."""


def to_bytes(state: State) -> bytes:
    """Serialise a state: an uncompressed .npz (no pickle) with a typed header and a checksum."""
    arrays: dict[str, NDArray[Any]] = {}
    tree = _describe(state, "", arrays)
    header = {"format": FORMAT, "tree": tree, "sha256": _digest(tree, arrays)}
    buffer = io.BytesIO()
    encoded = np.frombuffer(json.dumps(header, sort_keys=True).encode(), dtype=np.uint8)
    try:
        np.savez(buffer, allow_pickle=False, **{_HEADER: encoded}, **arrays)
    except ValueError as error:
        # A stop between opening a member and writing it is hidden by what closing the file says.
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise
    return buffer.getvalue()


def _describe(value: Any, path: str, arrays: dict[str, NDArray[Any]]) -> Any:
    if value is None:
        return {"none": True}
    if isinstance(value, State):
        if "__dataclass_fields__" not in vars(type(value)):
            raise TypeError(
                f"{_path(type(value))} is no dataclass: decorate it with @dataclass(frozen=True)"
            )
        inside = {}
        for name in _names(type(value)):
            inside[name] = _describe(getattr(value, name), f"{path}.{name}", arrays)
        return {"state": type(value).state_kind, "fields": inside}
    if isinstance(value, tuple):
        paths = [f"{path}.{i}" for i in range(len(value))]
        return {"tuple": list(map(_describe, value, paths, repeat(arrays)))}
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise TypeError(f"a state holds arrays of numbers or fixed-width text; {path} does not")
    key = path.lstrip(".")
    if key in _RESERVED:
        raise TypeError(f"a state that is stored may not call a field {key!r}: rename it")
    arrays[key] = array
    if isinstance(value, np.ndarray):
        return {"array": key}
    kind = type(value).__name__ if type(value) in _KINDS.values() else "numpy"
    return {"scalar": key, "kind": kind}


_KINDS: dict[str, type[Any]] = {"bool": bool, "int": int, "float": float, "str": str}


def _digest(tree: Any, arrays: dict[str, NDArray[Any]]) -> str:
    total = hashlib.sha256(json.dumps(tree, sort_keys=True).encode())
    for key in sorted(arrays):
        array = arrays[key]
        total.update(f"{key}|{array.dtype.str}|{array.shape}|".encode())
        total.update(np.ascontiguousarray(array).view(np.uint8).data if array.nbytes else b"")
    return total.hexdigest()


# What NumPy, zipfile and json raise on bytes that are cut short or changed.
_DAMAGE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    EOFError,
    MemoryError,
    OverflowError,
    RuntimeError,
    SyntaxError,
    AttributeError,
    zipfile.BadZipFile,
    struct.error,
    zlib.error,
)


def from_bytes(data: bytes, expected: type[S], source: str = "the stored state") -> S:
    """Restore what `to_bytes` wrote, refusing what is damaged or of another type.

    Parameters
    ----------
    data
        The bytes of one file.
    expected
        The class that the state must be (or be derived from).
    source
        The name of the file, for messages.

    Raises
    ------
    StateError
        If the bytes are cut short, changed, or hold another type.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            if any(info.compress_type != zipfile.ZIP_STORED for info in archive.zip.infolist()):
                raise ValueError("it is compressed, which a state never is")
            arrays = {key: archive[key] for key in archive.files}
        header = json.loads(arrays.pop(_HEADER).tobytes())
        file_format = header["format"]
        tree, digest = header["tree"], header["sha256"]
    except _DAMAGE as error:
        raise StateError(f"{source} is damaged or not a vbflows state file ({error})") from error
    if file_format != FORMAT:
        raise StateError(f"{source} has format {file_format!r}; this version reads {FORMAT!r}")
    if _digest(tree, arrays) != digest:
        raise StateError(f"{source} is damaged: its checksum does not match its contents")
    state = _restore(tree, arrays, source)
    if not isinstance(state, expected):
        raise StateError(f"{source} holds a {type(state).__name__}, expected a {expected.__name__}")
    return state


def _restore(tree: Any, arrays: dict[str, NDArray[Any]], source: str) -> Any:
    if "none" in tree:
        return None
    if "array" in tree:
        return arrays[tree["array"]]
    if "scalar" in tree:
        value = arrays[tree["scalar"]][()]
        return _KINDS[tree["kind"]](value) if tree["kind"] in _KINDS else value
    if "tuple" in tree:
        return tuple(_restore(item, arrays, source) for item in tree["tuple"])
    cls = State._registry.get(tree["state"])
    if cls is None:
        raise StateError(f"{source} holds a {tree['state']}, which this program does not know")
    values = {key: _restore(item, arrays, source) for key, item in tree["fields"].items()}
    if set(values) != set(_names(cls)):
        raise StateError(
            f"{source} was written by another version: {cls.__name__} has the fields "
            f"{sorted(_names(cls))}, the file has {sorted(values)}"
        )
    return cls(**values)


M = TypeVar("M")


class Memory(Generic[M]):
    """The last thing that was made of each batch, under its key; a memory, never a meaning.

    Entries go with their batch, and when another key is requested.
    """

    def __init__(self) -> None:
        self.kept: dict[int, tuple[bytes, M]] = {}

    def of(self, batch: Any, key: bytes, make: Callable[[], M]) -> M:
        """Return what is made of a batch under this key, from memory where it is."""
        known = self.kept.get(id(batch))
        if known is not None and known[0] == key:
            return known[1]
        value = make()
        if id(batch) not in self.kept:
            weakref.finalize(batch, self.kept.pop, id(batch), None)
        self.kept[id(batch)] = (key, value)
        return value
