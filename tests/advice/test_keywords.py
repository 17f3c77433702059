"""Commands and settings that pages and warnings of keywords name, obeyed as they stand."""

import csv
import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows import storage
from flows.catalogue import pipeline_named
from flows.records.runs import open_run
from tests.advice.commands import obey, page_of, steps_of
from tests.answers.keep import command
from tests.answers.keyword_runs import write, write_sources
from tests.flows.commands import answer, printed, succeed


def setting_in(warnings: list[str]) -> list[str]:
    """Return the one option that warnings name."""
    option = r"--(?:set|column) (?:[^\s']*'[^']*'|[^\s']+?)(?=[.;]? |[.;]?$)"
    (found,) = re.findall(option, " ".join(warnings))
    return shlex.split(found)


def rows_of(path: str) -> list[dict[str, str]]:
    with Path(path).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_sources(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_all_that_a_page_advises_runs(folder, capsys):
    """Likely ones become a file; a column gold makes the next run measure what is right."""
    succeed(*command("keywords", "number"))
    likely, again, _ = steps_of("number")
    lines = obey(capsys, likely).splitlines()
    _, record = open_run("number")
    assert len(lines) == 1 + record.results["levels"][1]["count"] > 1
    write(Path("half.csv"), rows_of("gold.csv"))
    obey(capsys, again)
    assert open_run("number")[1].results["measured"]["documents"] == 20
    likely, score = steps_of("number")
    obey(capsys, score, "new.csv")
    assert open_run("scored")[1].results["fit"]["measured"]["documents"] == 20
    for said in re.findall(r"all: (vbflows show [^<]*)</p>", page_of("number")):
        obey(capsys, said)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("some", ("keyphrases=5", "lists=complete")),
        ("none", ("keyphrases=5", "lists=some", "lists=marked")),
    ],
)
def test_what_is_said_of_the_number_of_keyphrases_leaves_less_open(folder, capsys, name, given):
    before = answer(capsys, *command("keywords", name))
    (question,) = before["warnings"]
    for one in given:
        setting, _, value = one.partition("=")
        assert f"--set {setting}=" in question
        assert value in question.replace("MEAN", "5")
        after = answer(capsys, *command("keywords", name), "--set", one)
        assert after["warnings"] == []
        assert after["results"]["rate"]["log_sd"] < before["results"]["rate"]["log_sd"]


def test_a_separator_that_is_named_finds_the_known_ones(folder, capsys):
    rows = [
        row | {"keywords": row["keywords"].replace(";", ",")} for row in rows_of("abstracts.csv")
    ]
    write(Path("abstracts.csv"), rows)
    given = ("keywords", "abstracts.csv", "out", "--set", "keyphrases=5")
    before = answer(capsys, *given)
    after = answer(capsys, *given, *setting_in(before["warnings"][:1]))
    assert before["results"]["known"]["found"] == 0
    assert after["results"]["known"]["found"] > 50


def test_a_column_that_may_hold_known_ones_is_taken(folder, capsys):
    rows = [{"text": row["text"], "Author Keywords": row["keywords"]}
            for row in rows_of("abstracts.csv")]  # fmt: skip
    write(Path("abstracts.csv"), rows)
    given = ("keywords", "abstracts.csv", "out", "--set", "keyphrases=5")
    before = answer(capsys, *given)
    after = answer(capsys, *given, *setting_in(before["warnings"]))
    assert (before["results"]["known"]["found"], before["results"]["known"]["given"]) == (0, 0)
    assert after["results"]["known"]["found"] > 50


def test_terms_beyond_a_vocabulary_give_documents_candidates(folder, capsys):
    before = answer(capsys, *command("keywords", "vocabulary"))
    (said,) = [one for one in before["warnings"] if one.startswith("No candidate")]
    after = answer(capsys, *command("keywords", "vocabulary"), *setting_in([said]))
    assert before["rows_kept"] < 30
    assert after["rows_kept"] == 30


@pytest.mark.thorough
def test_lists_of_the_documents_worth_labelling_settle_the_rate(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (source,) = pipeline_named("keywords").simulate("in", 200, 3)
    printed(capsys, "keywords", source, "out", "--set", "unit=word")
    place, before = open_run("out")
    to_label = storage.read_table(place.table("ask", 0)).to_pandas()
    assert to_label.place.tolist() == list(range(1, 21))
    documents = pq.read_table(source)
    chosen = np.isin(documents["doc_id"].to_pylist(), to_label.doc_id.tolist())
    lists = zip(chosen, documents["gold"].to_pylist(), documents["keywords"].to_pylist(),
                strict=True)  # fmt: skip
    listed = pa.array([gold if one else known for one, gold, known in lists])
    place = documents.column_names.index("keywords")
    labelled = documents.set_column(place, "keywords", listed).append_column(
        "complete", pa.array(chosen)
    )
    pq.write_table(labelled, source)
    printed(capsys, "keywords", source, "out", "--set", "unit=word")
    again, after = open_run("out")
    assert after.results["rate"]["log_sd"] < 0.5 * before.results["rate"]["log_sd"]
    assert after.results["rate"]["sources"] == ["complete documents", "known keyphrases"]
    more = storage.read_table(again.table("ask", 0))["doc_id"].to_pylist()
    assert not set(more) & set(to_label.doc_id)
