"""Phrases of one word and of two, drawn from a probit on a feature of theirs and their words'."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
from scipy.special import ndtri

from reproduce.keyword_documents import take_documents
from tests.contract import ends
from tests.contract.words_drawn import simulate_words
from tests.vbmodels.keywords.keyword_documents import typical_coefficients
from vbmodels.core.state import BoolArray, FloatArray
from vbmodels.keywords.phrases.batch import PhraseBatch
from vbmodels.keywords.phrases.model import Keyphrases, PhraseGlobal
from vbmodels.keywords.units import KeywordBatch

RATE = 0.2


def drawn(
    rng: np.random.Generator,
    documents: int,
    *,
    mean_words: float = 12.0,
    listed: float = 0.4,
    n_complete: int = 0,
    slopes: tuple[float, float] = (0.8, 0.8),
) -> tuple[PhraseBatch, BoolArray]:
    """Return a batch and which phrases are keyphrases; the first documents are complete.

    A word of a known phrase counts as known, as in the pipeline.
    """
    words, _ = simulate_words(
        rng, documents, coefficients=typical_coefficients(2), mean_words=mean_words
    )
    x = words.x[:, 1:]
    score = (x - x.mean(0)) / x.std(0) @ [0.8, -0.5]
    starts = [np.arange(a, b) for a, b in pairwise(words.offsets)]
    member, offsets = [], [0]
    for rows in starts:
        single = np.column_stack([rows, *[np.full(len(rows), -1)] * 3])
        double = np.column_stack([rows[:-1], rows[1:], *[np.full(len(rows) - 1, -1)] * 2])
        member += [single, double]
        offsets.append(offsets[-1] + len(single) + len(double))
    member = np.concatenate(member)
    own = rng.standard_normal(len(member))
    there = member >= 0
    mean = np.where(there, score[member], 0.0).sum(1) / there.sum(1)
    spread = np.sqrt(1.0 + slopes[0] ** 2 + slopes[1] ** 2 * mean.var())
    eta = spread * ndtri(RATE) + slopes[0] * own + slopes[1] * mean
    keyphrase = eta + rng.standard_normal(len(member)) > 0.0
    document = np.repeat(np.arange(documents), np.diff(offsets))
    complete = np.arange(documents) < n_complete
    y = keyphrase & ((rng.random(len(member)) < listed) | complete[document])
    seen = np.zeros(len(words.y), bool)
    seen[member[y][member[y] >= 0]] = True
    words = replace(words, y=seen, complete=complete)
    features = np.column_stack([np.ones(len(member)), own, there.sum(1) == 2])
    batch = PhraseBatch(
        words=words,
        x=features.astype(float),
        member=member,
        y=y,
        offsets=np.array(offsets, np.int64),
        document=np.arange(documents),
        listed=int(y.sum()),
    )
    return batch, keyphrase


def taken(batch: PhraseBatch, first: int, last: int) -> PhraseBatch:
    """Return some of the documents, all of which have phrases."""
    rows = slice(int(batch.offsets[first]), int(batch.offsets[last]))
    start = int(batch.words.offsets[first])
    member = batch.member[rows]
    return PhraseBatch(
        words=take_documents(batch.words, first, last),
        x=batch.x[rows],
        member=np.where(member >= 0, member - start, -1),
        y=batch.y[rows],
        offsets=batch.offsets[first : last + 1] - batch.offsets[first],
        document=np.arange(last - first),
        listed=int(batch.y[rows].sum()),
    )


def cut(batch: PhraseBatch, parts: int) -> list[PhraseBatch]:
    """Cut a batch into runs of documents."""
    cuts = np.linspace(0, batch.words.n_documents, parts + 1).round().astype(int)
    return [taken(batch, int(a), int(b)) for a, b in pairwise(cuts)]


def of_words(words: KeywordBatch) -> PhraseBatch:
    """Return the words of documents as phrases of one word each."""
    size = words.n_words
    member = np.full((size, 4), -1)
    member[:, 0] = np.arange(size)
    own: FloatArray = np.column_stack([np.ones(size), words.x[:, -1]])
    return PhraseBatch(
        words=words,
        x=own,
        member=member,
        y=words.y,
        offsets=words.offsets,
        document=np.arange(words.n_documents),
        listed=int(words.y.sum()),
    )


def tables() -> dict[str, list[PhraseBatch]]:
    """Documents at their ends, and one without a phrase."""
    found = {
        name: [of_words(part) for part in parts]
        for name, parts in ends.tables_of_documents(4).items()
    }
    (some,) = ends.tables_of_documents(4)["no word is known"]
    none = replace(
        of_words(some),
        **{name: getattr(of_words(some), name)[:0] for name in ("x", "member", "y", "document")},
        offsets=np.zeros(1, np.int64),
    )
    return {
        **found,
        "no phrases": [none],
        "phrases in one of two": [none, *found["one word alone"]],
    }


def nothing(full: PhraseBatch) -> PhraseBatch:
    """Return the partition without documents."""
    return replace(
        full,
        words=ends.no_documents(full.words),
        **{name: getattr(full, name)[:0] for name in ("x", "member", "y", "document")},
        offsets=full.offsets[:1],
        listed=0,
    )


def phrase_units(model: Keyphrases, q: PhraseGlobal, batch: PhraseBatch) -> KeywordBatch:
    """Return the phrases with all of their features, the words' scores at ``q`` included."""
    phrases, scores = model.phrases_and_scores(q, batch)
    return batch.units(np.hstack([phrases.features, scores]))
