"""The pipeline and its settings."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from flows.settings import RunSettings


class TopicSettings(RunSettings):
    """Topics of documents, by latent Dirichlet allocation."""

    question = "What are these documents about, and how much of each topic has every one?"
    reads = "vbflows_lda.schema:DOCUMENTS_IN"
    family = "vbflows_lda.family"
    answer = "vbflows_lda.answer"
    flow = "vbflows_lda.flow.lda"
    example = (
        "vbflows simulate lda simulated/ --rows 500",
        "vbflows lda simulated/documents.parquet results/ --set topics=10",
    )
    first = ("topics", "least_documents", "largest_share")
    groups: ClassVar[dict[str, tuple[str, ...]]] = {
        "output": ("show_words",),
        "expert": ("inner", "inner_tol"),
    }

    topics: int = Field(20, ge=2, description="Number of topics.")
    alpha: float = Field(
        0.1, gt=0.0, description="Pseudo-count of a topic in a document: small for few topics each."
    )
    eta: float = Field(
        0.05, gt=0.0, description="Pseudo-count of a word in a topic: small for few words each."
    )
    least_documents: int = Field(
        2, ge=1, description="Words that stand in fewer documents are left out."
    )
    largest_share: float = Field(
        0.5, gt=0.0, le=1.0, description="Words of a larger share of documents are left out."
    )
    show_words: int = Field(10, ge=1, description="Words of a topic that are shown and published.")
    inner: int = Field(4, ge=1, description="Most updates of a document's topics in a sweep.")
    inner_tol: float = Field(
        1e-3, gt=0.0, description="Mean change of a document's topics, in words, that ends them."
    )
    tol: float = Field(
        1e-5, gt=0.0, lt=1.0, description="Relative tolerance on the rise of the bound to come."
    )
