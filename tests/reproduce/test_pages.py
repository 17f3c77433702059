"""The papers' tables made again: each runs, has its form, and quotes the text exactly."""

import re
from pathlib import Path

import pytest

from reproduce.__main__ import make
from reproduce.page import GROUPS
from reproduce.registry import MODULES, index, quoted

PAGES = Path(__file__).resolve().parents[2] / "docs" / "reproduce"
LIGHT = {"milgp-table-4", "ibp-figure-4", "ibp-table-1", "ibp-tables-2-5"}
BY_COST = [pytest.param(name, marks=() if name in LIGHT else pytest.mark.slow) for name in MODULES]
QUOTING = [name for name in MODULES if not name.startswith(("rvd2", "bmem", "vmmic-figure-2.2"))]
LARGEST_PICTURE = 200 * 1024


def check_form(page: Path) -> str:
    """Assert what every page has; returns its text."""
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# ")
    command = f"- Command: `python -m reproduce {page.stem}"
    ends = ("- Seeds and standard errors: ", " CPU seconds", "- Versions: ")
    for part in ("Published: ", "## Where we differ, and why", command, *ends):
        assert part in text, part
    blocks = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    assert blocks
    groups = set()
    for block in blocks:
        rows = block.splitlines()
        assert len({row.count(" | ") for row in rows}) == 1, rows[0]
        assert len(rows) > 2
        groups |= {cell.split()[0].rstrip(",:") for cell in rows[0].split("|") if cell.strip()}
    assert groups >= set(GROUPS)
    for picture in re.findall(r"!\[.+?\]\((.+?)\)", text):
        assert 0 < (page.parent / picture).stat().st_size < LARGEST_PICTURE
    assert "nan" not in text
    return text


@pytest.mark.parametrize("name", BY_COST)
def test_a_small_run_writes_its_page(name, shared_data, tmp_path):
    page = make(name, shared_data, tmp_path, quick=True)
    assert page == tmp_path / f"{name}.md"
    assert "too small to be quoted" in check_form(page)


@pytest.mark.parametrize("name", MODULES)
def test_the_page_in_the_documentation_is_of_a_real_run(name):
    text = check_form(PAGES / f"{name}.md")
    assert "too small to be quoted" not in text


def test_the_index_lists_every_page():
    assert (PAGES / "index.md").read_text(encoding="utf-8") == index(MODULES)
    assert sorted(p.stem for p in PAGES.glob("*.md")) == sorted([*MODULES, "index"])


def tokens(line: str) -> list[str]:
    """Return the figures of a line; figures that the conversion tripled are taken once."""
    found = []
    for token in re.findall(r"-?[\d.]+", line):
        third = token[: len(token) // 3]
        found.append(third if third and third * 3 == token else "0" if token == "00" else token)
    return found


def follows(row: list[str], line: list[str]) -> bool:
    """Say whether the row's figures stand in the line in their order."""
    rest = iter(line)
    return all(any(figure == other for other in rest) for figure in row)


@pytest.mark.parametrize("name", QUOTING)
def test_published_figures_are_those_of_the_text(name, shared_data):
    seeds = shared_data.parent / "seeds"
    if not seeds.is_dir():
        pytest.skip(f"the papers are not there: expected the folder {seeds}")
    quotations = quoted(name)
    if quotations is None:
        # Figures 1.2 and 1.3 and 2.2 quote another table or words alone.
        assert name in {"vbss-figure-1.2", "vbss-figure-1.3"}
        return
    for number_of_paper, lines in quotations.items():
        (paper,) = seeds.glob(f"{number_of_paper}_*.txt")
        text = paper.read_text(encoding="utf-8")
        of_text = [tokens(line) for line in text.splitlines()]
        words = " ".join(text.split())
        for line in lines.strip().splitlines():
            row = line.split()
            if all(re.fullmatch(r"-?[\d.]+", figure) for figure in row):
                assert any(follows(row, other) for other in of_text), line
            else:
                assert line in words, line
