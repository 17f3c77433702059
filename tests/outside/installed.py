"""An example package installed with vbflows, run as its author would: without our fixtures."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LDA = ROOT / "examples" / "vbflows_lda"
COUNTS = ROOT / "tests" / "outside" / "vbflows_counts"


@dataclass(frozen=True)
class Outside:
    """A folder outside of the checkout, with the package's own place next to it."""

    folder: Path
    site: Path

    def run(self, module: str, *words: object) -> subprocess.CompletedProcess[str]:
        """Run ``python -m module words`` in the folder."""
        path = os.pathsep.join([str(self.site), str(ROOT)])
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        return subprocess.run(
            [sys.executable, "-m", module, *map(str, words)],
            env={**env, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )

    def vbflows(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Run the command ``vbflows``."""
        return self.run("flows.entry", *words)


def installed(package: Path, folder: Path) -> Outside:
    """Install a package from a copy of its sources, from nowhere but here."""
    ignore = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    shutil.copytree(package, folder / "source", ignore=ignore)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run(
        [*pip, "--no-build-isolation", "--target", folder / "site", folder / "source"], check=True
    )
    (folder / "here").mkdir()
    return Outside(folder / "here", folder / "site")
