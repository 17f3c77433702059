"""
Keywords of a text corpus
=========================

The corpus that every machine has: the descriptions of the Python packages installed here. Their
authors gave keywords to some of them; the model learns from those what a keyword looks like, and
gives every other word a probability.
"""

import tempfile

import matplotlib.pyplot as plt
import pyarrow.parquet as pq

from flows.keywords.metadata import installed_packages
from flows.keywords.settings import KeywordSettings
from vbflows import keywords

# %%
# One row a package: its name, its description, and the keywords that are known.

folder = tempfile.mkdtemp()
documents = installed_packages()
pq.write_table(documents, f"{folder}/packages.parquet")
known = sum(bool(keywords) for keywords in documents["keywords"].to_pylist())
print(f"{documents.num_rows} packages, {known} with keywords")

# %%
# The share of the words that are keywords is a guess, one word in ten, within a factor of
# 1.5; the labels say the rest, and the report what each of both says.

settings = KeywordSettings(unit="word", keyword_rate=0.1, rate_sd=0.4, rows_per_partition=50)
outcome = keywords(
    f"{folder}/packages.parquet",
    f"{folder}/results",
    settings,
)
print("\n".join(outcome["lines"]))

# %%
# The new keywords of highest probability, one from each package.

run = f"{folder}/results/runs/{outcome['run_id']}"
words = pq.read_table(f"{run}/keywords").to_pandas()
new = words[~words.observed].sort_values("probability", ascending=False)
best = new.drop_duplicates("doc_id").head(12)[::-1]

figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
axes.barh(
    [f"{term}  ({doc})" for term, doc in zip(best.term, best.doc_id, strict=True)],
    best.probability,
    color="#4878a8",
)
axes.set_xlim(0, 1)
axes.set_xlabel("probability of being a keyword")
axes.set_title("Keywords found")

# %%
# What makes a word a keyword: the coefficients of the regression with 95 % intervals,
# those of features that vary in this corpus.

parameters = pq.read_table(f"{run}/posterior/parameters.parquet").to_pandas()
chosen = parameters[(parameters.name == "coefficient") & (parameters.sd < 0.9)][::-1]
figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
axes.errorbar(chosen["mean"], chosen["index"], xerr=1.96 * chosen.sd, fmt="o", color="#4878a8")
axes.axvline(0, color="#888888", linewidth=0.8)
axes.set_xlabel("coefficient, per standard deviation of the feature")
axes.set_title("What makes a word a keyword")
