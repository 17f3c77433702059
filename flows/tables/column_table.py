"""The table of columns as it is printed, and what it suggests."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from flows.settings.tables import TableSettings
from flows.tables.names import listed, option, shown_names
from flows.tables.table import Table, matches
from vbmodels.tables.answers import several_answers
from vbmodels.tables.column_table import ColumnRead
from vbmodels.tables.columns import (
    NumberForm,
    Reason,
    Rule,
    doubtful,
    looks_like_design,
    looks_like_weight,
    number_forms,
)
from vbmodels.tables.levels import LIKE_MISSING, Levels
from vbmodels.tables.seen import DECIMAL_COMMA, Seen, sentinels_of

_MOST_WIDTH, _KIND_WIDTH, _LEAST_WIDTH, _SHORT = 44, 56, 8, 12  # characters of terminals' cells
_FEW, _LIKE = 30, 3  # columns that have a line each; numbered ones that join another beyond that


def suggestions(
    seen: Mapping[str, Seen],
    levels: Mapping[str, Levels],
    used: Sequence[str],
    numbers: Sequence[str] = (),
    *,
    weighs: bool = False,
) -> list[str]:
    """Say what of a table's columns looks as if the user should say more about it.

    Parameters
    ----------
    seen
        What columns hold.
    levels
        Categories of columns of categories.
    used
        The columns that are used.
    numbers
        Others of numbers.
    weighs
        Whether the pipeline can weigh rows.
    """
    lines = []
    codes: dict[str, dict[str, int]] = {}
    for name in used:
        for word, count in sentinels_of(seen[name]).items():
            codes.setdefault(word, {})[name] = count
    words: dict[str, dict[str, int]] = {}
    for name in used:
        for level, count in (levels[name].counts if name in levels else {}).items():
            if LIKE_MISSING.fullmatch(level):
                words.setdefault(level, {})[name] = count
    for by_word, what in ((codes, "codes of missing cells"), (words, "words for missing cells")):
        if by_word:
            listed = ", ".join(
                f"{word} ({sum(columns.values()):,} cells in {_some(list(columns))})"
                for word, columns in list(by_word.items())[:6]
            )
            lines.append(
                f"These look like {what}, and are read as values: {listed}. If they are, "
                f"{_missing_setting(by_word, [seen[name].sentinels for name in seen])}."
            )
    weights = [name for name in (*used, *numbers) if looks_like_weight(name)]
    if weights:
        by = f"{option('--column', f'weight={weights[0]}')} weighs rows by it, " if weighs else ""
        more = "" if weighs else "; this pipeline does not weigh rows"
        lines.append(
            f"Column {weights[0]} looks like survey weights{more}: {by}"
            f"{option('--exclude', weights[0])} leaves it out."
        )
    design = [name for name in (*used, *numbers) if looks_like_design(name)]
    if design:
        lines.append(
            f"{_some(design)} looks like a survey's design, which is not modelled: "
            f"{option('--exclude', ','.join(design))} leaves it out."
        )
    several = [name for name in used if name in levels and several_answers(levels[name].counts)]
    lines += (
        [f"Cells hold several answers each: {_some(several)}; make each answer a column."]
        if several
        else []
    )
    lines += _spellings(levels, used)
    return lines


def numbers_in_text(seen: Mapping[str, Seen], rules_of: Mapping[str, Rule]) -> list[str]:
    """Say which numbers are written otherwise than computers do, and as what they were read."""
    forms: dict[str, list[tuple[str, NumberForm]]] = {}
    for name, rule in rules_of.items():
        for form in number_forms(seen[name], rule):
            forms.setdefault(form.name, []).append((name, form))
    lines = []
    for what, pairs in forms.items():
        cells, (_, first) = sum(form.count for _, form in pairs), pairs[0]
        lines.append(
            f"numbers with {what}: {cells:,} cell{'' if cells == 1 else 's'} of "
            f"{_some([name for name, _ in pairs])}, such as {_cell(first.cell, first.where)}, read "
            f"as {first.value:.12g}"
        )
    return lines


def doubtful_numbers(
    seen: Mapping[str, Seen], rules_of: Mapping[str, Rule], settings: TableSettings
) -> list[str]:
    """Warn of commas that may be a decimal sign or set thousands apart."""
    if settings.decimal or settings.thousands:
        return []
    lines = []
    for name, rule in rules_of.items():
        form = doubtful(seen[name], rule)
        if form is None:
            continue
        more = f" ({form.count - 1:,} more cells like it)" if form.count > 1 else ""
        line = f"{name}: {_cell(form.cell, form.where)}{more} is read as {form.value:.12g}"
        if rule.decimal == ".":
            line += "; if the comma is a decimal sign, --set decimal=,."
        elif DECIMAL_COMMA in seen[name].examples:
            sure = _cell(*seen[name].examples[DECIMAL_COMMA])
            line += (
                f", since {sure} has a decimal comma; if that is wrong, write the column's "
                "numbers in one way."
            )
        else:
            line += ", as semicolons or other columns suggest: --set thousands=, reads thousands."
        lines.append(line)
    return lines


def _cell(text: str, where: str) -> str:
    """Write a cell and where it is, blanks of any width as plain ones."""
    plain = repr(re.sub(r"\s", " ", text))
    return f"{plain} in {where}" if where else plain


def _missing_setting(
    by_word: Mapping[str, Mapping[str, int]], numbers: Sequence[Mapping[str, int]]
) -> str:
    """Return the setting that names words of missing cells, as it is typed.

    By column, where another column has one of them as a number.
    """
    if all(sum(word in s for s in numbers) <= len(counts) for word, counts in by_word.items()):
        return f"--set {shlex.quote('missing=' + ','.join(by_word))}"
    by: dict[str, list[str]] = {}
    for word, columns in by_word.items():
        for name in columns:
            by.setdefault(name, []).append(word)
    parts = (f"{name}:{','.join(words)}" for name, words in by.items())
    return f"--set {shlex.quote('missing=' + ','.join(parts))}"


def _spellings(levels: Mapping[str, Levels], used: Sequence[str]) -> list[str]:
    groups = {name: _alike(levels[name].counts) for name in used if name in levels}
    several = [f"{name} ({' and '.join(map(repr, g[:3]))})" for name, g in groups.items() if g]
    if not several:
        return []
    return [f"Levels that differ by case or blanks stay apart: {_some(several)}."]


def _alike(levels: Iterable[str]) -> list[str]:
    """Return levels that differ by case or blanks alone."""
    alike: dict[str, list[str]] = {}
    for level in levels:
        alike.setdefault(" ".join(level.casefold().split()), []).append(level)
    return next((group for group in alike.values() if len(group) > 1), [])


def _some(names: Sequence[str]) -> str:
    return listed(names, 8)


def summary(columns: Sequence[ColumnRead]) -> list[str]:
    """Say which columns were used or left out and why."""
    if not columns:
        return []
    used = [c for c in columns if not c.left_out]
    roles = [c for c in used if c.used.startswith(LABEL)]
    features = any(c.used == FEATURE for c in used)
    named = [c for c in used if features and c.used != FEATURE and c not in roles]
    plain = [c for c in used if c not in (*roles, *named)]
    counted = ", ".join(f"{n} {kind}" for kind, n in Counter(map(kind_of, plain)).items())
    total = len(columns) - len(roles) - len(named)
    what = "features" if features else "columns"
    line = f"{what}: {len(plain)} of {total} used ({counted})" if plain else f"{what}: none"
    lines = ["; ".join([line, *(f"{c.used}: {c.name}" for c in named)])]
    lines += [f"label: {c.name} ({c.read_as})" for c in roles]
    reasons: dict[str, list[str]] = {}
    for c in columns:
        if c.left_out:
            reasons.setdefault(str(c.reason), []).append(c.name)
    return lines + [f"left out: {_some(names)} ({why})" for why, names in reasons.items()]


def kind_of(column: ColumnRead) -> str:
    """Return as what a column was read, without what is not plain of it."""
    return column.read_as.partition(" (")[0]


def id_option(name: str) -> str:
    """Return the option that names rows by a column; empty where its name is too long to repeat.

    >>> id_option("id of row"), id_option("a" * 3000)
    ("--column 'id=id of row'", '')
    """
    return f"--column {shlex.quote(f'id={name}')}" if len(name) <= _LONGEST else ""


_LONGEST = 60  # letters of a name that a hint repeats
FEATURE = "feature"
"""The use of a column that is one of the features, where other columns have a name of their own."""
LABEL = "label"
"""What the use of a column begins with that holds the label."""
HEADINGS = ("column", "read as", "missing", "holds", "used")


def declared(
    table: Table, files: Sequence[Sequence[str]], called: Mapping[str, str]
) -> tuple[ColumnRead, ...]:
    """Return all files' columns by what a table calls them that declares all that is read."""
    none = ("", Reason("other", f"no column of {table.name} is called so"))
    ours: dict[str, tuple[str, str | Reason]] = {
        called.get(c.name, c.name): (str(c.type), c.name) for c in table.columns
    }
    has = Counter(name for names in files for name in dict.fromkeys(names))
    columns = []
    for name, count in has.items():
        whole = next((p for p in ours if name != p and matches(name, p)), name)
        kind, use = ours.get(name, ours.get(whole, none))
        extent = f"in {count:,} of {len(files):,} files" if count < len(files) else ""
        columns.append(ColumnRead.of(name, kind, None, extent, use))
    return tuple(columns)


