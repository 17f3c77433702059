"""Runs that do only what is new: what a run keeps for the next one, and what that reuses.

A run with ``since`` cuts every file on its own, so that an unchanged file gives unchanged
partitions. What ingest made of them is kept under ``runs/RUN/kept/``; its manifest says which rows
each partition is of and where its files are, which may be an earlier run's folder. What has been
removed is made again.

Partitions that share a file are read together, so that each of its bytes is decoded once. What a
group of partitions has become is kept as JSON in ``work/kept`` under a key of all that it depends
on, so that an attempt that resumes the run finds it, wherever that runs.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from pydantic import ValidationError

from flows import storage
from flows.family import Family, Ingested, WrongRows
from flows.faults import InputError, shown
from flows.fit.executor import in_threads
from flows.fit.job import digest_of
from flows.records import json_files
from flows.records.runs import PublishError, RunPaths, RunRecord, open_run
from flows.report.render import News
from flows.runs.context import KeptPart, Manifest, Run, Since
from flows.runs.resume import (
    CODE,
    LATEST,
    NON_SEMANTIC,
    cache_relevant,
    changed_keys,
    key_of,
    read_request,
)
from flows.settings import RunSettings
from flows.storage import DamagedError, InputFile, StorageError
from flows.tables.partition import Part, files_in
from vbmodels.core.algorithm import Continuable

log = logging.getLogger("vbflows.pipeline")

_FREE = NON_SEMANTIC | {"tol"}  # settings that change nothing that is kept
_PART = re.compile(r"part-(\d{5,})\.(\w+)")
_MOST_GROUPS = 64
_MANY = 64  # files of which each has partitions of its own


def find(run: Run) -> Since | None:
    """Find the run that one goes on from; for a resumed one that which it began with."""
    if run.since is None:
        return None
    if not run.since:  # a shell variable that is not set, say
        raise InputError.of("since", "latest, or the id of a run that finished", "nothing")
    if run.settings.partitions is not None:
        run.events.say("partitions has no effect with since: rows_per_partition cuts each file")
    began = read_request(run.paths) if run.is_resume and run.since == LATEST else None
    base = run.since if began is None or began.since is None else began.since
    since = look_up(run.family, run.paths.target, base, run.settings) if base else Since()
    if since.earlier is None:
        run.events.say(f"since {run.since}: {run.paths.target} has no earlier run, so all is read")
    return since


def look_up(family: Family, target: str, since: str, settings: RunSettings) -> Since:
    """Find the earlier run; refuse one that does not exist, or is of another pipeline."""
    if since == LATEST and not storage.exists(storage.join(target, "latest.json")):
        return Since()
    try:
        where = target if since == LATEST else RunPaths(target, since).root
    except PublishError as error:
        raise _refused("latest or the id of a run", shown(since)) from error
    try:
        paths, record = open_run(where)
    except PublishError as error:
        raise _refused("an earlier run that finished", error.faults[0].found) from error
    if record.pipeline != family.name:
        raise _refused(f"an earlier run of {family.name}", f"{paths.run_id}, of {record.pipeline}")
    if different := _differences(family, record, settings):
        note = f"Nothing of run {paths.run_id} could be used: it had {different}."
        return Since(record, notes=[note])
    base = Since(record, storage.join(paths.root, "posterior", "q.npz"))
    try:
        manifest = json_files.read(_manifest(paths), Manifest)
        base.known = {part.fingerprint: part for part in manifest.parts}
    except storage.TransientStorageError:
        raise
    except StorageError:
        base.notes.append(
            f"Run {paths.run_id} kept no partitions to reuse (without since, or by an earlier "
            "version), so all were read again."
        )
    if not storage.exists(base.start or ""):
        base.start = None
    return base


def unchanged(run: Run) -> RunPaths | None:
    """Return the latest run if this one would only repeat it: the same files, settings, version."""
    since = run.earlier
    if run.since != LATEST or run.is_resume or since is None or since.earlier is None:
        return None
    record, everything = since.earlier, frozenset[str]()
    if not (record.converged and since.start and since.known):
        return None
    before = cache_relevant(run.family.settings(**record.settings), everything)
    read = {(file.url, file.fingerprint) for file in record.inputs}
    if (
        before == cache_relevant(run.settings, everything)
        and {(file.url, file.fingerprint) for file in run.files} == read
        and {part.fingerprint for part in run.parts} == {*since.known}
    ):
        return RunPaths(run.paths.target, record.run_id)
    return None


def cut(run: Run) -> list[Part]:
    """Cut the input into partitions; with since, every file on its own or with those of its units.

    An unchanged file then gives unchanged partitions. Of more than `_MANY` files, small ones share
    partitions, and those that a partition of the earlier run held stay together.
    """
    family, files, checked, settings = run.family, run.files, run.checked, run.settings
    if run.earlier is None:
        return family.plan(files, checked, settings)
    alone = settings.model_copy(update={"partitions": None})
    groups = family.group_files(files, checked)
    if len(groups) > _MANY:
        groups = _packed(run, groups, alone)
    parts: list[Part] = []
    for group in sorted(groups, key=lambda g: min(files[i].url for i in g)):
        planned = family.plan([files[i] for i in group], [checked[i] for i in group], alone)
        parts += [Part(len(parts) + k, part.slices) for k, part in enumerate(planned)]
    return parts


def _packed(run: Run, groups: list[list[int]], settings: RunSettings) -> list[list[int]]:
    """Return groups of files with small files in groups of at most `_MANY`."""
    most = settings.rows_per_partition
    packed, small = [], dict[str, int]()
    for group in groups:
        if len(group) == 1 and run.checked[group[0]].rows < most:
            small[run.files[group[0]].url] = group[0]
        else:
            packed.append(group)
    known = {} if run.earlier is None else run.earlier.known
    for part in known.values():
        if part.urls and all(url in small for url in part.urls):
            members = [small[url] for url in part.urls]
            again = run.family.plan(
                [run.files[i] for i in members], [run.checked[i] for i in members], settings
            )
            if [new.fingerprint for new in again] == [part.fingerprint]:
                packed.append([small.pop(url) for url in part.urls])
    rows, together = 0, list[int]()
    for _, i in sorted(small.items()):
        if together and (len(together) == _MANY or rows + run.checked[i].rows > most):
            packed.append(together)
            rows, together = 0, []
        rows, together = rows + run.checked[i].rows, [*together, i]
    return [*packed, together] if together else packed


def ingest(run: Run) -> list[Ingested]:
    """Ingest the partitions; with since, reuse those that are known and keep all for the next."""
    since, parts = run.earlier, run.parts
    if since is None:
        return ingest_parts(run, parts)
    items = [(since.known[p.fingerprint], p.index) for p in parts if p.fingerprint in since.known]
    copied = run.each("ingest", _reuse, items, run.paths.work)
    taken = {index: kept for (kept, index), whole in zip(items, copied, strict=True) if whole}
    rest = [part for part in parts if part.index not in taken]
    made = ingest_parts(run, rest) if rest else []
    fresh = dict(zip((part.index for part in rest), made, strict=True))
    since.reused = len(taken)
    outputs = _outputs(run.paths.work)
    folders = {p.index: storage.join(run.paths.root, "kept", f"part-{p.index:05d}") for p in rest}
    to_keep = [(folders[p.index], p.index, outputs.get(p.index, [])) for p in rest]
    digests = run.each("ingest", _keep, to_keep, run.paths.work)
    for part, files in zip(rest, digests, strict=True):
        taken[part.index] = KeptPart(
            fingerprint=part.fingerprint,
            urls=list(dict.fromkeys(s.url for s in part.slices if s.start < s.stop)),
            folder=folders[part.index],
            files=files,
            ingested=fresh[part.index],
        )
    since.kept = [taken[part.index] for part in parts]
    return [kept.ingested for kept in since.kept]


def start_of(run: Run, model: Any) -> str | None:
    """Return the URL of the posterior that a fit starts near; None where it has none."""
    since = run.earlier
    if since is None or since.start is None:
        return None
    if not isinstance(model, Continuable):
        since.start = None
        since.notes.append("This model cannot start from an earlier posterior.")
    return since.start


def keep(run: Run) -> None:
    """Write the manifest."""
    if run.earlier is not None:
        json_files.write(_manifest(run.paths), Manifest(parts=run.earlier.kept))


def news_of(run: Run) -> News | None:
    """Return what is new since the run that this one went on from; None without one."""
    since = run.earlier
    if since is None or since.earlier is None:
        return None
    before = {record.url: record.fingerprint for record in since.earlier.inputs}
    now = {file.url: file.fingerprint for file in run.files}

    def names(urls: Iterable[str]) -> tuple[str, ...]:
        return tuple(url.rsplit("/", 1)[-1] for url in sorted(urls))

    return News(
        since.earlier.run_id,
        added=names(url for url in now if url not in before),
        changed=names(url for url in now if before.get(url, now[url]) != now[url]),
        gone=names(url for url in before if url not in now),
        partitions=len(since.kept),
        reused=since.reused,
        warm=since.start is not None,
    )


def _differences(family: Family, record: RunRecord, settings: RunSettings) -> str:
    """Name what keeps an earlier run from being gone on from; empty where nothing does."""
    theirs = record.versions.get("vbflows")
    if theirs != CODE:
        return f"vbflows {theirs}, this is {CODE}"
    try:
        before = family.settings(**record.settings)
    except ValidationError:
        return "settings that this version does not know"
    free = _FREE | settings.partitioning
    names = changed_keys(cache_relevant(before, free), cache_relevant(settings, free))
    return f"other settings ({', '.join(names)})" if names else ""


def _refused(expected: str, found: str) -> InputError:
    return InputError.of("since", expected, found, remedy="write latest, or name another run")


def _manifest(paths: RunPaths) -> str:
    return storage.join(paths.root, "kept", "manifest.json")


def runs_needed_by(paths: RunPaths) -> set[str]:
    """Return the runs of the same target whose folders hold a run's kept partitions."""
    if not storage.exists(_manifest(paths)):
        return set()
    try:
        manifest = json_files.read(_manifest(paths), Manifest)
    except DamagedError:
        return set()  # nothing can be reused from it
    above = storage.join(paths.target, "runs") + "/"
    urls = [part.folder for part in manifest.parts]
    return {url.removeprefix(above).partition("/")[0] for url in urls if url.startswith(above)}


