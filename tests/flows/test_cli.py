"""The command line as a user has it: output, exit codes, sentences, for the keywords pipeline."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import weakref

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from flows import storage
from flows.cli import main
from flows.cli.output import Bar, Lines, print_json
from flows.events import Progress, Stage, Sweep
from flows.records.runs import open_run
from tests.flows.bags.bag_files import written
from tests.flows.commands import run

RATE = ("--set", "unit=word", "--set", "keyword_rate=0.3")


def documents(n=3, **columns):
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]
    rng = np.random.default_rng(0)
    tokens = [list(rng.choice(words, 30)) for _ in range(n)]
    table = {
        "doc_id": [f"d{i}" for i in range(n)],
        "tokens": tokens,
        "keywords": [[t[0]] for t in tokens],
    }
    return pa.table({**table, **columns})


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("simulated")
    with pytest.raises(SystemExit) as stopped:
        main(["simulate", "keywords", str(folder), "--rows", "150", "--seed", "1"])
    assert stopped.value.code == 0
    return folder


@pytest.fixture(scope="module")
def fitted(simulated, tmp_path_factory):
    target = tmp_path_factory.mktemp("fitted")
    with pytest.raises(SystemExit) as stopped:
        main(["keywords", str(simulated), str(target), *RATE, "--partitions", "4"])
    assert stopped.value.code == 0
    return target


@pytest.mark.thorough
def test_a_run_leaves_what_it_promises(fitted):
    place, record = open_run(str(fitted))
    assert sorted(os.listdir(place.root)) == [
        storage.MARK, "ask", "keyphrases", "keywords", "posterior", "ranked", "report.html",
        "run.json", "trace.parquet",
    ]  # fmt: skip
    assert (record.rows_read, record.rows_kept, record.partitions) == (150, 150, 4)
    assert record.converged
    table = pa.concat_tables(storage.read_table(place.table("keywords", i)) for i in range(4))
    assert table.column_names == [
        "doc_id", "term", "surface", "stem", "words", "probability", "observed", "selected", "rank",
        "position", "occurrences", "own_name", "part_of", "gold",
    ]  # fmt: skip
    probability = table["probability"].to_numpy()
    observed, selected = (table[c].to_numpy(zero_copy_only=False) for c in ("observed", "selected"))
    assert np.all((probability >= 0) & (probability <= 1))
    assert np.all(probability[observed] == 1)
    assert np.all(selected[observed])
    assert record.results["measured"]["precision"]["value"] > 0.8
    new = selected & ~observed
    share = float(np.mean(1.0 - probability[new]))
    assert share <= 0.1
    assert record.results["levels"][0]["right"]["value"] == pytest.approx(1.0 - share)
    trace = storage.read_table(place.file("trace.parquet"))["elbo"].to_numpy()
    assert np.all(np.diff(trace) >= -1e-9 * np.abs(trace[1:]))


def test_a_bad_table_leaves_no_target(tmp_path, capsys):
    """What is said of it is recorded: tests/sentences/keywords.py."""
    source = written(tmp_path, documents(doc_id=["a", "b", "a"]))
    target = tmp_path / "target"
    code, out, err = run(capsys, "keywords", source, target, *RATE)
    assert (code, out) == (2, "")
    assert "in.parquet, column doc_id, row 3" in err
    assert not target.exists() or not os.listdir(target)


@pytest.fixture
def mounted(tmp_path):
    """Mount a file system of few bytes, which takes root."""
    point = tmp_path / "mounted"
    point.mkdir()

    def mount(*options):
        found = shutil.which("mount")
        command = [found or "mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(point)]
        if not found or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("mounting a small file system needs root")
        return point

    yield mount
    subprocess.run(["umount", str(point)], capture_output=True, check=False)


def test_a_read_only_target_is_found_before_the_fit(simulated, mounted, capsys):
    code, _, err = run(capsys, "keywords", simulated, mounted("ro"), *RATE)
    assert code == 2
    assert "read-only" in err
    assert "ingest" not in err


def test_a_full_disk_has_a_sentence_and_leaves_the_old_run(simulated, mounted, capsys):
    target = mounted("size=300k")
    (target / "latest.json").write_text('{"run_id": "old"}')
    code, _, err = run(capsys, "keywords", simulated, target, *RATE)
    assert code == 1
    assert "no space is left" in err
    assert json.loads((target / "latest.json").read_text()) == {"run_id": "old"}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_an_interrupted_run_leaves_the_target_and_goes_on(simulated, tmp_path, capsys, how):
    (tmp_path / "latest.json").write_text('{"run_id": "old"}')
    options = [
        "--set",
        "model=vbss",  # of more sweeps
        "--set",
        "tol=1e-14",
        "--partitions",
        "3",
    ]
    command = [sys.executable, "-c", "from flows.cli import main; main()", "keywords"]
    command += [str(simulated), str(tmp_path), *options, "--checkpoint-every", "1"]
    command += ["--max-iter", "100000"]
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    env = {**os.environ, "PYTHONPATH": root}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env=env)  # fmt: skip
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if list(tmp_path.glob("runs/*/*/checkpoints/*/fit.npz")):
            break
        time.sleep(0.05)
    process.send_signal(how)
    _, err = process.communicate(timeout=60)
    assert json.loads((tmp_path / "latest.json").read_text()) == {"run_id": "old"}
    if process.returncode == 0:
        pytest.fail(f"the run ended before it could be interrupted: {err}")
    assert process.returncode == 1
    assert "Traceback" not in err
    (run_id,) = os.listdir(tmp_path / "runs")
    assert f"--resume {run_id}" in err
    again = ["keywords", simulated, tmp_path, *options, "--checkpoint-every", "1"]
    code, _, _ = run(capsys, *again, "--max-iter", "100000", "--resume", run_id)
    assert code == 0
    assert json.loads((tmp_path / "latest.json").read_text())["run_id"] == run_id


UNREACHABLE = {
    "target is a file": ("keywords", "IN", "AT/file", *RATE),
    "target below a file": ("keywords", "IN", "AT/file/below", *RATE),
    "target not writable": ("keywords", "IN", "/proc/nothing", *RATE),
    "s3 without credentials": ("keywords", "IN", "s3://nobody/x", *RATE),
    "simulate to a file": ("simulate", "keywords", "AT/file"),
    "show nothing": ("show", "AT/nothing"),
    "show on s3": ("show", "s3://nobody/x"),
    "score nothing": ("score", "AT/nothing", "IN", "AT/out"),
    "score no run": ("score", "AT/runs/r1", "IN", "AT/out"),
    "resume nothing": ("keywords", "IN", "AT", *RATE, "--resume", "r1"),
    "resume no name": ("keywords", "IN", "AT", *RATE, "--resume", "../r1"),
}


@pytest.mark.parametrize("name", UNREACHABLE)
def test_what_is_not_there_or_cannot_be_is_wrong_input(
    simulated, tmp_path, capsys, monkeypatch, name
):
    for variable in [v for v in os.environ if v.startswith("AWS_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    (tmp_path / "file").write_bytes(b"")
    words = (w.replace("AT", str(tmp_path)) for w in UNREACHABLE[name])
    code, out, err = run(capsys, *(simulated if w == "IN" else w for w in words))
    assert code == 2, err
    assert out == ""
    assert "probe" not in err
    assert os.listdir(tmp_path) == ["file"]


def test_an_option_of_s3_without_a_value_is_called_by_its_name(tmp_path, capsys):
    code, _, err = run(capsys, "--s3", "endpoint_url", "runs", tmp_path)
    assert (code, "write --s3 endpoint_url=VALUE" in err) == (2, True)


def test_a_demo_that_cannot_be_written_is_wrong_input(tmp_path, capsys):
    (tmp_path / "file").write_bytes(b"")
    code, _, err = run(capsys, "demo", tmp_path / "file")
    assert (code, "TARGET: cannot write" in err) == (2, True)


def test_faults_are_one_json_object_with_json(simulated, tmp_path, capsys):
    table = pq.read_table(simulated)
    wrong = tmp_path / "wrong.parquet"
    pq.write_table(table.drop_columns(["tokens"]), wrong)
    for command in (
        ("check", "keywords", wrong, "--json"),
        ("keywords", wrong, tmp_path / "out", "--json", *RATE),
        ("count", wrong, tmp_path / "out", "--json"),
        ("show", tmp_path / "nothing", "--json"),
        ("score", tmp_path / "nothing", wrong, tmp_path / "out", "--json"),
    ):
        code, out, err = run(capsys, *command)
        printed = json.loads(out)
        assert code == printed["exit"] == 2
        assert printed["faults"]
        assert [f"vbflows: {line}" for line in printed["error"].splitlines()] == err.splitlines()
        for fault in printed["faults"]:
            assert {"file", "expected", "found"} <= set(fault)


@pytest.mark.thorough
def test_other_failures_are_one_json_object_too(simulated, tmp_path, capsys):
    run(capsys, "keywords", simulated, tmp_path / "out", *RATE)
    command = ("keywords", simulated, tmp_path / "out", *RATE, "--scheduler", "tcp://127.0.0.1:9")
    code, out, err = run(capsys, *command, "--json")
    assert code == json.loads(out)["exit"] == 1
    assert f"vbflows: {json.loads(out)['error']}" == err.strip()
    assert json.loads(out)["faults"] == []
    code, out, _ = run(capsys, "show", "--json", "--nonsense", "x")
    assert code == json.loads(out)["exit"] == 2
    assert "--nonsense" in json.loads(out)["error"]


def entered(folder, typer):
    """Run the command where importing typer does this."""
    (folder / "typer.py").write_text(typer)
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    env = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{root}"}
    return subprocess.run(
        [sys.executable, "-m", "flows.entry"], env=env, capture_output=True, text=True, check=False
    )


def test_an_interrupt_while_the_command_is_read_is_a_sentence(tmp_path):
    done = entered(tmp_path, "raise KeyboardInterrupt")
    assert done.returncode == 1
    assert done.stderr == "vbflows: interrupted before anything was computed\n"


def test_a_name_that_is_not_there_needs_no_library_that_reads(tmp_path):
    """A typo is reported at once: NumPy, Arrow and Prefect are not imported."""
    (tmp_path / "abstracts.csv").write_text("text\n")
    code = (
        "import sys\n"
        "from flows.cli import main\n"
        "try:\n"
        "    main(sys.argv[1:])\n"
        "finally:\n"
        "    print({'numpy', 'pyarrow', 'prefect'} & set(sys.modules))\n"
    )
    words = ("keywords", "abstract.csv", "none/*.csv", "other/b.csv", "out")
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "set()\n")
    assert done.stderr.splitlines() == [
        f"vbflows: abstract.csv: there is no such file or folder in {tmp_path}; did you mean "
        "abstracts.csv?",
        f"vbflows: other/b.csv: there is no such file or folder in {tmp_path}/other",
    ]


def test_a_bar_begins_again_with_every_stage_and_fits_a_terminal():
    text = io.StringIO()
    bar = Bar(Console(file=text, force_terminal=True, width=80))
    shown = []
    for event in (Stage("ingest"), Progress("ingest", 3, 3), Stage("fit"),
                  Sweep(0, -12_345.6789, None, 3.0, 100), Sweep(1, -12_344.0, 1.7, 2.0, 100),
                  Sweep(2, -12_343.0, 1.0, 9.0, 100, "phase 3 of 4 (moves)", 5.0),
                  Stage("score")):  # fmt: skip
        bar.on_event(event)
        bar._progress.refresh()
        (task,) = bar._progress.tasks
        shown.append((task.description, task.completed, task.total))
    bar.close()
    assert shown == [
        ("ingest (2 of 6)", 0, None), ("ingest (2 of 6)", 3, 3), ("fit (4 of 6)", 0, None),
        ("fit (4 of 6)", 1, 4.0), ("fit (4 of 6)", 2, 4.0), ("fit (4 of 6)", 3, 12.0),
        ("score (5 of 6)", 0, None),
    ]  # fmt: skip
    assert "sweep 2: bound -12,344.0000" in text.getvalue()
    assert "phase 3 of 4 (moves), sweep 3" in text.getvalue()


def test_a_line_says_the_phase_of_a_fit_and_what_is_left():
    text = io.StringIO()
    lines = Lines(Console(file=text, width=200), every=0.0)
    lines.on_event(Sweep(2, -12_343.0, 1.0, 9.0, 100, "phase 3 of 4 (moves)", 5.2))
    lines.on_event(Sweep(3, -5.0, None, None, 100, objective="log posterior"))
    assert text.getvalue().splitlines() == [
        "phase 3 of 4 (moves), sweep 3: bound -12,343.0000, change +1, about 5 s left",
        "sweep 4: log posterior -5.0000",
    ]


def test_json_has_null_for_what_is_no_number(capsys):
    print_json({"r_hat": float("inf"), "rows": [1, float("nan")], "b": "x"})
    assert capsys.readouterr().out == '{"b": "x", "r_hat": null, "rows": [1, null]}\n'


def test_names_are_printed_as_they_are(tmp_path, capsys):
    """Rich would make a picture of :cat: and of :100:."""
    folder = tmp_path / "a:cat:b 17:100:200"
    code, out, err = run(capsys, "simulate", "keywords", folder, "--rows", "3")
    assert (code, err) == (0, "")
    assert str(folder) in out
    _, _, err = run(capsys, "check", "keywords", folder / "none.parquet")
    assert str(folder) in err


def test_ctrl_c_in_a_callback_is_heeded_without_a_traceback(simulated, capsys, monkeypatch):
    """Python can raise nothing in a weak reference's callback: it prints, and goes on."""

    class Thing:
        pass

    def interrupts(_):
        raise KeyboardInterrupt

    def checks(*given, **more):
        thing = Thing()
        kept = weakref.ref(thing, interrupts)
        del thing
        for _ in range(1000):
            time.sleep(0.001)
        return kept

    monkeypatch.setattr("flows.runs.checking.look_at_files", checks)
    code, out, err = run(capsys, "check", "keywords", simulated)
    assert code == 1
    assert "interrupted before anything was computed" in err
    assert "Traceback" not in out + err
