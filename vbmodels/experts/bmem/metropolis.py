"""Metropolis-Hastings for mixtures of logistic experts, through the same reduce as every fit.

One evaluation moves every expert and one gate, of all chains at once. A partition draws z of
its rows from its conditional,

    P(z = k) prop. to exp(eta_k'x) sigma(t beta_k'x),

by numbers that belong to the row, and returns what the proposals would change in
log p(y | z, beta) (apart, expert by expert) and in log p(z | eta). The driver accepts or
refuses, and proposes again. So draws depend on the seed, and on the partitions by
rounding alone.

A row counts once or not at all: with the likelihood prod p(y | x)^w, one z a row has no joint
density that gives both this conditional of z and ratios weighted by w.

During warmup the sizes of the proposals follow the share that is accepted (Robbins and Monro
1951), and with ``learn`` the shape and rate of the lengths follow stochastic EM (Delyon,
Lavielle and Moulines 1999), one pair for gates and one for experts, over all chains. alpha1
is capped: without a cap it grows without end, because K lengths that agree have an unbounded
likelihood. Then both stay, so that the kept draws have one target.

Experts may change places within a chain. Kept draws are brought to the order of the one with
the highest density (Marin, Mengersen and Robert 2005); R-hat and effective sizes are of
numbers that do not depend on the order.

A vector (a gate or an expert) is v = g a with length g and direction a. Priors: "gaussian",
N(0, 1/tau) and N(0, 10) for the intercept; "mabn1" and "mabn2", g ~ Gamma(alpha1, rate alpha2),
a_1 uniform and then (Xie, Zhu and Xing 2016, type I) a_i | a_<i ~ vMF(-s_i/|s_i|, kappa), or
(type II) a density proportional to exp(-kappa s_i'a_i), s_i = sum_{j<i} a_j.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np
from scipy.optimize import brentq, linear_sum_assignment
from scipy.special import digamma, gammaln, log_expit, log_ndtr, logsumexp, ndtr, ndtri

from vbmodels.core.algorithm import Algorithm, Evaluate, Save, Show
from vbmodels.core.draws import Diagnosis, Schedule, diagnose
from vbmodels.core.state import FloatArray, State, Stats
from vbmodels.experts.bmem.mutual_angular import log_sphere_norm
from vbmodels.experts.likelihood import prior_precision
from vbmodels.experts.posterior import DrawnPosterior
from vbmodels.experts.rows import Observed, Rows

SampledPrior = Literal["gaussian", "mabn1", "mabn2"]
Kind = Literal["vector", "direction", "length"]


@dataclass(frozen=True)
class WalkPrior:
    """The prior of gates and of experts; ``alpha`` (shape and rate) comes with every call.

    Parameters
    ----------
    name
        "gaussian", "mabn1" or "mabn2".
    tau
        Precision of "gaussian".
    kappa
        Concentration of the directions.
    """

    name: SampledPrior = "mabn1"
    tau: float = 1.0
    kappa: float = 10.0

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of proposals, in turn."""
        return ("vector",) if self.name == "gaussian" else ("direction", "length")

    def start(
        self, shape: tuple[int, ...], alpha: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        """Draw first vectors, [chains, 2, K, p]: a prior without its angles, but not far out."""
        noise = rng.standard_normal(shape)
        if self.name == "gaussian":
            return 0.5 * noise
        mean = (alpha[:, 0] / alpha[:, 1])[None, :, None, None]
        return np.asarray(mean * noise / np.linalg.norm(noise, axis=-1, keepdims=True))

    def propose(
        self, kind: Kind, v: FloatArray, size: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        """Return proposals for vectors [..., p]; size is [...].

        Directions: a + noise, normalised, which is symmetric since its density depends on
        a'a* alone. Lengths: N(g, size^2) truncated to g* > 0.
        """
        if kind == "vector":
            return np.asarray(v + size[..., None] * rng.standard_normal(v.shape))
        g = np.linalg.norm(v, axis=-1, keepdims=True)
        if kind == "direction":
            moved = v / g + size[..., None] * rng.standard_normal(v.shape)
            return np.asarray(g * moved / np.linalg.norm(moved, axis=-1, keepdims=True))
        scale = size[..., None]
        below = ndtr(-g / scale)
        u = below + (1.0 - below) * rng.random(g.shape)
        longer = np.maximum(g + scale * ndtri(u), 1e-12)
        return np.asarray(v * (longer / g))

    def log_ratio(
        self,
        kind: Kind,
        v: FloatArray,
        k: int,
        new: FloatArray,
        size: FloatArray,
        alpha: FloatArray,
    ) -> FloatArray:
        """Return the log of prior ratio times proposal ratio of v[:, k] -> new; [chains].

        For lengths the latter is Phi(g/size)/Phi(g*/size) (section 3 of the supplement); without
        it the draws of Gamma(2, 1) have the mean 2.18.
        """
        old = v[:, k]
        if kind == "vector":
            weight = prior_precision(self.tau, v.shape[-1])
            return np.asarray(0.5 * ((old**2 - new**2) @ weight))
        if kind == "direction":
            moved = v.copy()
            moved[:, k] = new
            return self.log_directions(moved) - self.log_directions(v)
        g, longer = np.linalg.norm(old, axis=-1), np.linalg.norm(new, axis=-1)
        prior = (alpha[0] - 1.0) * np.log(longer / g) - alpha[1] * (longer - g)
        return np.asarray(prior + log_ndtr(g / size) - log_ndtr(longer / size))

    def log_density(self, v: FloatArray, alpha: FloatArray) -> FloatArray:
        """Return log p of gates or of experts [chains, K, p], in (g, a) or in v; [chains]."""
        if self.name == "gaussian":
            weight = prior_precision(self.tau, v.shape[-1])
            terms = 0.5 * np.log(weight / (2.0 * np.pi)) - 0.5 * weight * v**2
            return np.asarray(terms.sum((1, 2)))
        g = np.linalg.norm(v, axis=-1)
        terms = alpha[0] * np.log(alpha[1]) - gammaln(alpha[0])
        terms = terms + (alpha[0] - 1.0) * np.log(g) - alpha[1] * g
        return np.asarray(terms.sum(1)) + self.log_directions(v)

    def log_directions(self, v: FloatArray) -> FloatArray:
        """Return log p(a_1, ..., a_K) (in eq 6) of the directions of v [chains, K, p]; [chains]."""
        a = v / np.linalg.norm(v, axis=-1, keepdims=True)
        before = np.cumsum(a, axis=1) - a
        length = np.linalg.norm(before, axis=-1)
        along = np.sum(before * a, axis=-1)
        if self.name == "mabn2":
            pull, norm = self.kappa * along, self.kappa * length
        else:
            pull = self.kappa * along / np.maximum(length, 1e-300)
            norm = np.where(np.arange(v.shape[1]) > 0, self.kappa, 0.0)[None]
        pull[:, 0] = 0.0
        return np.asarray(-(pull + log_sphere_norm(v.shape[-1], norm)).sum(1))


def fitted_gamma(mean: float, mean_log: float, cap: float) -> tuple[float, float]:
    """Return shape and rate of a Gamma with these E g and E log g, the shape at most ``cap``."""
    gap = np.log(mean) - mean_log
    shape = cap
    if np.log(cap) - digamma(cap) < gap:
        shape = brentq(lambda s: np.log(s) - digamma(s) - gap, 1e-3, cap)
    return shape, shape / mean


def in_one_order(draws: FloatArray, density: FloatArray) -> FloatArray:
    """Return draws [chains, S, 2, K, p] with experts in the order of the densest draw's.

    Each is permuted to the largest inner product with that draw; gates less their mean, which
    the softmax does not see.
    """
    centred = draws.copy()
    centred[:, :, 0] -= centred[:, :, 0].mean(2, keepdims=True)
    pivot = centred[np.unravel_index(int(np.argmax(density)), density.shape)]
    gain = np.einsum("csrkp,rjp->csjk", centred, pivot)
    ordered = np.empty_like(draws)
    for i, s in np.ndindex(*density.shape):
        _, order = linear_sum_assignment(gain[i, s], maximize=True)
        ordered[i, s] = draws[i, s][:, order]
    return ordered


def mean_cosine(vectors: FloatArray) -> FloatArray:
    """Return the mean cosine over pairs of vectors [..., K, p]; [...]."""
    k = vectors.shape[-2]
    a = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    total = np.sum(a.sum(-2) ** 2, axis=-1)
    result: FloatArray = (total - k) / max(1, k * (k - 1))
    return result


MOST_ALPHA1 = 50.0
WANTED = 0.3  # share of proposals accepted
QUANTITIES = ("log density", "length of gates", "length of experts", "cosine between experts")


@dataclass(frozen=True)
class Walk(State, kind="experts/bmem.Walk"):
    """The state of the chains, and what they propose.

    Attributes
    ----------
    seed, count
        Of this evaluation's random numbers.
    vectors
        Gates and experts; [chains, 2, K, p].
    experts, gate
        The proposals, [chains, K, p] and [chains, p].
    log_size
        Of the proposals: [kind, chains, 2, K].
    accepted
        Proposals taken since warmup, and how many there were; [2, kind, chains, 2, K].
    alpha
        Shape and rate of the lengths of gates and of experts; [2, 2].
    moments
        Running means of g and log g, of gates and of experts; [2, 2].
    draws, density
        What is kept, [chains, S, 2, K, p], and its log density [chains, S]; filled in when the
        chains end.
    """

    seed: int
    count: int
    vectors: FloatArray
    experts: FloatArray
    gate: FloatArray
    log_size: FloatArray
    accepted: FloatArray
    alpha: FloatArray
    moments: FloatArray
    draws: FloatArray
    density: FloatArray


@dataclass(frozen=True)
class WalkSums(Stats, kind="experts/bmem.WalkSums"):
    """What a partition returns: log-likelihood ratios, and log p(y) of the present vectors.

    Attributes
    ----------
    experts, gate
        [chains, K] and [chains], given its draw of z.
    log_likelihood
        With z summed out; [chains].
    """

    experts: FloatArray
    gate: FloatArray
    log_likelihood: FloatArray


@dataclass(frozen=True)
class SampledExperts:
    """Sample a mixture of logistic experts (section 3).

    Parameters
    ----------
    n_experts
        K.
    prior
        Of gates and of experts.
    alpha1, alpha2
        Shape and rate of the lengths, or their start.
    learn
        Whether they are learned during warmup.
    chains
        Chains.
    warmup, draws
        Evaluations thrown away, and draws kept of each chain.
    thin
        Evaluations from one kept draw to the next; by default as many as move every gate in
        every way.
    """

    n_experts: int = 5
    prior: WalkPrior = field(default_factory=WalkPrior)
    alpha1: float = 2.0
    alpha2: float = 0.5
    learn: bool = False
    chains: int = 4
    warmup: int = 1000
    draws: int = 400
    thin: int | None = None

    objective: ClassVar[str] = "log density"

    def __post_init__(self) -> None:
        if self.chains < 2 or self.schedule.draws < 4:
            raise ValueError("expected at least 2 chains of 4 draws for their diagnosis")

    @property
    def schedule(self) -> Schedule:
        """The moves of each chain; the evaluation of the start comes before them."""
        return Schedule(
            self.warmup, self.draws, self.thin or self.n_experts * len(self.prior.kinds)
        )

    @property
    def evaluations(self) -> int:
        """Evaluations in all."""
        return self.schedule.sweeps + 1

    def observe(self, batch: Rows) -> Observed:
        """Count the rows.

        Raises
        ------
        ValueError
            If a row has a weight other than 0 and 1.
        """
        odd = np.flatnonzero((batch.used != 0.0) & (batch.used != 1.0))
        if odd.size:
            raise ValueError(
                f"expected weights 0 or 1, got {batch.used[odd[0]]:g} in row {odd[0]}; "
                "fit weighted rows by cavi"
            )
        return Observed.of(batch)

    def init(self, observed: Observed, rng: np.random.Generator) -> Walk:
        """Begin every chain at random."""
        observed.refuse_one_class()
        shape = (self.chains, 2, self.n_experts, observed.squares.size)
        kinds = len(self.prior.kinds)
        alpha = np.tile([self.alpha1, self.alpha2], (2, 1))
        seed = int(rng.integers(2**62))
        first = {"vector": 0.5, "direction": 0.3, "length": 1.0}
        sizes = np.log([first[kind] for kind in self.prior.kinds])
        q = Walk(
            seed=seed,
            count=0,
            vectors=self.prior.start(shape, alpha, rng),
            experts=np.empty(0),
            gate=np.empty(0),
            log_size=np.tile(sizes[:, None, None, None], (1, *shape[:3])),
            accepted=np.zeros((2, kinds, *shape[:3])),
            alpha=alpha,
            moments=np.zeros((2, 2)),
            draws=np.empty(0),
            density=np.empty(0),
        )
        return self._proposed(q)

    def local_step(self, q: Walk, batch: Rows, local: None) -> None:
        """Do nothing: z is drawn with the statistics and not kept."""

    def suff_stats(self, q: Walk, batch: Rows, local: None) -> WalkSums:
        """Draw z (eqs 11, 15) and return what the proposals would change."""
        c, _, k, p = q.vectors.shape
        w, t = batch.used, batch.t
        gates, now = batch.project(q.vectors.reshape(-1, p)).reshape(c, 2, k, -1).swapaxes(0, 1)
        new = batch.project(q.experts.reshape(-1, p)).reshape(c, k, -1)
        moved = batch.project(q.gate)
        right = log_expit(t * now) * (t != 0.0)
        log_gates = logsumexp(gates, axis=1)
        log_joint = logsumexp(gates + right, axis=1)
        chance = np.exp(gates + right - log_joint[:, None])
        u = batch.uniforms(q.seed + q.count, c)[:, None]
        z = np.minimum((np.cumsum(chance, axis=1) < u).sum(1), k - 1)
        assigned = w * (z[:, None] == np.arange(k)[:, None])
        chosen = self._gate(q)
        others = np.delete(gates, chosen, axis=1)
        after = logsumexp(np.concatenate([others, moved[:, None]], axis=1), axis=1)
        return WalkSums(
            experts=np.einsum("ckn,ckn->ck", assigned, log_expit(t * new) - right),
            gate=np.sum(assigned[:, chosen] * (moved - gates[:, chosen]), axis=1)
            + (log_gates - after) @ w,
            log_likelihood=(log_joint - log_gates) @ w,
        )

    def global_step(self, q: Walk, stats: WalkSums) -> Walk:
        """Accept or refuse the proposals, adapt during warmup, and propose again."""
        rng = np.random.default_rng([q.seed, q.count, 0])
        chosen, log_u = self._gate(q), np.log(rng.random((2, self.n_experts, self.chains)))
        vectors, log_size, accepted = q.vectors.copy(), q.log_size.copy(), q.accepted.copy()
        warm = q.count < self.warmup
        moves = [(1, k, q.experts[:, k], stats.experts[:, k]) for k in range(self.n_experts)]
        for role, k, new, gain in [*moves, (0, chosen, q.gate, stats.gate)]:
            kind, name = self._kind(q)
            size = np.exp(q.log_size[kind, :, role, k])
            ratio = gain + self.prior.log_ratio(name, vectors[:, role], k, new, size, q.alpha[role])
            taken = log_u[role, k] < ratio
            vectors[taken, role, k] = new[taken]
            turns = q.count // len(self.prior.kinds) // (self.n_experts if role == 0 else 1)
            if warm:
                log_size[kind, :, role, k] += (taken - WANTED) / (1.0 + turns / 10.0) ** 0.6
            else:
                accepted[0, kind, :, role, k] += taken
                accepted[1, kind, :, role, k] += 1.0
        log_size = np.clip(log_size, np.log(1e-4), np.log(50.0))
        moved = replace(q, count=q.count + 1, vectors=vectors, log_size=log_size, accepted=accepted)
        if self.learn and warm and q.count >= self.warmup // 4 and self.prior.name != "gaussian":
            moved = self._learned(moved, q.count - self.warmup // 4)
        return self._proposed(moved)

    def elbo(self, q: Walk, stats: WalkSums) -> float:
        """Return log p(y, gates, experts) of the present draws, the mean over chains: no bound."""
        return float(self.log_joint(q, stats).mean())

    def log_joint(self, q: Walk, stats: WalkSums) -> FloatArray:
        """Return log p(y, gates, experts), z summed out; [chains]."""
        total = stats.log_likelihood
        for role in (0, 1):
            total = total + self.prior.log_density(q.vectors[:, role], q.alpha[role])
        return total

    def algorithm(self, q: Walk) -> Algorithm:
        """Move the chains, and put the draws that are kept into the parameters at the end."""
        sampled, density, moves = q.vectors[:, None][:, :0], np.empty((self.chains, 0)), 0
        while True:
            q, sampled, density, moves = yield Save((q, sampled, density, moves))
            stats = yield Evaluate(q)
            if moves and self.schedule.slot(moves - 1) is not None:
                sampled = np.concatenate([sampled, q.vectors[:, None]], axis=1)
                density = np.column_stack([density, self.log_joint(q, stats)])
            if moves == self.schedule.sweeps:
                q = replace(q, draws=in_one_order(sampled, density), density=density)
            yield Show(q, self.elbo(q, stats), by_trace=False)
            if moves == self.schedule.sweeps:
                return q
            q, moves = self.global_step(q, stats), moves + 1

    def posterior(self, q: Walk) -> DrawnPosterior:
        """Return the draws for prediction.

        Raises
        ------
        ValueError
            If the chains have not ended.
        """
        if not q.draws.size:
            raise ValueError(
                f"the chains ended before their draws: expected {self.evaluations} evaluations, "
                f"got {q.count + 1}; raise max_iter"
            )
        return DrawnPosterior(q.draws.reshape(-1, *q.draws.shape[2:]))

    def diagnose(self, q: Walk) -> Diagnosis:
        """Return R-hat, effective sizes and errors of `QUANTITIES`, those that there are."""
        length = np.linalg.norm(q.draws, axis=-1).mean(-1)
        columns = [q.density, length[:, :, 0], length[:, :, 1], mean_cosine(q.draws[:, :, 1])]
        if self.n_experts == 1:
            columns = [q.density, length[:, :, 1]]
        return diagnose(np.stack(columns, axis=-1))

    def _kind(self, q: Walk) -> tuple[int, Kind]:
        kind = q.count % len(self.prior.kinds)
        return kind, self.prior.kinds[kind]

    def _gate(self, q: Walk) -> int:
        """The gate whose turn it is."""
        return q.count // len(self.prior.kinds) % self.n_experts

    def _proposed(self, q: Walk) -> Walk:
        rng = np.random.default_rng([q.seed, q.count, 1])
        kind, name = self._kind(q)
        size, chosen = np.exp(q.log_size[kind]), self._gate(q)
        experts = self.prior.propose(name, q.vectors[:, 1], size[:, 1], rng)
        gate = self.prior.propose(name, q.vectors[:, 0, chosen], size[:, 0, chosen], rng)
        return replace(q, experts=experts, gate=gate)

    def _learned(self, q: Walk, turn: int) -> Walk:
        """Move shape (capped) and rate of the lengths (section 3); see the module's text."""
        g = np.linalg.norm(q.vectors, axis=-1)
        lengths = np.stack([g.mean((0, 2)), np.log(g).mean((0, 2))], axis=-1)
        moments = q.moments + (lengths - q.moments) / np.sqrt(1.0 + turn)
        alpha = np.array([fitted_gamma(mean, mean_log, MOST_ALPHA1) for mean, mean_log in moments])
        return replace(q, moments=moments, alpha=alpha)
