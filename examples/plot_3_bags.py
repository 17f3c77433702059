"""
Bags of sentences and images
============================

A bag (say, a product) has instances of two kinds: sentences of its reviews and images. Only the
bag is labelled. vMMIC finds the instances that matter, of either kind, and what they say.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.metrics import roc_auc_score, roc_curve

import vbflows
from flows.bags.settings import BagSettings
from vbmodels.bags.simulate import simulate

# %%
# 1500 bags of about 20 instances; 35 % of each kind are primary: they alone decide the label.

bags, truth = simulate(np.random.default_rng(5), n_bags=1500)
tables = []
for kind, instances, primary in zip(
    ("sentence", "image"), bags.modalities, truth.primary, strict=True
):
    owner = np.repeat(np.arange(len(bags.label)), np.diff(instances.offsets))
    tables.append(
        pa.table(
            {
                "bag_id": [f"product {i:04d}" for i in owner],
                "instance_id": [f"{kind} {j}" for j in range(len(owner))],
                "label": pa.array(bags.label[owner].astype(np.int8)),
                "modality": [kind] * len(owner),
                "features": list(instances.features),
                "primary": primary,
            }
        )
    )
everything = pa.concat_tables(tables).sort_by("bag_id")
folder = tempfile.mkdtemp()
pq.write_table(everything.drop_columns("primary"), f"{folder}/bags.parquet")

outcome = vbflows.bags(
    f"{folder}/bags.parquet",
    f"{folder}/results",
    BagSettings(model="vmmic", held_out=0.3),
)
print("\n".join(outcome["lines"]))

# %%
# How well are primary instances found, without a single one being labelled? Images are the harder
# kind here: a bag has four of them, and they say less. With 300 bags nothing is learned of them.

run = outcome["report"].rsplit("/", 1)[0]
found = pq.read_table(f"{run}/instances").to_pandas()
found = found.merge(everything.to_pandas()[["bag_id", "instance_id", "primary"]])
figure, axes = plt.subplots(figsize=(5, 4.4), layout="constrained")
for kind, rows in found.groupby("modality"):
    area = roc_auc_score(rows.primary, rows.score)
    axes.plot(*roc_curve(rows.primary, rows.score)[:2], label=f"{kind}: AUROC {area:.3f}")
axes.plot([0, 1], [0, 1], color="#888888", linewidth=0.8)
axes.set_xlabel("false positives")
axes.set_ylabel("true positives")
axes.legend()
axes.set_title("Primary instances")

# %%
# One positive bag, instance by instance: solid are the truly primary ones.

table = pq.read_table(f"{run}/bags").to_pandas()
surest = table.sort_values("probability").bag_id.iloc[-1]
rows = found[found.bag_id == surest].sort_values("probability")
figure, axes = plt.subplots(figsize=(6, 4.4), layout="constrained")
axes.barh(rows.instance_id, rows.probability, color=np.where(rows.primary, "#4878a8", "#c6d4e3"))
axes.set_xlim(0, 1)
axes.set_xlabel("probability of being primary")
axes.set_title(surest)
