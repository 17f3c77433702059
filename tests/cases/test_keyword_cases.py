"""Every case of keywords gives what its table says: what is found, what is said, how it ends."""

import json
from dataclasses import dataclass

import pytest

from flows import storage
from flows.records.runs import open_run
from tests.flows.commands import run


@dataclass(frozen=True)
class Case:
    """A file, settings, and what the run must give."""

    name: str
    settings: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    no_candidates: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    not_said: tuple[str, ...] = ()
    observed: int | None = None  # known candidates
    documents: int | None = None  # with a candidate


CASES = (
    Case(
        "k01_zh_ja", ("language=chinese",), ("神经网络", "机器学习", "可再生能源"),
        no_candidates=("的", "和", "は", "。"), documents=42, not_said=("No candidate",),
        said=("Languages: ", "Japanese"),
    ),
    Case("k02_ar", ("language=arabic",), ("الري", "الطاقة الشمسية"),
         no_candidates=("الرّي", "،")),
    Case("k03_de", ("language=german",), ("Zusatzbeiträgen", "Microservices"),
         ("Krankenversicherungsbeiträge", "Arbeitgeberverbände", "Straßenbahnausbau"),
         ("krankenversicherungsbeiträge", "Arbeitgeberverbände fordern")),
    Case("k04_signs", (), ("COVID-19", "IL-6", "EU", "AI", "C++", "S&P 500", "2,4-D"),
         ("US", "C#", "SARS-CoV-2", "TNF-α", "Fe2+"), ("Fe2", "S&P 500 futures fell"),
         not_said=("not in their documents' text",)),
    Case("k05_tweets", (), ("Lisbon",), no_candidates=("t.co", "friend_01", "citybus"),
         said=("No candidate in 30 of 120 documents",), documents=90),
    Case("k06_markup", (), ("soil erosion", "graph databases", "heat equation"),
         no_candidates=("class", "href", "amp", "div", "nbsp", "graphlib", "emph"),
         said=("Markup or running heads were taken out of 30 documents", "m0 (HTML)")),
    Case("k07_absent", (), observed=0,
         said=("84 of 84 known keyphrases, not in their documents' text", "nothing is learned")),
    Case("k13_inner_stop", (),
         ("quality of life", "Ministry of Health", "Internet of Things", "state of charge"),
         not_said=("not in their documents' text",)),
    Case("k17_commas", (), observed=0,
         said=("Split at \",\", 120 of these are found: --set 'list_separator=\",\"'.",)),
    Case("k17_commas", ("list_separator=\",\"",), ("graph database", "heat pump"),
         not_said=("not in their documents' text",)),
    Case("k18_upper", (), ("graph database", "heat pump", "nodes"),
         not_said=("not in their documents' text",)),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join((case.name, *case.settings)))
def test_a_case_gives_what_its_table_says(shared_data, tmp_path, capsys, case):
    source = shared_data.parent / "cases" / "keywords" / f"{case.name}.csv"
    if not source.exists():
        pytest.skip("the folder of cases is not there")
    given = [word for setting in case.settings for word in ("--set", setting)]
    code, out, err = run(capsys, "keywords", source, tmp_path / "out", "--json", *given)
    assert code == 0, err
    found = json.loads(out)
    place, record = open_run(str(tmp_path / "out"))
    rows = storage.read_table(place.table("keywords", 0)).to_pylist()
    terms = {row["term"] for row in rows}
    known = {row["term"] for row in rows if row["observed"]}
    lower = {term.lower() for term in known}
    assert not [term for term in case.known if term.lower() not in lower], sorted(known)
    assert not set(case.candidates) - terms, sorted(terms)
    assert not set(case.no_candidates) & terms
    shown = " ".join((*found["warnings"], *found["notes"]))
    for piece in case.said:
        assert piece in shown, shown
    for piece in case.not_said:
        assert piece not in shown, shown
    if case.observed is not None:
        assert found["results"]["known"]["found"] == case.observed
    if case.documents is not None:
        assert record.rows_kept == case.documents
