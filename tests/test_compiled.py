"""Compiled functions have the same bits whatever was compiled, or read from a cache, before them.

What may change the last bits is the licence to contract or reassociate (``fastmath``), in three
ways.

A function that another one calls is compiled twice: by itself, and as a copy within its caller's
module. A process that has just compiled both runs the first; one that reads the caller from the
cache runs the copy. Where the compiler has the licence, the two may differ, so that a run that
began with an empty cache could not be resumed to the same bits. A function that is always inlined
has no code of its own to differ.

A function that does not state its licence takes that of the caller which is compiled first, and
keeps it in the cache for all.

Numba compiles ``x ** n`` of a whole number n once in a process, for all callers: with the licence
of the first one, which may be a function of another library.

A compiled function stays small enough that a person can check it: `MOST_LINES`, `MOST_ARGUMENTS`.

And Numba reads a function from its cache while its own file is as it was, whatever became of what
it calls: `vbmodels.core.cached_kernels`.
"""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_LINES, MOST_ARGUMENTS = 60, 12


CALLEE = """
from vbmodels.core.cached_kernels import njit

@njit(cache=True)
def {name}(x):
    return {value}
"""


def compiled(sources: dict[str, str]) -> dict[str, tuple[ast.FunctionDef, dict[str, str]]]:
    """Return every compiled function by "file:name", with its options' texts."""
    return {
        f"{file}:{node.name}": (node, _options(decorator))
        for file, source in sources.items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
        if ast.unparse(decorator).removeprefix("numba.").startswith("njit")
    }


def _options(decorator: ast.expr) -> dict[str, str]:
    given = decorator.keywords if isinstance(decorator, ast.Call) else []
    return {str(option.arg): ast.unparse(option.value) for option in given}


def callees(functions: dict[str, tuple[ast.FunctionDef, dict[str, str]]]) -> dict[str, set[str]]:
    """Return which compiled functions each one calls."""
    by_name: dict[str, list[str]] = {}
    for key in functions:
        by_name.setdefault(key.split(":")[1], []).append(key)
    return {
        key: {
            own
            for call in ast.walk(node)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
            for own in by_name.get(call.func.id, ())
        }
        for key, (node, _) in functions.items()
    }


def lax_copies(sources: dict[str, str]) -> list[str]:
    """Name the functions whose copies may differ: called, not inlined, and not strict."""
    functions = compiled(sources)
    calls = callees(functions)

    def lax(key: str) -> bool:
        own = functions[key][1].get("fastmath", "False") != "False"
        return own or any(lax(called) for called in calls[key])

    called = set().union(*calls.values()) if calls else set()
    inlined = {"forceinline": "True", "inline": "'always'"}.items()
    return sorted(k for k in called if lax(k) and not inlined & functions[k][1].items())


def unstated(sources: dict[str, str]) -> list[str]:
    """Name the functions that take the licence of the caller which is compiled first.

    A body that is inlined before it is compiled (``inline="always"``) is part of each caller.
    """
    functions = compiled(sources)
    calls = callees(functions)
    reached = {k for k in functions if functions[k][1].get("fastmath", "False") != "False"}
    found: set[str] = set()
    while new := {called for key in reached for called in calls[key]} - reached:
        found |= {key for key in new if "fastmath" not in functions[key][1]}
        reached |= new
    return sorted(key for key in found if functions[key][1].get("inline") != "'always'")


def powers(sources: dict[str, str]) -> list[str]:
    """Name the functions that take a power by an operator."""
    return sorted(
        key
        for key, (node, _) in compiled(sources).items()
        if any(
            isinstance(part, ast.BinOp | ast.AugAssign) and isinstance(part.op, ast.Pow)
            for part in ast.walk(node)
        )
    )


def large(sources: dict[str, str]) -> list[str]:
    """Name the functions that are too long, or take too many arguments, to be checked by eye."""
    return sorted(
        key
        for key, (node, _) in compiled(sources).items()
        if node.end_lineno - node.lineno >= MOST_LINES or len(node.args.args) > MOST_ARGUMENTS
    )


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    folders = ("vbmodels", "flows", "examples")
    files = sorted(f for of in folders for f in (ROOT / of).rglob("*kernels.py"))
    assert len(files) > 20
    return {str(f.relative_to(ROOT)): f.read_text(encoding="utf-8") for f in files}


