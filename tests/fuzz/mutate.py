"""Damage: bytes, words of text, values of JSON, columns and cells of Parquet, arrays of npz."""

import copy
import io
import json
import zipfile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Rng = np.random.Generator

WORDS = (
    "", " ", "nan", "inf", "-inf", "1e400", "-1", "0", "9" * 40, "9" * 5000, "0x", "null", "true",
    "\x00", "\ufeff", "é", "\u202e", "🙂", "a" * 70_000, "'", '"', '"unclosed', "\\", "\t", "\r",
    "*x", "&a [*a]", "!!int ''", "!!python/object/apply:os.system [touch canary]", "[" * 3000,
    "{" * 3000, "$(touch canary)", "`touch canary`", "../../../etc/passwd", "/dev/null", "s3://",
    "file:///", "chr1", "2021-13-45", "<<", "? [1]", ",", ",,,,", ";", "# ", "%", "{}", "[]",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2**31, 2**63, 10**400, 0.5, -0.0, 1e308, "", "x", "a" * 70_000,
    "\ud800", "../..", [], [[]], {}, {"a": {}}, [None], ["x"] * 3,
)  # fmt: skip


def damaged(name: str, seed: bytes, rng: Rng) -> bytes:
    """Return a damaged copy of a file, by its name's ending as often as by its bytes.

    Tables that a run keeps for itself are damaged by bytes alone: nobody writes them again.
    """
    kind = name.rpartition(".")[2]
    if kind == "parquet" and {"work", "kept"} & set(name.split("/")):
        return _bytes(seed, rng)
    by_kind = {
        "parquet": _parquet, "json": _json, "npz": _npz, "yaml": _text, "csv": _text, "bed": _text,
        "jsonl": _text, "fa": _text, "fai": _text,
    }.get(kind, _bytes)  # fmt: skip
    how = by_kind if rng.random() < 0.7 else _bytes
    try:
        return how(seed, rng)
    except (ValueError, pa.ArrowException, KeyError, zipfile.BadZipFile, NotImplementedError):
        return _bytes(seed, rng)  # some changes of a table cannot be written


def _bytes(seed: bytes, rng: Rng) -> bytes:
    data = bytearray(seed)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(0, len(data) + 1))
        size = int(rng.choice([1, 2, 8, 64]))
        match int(rng.integers(0, 7)):
            case 0:
                data[at : at + size] = rng.bytes(size)
            case 1:
                del data[at:]
            case 2:
                data[at:at] = rng.bytes(size)
            case 3:
                del data[at : at + size]
            case 4:
                data[at : at + size] = bytes(size)
            case 5:
                data[at : at + size] = b"\xff" * size
            case _:
                if at < len(data):
                    data[at] ^= 1 << int(rng.integers(0, 8))
    return bytes(data)


def _text(seed: bytes, rng: Rng) -> bytes:
    lines = seed.decode("utf-8", "surrogateescape").split("\n")
    for _ in range(int(rng.integers(1, 3))):
        at = int(rng.integers(0, len(lines)))
        word = str(rng.choice(np.array(WORDS, object)))
        cut = [c for c in ",\t: " if c in lines[at]]
        match int(rng.integers(0, 6)):
            case 0:
                lines[at] = word
            case 1:
                lines.insert(at, lines[int(rng.integers(0, len(lines)))])
            case 2:
                del lines[at]
                lines = lines or [""]
            case 3:
                place = int(rng.integers(0, len(lines[at]) + 1))
                lines[at] = lines[at][:place] + word + lines[at][place:]
            case _ if cut:
                parts = lines[at].split(cut[0])
                parts[int(rng.integers(0, len(parts)))] = word
                lines[at] = cut[0].join(parts)
            case _:
                lines[at] += word
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def _json(seed: bytes, rng: Rng) -> bytes:
    if rng.random() < 0.1:
        deep = 10 ** int(rng.integers(2, 6))
        return b"[" * deep + b"]" * deep
    content = json.loads(seed)
    for _ in range(int(rng.integers(1, 3))):
        content = _changed(content, rng)
    return json.dumps(content).encode("utf-8", "surrogatepass")


def _changed(content: Any, rng: Rng) -> Any:
    """Change one value somewhere inside."""
    inside = list(content) if isinstance(content, dict) else range(len(content)) if (
        isinstance(content, list)) else ()  # fmt: skip
    if not inside or rng.random() < 0.15:
        return copy.deepcopy(VALUES[int(rng.integers(0, len(VALUES)))])
    at = inside[int(rng.integers(0, len(inside)))]
    if rng.random() < 0.2:
        if isinstance(content, dict) and rng.random() < 0.5:
            content["an odd name"] = content[at]
        else:
            del content[at]
    else:
        content[at] = _changed(content[at], rng)
    return content


