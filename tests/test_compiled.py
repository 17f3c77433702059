"""Compiled functions give the same bits when just compiled and when read from Numba's cache.

A function that another one calls is compiled twice: by itself, and as a copy within its caller's
module. A process that has just compiled both runs the first; one that reads the caller from the
cache runs the copy. Where the compiler may contract or reassociate (``fastmath``), the two may
differ in their last bits, so that a run that began with an empty cache could not be resumed to
the same bits. A function that is always inlined has no code of its own to differ.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def compiled(sources: dict[str, str]) -> dict[str, tuple[ast.FunctionDef, str]]:
    """Return every compiled function by "file:name", with its decorator's text."""
    return {
        f"{file}:{node.name}": (node, text)
        for file, source in sources.items()
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef)
        for text in (ast.unparse(d) for d in node.decorator_list)
        if text.startswith("njit")
    }


def lax_copies(sources: dict[str, str]) -> list[str]:
    """Name the functions whose copies may differ: called, not inlined, and not strict."""
    functions = compiled(sources)
    by_name: dict[str, list[str]] = {}
    for key in functions:
        by_name.setdefault(key.split(":")[1], []).append(key)
    calls = {
        key: {
            own
            for call in ast.walk(node)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
            for own in by_name.get(call.func.id, ())
        }
        for key, (node, _) in functions.items()
    }

    def lax(key: str) -> bool:
        return "fastmath" in functions[key][1] or any(lax(called) for called in calls[key])

    called = set().union(*calls.values()) if calls else set()
    return sorted(k for k in called if lax(k) and "forceinline=True" not in functions[k][1])


def test_every_called_function_that_is_not_strict_is_inlined():
    files = sorted(f for of in ("vbmodels", "flows") for f in (ROOT / of).rglob("*_kernels.py"))
    assert len(files) > 5
    assert lax_copies({str(f.relative_to(ROOT)): f.read_text() for f in files}) == []


def test_a_copy_that_may_differ_is_named():
    source = """
@njit(fastmath={"contract"})
def inner(x):
    return x * x + 1.0

@njit(cache=True)
def middle(x):
    return inner(x)

@njit(cache=True)
def outer(x):
    return middle(x) + strict(x)

@njit(cache=True)
def strict(x):
    return x
"""
    assert lax_copies({"a_kernels.py": source}) == ["a_kernels.py:inner", "a_kernels.py:middle"]


FIT = """
import hashlib
from vbmodels.core.fit import fit
from tests.contract import {module} as rows
case = next(v for v in vars(rows).values() if type(v).__name__ == "Case")
done = fit(case.model(), case.batches(1, 2), max_iter=30)
parts = (v.tobytes() if hasattr(v, "tobytes") else repr(v).encode() for v in vars(done.q).values())
print(hashlib.sha256(b"".join(parts) + repr(done.trace).encode()).hexdigest())
"""


@pytest.mark.slow
@pytest.mark.parametrize("module", ["case_batch_null", "case_two_groups"])
def test_a_fit_by_fresh_code_has_the_bits_of_one_by_cached_code(module, tmp_path):
    setting = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    bits = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", FIT.format(module=module)],
            cwd=ROOT, env=setting, capture_output=True, text=True, check=True,
        ).stdout
        for _ in range(2)
    ]  # fmt: skip
    assert list(tmp_path.rglob("*.nbc"))
    assert bits[0] == bits[1] != ""
