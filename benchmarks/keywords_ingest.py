"""From text to features, stage by stage, in CPU milliseconds a document, beside rivals.

Last, in processes of their own, what the first use of the tagger costs, and how many bytes ingest
writes for one of its input.

Usage: python benchmarks/keywords_ingest.py HULTH.parquet, a table with ``text``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from nltk.stem import PorterStemmer
from sklearn.feature_extraction.text import TfidfVectorizer
from textblob.en.taggers import PatternTagger
from yake import KeywordExtractor

from flows.data import storage
from flows.data.runs import RunPaths
from flows.keywords.counts import reduce_counts
from flows.keywords.documents import build, prepare
from flows.keywords.family import FAMILY
from flows.keywords.settings import KeywordSettings
from flows.keywords.text import Normaliser, TextOptions
from flows.keywords.tokens import read_tokens

DOCUMENTS = 500


def milliseconds(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return the best of three runs, per document, and the result."""
    best, result = float("inf"), None
    for _ in range(3):
        begin = time.process_time()
        result = run()
        best = min(best, time.process_time() - begin)
    return best * 1e3 / DOCUMENTS, result


def main(path: str) -> None:
    """Write one line a stage, then one a rival."""
    table = pq.read_table(path).slice(0, DOCUMENTS)
    texts = table["text"].to_pylist()
    gold = [phrases[:2] for phrases in table["gold_phrases"].to_pylist()]
    documents = table.select(["doc_id", "text"]).append_column("keywords", pa.array(gold))
    options = TextOptions()

    def line(name: str, run: Callable[[], Any]) -> Any:
        each, result = milliseconds(run)
        sys.stdout.write(f"{name:58s} {each:8.3f} ms\n")
        return result

    found = line("split and tag", lambda: read_tokens(documents, options))
    tokens = [found.names[number] for number in found.token]

    def normalise_all() -> list[str | None]:
        normalise = Normaliser(options)
        return [normalise(token) for token in tokens]

    line("lower case, stop words, stems", normalise_all)
    prepared = line(
        "prepare: the two above, candidates, surfaces, counts", lambda: prepare(documents, options)
    )
    line("prepare, with phrases", lambda: prepare(documents, options, True))
    counts = line("add up the corpus counts", lambda: reduce_counts([prepared.counts]))
    line(
        "build: graphs and 33 features",
        lambda: build(prepared.tokens, prepared.vocabulary, counts, DOCUMENTS),
    )

    tagger, porter, yake = PatternTagger(), PorterStemmer(), KeywordExtractor(n=1, top=20)
    line("rival: textblob's tagger, text to tags", lambda: [tagger.tag(text) for text in texts])
    line("rival: nltk's Porter stems of every token", lambda: [porter.stem(t) for t in tokens])
    line("rival: scikit-learn TF-IDF", lambda: TfidfVectorizer().fit_transform(texts))
    line("rival: YAKE, text to keywords", lambda: [yake.extract_keywords(t) for t in texts])
    for name, code in (("the tagger, as we load it", OURS), ("rival: textblob whole", WHOLE)):
        sys.stdout.write(f"{'first use of ' + name:58s} {seconds_of(code):8.2f} s\n")
    for unit in ("word", "both"):
        sys.stdout.write(f"{'bytes written by ingest / read, unit=' + unit:58s} ")
        sys.stdout.write(f"{written_per_byte(documents, unit):8.2f}\n")


USE = "_parser().find_tags(['two', 'words'])"
OURS = f"from flows.keywords.text import _parser; begin = time.process_time(); {USE}"
WHOLE = (
    "from flows.keywords.text import _parser; begin = time.process_time(); import textblob; " + USE
)


def seconds_of(code: str) -> float:
    """Return the CPU seconds that a fresh process takes from ``begin`` on."""
    code = f"import time; {code}; print(time.process_time() - begin)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    return float(done.stdout)


def written_per_byte(documents: pa.Table, unit: str) -> float:
    """Return the bytes that ingest writes for each byte of its Parquet file."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "in.parquet"
        pq.write_table(documents, source)
        settings = KeywordSettings(unit=unit)
        paths = RunPaths(storage.absolute(folder), "run")
        file = storage.expand(str(source), FAMILY.suffixes)
        checked = [FAMILY.check(one, settings) for one in file]
        for part in FAMILY.plan(file, checked, settings):
            FAMILY.ingest(part, settings, paths)
        work = Path(folder, "runs", "run", "work")
        return sum(f.stat().st_size for f in work.rglob("*") if f.is_file()) / source.stat().st_size


if __name__ == "__main__":
    main(sys.argv[1])
