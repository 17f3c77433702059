"""The default for bags: the embedding, the witness, vMMIC and the base rate, stacked.

    P(y = 1) = w_1 P_embedding + w_2 P_witness + w_3 P_vMMIC + w_4 P_base,   w ~ Dirichlet(1.2)

The embedding (`embedding`) says which bags are positive; the witness, a Gaussian process of
instances (`mil_gp.model`), says which instances would make them so; the base rate keeps the others
honest where there is nothing to learn. The weights are those with the highest probability of
labels that a member has not seen (`core.optimise.stacked`): the embedding's by EP's leave-one-out,
the witness's by folds of bags, each at the kernel value that its other bags choose, the base rate's
by its count without the bag. Where labels are few the weights go to the member that is the best by
these (`weighed`). Folds go side by side as the classes of one problem, each without its own
bags, so that all come from one pass.

vMMIC (`primary`) says which instances are primary and what they add, which neither of the others
can where instances add in either direction. Its weight, too, is by folds. It is given up, and has
no weight, where the modes without two of the folds say that it would have little.

The mixture says: with probability w_2 a bag was made as the witness has it. So instances'
probabilities are those of witness or vMMIC, whichever has the larger weight, as they are.

Instances of several modalities are united in one table for the witness (`modalities`).

The witness keeps columns of every instance in memory. Where they would take more than is allowed,
it is left out; instances then have the probabilities of vMMIC, or none.

The members are fitted one after another: the witness, its folds, the embedding, vMMIC, weights.
Of many bags the witness's kernel value is chosen first, by some of either label (`FEW`): then only
one value's columns of all instances are kept, and sweeps take a fraction of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import softmax

from vbmodels.bags.bags import Bags
from vbmodels.bags.embedding.blocks import Scaler
from vbmodels.bags.embedding.ep import Sites
from vbmodels.bags.embedding.model import Asking, Embedding, EmbeddingModel
from vbmodels.bags.embedding.pools import Pools
from vbmodels.bags.mil_gp.gaussian import Averages
from vbmodels.bags.mil_gp.likelihood import Points, with_known_instances
from vbmodels.bags.mil_gp.model import DirectGP, Search, at_mean, at_values, near
from vbmodels.bags.mil_gp.model import Posterior as GPPosterior
from vbmodels.bags.mil_gp.predict import predict
from vbmodels.bags.multilabel import FOLDS, Observed, fold_of, fold_of_groups
from vbmodels.bags.stack import primary
from vbmodels.bags.stack.modalities import CACHE, as_witnessed
from vbmodels.bags.stack.modalities import observed as united_observed
from vbmodels.bags.vmmic.model import Collapsed, CollapsedVMMIC
from vbmodels.bags.vmmic.posterior import Posterior
from vbmodels.core.algorithm import Algorithm, Phase, Show, Sweep, within
from vbmodels.core.optimise import objective, stacked
from vbmodels.core.state import FloatArray, IntArray, State, Stats, aligned

POOLED, INSTANCES, PRIMARY, BASE = "pooled features", "instances", "primary instances", "base rate"
MEMBERS = (POOLED, INSTANCES, PRIMARY, BASE)
"""Names of the embedding, the Gaussian process of instances, vMMIC, and the base rate."""
LEAST = 0.15
"""Weight of vMMIC's modes below which it is given up: its posteriors take ten times as long."""
FURTHER, SCARCE = 8.0, 50
"""Labels that are added to those of few bags, and labels up to which these are few."""
SURE = 1e-12
"""Probabilities of labels are held this far from 0."""
WITNESS_MEMORY = 2**31
"""Bytes that the witness may keep in memory, all partitions together."""
HEAVY = 0.25
"""Share of sweeps that average over draws for all folds, where the witness does so (measured)."""
FEW = 1000
"""Bags of either label by which the kernel value is chosen where there are twice as many."""
LEVEL = 0.05
"""Rise in nats at which folds end; their averages over draws are no surer than that (measured)."""
PROMISED = 0.01
"""Rise still promised, in nats, at which the folds' searches among several kernel values end."""
POINTS = 256
"""Points of w for held-out probabilities: an error of .001, which suffices for weights."""
GROWN = 1.5
"""Times as many bags as when the witness's kernel was chosen, from which it is chosen again."""


