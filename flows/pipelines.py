"""The pipelines as Prefect flows, for schedules and scripts.

``from vbflows import keywords``; the entry point of a deployment is ``flows.pipelines.keywords``.
Where a Prefect server is configured a call is a flow run on its page; elsewhere it is a plain call.
Every one has the same body, `flows.run.run`.
"""

from typing import Annotated, Any

from pydantic import Field

from flows.bags.settings import BagSettings
from flows.catalogue import known
from flows.data.storage import Sources
from flows.experts.settings import ExpertSettings
from flows.features.settings import FeatureSettings
from flows.keywords.settings import KeywordSettings
from flows.prefect.flow import PipelineFlow, flow
from flows.run import run
from flows.run import score as score_run
from flows.settings import ComputeSettings
from flows.variants.settings import VariantSettings

Source = Annotated[Sources, Field(description="Paths, folders, globs or URLs of the input.")]
Target = Annotated[str, Field(description="Folder or URL that gets the run.")]
Compute = Annotated[ComputeSettings, Field(description="Where it is computed.")]
Since = Annotated[
    str | None,
    Field(description="latest, or the id of a finished run: only what is new since is read."),
]
Resume = Annotated[
    str | None,
    Field(
        description="An unfinished run to go on with: auto for one of this very request if there "
        "is one, latest, or its id; empty for a new run."
    ),
]
HERE = ComputeSettings.model_validate({})


@flow
def keywords(
    source: Source,
    target: Target,
    settings: KeywordSettings = KeywordSettings(),
    compute: Compute = HERE,
    since: Since = None,
    resume: Resume = "auto",
) -> dict[str, Any]:
    """Find keywords and keyphrases of documents, from a few that are known."""
    return run("keywords", source, target, settings, compute, since, resume)


@flow
def bags(
    source: Source,
    target: Target,
    settings: BagSettings = BagSettings(),
    compute: Compute = HERE,
    since: Since = None,
    resume: Resume = "auto",
) -> dict[str, Any]:
    """Classify bags of instances, and say which instances decide."""
    return run("bags", source, target, settings, compute, since, resume)


@flow
def variants(
    source: Source,
    target: Target,
    settings: VariantSettings = VariantSettings(),
    compute: Compute = HERE,
    since: Since = None,
    resume: Resume = "auto",
) -> dict[str, Any]:
    """Find rare variants in replicated sequencing depth."""
    return run("variants", source, target, settings, compute, since, resume)


@flow
def features(
    source: Source,
    target: Target,
    settings: FeatureSettings = FeatureSettings(),
    compute: Compute = HERE,
    since: Since = None,
    resume: Resume = "auto",
) -> dict[str, Any]:
    """Find latent features that explain how categorical answers go together."""
    return run("features", source, target, settings, compute, since, resume)


@flow
def experts(
    source: Source,
    target: Target,
    settings: ExpertSettings = ExpertSettings(),
    compute: Compute = HERE,
    since: Since = None,
    resume: Resume = "auto",
) -> dict[str, Any]:
    """Predict a binary label from a table, by experts that each explain a part of the rows."""
    return run("experts", source, target, settings, compute, since, resume)


@flow
def score(
    run: Annotated[str, Field(description="A finished run: its target, or TARGET/runs/RUN_ID.")],
    source: Source,
    target: Target,
    compute: Compute = HERE,
) -> dict[str, Any]:
    """Apply the posterior of a finished run to new data, and publish the result."""
    return score_run(run, source, target, compute)


def flow_named(pipeline: str) -> PipelineFlow:
    """Return the flow of a pipeline: one of these, or one made for an installed package's."""
    ours = globals().get(pipeline)
    if isinstance(ours, PipelineFlow):
        return ours
    kind = known(pipeline)

    def other(
        source: Source,
        target: Target,
        settings: Any = kind(),
        compute: Compute = HERE,
        since: Since = None,
        resume: Resume = "auto",
    ) -> dict[str, Any]:
        return run(pipeline, source, target, settings, compute, since, resume)

    other.__name__, other.__doc__ = pipeline, kind.question
    other.__annotations__["settings"] = kind
    return flow(other)
