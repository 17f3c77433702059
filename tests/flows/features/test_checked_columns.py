"""What the check says of columns: codes of missing cells, and several answers in a cell."""

import json

import numpy as np
import pytest

from tests.flows.commands import printed
from tests.flows.experts.runs import written

RNG = np.random.default_rng(0)


def warned(tmp_path, capsys, columns):
    found = json.loads(printed(capsys, "check", "features", written(tmp_path, columns), "--json"))
    return found["warnings"]


def answers(low, high):
    return [str(point) for point in [*range(low, high + 1)] * 20]


@pytest.mark.parametrize(
    ("scales", "named"),
    [
        ({"a": (0, 5), "b": (0, 5)}, ["a, b", "missing=0"]),
        ({"a": (0, 4), "b": (1, 4)}, ["a", "missing=0"]),
        ({"a": (0, 5), "b": (0, 1)}, ["a", "blank"]),
        ({"a": (0, 10), "b": (0, 3)}, []),
    ],
)
def test_a_zero_before_a_scale_may_be_a_missing_cell(tmp_path, capsys, scales, named):
    columns = {name: RNG.permutation(answers(*ends))[:40].tolist() for name, ends in scales.items()}
    said = [line for line in warned(tmp_path, capsys, columns) if "codes of missing" in line]
    assert len(said) == bool(named)
    assert all(word in said[0] for word in named)


def test_every_column_of_several_answers_is_named(tmp_path, capsys):
    def some(words, mark):
        return [mark.join(RNG.permutation(words)[: RNG.integers(1, 4)]) for _ in range(90)]

    columns = {
        "how": some(["bus", "car", "train"], ", "),
        "where": some(["radio", "paper", "talk"], ";"),
        "why": [str(x) for x in RNG.choice(["work", "school"], 90)],
    }
    said = [line for line in warned(tmp_path, capsys, columns) if "several answers" in line]
    assert [line.partition(":")[0] for line in said] == ["how", "where"]
    assert all("3 answers are columns of yes and no" in line for line in said)
