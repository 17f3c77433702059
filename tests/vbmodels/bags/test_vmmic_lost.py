"""A modality must not be lost: its gate open to all instances, whatever they are.

Where a modality says little of the labels, a gate that is open to all (share .97 for .34) fits as
well, and the slopes behind it are free: a Gaussian's bound is closer there than where they are
found, so that it prefers the open gate, though a sampler spends a sixth of its time there. Only
the prior decides: N(0, 16) for a gate's intercept with short slopes makes "all or none" likely.
"""

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import roc_auc_score

from vbmodels.bags.bags import Bags, Instances, bags
from vbmodels.bags.vmmic.layout import Layout
from vbmodels.bags.vmmic.model import CollapsedVMMIC
from vbmodels.bags.vmmic.posterior import predict
from vbmodels.bags.vmmic.priors import Priors
from vbmodels.core.fit import fit


def found(data: Bags, new: Bags, primary: list[np.ndarray], seed: int = 0) -> float:
    """AUROC of all new instances of a fit by default."""
    model = CollapsedVMMIC()
    posterior = model.posterior(fit(model, [data], seed=seed, tol=1e-6, max_iter=3000).q)
    found = predict(posterior.draws(), posterior.scaling, new).instances
    return float(roc_auc_score(np.concatenate(primary), np.concatenate(found)))


def read(path) -> tuple[Bags, list[np.ndarray]]:
    table = pq.read_table(path)
    names, number = np.unique(np.array(table["bag_id"].to_pylist()), return_inverse=True)
    kind = np.array(table["modality"].to_pylist())
    rows = np.array(table["features"].to_pylist())
    primary = table["instance_label"].to_numpy().astype(float)
    label = np.zeros(names.size, np.int8)
    label[number] = table["label"].to_numpy()
    parts, truth = [], []
    for name in np.unique(kind):
        here = np.flatnonzero(kind == name)
        here = here[np.argsort(number[here], kind="stable")]
        parts.append(Instances.from_rows(number[here], rows[here], names.size))
        truth.append(primary[here])
    return bags(parts, label), truth


@pytest.mark.parametrize("seed", [7, *(pytest.param(s, marks=pytest.mark.slow) for s in (0, 3, 8))])
def test_the_specimen_keeps_its_second_modality(shared_data, seed):
    folder = shared_data / "bags"
    if not (folder / "vmmic_lost_train.parquet").exists():
        pytest.skip("vmmic_lost_train.parquet is not among the shared data")
    data, _ = read(folder / "vmmic_lost_train.parquet")
    new, truth = read(folder / "vmmic_lost_test.parquet")
    assert found(data, new, truth, seed) >= 0.94


def test_a_gate_s_intercept_and_slopes_share_one_learned_scale():
    """E[log p(t | tau) p(tau) / q(tau)] is the marginal's logarithm where q(t) is a point.

    The marginal of (a, b) is that of a Student t: integrated over tau on a grid here.
    """
    layout, priors = Layout(0, (3,)), Priors()
    t = np.random.default_rng(0).normal(size=layout.dim)
    found = priors.expected_log(layout, t, np.zeros(layout.dim))
    log_tau = np.linspace(-12.0, 8.0, 20_001)
    tau = np.exp(log_tau)

    def normal(x, precision):
        return 0.5 * np.log(precision / (2.0 * np.pi)) - 0.5 * precision * x**2

    total = normal(t[0], 1.0 / priors.intercept_variance)
    gate, slopes = layout.gates[0], layout.slopes[0]
    for own, intercept in ((t[slopes], None), (t[gate][1:], t[gate][0])):
        rate = priors.rate / own.size
        log_p = priors.shape * np.log(rate) + priors.shape * log_tau - rate * tau
        log_p += sum(normal(w, tau) for w in own)  # Gamma(2) = 1, and d tau = tau d log tau
        if intercept is not None:
            log_p += normal(intercept, tau / (priors.gate * own.size))
        total += np.log(np.trapezoid(np.exp(log_p), log_tau))
    assert found == pytest.approx(total, abs=1e-6)
