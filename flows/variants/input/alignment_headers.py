"""What the headers of BAM and CRAM files say otherwise than the sample sheet or the FASTA."""

from __future__ import annotations

import os
from collections.abc import Sequence

from flows import storage
from flows.variants.input.sample_sheet import Alignment, role_of_name
from flows.variants.reads.alignments import open_alignment, quiet
from flows.variants.reads.regions import Region, in_file, renamed
from flows.variants.settings import VariantSettings

_MOST_NAMED = 4  # files in a sentence


def header_warnings(
    files: Sequence[Alignment], wanted: Sequence[Region], settings: VariantSettings
) -> list[str]:
    """Say where read groups name other samples than the sheet, and contigs have other names.

    A sheet's sample that is named by its role, such as "tumour", may be anybody; its read groups
    may not name another sample of the sheet.
    """
    contigs = list(dict.fromkeys(region.contig for region in wanted))
    named = {file.sample for file in files}
    other, several = [], []
    named_alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for file in files:
        name = os.path.basename(storage.shown(file.path))
        with quiet(), open_alignment(file.path, settings, indexed=False) as opened:
            groups = opened.header.to_dict().get("RG", [])
            pairs = [(in_file(c, opened.references), c) for c in contigs]
        differ = tuple((own, c) for own, c in pairs if own is not None and own != c)
        named_alike.setdefault(differ, []).append(name)
        of = sorted({str(group["SM"]) for group in groups if group.get("SM")})
        if len(of) > 1:
            several.append(
                f"{name} has reads of {len(of)} samples ({', '.join(of[:_MOST_NAMED])}), "
                f"counted together as {file.sample} {file.replicate}."
            )
        elif of and of[0] != file.sample and (role_of_name(file.sample) is None or of[0] in named):
            other.append(f"{name} has {of[0]} for {file.sample}")
    taken = [one for pairs, names in named_alike.items() for one in renamed(_files(names), pairs)]
    found = several[:_MOST_NAMED] + taken[:_MOST_NAMED]
    if other:
        more = f", and {len(other) - _MOST_NAMED} more" if len(other) > _MOST_NAMED else ""
        found.append(
            f"Read groups (SM) name other samples than the sheet: {'; '.join(other[:_MOST_NAMED])}"
            f"{more}. Are files exchanged?"
        )
    return found


def _files(names: Sequence[str]) -> str:
    """Name a file, or say how many there are, with the first as an example.

    >>> _files(["a.bam"]), _files(["a.bam", "b.bam"])
    ('a.bam', '2 files (such as a.bam)')
    """
    return names[0] if len(names) == 1 else f"{len(names):,} files (such as {names[0]})"
