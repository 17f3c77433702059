import numpy as np
import pytest

from tests.vbmodels.bags.joined import concatenate
from vbmodels.bags.bags import Bags, Instances, bags, split
from vbmodels.core.state import same_bits


def small() -> Bags:
    rng = np.random.default_rng(0)
    first = Instances.from_rows(np.array([2, 0, 0, 3, 2]), rng.normal(size=(5, 3)), 4)
    second = Instances.from_rows(np.array([1, 3]), rng.normal(size=(2, 2)), 4)
    return bags([first, second], [1, 0, -1, 1], rng.normal(size=(4, 1)))


def test_taking_bags_takes_their_instances_labels_and_own_features():
    data = small()
    taken = data.take(np.array([3, 0]))
    assert taken.label.tolist() == [1, 1]
    np.testing.assert_array_equal(taken.bag_features, data.bag_features[[3, 0]])
    np.testing.assert_array_equal(
        taken.modalities[0].features, data.modalities[0].features[[4, 0, 1]]
    )
    assert taken.modalities[1].offsets.tolist() == [0, 1, 1]


def test_bags_without_label_are_left_out_of_the_labelled():
    assert small().labelled().label.tolist() == [1, 0, 1]
    everything = small().labelled()
    assert everything.labelled() is everything


@pytest.mark.parametrize("n", [3, 9])
def test_partitions_put_together_are_the_whole(n):
    data = small()
    parts = split(data, n)
    assert len(parts) == min(n, 4)
    assert all(part.n_bags > 0 for part in parts)
    assert [part.partition for part in parts] == list(range(len(parts)))
    assert same_bits(concatenate(parts), data)
