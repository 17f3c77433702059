"""Rows of several classes, each fitted against the rest by the additive form with experts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.contract import case_bmem_additive as two
from tests.vbmodels.experts.coded_rows import cut_coded
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.experts.additive import AdditiveExperts
from vbmodels.experts.batch import Rows
from vbmodels.experts.coded import CodedRows
from vbmodels.experts.several import ClassRows, OneVersusRest, Several
from vbmodels.testing.case import Coordinates, Recovery

CLASSES = 3


def drawn(rng: np.random.Generator, rows: int) -> tuple[FloatArray, FloatArray, IntArray]:
    """Draw cells, chances of three classes and classes; the third lies on both sides."""
    x = rng.standard_normal((rows, 2))
    odds = np.column_stack([2.0 * x[:, 0], -2.0 * x[:, 0], 2.0 * x[:, 1] ** 2 - 2.0])
    chance = np.exp(odds) / np.exp(odds).sum(1, keepdims=True)
    classes = (rng.random((rows, 1)) > np.cumsum(chance, axis=1)).sum(1)
    return x, chance, classes


def cut(x: FloatArray, classes: IntArray, parts: int = 1) -> list[ClassRows]:
    """Return the rows x [N, D] in parts."""
    coded = cut_coded(x, np.where(classes < 0, 0.0, np.where(classes > 0, 1.0, -1.0)), parts)
    ends_at = np.cumsum([0, *(one.size for one in coded)])
    return [
        ClassRows(one, classes[a:b], CLASSES)
        for one, a, b in zip(coded, ends_at[:-1], ends_at[1:], strict=True)
    ]


def batches(seed: int, parts: int) -> Sequence[ClassRows]:
    x, _, classes = drawn(np.random.default_rng(seed), 60)
    return cut(x, classes, parts)


def tiny(seed: int) -> Sequence[ClassRows]:
    x = np.random.default_rng(seed).standard_normal((6, 1))
    return cut(x, np.array([0, 1, 2, 0, 1, 2]), 2)


def widths(q: Several) -> FloatArray:
    return np.concatenate([two.widths(part) for part in q.parts])


def with_widths(q: Several, vector: FloatArray) -> Several:
    pieces = np.split(vector, np.cumsum([two.widths(part).size for part in q.parts])[:-1])
    pairs = zip(q.parts, pieces, strict=True)
    return Several(tuple(two.with_widths(part, piece) for part, piece in pairs))


def tables() -> dict[str, Sequence[ClassRows]]:
    """The tables of rows, with steps and labels of three classes in turn."""
    found = {}
    for name, parts in two.tables().items():
        start, made = 0, []
        for part in parts:
            turn = (start + np.arange(part.size)) % CLASSES
            made.append(ClassRows(part, np.where(part.t == 0.0, -1, turn), CLASSES))
            start += part.size
        found[name] = made
    return found


def none_of(batch: ClassRows) -> ClassRows:
    assert isinstance(batch.rows, CodedRows)
    return ClassRows(two.none_of(batch.rows), batch.classes[:0], CLASSES)


def chance(model: Any, q: Several, batch: ClassRows) -> FloatArray:
    found: FloatArray = model.posterior(q).probabilities(batch)
    return found


def scored(model: Any, q: Several, batch: ClassRows) -> FloatArray:
    """Chances of the classes: a score sees no labels, and rows in another order."""
    assert isinstance(batch.rows, CodedRows)
    assert (batch.classes < 0).all()
    own = batch.rows.rows
    back = Rows.of(np.asarray(own.dense)[::-1, :-1], np.zeros(own.size), own.key[::-1])
    turned = CodedRows(back, batch.rows.codes[::-1], batch.rows.basis)
    return chance(model, q, ClassRows(turned, batch.classes, CLASSES))[::-1]


def excess_loss(seed: int) -> float:
    """Held-out log-loss above that of the true probabilities."""
    x, truth, classes = drawn(np.random.default_rng([seed, 8]), 4000)
    model = OneVersusRest(AdditiveExperts(4, n_restarts=2))
    done = fit(model, cut(x[:2500], classes[:2500]), seed=seed, max_iter=5000)
    (new,) = cut_coded(x[:2500], np.where(classes[:2500] > 0, 1.0, -1.0), new=x[2500:])
    p = model.posterior(done.q).probabilities(new)
    at = np.arange(1500), classes[2500:]
    return float(np.mean(np.log(truth[2500:][at]) - np.log(p[at])))


CASE = replace(
    two.CASE,
    name="bmem_several",
    model=lambda: OneVersusRest(two.beside()),
    calibration="each class is fitted as bmem_additive is, which is asked for its calibration",
    batches=batches,
    tiny=tiny,
    extremes=replace(
        two.EXTREMES,
        tables=tables,
        empty=none_of,
        refused={
            name: "expected rows with the label 1 and rows with the label 0"
            for name in ("one row alone", "one row of each label, a partition each")
        },
    ),
    agreement=replace(
        two.AGREEMENT,
        published=lambda model, q, batch, local: chance(model, q, batch),
        scored=scored,
        hidden=lambda batch: replace(batch, classes=np.full(batch.size, -1)),
    ),
    global_step=replace(
        two.GLOBAL_STEP,
        coordinates=Coordinates(to_vector=widths, from_vector=with_widths),
    ),
    recovery=Recovery(error=excess_loss, tolerance=0.12, seeds=(0, 1)),
    seeds=(0,),
)
