"""Whether what users act on holds: expected and realised over many short runs.

    python -m benchmarks.calibration [--runs N] [FORM ...]

Runs item 8 of the contract (`vbmodels.testing.calibration`) for every form that has it, on the
seeds of `vbmodels.testing.contract`, and prints what was expected and what came true,
the z-score of the difference, the slope of what came true on the logit of what was expected
(below 1: over-confident) with its standard error; for samplers the largest z-score over the
tests of uniform ranks. It refuses nothing: the suite does.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

import numpy as np
from threadpoolctl import threadpool_limits

sys.path.append("tests/outside/vbflows_counts")  # a package of the contract's table

from tests.contract.cases import cases
from vbmodels.testing.calibration import collect, figures_of
from vbmodels.testing.case import Calibration, Forecast, Readings

HEAD = """\
| form | runs | what is read | things | expected | realised | z | slope | CPU ms a run |
|---|---|---|---|---|---|---|---|---|"""


def lines(item: Calibration, found: list[Readings], each: float) -> Iterator[str]:
    """Yield a line of the table a reading."""
    figures = figures_of(item, found)
    for name in found[0]:
        own = {f.name: f for f in figures if f.reading == name}
        parts = [readings[name] for readings in found]
        forecasts = [p for p in parts if isinstance(p, Forecast)]
        slope = ""
        if forecasts:
            size = sum(p.expected.size for p in forecasts)
            expected, realised = (
                f"{np.concatenate(v).mean():.4f}"
                for v in ([p.expected for p in forecasts], [p.realised for p in forecasts])
            )
            large = own["in the large"]
            z = large.value / large.error
            if "slope" in own:
                slope = f"{own['slope'].value:.2f} ({own['slope'].error:.2f})"
        else:
            size = sum(len(np.atleast_2d(p.rank)) for p in parts)  # type: ignore[union-attr]
            expected, realised = "uniform ranks", ""
            z = max(abs(f.value) if "mean" in f.name else f.value for f in own.values())
        yield (
            f"| {item.form} | {len(found)} | {name} | {size} | {expected} | {realised} | "
            f"{z:.1f} | {slope} | {1000 * each:.0f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("forms", nargs="*", help="forms of the table; empty: all")
    given = parser.parse_args()
    print(HEAD)
    with threadpool_limits(1):
        for case in cases():
            items = () if isinstance(case.calibration, str) else case.calibration
            for item in items:
                if given.forms and item.form not in given.forms:
                    continue
                began = time.process_time()
                found = collect(item, given.runs)
                each = (time.process_time() - began) / given.runs
                print(*lines(item, found, each), sep="\n", flush=True)


if __name__ == "__main__":
    main()
