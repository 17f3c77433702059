"""Every table and figure that can be made again, by name."""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib import import_module
from pathlib import Path

from reproduce.page import Page

MODULES = {
    "vbss-table-1.5": "vbss:table_1_5",
    "vbss-table-a.1.2": "vbss:table_a_1_2",
    "vbss-figure-1.2": "vbss:figure_1_2",
    "vbss-figure-1.3": "vbss:figure_1_3",
    "vbss-figure-1.4": "vbss:figure_1_4",
    "vmmic-figure-2.2": "vmmic:figure_2_2",
    "vmmic-figure-2.3": "vmmic:figure_2_3",
    "vmmic-figure-2.4": "vmmic:figure_2_4",
    "milgp-table-2": "milgp:table_2",
    "milgp-table-3": "milgp:table_3",
    "milgp-table-4": "milgp:table_4",
    "milgp-table-5": "milgp:table_5",
    "rvd2-sensitivity": "rvd2:sensitivity",
    "ibp-figure-4": "ibp:figure_4",
    "ibp-table-1": "ibp:table_1",
    "ibp-tables-2-5": "ibp:tables_2_5",
    "bmem-table-1": "bmem:table_1",
}
FAMILIES = {
    "vbss": "Keywords: VBSS (Hu 2024, chapter 1)",
    "vmmic": "Bags of two modalities: vMMIC (Hu 2024, chapter 2)",
    "milgp": "Bags: MIL-GP-Probit (Wang and Pinar 2021)",
    "rvd2": "Variants: RVD2 (He, Zhang and Flaherty 2015; Zhang and Flaherty 2017)",
    "ibp": "Features: IBP with categories (Ruiz et al. 2014)",
    "bmem": "Experts: BMEM (Xie, Zhu and Xing 2016)",
}


def load(name: str) -> Callable[[Path, bool], Page]:
    """Return what runs one table: it takes the folder of the real data and whether to be quick."""
    paper, _, page = MODULES[name].partition(":")
    run: Callable[[Path, bool], Page] = getattr(import_module(f"reproduce.{paper}"), page)
    return run


def quoted(name: str) -> dict[str, str] | None:
    """Return what a page quotes of the text, by the number of the paper; None: nothing."""
    paper, _, page = MODULES[name].partition(":")
    found: dict[str, str] | None = getattr(import_module(f"reproduce.{paper}"), "QUOTED", {}).get(
        page
    )
    return found


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
    for family, title in FAMILIES.items():
        names = [n for n in MODULES if n.startswith(f"{family}-") and n in written]
        if names:
            lines += ["", f"## {title}", "", "```{toctree}", ":maxdepth: 1", "", *names, "```"]
    return "\n".join(lines) + "\n"
