"""Scaled features of one partition and the design of its bags."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np

from vbmodels.bags.batch import Bags
from vbmodels.bags.layout import Scaling
from vbmodels.bags.likelihood import kernels_of
from vbmodels.core.state import FloatArray


@dataclass(frozen=True)
class Rows:
    """A partition's labelled bags on the scale of the model.

    ``kernels`` are the compiled loops, None for the NumPy form.
    """

    data: Bags
    scaling: Scaling
    kernels: ModuleType | None

    @classmethod
    def of(cls, batch: Bags, scaling: Scaling, use_compiled: bool | None) -> Rows:
        """Take the labelled bags; by default for the compiled loops where Numba is installed."""
        return cls(batch.labelled(), scaling, kernels_of(use_compiled))

    def features(self, k: int) -> FloatArray:
        """Return the scaled features of modality ``k``, [N_k, D_k]."""
        features, centre = self.data.modalities[k].features, self.scaling.means[k]
        if self.kernels is None:
            plain: FloatArray = (features - centre) / self.scaling.scales[k]
            return plain
        scaled = np.empty(features.shape)
        self.kernels.scaled(features, 0, centre, 1.0 / self.scaling.scales[k], scaled)
        return scaled

    def own_design(self, first: int, last: int) -> FloatArray:
        """Return e_alpha + f_i of bags first..last, without their instances, [., dim theta]."""
        layout, scaling = self.scaling.layout, self.scaling
        r = np.zeros((last - first, layout.n_theta))
        r[:, 0] = 1.0
        own = self.data.bag_features[first:last] - scaling.own_mean
        r[:, layout.own_slopes] = own / scaling.own_scale
        return r

    def design(self, primary: tuple[FloatArray, ...]) -> FloatArray:
        """Return r_i = e_alpha + f_i + sum_j p_ij phi_ij, [B, dim theta]."""
        n_bags = self.data.n_bags
        r = self.own_design(0, n_bags)
        for k, (part, p) in enumerate(zip(self.data.modalities, primary, strict=True)):
            x, totals = self.features(k), r[:, self.scaling.layout.slopes(k)]
            if self.kernels is not None:
                self.kernels.bag_totals(x, part.offsets, 0, n_bags, p, totals)
                continue
            filled = np.flatnonzero(part.sizes)
            if filled.size:
                starts = part.offsets[:-1][filled]
                totals[filled] = np.add.reduceat(p[:, None] * x, starts, axis=0)
        return r