def _outputs(work: str) -> dict[int, list[str]]:
    """Return the files of a run's working folders, by partition: ``folder.suffix``."""
    by_part: dict[int, list[str]] = {}
    for folder in storage.names(work):
        for name in storage.names(storage.join(work, folder)):
            match = _PART.fullmatch(name)
            if match:
                by_part.setdefault(int(match[1]), []).append(f"{folder}.{match[2]}")
    return by_part


def _working(work: str, name: str, index: int) -> str:
    folder, _, suffix = name.rpartition(".")
    return storage.join(work, folder, f"part-{index:05d}.{suffix}")


def _reuse(item: tuple[KeptPart, int], work: str) -> bool:
    """Copy what was kept to where this run works; say whether all of it was there and whole."""
    kept, index = item
    try:
        for name, digest in kept.files.items():
            url = storage.join(kept.folder, name)
            content = storage.read_bytes(url)
            if digest_of(content) != digest:
                log.warning("partition %d is read again: %s is damaged", index, url)
                return False
            storage.write_bytes(_working(work, name, index), content, durable=False)
    except storage.TransientStorageError:
        raise
    except StorageError as error:
        log.warning("partition %d is read again: %s", index, error)
        return False
    return True


def _keep(item: tuple[str, int, list[str]], work: str) -> dict[str, str]:
    """Store what ingest made of a partition; return the digest of each file."""
    folder, index, names = item
    digests = {}
    for name in names:
        content = storage.read_bytes(_working(work, name, index))
        storage.write_bytes(storage.join(folder, name), content)
        digests[name] = digest_of(content)
    return digests


