"""Which levels of a column are a scale, and in which order."""

import pytest

from vbmodels.tables.levels import order_of, scale_of


@pytest.mark.parametrize(
    ("levels", "kind", "ordered"),
    [
        (["Agree", "Strongly agree", "Disagree"], "agreement",
         ("Disagree", "Agree", "Strongly agree")),
        (["immer", "nie", "selten", "oft"], "frequency", ("nie", "selten", "oft", "immer")),
        (["D\u2019accord", "Plutôt d'accord", "Pas du tout d'accord"], "agreement",
         ("Pas du tout d'accord", "Plutôt d'accord", "D\u2019accord")),
        (["Nunca", "Siempre", "A veces"], "frequency", ("Nunca", "A veces", "Siempre")),
        (["5", "1", "3", "2", "4"], "numbers", ("1", "2", "3", "4", "5")),
        (["2", "-1", "0", "1", "-2"], "numbers", ("-2", "-1", "0", "1", "2")),
        (["5 = always", "1 = never", "3 = sometimes", "2 = rarely"], "numbers",
         ("1 = never", "2 = rarely", "3 = sometimes", "5 = always")),
        (["65+", "18-24", "25-64"], "numbers", ("18-24", "25-64", "65+")),
    ],
)  # fmt: skip
def test_a_known_scale_has_its_order(levels, kind, ordered):
    scale = scale_of(levels)
    assert (scale.kind, scale.levels) == (kind, ordered)


@pytest.mark.parametrize(
    "levels",
    [
        ["red", "green", "blue"],
        ["yes", "no"],
        ["0", "1"],
        ["1", "2", "3", "99"],  # a code of a missing answer, or none of a scale
        ["10115", "10117", "10119"],
        ["1.5", "2.5", "3.5"],
        ["3", "4", "5"],
        ["agree", "disagree", "red"],
        ["2020-10", "2020-02", "2021-01"],
        ["1", "2", "inf"],
        ["nan", "1", "2"],
    ],
)
def test_other_levels_have_none(levels):
    assert scale_of(levels) is None


def test_two_levels_of_a_scale_have_an_order_where_it_is_wanted():
    assert scale_of(["high", "low"]) is None
    assert scale_of(["high", "low"], 2).levels == ("low", "high")
    assert order_of(["high", "low"]) == ["low", "high"]
    assert order_of(["1", "2", "3"]) == []


def test_ranges_with_one_low_end_are_ordered_by_the_other():
    assert order_of(["10-15", "10-12"]) == ["10-12", "10-15"]
    assert order_of([">10", "5-10", "<5", "10"]) == ["<5", "5-10", "10", ">10"]
