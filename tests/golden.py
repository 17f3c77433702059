"""What every pipeline publishes, by digest: recorded before a change that must not move a bit.

``python -m tests.golden record FILE`` before, ``python -m tests.golden compare FILE`` after, on
the same machine: the last bits are those of its processor and its libraries. Further arguments
are names of cases, or parts of them; all are run without any.
"""

import hashlib
import io
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from flows.settings import ComputeSettings
from tests.faults import journeys, pipelines

FORMS: dict[str, list[dict[str, object]]] = {
    "keywords": [
        {"unit": "phrase", "keyword_rate": None, "max_iter": 60},
        {"model": "vbss"},
        {"model": "vbss", "inference": "mean_field"},
    ],
    "bags": [
        {"model": "embedding", "max_iter": 400},
        {"model": "auto", "max_iter": 400},
        {"model": "auto", "max_iter": 400, "witness_memory": 0.0},
        {"inference": "mean_field", "max_iter": 400},
        {"inference": "gibbs", "draws": 10, "warmup": 3, "max_iter": 60},
        {"model": "gp_probit"},
        {"model": "gp_probit", "inference": "gibbs", "draws": 10, "warmup": 3, "max_iter": 60},
    ],
    "variants": [
        {"control": ""},
        {"test": "posterior_difference"},
        {"test": "sampled_difference", "rows": 40},
        {"max_iter": 300},
    ],
    "features": [
        {"variances": "each"},
        {"n_features": 6, "max_iter": 400},
        {"inference": "multinomial", "max_iter": 300},
    ],
    "experts": [
        {"inference": "additive", "max_iter": 400},
        {"prior": "mabn2"},
        {"inference": "mh", "draws": 10, "warmup": 4, "max_iter": 80},
    ],
}


def cases() -> dict[str, Callable[[Path], dict[str, bytes]]]:
    """Return what publishes something, by name."""
    made: dict[str, Callable[[Path], dict[str, bytes]]] = {}
    for name in sorted(pipelines.SETTINGS):
        for kind in journeys.JOURNEYS:
            made[f"{name} {kind}"] = lambda folder, n=name, k=kind: _journey(n, k, folder)
        made[f"{name} workers"] = lambda folder, n=name: _run(
            n, folder, ComputeSettings(workers=2, memory_limit="1GiB")
        )
        for form in FORMS[name]:
            text = " ".join(f"{key}={value}" for key, value in form.items())
            made[f"{name} {text}"] = lambda folder, n=name, f=form: _run(
                n, folder, ComputeSettings(), **f
            )
    return made


def _journey(name: str, kind: str, folder: Path) -> dict[str, bytes]:
    made = journeys.set_out(name, kind, folder, str(folder))
    if kind == "resume":
        made.begin()
        return pipelines.published(made.go())
    return made.expected


def _run(
    name: str, folder: Path, compute: ComputeSettings, rows: int | None = None, **changes: object
) -> dict[str, bytes]:
    source = pipelines.simulate(name, str(folder / "in"), rows)
    if str(changes.get("model")).startswith("gp_"):  # which know one kind of instance
        table = pq.read_table(source)
        pq.write_table(table.filter(pc.equal(table["modality"], "first")), source)
    return pipelines.published(pipelines.run(name, source, str(folder / "out"), compute, **changes))


def digests(chosen: list[str]) -> dict[str, dict[str, str]]:
    """Run the cases; return the digest of every file that each has published."""
    found = {}
    for name, case in cases().items():
        if chosen and not any(part in name for part in chosen):
            continue
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            journeys.quicken(patch)
            files = case(Path(folder))
        assert files, f"{name} has published nothing"
        found[name] = {file: digest(file, bits) for file, bits in files.items()}
        print(f"{name}: {len(files)} files", flush=True)
    return found


def digest(file: str, bits: bytes) -> str:
    """Return the digest of a file; of a state without the names of its classes."""
    if file.endswith(".npz"):
        with np.load(io.BytesIO(bits)) as arrays:
            parts = [(key, arrays[key]) for key in sorted(arrays.files) if key != "header"]
        bits = b"".join(f"{k}{a.dtype}{a.shape}".encode() + a.tobytes() for k, a in parts)
    return hashlib.sha256(bits).hexdigest()[:16]


def main(command: str, file: str, *chosen: str) -> int:
    """Record the digests in a file, or compare with it; return what the process exits with."""
    found = digests(list(chosen))
    if command == "record":
        Path(file).write_text(json.dumps(found, indent=1), encoding="utf-8")
        return 0
    known = json.loads(Path(file).read_text(encoding="utf-8"))
    other = [
        f"{case}: {name}"
        for case, files in found.items()
        for name in {**known[case], **files}
        if known[case].get(name) != files.get(name)
    ]
    print("\n".join(other) or f"{len(found)} cases have the same bits")
    return 1 if other else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