@dataclass(frozen=True)
class SeenBags(Stats, kind="bags/stack.SeenBags"):
    """What the members' starts need of a partition.

    Of several modalities the witness needs what the embedding needs. ``instances`` counts all,
    those of bags without a label too.
    """

    witness: Observed | None
    pools: Pools
    instances: int


@dataclass(frozen=True)
class MemberStats(Stats, kind="bags/stack.MemberStats"):
    """Log probability of each fitted bag's label without it, [n, members].

    Members are as in `MEMBERS`, without the base rate and those that were left out. ``label`` is
    [n]; ``fold`` is of the bags' groups, [n], or [0] where there are none.
    """

    log_p: FloatArray
    label: FloatArray
    fold: IntArray

    def __add__(self, other: MemberStats) -> MemberStats:
        return MemberStats(
            np.concatenate([self.log_p, other.log_p]),
            np.concatenate([self.label, other.label]),
            np.concatenate([self.fold, other.fold]),
        )


@dataclass(frozen=True)
class LeftOut(State, kind="bags/stack.LeftOut"):
    """What a partition keeps at the end: the embedding's sites, and what members say of its bags.

    Attributes
    ----------
    sites
        The embedding's.
    log_p
        As in `MemberStats`, by embedding and witness, [n, 2] or [n, 1].
    vmmic
        The same by vMMIC, [n], NaN in folds that it was not fitted without; [0] where it is left
        out.
    """

    sites: Sites
    log_p: FloatArray
    vmmic: FloatArray

    @property
    def members(self) -> FloatArray:
        """All members' but that of the base rate, [n, K - 1]."""
        return np.column_stack([self.log_p, self.vmmic]) if self.vmmic.size else self.log_p


@dataclass(frozen=True)
class Auto(State, kind="bags/stack.Auto"):
    """The members and their weights, or where they start.

    Attributes
    ----------
    witness
        The Gaussian process of instances; None where it is left out.
    folds
        The same without the bags of each fold, as classes; None before.
    embedding
        The embedding.
    weights
        Of `MEMBERS`, [4]; 0 until they are known.
    base
        Share of positive bags, (n_1 + 1/2)/(n + 1).
    needed
        Bytes that the witness keeps in memory, or would.
    searched
        Fitted bags when all kernel values were last tried.
    shares
        Shares of the bags with labels 0 and 1 by which the kernel value is chosen.
    untried
        The start over all kernel values, where some are tried first; else None.
    vmmic
        The posterior of vMMIC; None where it is left out or was given up.
    vmmic_folds
        The same without the bags of each fold, while members are weighed.
    vmmic_start
        Where those begin; None where vMMIC is left out, and once it is weighed.
    """

    witness: Search | None
    folds: Search | None
    embedding: Embedding
    weights: FloatArray
    base: float
    needed: int
    searched: int
    shares: tuple[float, float] = (1.0, 1.0)
    untried: Search | None = None
    vmmic: Posterior | None = None
    vmmic_start: Collapsed | None = None
    vmmic_folds: tuple[Posterior, ...] = ()

    def sums(self, batch: Bags, local: LeftOut | None) -> MemberStats:
        """Return the probabilities of a partition's labels by members."""
        if local is None:
            raise ValueError("expected the embedding to be fitted before it is weighed")
        known = batch.labelled()
        return MemberStats(local.members, known.label.astype(float), fold_of_groups(known.group))


