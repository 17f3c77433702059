"""Make a published table or figure again and write its page.

    python -m reproduce NAME...|all|index [--quick] [--data FOLDER] [--out FOLDER]

Pages go to docs/reproduce; those of quick runs, which are too small to be quoted, to
build/reproduce. The real data are looked for in ../shared/data.
"""

from __future__ import annotations

import argparse
import re
import warnings
from collections.abc import Collection
from importlib import import_module
from pathlib import Path

from threadpoolctl import threadpool_limits

from reproduce.page import Clock, write

ROOT = Path(__file__).resolve().parents[1]
PAPERS = {
    "vbss": "Keywords: VBSS (Hu 2024, chapter 1)",
    "vmmic": "Bags of two modalities: vMMIC (Hu 2024, chapter 2)",
    "milgp": "Bags: MIL-GP-Probit (Wang and Pinar 2021)",
    "rvd2": "Variants: RVD2 (He, Zhang and Flaherty 2015; Zhang and Flaherty 2017)",
    "ibp": "Features: IBP with categories (Ruiz et al. 2014)",
    "bmem": "Experts: BMEM (Xie, Zhu and Xing 2016)",
}
PAGES = (
    "vbss-table-1.5", "vbss-table-a.1.2", "vbss-figure-1.2", "vbss-figure-1.3", "vbss-figure-1.4",
    "vmmic-figure-2.2", "vmmic-figure-2.3", "vmmic-figure-2.4",
    "milgp-table-2", "milgp-table-3", "milgp-table-4", "milgp-table-5",
    "rvd2-sensitivity", "ibp-figure-4", "ibp-table-1", "ibp-tables-2-5", "bmem-table-1",
)  # fmt: skip
"""A page "vbss-table-1.5" is made by `reproduce.vbss.table_1_5`."""


def make(name: str, data: Path, out: Path, quick: bool) -> Path:
    """Run one table on one thread and write its page."""
    paper, _, page = name.partition("-")
    run = getattr(import_module(f"reproduce.{paper}"), re.sub(r"\W", "_", page))
    with threadpool_limits(1), warnings.catch_warnings():
        # Forms that are stopped early say so in their pages.
        warnings.simplefilter("ignore")
        clock = Clock()
        return write(run(data, quick), name, out, clock, quick=quick)


def index(written: Collection[str]) -> str:
    """Return the page that lists those that are written, with their table of contents."""
    lines = [
        "# The papers' tables and ours",
        "",
        "Each page holds a published table or figure, what our forms give on the data at hand, and",
        "what a rival gives on the same data; where the figures differ, one sentence says why.",
        "`python -m reproduce vbss-table-1.5` makes a page again from the real data next to the",
        "repository; `python -m reproduce all` makes all of them.",
    ]
    for paper, title in PAPERS.items():
        names = [name for name in PAGES if name.startswith(f"{paper}-") and name in written]
        if names:
            lines += ["", f"## {title}", "", "```{toctree}", ":maxdepth: 1", "", *names, "```"]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", choices=[*PAGES, "all", "index"], metavar="NAME")
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
    for name in PAGES if "all" in given.names else given.names:
        print(make(name, given.data, out, given.quick), flush=True)


if __name__ == "__main__":
    main()
