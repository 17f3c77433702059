"""Small data sets that the estimators' tests share."""

import numpy as np


def crossed(seed=0, rows=160):
    """Rows that no one line parts."""
    x = np.random.default_rng(seed).standard_normal((rows, 3))
    return x, np.where(x[:, 0] > 0, x[:, 1] > 0, x[:, 1] < 0).astype(int)


def categories(seed=0, rows=200):
    """A table of words with one hidden feature."""
    rng = np.random.default_rng(seed)
    has = rng.random((rows, 1)) < 0.4
    return np.where(has ^ (rng.random((rows, 5)) < 0.1), "yes", "no"), has[:, 0]


def bags(seed=0, count=60):
    """Bags that one instance makes positive."""
    rng = np.random.default_rng(seed)
    x = [rng.standard_normal((int(rng.integers(2, 6)), 2)) for _ in range(count)]
    return x, [int((bag[:, 0] > 0.8).any()) for bag in x]


def long_table(x, y=None):
    """The same bags with a row an instance, bags in turn."""
    rows = [(f"b{i}", j, *row) for i, bag in enumerate(x) for j, row in enumerate(bag)]
    rows.sort(key=lambda row: row[1])  # instances of one bag do not stand side by side
    columns = dict(zip(("bag_id", "instance_id", "f0", "f1"), zip(*rows, strict=True), strict=True))
    table = {name: list(values) for name, values in columns.items()}
    if y is not None:
        table["label"] = [y[int(name[1:])] for name in table["bag_id"]]
    return table


def reads(seed=0, locations=60):
    """Counts [locations, 4 replicates, 4], all references A, G at 5 % at location 7."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((locations, 4, 4), int)
    counts[:, :, 1:] = rng.binomial(1000, 0.0005, (locations, 4, 3))
    counts[7, :2, 2] = 50
    counts[:, :, 0] = 1000 - counts[:, :, 1:].sum(axis=2)
    return counts, np.zeros(locations, int), np.array([True, True, False, False])


def counts_table(counts, case):
    """The same with a row a location and replicate."""
    table = {n: [] for n in ("chrom", "pos", "ref", "sample", "replicate", "A", "C", "G", "T")}
    for j, location in enumerate(counts):
        for r, row in enumerate(location):
            values = ("1", j + 1, "A", "case" if case[r] else "control", f"r{r}", *row.tolist())
            for name, value in zip(table, values, strict=True):
                table[name].append(value)
    return table


def documents(seed=0, count=40):
    """Documents of words, their known keyphrases, and whether these are all."""
    rng = np.random.default_rng(seed)
    words = [f"word{chr(97 + i)}" for i in range(20)]
    texts, known = [], []
    for _ in range(count):
        chosen = rng.choice(20, 6, replace=False)
        key = chosen[:2]
        drawn = rng.permutation(np.concatenate([np.repeat(key, 4), np.repeat(chosen[2:], 2)]))
        texts.append([words[i] for i in drawn])
        known.append([words[i] for i in key])
    return texts, known, [i % 2 == 0 for i in range(count)]