class _Kept(json_files.Form):
    """What a group of partitions has become, and the key of what it was made of."""

    key: str
    result: list[Ingested]


class _Group(NamedTuple):
    """Partitions that one task ingests; ``contents``: small files that the check has fetched."""

    parts: Sequence[Part]
    key: str  # of all that the result depends on
    contents: Mapping[InputFile, bytes]


def ingest_parts(run: Run, parts: Sequence[Part]) -> list[Ingested]:
    """Ingest partitions wherever the run computes; return what became of each, in order."""
    settings = json.dumps(cache_relevant(run.settings))
    groups, count = [], min(_MOST_GROUPS, len(parts))
    for k in range(count):
        members = parts[len(parts) * k // count : len(parts) * (k + 1) // count]
        # With the index: what a part leaves is stored under it.
        marks = (f"{part.index}:{part.fingerprint}" for part in members)
        key = key_of("ingest", run.family.name, settings, *marks)
        contents = storage.small_files.to_send(files_in(members)) if run.compute.size else {}
        groups.append(_Group(members, key, contents))
    storage.delete(_mark(run.paths))  # of an attempt before
    try:
        by_group = run.each("ingest", _ingested, groups, run.family, run.settings, run.paths)
    finally:
        storage.release_decoded()
    return [result for group in by_group for result in group]


def _ingested(
    group: _Group, family: Family, settings: RunSettings, paths: RunPaths
) -> list[Ingested]:
    """Return what partitions have become: as an earlier attempt kept it, else made now and kept.

    Once some rows of the run were refused, the others are checked alone, and nothing is kept.
    """
    url = storage.join(paths.work, "kept", f"{group.key}.json")
    if storage.exists(url):
        try:
            kept = json_files.read(url, _Kept)
            if kept.key == group.key:
                return kept.result
        except storage.DamagedError as error:
            log.warning("a kept result is damaged and made again: %s", error)
    if storage.exists(_mark(paths)):
        return _made(group, family, settings, None)
    made = _Kept(key=group.key, result=_made(group, family, settings, paths))
    content = json_files.dumped(made)
    storage.write_bytes(url, content)
    if any(part.faults for part in made.result):
        storage.write_bytes(_mark(paths), b"")
    return json_files.parsed(content, _Kept, url).result  # as it will be read again


def _mark(paths: RunPaths) -> str:
    """Where it is marked that rows were refused."""
    return storage.join(paths.work, "refused")


def _made(
    group: _Group, family: Family, settings: RunSettings, paths: RunPaths | None
) -> list[Ingested]:
    """Ingest partitions; without ``paths``, and from one that is wrong on, check the rows alone."""
    files, made = files_in(group.parts), list[Ingested]()
    with storage.sharing(files, group.contents):
        for part in group.parts:
            storage.fetch_ahead([s.url for s in part.slices])
            try:
                if paths is None or any(m.faults for m in made):
                    made.append(Ingested(part.rows, 0, checked=family.check(part, settings)))
                else:
                    made.append(family.ingest(part, settings, paths))
            except InputError as error:
                pieces = error.pieces if isinstance(error, WrongRows) else ()
                made.append(Ingested(part.rows, 0, checked=pieces, faults=error.faults))
        # After reading: what was read is then what was looked at.
        _refuse_changed(files)
    return made


def _refuse_changed(files: Sequence[InputFile]) -> None:
    """Refuse files that have changed, looking at several at once; small ones came with a mark."""
    unsure = [file for file in files if not storage.small_files.has_seen(file)]
    looks = [partial(storage.refuse_changed, file.url, file.fingerprint) for file in unsure]
    in_threads(looks, storage.AT_ONCE)
