"""The main job on real input that every machine has: the packages installed right here."""

from __future__ import annotations

from typing import Any

from flows import storage
from flows.keywords.input.metadata import installed_packages
from flows.keywords.settings import KeywordSettings
from flows.run import run
from flows.settings import ComputeSettings

KEYPHRASES, KEYPHRASES_SD = 8.0, 0.4  # a guess for a package, stated to the user
PER_DOCUMENT = 8
FALSE = 0.35  # most are right
BEGINS = (
    "Finding keyphrases of installed Python packages, given those that some authors list, and "
    f"a guess of {KEYPHRASES:g} a package."
)


def run_demo(target: str) -> tuple[dict[str, Any], str]:
    """Fit keyphrases of the installed packages; return the outcome, and what was read."""
    target = storage.absolute(target)
    source = storage.join(target, "packages.parquet")
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
    compute = ComputeSettings()
    outcome = run("keywords", source, target, settings, compute)
    known = sum(bool(keywords) for keywords in documents["keywords"].to_pylist())
    read = f"{documents.num_rows} packages, {known} with keywords by their authors: {source}"
    return outcome, read
