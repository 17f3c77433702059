"""Record again what is said of every case: ``python -m tests.sentences``."""

import os
import sys
import tempfile
from pathlib import Path

from flows import preview
from tests.sentences.cases import CASES
from tests.sentences.said import FILE, known

HEAD = "What commands say of wrong and odd inputs; `python -m tests.sentences` records it.\n"


def record(chosen: str) -> None:
    """Run the cases whose names begin so, or all; keep what was said of the others."""
    found = known()
    preview._MOST_SECONDS = 0.0  # no time is recorded
    with tempfile.TemporaryDirectory() as root:
        os.environ["VBFLOWS_STAGING"] = str(Path(root) / "staging")
        for number, (name, said) in enumerate(CASES.items()):
            if name.startswith(chosen) or name not in found:
                folder = Path(root) / str(number)
                folder.mkdir()
                found[name] = said(folder)
    entries = (f"\n== {name}\n{found[name]}\n" for name in CASES)
    FILE.write_text(HEAD + "".join(entries), encoding="utf-8")


if __name__ == "__main__":
    record("".join(sys.argv[1:]))