def test_every_called_function_that_is_not_strict_is_inlined(sources):
    assert lax_copies(sources) == []


def test_every_function_that_is_called_with_a_licence_states_its_own(sources):
    assert unstated(sources) == []


def test_no_compiled_function_takes_a_power_by_an_operator(sources):
    assert powers(sources) == []


def test_no_compiled_function_is_too_large_to_check(sources):
    assert large({f: s for f, s in sources.items() if f.startswith("vbmodels")}) == []


def test_a_function_that_is_too_large_is_named():
    long = "@njit\ndef long(x):\n" + "    x += 1\n" * 60
    wide = f"@njit\ndef wide({', '.join(f'a{i}' for i in range(13))}):\n    return a0\n"
    fits = "@njit\ndef fits(x):\n" + "    x += 1\n" * 59
    assert large({"a_kernels.py": long + wide + fits}) == ["a_kernels.py:long", "a_kernels.py:wide"]


def test_a_file_that_calls_functions_of_another_is_cached_with_it(sources):
    for file, source in sources.items():
        if re.search(r"^from (vbmodels|flows)\.[a-z_.]*_kernels import", source, re.MULTILINE):
            assert "from vbmodels.core.cached_kernels import njit\n" in source, file


def test_a_function_is_compiled_again_where_a_file_of_its_callees_has_changed(tmp_path):
    def write(name: str, value: str, head: str = "") -> None:
        (tmp_path / f"{name}.py").write_text(head + CALLEE.format(name=name, value=value))

    def found() -> str:
        program = "from top import top; print(top(1), sum(top.stats.cache_hits.values()))"
        return subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path, capture_output=True, text=True, check=True,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        ).stdout  # fmt: skip

    write("far", "x + 1")
    write("near", "far(x)", "from far import far")
    write("top", "near(x)", "from near import near")
    assert found() == "2 0\n"
    assert found() == "2 1\n"
    write("far", "x + 2")
    assert found() == "3 0\n"


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


def test_what_depends_on_the_order_of_compilation_is_named():
    source = """
@numba.njit(cache=True, fastmath=LAX)
def outer(x):
    return middle(x) + strict(x) + part(x)

@njit(fastmath=False)
def strict(x):
    return far(x) ** 2

@njit(forceinline=True)
def middle(x):
    x **= 3
    return x

@njit
def far(x):
    return x

@njit(inline="always")
def part(x):
    return x

@njit
def alone(x):
    return far(x)
"""
    of = {"a_kernels.py": source}
    assert unstated(of) == ["a_kernels.py:far", "a_kernels.py:middle"]
    assert powers(of) == ["a_kernels.py:middle", "a_kernels.py:strict"]


FIT = """
import hashlib
from vbmodels.core.fit import fit
from tests.contract import {module} as rows
case = next(v for v in vars(rows).values() if type(v).__name__ == "Case")
done = fit(case.model(), case.batches(1, 2), max_iter=30)
parts = (v.tobytes() if hasattr(v, "tobytes") else repr(v).encode() for v in vars(done.q).values())
print(hashlib.sha256(b"".join(parts) + repr(done.trace).encode()).hexdigest())
"""


# Another library's function, and a caller without the licence.
BEFORE = """
from numba import njit
from vbmodels.variants.elementary_kernels import log_rising, polygammas

@njit(error_model="numpy")
def first(x, n):
    return x**n + polygammas(x)[0] + log_rising(x, n)

first(2.0, 3)
"""


@pytest.mark.slow
@pytest.mark.parametrize("module", ["case_batch_null", "case_two_groups"])
def test_a_fit_has_the_same_bits_by_fresh_code_by_cached_code_and_after_other_code(
    module, tmp_path
):
    fit = FIT.format(module=module)
    bits = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program],
            cwd=ROOT, env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / cache)},
            capture_output=True, text=True, check=True,
        ).stdout
        for program, cache in ((fit, "one"), (fit, "one"), (BEFORE + fit, "other"))
    ]  # fmt: skip
    assert list(tmp_path.rglob("*.nbc"))
    assert bits[0] == bits[1] == bits[2] != ""
