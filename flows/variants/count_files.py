"""Files of counts: each names the count that it is of and how many files that has."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from flows.faults import Fault

_NAME = re.compile(r"(?P<count>.*counts-[0-9a-f]{8})-(?P<index>\d+)-of-(?P<files>\d+)\.parquet")


def file_name(mark: str, index: int, files: int) -> str:
    """Return the name of one file of a count.

    Parameters
    ----------
    mark
        Eight hexadecimal digits that are another count's only by chance.
    index
        Which file, from 0.
    files
        How many there are.

    >>> file_name("0123abcd", 3, 10)
    'counts-0123abcd-00003-of-00010.parquet'
    """
    return f"counts-{mark}-{index:05d}-of-{files:05d}.parquet"


def missing_files(urls: Sequence[str]) -> list[Fault]:
    """List counts of which files are missing: one that was ended, or a copy that was."""
    there: dict[tuple[str, int], set[int]] = defaultdict(set)
    for url in urls:
        found = _NAME.fullmatch(url)
        if found is not None:
            there[found["count"], int(found["files"])].add(int(found["index"]))
    return [
        Fault(
            file=f"{count}-*-of-{files:05d}.parquet",
            expected=f"all {files:,} files of this count",
            found=f"{len(indices):,}; file {min(set(range(files)) - indices)} is missing",
            remedy="count again into an empty folder, or copy all files",
        )
        for (count, files), indices in there.items()
        if len(indices) < files
    ]
