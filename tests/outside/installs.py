"""Install the wheel into fresh environments and use it: ``python -m tests.outside.installs``.

One environment has the wheel alone, each other one extra, the last all that files may need.
What each must do, and must refuse with one sentence, is in `uses`. It needs uv; nothing of the
checkout can be imported by what runs. Prints a Markdown table, a row for each environment.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PIPELINES = ("keywords", "bags", "variants", "features", "experts")
FILES = "genomics,documents,languages,tables,imaging,cytometry"
EXTRAS = ("", *FILES.split(","), "gcs", "azure", "testing", FILES)


@dataclass(frozen=True)
class Use:
    """A command in an environment: its words, the exit code, and what it says."""

    words: tuple[str, ...]
    code: int = 0
    says: str = ""


def uses(extra: str, folder: Path) -> Iterator[Use]:
    """Yield what an environment with an extra is used for, and what it must refuse."""
    named = set(extra.split(","))
    yield Use(("python", "-c", "import vbflows, vbmodels"))
    yield Use(("python", str(ROOT / "examples" / "mixture.py")), says="of the rows")
    yield Use(("python", str(ROOT / "tests" / "outside" / "fits.py")))
    yield Use(("vbflows", "demo"), says="keyphrases")
    for pipeline in PIPELINES if "genomics" in named else (*PIPELINES[:2], *PIPELINES[3:]):
        source, target = str(folder / "in" / pipeline), str(folder / "out" / pipeline)
        yield Use(("vbflows", "simulate", pipeline, source, "--rows", "60"))
        yield Use(("vbflows", pipeline, source, target))
        yield Use(("vbflows", "show", target))
    keywords, bags = (str(folder / "in" / name) for name in ("keywords", "bags"))
    yield Use(("vbflows", "keywords", keywords, str(folder / "out" / "two"), "--workers", "2"))
    call = f"import vbflows; vbflows.bags(source={bags!r}, target='flow')"
    yield Use(("python", "-c", call))
    if "genomics" not in named:
        sheet = folder / "sheet.csv"
        sheet.write_text("sample,group,bam\na,case,a.bam\n")
        for words in (("count", str(sheet)), ("variants", str(sheet)), ("simulate", "variants")):
            use = ("vbflows", *words, str(folder / "counted"))
            yield Use(use, 2, "pip install 'vbflows[genomics]'")


class Wrong(Exception):
    """A use that did not go as it must."""


def carry_out(use: Use, venv: Path, folder: Path) -> None:
    """Run a command of an environment in a folder that holds nothing of ours."""
    hidden = ("PYTHON", "PREFECT", "VIRTUAL_ENV")
    env = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    done = subprocess.run(
        [str(venv / "bin" / use.words[0]), *use.words[1:]],
        env={**env, "HOME": str(folder), "OMP_NUM_THREADS": "1"},
        cwd=folder, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    text = done.stdout + done.stderr
    traceback = "Traceback" in text and use.words[0] == "vbflows"
    if done.returncode != use.code or use.says not in text or traceback:
        raise Wrong(f"{' '.join(use.words)}: exit {done.returncode}, not {use.code}\n{text}")


def row(python: str, wheel: Path, extra: str) -> list[str]:
    """Install an extra, use it, and return its row: version, extra, packages, size, seconds."""
    with tempfile.TemporaryDirectory(prefix="vbflows-install-") as made:
        venv, folder = Path(made) / "venv", Path(made) / "here"
        folder.mkdir()
        uv = [str(Path(sys.executable).parent / "uv")]
        subprocess.run([*uv, "venv", "--quiet", "--python", python, str(venv)], check=True)
        wanted = f"{wheel}[{extra}]" if extra else str(wheel)
        into = ["--quiet", "--python", str(venv / "bin" / "python")]
        subprocess.run([*uv, "pip", "install", *into, wanted], check=True)
        subprocess.run([*uv, "pip", "check", *into], check=True)
        listing = [*uv, "pip", "list", "--format", "json", *into]
        packages = json.loads(subprocess.run(listing, check=True, capture_output=True).stdout)
        size = sum(path.stat().st_size for path in venv.rglob("*") if path.is_file())
        began = time.monotonic()
        count = 0
        for use in uses(extra, folder):
            carry_out(use, venv, folder)
            count += 1
        seconds = time.monotonic() - began
        version = subprocess.run(
            [venv / "bin" / "python", "-c", "import platform; print(platform.python_version())"],
            check=True, capture_output=True, text=True,
        ).stdout.strip()  # fmt: skip
    figures = (len(packages) - 1, f"{size / 1e6:.0f} MB", count, f"{seconds:.0f} s")
    return [version, extra or "none", *map(str, figures)]


def main(words: Sequence[str] | None = None) -> int:
    """Install and use each extra; return 1 where something went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="interpreter of the environments")
    parser.add_argument("--wheel", type=Path, help="built from the checkout by default")
    parser.add_argument("--extra", action="append", help="one of them; all by default")
    given = parser.parse_args(words)
    wrong = 0
    print("| Python | extra | other packages | size | commands | took |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as made:
        wheel = given.wheel
        if wheel is None:
            build = [sys.executable, "-m", "build", "--wheel", "--outdir", made, str(ROOT)]
            subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
            wheel = next(Path(made).glob("*.whl"))
        for extra in given.extra or EXTRAS:
            try:
                print(f"| {' | '.join(row(given.python, wheel, extra))} |", flush=True)
            except (Wrong, subprocess.SubprocessError) as error:
                wrong += 1
                print(f"{extra or 'none'}: {error}", file=sys.stderr, flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
