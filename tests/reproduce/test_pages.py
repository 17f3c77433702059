"""The papers' tables made again: each runs, has its form, and quotes the text exactly."""

import re
from pathlib import Path

import pytest

from reproduce.__main__ import PAGES, index, make
from reproduce.page import quoted

WRITTEN = Path(__file__).resolve().parents[2] / "docs" / "reproduce"
GROUPS = {"published", "ours", "rival"}
LIGHT = {"milgp-table-4", "ibp-figure-4", "ibp-table-1", "ibp-tables-2-5"}
BY_COST = [pytest.param(name, marks=() if name in LIGHT else pytest.mark.slow) for name in PAGES]
QUOTING = [name for name in PAGES if quoted(name) and name != "rvd2-sensitivity"]
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
    assert groups >= GROUPS
    for picture in re.findall(r"!\[.+?\]\((.+?)\)", text):
        assert 0 < (page.parent / picture).stat().st_size < LARGEST_PICTURE
    assert "nan" not in text
    return text


@pytest.mark.parametrize("name", BY_COST)
def test_a_small_run_writes_its_page(name, shared_data, tmp_path):
    page = make(name, shared_data, tmp_path, quick=True)
    assert page == tmp_path / f"{name}.md"
    assert "too small to be quoted" in check_form(page)


@pytest.mark.parametrize("name", PAGES)
def test_the_page_in_the_documentation_is_of_a_real_run(name):
    text = check_form(WRITTEN / f"{name}.md")
    assert "too small to be quoted" not in text


def test_the_index_lists_every_page():
    assert (WRITTEN / "index.md").read_text(encoding="utf-8") == index(PAGES)
    assert sorted(p.stem for p in WRITTEN.glob("*.md")) == sorted([*PAGES, "index"])


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
    first, *lines = quoted(name)
    (paper,) = seeds.glob(f"{first[2:5]}_*.txt")
    text = paper.read_text(encoding="utf-8")
    of_text = [tokens(line) for line in text.splitlines()]
    words = " ".join(text.split())
    for line in lines:
        row = line.split()
        if not row or line.startswith("#"):
            continue
        if all(re.fullmatch(r"-?[\d.]+", figure) for figure in row):
            assert any(follows(row, other) for other in of_text), line
        else:
            assert line in words, line
