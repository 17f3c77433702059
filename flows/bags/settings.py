"""Settings of the labels of bags and their instances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from flows.settings.base import declared
from flows.settings.tables import TableSettings
from vbmodels.bags.options import GPOptions

_BAG_FORMS = {
    "vmmic": ("collapsed", "mean_field", "gibbs"),
    "gp_probit": ("direct", "gibbs"),
    "auto": ("stacking",),
    "embedding": ("expectation_propagation",),
}
ONE_WAY = ("auto", "embedding")
"""Models with one inference, which is not named in the settings."""
NUMBER_MODELS = ("auto", "embedding")
"""Models that predict numbers."""
GIB = 2**30
HELD_OUT = 0.2
"""Share of bags that are held out by default where there are many, and of the last ones."""
LAST = "last"
"""The setting by which the last bags are held out in the order of the input."""


class BagSettings(declared(GPOptions, base=TableSettings)):  # type: ignore[misc]
    """Labels of bags and their primary instances."""

    question = "Which groups of rows (bags) are positive, and which of their rows make them so?"
    family = "flows.bags.family"
    answer = "flows.bags.answer"
    file_is = "bag_id"
    reads = "flows.bags.schema:INSTANCES_IN"
    example = (
        "vbflows simulate bags simulated/ --rows 200",
        "vbflows bags simulated/bags.parquet results/ --set held_out=0.3",
    )
    own_file = "vbflows bags cells.csv out/ --column bag_id=patient --column label=response"
    page = "docs/pipelines/bags.md"
    first = ("target", "positive", "held_out", "baselines", "model")
    groups: ClassVar[dict[str, tuple[str, ...]]] = {
        "data": (
            "label_order",
            "positive",
            "threshold",
            "group_parts",
            "levels",
            "decimal_comma",
            "precision",
        ),
        "output": ("show_bags",),
        "expert": (
            "witness_memory",
            "n_inducing",
            "leak",
            "chains",
            "warmup",
            "draws",
            "thin",
        ),
    }

    model: Literal["auto", "embedding", "vmmic", "gp_probit"] = Field(
        "auto",
        description="What predicts: leave it at auto unless you compare models. auto: embedding, "
        "gp_probit, vmmic and the base rate, weighted by how well each predicts labels that it "
        "has not seen; embedding: pooled features and kernels in one probit regression; gp_probit: "
        "a Gaussian process of instances, a bag positive when one of them is; vmmic: probit "
        "regressions of primary instances and of the bag.",
    )
    target: Literal["auto", "classes", "number", "ordered"] = Field(
        "auto",
        description="What the label is: two classes, a number or levels in an order. auto: "
        "ordered where 3 to 7 labels are words of a known "
        "scale or whole numbers from 0 or 1 on, number if all labels are numbers, of more than 10 "
        "values or of more than 3 with fractions, and neither positive nor threshold is set, else "
        "classes; classes: two; number: predicted as such (model auto or embedding); ordered: "
        "levels in an order, fitted as 1 to k (model auto or embedding).",
    )
    label_order: tuple[str, ...] = Field(
        (),
        description="Levels of the label from the lowest to the highest, such as "
        "[low, medium, high]; by default those of a known scale, or whole numbers.",
    )
    positive: tuple[str, ...] = Field(
        (),
        description="The label that is positive, as the files write it, or several, such as "
        "medium,high; any other is then negative. By default labels are 1, yes or true, and 0, no "
        "or false, and the former are positive.",
    )
    group_parts: int | None = Field(
        None,
        ge=0,
        description="Of how many first parts of its name a bag's group has its name, such as 3 of "
        "TCGA-3C-A009-01Z-00-DX1; 0: bags without a column group have none. By default bags are "
        "grouped by a column, or the first parts of their names, that repeat and whose bags share "
        "their label.",
    )
    levels: tuple[str, ...] = Field(
        (),
        description="Levels of text features, each a feature that is 1 in instances that have it, "
        "such as stain=HE,stain=IHC; by default the levels that the first rows have, of columns "
        "that vary within bags and have at most 20.",
    )
    decimal_comma: tuple[str, ...] = Field(
        (),
        description="Columns of text whose numbers have a decimal comma; by default those whose "
        "first rows have one, or all with decimal=,.",
    )
    threshold: float | None = Field(
        None,
        allow_inf_nan=False,
        description="Labels are numbers, and positive from this one on; lower ones are negative. "
        "Where the number is predicted: what landmarks are chosen on both sides of, by default the "
        "middle one.",
    )
    inference: Literal["collapsed", "mean_field", "gibbs", "direct"] | None = Field(
        None,
        description="vmmic: collapsed (default; local variables integrated out), mean_field (the "
        "paper's coordinate ascent) or gibbs (MICProB's sampler); gp_probit: direct (default; "
        "variational) or gibbs.",
    )
    witness_memory: float = Field(
        2.0,
        ge=0.0,
        description="auto: GiB that the Gaussian process may keep in memory, all workers together "
        "(about 3,000 bytes an instance up to 2,000 bags, 450 beyond). Where it would take more it "
        "is left out, and instances have a probability only where vMMIC has weight. "
        "0 leaves it and vMMIC out.",
    )
    baselines: bool = Field(
        True,
        description="Whether the report compares the model with simple methods: the more frequent "
        "label, and boosted trees.",
    )
    held_out: Annotated[float, Field(ge=0.0, lt=1.0)] | str | None = Field(
        None,
        description="Share of the labelled bags that the fit does not learn from, to test it, such "
        "as 0.3; last: a fifth, in the order of the input; the name of a column, such as date: a "
        "fifth, with its last values. By default a fifth from 500 labelled bags on (in 50 groups, "
        "where there are groups), else none: auto and embedding then predict each bag without its "
        "label.",
    )
    show_bags: tuple[str, ...] = Field(
        (), description="Bags that the report shows whatever their probability, such as [a, b]."
    )
    standardise: bool | None = Field(
        None,
        description="Whether features are brought to mean 0 and standard deviation 1; by default "
        "yes, except for the kernel of text (see kernel).",
    )
    precision: Literal["float64", "float32"] = Field(
        "float64",
        description="Type in which features are stored that need more than 32 bits; sums are "
        "float64 always.",
    )
    chains: int = Field(4, ge=2, description="gibbs: independent chains.")
    warmup: int = Field(300, ge=0, description="gibbs: sweeps left out at first.")
    draws: int = Field(500, ge=10, description="gibbs: draws kept of each chain.")
    thin: int = Field(1, ge=1, description="gibbs: sweeps from one kept draw to the next.")

    @property
    def share(self) -> float:
        """Share of the bags that is drawn to be held out."""
        return self.held_out if isinstance(self.held_out, float) else 0.0

    @property
    def form(self) -> str:
        """The form of inference, the model's own where none is given."""
        return self.inference or _BAG_FORMS[self.model][0]

    @property
    def numeric(self) -> bool:
        """Whether the label is a number that is predicted as such, or a level of an order."""
        return self.target in ("number", "ordered")

    @property
    def positive_name(self) -> str | None:
        """What positive labels are called; None where they are 1, yes or true."""
        if self.threshold is not None:
            return f"{self.threshold:g} or more"
        return " or ".join(self.positive) or None

    _yes: str = PrivateAttr("1")

    def decided(self) -> dict[str, Any]:
        """Return what the other settings decide for those that are empty."""
        return {"inference": self.form} | ({} if self.numeric else {"threshold": "none"})

    @property
    def positive_word(self) -> str:
        """The positive label as the files write it, such as yes."""
        return self.positive_name or self._yes

    def written(self, yes: Sequence[str]) -> Self:
        """Return the settings with how the files write 1; several ways are in order."""
        settings = self.model_copy()
        settings._yes = " or ".join(sorted(yes)) or "1"
        return settings

    @property
    def leakless(self) -> bool:
        """Whether the model is a Gaussian process by which an empty bag cannot be positive."""
        return self.model == "gp_probit" and not self.leak

    @property
    def needs_instances(self) -> bool:
        """Whether the model, or a member of it, is a process of instances alone."""
        process = self.model == "auto" and self.witness_memory > 0 and not self.numeric
        return self.model.startswith("gp_") or process

    @property
    def takes_classes(self) -> bool:
        """Whether the model takes bags with labels of several classes."""
        return self.model == "gp_probit"

    @property
    def takes_words(self) -> bool:
        """Whether columns of text are taken as words, with the products of all pairs."""
        linear = self.kernel == "auto" or "linear" in self.kernel
        process = linear and not self.standardise
        return self.model in ("auto", "embedding") or (self.model != "vmmic" and process)

    @model_validator(mode="after")
    def _possible(self) -> BagSettings:
        known = _BAG_FORMS[self.model]
        if len(set(self.label_order)) < len(self.label_order):
            raise ValueError(f"label_order names a level twice: {', '.join(self.label_order)}")
        if self.model in ONE_WAY and self.inference is not None:
            others = " or ".join(m for m, forms in _BAG_FORMS.items() if self.inference in forms)
            raise ValueError(
                f"model {self.model} has one inference, not {self.inference}; that is one of "
                f"model {others}"
            )
        if self.form not in known:
            raise ValueError(
                f"model {self.model} has inference {' or '.join(known)}, not {self.form}"
            )
        if self.numeric and self.model not in NUMBER_MODELS:
            raise ValueError(
                f"model {self.model} predicts classes; target {self.target} needs model auto or "
                "embedding"
            )
        if self.numeric and self.positive:
            raise ValueError(
                f"positive is for labels that are classes, not for target {self.target}"
            )
        if self.positive and self.threshold is not None:
            raise ValueError("positive and threshold both say which labels are positive; set one")
        return self

    @model_validator(mode="after")
    def _enough_sweeps(self) -> BagSettings:
        if self.inference == "gibbs" and self.warmup + self.draws * self.thin >= self.max_iter:
            raise ValueError(
                f"max_iter must lie above warmup + draws * thin = "
                f"{self.warmup + self.draws * self.thin} with inference gibbs, not at "
                f"{self.max_iter}"
            )
        return self
