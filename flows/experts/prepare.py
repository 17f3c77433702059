"""From ingested partitions to arrays: columns settled over all of them, then each one built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add

from flows.data import json_files, storage
from flows.data.names import listed
from flows.data.partition import Part
from flows.data.runs import RunPaths
from flows.experts import encoding as of_encoding
from flows.experts import ingest as tables_of
from flows.experts.design import (
    Design,
    build,
    read_basis,
    read_design,
    settle,
    settled_basis,
    sums_of,
    work_url,
    write_basis,
)
from flows.experts.encoding import Encoding
from flows.experts.ingest import AboutCells
from flows.experts.settings import ExpertSettings
from flows.family import Each, Prepared
from flows.faults import InputError
from vbmodels.core.state import State, to_bytes
from vbmodels.experts.additive.knots import Basis
from vbmodels.experts.additive.model import MOST_COLUMNS
from vbmodels.experts.additive.one_vs_rest import ClassRows
from vbmodels.experts.additive.step_rows import CodedRows
from vbmodels.experts.encoding import encoded_sums, names_of
from vbmodels.experts.options import RARE_BELOW
from vbmodels.experts.rows import Rows


def prepared(
    parts: Sequence[Part], settings: ExpertSettings, paths: RunPaths,
    fitted: RunPaths | None, each: Each,
) -> Prepared:  # fmt: skip
    """Settle what every column becomes, or take it from a fit, and build every partition."""
    indices = [part.index for part in parts]
    urls = [work_url(paths, "about", index, "json") for index in indices]
    about = tables_of.merged([json_files.read(url, AboutCells) for url in urls])
    copies = 1.0
    if fitted is None:
        encoding, design, basis, copies, warnings = _settled(indices, about, settings, paths, each)
    else:
        design, basis, warnings = read_design(fitted), read_basis(fitted), ()
        names = [str(name) for name in design.columns]
        encoding = of_encoding.read(fitted)
        if names_of(encoding.columns) != names or len(encoding.labels) < 2:
            url = of_encoding.url_of(fitted)
            raise storage.DamagedError(f"{url} is damaged: its columns are not the fit's", url)
        _refuse_labels(about.labels.counts, encoding)
    of_encoding.write(paths, encoding, work=True)
    write_basis(paths, basis, work=True)
    storage.write_bytes(storage.join(paths.work, "design.npz"), to_bytes(design))
    built = each(build, indices, settings, paths, fitted is not None, copies)
    warnings += tuple(of_encoding.told_of([strange for _, strange in built]))
    batch: type[State] = Rows if basis is None else CodedRows
    if len(encoding.labels) > 2:
        batch = ClassRows
    return Prepared(tuple(url for url, _ in built), batch, warnings)


def _settled(
    indices: Sequence[int], about: AboutCells, settings: ExpertSettings, paths: RunPaths,
    each: Each,
) -> tuple[Encoding, Design, Basis | None, float, tuple[str, ...]]:  # fmt: skip
    kinds = tables_of.kinds_of(about.seen, settings.categories)
    labels = of_encoding.named_labels(about.labels.counts, settings)
    summed = reduce(add, each(sums_of, indices, kinds, labels, settings, paths))
    copies = 1.0 if summed.sample is None else summed.sample.repeats
    # Of a table that stands there twice, levels are as rare as in the table.
    rare = round(RARE_BELOW * copies)
    encoding, said = of_encoding.settled(
        kinds, summed.columns, summed.levels, labels, settings, rare
    )
    columns = names_of(encoding.columns)
    _refuse_columns(columns, settings)
    sums = encoded_sums(summed.columns, encoding.columns)
    _refuse_classes(labels.names, summed.classes.tolist())
    design, more = settle(columns, sums, summed.classes, settings)
    basis = settled_basis(settings, summed.sample, kinds, encoding, sums, design)
    if copies > 1.0:
        more += (
            f"Every row stands there {copies:.0f} times (or a multiple of that), as if the table "
            f"had been put together with itself: each counts 1/{copies:.0f}, and the copies of a "
            "row are left out together.",
        )
    return encoding, design, basis, copies, (*said, *more)


def _refuse_classes(names: Sequence[str], rows: Sequence[int]) -> None:
    if all(rows):
        return
    told = [f"{n} with {name}" for name, n in zip(names, rows, strict=True)]
    which = "both" if len(names) == 2 else "all"
    found = " and ".join(reversed(told)) if len(names) == 2 else listed(told)
    raise InputError.of(
        file="settings",
        column="test_share",
        expected=f"rows of {which} labels left for the fit",
        found=found,
        remedy="lower test_share or give more rows",
    )


def _refuse_columns(columns: Sequence[str], settings: ExpertSettings) -> None:
    if not columns:
        raise InputError.of(
            file="the data",
            expected="at least one column that predicts",
            found="none with cells, or levels, that many rows have",
            remedy="give other columns or more rows",
        )
    if settings.inference == "additive" and len(columns) > MOST_COLUMNS:
        raise InputError.of(
            file="settings",
            column="inference",
            expected=f"at most {MOST_COLUMNS} columns for inference=additive",
            found=f"{len(columns)}",
            remedy="give fewer columns, lower max_levels, or take inference=cavi",
        )


def _refuse_labels(counts: Mapping[str, int], encoding: Encoding) -> None:
    """Refuse labels of new rows that the fit does not know."""
    unknown = encoding.classes.unknown(counts)
    if unknown:
        raise InputError.of(
            file="the new data",
            column=tables_of.LABEL,
            expected=f"labels of the fit: {listed(encoding.labels)}",
            found=listed(unknown),
            remedy="correct the labels, or leave them empty",
        )
