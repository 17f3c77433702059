"""What the Dockerfile's build stage does, in a folder instead of an image."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.conftest import ROOT
from tests.deploy.test_files import instructions, words


def stages():
    """Return the instructions of each stage."""
    found = []
    for first, rest in instructions():
        if first == "FROM":
            found.append([])
        else:
            found[-1].append((first, rest))
    return found


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_environment_of_the_image_is_complete(tmp_path):
    """Needs a package index: pip's own settings say which."""

    def here(text):
        return text.replace("/venv", f"{tmp_path}/venv").replace("/build", f"{tmp_path}/build")

    env = {**os.environ, "PIP_NO_CACHE_DIR": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    env.pop("PYTHONPATH", None)
    for first, rest in stages()[0]:
        if first == "COPY":
            *sources, target = rest.split()
            for source in sources:
                place = Path(here(target))
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, place)
                else:
                    place = place / Path(source).name if target.endswith("/") else place
                    place.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(ROOT / source, place)
        elif first == "RUN":
            done = subprocess.run(
                ["sh", "-c", here(rest)], env=env, cwd=tmp_path, capture_output=True, text=True,
                check=False,
            )  # fmt: skip
            if "Could not find a version" in done.stderr or "ConnectionError" in done.stderr:
                pytest.skip(f"no package index can be reached: {done.stderr[-300:]}")
            assert done.returncode == 0, done.stderr
    binaries = tmp_path / "venv" / "bin"
    clean = {**env, "PATH": f"{binaries}:/usr/bin:/bin", "HOME": str(tmp_path)}
    for command in ("vbflows --help", "prefect version", "dask --version"):
        ((program, *given),) = words(["sh", "-c", command])
        done = subprocess.run(
            [str(binaries / program), *given], env=clean, cwd=tmp_path, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (command, done.stderr)
    done = subprocess.run(
        [str(binaries / "vbflows"), "simulate", "bags", str(tmp_path / "in"), "--rows", "40"],
        env=clean, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    done = subprocess.run(
        [str(binaries / "vbflows"), "bags", f"{tmp_path}/in/bags.parquet", "out",
         "--no-record", "--set", "max_iter=5"],
        env=clean, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "latest.json").exists()
