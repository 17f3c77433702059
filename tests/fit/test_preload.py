"""The process that local workers are forked from: what it has, and when it ends."""

import os
import subprocess
import sys

import psutil
import pytest

SCRIPT = """
import multiprocessing, sys
from multiprocessing import forkserver
import psutil
from flows.fit import preload

def loaded(answer):
    answer.send([name in sys.modules for name in ("flows.read.rows", *preload.OF_ALL[:2])])

def main():
    server = forkserver._forkserver
    try:
        with preload.started("flows.family"):
            first = server._forkserver_pid
            assert psutil.pid_exists(first)
            raise LookupError
    except LookupError:
        assert not psutil.pid_exists(first)
    with preload.started("flows.events"):
        second = server._forkserver_pid
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("forkserver").Process(target=loaded, args=(there,))
    process.start()
    assert here.recv() == [False, True, True]
    process.join()
    try:
        with preload.started("flows.family"):
            raise LookupError
    except LookupError:
        assert psutil.pid_exists(second), "others use it"
    print("done")

if __name__ == "__main__":
    main()
"""


def test_it_has_what_workers_need_and_ends_where_what_started_it_fails(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert (run.returncode, run.stdout, run.stderr) == (0, "done\n", "")


def test_a_refused_command_leaves_no_process(tmp_path):
    (tmp_path / "bags.csv").write_text("a,b\n1,2\n")
    command = [sys.executable, "-m", "flows.entry", "bags", tmp_path / "bags.csv", tmp_path / "out"]
    with subprocess.Popen([*command, "--workers", "2"], start_new_session=True) as run:
        assert run.wait(timeout=300) == 2
        left = [p for p in psutil.process_iter(["cmdline"]) if _session(p.pid) == run.pid]
    assert not [p for p in left if "forkserver" in " ".join(p.info["cmdline"] or ())]
    assert not (tmp_path / "out").exists()


def _session(pid):
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


LATE = """
import sys
from multiprocessing import get_context, synchronize
from flows.fit import preload

def main():
    preload.start("flows.events")
    context = get_context("forkserver")
    lock = context.Lock()
    process = context.Process(target=print, args=(lock,) if sys.argv[1] == "lock" else (Broken(),))
    if sys.argv[1] == "lock":
        synchronize._multiprocessing.sem_unlink(lock._semlock.name)
    process.start()
    process.join()
    synchronize.sem_unlink = lambda name: None  # of a lock that is gone

class Broken:
    def __setstate__(self, state):
        open("/nowhere/at/all")
    def __getstate__(self):
        return {"a": 1}

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(("what", "shown"), [("lock", False), ("file", True)])
def test_a_worker_that_comes_up_after_the_end_of_its_run_says_nothing(tmp_path, what, shown):
    """Its nanny started it in place of one that died; the run's semaphores are gone by then."""
    script = tmp_path / "script.py"
    script.write_text(LATE)
    run = subprocess.run(
        [sys.executable, script, what], capture_output=True, text=True, timeout=300
    )
    assert ("Traceback" in run.stderr) is shown, run.stderr
