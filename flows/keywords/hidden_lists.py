"""How many known keyphrases are among the best of their documents, and how many by tf-idf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flows.data.runs import RunPaths
from flows.data.states import read_state
from flows.family import Each
from flows.keywords.settings import KeywordSettings
from flows.keywords.summary import HiddenLists, names_of
from flows.report.baselines import DRAWS
from vbmodels.keywords.documents import KeywordBatch
from vbmodels.keywords.hidden_lists import BEST, LabelledDocuments, known_among_best
from vbmodels.keywords.phrases.batch import PhraseBatch
from vbmodels.keywords.phrases.model import Keyphrases

MOST_DOCUMENTS, MOST_PARTITIONS, MOST_ROWS = 500, 50, 200_000
FEWEST_DOCUMENTS = 10


def hidden_lists(
    model: Any, q: Any, indices: Sequence[int], settings: KeywordSettings, paths: RunPaths,
    each: Each,
) -> HiddenLists | None:  # fmt: skip
    """Measure a fit on some labelled documents; None where there are too few."""
    places = np.linspace(0, len(indices) - 1, min(MOST_PARTITIONS, len(indices))).astype(int)
    some = [indices[place] for place in places]
    limits = [-(-most // len(some)) for most in (MOST_DOCUMENTS, MOST_ROWS)]
    parts = [one for one in each(_labelled, some, model, q, *limits, paths) if one.y.size]
    if sum(len(one.fold) for one in parts) < FEWEST_DOCUMENTS:
        return None
    own, its = (model.phrases, q.phrases) if isinstance(model, Keyphrases) else (model, q)
    names = names_of(settings).features
    found = known_among_best(own, its, LabelledDocuments.joined(parts), names)
    possible = np.minimum(found.known, BEST)
    known = possible.sum()
    apart = (found.by_model - found.by_tf_idf).astype(float)
    drawn = np.random.default_rng(settings.seed).integers(len(apart), size=(DRAWS, len(apart)))
    low, high = np.quantile(apart[drawn].sum(1) / possible[drawn].sum(1), [0.025, 0.975])
    return HiddenLists(
        documents=len(apart),
        known=int(known),
        by_model=float(found.by_model.sum() / known),
        by_tf_idf=float(found.by_tf_idf.sum() / known),
        apart=(float(apart.sum() / known), float(low), float(high)),
    )


def _labelled(
    index: int, model: Any, q: Any, most: int, most_rows: int, paths: RunPaths
) -> LabelledDocuments:
    """Return some labelled documents of a partition."""
    url = paths.part("partitions", index, "npz")
    if isinstance(model, Keyphrases):
        units = model.phrase_units(q, read_state(url, PhraseBatch))
    else:
        units = read_state(url, KeywordBatch)
    return LabelledDocuments.of(units, most, most_rows)
