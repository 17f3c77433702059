"""The pages of docs/models: what they say of the source is so, and no equation is left out."""

from pathlib import Path

import pytest

from docs._extensions.equations import PAGES, ROOT, Place, cited, rows

EVERY = {
    "vbss": "sections 1.1, 1.2, 1.3.1 to 1.3.4, 1.4.1; eqs 1.1, 1.2; Algorithm 1;"
    " A.1.1.1, A.1.1.2, A.1.2 to A.1.5, A.2",
    "vmmic": "sections 2.1, 2.2.1 to 2.2.3, 2.3.1; B.1.1 to B.1.10",
    "mil-gp": "eqs 1 to 28; sections 3.3 to 3.5, 4",
    "rvd2": "eqs 1 to 24; Algorithm 1",
    "ibp": "eqs 1 to 51; sections 2, 2.2, 3.2, 5.2",
    "bmem": "eqs 1 to 20; eqs I to X; Lemma 1; sections 2, 3",
}
"""All equations of a paper's model and inference, and what has no number by its section."""

CASES = [
    pytest.param(row, id=f"{path.stem}:{row.number}")
    for path in sorted(PAGES.glob("*.md"))
    if path.stem in EVERY
    for row in rows(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("row", CASES)
def test_what_a_row_names_computes_its_equations(row):
    wanted = cited(row.equations)
    assert wanted, f"the first cell cites nothing: {row.equations}"
    places = [Place.of(target) for target in row.targets]
    if not places:
        assert row.source == "not used"
        assert row.difference
        return
    for place in places:
        assert cited(place.text) & wanted, f"{place.path}:{place.name} cites none of {wanted}"
    missing = wanted - frozenset().union(*(cited(place.text) for place in places))
    assert not missing, f"cite {sorted(missing)} in the docstring of {row.targets}"


@pytest.mark.parametrize("page", sorted(EVERY))
def test_every_equation_has_a_row(page):
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    found = frozenset().union(*(cited(row.equations) for row in rows(text)))
    missing = cited(EVERY[page]) - found
    assert not missing, f"docs/models/{page}.md has no row for {sorted(missing)}"


def test_every_page_is_checked():
    assert {path.stem for path in PAGES.glob("*.md")} == {*EVERY, "index"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(eqs. 17, 18 and 20-22 of the text)", "eq 17; eq 18; eq 20; eq 21; eq 22"),
        ("eqs VI to VIII, Lemma 1, Algorithm 1", "eq VI; eq VII; eq VIII; lemma 1; algorithm 1"),
        ("sections 1.3.3 to 1.3.4, eq. (1.2)", "section 1.3.3; section 1.3.4; eq 1.2"),
        ("A.1.2 to A.1.4, A.2", "A.1.2; A.1.3; A.1.4; A.2"),
        ("in eqs 44\n    to 46", "eq 44; eq 45; eq 46"),
        ("17 sections of 3 words", ""),
    ],
)  # fmt: skip
def test_what_a_text_cites(text, found):
    assert cited(text) == frozenset(found.split("; ")) - {""}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("vbmodels/keywords/no_graph.py:ss", "is no file"),
        ("vbmodels/keywords/graph.py:textrang", "defines no textrang"),
        ("vbmodels/keywords/graph.py:cho_solve", "defines no cho_solve"),  # imported there
        ("vbmodels/bags/mil_gp/model.py:CollapsedGP.predict", "defines no CollapsedGP.predict"),
    ],
)
def test_an_object_that_is_gone_is_found_out(target, message):
    with pytest.raises(LookupError, match=message):
        Place.of(target)


def test_a_place_is_an_objects_line_and_text():
    place = Place.of("reproduce/milgp_as_printed.py:PRINTED")
    lines = Path(ROOT / place.path).read_text(encoding="utf-8").splitlines()
    assert lines[place.line - 1].startswith("PRINTED = ")
    assert place.text.endswith('mean 0."""')
