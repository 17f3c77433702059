"""How many known keyphrases are among the best of their documents, and how many by TF-IDF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from flows import storage
from flows.family import Each
from flows.keywords.candidate_scores import regression_of
from flows.keywords.schema import RANKED
from flows.keywords.summary import Ranking, ranking_of
from flows.keywords.work import read_wide
from flows.records.runs import RunPaths
from flows.records.states import read_state
from vbmodels.keywords.features import FEATURE_NAMES
from vbmodels.keywords.phrases.batch import PhraseBatch
from vbmodels.keywords.phrases.features import PHRASE_FEATURES
from vbmodels.keywords.phrases.jackknife import BEST, LabelledDocuments, known_among_best
from vbmodels.keywords.phrases.model import Keyphrases
from vbmodels.keywords.units import KeywordBatch
from vbmodels.text.tokens import Copies

MOST_DOCUMENTS, MOST_PARTITIONS, MOST_ROWS = 500, 50, 200_000
FEWEST_DOCUMENTS = 10


@dataclass(frozen=True)
class Labelled:
    """Labelled documents of a partition, with their names."""

    documents: LabelledDocuments
    names: list[str]


def rank_known(
    model: Any, q: Any, indices: Sequence[int], paths: RunPaths, each: Each
) -> Ranking | None:
    """Rank some labelled documents, write the table ranked/; None where there are too few."""
    places = np.linspace(0, len(indices) - 1, min(MOST_PARTITIONS, len(indices))).astype(int)
    some = [indices[place] for place in places]
    limits = [-(-most // len(some)) for most in (MOST_DOCUMENTS, MOST_ROWS)]
    parts = [one for one in each(_labelled, some, model, q, *limits, paths) if one.names]
    names = [name for one in parts for name in one.names]
    if len(names) < FEWEST_DOCUMENTS:
        return None
    own, its = regression_of(model, q)
    assert own is not None
    assert its is not None
    features = PHRASE_FEATURES if isinstance(model, Keyphrases) else FEATURE_NAMES
    documents = LabelledDocuments.joined([one.documents for one in parts])
    found = known_among_best(own, its, documents, features)
    counts = [found.known, found.by_model, found.by_tf_idf]
    columns = [pa.array(names), *(pa.array(n, pa.int32()) for n in counts)]
    storage.write_table(paths.table("ranked", 0), pa.table(columns, schema=RANKED.arrow))
    return ranking_of(found.known, found.by_model, found.by_tf_idf, BEST)


def _labelled(
    index: int, model: Any, q: Any, most: int, most_rows: int, paths: RunPaths
) -> Labelled:
    """Return some labelled documents of a partition."""
    url = paths.part("partitions", index, "npz")
    if isinstance(model, Keyphrases):
        units = model.phrase_units(q, read_state(url, PhraseBatch))
    else:
        units = read_state(url, KeywordBatch)
    names = storage.read_table(paths.part("documents", index)).column(0).combine_chunks()
    if storage.exists(copies := paths.part("copies", index, "npz")):
        names = names.filter(pa.array(read_wide(copies, Copies).counted))
    documents = LabelledDocuments.of(units, most, most_rows)
    return Labelled(documents, names.take(pa.array(documents.place)).to_pylist())
