"""Every pipeline on an S3 server, whole and failing: the same bits, or one sentence."""

import threading
import time
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from deploy.certs import make_certificates
from flows import storage
from flows.cli import main
from flows.faults import RunError
from flows.fit.connect import connect
from flows.fit.driver import run_fit
from flows.fit.executor import InProcess
from flows.settings import S3Access
from flows.storage import StorageError
from tests.faults import far_store, pipelines, stores
from tests.faults.proxy import Proxy
from tests.fit.jobs import toy_job
from vbmodels.core.state import same_bits

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@pytest.fixture
def direct(server, monkeypatch):
    stores.enter(monkeypatch, server.url)
    return server


@pytest.fixture
def behind(server, monkeypatch):
    """Put a proxy before the server."""
    made = []

    def put(plan):
        made.append(Proxy(server.port, plan))
        stores.enter(monkeypatch, made[-1].url)
        return made[-1]

    yield put
    for proxy in made:
        proxy.close()


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """Return what a pipeline leaves on the local file system, computed once."""
    folder = tmp_path_factory.mktemp("local")
    known = {}

    def run(name):
        if name not in known:
            source = pipelines.simulate(name, str(folder / "in" / name))
            known[name] = (
                source,
                pipelines.published(pipelines.run(name, source, str(folder / "out" / name))),
            )
        return known[name]

    return run


def upload(name, source):
    url = f"s3://in/{name}/{source.rsplit('/', 1)[-1]}"
    storage.write_bytes(url, storage.read_bytes(source))
    return url


SLOW = [pytest.param(n, marks=pytest.mark.slow) for n in sorted(pipelines.SETTINGS)]


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["features", *(p for p in SLOW if p.values != ("features",))])
def test_a_pipeline_from_s3_to_s3_is_the_same_bits(direct, local, name):
    source, expected = local(name)
    outcome = pipelines.run(name, upload(name, source), f"s3://out/{name}")
    found = pipelines.published(outcome)
    assert found == expected
    assert set(expected) > {"posterior/q.npz"}
    assert storage.names(f"s3://out/{name}") == ["latest.json", "runs"]
    assert "work" not in storage.names(f"s3://out/{name}/runs/{outcome['run_id']}")


def test_a_sweep_sends_the_store_no_request(behind, tmp_path):
    """Global parameters are arguments of calls, and the log of sweeps is in the driver."""
    proxy = behind(lambda number, line: None)
    job = toy_job("s3://in/toy", checkpoint_every=100, max_iter=20, tol=0.0)
    alone = replace(job, store=str(tmp_path / "alone"))
    expected = run_fit(alone, InProcess(alone))
    requests = []

    def count(progress):
        requests.append([line for line in list(proxy.seen) if "lock" not in line])

    with connect(workers=2) as cluster:
        executor = cluster.executor(job)
        assert same_bits(run_fit(job, executor, on_step=count).q, expected.q)
        executor.close()
    assert len(requests) == 20
    assert requests[-1][len(requests[0]) :] == []
    assert any("GET" in line and "partitions" in line for line in requests[0])


def every(number, fault):
    return lambda count, line: fault if count % number == 0 else None


def dropping(number):
    """Cut every n-th answer that has a body."""
    seen = []

    def plan(count, line):
        if line.startswith("GET"):
            seen.append(line)
            return "drop" if len(seen) % number == 0 else None
        return None

    return plan


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["features", *(p for p in SLOW if p.values != ("features",))])
@pytest.mark.parametrize("fault", ["slow down", "drop"])
def test_the_same_bits_through_a_network_that_fails(behind, local, name, fault):
    source, expected = local(name)
    proxy = behind(every(10, "slow down") if fault == "slow down" else dropping(8))
    outcome = pipelines.run(name, upload(name, source), f"s3://out/{fault[:4]}/{name}")
    assert len(proxy.done) > 2
    assert pipelines.published(outcome) == expected


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["features", *(p for p in SLOW if p.values != ("features",))])
def test_the_same_bits_from_a_far_store_that_fails_now_and_then(behind, local, name):
    source, expected = local(name)
    proxy = behind(far_store.fail)
    proxy.delay = far_store.delay
    outcome = pipelines.run(name, upload(name, source), f"s3://out/far/{name}")
    assert proxy.done
    assert pipelines.published(outcome) == expected


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["features", *(p for p in SLOW if p.values != ("features",))])
def test_a_server_that_restarts_in_mid_read(server, behind, local, name):
    source, expected = local(name)
    restarted = []

    def restart():
        server.kill()
        time.sleep(1.5)
        server.start()

    def plan(number, line):
        if number == 25:
            restarted.append(threading.Thread(target=restart))
            restarted[-1].start()
        return None

    behind(lambda number, line: None)
    url = upload(name, source)
    behind(plan)
    outcome = pipelines.run(name, url, f"s3://out/again/{name}")
    for thread in restarted:
        thread.join()
    assert len(restarted) == 1
    assert pipelines.published(outcome) == expected


