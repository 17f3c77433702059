"""Experts: labels, cells, columns and settings that cannot be."""

import numpy as np
import pyarrow as pa

from tests.flows.experts.test_experts import plain
from tests.flows.experts.test_experts_classes import table as of_classes
from tests.flows.experts.test_experts_tables import people
from tests.sentences.said import Said, table


def experts(*settings: str, n: int = 60, **columns: object) -> Said:
    return table("check experts", {**plain(n), **columns}, *settings)


def several(*settings: str, **columns: object) -> Said:
    return table("check experts", {**of_classes()[0], **columns}, *settings)


def mixed(*names: str) -> Said:
    columns = people(60)
    return table("check experts", {name: columns[name] for name in names})


MORE = {f"x{d}": np.arange(12) % 2 for d in range(3000)}
ODD = {"same": plain(20)["a"], "flat": np.full(20, 7.0)}
ODD |= {f"more{i}": np.random.default_rng(i).standard_normal(20) for i in range(20)}

CASES = {
    "one label": experts(label=np.ones(60, np.int8)),
    "sixty labels": experts(label=np.arange(60)),
    "a count below 0": experts("target=count", label=np.arange(60) - 3),
    "an order that is not known": several("target=ordered"),
    "labels all missing": experts(label=pa.nulls(60, pa.string())),
    "labels of one word": experts(label=["a"] * 60),
    "lists as labels": experts(label=[[0]] * 60),
    "large whole numbers as labels": experts(label=2**60 + np.arange(60)),
    "a column of lists": experts(c=[[1.0]] * 60),
    "an infinite cell": experts(a=[np.inf] + [1.0] * 59),
    "a cell that is no number": experts(b=[*map(str, range(59)), "x"]),
    "one name for all": experts(id=["r0"] * 60),
    "too many columns": experts(n=12, **MORE),
    "odd columns": table("check experts", {**plain(20), **ODD}, "inference=cavi"),
    "a column of one value": experts("inference=cavi", day=np.full(60, 20231101.0)),
    "additive with mabn2": experts("inference=additive", "prior=mabn2"),
    "cavi with mabn1": experts("inference=cavi", "prior=mabn1"),
    "omega of a sampler": experts("inference=mh", "omega=1"),
    "class weights of a sampler": experts("inference=mh", "class_weight=balanced"),
    "too many draws": experts("inference=mh", "draws=4000"),
    "classes by cavi": several("inference=cavi"),
    "a class of few rows": several(label=["a", "b"] * 349 + ["c", "c"]),
    "a class as positive": several("positive=red"),
    "a label that is none": experts("positive=ill"),
    "a category that is no column": experts("categories=['zon']"),
    "words for target=number": experts("target=number", label=["a", "b"] * 30),
    "one number in every row": experts("target=number", label=np.full(60, 2.5)),
    "class weights of a number": experts("class_weight=balanced", label=np.arange(60) + 0.5),
    "cavi of a number": experts("inference=cavi", label=np.arange(60) + 0.5),
    "a code of missing cells of no column": experts("missing=FOO:77"),
    "per cent beside fractions": experts(a=["10%", "0.1"] * 30),
    "a mixed table": mixed(*people(60)),
    "no column that predicts": mixed("name", "label"),
}
