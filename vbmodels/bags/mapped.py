"""vMMIC on other features: a Gaussian kernel's of instances, pooled ones of bags.

Instances x of a modality become phi(x) = L^-1 k(z, x) with R landmarks z and L L' = k(z, z), the
features of Nystroem's method (Williams and Seeger 2001), so that being primary and what a primary
instance adds need not be linear in x; kernel, scaling and landmarks are those of `gp_features` at
its middle length scale. Bags have mean, largest, smallest and standard deviation of every feature
over their instances beside their own features: within 4 standard deviations of their mean over the
fitted bags, and at that mean for a bag without instances.

Landmarks and means follow from one pass, as scaling does; a second pass observes the mapped
bags, and the fit of `collapsed` goes on with these.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vbmodels.bags.bag_blocks import POOLED_CLIP
from vbmodels.bags.bag_pools import Pool, Pools, pooled, runs_of
from vbmodels.bags.bag_pools import rows_of as rows_of_bags
from vbmodels.bags.batch import Bags, Instances
from vbmodels.bags.gp_data import Observed
from vbmodels.bags.gp_features import FeatureMap, feature_map
from vbmodels.bags.gp_kernel import KernelOptions
from vbmodels.bags.landmarks import single
from vbmodels.bags.layout import Layout
from vbmodels.bags.memory import Memory
from vbmodels.bags.mode import FewBags, refuse_hopeless
from vbmodels.bags.posterior import Posterior
from vbmodels.core.protocol import Cursor, Step
from vbmodels.core.state import FloatArray, State


@dataclass(frozen=True)
class Mapped(State):
    """Where the fit stands.

    Attributes
    ----------
    kernels
        Maps of the modalities' instances; () where they stay as they are.
    pool_means, pool_sds
        Of pooled features, [4 D_k] for each modality; () where bags have none.
    seed
        Of the fit.
    inner
        Where the fit on the mapped bags stands; None before they were observed.
    """

    kernels: tuple[FeatureMap, ...]
    pool_means: tuple[FloatArray, ...]
    pool_sds: tuple[FloatArray, ...]
    seed: int
    inner: State | None

    def mapped(self, data: Bags) -> Bags:
        """Return bags with the features that the fit sees."""
        own = [data.bag_features]
        for m, mean, sd in zip(data.modalities, self.pool_means, self.pool_sds, strict=False):
            far = POOLED_CLIP * sd
            near = np.clip(pooled(m), mean - far, mean + far)
            own.append(np.where(m.sizes[:, None] > 0, near, mean))
        modalities = data.modalities
        if self.kernels:
            each = zip(data.modalities, self.kernels, strict=True)
            modalities = tuple(_features(m, kernel) for m, kernel in each)
        return Bags(modalities, data.label, np.hstack(own), data.partition)


def _features(of: Instances, kernel: FeatureMap) -> Instances:
    parts = [np.empty((0, len(kernel.points)))]
    for bags in runs_of(of):
        (columns,), _ = kernel.base(rows_of_bags(of, bags)[0])
        parts.append(columns[:, :-1])  # the last is the constant
    return Instances(np.concatenate(parts), of.offsets)


class MappedCache(Memory[Bags]):
    """Mapped bags of partitions, until other landmarks or pools come."""

    def bags(self, q: Mapped, data: Bags) -> Bags:
        """Return mapped bags, from memory where they are."""
        arrays = (*q.pool_means, *q.pool_sds)
        key = b"".join([*(k.key for k in q.kernels), *(a.tobytes() for a in arrays)])
        return self.of(data, key, lambda: q.mapped(data))


CACHE = MappedCache()


@dataclass(frozen=True)
class MappedVMMIC:
    """Fit vMMIC on a kernel's features of instances, and on pooled features of bags.

    Parameters
    ----------
    collapsed
        The fit: a `CollapsedVMMIC` or a `ChosenVMMIC`.
    landmarks
        Landmarks of each modality; 0 leaves its features as they are.
    pools
        Whether bags have pooled features.
    sample_seed
        Seed of the hash by which instances are sampled for landmarks.
    """

    collapsed: Any
    landmarks: int = 0
    pools: bool = False
    sample_seed: int = 0

    def observe(self, batch: Bags) -> Pools:
        """Return scaling, counts, and samples for landmarks."""
        return Pools.of(batch, self.sample_seed, False)

    def init(self, observed: Pools, rng: np.random.Generator) -> Mapped:
        """Choose landmarks; the generator gives the seed of the fit.

        Raises
        ------
        ValueError
            If the bags with a label are all of one class.
        """
        kernels, means, sds = [], [], []
        for pool in observed.modalities if self.landmarks else ():
            kernels.append(_kernel(pool, observed, self.landmarks, rng))
        for pool in observed.modalities if self.pools else ():
            means.append(single(pool.bags.mean[:-1]))
            sds.append(single(np.sqrt(pool.bags.deviation[:-1] / max(pool.bags.count, 1.0))))
        seed = int(rng.integers(2**62))
        q = Mapped(tuple(kernels), tuple(means), tuple(sds), seed, None)
        none = np.zeros(1, dtype=np.int64)
        blank = tuple(Instances(np.empty((0, p.rows.mean.size)), none) for p in observed.modalities)
        like = Bags(blank, np.empty(0, np.int8), np.empty((0, observed.own.mean.size)))
        layout = Layout.of(q.mapped(like))
        refuse_hopeless(float(observed.counts[1]), float(observed.n_bags), layout)
        return q

    def remembered(self, q: Mapped, batch: Bags) -> int:
        """Return about how many bytes of mapped bags are kept of a partition."""
        width = 4 * sum(m.n_features for m in batch.modalities) * self.pools
        columns = max(self.landmarks, max(m.n_features for m in batch.modalities))
        return 8 * (batch.n_instances * columns + batch.n_bags * width)

    def local_step(self, q: Mapped, batch: Bags, local: None) -> None:
        """Do nothing: a partition has no parameters of its own."""

    def suff_stats(self, q: Mapped, batch: Bags, local: None) -> Any:
        """Observe the mapped bags of a partition, or evaluate them as the fit asks."""
        bags = CACHE.bags(q, batch)
        if q.inner is None:
            return self.collapsed.observe(bags)
        return self.collapsed.suff_stats(q.inner, bags, None)

    def global_step(self, q: Mapped, stats: Any) -> Mapped:
        """Begin the fit, or go on with it."""
        if q.inner is not None:
            return replace(q, inner=self.collapsed.global_step(q.inner, stats))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FewBags)  # said before
            return replace(q, inner=self.collapsed.init(stats, np.random.default_rng(q.seed)))

    def elbo(self, q: Mapped, stats: Any) -> float:
        """Return the fit's objective; 0 before there is one."""
        return 0.0 if q.inner is None else float(self.collapsed.elbo(q.inner, stats))

    def shown(self, at: Cursor) -> Step | None:
        """Show what the fit shows."""
        if at.q.inner is None:
            return None
        step = self.collapsed.shown(Cursor(at.q.inner, at.stats, at.number, at.elbo))
        if step is None:
            return None
        return Step(at.number, replace(at.q, inner=step.q), step.elbo, at, step.converged)

    def posterior(self, q: Mapped) -> Posterior:
        """Return q(t) on mapped features."""
        found: Posterior = self.collapsed.posterior(q.inner)
        return found


def _kernel(pool: Pool, of: Pools, count: int, rng: np.random.Generator) -> FeatureMap:
    """Choose a modality's landmarks and scaling."""
    options = KernelOptions(
        kernel="rbf", length_scales=(1.0,), amplitudes=(1.0,), n_inducing=count, leak=False
    )
    positive, negative = of.counts[1:], of.counts[:1]
    seen = Observed(pool.rows, pool.unit, positive, negative, pool.instances, pool.products)
    return feature_map(options, seen, rng)