@dataclass(frozen=True)
class Witness(State, kind="bags/stack.Witness"):
    """What the witness asks of the bags that it sees.

    Attributes
    ----------
    asked
        It, of bags of one modality.
    view
        "some", "all" or "folds": see `vbmodels.bags.stack.modalities.ViewCache.view`.
    maps
        By which several modalities are united.
    shares
        Of the bags with labels 0 and 1, where it sees some.
    """

    asked: Points | Averages | Search
    view: str
    maps: tuple[Scaler, ...]
    shares: tuple[float, float]

    def sums(self, batch: Bags, local: Any) -> Any:
        """Return it of a partition."""
        seen = CACHE.view(self.maps, batch, self.view, self.shares)
        return self.asked.sums(with_known_instances(seen))


@dataclass(frozen=True)
class AutoModel:
    """Stack the embedding, the witness and the base rate.

    Parameters
    ----------
    embedding, witness, vmmic
        The members.
    witness_memory
        Bytes that the witness may keep in memory, all partitions together; where it would take
        more it is left out.
    few
        Bags of either label by which the kernel value is chosen where there are twice as many.
    """

    embedding: EmbeddingModel = field(default_factory=EmbeddingModel)
    witness: DirectGP = field(default_factory=DirectGP)
    vmmic: CollapsedVMMIC = field(default_factory=CollapsedVMMIC)
    witness_memory: int = WITNESS_MEMORY
    few: int = FEW

    def observe(self, batch: Bags) -> SeenBags:
        """Return what the members need before they start."""
        alone = len(batch.modalities) == 1
        witness = self.witness.observe(batch) if alone and self.witness_memory else None
        return SeenBags(witness, self.embedding.observe(batch), batch.n_instances)

    def init(self, observed: SeenBags, rng: np.random.Generator) -> Auto:
        """Start the witness, where it may be; the embedding has its landmarks too."""
        witness: Search | None = None
        if observed.witness is not None:
            witness = self.witness.init(observed.witness, rng)
            embedding = self.embedding.init(observed.pools, rng)
        else:
            embedding = self.embedding.init(observed.pools, rng)
            if self.witness_memory:
                limit = self.witness.options.sample
                seen = united_observed(embedding.map.modalities, observed.pools, limit)
                witness = self.witness.init(seen, rng)
        counts, n = observed.pools.counts, observed.pools.n_bags
        shares = (1.0, 1.0)
        if n > 2 * self.few and witness is not None and witness.features.n_kernels > 1:
            none, one = (min(1.0, self.few / max(int(count), 1)) for count in counts)
            shares = (none, one)
        share = float(counts @ shares) / n
        needed = self._needed(witness, observed.instances, n, share)
        if witness is None or needed > self.witness_memory:
            witness = None
        base = (int(counts[1]) + 0.5) / (n + 1.0)
        weights = np.zeros(len(MEMBERS))
        vmmic_start = None
        if self.witness_memory:
            vmmic_start = primary.start(self.vmmic, observed.pools, int(rng.integers(2**62)))
        return Auto(
            witness, None, embedding, weights, base, needed, n, shares, vmmic_start=vmmic_start
        )

    def restart(self, observed: SeenBags, before: Any, rng: np.random.Generator) -> Auto:
        """Start with an earlier fit's kernel value and its neighbours, at its blocks' variances.

        Scaling, landmarks and all weights are of the new data, so that the fit is the one from
        the start where that would choose the same kernel value, to what the searches leave open
        and the folds may choose. Where the best of them has neighbours that were not tried, or with
        half as many bags again as when all were tried, all are tried.
        """
        fresh = self.init(observed, rng)
        if not isinstance(before, Auto):
            return fresh
        variances = self.embedding.near(fresh.embedding, before.embedding)
        fresh = replace(fresh, embedding=variances)
        if fresh.witness is None or before.witness is None:
            return fresh
        if observed.pools.n_bags > GROWN * before.searched:
            return fresh
        whole = fresh.witness
        kernels = whole.features.same_values(before.witness.features, before.witness.kernel)
        if not kernels.size:
            return fresh
        if observed.pools.n_bags <= 2 * self.few:
            kernels = whole.features.around(kernels)
        witness = at_values(whole, kernels, 1)
        untried = whole if 1 < kernels.size < whole.features.n_kernels else None
        return replace(
            fresh, witness=witness, searched=before.searched, shares=(1.0, 1.0), untried=untried
        )

    def remembered(self, q: Auto, batch: Bags) -> int:
        """Return about how many bytes are kept of a partition between sweeps."""
        own = self.embedding.remembered(q.embedding, batch)
        own_shares = np.array(q.shares)[(batch.label == 1).astype(np.int64)]
        share = float(own_shares.sum()) / max(batch.n_bags, 1)
        if q.vmmic_start is not None:
            own += sum(m.features.nbytes for m in batch.modalities)
        return self._needed(q.witness, batch.n_instances, batch.n_bags, share) + own

    def heavy(self, q: Auto) -> tuple[Witness, float] | None:
        """Return the folds as they look for the nearest Gaussian, the slowest of sweeps."""
        if q.witness is None or self.witness.posterior_form == "laplace":
            return None
        features = q.witness.features.at_values(np.zeros(1, np.int64))
        size = features.n_columns
        folds = at_mean(features, np.zeros(size), np.eye(size))
        return self._seen_by(q, "folds")(folds), HEAVY

    def _needed(self, witness: Search | None, instances: int, n_bags: int, share: float) -> int:
        """Return the bytes that the witness keeps at most, by the share of bags that choose.

        Columns of one phase at a time are kept: all lengths' for the bags that choose, one's for
        all. Rows are kept where they are united.
        """
        if witness is None:
            return 0
        features = witness.features
        rows = instances + n_bags * features.leak
        columns = max(1.0, share * len(features.lengths)) * (features.n_columns + 1)
        square = features.n_columns**2 * max(features.n_kernels, FOLDS)
        return int(8 * (rows * (columns + features.mean.size) + 3 * square))

    def local_step(
        self, q: Asking, batch: Bags, local: Sites | LeftOut | None
    ) -> Sites | LeftOut | None:
        """Do the embedding's local step, and keep what it left; at the end what members say."""
        if isinstance(q, Auto):
            return None if local is None else self._left_out(q, batch, local)
        return self.embedding.local_step(q, batch, local)  # type: ignore[arg-type]

    def suff_stats(self, q: Asking, batch: Bags, local: Any) -> Any:
        """Return what a member asks of a partition, or the labels' probabilities by members."""
        return q.sums(batch, local)

    def elbo(self, q: Auto, stats: MemberStats) -> float:
        """Return the objective of the weights."""
        return weighed(log_densities(stats))[1]

    def algorithm(self, q: Auto) -> Algorithm:
        """Fit the members one after another, then weigh them."""
        if q.witness is not None:
            q = yield from self._fit_witness(q)
        fitting = self.embedding.algorithm(q.embedding)
        embedding = yield Phase(fitting, "the embedding was being fitted")
        weighing = self._weigh(replace(q, embedding=embedding))
        q, value = yield Phase(weighing, "the members were being weighed")
        if q.vmmic_start is None:
            return q
        return (yield Phase(self._with_vmmic(replace(q, vmmic_start=None), q.vmmic_start, value)))

    def _with_vmmic(self, q: Auto, start: Collapsed, value: float) -> Algorithm:
        """Fit vMMIC and weigh it; give it up where it does not pay.

        That is where the modes without some folds have little weight, or the objective of the
        weights is below ``value``, that of the others.
        """
        maps, doing = q.embedding.map.scalers, "vMMIC was being fitted"
        finding = [self.vmmic.mode(start) for _ in range(primary.SCREENED)]
        modes = yield replace(primary.fit_together(finding, maps), doing=doing)
        some = tuple(map(self.vmmic.posterior, modes))
        trial = replace(q, vmmic=some[0], vmmic_folds=some)
        trial, _ = yield Phase(self._weigh(trial, shown=False), doing)
        if trial.weights[MEMBERS.index(PRIMARY)] >= LEAST:
            fitting = list(map(self.vmmic.gaussians, modes))
            fitting += [self.vmmic.algorithm(start) for _ in range(FOLDS + 1 - len(modes))]
            fits = yield replace(primary.fit_together(fitting, maps), doing=doing)
            *folds, whole = map(self.vmmic.posterior, fits)
            trial = replace(q, vmmic=whole, vmmic_folds=tuple(folds))
            trial, found = yield Phase(self._weigh(trial), doing)
            if found > value:
                return replace(trial, vmmic_folds=())
        q, _ = yield Phase(self._weigh(q), doing)
        return q

    def _fit_witness(self, q: Auto) -> Algorithm:
        """Fit the witness to all bags, at the kernel value that it chooses, and without folds."""
        start: Search = q.witness  # type: ignore[assignment]
        if q.shares != (1.0, 1.0):
            choosing = replace(self.witness, posterior_form="laplace").algorithm(start)
            chosen = yield Phase(
                within(choosing, self._seen_by(q, "some")), "the witness's kernel was being chosen"
            )
            points = chosen.points[chosen.kernel]
            start = replace(at_values(chosen, chosen.kernel, 1), points=points)
        doing, seen = "the witness was being fitted", self._seen_by(q, "all")
        found = yield Phase(within(self.witness.algorithm(start), seen), doing)
        if q.untried is not None and self._moved(q.untried, found):
            found = yield Phase(within(self.witness.algorithm(q.untried), seen), doing)
            q = replace(q, searched=q.embedding.map.n_bags)
        start = self._without_folds(q, found)
        tolerance = PROMISED if start.features.n_kernels > 1 else self.witness.tolerance
        fitting = replace(self.witness, rise=LEVEL, tolerance=tolerance).algorithm(start)
        folds = yield Phase(
            within(fitting, self._seen_by(q, "folds")),
            "the witness was being fitted without each fold",
        )
        return replace(q, witness=found, folds=folds, untried=None)

    def _seen_by(self, q: Auto, view: str) -> Callable[[Any], Witness]:
        """Return what makes of what the witness asks what is sent to partitions."""
        return partial(Witness, view=view, maps=q.embedding.map.scalers, shares=q.shares)

    def _weigh(self, q: Auto, shown: bool = True) -> Algorithm:
        """Weigh the members by the labels' probabilities without each bag; add the objective."""
        q, weights = aligned(q), np.zeros(len(MEMBERS))
        weights[present(q)], value = weighed(log_densities((yield Sweep(q))))
        q = replace(q, weights=weights)
        if shown:
            yield Show(q, value, by_trace=False)
        return q, value

    def _moved(self, untried: Search, found: Search) -> bool:
        """Whether the best of the kernel values tried has neighbours that were not."""
        whole = untried.features
        neighbours = whole.around(whole.same_values(found.features, found.kernel))
        tried = whole.same_values(found.features, np.arange(found.features.n_kernels))
        return not bool(np.isin(neighbours, tried).all())

    def _without_folds(self, q: Auto, found: Search) -> Search:
        """Start the fits without each fold's bags.

        Each chooses its kernel value itself, out of those that may be the best without some bags:
        at the value that all bags chose, a fold's labels have been seen, and were predicted too
        well (by up to .07 nats a label). With many bags no fold changes the value, and the fits
        begin at the q(w) of all: the first step takes a fold's bags out of mean and precision, and
        what it leaves of them is far below what the others say. Few bags may leave a trace, since
        the posterior is skew.
        """
        n = q.embedding.map.n_bags
        # Of many bags, others may not choose another kernel value than all did.
        kernels = found.kernel if n > 2 * self.few else near(found)
        if self.witness.posterior_form == "laplace" or n <= 2 * self.few:
            return at_values(found, kernels, FOLDS)
        k = int(found.kernel[0])
        return at_mean(
            found.features.at_values(found.kernel), found.points[k, 0], found.precision[0]
        )

    def _left_out(self, q: Auto, batch: Bags, local: Sites | LeftOut) -> LeftOut:
        """Return what the members say of the labels of a partition without each bag."""
        known = batch.labelled()
        if not isinstance(local, LeftOut):
            of_members = [self.embedding.left_out(q.embedding, batch, local)]
            if q.witness is not None and q.folds is not None:
                seen = as_witnessed(q.embedding.map.scalers, known)
                folds = self.witness.posterior(q.folds)
                of_members.append(_log_chance(left_out(folds, seen), known))
            return LeftOut(local, np.column_stack(of_members), np.empty(0))
        if q.vmmic is None:
            return replace(local, vmmic=np.empty(0))
        if not q.vmmic_folds:
            return local
        fold = fold_of(as_witnessed(q.embedding.map.scalers, known))
        chance = primary.left_out(q.vmmic_folds, known, fold)
        return replace(local, vmmic=_log_chance(chance, known))


