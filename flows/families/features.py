"""Features: from a table of categories to hidden binary features of its rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from flows import partition, storage
from flows.families import feature_models
from flows.families.base import Checked, Each, Findings, Ingested, Prepared
from flows.faults import Fault, InputError
from flows.ingest import features as tables_of
from flows.ingest.check import shared_names
from flows.ingest.features import Column, Levels
from flows.partition import Part
from flows.publish.feature_report import FeatureSummary, report, weight_table
from flows.publish.run import Dropped, RunPlace
from flows.schemas import FEATURE_WEIGHTS, IMPUTED, feature_rows
from flows.settings import FeatureSettings
from flows.storage import InputFile
from vbmodels.features.batch import FeatureBatch, feature_batch
from vbmodels.features.patterns import count_patterns
from vbmodels.state import to_bytes

_NAMED = 20


@dataclass(frozen=True)
class CheckedTable(Checked):
    """What the check of one file found, with its columns."""

    columns: Mapping[str, Levels] = field(default_factory=dict)


class FeaturesFamily:
    """The features family; see `flows.families.base.Family`."""

    name = "features"
    suffixes = tables_of.SUFFIXES
    settings = FeatureSettings

    def check(self, file: InputFile, settings: FeatureSettings) -> CheckedTable:
        """List the faults of one file."""
        try:
            table = tables_of.read_file(file.url, form=settings.form)
        except InputError as error:
            return CheckedTable(0, error.faults)
        faults, columns, ids = tables_of.check_table(
            table, file.url, settings.max_levels, settings.missing
        )
        return CheckedTable(table.num_rows, tuple(faults), ids, columns)

    def check_together(self, files: Sequence[InputFile], checked: Sequence[Checked]) -> list[Fault]:
        """List what files say differently."""
        faults = shared_names({f.url: c.keys for f, c in zip(files, checked, strict=True)})
        columns = [set(_columns(c)) for c in checked]
        for file, found in zip(files[1:], columns[1:], strict=True):
            if found != columns[0]:
                odd = sorted(found ^ columns[0])
                faults.append(
                    Fault(
                        file=file.url,
                        expected=f"the columns of {files[0].url}",
                        found=f"a difference in {', '.join(odd[:5])}",
                        remedy="give all files the same columns",
                    )
                )
        return faults

    def check_to_fit(self, files: Sequence[InputFile], checked: Sequence[Checked]) -> list[Fault]:
        """List what a fit lacks beyond what scoring needs."""
        merged = tables_of.merge_levels([_columns(c) for c in checked])
        if any(len(levels.counts) > 1 for levels in merged.values()):
            return []
        return [
            Fault(
                file=files[0].url if len(files) == 1 else f"{len(files)} files",
                expected="at least one column with two categories",
                found="none",
                remedy="give a table whose columns vary",
            )
        ]

    def plan(
        self, files: Sequence[InputFile], checked: Sequence[Checked], settings: FeatureSettings
    ) -> list[Part]:
        """Cut the rows by number, once no column over all files has too many categories."""
        rows = [c.rows for c in checked]
        merged = tables_of.merge_levels([_columns(c) for c in checked])
        source = f"{len(files)} files together"
        found = (
            tables_of.too_many(name, levels, source, settings.max_levels)
            for name, levels in merged.items()
        )
        faults = [fault for fault in found if fault is not None]
        if faults:
            raise InputError(faults)
        return partition.cut(files, rows, settings.rows_per_partition, settings.partitions)

    def ingest(self, part: Part, settings: FeatureSettings, place: RunPlace) -> Ingested:
        """Turn a partition's cells to text, leave empty rows out, count categories."""
        ids, columns = tables_of.read_pieces(
            [(s.url, s.start, s.stop) for s in part.slices], settings.form
        )
        columns = {n: tables_of.without(c, settings.missing) for n, c in columns.items()}
        given = np.stack([np.asarray(c.is_valid()) for c in columns.values()]).any(0)
        table = pa.table({tables_of.ID: ids, **{f"c.{n}": c for n, c in columns.items()}})
        empty = table.filter(pa.array(~given))[tables_of.ID].to_pylist()
        table = table.filter(pa.array(given))
        storage.write_table(_work(place, "cells", part.index), table)
        levels = {n: tables_of.count_levels(_cells(table, n)) for n in columns}
        about = {"rows": table.num_rows, "levels": {n: asdict(v) for n, v in levels.items()}}
        storage.write_bytes(_work(place, "about", part.index, "json"), json.dumps(about).encode())
        return Ingested(
            rows_read=part.rows,
            rows_kept=table.num_rows,
            dropped=(Dropped(reason="row without any cell", count=len(empty),
                             examples=[str(name) for name in empty[:100]]),),
        )  # fmt: skip

    def prepare(
        self, parts: Sequence[Part], settings: FeatureSettings, place: RunPlace,
        fitted: RunPlace | None, each: Each,
    ) -> Prepared:  # fmt: skip
        """Settle the categories of every column, then code the cells of every partition."""
        about = [_read_json(_work(place, "about", part.index, "json")) for part in parts]
        found = tables_of.merge_levels(
            [{n: Levels(**v) for n, v in one["levels"].items()} for one in about]
        )
        if fitted is None:
            kept, warnings = _settle(found)
            _refuse_few_rows(sum(one["rows"] for one in about), settings)
        else:
            kept, warnings = _known(fitted, found), []
        storage.write_bytes(_dictionary(place), json.dumps([asdict(c) for c in kept]).encode())
        firsts = np.concatenate([[0], np.cumsum([one["rows"] for one in about])]).tolist()
        numbered = list(zip([part.index for part in parts], firsts[:-1], strict=True))
        built = each(_build, numbered, settings, place)
        warnings += _unseen([strange for _, strange in built])
        return Prepared(tuple(url for url, _ in built), FeatureBatch, tuple(warnings))

    def model(self, settings: FeatureSettings) -> Any:
        """Return the model to fit."""
        return feature_models.make(settings)

    def score(
        self, model: Any, q: Any, batch: FeatureBatch, local: Any, index: int, *,
        settings: FeatureSettings, place: RunPlace, fitted: RunPlace | None,
    ) -> FeatureSummary:  # fmt: skip
        """Write the probability of every feature in every row, and of missing cells."""
        columns = _read_dictionary(place)
        found = feature_models.apply(model, q, batch, local, settings)
        ids = storage.read_table(_work(place, "cells", index), [tables_of.ID])[tables_of.ID]
        arrays = [ids.cast(pa.string()), *(pa.array(p) for p in found.features.T)]
        rows = pa.table(arrays, schema=feature_rows(found.features.shape[1]).arrow)
        storage.write_table(place.table("rows", index), rows)
        storage.write_table(place.table("imputed", index), _imputed(found, ids, columns))
        weights = None
        if index == 0:
            fit = feature_models.read(model, q, settings)
            weights = weight_table(fit, columns)
            storage.write_table(
                place.table("weights", 0), pa.table(weights, schema=FEATURE_WEIGHTS.arrow)
            )
        return FeatureSummary(
            rows=batch.n_rows,
            distinct=len(batch.count),
            patterns=count_patterns(found.features > 0.5),
            imputed=len(found.rows),
            columns=tuple(columns) if index == 0 else (),
            weights=weights,
        )

    def keep(
        self, q: Any, settings: FeatureSettings, place: RunPlace, fitted: RunPlace | None
    ) -> None:
        """Keep the column dictionary: new rows are coded by it."""
        data = storage.read_bytes(_dictionary(place))
        storage.write_bytes(_kept(place), data)

    def posterior(self, model: Any, q: Any) -> list[tuple[Any, ...]]:
        """Return the hyperparameters and the share of rows with each feature of the fit."""
        return [
            row
            for prefix, at, share in feature_models.hyperparameters(model, q)
            for row in _global_rows(at, share, prefix)
        ]

    def report(
        self, model: Any, q: Any, summaries: Sequence[FeatureSummary],
        ingested: Sequence[Ingested], settings: FeatureSettings,
    ) -> Findings:  # fmt: skip
        """Say what was found."""
        fit = feature_models.read(model, q, settings)
        return report(model, q, fit, summaries, settings)

    def simulate(self, target: str, rows: int, seed: int) -> list[str]:
        """Draw a table with known features."""
        from flows.families.feature_simulation import write_table

        return write_table(target, rows, seed)


