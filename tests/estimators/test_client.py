"""``client=`` over a real Dask cluster: the bits of a fit in this process."""

import tomllib
from pathlib import Path

import dask
import numpy as np
import pytest

from flows.fit.connect import connect
from flows.fit.estimator import DaskExecutor
from tests.estimators import data
from vbmodels.core.state import same_bits
from vbmodels.estimators import LatentFeatures, MixtureOfExperts
from vbmodels.estimators.executors import GROUP

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def client():
    with connect(workers=2) as cluster:
        yield cluster.client


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The entry points of pyproject.toml, as an installation writes them."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    folder = tmp_path / "vbflows_here-0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: vbflows-here\nVersion: 0\n")
    lines = [f"[{GROUP}]", *(f"{name} = {value}" for name, value in declared[GROUP].items())]
    (folder / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.thorough
def test_experts_have_the_same_bits(client, installed):
    x, y = data.crossed()
    plain = MixtureOfExperts(2, tau=1.0, restarts=2, n_partitions=5, random_state=0)
    here = plain.fit(x, y)
    there = MixtureOfExperts(**{**plain.get_params(), "client": client}).fit(x, y)
    assert here.n_iter_ > 10
    assert same_bits(here.q_, there.q_)
    assert here.trace_.tolist() == there.trace_.tolist()


@pytest.mark.slow
def test_features_by_an_address_and_by_an_executor(client, installed, tmp_path):
    x, _ = data.categories()
    plain = LatentFeatures(3, starts=1, tol=1e-4, n_partitions=4, random_state=0)
    here = plain.fit(x)
    address = client.scheduler.address
    store = tmp_path / "store"
    tls = client.security
    certificates = {
        "distributed.comm.tls.ca-file": tls.tls_ca_file,
        "distributed.comm.tls.client.cert": tls.tls_client_cert,
        "distributed.comm.tls.client.key": tls.tls_client_key,
    }
    for place in (address, DaskExecutor(client, str(store))):
        with dask.config.set(certificates):
            there = LatentFeatures(**{**plain.get_params(), "client": place}).fit(x)
        assert same_bits(here.q_, there.q_)
        assert np.array_equal(here.transform(x), there.transform(x))
    assert not any(store.rglob("*.npz"))