def _log_chance(chance: FloatArray, known: Bags) -> FloatArray:
    """Return the log probabilities of labels, [n], by P(y = 1)."""
    chance = np.clip(chance, SURE, 1.0 - SURE)
    return np.log(np.where(known.label == 1, chance, 1.0 - chance))


def left_out(folds: GPPosterior, seen: Bags) -> FloatArray:
    """Return P(y = 1) of bags by the class that is without their fold, [B]."""
    chance, fold = np.zeros(seen.n_bags), fold_of(seen)
    for f in range(FOLDS):
        held = np.flatnonzero(fold == f)
        if held.size:
            kernel, mean, factor = folds.kernel[[f]], folds.mean[[f]], folds.factor[[f]]
            own = replace(folds, kernel=kernel, mean=mean, factor=factor)
            chance[held] = predict(own, seen.take(held), points=POINTS)[0].bag_probability
    return chance


def log_densities(stats: MemberStats) -> FloatArray:
    """Return the members' log probabilities of labels without each bag, [n, 4] or fewer columns.

    Bags of folds that vMMIC was not fitted without are left out.
    """
    n, positive = stats.label.size, stats.label.sum()
    left = (positive - stats.label + 0.5) / n
    if stats.fold.size:
        count = n - np.bincount(stats.fold, minlength=FOLDS)
        rest = positive - np.bincount(stats.fold, stats.label, FOLDS)
        left = ((rest + 0.5) / (count + 1.0))[stats.fold]
    log_p = with_base(stats.log_p, stats.label, left)
    return log_p[~np.isnan(log_p).any(axis=1)]


def weighed(log_p: FloatArray) -> tuple[FloatArray, float]:
    """Return the members' weights by the labels' log probabilities, [n, K], and their objective.

    Few labels leave the weights open, and a mixture of what all say is then worse than the best
    member: so `FURTHER` labels are added, shared out by the probability that a member alone made
    all labels; of more than `SCARCE` labels fewer are added.
    """
    added = FURTHER * min(1.0, SCARCE / max(len(log_p), 1)) ** 2
    further = added * softmax(log_p.sum(axis=0))
    weights = stacked(log_p, further)
    return weights, objective(log_p, weights, further)


def with_base(log_p: FloatArray, label: FloatArray, base: FloatArray | float) -> FloatArray:
    """Return log probabilities of labels, [n, K - 1], with those of the base rate, [n, K]."""
    own = np.log(np.where(label == 1.0, base, 1.0 - base))
    return np.column_stack([np.maximum(log_p, np.log(SURE)), own])


def present(q: Auto) -> list[int]:
    """Number the members that are stacked."""
    there = (True, q.witness is not None, q.vmmic is not None, True)
    return [number for number, fitted in enumerate(there) if fitted]
