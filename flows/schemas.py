"""Every table once: column, type, unit, meaning, nullability."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from flows.faults import Fault


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    accepts
        Further Arrow types that are cast without loss when a table is read.
    required
        Whether the column must be there at all; one that may be absent reads as null.
    """

    name: str
    type: pa.DataType
    meaning: str
    nullable: bool = False
    required: bool = True
    unit: str = ""
    accepts: tuple[pa.DataType, ...] = ()


@dataclass(frozen=True)
class Table:
    """A named table: what it is for and its columns, in order."""

    name: str
    meaning: str
    columns: tuple[Column, ...]

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema, with unit and meaning as field metadata."""
        return pa.schema(
            [
                pa.field(
                    c.name,
                    c.type,
                    nullable=c.nullable,
                    metadata={"unit": c.unit, "meaning": c.meaning},
                )
                for c in self.columns
            ]
        )

    def faults(self, found: pa.Schema, file: str) -> list[Fault]:
        """List what keeps a file with this schema from being read as this table."""
        faults = []
        for column in self.columns:
            index = found.get_field_index(column.name)
            if index < 0:
                if column.required:
                    faults.append(
                        Fault(
                            file=file,
                            column=column.name,
                            expected=f"a column of type {column.type}",
                            found=f"none; the columns are {', '.join(found.names) or 'none'}",
                        )
                    )
            elif not _reads_as(found.field(index).type, column):
                faults.append(
                    Fault(
                        file=file,
                        column=column.name,
                        expected=f"type {column.type}",
                        found=f"type {found.field(index).type}",
                    )
                )
        return faults


def _reads_as(found: pa.DataType, column: Column) -> bool:
    return any(_same(found, wanted) for wanted in (column.type, *column.accepts))


def _same(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a type holds the same values: large, view and dictionary forms are read too."""
    if pa.types.is_null(found):
        return True
    if pa.types.is_dictionary(found):
        return _same(found.value_type, wanted)
    if pa.types.is_string(wanted):
        return (
            pa.types.is_string(found)
            or pa.types.is_large_string(found)
            or pa.types.is_string_view(found)
        )
    if pa.types.is_list(wanted):
        lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
        return any(test(found) for test in lists) and _same(found.value_type, wanted.value_type)
    if pa.types.is_integer(wanted):
        return pa.types.is_integer(found)
    if pa.types.is_floating(wanted):
        return pa.types.is_floating(found) or pa.types.is_integer(found)
    return bool(found == wanted)


TEXT = pa.string()
WORDS = pa.list_(pa.string())

DOCUMENTS = Table(
    "documents",
    "Documents with some of their keywords; either `text` or `tokens` must be there.",
    (
        Column("doc_id", TEXT, "name of the document, unique over all files"),
        Column("text", TEXT, "the document as running text", nullable=True, required=False),
        Column("tokens", WORDS, "its words in order", nullable=True, required=False),
        Column("pos", WORDS, "a Penn or universal tag per token", nullable=True, required=False),
        Column(
            "sentence",
            pa.list_(pa.int64()),
            "number of the sentence per token",
            nullable=True,
            required=False,
        ),
        Column("keywords", WORDS, "known keywords, may be empty", nullable=True),
        Column(
            "complete",
            pa.bool_(),
            "whether the known keywords are all of them",
            nullable=True,
            required=False,
        ),
        Column(
            "gold",
            WORDS,
            "all true keywords, for evaluation only: no model sees them",
            nullable=True,
            required=False,
        ),
    ),
)

KEYWORDS = Table(
    "keywords",
    "Every candidate word of every document with its probability.",
    (
        Column("doc_id", TEXT, "name of the document"),
        Column("term", TEXT, "the word in its most frequent written form"),
        Column(
            "probability",
            pa.float64(),
            "probability that the word is a keyword; a score for ss and textrank",
        ),
        Column("observed", pa.bool_(), "whether it was given as a keyword"),
        Column("selected", pa.bool_(), "whether it is selected at the level fdr"),
        Column("rank", pa.int32(), "rank in its document, 1 is the most probable"),
    ),
)

