"""Text as it comes: markup, hyphens of line ends, running heads."""

import pytest

from vbmodels.text.cleaning import cleaned
from vbmodels.text.splitting import split_sentences

SLOPES = ("steep", "flat", "long", "short", "wide")
CROPS = ("maize", "wheat", "barley", "clover", "oat")
PAGES = "\f".join(
    f"Journal of Soil Science, Vol. 3\n\nErosion of {slope} slopes was measured with cover {crop}\n"
    f"crops. The {crop} runoff of vine-\nyards fell on {slope} ones. {slope.title()} slopes stay\n"
    f"in all {crop} years.\nA. Author and B. Other        {n + 100}"
    for n, (slope, crop) in enumerate(zip(SLOPES, CROPS, strict=True))
)
FLOWING = "\n".join(
    f"The network of {crop} rivers was mapped in a {slope} basin by radar\nand a state-of-the-\n"
    f"art model of {crop} soil, which is state-of-the-art.\nIt has\nfour\nmore\n{slope}\nlines.\n"
    f"\n{n}\nRivers and basins\n\nThe next {slope} model of {crop} floods is new and"
    for n, (slope, crop) in enumerate(zip(SLOPES, CROPS, strict=True), 17)
)
MARKUP = (
    ("<div class='article'><h1>Soil erosion</h1><p>Cover crops &amp; <b>run</b>off.&nbsp;<a "
     "href='http://e.org/a'>More</a></p><script>var x = 1;</script></div>",
     "HTML", ("Soil erosion\n\nCover crops & runoff. More",), ("class", "href", "var", "amp")),
    ("<jats:p>The <jats:italic>lac</jats:italic> operon.</jats:p>", "HTML",
     ("The lac operon.",), ("jats",)),
    ("First line<br>second<br/>third &lt;x&gt;", "HTML", ("First line\nsecond\nthird <x>",), ()),
    ("# Graph databases\n\nA **graph database** stores nodes. See [the docs](https://e.org/d).\n\n"
     "```python\nimport graphlib\n```\n\n| col | val |\n|---|---|\n| a | 1 |\n", "Markdown",
     ("Graph databases\n\nA graph database stores nodes. See the docs.",), ("import", "col", "**")),
    ("Title of it\n===========\n\n.. note::\n   hidden\n\nUse :class:`Tree` here.", "Markdown",
     ("Title of it", "Use Tree here."), ("hidden", "class", "===")),
    ("'''Lisbon''' is the [[capital city|capital]] of [[Portugal]].{{cite|x=1}}", "Markdown",
     ("Lisbon is the capital of Portugal.",), ("cite", "[[")),
    ("\\begin{abstract} We study the \\emph{heat equation} $\\partial_t u$ on \\textbf{domains}. "
     "See \\cite{abc,d} and G\\\"odel~(1931). % no\n\\section{Results} 5\\,\\% "
     "of it\\end{abstract}",
     "LaTeX", ("We study the heat equation", "on domains.", "Gödel (1931).", "\n\nResults\n\n"),
     ("partial", "abc", "emph", "abstract", "% no")),
)  # fmt: skip


@pytest.mark.parametrize(("text", "what", "kept", "gone"), MARKUP)
def test_markup_is_stripped_and_said(text, what, kept, gone):
    found = cleaned(text)
    assert found.removed == (what,)
    assert all(piece in found.text for piece in kept), found.text
    assert not any(piece in found.text for piece in gone), found.text


@pytest.mark.parametrize(
    "text",
    [
        "If a < b and c > d then 2 * 3 * 4 = 24 and x_1 is snake_case; 5 % of 3$.",
        "A letter.\n\nDear A,\nI came home.\nI came home.\nI came home.\nI came home.\nYours, B",
        "- one\n- two\n- three",
        "AT&T and R&D; vector<int> and C:\\temp\\new",
        "1\tx\n2\ty\n4\tz",
    ],
)
def test_other_text_stays_as_it_is(text):
    assert cleaned(text) == (text, ())


