"""Settings of keyword extraction."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from flows.keywords.codes import named
from flows.settings.declared import declared
from vbmodels.keywords.options import KeywordOptions, conflict

_SHARE = r"(0?\.\d{1,15}|\d{1,3}(?:\.\d{1,15})?\s*%)"
_BETWEEN = re.compile(rf"\[?\s*{_SHARE}\s*(?:-|\u2013|,|;|to)\s*{_SHARE}\s*\]?")
"""Two shares as people write what lies between them: 0.1-0.3, 10 % to 30 %."""


class KeywordSettings(declared(KeywordOptions)):  # type: ignore[misc]
    """Keyword extraction from a few known keywords per document."""

    question = "Which phrases and words of a document are its keywords, given a few that are known?"
    family = "flows.keywords.family"
    reads = "flows.keywords.schema:DOCUMENTS"
    example = (
        "vbflows simulate keywords corpus/ --rows 200",
        "vbflows keywords corpus/ results/ --set keyword_rate=0.3",
    )
    page = "docs/pipelines/keywords.md"
    first = ("keyword_rate", "keyphrases", "fdr", "language", "model")
    groups: ClassVar[dict[str, tuple[str, ...]]] = {
        "data": ("min_count", "stem", "stop_words", "tag", "max_words"),
        "output": (
            "unit", "per_document", "fdr_scope", "threshold", "select", "select_phrases", "ask",
        ),
        "expert": (
            "window", "damping", "self_loops", "document_precision", "chains", "draws", "warmup",
            "phrase_rows", "per_word", "tau", "var_a", "var_b",
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
    unit: Literal["both", "word", "phrase"] = Field(
        "both",
        description="What gets a probability: words, phrases of up to four words as you wrote "
        "them, or both. Phrases go with model corpus; other models give words alone.",
    )
    keyphrases: float | None = Field(
        None,
        gt=0.0,
        le=10_000.0,
        description="Keyphrases that a document has on average, where you know it; otherwise it is "
        "read off documents marked complete and, roughly, off the labels.",
    )
    keyphrases_sd: float = Field(
        0.0,
        ge=0.0,
        le=2.0,
        description="How unsure keyphrases is, as the standard deviation of its logarithm; 0 takes "
        "it for a fact.",
    )
    select_phrases: Literal["best_f", "fdr"] = Field(
        "best_f",
        description="Which phrases are selected: those of the largest expected F, or as many as "
        "fdr allows.",
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
        "english",
        description="Language of the stemmer and stop words, by name or code (german or de): any "
        "with a Snowball stemmer or a list of stop words; other has neither.",
    )
    stop_words: bool = Field(True, description="Whether stop words are left out.")
    tag: bool = Field(
        True, description="Whether English text is reduced to nouns, adjectives and verbs."
    )
    self_loops: bool = Field(True, description="Whether a word may co-occur with itself.")
    max_words: int = Field(
        2000, ge=10, description="Most candidate words of a document; the most frequent stay."
    )
    phrase_rows: int = Field(
        1_000_000,
        ge=1000,
        description="Counts of phrases that a process adds up at once, some 100 bytes each: what "
        "the corpus's phrases take of memory, however many they are. It changes no result.",
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

    @property
    def with_phrases(self) -> bool:
        """Whether phrases get probabilities."""
        return self.model == "corpus" and self.unit != "word"

    @property
    def with_words(self) -> bool:
        """Whether words do."""
        return self.model != "corpus" or self.unit != "phrase"

    @field_validator("keyword_rate_range", mode="before")
    @classmethod
    def _two_shares(cls, value: Any) -> Any:
        """Read 0.1-0.3 and 10%-30% as the two shares that they are."""
        if value is None:
            return None
        found = _BETWEEN.fullmatch(value.strip()) if isinstance(value, str) else None
        ends = found.groups() if found else value
        try:
            low, high = (_share_of(str(end)) for end in ends)
        except (TypeError, ValueError):
            said = "two shares, the lower one first, as 0.1-0.3 or [0.1, 0.3]"
            raise PydanticCustomError("range", said) from None
        return low, high

    @field_validator("keyword_rate", mode="before")
    @classmethod
    def _one_share(cls, value: Any) -> Any:
        """Say where a range goes."""
        if isinstance(value, str) and _BETWEEN.fullmatch(value.strip()):
            said = "one share; what it lies between goes into keyword_rate_range"
            raise PydanticCustomError("range", said)
        return value

    @field_validator("language", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        """Read a language by its code, and its name with capitals."""
        return named(value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _known_sampler(self) -> Self:
        if self.inference == "gibbs" and self.model not in ("pooled", "full", "bss"):
            raise ValueError(
                "inference gibbs goes with model pooled, full or bss; "
                f"model {self.model} has no sampler"
            )
        if sentence := conflict(self) or self._conflict_of_phrases():
            raise ValueError(sentence)
        return self

    def _conflict_of_phrases(self) -> str | None:
        if self.unit == "phrase" and self.model != "corpus":
            return f"unit phrase goes with model corpus, found model {self.model}"
        if self.keyphrases is None and self.keyphrases_sd > 0.0:
            return "keyphrases_sd says how unsure keyphrases is: give that too"
        if self.keyphrases is not None and not self.with_phrases:
            return (
                "keyphrases is said of phrases: it goes with model corpus and unit both or phrase, "
                f"found model {self.model} and unit {self.unit}"
            )
        return None


def _share_of(text: str) -> float:
    """Return the number that 0.1 or 10 % stands for."""
    text = text.strip()
    return float(text[:-1]) / 100.0 if text.endswith("%") else float(text)
