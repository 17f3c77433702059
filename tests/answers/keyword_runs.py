"""Small runs of keywords, one of each kind of answer."""

import csv
from pathlib import Path

from tests.answers.snapshots import HERE

ABSTRACTS = HERE.parents[1] / "examples" / "abstracts.csv"
RUNS = {
    "some": ("keywords", "half.csv"),
    "number": ("keywords", "half.csv", "--set", "keyphrases=6"),
    "gold": ("keywords", "gold.csv", "--set", "keyphrases=6"),
    "none": ("keywords", "texts.csv"),
    "complete": ("keywords", "abstracts.csv", "--set", "lists=complete"),
    "vocabulary": ("keywords", "texts.csv", "--set", "vocabulary=terms.txt",
                   "--set", "keyphrases=3"),
    "titles": ("keywords", "titles.csv", "--column", "text=title"),
    "words": ("keywords", "half.csv", "--set", "unit=word"),
    "vbss": ("keywords", "few.csv", "--set", "model=vbss"),
    "score": ("score", "number", "new.csv"),
    "score_seen": ("score", "number", "half.csv"),
}  # fmt: skip
"""The command of each kind of answer: a pipeline with its input, or a score of a run's fit."""


def write(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_sources(folder: Path) -> None:
    """Write the abstracts with all lists, with half of them, with none, and their titles."""
    with ABSTRACTS.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    texts = [{name: row[name] for name in ("doc_id", "text")} for row in rows]
    half = [
        text | {"keywords": row["keywords"] if i % 2 else ""}
        for i, (text, row) in enumerate(zip(texts, rows, strict=True))
    ]
    write(folder / "abstracts.csv", rows)
    write(folder / "half.csv", half)
    write(folder / "gold.csv", [one | {"gold": row["keywords"]}
                                for one, row in zip(half, rows, strict=True)])  # fmt: skip
    write(folder / "texts.csv", texts)
    write(folder / "new.csv", [one | {"doc_id": f"new-{i}"} for i, one in enumerate(texts[::3], 1)])
    write(folder / "few.csv", rows[:4])
    write(folder / "titles.csv", [{"title": one["text"].partition(".")[0]} for one in texts])
    terms = "traffic noise\nsoil samples\nsummer\ncarbon\nno such term\n"
    folder.joinpath("terms.txt").write_text(terms, encoding="utf-8")
