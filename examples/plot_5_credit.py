"""
Which expert speaks for which loan
==================================

A credit-like table in which default has two stories: young firms fail by debt, old ones by falling
sales. One logistic regression has to average them; a mixture of two experts tells them apart. (The
default would add experts to an additive form; here their own weights are to be read.)
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flows.experts.settings import ExpertSettings
from vbflows import experts

# %%
# 2000 loans, five columns.

rng = np.random.default_rng(4)
age, debt, sales = rng.normal(size=(3, 2000))
noise = rng.normal(size=(2, 2000))
young = rng.random(2000) < 1 / (1 + np.exp(4 * age))
logit = np.where(young, 2.5 * debt, -2.5 * sales) - 1.0
label = rng.random(2000) < 1 / (1 + np.exp(-logit))
folder = tempfile.mkdtemp()
pq.write_table(
    pa.table(
        {
            "id": [f"loan {n:04d}" for n in range(2000)],
            "age": age,
            "debt": debt,
            "sales_growth": sales,
            "branches": noise[0],
            "employees": noise[1],
            "label": label.astype(np.int8),
        }
    ),
    f"{folder}/loans.parquet",
)

outcome = experts(
    f"{folder}/loans.parquet",
    f"{folder}/results",
    ExpertSettings(n_experts=2, inference="cavi"),
)
print("\n".join(outcome["lines"]))

# %%
# The experts' weights with 95 % intervals, and who speaks at which age.

run = outcome["report"].rsplit("/", 1)[0]
weights = pq.read_table(f"{run}/experts").to_pandas()
rows = pq.read_table(f"{run}/rows").to_pandas().sort_values("id")

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for k, (number, own) in enumerate(weights[weights.role == "expert"].groupby("expert")):
    place = np.arange(len(own)) + 0.15 * (2 * k - 1)
    left.errorbar(own["mean"], place, xerr=1.96 * own.sd, fmt="o", label=f"expert {number}")
    left.set_yticks(range(len(own)), own["column"])
    right.scatter(age, rows[f"expert_{number}"], s=4, label=f"expert {number}")
left.axvline(0, color="#888888", linewidth=0.8)
left.set_xlabel("weight, per standard deviation")
left.legend()
right.set_xlabel("age of the firm (standardised)")
right.set_ylabel("responsibility, given the label")
