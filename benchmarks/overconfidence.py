"""How overconfident each variational form is: its sd and that of the model's own sampler.

    python -m benchmarks.overconfidence [NAME ...]

Runs item 6 of the contract (tests/contract) for every model that has a sampler and prints
the least, median and largest ratio of the sd under q to the sd of the draws, and the largest
difference of the means in posterior sd. It stops where a model fails its contract.
"""

from __future__ import annotations

import argparse
import time

from threadpoolctl import threadpool_limits

from tests.contract.cases import cases
from vbmodels.testing import truth


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="rows of the contract table; empty: all")
    names = set(parser.parse_args().names)
    print("| form | least | median | largest | largest difference of means, sd | CPU s |")
    print("|---|---|---|---|---|---|")
    with threadpool_limits(1):
        for case in cases():
            if isinstance(case.sampler, str) or (names and case.name not in names):
                continue
            began = time.process_time()
            found = truth.check_sampler(case, case.sampler)
            figures = [found[f"{which} sd ratio"] for which in ("smallest", "median", "largest")]
            figures.append(found["largest mean difference in sd"])
            said = " | ".join(f"{figure:.2f}" for figure in figures)
            print(f"| {case.name} | {said} | {time.process_time() - began:.1f} |", flush=True)


if __name__ == "__main__":
    main()