@pytest.mark.thorough
def test_a_store_that_stays_away_ends_the_run_and_it_resumes(behind, local, monkeypatch):
    source, expected = local("features")
    away = threading.Event()
    monkeypatch.setattr("flows.storage.objects.retry.PATIENCE", 1.0)

    def plan(number, line):
        if "checkpoints" in line and "fit.npz" in line and line.startswith("PUT"):
            away.set()
            return None
        return "slow down" if away.is_set() else None

    proxy = behind(plan)
    url = upload("features", source)
    with pytest.raises(RunError, match=r"nothing was published; .* --resume ") as stopped:
        pipelines.run("features", url, "s3://out/away", checkpoint_every=2)
    assert "\n" not in str(stopped.value)
    run_id = str(stopped.value).rsplit(" ", 1)[-1]
    away.clear()
    proxy.plan = lambda number, line: None
    assert not storage.exists("s3://out/away/latest.json")
    outcome = pipelines.run("features", url, "s3://out/away", resume=run_id, checkpoint_every=2)
    assert outcome["run_id"] == run_id
    assert pipelines.published(outcome) == expected


def refused(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    text = capsys.readouterr().err
    lines = [line for line in text.splitlines() if line.startswith("vbflows: ")]
    assert len(lines) == 1, text
    assert "Traceback" not in text
    return ended.value.code, lines[0]


@pytest.mark.thorough
def test_a_wrong_secret_has_its_sentence(direct, local, monkeypatch, capsys):
    url = upload("features", local("features")[0])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
    code, line = refused(capsys, "features", url, "s3://out/x")
    assert code == 2
    assert "permission denied; check the access key and its secret" in line
    assert "not-the-secret" not in line


@pytest.mark.thorough
def test_a_missing_bucket_has_its_sentence(direct, local, capsys):
    source = local("features")[0]
    code, line = refused(capsys, "features", "s3://nowhere/x", "s3://out/x")
    assert (code, "there is no bucket 'nowhere'" in line) == (2, True)
    code, line = refused(capsys, "features", source, "s3://nowhere/x")
    assert (code, "there is no bucket 'nowhere'" in line) == (2, True)


def test_no_permission_to_write_is_found_out_before_the_fit(behind, local, capsys, monkeypatch):
    source = local("features")[0]
    behind(lambda number, line: "deny" if line.startswith("PUT") else None)
    monkeypatch.setattr("flows.stages.run_fit", pytest.fail)
    code, line = refused(capsys, "features", source, "s3://out/denied")
    assert code == 2
    assert "cannot write s3://out/denied" in line
    assert "permission denied" in line


@pytest.mark.parametrize("where", ["s3", "small on s3", "local"])
def test_an_input_that_changes_during_the_run_is_refused(
    direct, local, tmp_path, monkeypatch, capsys, where
):
    """But for a small object that was read whole when it was checked: the run is of that."""
    if where == "s3":
        monkeypatch.setattr("flows.storage.objects.contents.SMALL", 0)
    source = local("features")[0]
    url = str(tmp_path / "x.parquet") if where == "local" else "s3://in/changing/x.parquet"
    storage.write_bytes(url, storage.read_bytes(source))
    other = storage.read_bytes(pipelines.simulate("features", str(tmp_path / "other"), 199))
    from flows import stages

    begun = stages.computing

    def change(*given):
        storage.write_bytes(url, other)
        return begun(*given)

    monkeypatch.setattr(stages, "computing", change)
    target = str(tmp_path / "out")
    if where == "small on s3":
        outcome = pipelines.run("features", url, target)
        assert outcome["rows_read"] == storage.read_table(source).num_rows != 199
        return
    code, line = refused(capsys, "features", url, target)
    assert code == 1  # the input was right when it was checked
    assert "has changed since this run first read it (another ETag, time or size)" in line
    assert not storage.exists(f"{target}/latest.json")


@pytest.mark.thorough
def test_anonymous_reading_behind_a_ca_of_ones_own(server, local, monkeypatch, tmp_path):
    source, _ = local("features")
    make_certificates(str(tmp_path / "tls"))
    cert, key = (
        str(tmp_path / "tls" / "scheduler" / f"scheduler{end}.pem") for end in ("", "-key")
    )
    public = stores.Rclone(server.folder, "--cert", cert, "--key", key, signed=False)
    try:
        stores.enter(monkeypatch, server.url)
        url = upload("features", source)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        address = public.url.replace("http:", "https:")
        monkeypatch.setattr("flows.storage.objects.retry.PATIENCE", 0.5)
        unknown = S3Access(endpoint_url=address, anonymous=True)
        with storage.using(unknown.environment()), pytest.raises(StorageError):
            storage.read_bytes(url)
        known = S3Access(
            endpoint_url=address, anonymous=True, ca_file=str(tmp_path / "tls/client/ca.pem")
        )
        with storage.using(known.environment()):
            assert storage.expand("s3://in/features", [".parquet"])
            assert storage.read_table(url).num_rows == pq.read_metadata(source).num_rows
    finally:
        public.kill()
