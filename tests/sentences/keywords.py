"""Keywords: documents, labels and settings that cannot be."""

from pathlib import Path

import pyarrow as pa

from tests.flows.experts.runs import written
from tests.sentences.said import Said, command, table, text

GOOD = {
    "doc_id": ["a", "b"],
    "tokens": [["one", "word"], ["two"]],
    "pos": [["CD", "NN"], None],
    "sentence": [[0, 0], [1]],
    "keywords": [["word"], []],
}


def documents(*settings: str, **columns: object) -> Said:
    return table("check keywords", {**GOOD, **columns}, *settings)


def broken(column: str) -> Said:
    """Documents of which the second has bytes that are no UTF-8."""
    cells = pa.array([b"fine", b"caf\xe9", b"fine too"]).cast(pa.binary())
    cells = pa.StringArray.from_buffers(3, *cells.buffers()[1:])
    if column == "keywords":
        cells = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), cells)
    sound = {"doc_id": ["a", "b", "c"], "text": ["x", "y", "z"], "keywords": [["x"]] * 3}
    return table("check keywords", {**sound, column: cells})


def two_files(folder: Path) -> None:
    written(
        folder, {"doc_id": ["a", "c"], "text": ["x", "y"], "keywords": [["x"]] * 2}, "z.parquet"
    )
    written(
        folder, {"doc_id": ["b", "a"], "text": ["x", "y"], "keywords": [["x"]] * 2}, "y.parquet"
    )


MANY = {"doc_id": ["same"] * 100, "tokens": [["a", "b"]] * 100, "pos": [["NN"]] * 100}
MANY["keywords"] = [["a"]] * 100
WORDS = {"text": ["", "...", "1 2 3"], "keywords": [["x"], [], ["y"]]}

CASES = {
    "nothing wrong": documents(),
    "names in a dictionary, twice": documents(doc_id=pa.array(["a", "a"]).dictionary_encode()),
    "no row": table("check keywords", pa.table(GOOD).slice(0, 0)),
    "tags alone": table("check keywords", {"pos": GOOD["pos"]}),
    "text as tokens": documents(tokens=["one word", "two"]),
    "no name": documents(doc_id=["a", None]),
    "an empty name": documents(doc_id=["a", ""]),
    "a name twice": documents(doc_id=["b", "b"]),
    "a name twice over files": command("check keywords @", two_files),
    "sentences of another length": documents(sentence=[[1], [1]]),
    "neither text nor tokens": documents(tokens=[None, ["two"]]),
    "a null among tokens": documents(tokens=[["one", None], ["two"]]),
    "unknown tags": documents(pos=[["N", "V"], ["N"]]),
    "scored alone": documents(scored=[["word"], ["two"]]),
    "scores alone": documents(scores=[[1.0], [2.0]]),
    "many faults": table("check keywords", MANY),
    **{f"{name} that is no UTF-8": broken(name) for name in ("doc_id", "text", "keywords")},
    "no candidate word": table("check keywords", WORDS),
    "no known keyphrase": text("check keywords", "Maps of old maps.", "a.txt"),
    "no known keyphrase and no prior": command(
        "check keywords @/a.txt --set prior=none",
        lambda folder: (folder / "a.txt").write_text("Maps of old maps and of new maps."),
    ),
    "a prior that is none": command(
        "check keywords @/a.txt --set prior=@/a.txt",
        lambda folder: (folder / "a.txt").write_text("Maps of old maps and of new maps."),
    ),
    "vbss without a known keyphrase": command(
        "check keywords @/a.txt --set model=vbss",
        lambda folder: (folder / "a.txt").write_text("Maps of old maps and of new maps."),
    ),
    "vbss of phrases": documents("model=vbss", "unit=phrase"),
    "keyphrases of words": documents("unit=word", "keyphrases=5"),
    "a rate of phrases": documents("keyword_rate=0.3"),
    "the sd of no rate": documents("rate_sd=0.3"),
    "an inference of the corpus model": documents("inference=mean_field"),
    "a column that is not there": command(
        "check keywords @/in.csv --column text=Abstrakt",
        lambda folder: (folder / "in.csv").write_text("Abstract\nof maps\n"),
    ),
    "a column that is none of ours": command(
        "check keywords @/in.csv --column abstract=text",
        lambda folder: (folder / "in.csv").write_text("Abstract\nof maps\n"),
    ),
}
