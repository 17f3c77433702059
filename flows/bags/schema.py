"""Tables of bags and instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from flows.data.table import (
    FLAG,
    INT8,
    INT64,
    NUMBER,
    NUMBERS,
    TEXT,
    WORDS,
    Bound,
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
    "Instances, one a row, of bags with one label each; a row without features is a bag's own.",
    (
        Column("bag_id", TEXT, "name of the bag", accepts=(INT64,), names="bag"),
        optional(
            "instance_id",
            TEXT,
            "name of the instance, unique in its bag and modality; its place when absent",
            accepts=(INT64,),
        ),
        optional(
            "label",
            INT8,
            "label of the bag: yes/no, 0/1, a number or an ordered level; empty where it is not "
            "known; not needed with labels",
            accepts=(FLAG, NUMBER),
            values=(0, 1),
            remedy="code the label as 0 or 1, empty where it is not known, or say which one is "
            "positive: --set positive=LABEL, or --set threshold=NUMBER",
        ),
        optional(
            "labels",
            WORDS,
            "classes that the bag has, or its only one, each fitted on its own (only "
            "with --set model=gp_probit); empty where they are not known",
            accepts=(list_of(INT64), TEXT, INT64),
        ),
        optional(
            "bag_label_mask",
            INT64,
            "the same as labels, as one number: bit k (of 0 to 62) is set where the bag has class "
            "k, which is then named by two digits; empty where they are not known",
            bounds=(
                Bound(
                    "a mask of bits 0 to 62",
                    least=0,
                    remedy="set bit k where the bag has class k, and no sign",
                ),
            ),
        ),
        optional(
            "instance_label",
            INT8,
            "label of the instance: 1 or 0 where it is known, else empty; used only with "
            "model=auto (the default) or gp_probit",
            accepts=(FLAG, NUMBER),
            values=(0, 1),
            remedy="code it as 0 or 1, empty where it is not known",
        ),
        optional("modality", TEXT, "its kind, such as image"),
        optional(
            "group",
            TEXT,
            "such as a patient: its bags are held out together",
            accepts=(INT64,),
        ),
        Column(
            "features",
            NUMBERS,
            "by default every other column of numbers or lists of them, as many for every "
            "instance of a modality; a missing one is mean-imputed, with a column that says so; "
            "empty: no instance here",
            nullable=True,
            finite=True,
            gaps=True,
            largest=LARGEST,
        ),
        optional(
            "bag_features",
            NUMBERS,
            "numbers that describe the bag itself, the same in all its rows",
            finite=True,
            largest=LARGEST,
        ),
        optional(
            "primary",
            FLAG,
            "whether the instance is primary in truth, for evaluation only: no model sees it",
        ),
    ),
    details=(
        "labels", "bag_label_mask", "instance_label", "modality", "bag_features", "primary",
    ),
)  # fmt: skip


LABEL_NUMBER = optional(
    "label_number",
    NUMBER,
    "the label, where it is a number that is predicted",
    finite=True,
    largest=LARGEST,
)


LABEL_GIVEN = optional("label_given", TEXT, "the label as the file writes it, where that is words")


def instances_in(settings: BagSettings) -> Table:
    """Return the table of instances as some files have it."""
    if settings.numeric:
        table = INSTANCES_IN.of(settings)
        kept = PositiveLabel(
            "label", (), settings.threshold, LABEL_NUMBER.name, settings.label_order
        )
        return replace(table, columns=(*table.columns, LABEL_NUMBER), positive=kept)
    table = INSTANCES_IN.of(settings)
    if not settings.positive and settings.threshold is None:
        return replace(table, positive=None)
    positive = PositiveLabel("label", settings.positive, settings.threshold, given="label_given")
    return replace(table, columns=(*table.columns, LABEL_GIVEN), positive=positive)


_CLASS = Column(
    "class",
    TEXT,
    "the class of this row, where bags have labels of several; else empty",
    nullable=True,
)
_BALD = Column(
    "bald",
    NUMBER,
    "BALD: what the model would learn from its own label, in nats; the larger, the more worth "
    "labelling; empty where the model has none",
    nullable=True,
)
_HELD_OUT = Column("held_out", FLAG, "whether its label was kept from the fit, for testing")
_GROUP = Column(
    "group",
    INT64,
    "number of the group that it is held out with: its group's other bags and exact copies have "
    "the same; empty where no bags belong together",
    nullable=True,
)

BAGS = Table(
    "bags",
    "Every bag with the probability that its label is 1.",
    (
        Column("bag_id", TEXT, "name of the bag"),
        Column("label", INT8, "its label: 1 positive, 0 not", nullable=True),
        Column(
            "probability",
            NUMBER,
            "probability that the label is 1, or that the bag has the class; where each bag has "
            "one class these sum to 1",
        ),
        _HELD_OUT,
        Column(
            "without_it",
            NUMBER,
            "the same probability, predicted without this bag's own label or its group's; empty "
            "where the fit had no label of it, or the model has none (auto and embedding have it)",
            nullable=True,
        ),
        _BALD,
        _CLASS,
        Column(
            "predicted",
            TEXT,
            "the bag's most probable class, where each bag has one class; else empty",
            nullable=True,
        ),
        Column(
            "label_given",
            TEXT,
            "its label as the files write it; empty where that is 0 or 1, or yes or no",
            nullable=True,
        ),
        _GROUP,
    ),
)


NUMBER_BAGS = Table(
    "bags",
    "Every bag with its predicted number, where the label is one (target=number).",
    (
        Column("bag_id", TEXT, "name of the bag"),
        Column("label", NUMBER, "its label as given", nullable=True),
        Column("predicted", NUMBER, "the number that is predicted"),
        Column("sd", NUMBER, "standard deviation of the bag's number around it"),
        Column("low", NUMBER, "lower end of the 95 % interval of the bag's number"),
        Column("high", NUMBER, "upper end of that interval"),
        _HELD_OUT,
        Column(
            "without_it",
            NUMBER,
            "the same prediction without this bag's own label or its group's; empty where the bag "
            "was not fitted",
            nullable=True,
        ),
        Column("low_without_it", NUMBER, "lower end of the 95 % interval of that", nullable=True),
        Column("high_without_it", NUMBER, "upper end of that interval", nullable=True),
        _GROUP,
    ),
)


def number_bags(order: Sequence[str]) -> Table:
    """Return the table of bags whose label is a number, or a level of an order."""
    if not order:
        return NUMBER_BAGS
    levels = (
        Column("level", TEXT, "its label as given", nullable=True),
        Column("predicted_level", TEXT, "the most probable level"),
        *(Column(f"probability_{one}", NUMBER, "probability of this level") for one in order),
        *(
            Column(
                f"without_it_{one}",
                NUMBER,
                "the same, without the bag's own label or its "
                "group's; empty where the bag was not fitted",
                nullable=True,
            )
            for one in order
        ),
    )
    return replace(NUMBER_BAGS, columns=(*NUMBER_BAGS.columns, *levels))


INSTANCES = Table(
    "instances",
    "Every instance with the probability that it is primary.",
    (
        Column("bag_id", TEXT, "name of its bag"),
        Column("instance_id", TEXT, "its name"),
        Column("modality", TEXT, "its kind", nullable=True),
        Column(
            "probability",
            NUMBER,
            "probability that the instance makes its bag positive (is primary), by the fit, which "
            "knows the labels of fitted bags; empty where the model gives contributions only "
            "(embedding)",
            nullable=True,
        ),
        Column("score", NUMBER, "ranks instances, of one bag and of several: the foremost largest"),
        Column(
            "contribution",
            NUMBER,
            "what it adds to its bag: to the mean of the probit score (above 0 for the positive "
            "label, below 0 for the negative), or to the number in the label's unit; empty where "
            "the model has none, or pooled features weigh less than 0.1",
            nullable=True,
        ),
        _BALD,
        _CLASS,
    ),
)


def rivals_of(order: Sequence[str]) -> Table:
    """Return the table of what simpler models predict; of levels in an order their chances."""
    chances = (Column(f"probability_{one}", NUMBER, "probability of this level") for one in order)
    predicted = Column(
        "predicted", NUMBER, "probability that the label is 1, or the number that is predicted"
    )
    return Table(
        "rivals",
        "What simpler models predict of the bags that are tested, fitted to the same other bags.",
        (
            Column("bag_id", TEXT, "name of the bag"),
            Column("rival", TEXT, "the simpler model"),
            *(chances if order else (predicted,)),
        ),
    )


RIVALS = rivals_of(())

MARKERS = Table(
    "markers",
    "What features of a bag's foremost instances add (models auto and embedding), by the member "
    "with the largest weight.",
    (
        Column("bag_id", TEXT, "name of the bag"),
        Column("instance_id", TEXT, "name of the instance"),
        Column("modality", TEXT, "its kind", nullable=True),
        Column("feature", TEXT, "name of the feature, or its number"),
        Column("value", NUMBER, "the instance's value of it"),
        Column(
            "adds",
            NUMBER,
            "pooled features: to the bag's probit score or number, by its mean, largest and "
            "smallest value; "
            "instances: to the instance's own probit score, against the average instance",
        ),
    ),
)


REASONS = Table(
    "reasons",
    "What each block of features adds to a bag's score (models auto and embedding).",
    (
        Column("bag_id", TEXT, "name of the bag"),
        Column("block", TEXT, "summary of features, such as their mean; or the constant"),
        Column(
            "adds",
            NUMBER,
            "to the pooled features' probit score (0 is 50 %, 1 is 84 %), or to the predicted "
            "number; a bag's sum to it",
        ),
    ),
)
