"""Documents from end to end on two workers: CPU a document and stage, bytes written, memory.

    python -m benchmarks.keywords_scale FOLDER [--documents 100000] [--workers 2] [--set unit=word]

FOLDER has hulth, kdd and semeval2017 as Parquet files. A document is three to seven of their 15,413
sentences, drawn at random, so that no two are alike; its keyphrases are those of the sentences'
documents that stand in them, of which 28 % are known. Bytes are counted while the run goes, for
each byte of text: those of every file below ``work/`` when it was largest.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.million import measured

CORPORA = {"hulth": "gold_phrases", "kdd": "gold", "semeval2017": "gold"}
KNOWN = 0.28
LEAST, MOST = 3, 7
SHORTEST = 40
BLOCK = 10_000


def sentences(folder: Path) -> list[tuple[str, list[str]]]:
    """Return every sentence of the corpora with the keyphrases of its document that it has."""
    found = []
    for name, column in CORPORA.items():
        table = pq.read_table(folder / f"{name}.parquet")
        for text, gold in zip(table["text"].to_pylist(), table[column].to_pylist(), strict=True):
            for part in re.split(r"(?<=[.!?])\s+(?=[A-Z])", text):
                line = " ".join(part.split())
                if len(line) >= SHORTEST:
                    low = line.lower()
                    found.append((line, [term for term in gold if term.lower() in low]))
    return found


def write_documents(folder: Path, target: Path, documents: int, seed: int = 1) -> int:
    """Write documents of sentences drawn; return the characters of their texts."""
    lines, rng, characters = sentences(folder), np.random.default_rng(seed), 0
    writer = None
    for start in range(0, documents, BLOCK):
        rows: dict[str, list[Any]] = {"doc_id": [], "text": [], "keywords": []}
        for number in range(start, min(start + BLOCK, documents)):
            picked = [
                lines[i] for i in rng.integers(len(lines), size=rng.integers(LEAST, MOST + 1))
            ]
            terms = dict.fromkeys(term for _, gold in picked for term in gold)
            rows["doc_id"].append(f"document-{number:07d}")
            rows["text"].append(" ".join(line for line, _ in picked))
            rows["keywords"].append([term for term in terms if rng.random() < KNOWN])
        characters += sum(map(len, rows["text"]))
        block = pa.table(rows)
        writer = writer or pq.ParquetWriter(target, block.schema)
        writer.write_table(block)
    if writer is not None:
        writer.close()
    return characters


class Sizes(threading.Thread):
    """The most bytes below a folder's ``work`` at one time, by kind of file."""

    def __init__(self, target: Path) -> None:
        super().__init__(daemon=True)
        self.target, self.most = target, {}
        self.ended = threading.Event()

    def run(self) -> None:
        """Look every second until told to end."""
        while not self.ended.wait(1.0):
            for work in self.target.glob("runs/*/work"):
                with suppress(OSError):  # the run takes its folders away while they are looked at
                    self._look(work)

    def _look(self, work: Path) -> None:
        for kind in work.iterdir():
            size = sum(_size(file) for file in kind.rglob("*"))
            if kind.is_dir():
                self.most[kind.name] = max(self.most.get(kind.name, 0), size)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size if file.is_file() else 0
    except OSError:
        return 0


def main() -> None:
    """Draw, run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--set", action="append", default=[], help="a setting of the run")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "documents.parquet", Path(folder) / "out"
        characters = write_documents(given.folder, source, given.documents)
        watch = Sizes(target)
        watch.start()
        more = [word for one in given.set for word in ("--set", one)]
        found = measured("keywords", source, target, given.workers, more)
        watch.ended.set()
        watch.join()
    milli = 1e3 / given.documents
    stages = " | ".join(f"{name} {milli * cpu:.3f}" for name, cpu in found["stages"].items())
    sys.stdout.write(
        f"{given.documents:,} documents of {characters / given.documents:.0f} characters: exit "
        f"{found['exit']}, {found['wall']:.0f} s\n"
        f"CPU, ms a document: {stages} | whole {milli * found['cpu']:.3f}\n"
        f"most memory, MB: driver {found['driver'] / 1e6:.0f}, the largest others "
        f"{[round(n / 1e6) for n in found['others']]}, together {found['together'] / 1e6:.0f}\n"
        f"bytes below work/ for each of text: "
        + ", ".join(f"{k} {n / characters:.2f}" for k, n in sorted(watch.most.items()))
        + "\n"
    )


if __name__ == "__main__":
    main()
