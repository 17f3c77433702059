"""Effects in words."""

from __future__ import annotations

import numpy as np

from flows.experts.effect_report import effect_sections, strength_charts
from vbmodels.experts.effects import QUANTILES, Effect, GroupEffect


def effect(name, spread, sd):
    mean = np.array([-1.0, 1.0])
    return Effect(name, "number", mean, (), mean, np.full(2, sd), mean, spread, 2.0, 2.0 * sd)


def test_bars_of_a_sure_direction_are_first():
    effects = [effect("a", 1.0, 0.6), effect("b", 1.0, 0.1)]
    (chart,) = strength_charts(effects, "added log odds", "ill")
    (labels,) = [one["value"] for one in chart["params"] if one["name"] == "labels"]
    assert labels == ["b", "a"]
    assert "mixture of experts" not in str(chart)


def test_the_bars_say_that_they_are_without_the_experts():
    (chart,) = strength_charts([effect("a", 1.0, 0.1)], "added log odds", "ill", True)
    assert chart["usermeta"]["how"].endswith("What the mixture of experts adds is left out.")


def test_columns_that_correlate_share_a_bar_in_the_direction_of_the_first():
    effects = [effect("a", 2.0, 0.6), effect("b", 1.0, 0.1), effect("c", 0.5, 0.6)]
    group = GroupEffect({"c": 1.0, "a": -1.0}, -4.0, 0.5, QUANTILES, 0.1 * QUANTILES)
    (chart,) = strength_charts(effects, "added log odds", "ill", groups=[group])
    (labels,) = [one["value"] for one in chart["params"] if one["name"] == "labels"]
    assert labels == ["c and 1 more", "b"]
    bars = chart["layer"][0]["data"]["values"]
    assert [one["x"] for one in bars] == [-4.0, 2.0]
    said = "Columns that correlate above 0.9 share a bar: c, a (reversed)."
    assert said in chart["usermeta"]["how"]


def test_curves_are_folded_where_they_are_many_or_share_bars():
    some = [effect(name, 1.0, 0.6) for name in "abcdefg"]
    (open_,) = effect_sections(some[:6], "ill", "added log odds", "t")
    assert (open_.folded, len(open_.plots)) == ("", 7)
    group = GroupEffect({"a": 1.0, "b": 1.0}, 1.0, 0.5, QUANTILES, 0.1 * QUANTILES)
    for effects, groups, count in ((some, [], 7), (some[:3], [group], 2)):
        bars, curves = effect_sections(effects, "ill", "added log odds", "t", groups=groups)
        assert len(bars.plots) == 1
        assert (curves.folded, len(curves.plots)) == (f"{count} charts", count)
        assert ("share a chart, where all of them are at the same" in curves.text) is bool(groups)
    for chart, title in zip(curves.plots, ("a and 1 more", "c"), strict=True):
        assert f"'{title}'" in str(chart)


def test_a_line_that_is_cut_is_said_to_go_on():
    sure, unsure = effect("a", 1.0, 0.1), effect("b", 1.0, 9.0)
    (chart,) = strength_charts([sure, unsure], "added log odds", "ill")
    assert "A line that ends at the edge goes on." in chart["usermeta"]["how"]
    (chart,) = strength_charts([sure], "added log odds", "ill")
    assert "at the edge" not in chart["usermeta"]["how"]
