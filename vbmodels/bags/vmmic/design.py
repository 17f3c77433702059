"""Scaled features of one partition and the design of its bags."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbmodels.bags.bags import Bags
from vbmodels.bags.vmmic import likelihood_kernels as kernels
from vbmodels.bags.vmmic.layout import Scaling
from vbmodels.core.state import FloatArray


@dataclass(frozen=True)
class Rows:
    """A partition's labelled bags on the scale of the model."""

    data: Bags
    scaling: Scaling

    @classmethod
    def of(cls, batch: Bags, scaling: Scaling) -> Rows:
        """Take the labelled bags."""
        return cls(batch.labelled(), scaling)

    def features(self, k: int) -> FloatArray:
        """Return the scaled features of modality ``k``, [N_k, D_k]."""
        features, centre = self.data.modalities[k].features, self.scaling.means[k]
        scaled = np.empty(features.shape)
        kernels.scaled(features, 0, centre, 1.0 / self.scaling.scales[k], scaled)
        return scaled

    def own_design(self, first: int, last: int) -> FloatArray:
        """Return e_alpha + f_i of bags first..last, without their instances, [., dim theta]."""
        layout, scaling = self.scaling.layout, self.scaling
        r = np.zeros((last - first, layout.n_theta))
        r[:, 0] = 1.0
        bag_features = self.data.bag_features[first:last] - scaling.own_mean
        r[:, layout.own_slopes] = bag_features / scaling.own_scale
        return r

    def design(self, primary: tuple[FloatArray, ...]) -> FloatArray:
        """Return r_i = e_alpha + f_i + sum_j p_ij phi_ij, [B, dim theta]; section 2.2.1."""
        n_bags = self.data.n_bags
        r = self.own_design(0, n_bags)
        for k, (part, p) in enumerate(zip(self.data.modalities, primary, strict=True)):
            totals = r[:, self.scaling.layout.slopes(k)]
            kernels.bag_totals(self.features(k), part.offsets, 0, n_bags, p, totals)
        return r
