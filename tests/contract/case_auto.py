"""The row of the default for bags: members in phases, then their weights."""

from tests.contract import calibration_bags, ends
from tests.contract.case_embedding import batches, tiny
from tests.contract.case_milgp import unlabelled
from vbmodels.bags.embedding.model import EmbeddingModel
from vbmodels.bags.mil_gp.features import KernelOptions
from vbmodels.bags.mil_gp.model import DirectGP
from vbmodels.bags.stack.model import AutoModel
from vbmodels.bags.stack.predict import predict_auto
from vbmodels.testing.case import Agreement, Best, Case, Extremes

OPTIONS = KernelOptions(kernel="rbf", length_scales=(1.0,), amplitudes=(3.0,), n_inducing=6)
MODEL = AutoModel(EmbeddingModel(), DirectGP(OPTIONS, tolerance=0.1))
OF_MEMBERS = "checked on its members, milgp_direct and bag_embedding; it adds weights alone"

CASE = Case(
    name="bag_auto",
    model=lambda: MODEL,
    calibration=calibration_bags.STACK,
    batches=batches,
    tiny=tiny,
    extremes=Extremes(
        tables=ends.tables_of_bags,
        empty=ends.no_bags,
        plain="compiled are log Phi and its slope alone: a test has them against sixty digits",
        infinite=frozenset({"clip"}),
    ),
    agreement=Agreement(
        published=lambda model, q, batch, _: predict_auto(model, q, batch).probability,
        scored=lambda model, q, batch: predict_auto(model, q, batch).probability,
        hidden=unlabelled,
        tol=1e-8,
        atol=1e-10,
    ),
    global_step=OF_MEMBERS,
    local_step=OF_MEMBERS,
    monte_carlo=OF_MEMBERS,
    evidence=OF_MEMBERS,
    sampler=OF_MEMBERS,
    recovery=OF_MEMBERS,
    best=Best(phase=type, max_iter=2000),
    # Phases have objectives of their own: rise is checked in the first.
    sweeps=3,
    seeds=(0,),
    resume_sweeps=16,
    sweeps_on_workers=400,  # before the end there is no posterior
    slow=frozenset({"resume", "partition"}),
    partition_rtol=1e-7,
)
