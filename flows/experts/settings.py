"""Settings of the mixture of experts."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from flows.settings.base import declared
from flows.settings.tables import TableSettings
from vbmodels.experts.options import ExpertOptions, experts_of, refusal


class ExpertSettings(declared(ExpertOptions, base=TableSettings)):  # type: ignore[misc]
    """A mixture of logistic experts that predicts a label from a table."""

    question = "Predict a label, number or count of each row, and show what each column adds."
    family = "flows.experts.family"
    file_is = "group"
    reads = "flows.experts.schema:ROWS_IN"
    example = (
        "vbflows simulate experts simulated/ --rows 400",
        "vbflows experts simulated/table.parquet results/ --set n_experts=3",
    )
    own_file = "vbflows experts tumours.csv out/ --column label=diagnosis --column id=patient"
    page = "docs/pipelines/experts.md"
    answer = "flows.experts.answer"
    first = ("target", "positive", "test_share", "held_out", "n_experts")
    usual_sweeps = 300
    groups: ClassVar[dict[str, tuple[str, ...]]] = {
        "data": ("class_weight", "max_levels", "standardise"),
        "expert": (
            "prior",
            "tau",
            "omega",
            "gaussian_process",
            "chains",
            "warmup",
            "draws",
        ),
    }

    def decided(self) -> dict[str, Any]:
        """Return what the other settings decide for those that are empty."""
        return {"n_experts": experts_of(self)}

    rows_per_partition: int = Field(5000, ge=1, description="Rows in a partition.")
    target: Literal["auto", "classes", "ordered", "number", "count"] = Field(
        "auto",
        description="What the label is. auto: count if all labels are whole numbers from 0, with "
        "0, 1 and 2 among more than 10 values, number if they are numbers of more than 20 values, "
        "or of more than 10 with fractions, else classes; classes: two or more, in no order; "
        "ordered: classes in an order (numbers, or words of a known scale); number: predicted as "
        "such (inference additive); count: a whole number from 0 (inference additive).",
    )
    positive: str | None = Field(
        None,
        description="Which of two labels the probability is of; by default yes, true and 1, or "
        "the larger one, by number or by alphabet.",
    )
    class_weight: Literal["none", "balanced"] = Field(
        "none",
        description="balanced: the labels weigh the same in the fit (inference additive, cavi); "
        "probabilities are corrected for it.",
    )
    baselines: bool = Field(
        True,
        description="Whether the report compares the model with boosted trees and regression on "
        "the tested rows.",
    )
    held_out: str = Field(
        "",
        description="Which rows are held out; by default none below 5,000 labelled rows, else "
        "some at random. last: the last rows of the input; the name of a column: the rows with its "
        "last values, such as the latest dates.",
    )
    group_parts: int = Field(
        0,
        ge=0,
        description="How many first parts of a row's group, or of its name where no column is the "
        "group, name its group, such as 2 for SUBJ-029 of SUBJ-029_v3; 0: all of the group.",
    )
    test_share: float | None = Field(
        None,
        ge=0.0,
        lt=0.9,
        description="Share of the labelled rows held out of the fit, to measure how good it is; "
        "met roughly, as each row is drawn alone. By default 0.1 of 5,000 labelled rows and more, "
        "and of those that inference mh fits; fewer rows are all fitted, and tested by five more "
        "fits, each without a fifth of them.",
    )

    @property
    def evaluations(self) -> int:
        """Evaluations that mh needs."""
        kinds = 1 if self.prior == "gaussian" else 2
        return self.warmup + self.draws * kinds * experts_of(self) + 1

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        wrong = refusal(self)
        if wrong:
            raise ValueError(wrong)
        if self.inference == "mh" and self.evaluations > self.max_iter:
            raise ValueError(
                f"max_iter must be at least {self.evaluations} for {self.warmup} evaluations of "
                f"warmup and {self.draws} draws with inference=mh, not {self.max_iter}"
            )
        return self
