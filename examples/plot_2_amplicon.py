"""
Rare variants in an amplicon
============================

Three replicates of a case and three of a control over 400 positions, sequenced 4000 times, with 14
alleles at 1 % in the case. Which of the allele counts are more than errors?
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq

from flows.variants.counts import to_table
from flows.variants.settings import VariantSettings
from vbflows import variants
from vbmodels.variants.simulate import simulate

# %%
# Counts with the truth beside them. In the table one row is a position of one replicate.

counts, truth = simulate(np.random.default_rng(3), n_locations=400, n_variants=14, vaf=0.01)
names = [("case" if case else "control", str(i % 3 + 1)) for i, case in enumerate(counts.case)]
folder = tempfile.mkdtemp()
pq.write_table(
    to_table(counts.counts, counts.ref, "amplicon", 0, names), f"{folder}/counts.parquet"
)

outcome = variants(
    f"{folder}/counts.parquet",
    f"{folder}/results",
    VariantSettings(),
)
print("\n".join(outcome["lines"]))

# %%
# Every position with the alternative allele that was tested: the probability that it is a variant.
# The true ones carry a ring.

loci = pq.read_table(f"{outcome['report'].rsplit('/', 1)[0]}/loci").to_pandas()
best = loci.sort_values("prob").drop_duplicates("pos", keep="last").sort_values("pos")
figure, axes = plt.subplots(figsize=(8, 3.4), layout="constrained")
axes.vlines(best.pos, 0, best.prob, color="#4878a8", linewidth=1.2)
true = np.sort(truth.location)
at_truth = best.set_index("pos").prob.reindex(true + best.pos.min())
axes.plot(at_truth.index, at_truth, "o", mfc="none", color="#c0504d", label="true variants")
axes.set_xlabel("position")
axes.set_ylabel("probability of a variant")
axes.legend(loc="center right")
axes.set_title("14 alleles at 1 %")

# %%
# What three replicates bring: the posterior of the allele's share, called alleles only.

called = loci[loci["filter"] == "PASS"]
print(called[["pos", "ref", "alt", "prob", "q_value"]].to_string(index=False))
