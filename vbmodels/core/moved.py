"""What classes of states were in earlier versions: posteriors name them, and their fields."""

MOVED = {
    "flows.families.expert_design": "flows.experts.design",
    "vbmodels.bags.gp_lbfgs": "vbmodels.core.lbfgs",
    "vbmodels.cavi.Cursor": "vbmodels.core.protocol.Cursor",
    "vbmodels.cavi.SquaremCursor": "vbmodels.core.squarem.SquaremCursor",
    "vbmodels.core.cavi.Cursor": "vbmodels.core.protocol.Cursor",
    "vbmodels.core.cavi.SquaremCursor": "vbmodels.core.squarem.SquaremCursor",
    "vbmodels.experts.cavi": "vbmodels.experts.published.cavi",
    "vbmodels.experts.mabn": "vbmodels.experts.published.mabn",
    "vbmodels.experts.metropolis": "vbmodels.experts.published.metropolis",
    "vbmodels.experts.normals": "vbmodels.experts.published.normals",
    "vbmodels.experts.row_step": "vbmodels.experts.published.row_step",
    "vbmodels.expfam.beta": "vbmodels.core.expfam.beta",
    "vbmodels.expfam.family": "vbmodels.core.expfam.family",
    "vbmodels.expfam.gamma": "vbmodels.core.expfam.gamma",
    "vbmodels.expfam.gaussian": "vbmodels.core.expfam.gaussian",
    "vbmodels.expfam.normal": "vbmodels.core.expfam.normal",
    "vbmodels.expfam.polya_gamma": "vbmodels.core.expfam.polya_gamma",
    "vbmodels.expfam.truncated": "vbmodels.core.expfam.truncated",
    "vbmodels.expfam.von_mises_fisher": "vbmodels.core.expfam.von_mises_fisher",
    "vbmodels.features.laplace_chain": "vbmodels.features.published.laplace_chain",
    "vbmodels.features.laplace_gibbs": "vbmodels.features.published.laplace_gibbs",
    "vbmodels.keywords.coordinate": "vbmodels.keywords.published.coordinate",
    "vbmodels.keywords.vbss": "vbmodels.keywords.published.vbss",
    "vbmodels.mil.batch": "vbmodels.bags.batch",
    "vbmodels.mil.collapsed": "vbmodels.bags.collapsed",
    "vbmodels.mil.gibbs": "vbmodels.bags.published.gibbs",
    "vbmodels.mil.gp_baseline": "vbmodels.bags.gp_baseline",
    "vbmodels.mil.gp_data": "vbmodels.bags.gp_data",
    "vbmodels.mil.gp_direct": "vbmodels.bags.gp_direct",
    "vbmodels.mil.gp_features": "vbmodels.bags.gp_features",
    "vbmodels.mil.gp_gaussian": "vbmodels.bags.gp_gaussian",
    "vbmodels.mil.gp_gibbs": "vbmodels.bags.published.gp_gibbs",
    "vbmodels.mil.gp_lbfgs": "vbmodels.core.lbfgs",
    "vbmodels.mil.gp_likelihood": "vbmodels.bags.gp_likelihood",
    "vbmodels.mil.gp_logistic": "vbmodels.bags.published.gp_logistic",
    "vbmodels.mil.gp_probit": "vbmodels.bags.gp_probit",
    "vbmodels.mil.layout": "vbmodels.bags.layout",
    "vbmodels.mil.local": "vbmodels.bags.published.local",
    "vbmodels.mil.mode": "vbmodels.bags.mode",
    "vbmodels.mil.posterior": "vbmodels.bags.posterior",
    "vbmodels.mil.vmmic": "vbmodels.bags.published.vmmic",
    "vbmodels.moments": "vbmodels.core.moments",
    "vbmodels.state": "vbmodels.core.state",
    "vbmodels.variants.rvd2.model": "vbmodels.variants.published.rvd2",
    "vbmodels.variants.rvd2.pair": "vbmodels.variants.published.pair",
}
"""Module, or class, of then to that of now; the classes of a module kept their names."""

GONE = {
    "vbmodels.bags.embedding.Embedding": frozenset({"ascent"}),
    "vbmodels.experts.published.cavi.Mixture": frozenset({"gram"}),
    "vbmodels.keywords.corpus.CorpusGlobal": frozenset({"bends"}),
}
"""Fields that a class had then, by its name of now: what they said is told elsewhere."""


def current(name: str) -> str:
    """Return the name under which a stored class is registered today.

    >>> current("vbmodels.mil.collapsed.CollapsedGlobal")
    'vbmodels.bags.collapsed.CollapsedGlobal'
    """
    module, _, kind = name.rpartition(".")
    return MOVED.get(name) or f"{MOVED.get(module, module)}.{kind}"
