"""Tables at their ends, family by family: what item 9 of the contract fits."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from vbmodels.bags.bags import Bags, Instances, bags
from vbmodels.bags.multilabel import MultiLabelBags
from vbmodels.core.state import BoolArray, FloatArray
from vbmodels.experts.rows import Rows
from vbmodels.features.table import FeatureBatch, feature_batch
from vbmodels.keywords.units import KeywordBatch
from vbmodels.variants.counts import Counts
from vbmodels.variants.rvd2.model import Errors

MILLION = 1_000_000
AT_THE_ENDS = ((0, 0), (0, 1), (1, 1), (0, MILLION), (MILLION // 2, MILLION), (MILLION, MILLION))
"""Reads that show the allele, and depth: of none, one and a million."""


# Base counts: two replicates of the case, two of the control.


def counts(case: Sequence[tuple[int, int]], control: Sequence[tuple[int, int]]) -> Counts:
    """Return a location for each pair, its reference A and its other reads C."""
    shown = np.array([[a, a, b, b] for a, b in zip(case, control, strict=True)])
    table = np.zeros((len(shown), 4, 4), np.int32)
    table[..., 1] = shown[..., 0]
    table[..., 0] = shown[..., 1] - shown[..., 0]
    sides = np.array([True, True, False, False])
    return Counts(table, np.zeros(len(shown), np.int8), sides)


def counts_at_the_ends() -> Counts:
    """Every pair of a case and a control at their ends."""
    return counts(*zip(*product(AT_THE_ENDS, AT_THE_ENDS), strict=True))


def tables_of_counts() -> dict[str, list[Counts]]:
    ends = counts_at_the_ends()
    half = len(ends) // 2
    return {
        "counts at 0 and n, to 1e6": [ends.take(np.arange(half)), ends.take(np.arange(half, 36))],
        "no reads anywhere": [counts([(0, 0)] * 3, [(0, 0)] * 3)],
        "one location alone": [counts([(20, 1000)], [(1, 1000)])],
        "a case without control": [Counts(ends.counts[:, :2], ends.ref, ends.case[:2])],
        "no reference is a base": [replace(ends, ref=np.full(36, -1, np.int8))],
    }


def tables_of_errors() -> dict[str, list[Errors]]:
    r, n = (np.array(x)[:, None].repeat(3, axis=1) for x in zip(*AT_THE_ENDS, strict=True))
    return {
        "counts at 0 and n, to 1e6": [Errors(r[:3], n[:3]), Errors(r[3:], n[3:])],
        "0 and n side by side": [Errors(np.array([[0, MILLION]] * 2), np.full((2, 2), MILLION))],
        "no reads anywhere": [Errors(np.zeros((3, 2), int), np.zeros((3, 2), int))],
        "no read shows the allele": [Errors(np.zeros((3, 2), int), np.full((3, 2), MILLION))],
        "every read shows the allele": [Errors(np.full((3, 2), MILLION), np.full((3, 2), MILLION))],
        "one location alone": [Errors(np.array([[2, 3]]), np.array([[500, 500]]))],
    }


# Tables of categories.


def tables_of_features(parts: int = 2) -> dict[str, list[FeatureBatch]]:
    levels = np.array([2, 2, 3])

    def cut(codes: list[list[int]]) -> list[FeatureBatch]:
        pieces = np.array_split(np.array(codes), parts) if len(codes) > 1 else [np.array(codes)]
        at = np.cumsum([0, *map(len, pieces)])
        ids = [np.arange(a, a + len(x)) for a, x in zip(at, pieces, strict=False)]
        return [
            feature_batch(x, levels, i, grouped=False) for x, i in zip(pieces, ids, strict=True)
        ]

    return {
        "one row alone": cut([[0, 1, 2]]),
        "one row alone, all of it missing": cut([[-1, -1, -1]]),
        "constant columns": cut([[0, 1, 2]] * 12),
        "the last category is never seen": cut([[0, 1, 1], [1, 0, 0]] * 6),
        "rows and a column that are missing": cut([[0, -1, 2], [-1, -1, -1], [1, -1, 0]] * 4),
    }


# Rows with labels.


def labelled(x: FloatArray, t: list[float]) -> Rows:
    return Rows.of(x, np.array(t), np.arange(len(t), dtype=np.int64))


def tables_of_rows() -> dict[str, list[Rows]]:
    rng = np.random.default_rng(0)
    signs = [1.0, -1.0] * 5
    constant = np.column_stack([np.full(10, 3.0), np.zeros(10)])
    apart = np.column_stack([np.array(signs) * 30.0, rng.standard_normal(10)])
    return {
        "one row alone": [labelled(np.array([[0.5, -1.0]]), [1.0])],
        "one row of each label, a partition each": [
            labelled(np.array([[0.5, -1.0]]), [1.0]),
            labelled(np.array([[0.5, -1.0]]), [-1.0]),
        ],
        "constant columns": [labelled(constant[:4], signs[:4]), labelled(constant[4:], signs[4:])],
        "labels far apart": [labelled(apart, signs)],
        "a column at 1e6": [labelled(apart * [1e6 / 30.0, 1.0], signs)],
        "rows of no weight in a partition": [
            labelled(rng.standard_normal((10, 2)), signs),
            labelled(rng.standard_normal((3, 2)), [0.0, 0.0, 0.0]),
        ],
    }


def tables_of_coded_rows(
    made: Callable[[FloatArray, FloatArray, int], Sequence[Any]],
) -> dict[str, Sequence[Any]]:
    """The tables of rows, made anew of features and labels in as many parts."""
    found = {}
    for name, parts in tables_of_rows().items():
        x = np.concatenate([np.asarray(b.dense)[:, :-1] for b in parts])
        found[name] = made(x, np.concatenate([b.t for b in parts]), len(parts))
    return found


# Bags.


def of_rows(sizes: list[int], features: FloatArray, label: list[int]) -> Bags:
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return bags([Instances(features, offsets)], np.array(label, np.int8))


def tables_of_bags() -> dict[str, list[Bags]]:
    rng = np.random.default_rng(0)
    x, label = rng.standard_normal((24, 2)), [0, 1] * 6
    return {
        "one bag alone": [of_rows([3], x[:3], [1])],
        "one bag a partition": [of_rows([3], x[:3], [1]), of_rows([2], x[3:5], [0])],
        "constant columns": [of_rows([2] * 12, np.column_stack([x[:, 0], np.ones(24)]), label)],
        "columns at 1e6": [of_rows([2] * 12, x * [1e6, 1.0] + [0.0, 1e6], label)],
        "bags without instances": [of_rows([0, 0, 4] * 4, x[:16], label)],
        "a partition without labels": [
            of_rows([2] * 12, x, label),
            of_rows([2] * 3, x[:6], [-1] * 3),
        ],
    }


def classes(batches: Sequence[Bags]) -> list[MultiLabelBags]:
    """Give bags a second class, the other way round."""
    return [
        MultiLabelBags(b, np.stack([b.label, np.where(b.label < 0, -1, 1 - b.label)], 1))
        for b in batches
    ]


# Documents.


def documents(y: list[BoolArray], x: FloatArray, complete: bool = False) -> KeywordBatch:
    """Return documents whose words are neighbours: word i next to word i + 1."""
    sizes = np.array([len(one) for one in y], dtype=np.int64)
    none = np.zeros(0, np.int64)
    edges = [np.arange(n - 1) for n in sizes]
    row = np.concatenate([none, *edges])
    return KeywordBatch(
        x=x,
        y=np.concatenate(y),
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        fold=np.arange(len(y)) % 10,
        complete=np.full(len(y), complete),
        edge_row=row,
        edge_col=row + 1,
        edge_count=np.ones(len(row)),
        edge_offsets=np.concatenate([[0], np.cumsum(np.maximum(sizes - 1, 0))]),
    )


def tables_of_documents(n_features: int) -> dict[str, list[KeywordBatch]]:
    rng = np.random.default_rng(0)

    def made(y: list[list[int]], constant: bool = False, complete: bool = False) -> KeywordBatch:
        words = sum(map(len, y))
        x = np.full((words, n_features), 2.0) if constant else rng.random((words, n_features))
        x[:, 0] = 1.0
        return documents([np.array(one, bool) for one in y], x, complete)

    some = [[1, 0, 0, 0], [0, 1, 0], [1, 0, 1, 0, 0]]
    return {
        "one document alone": [made(some[:1])],
        "one word alone": [made([[0]])],
        "one known word alone": [made([[1]])],
        "constant features": [made(some, constant=True), made(some[:2], constant=True)],
        "no word is known": [made([[0, 0, 0], [0, 0]])],
        "every word is known": [made([[1, 1, 1], [1, 1]])],
        "every document is complete": [made(some, complete=True)],
    }


# Partitions without rows.


def no_counts(full: Counts) -> Counts:
    return full.take(np.arange(0))


def no_errors(full: Errors) -> Errors:
    return Errors(full.r[:0], full.n[:0])


def no_features(full: FeatureBatch) -> FeatureBatch:
    return feature_batch(full.codes[:0], full.levels, grouped=False)


def no_rows(full: Rows) -> Rows:
    assert full.dense is not None
    return Rows.of(full.dense[:0, :-1], full.t[:0], full.key[:0])


def no_bags(full: Bags) -> Bags:
    return full.take(np.arange(0))


def no_labelled_bags(full: MultiLabelBags) -> MultiLabelBags:
    return MultiLabelBags(no_bags(full.bags), full.labels[:0])


def no_documents(full: KeywordBatch) -> KeywordBatch:
    return replace(
        full,
        **{name: getattr(full, name)[:0] for name in ("x", "y", "fold", "complete")},
        **{name: getattr(full, name)[:0] for name in ("edge_row", "edge_col", "edge_count")},
        offsets=full.offsets[:1],
        edge_offsets=full.edge_offsets[:1],
    )
