"""Which tests are left to CI, by what they were measured to take.

    python -m pytest -o junit_family=legacy -m "not slow" --junitxml durations.xml
    python -m tests.thorough durations.xml

The second command rewrites `thorough.txt`: one test a line, which CI runs by `make test-thorough`
and `make test` leaves out. Measure where kernels are compiled: on a new clone the first test that
calls one pays for it. Harnesses that guard every change stay in `make test` at any price.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from xml.etree import ElementTree

LIST = Path(__file__).with_name("thorough.txt")
ALWAYS = (
    "tests/faults/test_every_write.py",
    "tests/faults/test_every_call.py",
    "tests/faults/test_simulated.py",
    "tests/fuzz/",
    "tests/test_",
)
WORKERS, SECONDS = 3, 600


def listed() -> frozenset[str]:
    """Return the ids of the tests that `make test` leaves to CI."""
    return frozenset(LIST.read_text(encoding="utf-8").splitlines())


def chosen(durations: dict[str, float], seconds: float) -> list[str]:
    """Return the longest tests, so many that the others end within some seconds."""
    left = sum(durations.values()) / WORKERS
    out = []
    for test, took in sorted(durations.items(), key=lambda item: -item[1]):
        if left <= seconds:
            break
        if not test.startswith(ALWAYS):
            out.append(test)
            left -= took / WORKERS
    return sorted(out)


def main() -> None:
    """Rewrite the list from a JUnit file of all tests."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("junit", type=Path)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of `make test` at most")
    given = parser.parse_args()
    durations = {
        f"{case.get('file')}::{case.get('name')}": float(case.get("time", 0.0))
        for case in ElementTree.parse(given.junit).iter("testcase")
        if str(case.get("file")).startswith("tests/")  # no doctests
    }
    out = chosen(durations, given.seconds)
    LIST.write_text("".join(f"{test}\n" for test in out), encoding="utf-8")
    total = sum(durations.values()) / WORKERS
    print(f"{len(out)} of {len(durations)} tests; all take {total:.0f} s with {WORKERS} at a time")


if __name__ == "__main__":
    main()
