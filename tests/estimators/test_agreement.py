"""Estimators say what the pipelines say: one posterior, whichever fits it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose

from flows.cli import main
from tests.estimators import data
from vbmodels.core.state import State, from_bytes
from vbmodels.estimators import (
    KeywordExtractor,
    LatentFeatures,
    MixtureOfExperts,
    MultimodalMIC,
    StackedBagClassifier,
    VariantTester,
)
from vbmodels.features.forms import read


def piped(name, columns, folder, *settings):
    """Run a pipeline on a table; return the folder of its run."""
    source = folder / "in.parquet"
    pq.write_table(pa.table(columns), source)
    given = [part for setting in settings for part in ("--set", setting)]
    return run_of(name, source, folder, "--partitions", "2", *given)


def run_of(name, source, folder, *options):
    """Run a pipeline on a file; return the folder of its run."""
    target = folder / "out"
    with pytest.raises(SystemExit) as stopped:
        main([name, str(source), str(target), *options])
    assert stopped.value.code == 0
    run_id = json.loads((target / "latest.json").read_text())["run_id"]
    return Path(target) / "runs" / run_id


def table(run, name):
    return pq.read_table(run / name)


def test_experts(tmp_path):
    x, y = data.crossed()
    x = 5.0 + 2.0 * x
    columns = {"id": [f"r{i}" for i in range(len(y))], "label": y}
    columns |= {f"x{d}": x[:, d] for d in range(x.shape[1])}
    run = piped("experts", columns, tmp_path, "inference=cavi", "n_experts=2", "test_share=0")
    found = MixtureOfExperts(2, inference="cavi", n_partitions=2, random_state=0)
    found.fit(x, y)
    weights = table(run, "experts")
    of_experts = np.array(weights["role"].to_pylist()) == "expert"
    mean = weights["mean"].to_numpy()[of_experts].reshape(2, -1)
    sd = weights["sd"].to_numpy()[of_experts].reshape(2, -1)
    assert_allclose(found.expert_means_, mean, rtol=1e-8, atol=1e-10)
    assert_allclose(found.expert_sds_, sd, rtol=1e-8)
    assert_allclose(found.predict_proba(x)[:, 1], table(run, "rows")["probability_1"], atol=1e-9)


@pytest.mark.slow
def test_features(tmp_path):
    x, _ = data.categories()
    x = x[np.lexsort(x.T)]  # draws go by the number of a row, and the estimator sorts rows first
    columns = {"id": [f"r{i}" for i in range(len(x))]}
    columns |= {f"c{d}": x[:, d].tolist() for d in range(x.shape[1])}
    settings = ("n_features=3", "starts=1")
    run = piped("features", columns, tmp_path, *settings)
    found = LatentFeatures(3, starts=1, n_partitions=2, random_state=0).fit(x)
    rows = table(run, "rows")
    probabilities = np.column_stack([rows[n] for n in rows.column_names if n != "id"])
    assert found.n_features_ == probabilities.shape[1] == 1
    # The pipeline's rows start from the fit's own local states, these from nothing.
    assert_allclose(found.transform(x), probabilities, atol=1e-5)
    q = from_bytes((run / "posterior" / "q.npz").read_bytes(), State)
    assert_allclose(read(found.model_, q, found).weights.mean(0), found.weight_means_, rtol=1e-8)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (MultimodalMIC, ("model=vmmic",)),
        (StackedBagClassifier, ("model=auto", "n_inducing=10")),
    ],
)
def test_bags(kind, settings, tmp_path):
    x, y = data.bags()
    rows = [(f"b{i:02d}", f"{i}.{j}", y[i], row.tolist()) for i, bag in enumerate(x)
            for j, row in enumerate(bag)]  # fmt: skip
    names = ("bag_id", "instance_id", "label", "features")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    run = piped("bags", columns, tmp_path, *settings)
    options = {} if kind is MultimodalMIC else {"n_inducing": 10}
    found = kind(n_partitions=2, random_state=0, **options).fit(x, y)
    published = dict(zip(*(table(run, "bags")[n].to_pylist() for n in ("bag_id", "probability")),
                    strict=True))  # fmt: skip
    expected = [published[f"b{i:02d}"] for i in range(len(y))]
    assert_allclose(found.predict_proba(x)[:, 1], expected, atol=1e-6)
    instances = table(run, "instances")
    published = dict(zip(instances["instance_id"].to_pylist(), instances["probability"].to_pylist(),
                    strict=True))  # fmt: skip
    given = found.predict_instance_proba(x)
    assert_allclose([p for bag in given for p in bag],
                    [published[row[1]] for row in rows], atol=1e-6)  # fmt: skip


@pytest.mark.thorough
def test_variants(tmp_path):
    counts, _, case = data.reads()
    columns = data.counts_table(counts, case)
    run = piped("variants", columns, tmp_path)
    found = VariantTester(n_partitions=2, random_state=0).fit(pa.table(columns)).test()
    assert isinstance(found, pa.Table)
    own = {(p, a): (f, q) for p, a, f, q in zip(*(found[n].to_pylist() for n in
           ("pos", "alt", "prob", "q_value")), strict=True)}  # fmt: skip
    loci = table(run, "loci")
    for pos, alt, prob, _ in zip(*(loci[n].to_pylist() for n in ("pos", "alt", "prob", "q_value")),
                                 strict=True):  # fmt: skip
        assert_allclose(own[pos, alt][0], prob, rtol=1e-3, atol=1e-9)
    called = found.filter(found["called"])
    assert (called["pos"].to_pylist(), called["alt"].to_pylist()) == ([8], ["G"])


ABSTRACTS = Path(__file__).parents[2] / "examples" / "abstracts.csv"
SAME = ["term", "surface", "stem", "words", "observed", "selected", "rank", "position",
        "occurrences"]  # fmt: skip


def compare(run, found):
    """Compare the candidates of a run with those of an estimator, row by row."""
    theirs = table(run, "keywords").drop_columns("gold").to_pandas()
    ours = found.candidates_
    assert ours.columns.tolist() == theirs.columns.tolist()
    assert ours["doc_id"].astype(str).tolist() == theirs["doc_id"].tolist()
    for name in SAME:
        assert ours[name].tolist() == theirs[name].tolist(), name
    assert_allclose(ours["probability"], theirs["probability"], rtol=1e-9, atol=1e-12)
    posterior = table(run, "posterior/parameters.parquet").to_pandas()
    mean = posterior[posterior["name"] == "coefficient"].set_index("index")["mean"]
    assert_allclose(found.coef_means_, mean[list(found.feature_names_)], rtol=1e-9, atol=1e-12)


def test_keyphrases_of_the_abstracts(tmp_path):
    found = KeywordExtractor().fit(pd.read_csv(ABSTRACTS))
    compare(run_of("keywords", ABSTRACTS, tmp_path), found)
    assert len(found.candidates_) > 500
    assert found.candidates_["words"].max() > 2


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        (["unit=word", "keyword_rate=0.1", "stem=snowball"],
         {"unit": "word", "keyword_rate": 0.1, "stem": "snowball"}),
        (["keyphrases=4", "rate_sd=0.3", "language=en", "min_count=2", "select=fdr", "fdr=0.4",
          "per_document=3"],
         {"keyphrases": 4, "rate_sd": 0.3, "language": "en", "min_count": 2, "select": "fdr",
          "fdr": 0.4, "per_document": 3}),
    ],
    ids=["words", "phrases"],
)  # fmt: skip
def test_settings_of_keywords_mean_the_same(tmp_path, settings, options):
    documents = pd.read_csv(ABSTRACTS)
    columns = pa.Table.from_pandas(
        documents.assign(keywords=documents["keywords"].str.split(";")), preserve_index=False
    )
    run = piped("keywords", columns, tmp_path, *settings)
    compare(run, KeywordExtractor(**options, n_partitions=2).fit(columns))


@pytest.mark.parametrize("unit", ["phrase", "word"])
def test_what_only_a_list_makes_is_known_and_changes_nothing(tmp_path, unit):
    documents = pd.read_csv(ABSTRACTS).dropna(subset="keywords")
    lists = [one.split(";") for one in documents["keywords"]]
    texts = documents["text"].tolist()
    # A word that is too rare is no candidate, nor is what has it.
    more = [f"quox{'abcdef'[i % 6]}{'klmnop'[i // 6]}ish" for i in range(len(texts))]
    texts = [f"{text} It was {word}." for text, word in zip(texts, more, strict=True)]
    texts.append("Of it.")
    lists.append(["of it"])
    more.append("it")
    options = {"unit": unit, "min_count": 2}
    plain = KeywordExtractor(**options).fit(texts, lists)
    columns = {
        "doc_id": list(map(str, range(len(texts)))),
        "text": texts,
        "keywords": [[*own, word] for own, word in zip(lists, more, strict=True)],
    }
    found = KeywordExtractor(**options, n_partitions=2).fit(pa.table(columns))
    compare(piped("keywords", columns, tmp_path, *(f"{k}={v}" for k, v in options.items())), found)
    rows, key = found.candidates_, ["doc_id", "stem"]
    rows["doc_id"] = rows["doc_id"].astype(int)
    both = rows.merge(plain.candidates_, on=key, how="outer", indicator=True)
    assert (both["_merge"] != "right_only").all()
    assert_allclose(both["probability_x"], both["probability_y"].fillna(1.0), rtol=1e-9)
    new = both[both["_merge"] == "left_only"]
    assert len(new) > 0.8 * len(documents)
    assert new["observed_x"].all()
    assert new["selected_x"].all()
    times = both.groupby("doc_id")["observed_x"].sum()[new["doc_id"]]
    assert (new["rank_x"].to_numpy() <= times.to_numpy()).all()
    scored = found.score_candidates(pa.table(columns)).to_pandas()
    scored["doc_id"] = scored["doc_id"].astype(int)
    assert scored.merge(new[key], on=key)["observed"].sum() == len(new)


def test_tags_sentences_and_a_vocabulary_are_those_of_the_pipeline(tmp_path):
    words = [
        [("Deep", "JJ"), ("neural", "JJ"), ("networks", "NNS"), ("learn", "VBP"), ("maps", "NNS")],
        [("Neural", "JJ"), ("networks", "NNS"), ("of", "IN"), ("cells", "NNS"), ("grow", "VBP")],
    ] * 6
    columns = {
        "doc_id": [f"d{i}" for i in range(12)],
        "tokens": [[token for token, _ in one] for one in words],
        "pos": [[tag for _, tag in one] for one in words],
        "sentence": [[0, 0, 0, 1, 1]] * 12,
        "keywords": [["neural networks"], ["cells"]] * 4 + [None] * 4,
        "complete": [True] * 4 + [False] * 8,
        "scored": [["maps", "neural networks"], None] * 6,
        "scores": [[0.2, 0.7], None] * 6,
    }
    terms = tmp_path / "terms.txt"
    terms.write_text("networks of cells\nlearn maps\n")
    settings = (f"vocabulary={terms}", "vocabulary_only=false")
    run = piped("keywords", columns, tmp_path, *settings)
    found = KeywordExtractor(
        vocabulary=["networks of cells", "learn maps"], vocabulary_only=False, n_partitions=2
    ).fit(pa.table(columns))
    compare(run, found)
    assert "networks of cells" in found.candidates_["term"].tolist()
    assert "grow" not in found.candidates_["term"].tolist()
