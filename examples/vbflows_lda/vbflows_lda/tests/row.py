"""The row of the topics in the contract: simulated documents, definitions, truths."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from scipy import stats
from scipy.optimize import linear_sum_assignment
from scipy.special import digamma, gammaln, logsumexp

from vbflows_lda.documents import Documents
from vbflows_lda.model import Global, Local, Topics
from vbflows_lda.simulate import corpus, simulate
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray
from vbmodels.testing import (
    Agreement,
    Bounds,
    Calibration,
    Case,
    Coordinates,
    Evidence,
    Extremes,
    Forecast,
    GlobalStep,
    LocalStep,
    MonteCarlo,
    Readings,
    Recovery,
)

PRIOR = Topics(topics=2, alpha=0.6, eta=0.5, inner=50, inner_tol=1e-10)


def cut(documents: Sequence[FloatArray], vocabulary: int, parts: int) -> list[Documents]:
    """Return documents of counts [V] as partitions."""
    ends = [len(documents) * i // parts for i in range(parts + 1)]
    return [corpus(documents[a:b], vocabulary) for a, b in itertools.pairwise(ends)]


def batches(seed: int, parts: int) -> list[Documents]:
    counts, _, _ = simulate(np.random.default_rng(seed), 30, 12, 3, words=25)
    return cut(counts, 12, parts)


def tiny(seed: int) -> list[Documents]:
    counts, _, _ = simulate(np.random.default_rng(seed), 3, 4, 2, words=3)
    return cut(counts, 4, 2)


def tokens(batches: Sequence[Documents]) -> list[list[int]]:
    """Return every document as the list of its words."""
    found = []
    for batch in batches:
        for a, b in itertools.pairwise(batch.offsets):
            found.append(np.repeat(batch.word[a:b], batch.count[a:b].astype(int)).tolist())
    return found


# The definition of the bound: theta, beta and the topic of every word are drawn from q.


def topics_of_words(
    q: Global, batches: Sequence[Documents], locals_: Sequence[Local]
) -> list[FloatArray]:
    """Return phi [N, K] of every document."""
    gamma = np.concatenate([local.gamma for local in locals_])
    beta = digamma(q.lam) - digamma(q.lam.sum(1))[:, None]
    found = []
    for g, words in zip(gamma, tokens(batches), strict=True):
        log_phi = (digamma(g) - digamma(g.sum()))[None, :] + beta[:, words].T
        found.append(np.exp(log_phi - logsumexp(log_phi, axis=1)[:, None]))
    return found


def sample(q, batches, locals_, rng, size):
    beta = np.stack([rng.dirichlet(row, size) for row in q.lam], axis=1)
    gamma = np.concatenate([local.gamma for local in locals_])
    theta = [rng.dirichlet(g, size) for g in gamma]
    z = []
    for phi in topics_of_words(q, batches, locals_):
        u = rng.random((size, len(phi), 1))
        z.append((u > np.cumsum(phi, axis=1)[None, :, :-1]).sum(-1))
    return beta, theta, z


def dirichlet_logpdf(x: FloatArray, a: FloatArray) -> FloatArray:
    return stats.dirichlet.logpdf(np.maximum(x, 1e-300).T / x.sum(-1), a)


def log_joint(draws, batches):
    beta, theta, z = draws
    size, topics, vocabulary = beta.shape
    total = np.zeros(size)
    for k in range(topics):
        total += dirichlet_logpdf(beta[:, k], np.full(vocabulary, PRIOR.eta))
    row = np.arange(size)
    for words, share, topic in zip(tokens(batches), theta, z, strict=True):
        total += dirichlet_logpdf(share, np.full(topics, PRIOR.alpha))
        for n, word in enumerate(words):
            total += np.log(share[row, topic[:, n]]) + np.log(beta[row, topic[:, n], word])
    return total


def log_q(draws, q, batches, locals_):
    beta, theta, z = draws
    gamma = np.concatenate([local.gamma for local in locals_])
    total = sum(dirichlet_logpdf(beta[:, k], row) for k, row in enumerate(q.lam))
    for g, share, topic, phi in zip(
        gamma, theta, z, topics_of_words(q, batches, locals_), strict=True
    ):
        total = total + dirichlet_logpdf(share, g)
        total = total + np.log(phi[np.arange(len(phi)), topic]).sum(-1)
    return total


def log_evidence(batches: Sequence[Documents]) -> float:
    """Every assignment of topics to words is summed over; theta and beta by algebra, given one."""
    documents, vocabulary = tokens(batches), batches[0].vocabulary
    place = [(d, w) for d, words in enumerate(documents) for w in words]
    found = []
    for z in itertools.product(range(PRIOR.topics), repeat=len(place)):
        shares = np.zeros((len(documents), PRIOR.topics))
        counts = np.zeros((PRIOR.topics, vocabulary))
        for (d, w), k in zip(place, z, strict=True):
            shares[d, k] += 1
            counts[k, w] += 1
        found.append(polya(shares, PRIOR.alpha) + polya(counts, PRIOR.eta))
    return float(logsumexp(found))


def polya(counts: FloatArray, prior: float) -> float:
    """Log probability of sequences with these counts, Dirichlet weights summed out; rows add."""
    size = counts.shape[1]
    each = gammaln(size * prior) - gammaln(counts.sum(1) + size * prior)
    return float((each + (gammaln(counts + prior) - gammaln(prior)).sum(1)).sum())


def recovery_error(seed: int, kind: type[Topics]) -> float:
    """Largest distance of a topic from its own, in total variation; best of 3 starts."""
    counts, beta, _ = simulate(np.random.default_rng(seed), 600, 30, 3, words=80)
    model = kind(topics=3, alpha=0.3, eta=0.3)
    done = max(
        (fit(model, cut(counts, 30, 2), seed=s, tol=1e-6) for s in range(3)),
        key=lambda fitted: fitted.trace[-1],
    )
    found = done.q.lam / done.q.lam.sum(1)[:, None]
    gap = 0.5 * np.abs(found[:, None, :] - beta[None, :, :]).sum(-1)
    return float(gap[linear_sum_assignment(gap)].max())


def next_words(rng: np.random.Generator, kind: type[Topics]) -> Readings:
    """The chance of every word to be the next one of a document, and which one it was."""
    model = kind(topics=2, alpha=1.0, eta=1.0)
    counts, beta, theta = simulate(rng, 60, 6, 2, words=40, alpha=1.0, eta=1.0)
    done = fit(model, cut(counts, 6, 1), tol=1e-6, seed=int(rng.integers(2**31)))
    (local,) = done.reduce.local_states(done.iterations - 1)
    share = local.gamma / local.gamma.sum(1)[:, None]
    chance = share @ (done.q.lam / done.q.lam.sum(1)[:, None])
    true = theta @ beta
    came = np.stack([rng.multinomial(1, p / p.sum()) for p in true])
    return {"next word": Forecast(chance.ravel(), came.ravel().astype(float))}


def shares(model: Topics, q: Global, batch: Documents, local: Local) -> FloatArray:
    """Return what is published of documents: the share of every topic."""
    found: FloatArray = local.gamma / local.gamma.sum(axis=1, keepdims=True)
    return found


def local_vector(local: Local) -> FloatArray:
    return np.log(local.gamma).ravel()


def empty(full: Documents) -> Documents:
    return corpus([], full.vocabulary)


def tables() -> dict[str, list[Documents]]:
    one = np.eye(5)
    return {
        "one document of one word": [corpus([one[0]], 5)],
        "a document without words": [corpus([np.zeros(5), 3 * one[1] + one[2]], 5)],
        "a million times one word": [corpus([1e6 * one[0], one[1]], 5), corpus([one[2]], 5)],
        "all documents alike": [corpus([one[0] + one[1]] * 4, 5)],
    }


def row(kind: type[Topics] = Topics) -> Case:
    """Return the row of the model, or of one that was derived from it."""
    model = kind(**vars(PRIOR))
    return Case(
        name="topics",
        model=lambda: model,
        batches=batches,
        tiny=tiny,
        calibration=(
            Calibration(
                form="topics",
                run=partial(next_words, kind=kind),
                bounds={
                    "next word": Bounds(
                        slope=(0.9, 1.1),
                        bins=0.02,
                        measured="1,000 runs: slope 0.965 +- 0.007; bins 0.009 off, 0.025 from 0.6",
                    )
                },
                few=40,
            ),
        ),
        extremes=Extremes(tables=tables, empty=empty, plain=lambda: replace(model, compiled=False)),
        agreement=Agreement(published=shares),
        global_step=GlobalStep(
            coordinates=Coordinates(to_vector=PRIOR.to_vector, from_vector=PRIOR.from_vector),
            at="fixed_point",
            tolerance=1e-5,
        ),
        local_step=LocalStep(
            coordinates=Coordinates(
                to_vector=local_vector,
                from_vector=lambda local, v: Local(np.exp(v).reshape(local.gamma.shape)),
            ),
            repeats=200,
        ),
        monte_carlo=MonteCarlo(sample=sample, log_joint=log_joint, log_q=log_q, size=40_000),
        evidence=Evidence(log_evidence=log_evidence, largest_gap=3.0),
        sampler="topics may be named in any order: draws of one of them have no mean of their own",
        recovery=Recovery(
            error=partial(recovery_error, kind=kind), tolerance=0.12, seeds=(0, 1, 2)
        ),
    )


CASE = row()
