"""
Hidden features of a survey
===========================

600 people answer 30 yes-or-no questions; behind the answers stand four hidden traits, each on or
off. One answer in twenty is missing.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flows.features.settings import FeatureSettings
from vbflows import features

# %%
# Every trait raises the chance of "yes" for its own questions from 10 to 85 %.

rng = np.random.default_rng(2)
questions = [f"q{d + 1:02d}" for d in range(30)]
traits = rng.random((600, 4)) < [0.4, 0.3, 0.25, 0.2]
block = np.zeros((4, 30), dtype=bool)
for k, (first, last) in enumerate([(0, 9), (7, 16), (15, 24), (22, 30)]):
    block[k, first:last] = True
raised = traits.astype(int) @ block.astype(int) > 0
answers = np.where(rng.random(raised.shape) < np.where(raised, 0.85, 0.1), "yes", "no").astype(
    object
)
hidden = rng.random(answers.shape) < 0.05
columns = {
    q: pa.array(np.where(hidden[:, d], None, answers[:, d])) for d, q in enumerate(questions)
}
folder = tempfile.mkdtemp()
ids = [f"person {n:03d}" for n in range(600)]
pq.write_table(pa.table({"id": ids, **columns}), f"{folder}/survey.parquet")

outcome = features(
    f"{folder}/survey.parquet",
    f"{folder}/results",
    FeatureSettings(n_features=8),
)
print("\n".join(outcome["lines"]))

# %%
# What each feature does: the probability of "yes" when it alone is on.

run = outcome["report"].rsplit("/", 1)[0]
weights = pq.read_table(f"{run}/weights").to_pandas()
yes = weights[weights.category == "yes"].pivot(
    index="feature", columns="column", values="probability"
)
figure, axes = plt.subplots(figsize=(8, 2.8), layout="constrained")
image = axes.imshow(yes[questions], aspect="auto", cmap="Blues", vmin=0, vmax=1)
axes.set_yticks(range(len(yes)), [str(name) for name in yes.index])
axes.set_xticks(range(0, 30, 3), questions[::3])
axes.set_title('Probability of "yes" with one feature on')
figure.colorbar(image)

# %%
# Missing answers are left out of the likelihood, and filled with probabilities.

filled = pq.read_table(f"{run}/imputed").to_pandas()
filled = filled[filled.category == "yes"]
where = {q: d for d, q in enumerate(questions)}
true = np.array(
    [answers[int(row.id.split()[1]), where[row.column]] == "yes" for row in filled.itertuples()]
)
likely = filled.probability.to_numpy() > 0.5
print(
    f"{len(filled)} missing answers, {np.mean(likely == true):.0%} guessed right; "
    f"always saying no would be right in {np.mean(~true):.0%}"
)
