"""Settings of keyword extraction."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from flows.settings.base import declared
from flows.settings.tables import FileTableSettings
from vbmodels.keywords.options import KeywordOptions, conflict
from vbmodels.text.languages import named


class KeywordSettings(declared(KeywordOptions, base=FileTableSettings)):  # type: ignore[misc]
    """Keyphrase extraction from a few known keyphrases per document."""

    question = "Which phrases of a document are its keyphrases, with or without known ones?"
    family = "flows.keywords.family"
    answer = "flows.keywords.answer"
    reads = "flows.keywords.schema:DOCUMENTS"
    example = (
        "vbflows simulate keywords corpus/ --rows 200",
        "vbflows keywords corpus/ results/ --set keyphrases=13",
    )
    own_file = "vbflows keywords papers.csv out/ --column text=abstract --column doc_id=doi"
    page = "docs/pipelines/keywords.md"
    first = ("unit", "keyphrases", "lists", "language", "model")
    groups: ClassVar[dict[str, tuple[str, ...]]] = {
        "data": (
            "keyword_rate",
            "vocabulary",
            "vocabulary_only",
            "prior",
            "min_count",
            "stem",
            "stop_words",
            "max_words",
        ),
        "output": ("select", "fdr", "per_document", "ask"),
        "expert": ("inference",),
    }

    model: Literal["corpus", "vbss"] = Field(
        "corpus",
        description="corpus: one regression over all documents; vbss: a regression of each "
        "document alone (Hu 2024).",
    )
    unit: Literal["phrase", "word"] | None = Field(
        None,
        description="What gets a probability: phrases of one to four words as you wrote them, or "
        "words; by default phrases with model corpus, words with vbss.",
    )
    inference: Literal["full", "mean_field"] | None = Field(
        None, description="vbss: full covariance (the default), or mean_field."
    )
    stop_words: bool | str = Field(
        True, description="Whether stop words are left out; or a file of more of them, one a line."
    )
    vocabulary: str | None = Field(
        None,
        description="File of terms, one a line: these, where a text has them, and the known "
        "keyphrases are the candidates (unit phrase).",
    )
    prior: str | None = Field(
        None,
        description="File of what is learnt from other corpora (in the documentation: "
        "keywords-model), or none; by default that of ten public corpora (model corpus).",
    )
    ask: int = Field(
        20,
        ge=0,
        le=1000,
        description="Documents that the table ask/ names as worth labelling next (model corpus).",
    )

    @property
    def with_phrases(self) -> bool:
        """Whether candidates are phrases, not words."""
        return self.unit == "phrase"

    @property
    def key(self) -> str:
        """What a selected candidate is called."""
        return "keyphrase" if self.with_phrases else "keyword"

    @property
    def kind(self) -> str | None:
        """The kind of list by which other corpora say the rate."""
        return None if self.lists == "complete" else self.lists

    @property
    def over_corpus(self) -> bool:
        """Whether one threshold of the selection runs over the corpus, not one per document."""
        return self.model == "corpus" or self.select == "best_f"

    @model_validator(mode="before")
    @classmethod
    def _of_the_model(cls, values: Any) -> Any:
        """Fill in what is not given and depends on the model or the unit."""
        if not isinstance(values, dict):
            return values
        model = values.get("model", "corpus")
        unit = values.get("unit") or ("phrase" if model == "corpus" else "word")
        filled = {
            "unit": unit,
            "select": values.get("select") or ("best_f" if unit == "phrase" else "fdr"),
            "inference": values.get("inference") or ("full" if model == "vbss" else None),
        }
        return {**values, **filled}

    @field_validator("language", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        """Read a language by its code, and its name with capitals."""
        return named(value) if isinstance(value, str) else value

    @field_validator("stop_words", mode="before")
    @classmethod
    def _yes_or_no(cls, value: Any) -> Any:
        """Read yes and no in words; anything else is a file."""
        words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
        return words.get(value.strip().lower(), value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _compatible(self) -> Self:
        if sentence := self._conflict() or conflict(self):
            raise ValueError(sentence)
        return self

    def _conflict(self) -> str | None:
        known = ("full", "mean_field") if self.model == "vbss" else ()
        if self.inference is not None and self.inference not in known:
            several = " or ".join(known) or "no inference of its own"
            return f"model {self.model} has {several}, found inference {self.inference}"
        if self.unit == "phrase" and self.model != "corpus":
            return f"unit phrase goes with model corpus, found model {self.model}"
        return None
