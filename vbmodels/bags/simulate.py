"""Bags drawn from vMMIC: the simulation study of the text's section 2.3.1.

Two statements of the text are resolved so that a model is defined: instances and bags
are drawn with probability Phi(.) (the text's linear scores are no probabilities), and the
intercepts a, c are set so that the stated shares of primary instances hold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from vbmodels.bags.bags import Bags, Instances, bags
from vbmodels.core.state import FloatArray

N_FEATURES = 16


@dataclass(frozen=True)
class Truth:
    """What a simulation was made with.

    Attributes
    ----------
    intercept
        alpha, of the bags' regression.
    slopes
        beta, gamma, ...: what a primary instance adds to its bag, [D_k] for each modality.
    gate_intercepts
        a, c, ...: of the regression of being primary.
    gate_slopes
        b, d, ..., [D_k] for each modality.
    primary
        Whether an instance is primary (delta), [N_k] for each modality.
    probability
        P(delta = 1) of each instance at the true parameters, [N_k] for each modality.
    score
        alpha + sum of the primary instances' scores, [B].
    """

    intercept: float
    slopes: tuple[FloatArray, ...]
    gate_intercepts: tuple[float, ...]
    gate_slopes: tuple[FloatArray, ...]
    primary: tuple[NDArray[np.bool_], ...]
    probability: tuple[FloatArray, ...]
    score: FloatArray


def simulate(
    rng: np.random.Generator,
    n_bags: int = 500,
    bag_size: int = 20,
    ratio: float = 4.0,
    primary: tuple[float, float] = (0.35, 0.35),
    intercept: float = -2.65,
) -> tuple[Bags, Truth]:
    """Draw the text's two-modality study (section 2.3.1).

    An instance is of the second modality with probability 1/(ratio + 1); x ~ N(0, I_16),
    z ~ N(-1, I_16); b = 1, d = gamma = (-.5 x 8, .5 x 8), beta = (-1 x 8, 1 x 8);
    P(primary) = Phi(a + x b) or Phi(c + z d), P(positive) = Phi(alpha + sum delta s).
    With x b ~ N(E, |b|^2) the share of primary instances is p when
    a = sqrt(1 + |b|^2) Phi^-1(p) - E. The text gives no alpha; because gamma equals d, the
    second modality moves bags by 2.65 on average, and -2.65 leaves half of them positive.

    Parameters
    ----------
    rng
        Source of random numbers.
    n_bags
        Bags, n.
    bag_size
        Instances of a bag, m.
    ratio
        Instances of the first modality for one of the second, r.
    primary
        Shares of primary instances in each modality.
    intercept
        alpha.
    """
    half = N_FEATURES // 2
    contrast = np.repeat([-1.0, 1.0], half)
    means = (0.0, -1.0)
    slopes = (contrast, 0.5 * contrast)
    gates = (np.ones(N_FEATURES), 0.5 * contrast)
    gate_intercepts = tuple(
        float(np.sqrt(1.0 + g @ g) * ndtri(p) - mean * g.sum())
        for g, p, mean in zip(gates, primary, means, strict=True)
    )
    second = rng.random((n_bags, bag_size)) < 1.0 / (ratio + 1.0)
    modalities, deltas, probabilities = [], [], []
    score = np.full(n_bags, intercept)
    for k, mean in enumerate(means):
        bag = np.nonzero(second == bool(k))[0]
        features = rng.normal(mean, 1.0, (bag.size, N_FEATURES))
        probability = ndtr(gate_intercepts[k] + features @ gates[k])
        delta = rng.random(bag.size) < probability
        score += np.bincount(bag, weights=delta * (features @ slopes[k]), minlength=n_bags)
        modalities.append(Instances.from_rows(bag, features, n_bags))
        deltas.append(delta)
        probabilities.append(probability)
    label = rng.random(n_bags) < ndtr(score)
    truth = Truth(
        intercept=intercept,
        slopes=slopes,
        gate_intercepts=gate_intercepts,
        gate_slopes=gates,
        primary=tuple(deltas),
        probability=tuple(probabilities),
        score=score,
    )
    return bags(modalities, label.astype(np.int8)), truth
