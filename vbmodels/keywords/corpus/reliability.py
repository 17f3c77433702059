"""Whether a false discovery rate of the corpus model may be off for want of documents."""

from __future__ import annotations

from vbmodels.keywords.corpus.states import CorpusGlobal

FEWEST_DOCUMENTS = 100
"""Documents from which on a false discovery rate may be relied on."""


def has_few_documents(q: CorpusGlobal) -> bool:
    """Whether a regression without a learnt prior has few documents."""
    return q.n_documents < FEWEST_DOCUMENTS and q.spread <= 1.0
