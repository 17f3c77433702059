"""Tables of bags and instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from flows.tables.table import (
    ANY,
    FLAG,
    HELD_OUT,
    HIGH,
    INT8,
    INT64,
    LOW,
    NUMBER,
    NUMBERS,
    SD,
    TEXT,
    WORDS,
    Column,
    PositiveLabel,
    Table,
    list_of,
    optional,
)
from vbmodels.core.options import LARGEST

if TYPE_CHECKING:
    from flows.bags.settings import BagSettings

INSTANCES_IN = Table(
    "bags",
    "Instances of labelled bags, one a row; a row without features is a bag's own.",
    (
        Column("bag_id", TEXT, "name of the bag", accepts=(INT64,), names="bag"),
        optional(
            "instance_id",
            TEXT,
            "name, unique in its bag and modality; its place when absent",
            accepts=(INT64,),
        ),
        optional(
            "label",
            INT8,
            "bag's label: yes/no, 0/1, a number or an ordered level; empty where unknown; not "
            "needed with labels",
            accepts=(FLAG, NUMBER),
            values=(0, 1),
            remedy="code it as 0 or 1, empty where unknown, or name the positive: --set "
            "positive=LABEL or threshold=NUMBER",
        ),
        optional(
            "labels",
            WORDS,
            "classes of the bag, each fitted on its own (--set model=gp_probit)",
            accepts=(list_of(INT64), TEXT, INT64),
        ),
        optional(
            "instance_label",
            INT8,
            "1 or 0 where known, else empty; used by model=auto and gp_probit",
            accepts=(FLAG, NUMBER),
            values=(0, 1),
            remedy="code it as 0 or 1, empty where unknown",
        ),
        optional("modality", TEXT, "its kind, such as image"),
        optional(
            "group",
            TEXT,
            "such as a patient: its bags are held out together",
            accepts=(INT64,),
        ),
        optional(
            "held_out",
            ANY,
            "when it was, for held_out=COLUMN",
        ),
        Column(
            "features",
            NUMBERS,
            "by default every other column of numbers or lists of them, as many for all "
            "instances of a modality; missing ones are mean-imputed; empty: no instance",
            nullable=True,
            finite=True,
            gaps=True,
            largest=LARGEST,
        ),
        optional(
            "bag_features",
            NUMBERS,
            "numbers of the bag itself, the same in all its rows",
            finite=True,
            largest=LARGEST,
        ),
        optional(
            "primary",
            FLAG,
            "whether it is primary in truth; for evaluation only",
        ),
    ),
    details=(
        "labels",
        "instance_label",
        "modality",
        "bag_features",
        "primary",
    ),
)


LABEL_NUMBER = optional(
    "label_number",
    NUMBER,
    "the label, where it is a number",
    finite=True,
    largest=LARGEST,
)


LABEL_GIVEN = optional("label_given", TEXT, "the label's words in the file")


def instances_in(settings: BagSettings) -> Table:
    """Return the table of instances as some files have it."""
    table = INSTANCES_IN.of(settings)
    if settings.numeric:
        label = PositiveLabel(
            "label", (), settings.threshold, LABEL_NUMBER.name, settings.label_order
        )
        return replace(table, columns=(*table.columns, LABEL_NUMBER), positive=label)
    if not settings.positive and settings.threshold is None:
        return replace(table, positive=None)
    positive = PositiveLabel("label", settings.positive, settings.threshold, given="label_given")
    return replace(table, columns=(*table.columns, LABEL_GIVEN), positive=positive)


_BAG_ID = Column("bag_id", TEXT, "name of the bag", label="bag")
_WITHOUT = "the same without the labels of this bag and its group; empty where it was not fitted"
_CLASS = Column(
    "class",
    TEXT,
    "class of this row, where bags have several; else empty",
    nullable=True,
)
_GROUP = Column(
    "group",
    INT64,
    "number of the group, copies included, that it is held out with; empty without",
    nullable=True,
)

BAGS = Table(
    "bags",
    "Every bag with the probability that its label is 1.",
    (
        _BAG_ID,
        Column("label", INT8, "its label: 1 positive, 0 not", nullable=True, label="given"),
        Column(
            "probability",
            NUMBER,
            "probability that the label is 1, or of the class (these sum to 1 where a bag has one)",
        ),
        HELD_OUT,
        Column(
            "without_it",
            NUMBER,
            "the same without the labels of this bag and its group; empty where it was not "
            "fitted, or the model does not say",
            nullable=True,
        ),
        _CLASS,
        Column(
            "predicted",
            TEXT,
            "its most probable class, where bags have one",
            nullable=True,
        ),
        Column(
            "label_given",
            TEXT,
            "its label as the files write it; empty where 0, 1, yes or no",
            nullable=True,
        ),
        _GROUP,
    ),
)


NUMBER_BAGS = Table(
    "bags",
    "Every bag with its predicted number (target=number).",
    (
        _BAG_ID,
        Column("label", NUMBER, "its label as given", nullable=True, label="given"),
        Column("predicted", NUMBER, "predicted number"),
        SD,
        LOW,
        HIGH,
        HELD_OUT,
        Column(
            "without_it",
            NUMBER,
            _WITHOUT,
            nullable=True,
        ),
        replace(LOW, name="low_without_it", nullable=True),
        replace(HIGH, name="high_without_it", nullable=True),
        _GROUP,
    ),
)


def _chances(order: Sequence[str]) -> list[Column]:
    return [Column(f"probability_{level}", NUMBER, "probability of this level") for level in order]


def number_bags(order: Sequence[str]) -> Table:
    """Return the table of bags whose label is a number, or a level of an order."""
    if not order:
        return NUMBER_BAGS
    levels = (
        Column("level", TEXT, "its label as given", nullable=True),
        Column("predicted_level", TEXT, "the most probable level"),
        *_chances(order),
        *(
            Column(
                f"without_it_{level}",
                NUMBER,
                _WITHOUT,
                nullable=True,
            )
            for level in order
        ),
    )
    return replace(NUMBER_BAGS, columns=(*NUMBER_BAGS.columns, *levels))


INSTANCES = Table(
    "instances",
    "Every instance with the probability that it is primary.",
    (
        _BAG_ID,
        Column("instance_id", TEXT, "its name"),
        Column("modality", TEXT, "its kind", nullable=True),
        Column(
            "probability",
            NUMBER,
            "probability that it makes its bag positive (is primary), by a fit that knows "
            "labels; empty where the model gives contributions alone",
            nullable=True,
            label="P(primary)",
        ),
        Column("score", NUMBER, "ranks instances within and across bags, the foremost largest"),
        Column(
            "contribution",
            NUMBER,
            "what it adds to its bag's mean probit score (above 0: to the positive label), or to "
            "its number; empty where the model has none, or pooled features weigh less than 0.1",
            nullable=True,
            label="adds",
        ),
        _CLASS,
    ),
)


def rivals_of(order: Sequence[str]) -> Table:
    """Return the table of what simpler models predict; of levels in an order their chances."""
    predicted = Column("predicted", NUMBER, "probability of the label 1, or the number")
    return Table(
        "rivals",
        "What simpler models of the same bags predict of tested ones.",
        (
            _BAG_ID,
            Column("rival", TEXT, "the simpler model"),
            *(_chances(order) or [predicted]),
        ),
    )


RIVALS = rivals_of(())

MARKERS = Table(
    "markers",
    "What features of a bag's foremost instances add, by the member with the largest weight "
    "(auto and embedding).",
    (
        _BAG_ID,
        Column("instance_id", TEXT, "name of the instance"),
        Column("modality", TEXT, "its kind", nullable=True),
        Column("feature", TEXT, "name or number of the feature"),
        Column("value", NUMBER, "the instance's value of it"),
        Column(
            "adds",
            NUMBER,
            "pooled features: to the bag's probit score or number; instances: to their own "
            "score, against the average instance",
        ),
    ),
)