def _columns(checked: Checked) -> Mapping[str, Levels]:
    return checked.columns if isinstance(checked, CheckedTable) else {}


def _work(place: RunPlace, name: str, index: int, suffix: str = "parquet") -> str:
    return storage.join(place.work, name, f"part-{index:05d}.{suffix}")


def _dictionary(place: RunPlace) -> str:
    return storage.join(place.work, "columns.json")


def _kept(place: RunPlace) -> str:
    return storage.join(place.root, "posterior", "columns.json")


def _read_json(url: str) -> Any:
    return json.loads(storage.read_bytes(url))


def _read_dictionary(place: RunPlace) -> list[Column]:
    return _from_json(_read_json(_dictionary(place)))


def _from_json(columns: list[dict[str, Any]]) -> list[Column]:
    return [
        Column(c["name"], tuple(c["levels"]), tuple(c["counts"]), c["missing"]) for c in columns
    ]


def _cells(table: pa.Table, name: str) -> pa.Array:
    column = table[f"c.{name}"]
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _settle(found: Mapping[str, Levels]) -> tuple[list[Column], list[str]]:
    """Return the columns to model, and which were dropped and why."""
    warnings = []
    for count, what in ((0, "without any cell"), (1, "with one category only")):
        names = [n for n, levels in found.items() if len(levels.counts) == count]
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            warnings.append(
                f"{len(names)} columns {what} were left out: {', '.join(names[:_NAMED])}{more}."
            )
    kept = [tables_of.order_levels(n, v) for n, v in found.items() if len(v.counts) > 1]
    return kept, warnings


