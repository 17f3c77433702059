"""Ingest: every partition read, cleaned and stored; what is finished is not done again.

Partitions that share a file are read together, so that each of its bytes is decoded once. What a
group of partitions has become is kept as JSON in ``work/kept`` under a key of all that it depends
on, so that an attempt that resumes the run finds it, wherever that runs.
"""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from flows.data import json_files, storage
from flows.data.partition import Part
from flows.data.runs import RunPaths
from flows.family import Family, Ingested, reading_of
from flows.faults import InputError
from flows.runs.context import Run
from flows.runs.resume import key_of, that_matter
from flows.settings import RunSettings

_MOST_GROUPS = 64
_INGESTED: TypeAdapter[list[Ingested]] = TypeAdapter(list[Ingested])
_log = logging.getLogger("vbflows.pipeline")


class _Kept(json_files.Form):
    """What a group of partitions has become, and the key of what it was made of."""

    key: str
    result: Any


@dataclass(frozen=True)
class _Group:
    """Neighbouring partitions, and where what they become is kept."""

    parts: list[Part]
    url: str
    key: str


def ingest_parts(run: Run, parts: Sequence[Part]) -> list[Ingested]:
    """Ingest partitions wherever the run computes; return what became of each, in order."""
    settings = json.dumps(that_matter(run.settings))
    folder = storage.join(run.paths.work, "kept")
    groups = []
    for own in _cut(parts, _MOST_GROUPS):
        # With the index: what a part leaves is stored under it.
        of = (f"{part.index}:{part.fingerprint}" for part in own)
        key = key_of("ingest", run.family.name, settings, *of)
        groups.append(_Group(own, storage.join(folder, f"{key}.json"), key))
    try:
        found = run.each("ingest", _ingested, groups, run.family, run.settings, run.paths)
    finally:
        storage.decoded.release()
    return [result for group in found for result in group]


def _cut(parts: Sequence[Part], most: int) -> list[list[Part]]:
    count = min(most, len(parts))
    cuts = [len(parts) * i // count for i in range(count + 1)]
    return [list(parts[a:b]) for a, b in itertools.pairwise(cuts)]


def _ingested(
    group: _Group, family: Family, settings: RunSettings, paths: RunPaths
) -> list[Ingested]:
    """Return what a group has become: as an earlier attempt kept it, else made now and kept."""
    if storage.exists(group.url):
        try:
            kept = json_files.read(group.url, _Kept)
            if kept.key == group.key:
                return _INGESTED.validate_json(to_json(kept.result))
        except (storage.DamagedError, ValueError) as error:
            _log.warning("a kept result is damaged and made again: %s", error)
    text = _INGESTED.dump_json(_made(group.parts, family, settings, paths))
    json_files.write(group.url, _Kept(key=group.key, result=from_json(text)))
    return _INGESTED.validate_json(text)  # as it will be read again


def _made(
    parts: Sequence[Part], family: Family, settings: RunSettings, paths: RunPaths
) -> list[Ingested]:
    files = {s.url: s.fingerprint for part in parts for s in part.slices}
    try:
        with storage.sharing(files), reading_of(family, settings):
            results = [family.ingest(part, settings, paths) for part in parts]
    except InputError:
        _refuse_changed(files)  # what changes while it is read looks wrong
        raise
    # Looked at after reading: what was read is then what was looked at.
    _refuse_changed(files)
    return results


def _refuse_changed(files: Mapping[str, str]) -> None:
    for url, fingerprint in sorted(files.items()):
        storage.refuse_changed(url, fingerprint)