def test_pages_that_are_alike_are_no_running_heads():
    pages = [f"Soil Science 12\nSoil erosion number {i} is on slopes.\n{i}\n" for i in range(6)]
    assert cleaned("\f".join(pages)).text.count("Soil erosion") == 6


def test_a_compound_of_several_hyphens_keeps_them_at_a_line_end():
    text = "The implemen-\ntation in state-of-the-\nart hardware."
    assert cleaned(text).text == "The implementation in state-of-the-art hardware."


def test_hyphens_of_line_ends_are_joined():
    text = "An implemen-\ntation of a well-\nknown method; it is well-known. Mid-\nAtlantic."
    assert cleaned(text).text == (
        "An implementation of a well-known method; it is well-known. Mid-Atlantic."
    )


def test_running_heads_of_pages_fall():
    found = cleaned(PAGES)
    assert found.removed == ("running heads",)
    assert "Journal" not in found.text
    assert "Author" not in found.text
    assert found.text.count("slopes was measured") == 5
    assert "vineyards fell" in found.text


def test_page_numbers_fall_with_their_heads_where_pages_are_not_cut():
    found = cleaned(FLOWING)
    assert found.removed == ("running heads",)
    assert "Rivers and basins" not in found.text
    assert not any(str(n) in found.text for n in range(17, 22))
    assert "state-of-the-art model" in found.text
    assert "is new and\nThe network of wheat" in found.text


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("<p>a</p><p>b</p><![foo bar<p>c", "a\n\nb"),  # no marked section
        ("a &amp; b &#" + "1" * 5000 + "; c", "a & b"),  # a number that Python does not read
        ("\n".join(f"Page {'1' * 5001}\nrows of text {n}" for n in range(20)), "rows of text 3"),
    ],
)
def test_text_that_is_odd_is_read(text, kept):
    assert kept in cleaned(text).text


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("The \\emph{heat} rose by 5% of all.", "The heat rose by 5% of all."),
        ("The \\emph{heat} rose by 5 % of all.", "The heat rose by 5 % of all."),
        ("The \\emph{heat} rose. % a comment", "The heat rose."),
        ("It cost $5 and then $6, see \\emph{x}.", "It cost $5 and then $6, see x."),
        ("The \\emph{angle} $\\alpha$ grows.", "The angle grows."),
    ],
)
def test_percentages_and_prices_stay_in_latex(text, without):
    assert cleaned(text).text == without


def test_long_runs_of_letters_or_blanks_take_no_longer_than_their_length():
    """A quadratic search would take hours, and the test's time limit."""
    assert len(cleaned("abc\n" + "ACGT" * 500_000 + "\nx").text) > 2_000_000
    assert split_sentences("a" + " " * 2_000_000 + "b") == [["a", "b"]]
    assert len(split_sentences("word " + "-" * 200_000)[0]) == 200_001
    for unclosed in ("\\begin{equation} ", "\\[ ", "$$ "):
        assert "heat" in cleaned("\\emph{heat} " + unclosed * 99_999).text
    assert cleaned("under-\nstand " * 50_000).text == "understand " * 49_999 + "understand "


def test_blocks_of_latex_go_and_what_nothing_closes_stays():
    text = (
        "\\emph{heat} \\begin{align*}a\\end{align}b\\end{align*} flows \\[ x \\] on $$ y $$ and "
        "\\begin{equation} stays"
    )
    assert cleaned(text).text.split() == ["heat", "flows", "on", "and", "stays"]


def test_the_al_of_et_al_is_no_word():
    for text in ("Smith et al.[18] say", "by Smith et al., who", "(Smith et al) say", "et al. say"):
        tokens = [token for sentence in split_sentences(text) for token in sentence]
        assert "al." in tokens, tokens
        assert not {"al", "."} & set(tokens), tokens
    assert split_sentences("An Al film. The Al") == [["An", "Al", "film", "."], ["The", "Al"]]
