"""Surveys' columns: of several answers in a cell, such as "Bus; Train", and with "Not applicable".

Every answer that is not rare becomes a column of yes and no (`split_questions`). What sets answers
apart is found by where they stand in a cell: alone, first, between others or last. An answer to a
question of which several may be given stands here in one place and there in another; a part of one
answer ("Agree, strongly"), of a name or of an address does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from vbmodels.tables.cells import DASH, NOT_ASKED
from vbmodels.tables.columns import Rule
from vbmodels.tables.levels import Levels, beside_scale
from vbmodels.tables.seen import Seen

MARKS = (";", "|", "\n", ",")
"""What may set the answers of a cell apart."""
LEAST_CELLS = 5  # that have several answers
LONGEST = 1_000  # characters of a cell that may hold several answers
LEAST_MOVING = 2 / 3
"""Share, among the parts of cells with several, of those that stand in different places."""


@dataclass(frozen=True)
class Several:
    """A column whose cells hold several answers each.

    Attributes
    ----------
    mark
        What sets them apart.
    cells
        How many have more than one.
    counts
        Cells that have each answer, the most frequent first.
    """

    mark: str
    cells: int
    counts: Mapping[str, int]


def parts_of(cell: str, mark: str) -> list[str]:
    """Return what a mark sets apart in a cell, each once, without outer blanks or empty parts.

    >>> parts_of("Bus;Train; my own  horse;", ";")
    ['Bus', 'Train', 'my own horse']
    """
    if not mark or len(cell) > LONGEST:
        return [cell]
    parts = (" ".join(part.split()) for part in cell.split(mark))
    return list(dict.fromkeys(part for part in parts if part))


def has_answer(cell: str, rule: Rule) -> bool:
    """Say whether an answer is among those of a cell, whatever its case.

    >>> has_answer("bus; train", Rule("yes or no", mark=";", answer="Bus"))
    True
    """
    return rule.answer.casefold() in parts_of(cell.casefold(), rule.mark)


def part_counts(counts: Mapping[str, int], rule: Rule) -> dict[str, int]:
    """Return how many cells have each part, of cells that occur so often.

    >>> part_counts({"Bus": 9, "Bus;Train": 6, "-": 2}, Rule(mark=";"))
    {'Bus': 15, 'Train': 6}
    """
    totals: Counter[str] = Counter()
    for cell, count in counts.items():
        if cell not in (DASH, NOT_ASKED):
            totals.update(dict.fromkeys(parts_of(cell, rule.mark), count))
    return dict(totals)


def several_answers(counts: Mapping[str, int]) -> Several | None:
    """Return the answers of a column whose cells hold several; None where they do not.

    Parameters
    ----------
    counts
        How often each cell occurs.

    Examples
    --------
    >>> several_answers({"Bus": 9, "Train": 4, "Bus;Train;": 6}).counts
    {'Bus': 15, 'Train': 10}
    >>> several_answers({"Agree": 9, "No": 4, "Agree, strongly": 6, "No, strongly": 6}) is None
    True
    """
    by_mark = [_set_apart(counts, mark) for mark in MARKS if any(mark in cell for cell in counts)]
    return max(filter(None, by_mark), key=lambda answers: answers.cells, default=None)


def _set_apart(counts: Mapping[str, int], mark: str) -> Several | None:
    """Return the answers of a column, if a mark sets them apart; else None."""
    places: dict[str, Counter[str]] = {}
    several = 0
    for cell, count in counts.items():
        parts = [] if cell in (DASH, NOT_ASKED) else parts_of(cell, mark)
        between = ["between"] * (len(parts) - 2)
        named = ["first", *between, "last"] if len(parts) > 1 else ["alone"]
        several += count if len(parts) > 1 else 0
        for part, position in zip(parts, named, strict=False):
            places.setdefault(part, Counter())[position] += count
    together = {
        p: where.total() - where["alone"] for p, where in places.items() if where.total() > 1
    }
    moving = [part for part in together if len(+places[part]) > 1]
    enough = (
        several >= LEAST_CELLS
        and len(moving) > 1
        and sum(together[part] for part in moving) >= LEAST_MOVING * sum(together.values())
        and 2 * sum(places[part].total() for part in moving)
        >= sum(where.total() for where in places.values())
    )
    # Of the parts of one answer, which are equally frequent, the first is before the others.
    order = sorted(places.items(), key=lambda item: (-item[1].total(), item[1]["last"], item[0]))
    return Several(mark, several, {p: where.total() for p, where in order}) if enough else None


@dataclass(frozen=True)
class Split:
    """A table's columns after those of several answers became columns of yes and no.

    Attributes
    ----------
    rules, seen, levels
        By column, how it is read, what it holds, and its categories before they are read.
    source
        Of each column that is one answer, the column of the table that it is in.
    several
        By column of the table, its answers.
    """

    rules: dict[str, Rule] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)
    levels: dict[str, Levels] = field(default_factory=dict)
    source: dict[str, str] = field(default_factory=dict)
    several: dict[str, Several] = field(default_factory=dict)

    def in_words(self, name: str, called: str = "") -> str:
        """Say how a column of the table was split; ``called``: its name, where it has another."""
        answers = self.several[name]
        frequent = [self.rules[new].answer for new, source in self.source.items() if source == name]
        others = sorted(set(answers.counts) - set(frequent))
        examples = ", ".join(answer[:40] for answer in others[:3])
        cells = sum(answers.counts[answer] for answer in others)
        rare = f", {len(others):,} rare ones are not ({cells:,} cells, such as {examples})"
        return (
            f"{called or name}: {answers.cells:,} cells hold several answers, set apart by "
            f"{answers.mark!r}; {len(frequent)} answers are columns of yes and no"
            f"{rare if others else ''}."
        )


def split_questions(
    rules: Mapping[str, Rule],
    seen: Mapping[str, Seen],
    levels: Mapping[str, Levels],
    whole: Collection[str] = (),
    least: int = 0,
    most: int = 10_000,
) -> Split:
    """Return a table's columns with one of yes and no for each answer where cells hold several.

    What stands beside a scale, such as "Not applicable", is missing.

    Parameters
    ----------
    rules, seen, levels
        By column, how it is read, what it holds, and its categories.
    whole
        Columns that stay as they are.
    least, most
        Cells from which on an answer has a column, and how many answers have one.

    Examples
    --------
    >>> cells = Levels({"Bus": 9, "Train": 4, "Bus;Train": 6}, 0)
    >>> list(split_questions({"how": Rule()}, {"how": Seen(19)}, {"how": cells}).rules)
    ['how [Bus]', 'how [Train]']
    """
    split = Split()
    for name, rule in rules.items():
        column, may = seen[name], not seen[name].declared and name not in whole
        answers = several_answers(levels[name].counts) if may and rule.kind == "category" else None
        if answers is None:
            if may and (word := beside_scale(levels[name].counts)):
                remark = f"missing: {word!r} {levels[name].counts[word]:,}"
                rule = replace(rule, absent=word, remark=remark)
            split.rules[name], split.seen[name], split.levels[name] = rule, column, levels[name]
            continue
        split.several[name] = answers
        frequent = [answer for answer, cells in answers.counts.items() if cells >= max(least, 2)]
        for answer in frequent[:most]:
            new = f"{name} [{answer}]"
            split.rules[new] = Rule(
                "yes or no",
                dash_is_missing=rule.dash_is_missing,
                remark="one of several answers",
                mark=answers.mark,
                answer=answer,
                others=tuple(answers.counts),
            )
            split.seen[new] = Seen(
                column.cells, column.missing, ones=answers.counts[answer], words=column.words
            )
            split.levels[new], split.source[new] = levels[name], name
    return split
