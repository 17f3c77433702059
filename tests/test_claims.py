"""The table of claims: its commands exist, and it has every figure that the README quotes."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from flows.catalogue import PIPELINES
from reproduce.registry import MODULES

ROOT = Path(__file__).parent.parent
NUMBER = re.compile(r"(?<![\w.])-?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?![\w])")
COLUMNS = ("system", "claim", "compared with", "command", "measured", "verdict")


def rows(text, heading):
    """Return the cells of the table that begins with a heading."""
    lines = text[text.index(heading) :].splitlines()
    table = lines[: lines.index("")] if "" in lines else lines
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[2:]]


CLAIMS = rows((ROOT / "docs" / "claims.md").read_text(encoding="utf-8"), "| system |")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def numbers(text):
    return set(NUMBER.findall(re.sub(r"\]\([^)]*\)", "", text)))


@pytest.mark.parametrize("row", CLAIMS, ids=lambda row: f"{row[0]}: {row[1][:40]}")
def test_a_claim_has_a_figure_a_command_that_exists_a_day_and_a_verdict(row):
    assert len(row) == len(COLUMNS)
    _, claim, _, command, measured, verdict = (cell.strip() for cell in row)
    assert numbers(claim)
    assert re.fullmatch(r"\d\d", measured), "the day of November 2026"
    assert verdict.startswith(("holds", "falls short"))
    words = command.strip("`").split()
    if words[0] == "pytest":
        assert (ROOT / words[1]).is_file()
    elif words[0] == "vbflows":
        assert words[1] in PIPELINES
    elif words[:3] == ["python", "-m", "reproduce"]:
        assert words[3] in MODULES
    else:
        assert words[:2] == ["python", "-m"]
        source = Path(find_spec(words[2]).origin).read_text(encoding="utf-8")
        assert 'if __name__ == "__main__":' in source, "it prints nothing"


def test_every_published_table_is_a_claim():
    made = {row[3].strip("`").split()[-1] for row in CLAIMS if "reproduce" in row[3]}
    left = {name for name in MODULES if name not in made}
    # The means of tables 3 and 5 are of tables 2 and 4; table 1 has the rows of tables 2 to 5.
    assert left <= {"milgp-table-4", "ibp-table-1"}


def test_the_figures_of_the_readme_are_claims():
    """What its table says was measured, and the example's headline."""
    claimed = {}
    for system, claim, rival, *_ in CLAIMS:
        claimed.setdefault(system, set()).update(numbers(claim) | numbers(rival))
    for row in rows(README, "| command | measured |"):
        pipeline = row[0].strip("` ")
        quoted = numbers(row[1])
        assert quoted
        assert quoted <= claimed[pipeline], (pipeline, quoted - claimed[pipeline])
    (headline,) = re.findall(r"^    (\d+ new keyphrases.*)$", README, re.MULTILINE)
    assert numbers(headline) <= claimed["keywords"]
