"""What the kernels of vMMIC compute, in NumPy, and models that compute with it."""

from contextlib import contextmanager
from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import erfcx, expit, ndtr

from vbmodels.bags.vmmic import likelihood_kernels
from vbmodels.core import normal_kernels


def scaled(features, first, centre, inverse, out):
    out[:] = (features[first : first + len(out)] - centre) * inverse


def linear(features, first, gate, gate0, slope, slope0, eta, exponent, score):
    rows = features[first : first + eta.size]
    eta[:], score[:] = gate0 + rows @ gate, slope0 + rows @ slope
    exponent[:] = -0.5 * eta**2


def tail_ratio(x, ratio):
    ratio[:] = 0.5 * erfcx(np.abs(x) * np.sqrt(0.5))


def cdf_and_density(x, bell, ratio):
    ratio[:] = ndtr(x)
    bell /= np.sqrt(2.0 * np.pi)


def bag_sums(offsets, first, last, primary, score, mean, var):
    bag = np.repeat(np.arange(last - first), np.diff(offsets[first : last + 1]))
    mean += np.bincount(bag, primary * score, minlength=last - first)
    var += np.bincount(bag, primary * (1.0 - primary) * score**2, minlength=last - first)


def bag_jacobian(features, offsets, first, last, scaling, terms, shrink, bend, slopes, gates):
    centre, inverse = scaling
    primary, density, score = terms
    starts = offsets[first : last + 1] - offsets[first]
    r, c = (np.repeat(x, np.diff(starts)) for x in (shrink, bend))
    x = (features[offsets[first] : offsets[last]] - centre) * inverse
    to_slope = primary * (r - 2.0 * c * (1.0 - primary) * score)
    to_gate = density * score * (r - c * (1.0 - 2.0 * primary) * score)
    columns, shape = np.arange(score.size), (last - first, score.size)
    slopes[:] = csr_array((to_slope, columns, starts), shape=shape) @ x
    gather = csr_array((to_gate, columns, starts), shape=shape)
    gates[:, 0] = gather.sum(axis=1)
    gates[:, 1:] = gather @ x


def bag_totals(features, offsets, first, last, weight, totals):
    edges = offsets[first : last + 1] - offsets[first]
    for row, (low, high) in enumerate(pairwise(edges)):
        totals[row] = weight[low:high] @ features[low:high]


def draw_indicators(offsets, odds, score, uniform, residual, delta):
    """Draw a position of all bags at once."""
    sizes = np.diff(offsets)
    for position in range(int(sizes.max(initial=0))):
        bags = np.flatnonzero(sizes > position)
        at = offsets[bags] + position
        without = residual[bags] + delta[at] * score[at]
        delta[at] = uniform[at] < expit(odds[at] + score[at] * without)
        residual[bags] = without - delta[at] * score[at]


FORMS = {
    normal_kernels: (tail_ratio, cdf_and_density),
    likelihood_kernels: (scaled, linear, bag_sums, bag_jacobian, bag_totals, draw_indicators),
}


@contextmanager
def replaced():
    """Let NumPy compute what the kernels do."""
    with pytest.MonkeyPatch.context() as patch:
        for module, forms in FORMS.items():
            for form in forms:
                patch.setattr(module, form.__name__, form)
        yield


def in_numpy(model):
    """Return the same model without compiled loops."""

    class InNumpy(type(model)):
        def local_step(self, *given):
            with replaced():
                return super().local_step(*given)

        def suff_stats(self, *given):
            with replaced():
                return super().suff_stats(*given)

    return InNumpy(**{f.name: getattr(model, f.name) for f in fields(model)})
