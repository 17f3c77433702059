"""Effects in words."""

from __future__ import annotations

import numpy as np
import pytest

from flows.experts.effect_report import effects_text, moved_by
from vbmodels.experts.effects import Effect


def effect(name, spread, sd):
    mean = np.array([-1.0, 1.0])
    return Effect(name, "number", mean, (), mean, np.full(2, sd), mean, spread, 2.0, 2.0 * sd)


@pytest.mark.parametrize(
    ("sds", "said"),
    [
        ((0.1, 0.1, 0.1), "Largest effects: a, b, c."),
        ((0.6, 0.1, 0.1), "Largest effects: a, b, c; the direction of a is uncertain."),
        ((0.6, 0.1, 0.6), "Largest effects: a, b, c; the direction of a and c is uncertain."),
        ((0.6, 0.6, 0.6), "Largest effects: a, b, c; none alone has a sure direction."),
        ((0.6,), "Largest effect: a; its direction is uncertain."),
    ],
)
def test_effects_whose_direction_is_uncertain_are_named(sds, said):
    effects = [effect(name, 1.0, sd) for name, sd in zip("abc", sds, strict=False)]
    assert moved_by(effects, ()) == said


def test_the_curves_say_that_they_are_without_the_experts():
    found = [effect("a", 1.0, 0.1)]
    assert "leave out what the mixture of experts adds" in effects_text(found, "log odds", True)
    assert "experts" not in effects_text(found, "log odds")
