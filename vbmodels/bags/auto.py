"""The default for bags: the embedding, the witness and the base rate, stacked.

    P(y = 1) = w_1 P_embedding + w_2 P_witness + w_3 P_base

The embedding (`embedding`) says which bags are positive; the witness, a Gaussian process of
instances (`gp_direct`), says which instances would make them so; the base rate keeps the others
honest where there is nothing to learn. The weights are those with the highest probability of
labels that a member has not seen (`stacking_weights`): the embedding's by EP's leave-one-out, the
witness's by folds of bags at the kernel value that all bags chose, the base rate's by its count
without the bag. Folds go side by side as the classes of one problem, each without its own bags, so
that all come from one pass.

The mixture says: with probability w_2 a bag was made as the witness has it. So instances'
probabilities are the witness's own, never multiplied by a weight.

Instances of several modalities are united in one table for the witness (`united`).

The phases of a fit follow one another in one loop: the witness, its folds, the embedding, weights.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import ndtr

from vbmodels.bags.bag_blocks import ModalityMap
from vbmodels.bags.bag_pools import Pools
from vbmodels.bags.batch import UNLABELLED, Bags
from vbmodels.bags.embed_predict import BagScores, predict_bags
from vbmodels.bags.embedding import Embedding, EmbeddingModel, Sites
from vbmodels.bags.gp_data import FOLDS, MultiLabelBags, Observed, blocks_of, fold_of_bags, rows_of
from vbmodels.bags.gp_direct import DirectGP
from vbmodels.bags.gp_predict import Predictions, predict
from vbmodels.bags.gp_probit import Search
from vbmodels.bags.stacking_weights import objective, stacked
from vbmodels.bags.united import observed as united_observed
from vbmodels.bags.united import united
from vbmodels.core.cavi import cavi, evaluated
from vbmodels.core.protocol import Cursor, Reduce, Step
from vbmodels.core.state import FloatArray, IntArray, State, Stats

MEMBERS = ("embedding", "witness", "base rate")
LEAK = float(ndtr(-3.5 / np.sqrt(1.25)))
"""Chance that a bag is positive without any instance that is: Phi(u), u ~ N(-3.5, .5^2)."""
SURE = 1e-12
"""Probabilities of labels are held this far from 0."""


@dataclass(frozen=True)
class SeenBags(Stats):
    """What both members' starts need of a partition.

    Of several modalities the witness needs what the embedding needs.
    """

    witness: Observed | None
    pools: Pools


@dataclass(frozen=True)
class Told(Stats):
    """Log probability of each fitted bag's label without it, by embedding and witness, [n, 2].

    ``label`` is [n].
    """

    log_p: FloatArray
    label: FloatArray

    def __add__(self, other: Told) -> Told:
        return Told(
            np.concatenate([self.log_p, other.log_p]), np.concatenate([self.label, other.label])
        )


@dataclass(frozen=True)
class Auto(State):
    """Where the fit stands.

    Attributes
    ----------
    phase
        "witness", "folds", "embedding", "stack" or "done".
    witness
        The Gaussian process of instances.
    folds
        The same at its kernel value without the bags of each fold, as classes; None before.
    embedding
        The embedding.
    weights
        Of `MEMBERS`, [3]; 0 until they are known.
    base
        Share of positive bags, (n_1 + 1/2)/(n + 1).
    """

    phase: str
    witness: Search
    folds: Search | None
    embedding: Embedding
    weights: FloatArray
    base: float


@dataclass(frozen=True)
class AutoCursor(Cursor):
    """Position of the fit: that of the loop of its phase."""

    inner: Cursor


@dataclass(frozen=True)
class View:
    """A partition as the witness sees it: one modality, and a class a fold."""

    key: bytes
    bags: Bags
    folded: MultiLabelBags


@dataclass
class ViewCache:
    """What the witness sees of partitions; a memory, never a meaning.

    Entries go with their batch, and when another map comes.
    """

    kept: dict[int, View] = field(default_factory=dict)

    def view(self, maps: tuple[ModalityMap, ...], data: Bags) -> View:
        """Return a partition of one modality, labelled in every class but that of its own fold."""
        key = b"".join(of.mean.tobytes() + of.scale.tobytes() for of in maps)
        found = self.kept.get(id(data))
        if found is None or found.key != key:
            # Other bags than ``data``, which would never be given up otherwise.
            bags = replace(data) if len(maps) == 1 else united(maps, data)
            own = np.arange(FOLDS) == fold_of(bags)[:, None]
            labels = np.where(own, np.int8(UNLABELLED), data.label[:, None])
            if found is None:
                weakref.finalize(data, self.kept.pop, id(data), None)
            found = View(key, bags, MultiLabelBags(bags, labels))
            self.kept[id(data)] = found
        return found


CACHE = ViewCache()


def fold_of(data: Bags) -> IntArray:
    """Return the fold of each bag of one modality, [B]."""
    found = [np.zeros(0, np.int64)]
    for part in blocks_of(data):
        offsets = data.modalities[0].offsets[part.start : part.stop + 1]
        found.append(fold_of_bags(rows_of(data, part), offsets - offsets[0]))
    return np.concatenate(found)


@dataclass(frozen=True)
class AutoModel:
    """Stack the embedding, the witness and the base rate.

    Parameters
    ----------
    embedding, witness
        The members.
    """

    embedding: EmbeddingModel = field(default_factory=EmbeddingModel)
    witness: DirectGP = field(default_factory=DirectGP)

    def observe(self, batch: Bags) -> SeenBags:
        """Return what both members need before they start."""
        alone = len(batch.modalities) == 1
        witness = self.witness.observe(batch) if alone else None
        return SeenBags(witness, self.embedding.observe(batch))

    def init(self, observed: SeenBags, rng: np.random.Generator) -> Auto:
        """Start the witness; the embedding has its landmarks too."""
        if observed.witness is not None:
            witness = self.witness.init(observed.witness, rng)
            embedding = self.embedding.init(observed.pools, rng)
        else:
            embedding = self.embedding.init(observed.pools, rng)
            limit = self.witness.options.sample
            seen = united_observed(embedding.map.modalities, observed.pools, limit)
            witness = self.witness.init(seen, rng)
        positive, n = int(observed.pools.counts[1]), observed.pools.n_bags
        base = (positive + 0.5) / (n + 1.0)
        return Auto("witness", witness, None, embedding, np.zeros(len(MEMBERS)), base)

    def local_step(self, q: Auto, batch: Bags, local: Sites | None) -> Sites | None:
        """Do the embedding's local step while it is fitted, and keep what it left."""
        if q.phase == "embedding":
            return self.embedding.local_step(q.embedding, batch, local)
        return local

    def suff_stats(self, q: Auto, batch: Bags, local: Sites | None) -> Any:
        """Return what the phase wants of a partition."""
        if q.phase in ("witness", "folds"):
            view = CACHE.view(q.embedding.map.modalities, batch)
            if q.phase == "witness":
                return self.witness.suff_stats(q.witness, view.bags, None)
            return self.witness.suff_stats(q.folds, view.folded, None)  # type: ignore[arg-type]
        if q.phase == "embedding":
            return self.embedding.suff_stats(q.embedding, batch, local)  # type: ignore[arg-type]
        return self._told(q, batch, local)

    def elbo(self, q: Auto, stats: Any) -> float:
        """Return the objective of the phase: the member's own; at the end that of the weights."""
        if q.phase == "witness":
            return self.witness.elbo(q.witness, stats)
        if q.phase == "folds":
            return self.witness.elbo(q.folds, stats)  # type: ignore[arg-type]
        if q.phase == "embedding":
            return self.embedding.elbo(q.embedding, stats)
        log_p = log_densities(stats)
        return objective(log_p, stacked(log_p))

    def global_step(self, q: Auto, stats: Any) -> Auto:
        """Return ``q``: the loops of the phases move it (`steps`)."""
        return q

    def unfinished(self, q: Auto) -> str | None:
        """Say what is still being done at ``q``; None where it is a posterior."""
        doing = {
            "witness": "the witness was being fitted",
            "folds": "the witness was being judged by folds",
            "embedding": "the embedding was being fitted",
            "stack": "the members were being weighed",
        }
        return doing.get(q.phase)

    def steps(self, reduce: Reduce, cursor: Cursor) -> Iterator[Step]:
        """Go through the phases from ``cursor``; the last step is the fit's."""
        at = cursor if isinstance(cursor, AutoCursor) else self._wrapped(cursor)
        while at.q.phase != "done":
            last = at
            for step, inner in self._phase(reduce, at):
                q = _with_member(at.q, step.q)
                last = AutoCursor(q, inner.stats, inner.number, step.elbo, inner)
                yield Step(inner.number, q, step.elbo, last, False)
                if step.converged:
                    break
            at = self._next(reduce, last)
        yield Step.at(at, True)

    def _phase(self, reduce: Reduce, at: AutoCursor) -> Iterator[tuple[Step, Cursor]]:
        """Run the loop of the phase from the cursor; yield its steps and their cursors."""
        of = _Member(reduce, at.q)
        if at.q.phase == "embedding":
            loop = cavi(self.embedding, of, at.inner)
        else:
            loop = self.witness.steps(of, at.inner)
        return ((step, step.cursor) for step in loop)

    def _next(self, reduce: Reduce, at: AutoCursor) -> AutoCursor:
        """Begin the next phase."""
        q: Auto = at.q
        number = at.number + 1
        if q.phase == "witness":
            q = replace(q, phase="folds", folds=_at_one_kernel(q.witness))
        elif q.phase == "folds":
            q = replace(q, phase="embedding")
        else:
            q = replace(q, phase="stack")
            told = evaluated(self, reduce, q, number, at.number)
            log_p = log_densities(told.stats)
            q = replace(q, phase="done", weights=stacked(log_p))
            return AutoCursor(q, told.stats, number, told.elbo, replace(told, q=q))
        return self._wrapped(evaluated(self, reduce, q, number, None))

    def _wrapped(self, cursor: Cursor) -> AutoCursor:
        """Return the cursor of a phase at its first evaluation."""
        q: Auto = cursor.q
        inner = Cursor(_member(q), cursor.stats, cursor.number, cursor.elbo)
        return AutoCursor(q, cursor.stats, cursor.number, cursor.elbo, inner)

    def _told(self, q: Auto, batch: Bags, local: Sites | None) -> Told:
        """Return what both members say of the labels of a partition without each bag."""
        known = as_witnessed(q, batch.labelled())
        chance = np.full(known.n_bags, LEAK)
        fold = fold_of(known)
        full = known.modalities[0].sizes > 0
        if q.folds is None or local is None:
            raise ValueError("expected both members to be fitted before they are weighed")
        posterior = self.witness.posterior(q.folds)
        for f in range(FOLDS):
            held = np.flatnonzero((fold == f) & full)
            if held.size:
                own = replace(
                    posterior,
                    kernel=posterior.kernel[[f]],
                    mean=posterior.mean[[f]],
                    factor=posterior.factor[[f]],
                )
                chance[held] = predict(own, known.take(held))[0].bag_probability
        chance = np.clip(chance, SURE, 1.0 - SURE)
        witness = np.log(np.where(known.label == 1, chance, 1.0 - chance))
        return Told(np.column_stack([local.log_z, witness]), known.label.astype(float))


