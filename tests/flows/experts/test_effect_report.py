"""Effects in words."""

from __future__ import annotations

import numpy as np
import pytest

from flows.experts.effect_report import strength_charts
from vbmodels.experts.effects import Effect


def effect(name, spread, sd):
    mean = np.array([-1.0, 1.0])
    return Effect(name, "number", mean, (), mean, np.full(2, sd), mean, spread, 2.0, 2.0 * sd)


@pytest.mark.parametrize(
    ("sds", "title", "said"),
    [
        ((0.1, 0.1), "What makes ill more or less probable", "All directions are sure"),
        ((0.6, 0.1), "What makes ill more or less probable", "The first has a sure direction"),
        ((0.6, 0.6), "What the model uses", "Read the bars as a group. Bars to the right speak"),
        ((0.6,), "What makes ill more or less probable", "Every line includes zero"),
    ],
)
def test_bars_say_which_directions_are_sure(sds, title, said):
    effects = [effect(name, 1.0, sd) for name, sd in zip("ab", sds, strict=False)]
    (chart,) = strength_charts(effects, "added log odds", "ill")
    assert title in str(chart)
    assert said in str(chart)
    assert "mixture of experts" not in str(chart)


def test_the_bars_say_first_that_they_are_without_the_experts():
    (chart,) = strength_charts([effect("a", 1.0, 0.1)], "added log odds", "ill", True)
    assert chart["usermeta"]["how"].startswith("Bars and curves leave out what the mixture of ")
