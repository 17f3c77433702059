"""How often each filter of reads takes a true variant: its reads are drawn as the reference's are.

    python -m benchmarks.variants_filters [--alleles 20000] [--level 1e-3]

For every kind of location of `benchmarks.read_kinds` (none is an artefact), numbers of the
allele's reads from 4 to 1000 and of the reference's from 20 to 3000. One line a filter: the share
over all settings, the largest share of a setting, and where that was.
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import numpy as np

from benchmarks.read_kinds import KINDS, draw_reads, summed
from vbmodels.variants.read_filters import judge, on_one_strand

OWN, REFERENCE = (4, 8, 20, 100, 1000), (20, 300, 3000)
STRANDED = 1000  # alleles that Fisher's test is made for, one by one
LOT = 1000


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--alleles", type=int, default=20_000)
    parser.add_argument("--level", type=float, default=1e-3)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    shares: dict[str, list[tuple[float, int, str]]] = defaultdict(list)
    for kind, of_kind in KINDS.items():
        for n in OWN:
            for m in REFERENCE:
                taken: dict[str, int] = defaultdict(int)
                for _ in range(0, given.alleles, LOT):
                    own = summed(draw_reads(rng, of_kind, LOT, n))
                    of = summed(draw_reads(rng, of_kind, LOT, m))
                    for name, which in judge(own, of, given.level)[0].items():
                        taken[name] += int(which.sum())
                where = f"{kind}, {n} of the allele, {m} of the reference"
                for name, count in taken.items():
                    shares[name].append((count / given.alleles, given.alleles, where))
    for n in OWN:
        for m in REFERENCE:
            for share in (0.5, 0.2):
                one, other = rng.binomial(m, share, STRANDED), rng.binomial(n, share, STRANDED)
                wrong = on_one_strand(one, m - one, other, n - other, given.level)
                where = f"{share:.0%} forward, {n} of the allele, {m} of the reference"
                shares["strand_bias"].append((float(wrong.mean()), STRANDED, where))
    print("| filter | true variants taken | largest share in a setting | of alleles | where |")
    print("|---|---|---|---|---|")
    for name, found in shares.items():
        worst = max(found)
        mean = np.average([s for s, _, _ in found], weights=[k for _, k, _ in found])
        print(f"| {name} | {mean:.1e} | {worst[0]:.1e} | {worst[1]:,} | {worst[2]} |")


if __name__ == "__main__":
    main()
