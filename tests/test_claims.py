"""The page of claims: its commands exist, its counts are right, the README quotes its figures."""

import re
from collections import Counter
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from flows.catalogue import PIPELINES
from reproduce.__main__ import PAGES

ROOT = Path(__file__).parent.parent
NUMBER = re.compile(r"(?<![\w.])-?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?![\w])")
COLUMNS = ("verdict", "claim", "compared with", "measured", "command")
FOLDED = r"<details><summary>show</summary><code>(.*)</code></details>"
VERDICTS = ("holds", "in part: ", "falls short", "not tested")
PAGE = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def rows(text, heading):
    """Return the cells of the table that begins with a heading."""
    lines = text[text.index(heading) :].splitlines()
    table = lines[: lines.index("")] if "" in lines else lines
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[2:]]


def sections():
    """Return the claims of each system, by its name, in the page's order."""
    heading = f"| {' | '.join(COLUMNS)} |"
    parts = re.split(r"^##+ (\S+).*$", PAGE, flags=re.MULTILINE)[1:]
    return {name: rows(text, heading) for name, text in zip(parts[::2], parts[1::2], strict=True)}


SECTIONS = sections()
CLAIMS = [(system, *row) for system, found in SECTIONS.items() for row in found]


def numbers(text):
    return set(NUMBER.findall(re.sub(r"\]\([^)]*\)", "", text)))


@pytest.mark.parametrize("row", CLAIMS, ids=lambda row: f"{row[0]}: {row[2][:40]}")
def test_a_claim_has_a_figure_a_verdict_a_day_and_a_command_that_exists(row):
    assert len(row) == 1 + len(COLUMNS)
    _, verdict, claim, _, measured, command = row
    assert numbers(claim)
    assert verdict.startswith(VERDICTS)
    assert verdict.startswith(("holds", "not tested")) == ("falls short" not in verdict)
    assert re.fullmatch(r"\d\d", measured), "the day of November 2026"
    words = re.fullmatch(FOLDED, command)[1].split()
    if words[0] == "pytest":
        assert (ROOT / words[1]).is_file()
    elif words[0] == "vbflows":
        assert words[1] in PIPELINES
        assert len(words) > 3, "the whole command"
    elif words[:3] == ["python", "-m", "reproduce"]:
        assert words[3] in PAGES
    else:
        assert words[:2] == ["python", "-m"]
        source = Path(find_spec(words[2]).origin).read_text(encoding="utf-8")
        assert 'if __name__ == "__main__":' in source, "it prints nothing"


def test_the_page_counts_its_claims():
    """The table of systems, and the sentence above it."""
    total = Counter()
    for first, *counts in rows(PAGE, "| system | claims |"):
        system = first[1 : first.index("]")]
        verdicts = [verdict for verdict, *_ in SECTIONS[system]]
        found = Counter(next(v for v in VERDICTS if one.startswith(v)) for one in verdicts)
        assert [int(n) for n in counts] == [found.total(), *(found[v] for v in VERDICTS)], system
        total += found
    hold, part, short, untested = (total[v] for v in VERDICTS)
    assert total.total() == len(CLAIMS)
    head = f"{len(CLAIMS)} claims: {hold} hold, {part} hold in part, {short} fall short, "
    assert PAGE.splitlines()[2].startswith(f"**{head}{untested} is not tested.**")


def test_every_published_table_is_a_claim():
    folded = [re.fullmatch(FOLDED, row[-1])[1] for row in CLAIMS]
    made = {command.split()[-1] for command in folded if "reproduce" in command}
    left = {name for name in PAGES if name not in made}
    # The means of tables 3 and 5 are of tables 2 and 4; table 1 has the rows of tables 2 to 5.
    assert left <= {"milgp-table-4", "ibp-table-1"}


def test_the_figures_of_the_readme_are_claims():
    """What its table says was measured; `test_readme` has the lines of its example."""
    claimed = {}
    for system, _, claim, rival, *_ in CLAIMS:
        claimed.setdefault(system, set()).update(numbers(claim) | numbers(rival))
    for row in rows(README, "| command | measured |"):
        pipeline = row[0].strip("` ")
        quoted = numbers(row[1])
        assert quoted
        assert quoted <= claimed[pipeline], (pipeline, quoted - claimed[pipeline])


SCRIPTS = sorted(
    f"{path.parent.name}.{path.stem}"
    for folder in ("benchmarks", "reproduce")
    for path in ROOT.glob(f"{folder}/*.py")
    if path.stem not in ("__init__", "__main__")
)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_of_measurements_can_be_loaded(name):
    if name == "benchmarks.abmil":
        pytest.importorskip("torch")
    import_module(name)