def log_densities(told: Told) -> FloatArray:
    """Return the members' log probabilities of labels without each bag, [n, 3]."""
    n, positive = told.label.size, told.label.sum()
    left = (positive - told.label + 0.5) / n
    base = np.log(np.where(told.label == 1.0, left, 1.0 - left))
    return np.column_stack([np.maximum(told.log_p, np.log(SURE)), base])


@dataclass(frozen=True)
class _Member:
    """The reduce as a member's loop sees it: its parameters are put into the whole."""

    reduce: Reduce
    q: Auto

    def __call__(self, q: Any, *, number: int, warm: int | None) -> Any:
        return self.reduce(_with_member(self.q, q), number=number, warm=warm)


def _member(q: Auto) -> Any:
    return {"witness": q.witness, "folds": q.folds, "embedding": q.embedding}[q.phase]


def _with_member(q: Auto, member: Any) -> Auto:
    return replace(q, **{q.phase: member})


def _at_one_kernel(q: Search) -> Search:
    """Return the start of the folds: features at the chosen kernel value, a class a fold."""
    k = q.kernel[[0]]
    of = q.features
    length = of.which[k]
    features = replace(
        of,
        lengths=of.lengths[length],
        factors=of.factors[length],
        which=np.zeros(1, np.int64),
        amplitude=of.amplitude[k],
        weights=of.weights[k],
    )
    return Search(
        features=features,
        points=np.zeros((1, FOLDS, features.n_columns)),
        wanted="gram",
        factor=np.empty(0),
        active=np.ones(1, dtype=bool),
        kernel=np.empty(0, dtype=np.int64),
        precision=np.empty(0),
        evidence=np.empty(0),
    )


@dataclass(frozen=True)
class AutoScores:
    """What is said of bags.

    Attributes
    ----------
    probability
        P(y = 1) of the mixture, [B].
    members
        P(y = 1) of each of `MEMBERS`, [B, 3].
    embedding
        What the embedding says.
    witness
        What the witness says of bags and instances; those of several modalities are united.
    """

    probability: FloatArray
    members: FloatArray
    embedding: BagScores
    witness: Predictions


def as_witnessed(q: Auto, data: Bags) -> Bags:
    """Return bags as the witness sees them: their instances in one modality."""
    return data if len(data.modalities) == 1 else united(q.embedding.map.modalities, data)


def predict_auto(model: AutoModel, q: Auto, data: Bags) -> AutoScores:
    """Return what is said of bags and instances; labels are not read."""
    embedding = predict_bags(q.embedding, data, model.embedding.eps)
    seen = as_witnessed(q, data)
    (witness,) = predict(model.witness.posterior(q.witness), seen)
    full = seen.modalities[0].sizes > 0
    of_witness = np.where(full, witness.bag_probability, LEAK)
    base = np.full(data.n_bags, q.base)
    members = np.column_stack([embedding.probability, of_witness, base])
    return AutoScores(members @ q.weights, members, embedding, witness)
