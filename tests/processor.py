"""Run pytest as another processor would: python -m tests.processor PYTEST-ARGUMENTS.

NumPy takes its baseline loops, OpenBLAS the kernels of Haswell, and Numba compiles for any
x86-64: sums come in other orders, so the last bits differ. What a test asks for must hold here
too.
"""

import os
import platform
import subprocess
import sys

from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__


def other_processor() -> dict[str, str]:
    """Return the environment that makes this processor another one.

    NumPy refuses names of features that it does not dispatch or the processor lacks, so
    those that are taken from it are the ones that it would use here.
    """
    used = [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]
    changed = {"NUMBA_CPU_NAME": "generic"}
    if platform.machine().lower() in ("x86_64", "amd64"):
        changed["OPENBLAS_CORETYPE"] = "Haswell"
    used += os.environ.get("NPY_DISABLE_CPU_FEATURES", "").split()  # taken from it before
    if used:
        changed["NPY_DISABLE_CPU_FEATURES"] = " ".join(used)
    return changed


def main() -> int:
    """Run pytest and return its exit code."""
    changed = other_processor()
    print(*(f"{name}={value!r}" for name, value in changed.items()), flush=True)
    command = [sys.executable, "-m", "pytest", *sys.argv[1:]]
    return subprocess.run(command, env={**os.environ, **changed}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
