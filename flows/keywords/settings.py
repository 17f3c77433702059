"""Settings of keyword extraction."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from flows.settings.declared import declared
from vbmodels.keywords.options import KeywordOptions, conflict


class KeywordSettings(declared(KeywordOptions)):
    """Keyword extraction from a few known keywords per document."""

    question = "Which words of each document are its keywords, given a few that are known?"
    family = "flows.keywords.family"
    flow = "flows.pipelines.keywords.keywords"
    reads = "flows.keywords.schema:DOCUMENTS"
    example = (
        "vbflows simulate keywords corpus/ --rows 200",
        "vbflows keywords corpus/ results/ --set keyword_rate=0.3",
    )
    page = "docs/pipelines/keywords.md"
    first = ("keyword_rate", "fdr", "language", "per_document", "model")
    groups: ClassVar[dict[str, tuple[str, ...]]] = {
        "data": ("min_count", "stem", "stop_words", "tag", "max_words"),
        "output": ("fdr_scope", "threshold", "select", "ask"),
        "expert": (
            "window", "damping", "self_loops", "document_precision", "chains", "draws", "warmup",
            "per_word", "tau", "var_a", "var_b",
        ),
    }  # fmt: skip

    model: Literal[
        "corpus", "pooled", "full", "mean_field", "as_printed", "bss", "ss", "textrank"
    ] = Field(
        "corpus",
        description="corpus: one regression over the corpus, with the number of keywords that a "
        "document of its length has; pooled: one regression, with a share of listed keywords of "
        "each document's own; full, mean_field, as_printed: VBSS per document; bss: BSS, by "
        "sampling; ss, textrank: scores without a posterior.",
    )
    inference: Literal["vi", "gibbs"] = Field(
        "vi",
        description="vi: variational Bayes; gibbs: sampling, for pooled (one partition), full and "
        "bss, slow but with diagnostics. bss is always sampled.",
    )
    chains: int = Field(4, ge=2, description="Chains of a sampler.")
    draws: int = Field(1000, ge=4, description="Draws of each chain that are kept.")
    warmup: int = Field(500, ge=0, description="First draws of each chain that are thrown away.")
    min_count: int | None = Field(
        None,
        ge=1,
        description="Least occurrences of a candidate in its document; by default 3 in documents "
        "of more than 1000 tokens and 1 in shorter ones.",
    )
    stem: Literal["auto", "none", "porter", "snowball"] = Field(
        "auto",
        description="How words are reduced to stems: auto is Porter's for English and the "
        "language's own elsewhere.",
    )
    language: str = Field(
        "english", description="Language of the stemmer and stop words (a Snowball name)."
    )
    stop_words: bool = Field(True, description="Whether stop words are left out.")
    tag: bool = Field(
        True, description="Whether English text is reduced to nouns, adjectives and verbs."
    )
    self_loops: bool = Field(True, description="Whether a word may co-occur with itself.")
    max_words: int = Field(
        2000, ge=10, description="Most candidate words of a document; the most frequent stay."
    )
    ask: int = Field(
        20,
        ge=0,
        le=1000,
        description="Documents that the table ask/ names as worth labelling next. corpus alone.",
    )
    per_word: bool = Field(
        False,
        description="VBSS per document: a detection probability for each word, not one for all.",
    )
    tau: float = Field(
        0.1, gt=0.0, description="VBSS per document: 1/sigma^2 ~ Gamma(tau, rate tau)."
    )
    var_a: float = Field(10.0, gt=0.0, description="VBSS per document: prior variance of a.")
    var_b: float = Field(
        10.0,
        gt=0.0,
        description="VBSS per document: prior variance of the slope b; the text's 10 leaves it "
        "little room.",
    )

    @property
    def sampled(self) -> bool:
        """Whether the answer comes from a sampler."""
        return self.model == "bss" or self.inference == "gibbs"

    @model_validator(mode="after")
    def _known_sampler(self) -> Self:
        if self.inference == "gibbs" and self.model not in ("pooled", "full", "bss"):
            raise ValueError(
                "inference gibbs goes with model pooled, full or bss; "
                f"model {self.model} has no sampler"
            )
        if sentence := conflict(self):
            raise ValueError(sentence)
        return self