def _refuse_few_rows(rows: int, settings: FeatureSettings) -> None:
    if settings.n_features < rows:
        return
    raise InputError(
        [
            Fault(
                file="settings",
                column="n_features",
                expected=f"fewer features than the {rows} rows with data",
                found=str(settings.n_features),
                remedy=f"set n_features to {max(1, rows // 10)} or give more rows",
            )
        ]
    )


def _known(fitted: RunPlace, found: Mapping[str, Levels]) -> list[Column]:
    """Return the fit's columns, which new data must have."""
    kept = _from_json(_read_json(_kept(fitted)))
    absent = [c.name for c in kept if c.name not in found]
    if absent:
        raise InputError(
            [
                Fault(
                    file="new data",
                    column=name,
                    expected="every column of the fit",
                    found="none of that name",
                    remedy="add the column; its cells may be empty",
                )
                for name in absent
            ]
        )
    return kept


def _unseen(strange: Sequence[Mapping[str, Mapping[str, int]]]) -> list[str]:
    """Name the categories that the fit never saw: their cells count as missing."""
    total = tables_of.merge_levels([{n: Levels(v, 0) for n, v in s.items()} for s in strange])
    warnings = []
    for name, levels in total.items():
        listed = ", ".join(f"{text!r} ({n})" for text, n in list(levels.counts.items())[:5])
        warnings.append(
            f"Column {name}: cells of categories that the fit never saw count as missing: {listed}."
        )
    return warnings


def _build(
    numbered: tuple[int, int], settings: FeatureSettings, place: RunPlace
) -> tuple[str, dict[str, dict[str, int]]]:
    index, first = numbered
    columns = _read_dictionary(place)
    table = storage.read_table(_work(place, "cells", index))
    codes, unknown = tables_of.encode({c.name: _cells(table, c.name) for c in columns}, columns)
    levels = np.array([len(c.levels) for c in columns])
    batch = feature_batch(
        codes,
        levels,
        np.arange(first, first + len(codes)),
        grouped=settings.group and settings.inference == "variational",
    )
    url = _work(place, "partitions", index, "npz")
    storage.write_bytes(url, to_bytes(batch))
    return url, unknown


def _imputed(found: feature_models.RowFindings, ids: Any, columns: Sequence[Column]) -> pa.Table:
    """Make one line of each category of each missing cell."""
    sizes = np.array([len(c.levels) for c in columns])
    take = np.arange(found.cells.shape[1]) < sizes[found.columns, None]
    cell, category = np.nonzero(take)
    best = found.cells.argmax(1)
    names = [columns[d] for d in found.columns[cell].tolist()]
    return pa.table(
        [
            ids.take(pa.array(found.rows[cell])).cast(pa.string()),
            pa.array([c.name for c in names], pa.string()),
            pa.array(
                [c.levels[r] for c, r in zip(names, category.tolist(), strict=True)], pa.string()
            ),
            pa.array(found.cells[cell, category]),
            pa.array(best[cell] == category),
        ],
        schema=IMPUTED.arrow,
    )


def _global_rows(at: Any, share: Any, prefix: str) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = [
        ("alpha", f"{prefix}alpha", at.alpha, None),
        ("sigma2", f"{prefix}sigma2", 0.5 * at.variance, None),
    ]
    rows += [("share", f"{prefix}fitted feature {k}", float(s), None) for k, s in enumerate(share)]
    return rows


FAMILY = FeaturesFamily()