INSTANCES_IN = Table(
    "bags",
    "Instances, one a row, of bags with one label each; a row without features is a bag's own.",
    (
        Column("bag_id", TEXT, "name of the bag", accepts=(pa.int64(),)),
        Column(
            "instance_id",
            TEXT,
            "name of the instance, unique in its bag and modality; its place when absent",
            nullable=True,
            required=False,
            accepts=(pa.int64(),),
        ),
        Column(
            "label",
            pa.int8(),
            "label of the bag: 0, 1, or null where it is not known; may be absent beside labels",
            nullable=True,
            required=False,
            accepts=(pa.bool_(), pa.float64()),
        ),
        Column(
            "labels",
            pa.list_(pa.string()),
            "classes that the bag has, each a problem of its own (gp_probit, gp_logistic); null "
            "where they are not known",
            nullable=True,
            required=False,
            accepts=(pa.list_(pa.int64()),),
        ),
        Column("modality", TEXT, "kind of the instance", nullable=True, required=False),
        Column(
            "features",
            pa.list_(pa.float64()),
            "as many numbers for every instance of a modality; null: the bag has no instance here",
            nullable=True,
        ),
        Column(
            "bag_features",
            pa.list_(pa.float64()),
            "numbers that describe the bag itself, the same in all its rows",
            nullable=True,
            required=False,
        ),
        Column(
            "primary",
            pa.bool_(),
            "whether the instance is primary in truth, for evaluation only: no model sees it",
            nullable=True,
            required=False,
        ),
    ),
)

BAGS = Table(
    "bags",
    "Every bag with the probability that its label is 1.",
    (
        Column("bag_id", TEXT, "name of the bag"),
        Column("label", pa.int8(), "its label as given", nullable=True),
        Column("probability", pa.float64(), "probability that the label is 1"),
        Column("held_out", pa.bool_(), "whether its label was kept from the fit, for testing"),
        Column(
            "bald",
            pa.float64(),
            "what its label is expected to tell the model, in nats; null where the model has none",
            nullable=True,
        ),
        Column(
            "class",
            TEXT,
            "the class that is told of, where bags have labels of several; else null",
            nullable=True,
        ),
    ),
)

INSTANCES = Table(
    "instances",
    "Every instance with the probability that it is primary.",
    (
        Column("bag_id", TEXT, "name of its bag"),
        Column("instance_id", TEXT, "its name"),
        Column("modality", TEXT, "its kind", nullable=True),
        Column("probability", pa.float64(), "probability that the instance is primary"),
        Column("score", pa.float64(), "for ranking instances"),
        Column(
            "contribution",
            pa.float64(),
            "what it is expected to add to its bag's probit score; null where the model has none",
            nullable=True,
        ),
        Column(
            "bald",
            pa.float64(),
            "what its own label would tell the model, in nats; null where the model has none",
            nullable=True,
        ),
        Column(
            "class",
            TEXT,
            "the class that is told of, where bags have labels of several; else null",
            nullable=True,
        ),
    ),
)

FEATURE_WEIGHTS = Table(
    "weights",
    "What each reported feature does to each category.",
    (
        Column("column", TEXT, "column of the input"),
        Column("category", TEXT, "category, in the order of how often they occur"),
        Column("feature", pa.int32(), "number of the feature; 0 is none of them (the bias)"),
        Column(
            "mean",
            pa.float64(),
            "posterior mean of its weight on the log-odds of this or a rarer category against the "
            "category before; null for the most frequent category",
            nullable=True,
        ),
        Column("sd", pa.float64(), "its posterior standard deviation", nullable=True),
        Column("probability", pa.float64(), "of the category when only this feature is active"),
        Column("ratio", pa.float64(), "that probability over the share of all rows"),
    ),
)

IMPUTED = Table(
    "imputed",
    "Every missing cell with the probability of each category.",
    (
        Column("id", TEXT, "name of the row"),
        Column("column", TEXT, "column of the input"),
        Column("category", TEXT, "category"),
        Column("probability", pa.float64(), "probability of the category"),
        Column("best", pa.bool_(), "whether it is the most probable one"),
    ),
)


