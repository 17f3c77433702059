"""The pipelines as Prefect flows, for schedules and scripts.

``from vbflows import keywords``; the entry point of a deployment is ``flows.pipelines.keywords``.
Where a Prefect server is configured a call is a flow run on its page; elsewhere it is a plain call.
Every one has the same body, `flows.run.run`, which says what the parameters mean.
"""

from typing import Any

from flows.bags.settings import BagSettings
from flows.catalogue import known
from flows.experts.settings import ExpertSettings
from flows.features.settings import FeatureSettings
from flows.keywords.settings import KeywordSettings
from flows.prefect.flow import PipelineFlow, flow
from flows.run import run
from flows.run import score as score_run
from flows.settings import ComputeSettings
from flows.storage import Sources
from flows.variants.settings import VariantSettings

HERE = ComputeSettings.model_validate({})


@flow
def keywords(
    source: Sources,
    target: str,
    settings: KeywordSettings = KeywordSettings(),
    compute: ComputeSettings = HERE,
    since: str | None = None,
    resume: str | None = "auto",
) -> dict[str, Any]:
    """Find keywords and keyphrases of documents, from a few that are known."""
    return run("keywords", source, target, settings, compute, since, resume)


@flow
def bags(
    source: Sources,
    target: str,
    settings: BagSettings = BagSettings(),
    compute: ComputeSettings = HERE,
    since: str | None = None,
    resume: str | None = "auto",
) -> dict[str, Any]:
    """Classify bags of instances, and say which instances decide."""
    return run("bags", source, target, settings, compute, since, resume)


@flow
def variants(
    source: Sources,
    target: str,
    settings: VariantSettings = VariantSettings(),
    compute: ComputeSettings = HERE,
    since: str | None = None,
    resume: str | None = "auto",
) -> dict[str, Any]:
    """Find rare variants in replicated sequencing depth."""
    return run("variants", source, target, settings, compute, since, resume)


@flow
def features(
    source: Sources,
    target: str,
    settings: FeatureSettings = FeatureSettings(),
    compute: ComputeSettings = HERE,
    since: str | None = None,
    resume: str | None = "auto",
) -> dict[str, Any]:
    """Find latent features that explain how categorical answers go together."""
    return run("features", source, target, settings, compute, since, resume)


@flow
def experts(
    source: Sources,
    target: str,
    settings: ExpertSettings = ExpertSettings(),
    compute: ComputeSettings = HERE,
    since: str | None = None,
    resume: str | None = "auto",
) -> dict[str, Any]:
    """Predict a binary label from a table, by experts that each explain a part of the rows."""
    return run("experts", source, target, settings, compute, since, resume)


@flow
def score(
    run: str,
    source: Sources,
    target: str,
    compute: ComputeSettings = HERE,
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
        source: Sources,
        target: str,
        settings: Any = kind(),
        compute: ComputeSettings = HERE,
        since: str | None = None,
        resume: str | None = "auto",
    ) -> dict[str, Any]:
        return run(pipeline, source, target, settings, compute, since, resume)

    other.__name__, other.__doc__ = pipeline, kind.question
    other.__annotations__["settings"] = kind
    return flow(other)
