"""The main job on real input that every machine has: the packages installed right here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from typing import Any

import pyarrow as pa

from flows import storage
from flows.keywords.schema import DOCUMENTS
from flows.keywords.settings import KeywordSettings
from flows.run import run
from flows.settings import ComputeSettings
from vbmodels.text.cleaning import cleaned, without_markdown

KEYPHRASES, KEYPHRASES_SD = 8.0, 0.4  # a guess for a package, stated to the user
PER_DOCUMENT = 8
FALSE = 0.35  # most are right
BEGINS = (
    "Finding keyphrases of installed Python packages, given those that some authors list, and "
    f"a guess of {KEYPHRASES:g} a package."
)


def run_demo(target: str) -> tuple[dict[str, Any], str]:
    """Fit keyphrases of the installed packages; return the outcome, and what was read."""
    storage.check_writable(target)
    source = storage.join(storage.absolute(target), "packages.parquet")
    documents = installed_packages()
    storage.write_table(source, documents)
    settings = KeywordSettings(
        keyphrases=KEYPHRASES,
        rate_sd=KEYPHRASES_SD,
        select="fdr",
        fdr=FALSE,
        per_document=PER_DOCUMENT,
        rows_per_partition=50,
    )
    outcome = run("keywords", source, target, settings, ComputeSettings())
    known = sum(bool(keywords) for keywords in documents["keywords"].to_pylist())
    packages = f"{documents.num_rows} packages, {known} with keywords by their authors"
    return outcome, f"{packages}: {source}"


MAX_CHARACTERS = 20_000
"""Longest description that is read; what follows is mostly change logs."""


def installed_packages(packages: Iterable[Distribution] | None = None) -> pa.Table:
    """Return the packages of this environment as a table of documents.

    ``packages``: the packages to read; by default all that this interpreter can import.

    Returns
    -------
    documents
        ``doc_id`` (the package's name), ``text``, ``keywords`` (those that the text has; null for
        most: their authors gave none), sorted by name; of a package that is found twice the first
        is taken, as import does.
    """
    documents: dict[str, Any] = {}
    for package in distributions() if packages is None else packages:
        about: Any = package.metadata  # a message; its type does not say so
        name = about.get("Name") if about is not None else None
        if name:
            documents.setdefault(re.sub(r"[-_.]+", "-", name).lower(), about)
    rows = []
    for _, about in sorted(documents.items()):
        text = _text(about)
        listed = split_keywords(about.get("Keywords"))
        keywords = [word for word in listed if word.casefold() in text.casefold()] or None
        rows.append({"doc_id": about.get("Name"), "text": text, "keywords": keywords})
    schema = DOCUMENTS.arrow
    columns = [schema.field(name) for name in ("doc_id", "text", "keywords")]
    return pa.Table.from_pylist(rows, schema=pa.schema(columns))


def split_keywords(header: str | None) -> list[str]:
    """Split a ``Keywords:`` header: at commas or semicolons where it has any, else at spaces.

    >>> split_keywords("machine learning,statistics, Bayes,")
    ['machine learning', 'statistics', 'Bayes']
    >>> split_keywords("http web client")
    ['http', 'web', 'client']
    >>> split_keywords("['graphs', 'trees']")
    ['graphs', 'trees']
    """
    if not header or header.strip().upper() == "UNKNOWN":
        return []
    pieces = re.split(r"[,;\n]", header) if re.search("[,;]", header) else header.split()
    words = (" ".join(piece.split()).strip("[]()'\" ") for piece in pieces)
    return list(dict.fromkeys(word for word in words if word))


def _people(about: Any) -> list[str]:
    """Return the names of a package's authors and maintainers, which are no keywords of it."""
    headers = ("Author", "Author-email", "Maintainer", "Maintainer-email")
    text = ",".join(str(about.get(header) or "") for header in headers)
    names = (re.sub(r"<[^>]*>|\"", " ", piece).strip() for piece in re.split(r"[,;]| and ", text))
    return sorted({name for name in names if " " in name and "@" not in name}, key=len)[::-1]


def _text(about: Any) -> str:
    """Summary as the title, then the description as plain paragraphs, without people's names."""
    summary = about.get("Summary") or ""
    payload = about.get_payload() if hasattr(about, "get_payload") else None
    description = about.get("Description") or (payload if isinstance(payload, str) else "") or ""
    plain = cleaned(without_markdown(description[:MAX_CHARACTERS])).text
    for name in _people(about):
        plain = plain.replace(name, " ")
    parts = (part.strip() for part in (summary, plain))
    return "\n\n".join(part for part in parts if part and part.upper() != "UNKNOWN")