def feature_rows(n_features: int) -> Table:
    """Return the table of rows with one probability a feature."""
    return Table(
        "rows",
        "Every row with the probability of each reported feature.",
        (
            Column("id", TEXT, "name of the row"),
            *(
                Column(f"feature_{k + 1}", pa.float64(), f"probability of feature {k + 1}")
                for k in range(n_features)
            ),
        ),
    )


def expert_rows(n_experts: int) -> Table:
    """Return the table of rows with a probability and one responsibility an expert."""
    return Table(
        "rows",
        "Every row with its probability and who is responsible for it.",
        (
            Column("id", TEXT, "name of the row"),
            Column("probability", pa.float64(), "probability of the label 1"),
            *(
                Column(
                    f"expert_{k + 1}",
                    pa.float64(),
                    f"share of expert {k + 1} in the row, given its label where it has one",
                )
                for k in range(n_experts)
            ),
        ),
    )


EXPERTS = Table(
    "experts",
    "Weights of every expert and its gate, per standard deviation of the column.",
    (
        Column("expert", pa.int32(), "number of the expert, from 1"),
        Column("role", TEXT, "expert: what it predicts; gate: where it is responsible"),
        Column("column", TEXT, "name of the column, or intercept"),
        Column("mean", pa.float64(), "posterior mean"),
        Column("sd", pa.float64(), "posterior standard deviation"),
    ),
)


COUNTS = Table(
    "counts",
    "Base counts: one row a location and replicate.",
    (
        Column("chrom", TEXT, "contig"),
        Column("pos", pa.int64(), "position, from 1"),
        Column("ref", TEXT, "reference base"),
        Column("sample", TEXT, "name of the sample"),
        Column("replicate", TEXT, "name of the replicate", accepts=(pa.int64(),)),
        Column("A", pa.int64(), "reads that show A", unit="reads"),
        Column("C", pa.int64(), "reads that show C", unit="reads"),
        Column("G", pa.int64(), "reads that show G", unit="reads"),
        Column("T", pa.int64(), "reads that show T", unit="reads"),
        Column(
            "depth",
            pa.int64(),
            "reads at the location; counts may not exceed it",
            nullable=True,
            required=False,
            unit="reads",
        ),
    ),
)


def _rates(sample: str) -> tuple[Column, ...]:
    return (
        Column(f"{sample}_mean", pa.float64(), f"posterior mean of the {sample}'s rate"),
        Column(f"{sample}_sd", pa.float64(), f"posterior sd of the {sample}'s rate"),
        Column(f"{sample}_q05", pa.float64(), "its 5 % quantile"),
        Column(f"{sample}_q95", pa.float64(), "its 95 % quantile"),
        Column(f"{sample}_depth", pa.int64(), f"reads of the {sample}", unit="reads"),
        Column(f"{sample}_reads", pa.int64(), "reads of the allele", unit="reads"),
    )


LOCI = Table(
    "loci",
    "Every location with its most probable allele, and any further allele that is called.",
    (
        Column("chrom", TEXT, "contig"),
        Column("pos", pa.int64(), "position, from 1"),
        Column("ref", TEXT, "reference base"),
        Column("alt", TEXT, "allele"),
        *_rates("case"),
        *_rates("control"),
        Column("prob", pa.float64(), "probability of a variant; for posterior_difference P(>tau)"),
        Column("q_value", pa.float64(), "least false discovery rate at which it is called"),
        Column("called", pa.bool_(), "whether it is called, before filters"),
        Column("filter", TEXT, "PASS, or why it is not a call"),
    ),
)

POSTERIOR = Table(
    "posterior",
    "The fitted global parameters in readable form.",
    (
        Column("name", TEXT, "name of the parameter"),
        Column("index", TEXT, "its index or the name of its coordinate", nullable=True),
        Column("mean", pa.float64(), "posterior mean"),
        Column("sd", pa.float64(), "posterior standard deviation", nullable=True),
    ),
)

TRACE = Table(
    "trace",
    "The bound after each accepted sweep.",
    (
        Column("iteration", pa.int64(), "number of the sweep, from 0"),
        Column("elbo", pa.float64(), "evidence lower bound", unit="nats"),
        Column("seconds", pa.float64(), "time since the fit began", unit="s"),
    ),
)
