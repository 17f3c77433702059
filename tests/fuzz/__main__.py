"""Replay the corpus, then damage files at random: ``python -m tests.fuzz --seconds 600``.

What fails is written to the corpus, from where every later run replays it.
"""

import argparse
import hashlib
import os
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from tests.fuzz.kinds import Kind, prepare
from tests.fuzz.mutate import damaged
from tests.fuzz.replay import Outcome, replay

CORPUS = Path(__file__).parent / "corpus"
MOST_KEPT = 200_000  # bytes of a case that is kept


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if every case went well."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--kind", default="", help="Only kinds in whose name this stands.")
    parser.add_argument("--keep", action="store_true", help="Write what fails into the corpus.")
    parser.add_argument("--cases", type=int, default=10**9, help="Most random cases.")
    parser.add_argument("--whole", action="store_true", help="Each case for all of its kinds.")
    given = parser.parse_args(arguments)
    seed = secrets.randbelow(2**32) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="vbflows-fuzz-") as name, threadpool_limits(1):
        folder = Path(name)
        os.environ["VBFLOWS_STAGING"] = str(folder / "staging")
        pa.set_cpu_count(1)
        began = time.monotonic()
        kinds = [k for k in prepare(folder) if given.kind in k.name]
        print(f"{len(kinds)} kinds of files after {time.monotonic() - began:.1f} s", flush=True)
        failed = _corpus(kinds, given.whole, np.random.default_rng(seed))
        failed += _random(kinds, seed, given.seconds, given.cases, given.keep)
    print(f"{failed} cases failed", flush=True)
    return 1 if failed else 0


def _corpus(kinds: Sequence[Kind], whole: bool, rng: np.random.Generator) -> int:
    """Replay every case of the corpus for a kind of file that it is of, or for all of these."""
    failed = count = 0
    for path in sorted(p for p in CORPUS.rglob("*") if p.is_file()):
        of = [kind for kind in kinds if path.parent.name in places_of(kind)]
        for kind in of if whole or not of else [of[int(rng.integers(0, len(of)))]]:
            count += 1
            outcome = replay(kind, path.read_bytes())
            failed += _told(kind, outcome, path.relative_to(CORPUS).as_posix())
    print(f"{count} cases of the corpus, {failed} failed", flush=True)
    return failed


def places_of(kind: Kind) -> set[str]:
    """Return the folders of the corpus whose cases are replayed for a kind.

    ``any-NAME`` has cases for every family's file of that name.
    """
    name = kind.file.rpartition("/")[2]
    return {kind.name, f"any-{name}", f"any-{name.rpartition('.')[2]}"}


def _random(kinds: Sequence[Kind], seed: int, seconds: float, cases: int, keep: bool) -> int:
    """Damage files until the time is over; every kind as often as any other."""
    rng = np.random.default_rng(seed)
    groups: dict[str, list[Kind]] = {}
    for kind in kinds:
        groups.setdefault(kind.name, []).append(kind)
    codes: Counter[int] = Counter()
    failed = count = 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and count < cases:
        group = groups[str(rng.choice(list(groups)))]
        kind = group[int(rng.integers(0, len(group)))]
        content = damaged(kind.file, kind.seed, rng)
        outcome = replay(kind, content)
        count += 1
        codes[outcome.code] += 1
        if _told(kind, outcome, f"case {count} of seed {seed}"):
            failed += 1
            if keep and len(content) < MOST_KEPT:
                place = CORPUS / kind.name
                place.mkdir(parents=True, exist_ok=True)
                (place / hashlib.sha256(content).hexdigest()[:12]).write_bytes(content)
    ends = ", ".join(f"{n} with {code}" for code, n in sorted(codes.items()))
    print(f"{count} random cases ended: {ends or 'none'}", flush=True)
    return failed


def _told(kind: Kind, outcome: Outcome, case: str) -> bool:
    if not outcome.wrong:
        return False
    print(f"FAILED {kind.name} {kind.file} ({case}): {outcome.wrong}")
    print("   " + "\n   ".join(outcome.printed.strip()[-1500:].splitlines()), flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
