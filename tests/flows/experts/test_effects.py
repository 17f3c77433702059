"""Effects as they are shown: bars, curves of groups of columns, one scale."""

import numpy as np

from flows.experts.parts import effects_shown
from vbmodels.experts.effects import QUANTILES, Effect, GroupEffect


def effect(name, spread, sd):
    mean = np.array([-1.0, 1.0])
    return Effect(name, "number", mean, (), mean, np.full(2, sd), mean, spread, 2.0, 2.0 * sd)


def test_bars_of_a_sure_direction_are_first_and_curves_are_in_their_order():
    found = effects_shown([effect("a", 1.0, 0.6), effect("b", 1.0, 0.1), effect("c", 0.0, 0.1)])
    assert [one.column for one in found.bars] == [one.column for one in found.curves] == ["b", "a"]
    assert found.strengths == {"a": 1.0, "b": 1.0}
    assert effects_shown([effect("c", 0.0, 0.1)]) is None


def test_columns_that_correlate_share_a_bar_in_the_direction_of_the_first():
    effects = [effect("a", 2.0, 0.6), effect("b", 1.0, 0.1), effect("c", 0.5, 0.6)]
    group = GroupEffect({"c": 1.0, "a": -1.0}, -4.0, 0.5, QUANTILES, 0.1 * QUANTILES)
    found = effects_shown(effects, groups=[group])
    assert [(one.column, one.more, one.change) for one in found.bars] == [
        ("c", 1, -4.0), ("b", 0, 2.0),
    ]  # fmt: skip
    assert found.alike == ({"c": 1.0, "a": -1.0},)
    assert found.curves[0].kind == "quantiles"


def test_a_band_far_beyond_the_means_is_cut():
    low, high = effects_shown([effect("a", 1.0, 0.1), effect("b", 1.0, 9.0)]).ends
    assert -3.0 < low < -1.0 < 1.0 < high < 3.0
