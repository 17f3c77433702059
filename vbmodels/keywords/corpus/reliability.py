"""Why a false discovery rate of the corpus model may be off."""

from __future__ import annotations

from vbmodels.keywords.corpus.states import CorpusGlobal
from vbmodels.keywords.rate_prior import SOURCES

FEWEST_DOCUMENTS, FEWEST_COMPLETE = 100, 20
"""Documents, and complete ones, from which on a false discovery rate may be relied on."""


def doubts(q: CorpusGlobal, rate: str = "keyword_rate", *, again: bool = False) -> tuple[str, ...]:
    """Say why a false discovery rate of this fit may be off; nothing where it may not.

    Parameters
    ----------
    q
        The fit.
    rate
        Name of the option that gives the rate.
    again
        Whether only another fit can have it.
    """
    found = []
    if q.sources.estimated:
        low, high = q.sources.ends
        sources = " and ".join(SOURCES[i] for i in q.sources.speaking)
        where = "in another fit, " if again else ""
        found.append(
            f"the rate, {q.rate:.2%} of the candidates ({low:.2%} to {high:.2%}), is estimated "
            f"from {sources}: {where}set {rate}, or mark at least {FEWEST_COMPLETE} documents of "
            "which all keyphrases are known as complete"
        )
    return (*found, *few_documents(q))


def few_documents(q: CorpusGlobal) -> tuple[str, ...]:
    """Say so where a regression without a learnt prior has few documents."""
    if q.n_documents >= FEWEST_DOCUMENTS or q.spread > 1.0:
        return ()
    return (
        f"the regression was fitted to {q.n_documents} "
        f"document{'' if q.n_documents == 1 else 's'}; expected at least {FEWEST_DOCUMENTS}",
    )
