"""Make a published table or figure again and write its page.

    python -m reproduce NAME...|all|index [--quick] [--data FOLDER] [--out FOLDER]

Pages go to docs/reproduce; those of quick runs, which are too small to be quoted, to
build/reproduce. The real data are looked for in ../shared/data.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

from threadpoolctl import threadpool_limits

from reproduce.page import Clock, write
from reproduce.registry import MODULES, index, load

ROOT = Path(__file__).resolve().parents[1]


def make(name: str, data: Path, out: Path, quick: bool) -> Path:
    """Run one table on one thread and write its page."""
    with threadpool_limits(1), warnings.catch_warnings():
        # Forms that are stopped early say so in their pages.
        warnings.simplefilter("ignore")
        clock = Clock()
        return write(load(name)(data, quick), name, out, clock, quick=quick)


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", choices=[*MODULES, "all", "index"], metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="a small version, in seconds")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    out = given.out or ROOT / ("build" if given.quick else "docs") / "reproduce"
    if "index" in given.names:
        out.mkdir(parents=True, exist_ok=True)
        written = {page.stem for page in out.glob("*.md")}
        (out / "index.md").write_text(index(written), encoding="utf-8")
        return
    if not given.data.is_dir():
        parser.exit(2, f"expected the folder of the real data, found nothing at {given.data}\n")
    for name in list(MODULES) if "all" in given.names else given.names:
        sys.stdout.write(f"{make(name, given.data, out, given.quick)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
