"""What the pipeline is, and its settings."""

from pydantic import Field

from flows.settings import RunSettings


class CountSettings(RunSettings):
    """Rates of groups from repeated counts."""

    question = "What is the rate of each group, and how much do rates differ?"
    reads = "vbflows_counts.schema:COUNTS_IN"
    family = "vbflows_counts.family"
    answer = "vbflows_counts.answer"

    shape: float = Field(2.0, gt=0.0, description="Shape a of the Gamma of the groups' rates.")
