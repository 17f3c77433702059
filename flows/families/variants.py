"""Variants: from reads or base counts of case and control to calls, a VCF, and every location."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from flows import partition, storage
from flows.families import variant_calls
from flows.families.base import Checked, Each, Findings, Ingested, Prepared
from flows.families.variant_calls import Decision, Scored
from flows.faults import Fault, InputError
from flows.ingest import variant_counts, variants
from flows.ingest.variant_counts import Column, Loci
from flows.partition import Part
from flows.publish.run import Dropped, RunPlace
from flows.publish.variant_report import PartCalls, report
from flows.publish.vcf import write_vcf
from flows.schemas import COUNTS
from flows.settings import VariantSettings
from flows.storage import InputFile
from vbmodels.state import from_bytes, to_bytes
from vbmodels.variants.batch import BASES, Counts
from vbmodels.variants.rvd2.model import RVD2
from vbmodels.variants.rvd2.pair import Pair
from vbmodels.variants.two_groups import BROAD, MIXTURE, TwoGroups

NO_READS = "location without a read in any replicate"
NO_REFERENCE = "location whose reference is not A, C, G or T"


@dataclass(frozen=True)
class CheckedVariants(Checked):
    """What the check of one file found, with its samples and replicates."""

    samples: tuple[str, ...] = ()
    columns: int = 1


class Variants:
    """The variants family; see `flows.families.base.Family`."""

    name = "variants"
    suffixes = (".parquet", ".csv")
    settings = VariantSettings

    def check(self, file: InputFile, settings: VariantSettings) -> Checked:
        """List the faults of a sample sheet, with all that it names, or of a file of counts."""
        if file.url.endswith(".csv"):
            faults = variants.check_sheet(file.url, settings)
            if faults:
                return Checked(0, tuple(faults))
            total = sum(r.length for r in _regions(settings))
            lines = variants.read_sheet(file.url)
            return CheckedVariants(total, (), (), tuple({x.sample for x in lines}))
        rows, samples, faults = variant_counts.check_counts(file.url)
        return CheckedVariants(rows, tuple(faults), (), tuple(sorted(samples)), 6)

    def check_together(self, files: Sequence[InputFile], checked: Sequence[Checked]) -> list[Fault]:
        """List sample sheets beside other files: a sheet stands alone."""
        if len(files) > 1 and any(f.url.endswith(".csv") for f in files):
            names = ", ".join(f.url for f in files[:3])
            return [Fault(file=files[0].url, expected="one sample sheet alone, or counts in "
                          "Parquet", found=f"{len(files)} files: {names}")]  # fmt: skip
        return []

    def together(self, files: Sequence[InputFile], checked: Sequence[Checked]) -> list[list[int]]:
        """Take files of all samples each by itself, and files of single samples together."""
        samples = {frozenset(getattr(c, "samples", ())) for c in checked}
        alone = len(samples) == 1
        return [[i] for i in range(len(files))] if alone else [list(range(len(files)))]

    def plan(
        self, files: Sequence[InputFile], checked: Sequence[Checked], settings: VariantSettings
    ) -> list[Part]:
        """Cut the regions' positions, or the rows of counts."""
        if not files[0].url.endswith(".csv"):
            found = {s for c in checked for s in getattr(c, "samples", ())}
            faults = variants.check_samples(files[0].url, found, settings)
            if faults:
                raise InputError(faults)
        each = settings.rows_per_partition * max(getattr(c, "columns", 1) for c in checked)
        return partition.cut(files, [c.rows for c in checked], each, settings.partitions)

    def ingest(self, part: Part, settings: VariantSettings, place: RunPlace) -> Ingested:
        """Count the reads of a partition's positions, or sort its rows of counts."""
        if part.slices[0].url.endswith(".csv"):
            return _count_part(part, settings, place)
        table = partition.read(part, None, COUNTS.arrow)
        wanted = _named_regions(settings)
        table, keys, columns = variant_counts.read_sorted(table, wanted)
        storage.write_table(_work(place, "slices", part.index), table)
        about = {"keys": keys, "columns": sorted(columns), "rows": len(table)}
        storage.write_bytes(_work(place, "slices", part.index, "json"), json.dumps(about).encode())
        return Ingested(part.rows, len(table))

    def prepare(
        self, parts: Sequence[Part], settings: VariantSettings, place: RunPlace,
        fitted: RunPlace | None, each: Each,
    ) -> Prepared:  # fmt: skip
        """Put the locations of every partition together and choose those to be fitted on.

        Where the parts' locations follow one another, partitions are the parts.
        """
        if parts[0].slices[0].url.endswith(".csv"):
            indices, own = [part.index for part in parts], True
        else:
            indices, own = _shuffle(parts, settings, place, each)
        sizes = [len(_loci(place, i).pos) for i in indices]
        kept = [i for i, size in zip(indices, sizes, strict=True) if size]
        if not kept:
            raise InputError(
                [Fault(file=parts[0].slices[0].url, expected="a location with reads",
                       found="zero depth everywhere")]
            )  # fmt: skip
        share = settings.fit_units / max(3 * sum(sizes), 1)
        urls = each(_finish_partition, kept, settings, place, share)
        storage.write_bytes(_work(place, "kept", 0, "json"), json.dumps(kept).encode())
        case = _counts(place, kept[0]).case
        own = own and len(kept) == len(parts)
        return Prepared(tuple(urls), Counts, _replicate_warnings(case, settings), own)

    def model(self, settings: VariantSettings) -> Any:
        """Return the two-groups model, or the papers' model of both samples."""
        if settings.test == "two_groups":
            shares = MIXTURE if settings.alternative == "mixture" else (BROAD,)
            return TwoGroups(sense=_sense(settings), alternatives=shares)
        return Pair(RVD2(inference=settings.inference, dispersion=settings.dispersion))

    def score(
        self, model: Any, q: Any, batch: Counts, local: Any, index: int, *,
        settings: VariantSettings, place: RunPlace, fitted: RunPlace | None,
    ) -> Scored:  # fmt: skip
        """Compute every unit's evidence and keep it for the decision over all partitions."""
        if isinstance(model, TwoGroups):
            evidence = variant_calls.bayes_factors(model, q, batch)
        else:
            evidence = variant_calls.differences(model, q, batch, local, settings)
        storage.write_bytes(_work(place, "evidence", index, "npz"), to_bytes(evidence))
        return variant_calls.summarise(evidence)

    def conclude(
        self, model: Any, q: Any, summaries: Sequence[Scored], *, settings: VariantSettings,
        place: RunPlace, fitted: RunPlace | None, each: Each,
    ) -> list[PartCalls]:  # fmt: skip
        """Decide over all partitions at once, then write every location and the VCF."""
        pi = getattr(q, "pi", 0.5)
        decision = variant_calls.decide(summaries, pi, settings, refit=fitted is None)
        kept = json.loads(storage.read_bytes(_work(place, "kept", 0, "json")))
        positions = list(enumerate(kept))
        found = each(_write_loci, positions, model, q, decision, settings, place)
        contigs = _contigs(settings, found)
        samples = ["case", "control"] if settings.control else ["case"]
        names = {"case": settings.case, "control": settings.control or ""}
        records = [
            {**call, "samples": {names[s]: call["samples"][s] for s in samples}}
            for part in found
            for call in part.calls
        ]
        write_vcf(
            place.file("variants.vcf.gz"), records, contigs, [names[s] for s in samples],
            f"vbflows variants, test {settings.test}",
        )  # fmt: skip
        return found

    def keep(
        self, q: Any, settings: VariantSettings, place: RunPlace, fitted: RunPlace | None
    ) -> None:
        """Keep nothing: the hyperparameters are all that new data need."""

    def posterior(self, model: Any, q: Any) -> list[tuple[Any, ...]]:
        """Return the hyperparameters; they are point estimates."""
        if isinstance(model, Pair):
            return [
                (name, sample, value, None)
                for sample, of in (("case", q.case), ("control", q.control))
                for name, value in (
                    ("mu0", of.a0 / (of.a0 + of.b0)), ("M0", of.a0 + of.b0), ("log_M", of.log_m)
                )
            ]  # fmt: skip
        rows: list[tuple[Any, ...]] = [
            ("pi", None, q.pi, None),
            ("w", None, q.w, None),
            ("log_M_mean", None, q.log_m_mean, None),
            ("log_M_sd", None, q.log_m_sd, None),
        ]
        if len(q.rho) > 1:
            means = [f"mean {a / (a + b):.2g}" for a, b in model.alternatives]
            rows += [("rho", m, float(r), None) for m, r in zip(means, q.rho, strict=True)]
        for t in range(12):
            ref = BASES[t // 3]
            kind = f"{ref}>{[b for b in BASES if b != ref][t % 3]}"
            rows.append(("error_rate", kind, float(q.a[t] / (q.a[t] + q.b[t])), None))
            rows.append(("error_shape", kind, float(q.a[t]), None))
        return rows

    def report(
        self, model: Any, q: Any, summaries: Sequence[PartCalls], ingested: Sequence[Ingested],
        settings: VariantSettings,
    ) -> Findings:  # fmt: skip
        """Say what was found."""
        return report(summaries, self.posterior(model, q), model.caps_hit(q), settings)

    def simulate(self, target: str, rows: int, seed: int) -> list[str]:
        """Draw counts with their truth."""
        from flows.families.variant_simulation import write_counts

        return write_counts(target, rows, seed)


def _sense(settings: VariantSettings) -> Any:
    if not settings.control:
        return "germline"
    return "either" if settings.two_sided else "gain"


def _replicate_warnings(case: np.ndarray, settings: VariantSettings) -> tuple[str, ...]:
    told = []
    for name, count in ((settings.case, case.sum()), (settings.control, (~case).sum())):
        if name and count == 1:
            told.append(
                f"Sample {name} has one replicate: how far replicates differ (M) is then set by "
                "its prior. Two or three find more."
            )
    return tuple(told)


def _work(place: RunPlace, name: str, index: int, suffix: str = "parquet") -> str:
    return storage.join(place.work, name, f"part-{index:05d}.{suffix}")


def _loci(place: RunPlace, index: int) -> Loci:
    url = _work(place, "loci", index, "npz")
    return from_bytes(storage.read_bytes(url), Loci, url)


def _counts(place: RunPlace, index: int, folder: str = "partitions") -> Counts:
    url = _work(place, folder, index, "npz")
    return from_bytes(storage.read_bytes(url), Counts, url)


@lru_cache(maxsize=4)
def _regions(settings: VariantSettings) -> list[variants.Region]:
    return variants.regions(settings, variants.fasta_contigs(str(settings.fasta)))


def _named_regions(settings: VariantSettings) -> list[variants.Region] | None:
    """Return the region or the BED's intervals, for counts that may come without a FASTA."""
    if settings.region is None and settings.bed is None:
        return None
    if settings.fasta is not None:
        return _regions(settings)
    return variants.regions(settings, variants.AnyContig())


def replicate_columns(lines: Sequence[Column], settings: VariantSettings) -> list[Column]:
    """Return the replicates of the case, then of the control, in order of their names."""
    order = {settings.case: 0, settings.control: 1}
    wanted = [c for c in set(lines) if c[0] in order and c[0]]
    return sorted(wanted, key=lambda c: (order[c[0]], c[1]))


def count_positions(
    part: Part, settings: VariantSettings
) -> list[tuple[variants.Region, np.ndarray, np.ndarray, list[Column]]]:
    """Count the reads of a partition: (region, [J, R, 2, 4] by strand, reference, columns)."""
    lines = {(x.sample, x.replicate): x for x in variants.read_sheet(part.slices[0].url)}
    columns = replicate_columns(list(lines), settings)
    pieces = variants.locate(_regions(settings), part.slices[0].start, part.slices[0].stop)
    return [
        (
            piece,
            np.stack(
                [variants.count_region(lines[c].path, piece, settings) for c in columns], axis=1
            ),
            variants.reference(str(settings.fasta), piece),
            columns,
        )
        for piece in pieces
    ]


def write_part_counts(part: Part, settings: VariantSettings, target: str) -> int:
    """Count the reads of a partition and write them as rows of the counts table."""
    tables = [
        variant_counts.to_table(
            by_strand.sum(axis=2, dtype=np.int32), ref, region.contig, region.start, columns
        )
        for region, by_strand, ref, columns in count_positions(part, settings)
    ]
    table = pa.concat_tables(tables)
    storage.write_table(storage.join(target, f"part-{part.index:05d}.parquet"), table)
    return int(table.num_rows)


def _count_part(part: Part, settings: VariantSettings, place: RunPlace) -> Ingested:
    found = count_positions(part, settings)
    by_strand = np.concatenate([counts for _, counts, _, _ in found])
    case = np.array([sample == settings.case for sample, _ in found[0][3]])
    counts, loci, no_reads, no_reference = variant_counts.clean(
        by_strand.sum(axis=2, dtype=np.int32),
        np.concatenate([ref for _, _, ref, _ in found]),
        case,
        np.concatenate([np.full(r.length, r.contig) for r, *_ in found]),
        np.concatenate([np.arange(r.start + 1, r.stop + 1) for r, *_ in found]),
        by_strand[:, :, 0],
    )
    storage.write_bytes(_work(place, "counts", part.index, "npz"), to_bytes(counts))
    storage.write_bytes(_work(place, "loci", part.index, "npz"), to_bytes(loci))
    dropped = (Dropped(reason=NO_READS, count=no_reads),
               Dropped(reason=NO_REFERENCE, count=no_reference))  # fmt: skip
    return Ingested(part.rows, len(counts), dropped)


def _shuffle(
    parts: Sequence[Part], settings: VariantSettings, place: RunPlace, each: Each
) -> tuple[list[int], bool]:
    """Turn sorted slices into partitions of locations; say whether each is of its own slice."""
    urls = [_work(place, "slices", part.index, "json") for part in parts]
    about = [json.loads(storage.read_bytes(url)) for url in urls]
    keys = [[(chrom, pos) for chrom, pos in one["keys"]] for one in about]
    columns = replicate_columns([tuple(c) for one in about for c in one["columns"]], settings)
    if variant_counts.in_order(keys):
        each(_assemble, [(p.index, None, None, [p.index]) for p in parts], columns, settings,
             place, parts[0].slices[0].url)  # fmt: skip
        return [part.index for part in parts], True
    starts = variant_counts.boundaries(keys, len(parts))
    ranges = []
    for i in range(len(starts) + 1):
        low, high = starts[i - 1] if i else None, starts[i] if i < len(starts) else None
        reaching = [
            part.index for part, own in zip(parts, keys, strict=True)
            if own and (high is None or own[0] < high) and (low is None or own[-1] >= low)
        ]  # fmt: skip
        ranges.append((i, low, high, reaching))
    each(_assemble, ranges, columns, settings, place, parts[0].slices[0].url)
    return [i for i, *_ in ranges], False


def _assemble(
    where: tuple[int, Any, Any, list[int]], columns: list[Column], settings: VariantSettings,
    place: RunPlace, source: str,
) -> None:  # fmt: skip
    index, low, high, reaching = where
    tables = []
    for i in reaching:
        table = storage.read_table(_work(place, "slices", i))
        chrom, pos = table["chrom"].to_numpy(), table["pos"].to_numpy()
        inside = np.ones(len(table), bool)
        if low is not None:
            inside &= (chrom > low[0]) | ((chrom == low[0]) & (pos >= low[1]))
        if high is not None:
            inside &= (chrom < high[0]) | ((chrom == high[0]) & (pos < high[1]))
        tables.append(table.filter(pa.array(inside)))
    empty = storage.read_table(_work(place, "slices", reaching[0] if reaching else 0)).slice(0, 0)
    counts, loci, *_ = variant_counts.assemble(tables or [empty], columns, settings.case, source)
    storage.write_bytes(_work(place, "counts", index, "npz"), to_bytes(counts))
    storage.write_bytes(_work(place, "loci", index, "npz"), to_bytes(loci))


def _finish_partition(index: int, settings: VariantSettings, place: RunPlace, share: float) -> str:
    """Mark the locations that hyperparameters are fitted on, at random where there are many."""
    counts = _counts(place, index, "counts")
    marks = None
    if share < 1.0:
        rng = np.random.default_rng([settings.seed, index])
        marks = rng.random(len(counts)) < share
    url = _work(place, "partitions", index, "npz")
    storage.write_bytes(url, to_bytes(Counts(counts.counts, counts.ref, counts.case, marks)))
    return url


def _write_loci(
    where: tuple[int, int], model: Any, q: Any, decision: Decision, settings: VariantSettings,
    place: RunPlace,
) -> PartCalls:  # fmt: skip
    index, kept = where
    url = _work(place, "evidence", index, "npz")
    evidence = from_bytes(storage.read_bytes(url), variant_calls.Evidence, url)
    counts, loci = _counts(place, kept), _loci(place, kept)
    table, found = variant_calls.conclude_part(model, q, counts, loci, evidence, decision, settings)
    storage.write_table(place.table("loci", index), table)
    return found


def _contigs(settings: VariantSettings, found: Sequence[PartCalls]) -> dict[str, int | None]:
    if settings.fasta is not None:
        return dict(variants.fasta_contigs(settings.fasta))
    return {name: None for name in sorted({c for part in found for c in part.contigs})}


FAMILY = Variants()
