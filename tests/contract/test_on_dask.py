"""Item 2 on a real cluster: every row gives the bits of a run in this process."""

import pytest

from flows import storage
from flows.fit.connect import connect
from flows.fit.driver import run_fit
from flows.fit.job import Job
from tests.contract.cases import cases
from vbmodels.core.fit import loop_of
from vbmodels.core.state import same_bits, to_bytes
from vbmodels.testing import runs
from vbmodels.testing.contract import is_slow

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(scope="module")
def cluster():
    with connect(workers=2) as connected:
        yield connected


DEFAULT = ("toy", "phrases")  # all others every night


def marks(case):
    if is_slow(case, "partition"):
        return [pytest.mark.slow]
    return [] if case.name in DEFAULT else [pytest.mark.thorough]


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, id=c.name, marks=marks(c)) for c in cases()],
)
def test_2_workers_give_the_bits_of_one_process(case, cluster, tmp_path):
    batches = case.batches(0, 7)
    model = case.model()
    sweeps = case.sweeps_on_workers or case.resume_sweeps
    here = runs.run(case, loop_of(model), batches, 0, sweeps)
    urls = [storage.join(str(tmp_path), f"part-{i}.npz") for i in range(len(batches))]
    for url, batch in zip(urls, batches, strict=True):
        storage.write_bytes(url, to_bytes(batch))
    job = Job(
        model=model,
        batch=type(batches[0]),
        partitions=tuple(urls),
        store=storage.join(str(tmp_path), "run"),
        run_id="run",
        tol=0.0,
        max_iter=here[-1].iteration + 1,
    )
    executor = cluster.executor(job)
    there = run_fit(job, executor)
    executor.close()
    elbo = [step.elbo for step in here]
    assert there.iterations > 2
    assert there.trace.elbo.tolist() == elbo[: len(there.trace.elbo)]
    last = {step.iteration: step for step in here}[there.number]
    assert same_bits(there.q, last.q)