def _cut(text: str, most: int = _MOST_WIDTH) -> str:
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def _grouped(columns: Sequence[ColumnRead]) -> list[ColumnRead]:
    """Put numbered columns that were read alike in one line, such as ``q1 to q9 (9)``."""
    grouped = []
    for _, group in groupby(
        columns, lambda c: (c.read_as, c.missing, c.used, re.sub(r"\d+", "", c.name))
    ):
        first, *rest = group
        if len(rest) >= _LIKE:
            name = f"{first.name} to {rest[-1].name} ({len(rest) + 1})"
            holds = first.holds if {c.holds for c in rest} == {first.holds} else ""
            first, rest = replace(first, name=name, holds=holds), []
        grouped += [first, *rest]
    return grouped


def in_lines(columns: Sequence[ColumnRead], most: int = 60, width: int = 0) -> list[str]:
    """Return the table as lines of a terminal that is ``width`` wide (0: any width).

    Long names are without what they have in common, see `flows.tables.names.shown_names`.
    """
    if not columns:
        return []
    names = shown_names([c.name for c in columns])
    columns = [
        replace(c, name=name) if len(c.name) > _MOST_WIDTH else c
        for c, name in zip(columns, names, strict=True)
    ]
    columns = _grouped(columns) if len(columns) > _FEW else columns
    cells = [
        HEADINGS,
        *(
            (c.name, c.read_as, "" if c.missing is None else f"{c.missing:,}", c.holds, c.used)
            for c in columns[:most]
        ),
    ]
    most_of = (_MOST_WIDTH, _KIND_WIDTH, _MOST_WIDTH, _MOST_WIDTH)
    widths = [min(max(len(row[i]) for row in cells), most_of[i]) for i in range(4)]
    room = (width or 10 * _MOST_WIDTH) - sum(widths[:3]) - 8
    uses = [HEADINGS[4], *(c.used for c in columns[:most] if not c.left_out)]
    plain = max(min(len(use), _SHORT) for use in uses)
    widths[3] = min(widths[3], max(room - plain, _LEAST_WIDTH))
    empty = {i for i in (2, 3) if not any(row[i] for row in cells[1:])}  # not counted
    lines = []
    for name, kind, missing, holds, used in cells:
        # Less where the reason is long.
        fit = min(widths[3], max(room - min(len(used), max(room // 2, _SHORT)), _LEAST_WIDTH))
        long = used.startswith(LABEL) and len(used) > room - fit
        parts = [_cut(name).ljust(widths[0]), kind.ljust(widths[1])]
        parts += [missing.rjust(widths[2]), _cut(holds, fit).ljust(fit), LABEL if long else used]
        lines.append("  ".join(p for i, p in enumerate(parts) if i not in empty).rstrip())
        if long or (used.startswith(LABEL) and len(holds) > fit):
            lines.append(f"  {used}; {holds}" if long else f"  {holds}")
    if len(columns) > most:
        lines.append(f"and {len(columns) - most:,} columns more; all are in --json")
    return lines
