"""The row of phrases."""

from dataclasses import replace
from typing import Any

import numpy as np

from tests.contract import calibration_phrases
from tests.contract.phrases_drawn import cut, drawn, nothing, phrase_units, tables
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray
from vbmodels.keywords.corpus.model import CorpusProbit
from vbmodels.keywords.corpus.states import CorpusGlobal
from vbmodels.keywords.phrases.batch import PhraseBatch
from vbmodels.keywords.phrases.model import Keyphrases, PhraseGlobal
from vbmodels.testing.case import Agreement, Case, Coordinates, Extremes, GlobalStep, Recovery


def batches(seed: int, parts: int) -> list[PhraseBatch]:
    return cut(drawn(np.random.default_rng(seed), 48, n_complete=5)[0], parts)


def tiny(seed: int) -> list[PhraseBatch]:
    rng = np.random.default_rng([seed, 1])
    return cut(drawn(rng, 4, mean_words=4.0, n_complete=1)[0], 2)


def free(one: CorpusGlobal) -> FloatArray:
    return np.flatnonzero(CorpusProbit().prior(one)[1] > 0.0)


def to_vector(q: PhraseGlobal) -> FloatArray:
    return q.phrases.theta[:, free(q.phrases)].ravel()


def from_vector(q: PhraseGlobal, vector: FloatArray) -> PhraseGlobal:
    theta = q.phrases.theta.copy()
    theta[:, free(q.phrases)] = vector.reshape(len(theta), -1)
    return replace(q, phrases=replace(q.phrases, theta=theta))


COORDINATES = Coordinates(to_vector=to_vector, from_vector=from_vector)
"""Those of the phrases' regression; the scorer's are held: they are features."""


def probabilities(model: Keyphrases, q: PhraseGlobal, batch: PhraseBatch, local: Any) -> FloatArray:
    return model.phrases.probabilities(q.phrases, phrase_units(model, q, batch), None)


def scores(model: Keyphrases, q: PhraseGlobal, batch: PhraseBatch) -> FloatArray:
    return model.phrases.predict(q.phrases, phrase_units(model, q, batch))


def recovery_error(seed: int) -> float:
    """Distance of the own feature's slope from its truth, the rate given."""
    batch, truth = drawn(np.random.default_rng([seed, 2]), 800, mean_words=20.0)
    mean = truth.sum() / batch.words.n_documents
    q = fit(Keyphrases(per_document=mean), [batch]).q
    return float(abs(q.phrases.mean[1] - 0.8))


CASE = Case(
    name="phrases",
    model=Keyphrases,
    calibration=calibration_phrases.ITEMS,
    batches=batches,
    tiny=tiny,
    extremes=Extremes(
        tables=tables,
        empty=nothing,
        plain="it has no compiled loops: NumPy is all",
        infinite=frozenset(
            f"{at}{one}.scale"
            for one in ("scorer", "phrases")
            for at in ("", "q.", "scorer.q.", "phrases.q.")
        )
        | {"scale"},
    ),
    agreement=Agreement(
        published=probabilities,
        scored=scores,
        largest=0.25,
        because="a score integrates the coefficients out, the fit does not, since they have "
        "the labels of its documents in them already (docs/keywords-model.md)",
    ),
    global_step=GlobalStep(coordinates=COORDINATES, at="fixed_point", tolerance=1e-5),
    local_step="a partition has no parameters of its own",
    monte_carlo="it is fitted to its mode, which has no expectation; the objective is that of "
    "the corpus model, whose row compares it with scipy's",
    evidence="its objective is a density at the mode, not a bound; the corpus model's is "
    "compared with quadrature",
    sampler="the regression of phrases is the corpus model with other units: its row answers",
    recovery=Recovery(error=recovery_error, tolerance=0.15),
    partition_rtol=1e-8,
)