def _npz(seed: bytes, rng: Rng) -> bytes:
    with np.load(io.BytesIO(seed), allow_pickle=False) as archive:
        arrays = dict(archive)
    name = str(rng.choice(list(arrays)))
    array = arrays[name]
    match int(rng.integers(0, 7)):
        case 0:
            del arrays[name]
        case 1:
            arrays[name] = array[:0] if array.ndim else np.zeros(3)
        case 2:
            arrays[name] = array.astype(str)
        case 3:
            arrays[name] = np.expand_dims(array, 0)
        case 4 if array.dtype.kind == "f":
            arrays[name] = np.full_like(array, rng.choice([np.nan, np.inf, -1e308]))
        case 5 if array.dtype.kind in "iu":
            arrays[name] = np.full_like(array, np.iinfo(array.dtype).max)
        case _:
            arrays["odd"] = array
    sink = io.BytesIO()
    np.savez(sink, **arrays)
    return sink.getvalue()


def _parquet(seed: bytes, rng: Rng) -> bytes:
    table = pq.read_table(io.BytesIO(seed))
    for _ in range(int(rng.integers(1, 3))):
        at = int(rng.integers(0, table.num_columns))
        name, column = table.column_names[at], table.column(at)
        match int(rng.integers(0, 9)):
            case 0:
                table = table.drop_columns([name])
            case 1:
                odd = str(rng.choice(["", "odd", "a" * 3000, "ü\n", *table.column_names]))
                names = [odd if i == at else n for i, n in enumerate(table.column_names)]
                table = table.rename_columns(names)
            case 2:
                table = table.slice(0, int(rng.integers(0, 3)))
            case 3:
                table = pa.concat_tables([table, table.slice(0, int(rng.integers(1, 4)))])
            case 4:
                table = table.set_column(at, name, _other_type(column, rng))
            case 5:
                table = table.append_column(f"more {at}", column)
            case _:
                table = table.set_column(at, name, _other_cells(column, rng))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def _other_cells(column: pa.ChunkedArray, rng: Rng) -> pa.Array:
    """Change some cells to values that the type can hold."""
    values, kind = column.to_pylist(), column.type
    rows = rng.integers(0, len(values), int(rng.integers(1, 4))) if values else []
    everywhere = rng.random() < 0.2
    odd: tuple[Any, ...] = (None, *_odd(kind))
    value = odd[int(rng.integers(0, len(odd)))]
    for row in range(len(values)) if everywhere else rows:
        values[int(row)] = value
    return pa.array(values, kind)


def _odd(kind: pa.DataType) -> tuple[Any, ...]:
    if pa.types.is_floating(kind):
        return (float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 5e-324, -0.0, 0.0)
    if pa.types.is_integer(kind):
        bits = kind.bit_width - 1
        return (2**bits - 1, 0, 7, *(() if "uint" in str(kind) else (-1, -(2**bits))))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return ("", " ", "a" * 70_000, "\x00", "🙂", "=1+1", "<script>alert(1)</script>", "a\nb",
                "../x", "chr1", "N")  # fmt: skip
    if pa.types.is_list(kind):
        inner = _odd(kind.value_type)
        return ([], [None], *([one] for one in inner), *([one] * 3 for one in inner[:3]))
    return (True, False) if pa.types.is_boolean(kind) else ()


def _other_type(column: pa.ChunkedArray, rng: Rng) -> pa.Array:
    n = len(column)
    text = pa.array([str(v) for v in column.to_pylist()])
    kinds: tuple[Any, ...] = (
        lambda: pa.nulls(n),
        lambda: text,
        lambda: text.cast(pa.large_string()),
        lambda: text.cast(pa.binary()),
        lambda: text.dictionary_encode(),
        lambda: pa.array(rng.random(n)),
        lambda: pa.array(rng.random(n).astype(np.float16)),
        lambda: pa.array(np.full(n, 2**64 - 1, np.uint64)),
        lambda: pa.array(rng.integers(-3, 3, n).astype(np.int8)),
        lambda: pa.array([bool(b) for b in rng.integers(0, 2, n)]),
        lambda: pa.array([[1.0, 2.0]] * n),
        lambda: pa.array([[["x"]]] * n),
        lambda: pa.array([{"a": 1}] * n),
        lambda: pa.array([1] * n).cast(pa.timestamp("s")),
        lambda: pa.array([1] * n).cast(pa.date64()) if n < 0 else pa.array([1] * n, pa.date32()),
        lambda: pa.array([1] * n).cast(pa.decimal128(38, 2)),
        lambda: pa.array([b"\xff\xfe"] * n, pa.binary()),
        lambda: pa.array(rng.integers(0, 5, n), pa.duration("s")),
    )
    return kinds[int(rng.integers(0, len(kinds)))]()
