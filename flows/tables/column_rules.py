"""How the columns of a table are read, by what all of their cells are and what settings say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flows.faults import Fault
from flows.settings.tables import TableSettings
from flows.tables.names import listed
from vbmodels.core.columns import Rule, Unclear, Wishes, rules_of
from vbmodels.core.seen import Seen


def column_rules(
    seen: Mapping[str, Seen], settings: TableSettings
) -> tuple[dict[str, Rule], dict[str, Unclear]]:
    """Return how every column is read, and why some cannot be: these as categories."""
    wishes = Wishes(settings.categories, settings.decimal, settings.thousands, settings.dates)
    return rules_of(seen, wishes)


def unknown_columns(names: Sequence[str], settings: TableSettings) -> list[Fault]:
    """Return a fault of every setting that names a column that is not there."""
    named = {"categories": list(settings.categories), "missing": settings.missing_columns()}
    own = {*names, *settings.columns.values(), "label"}
    return [
        Fault("settings", f"columns out of {listed(names)}", listed(absent), name)
        for name, given in named.items()
        if (absent := [one for one in given if one not in own])
    ]


def unclear_faults(
    where: str, unclear: Mapping[str, Unclear], settings: TableSettings
) -> list[Fault]:
    """Return a fault of every column that cannot be read."""
    return [
        Fault(where, one.expected, one.found, settings.columns.get(name, name),
              remedy=one.remedy.replace("COLUMN", name))
        for name, one in unclear.items()
    ]  # fmt: skip
