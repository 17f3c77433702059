"""One corpus and one cluster for all tests that do not kill its scheduler."""

import pytest

from flows.fit.connect import connect
from flows.fit.driver import run_fit
from flows.fit.executor import InProcess
from tests.faults import stores
from tests.faults.driver import bits
from tests.faults.models import Paced, job, probabilities, store_corpus
from tests.faults.processes import Deployment


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    store_corpus(folder)
    return folder


@pytest.fixture(scope="session")
def urls(corpus):
    return tuple(sorted(str(path) for path in corpus.iterdir()))


@pytest.fixture(scope="session")
def expected(urls, tmp_path_factory):
    """The bits of the uninterrupted fit in one process."""
    task = job(urls, tmp_path_factory.mktemp("alone"), "alone", model=Paced())
    executor = InProcess(task)
    result = run_fit(task, executor)
    assert result.converged
    assert result.iterations > 12
    return bits(result, executor.map(probabilities, result.q, result.number))


@pytest.fixture
def deployment(tmp_path):
    """A scheduler with two workers that the test may kill."""
    made = Deployment(tmp_path / "cluster").start(2)
    yield made
    made.end()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A scheduler with two workers; tests may kill and add workers, not the scheduler."""
    made = Deployment(tmp_path_factory.mktemp("shared")).start(2)
    yield made
    made.end()


@pytest.fixture
def fit_on(urls, tmp_path):
    """Fit the corpus on a cluster and return the bits."""

    def fit(address, run_id="run", on_step=None, pause=0.0, check=None):
        task = job(urls, tmp_path, run_id, model=Paced(pause=pause))
        with connect(scheduler=address) as cluster:
            executor = cluster.executor(task)
            result = run_fit(task, executor, on_step=on_step)
            if check is not None:
                check(cluster, executor, result)
            found = bits(result, executor.map(probabilities, result.q, result.number))
            executor.close()
        return found

    return fit


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """An S3 server with three buckets; tests that kill it start it again."""
    folder = tmp_path_factory.mktemp("s3")
    for bucket in ("in", "out", "reads"):
        (folder / bucket).mkdir()
    made = stores.Rclone(folder)
    yield made
    made.kill()
