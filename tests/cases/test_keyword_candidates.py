"""Known keyphrases that a text has are in the result, and make no candidates.

Each row is a kind of input from reports about other tools; texts are our own.
"""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

from flows.keywords.input.documents import prepare
from tests.cases.documents_read import candidates
from vbmodels.text.candidates import spans_of
from vbmodels.text.result_rows import ResultRows
from vbmodels.text.words import TextOptions

SIGNS = (
    ("Serum IL-6 and TNF-α levels predicted outcome of COVID-19. SARS-CoV-2 causes COVID-19.",
     ("COVID-19", "IL-6", "TNF-α", "TNF-alpha", "SARS-CoV-2")),
    ("The EU and the US agreed. It is said that IT firms and the WHO follow the US.",
     ("US", "IT", "WHO", "EU")),
    ("We compare C++ and C# code with F#, .NET and Node.js. C++ templates compile.",
     ("C++", "C#", "F#", ".NET", "Node.js")),
    ("S&P 500 futures fell as AT&T lost; R&D at Marks & Spencer and Windows 10 did not.",
     ("S&P 500", "AT&T", "R&D", "Marks & Spencer", "Windows 10")),
    ("Residues of 2,4-D and 1,3-butadiene, of Fe2+, Ca2+ and CD4+ cells with H2O2.",
     ("2,4-D", "1,3-butadiene", "Fe2+", "Ca2+", "CD4+ cells", "H2O2")),
    ("Self check-in at the front desk: check in, log in, sign up. An all-in-one e-mail.",
     ("check-in", "self check-in", "log in", "sign up", "all-in-one", "e-mail")),
    ("The A* search and R are used on 5G and 3D data, for type 2 diabetes and vitamin C.",
     ("A* search", "R", "5G", "type 2 diabetes", "vitamin C")),
    ("COVID\u201119 and the TCP/IP stack; O\u2019Reilly\u2019s book on client/server systems.",
     ("COVID-19", "TCP/IP", "O'Reilly", "client/server systems")),
    ("DO NOT PANIC: THE WHO SAYS THAT THE UNITED STATES WILL JOIN.",
     ("United States",)),
    ("Quality of life after stroke. The Ministry of Health has rules on freedom of information.",
     ("quality of life", "Ministry of Health", "freedom of information")),
    ("Out of hospital cardiac arrest in children and young adults was studied by the Board of "
     "Governors of the Federal Reserve System.",
     ("out of hospital cardiac arrest in children and young adults",
      "Board of Governors of the Federal Reserve System")),
    ("To be or not to be, that is the question of The Who and The Beatles.",
     ("to be or not to be", "The Who", "The Beatles")),
    ("They were running quickly and swimming.", ("running quickly", "They were running")),
    ("NF-κB, 17β-estradiol, Na+/K+-ATPase, N,N-dimethylformamide, the 3'-UTR, CO₂ and HbA1c.",
     ("NF-kappaB", "17β-estradiol", "Na+/K+-ATPase", "N,N-dimethylformamide", "3'-UTR", "CO2",
      "HbA1c")),
    ("ASP.NET, C/C++ and Visual C++ 6.0; iPhone 14 Pro and Ben & Jerry's in World War II.",
     ("ASP.NET", "C/C++", "Visual C++", "iPhone 14 Pro", "Ben & Jerry's", "World War II")),
    ("The U.K. trade of St. Louis and Ph.D. students. End-of-life care and decision-making.",
     ("UK trade", "St. Louis", "Ph.D. students", "end of life care", "decision making")),
)  # fmt: skip


def read(rows, phrases=True, **options):
    return prepare(pa.Table.from_pylist(rows), TextOptions(**options), phrases)


def terms_of(prepared, phrases=True):
    """Return the rows of a result as they are shown, and those that are known."""
    spans, texts = candidates(prepared, phrases)
    rows = ResultRows.of(spans, texts, prepared.listed, len(prepared.names))
    every, known = rows.texts.term, rows.take(prepared.marks.y, True)
    return every, [term for term, y in zip(every, known, strict=True) if y]


@pytest.mark.parametrize(("text", "keyword"), [(t, k) for t, known in SIGNS for k in known])
def test_a_known_keyword_that_is_in_the_text_is_in_the_result(text, keyword):
    prepared = read([{"doc_id": "d", "text": text, "keywords": [keyword]}])
    every, known = terms_of(prepared)
    assert len(known) == 1, every
    assert prepared.report.absent_keywords.count == 0
    assert not {"it", "us", "who", "the", "of"} & set(every)


def test_what_is_shown_is_written_as_in_the_text():
    rows = [
        {"doc_id": str(i), "text": text, "keywords": list(known)}
        for i, (text, known) in enumerate(SIGNS[:6])
    ]
    _, known = terms_of(read(rows))
    for term in ("COVID-19", "TNF-α", "US", "WHO", "C++", "C#", "S&P 500", "2,4-D", "Fe2+"):
        assert term in known
    assert "Marks & Spencer" in known
    mixed = "The pH of mRNA in iPhone cases. O'Brien said so."
    every, _ = terms_of(read([{"doc_id": "d", "text": mixed}]))
    assert {"pH", "mRNA", "iPhone cases", "O'Brien"} <= set(every)
    assert "check-in" in known


def test_phrases_with_stop_words_that_recur_are_candidates_without_being_known():
    text = (
        "Quality of life was measured. The quality of life of users of the Internet of Things is "
        "studied. Internet of Things gateways are new. Once a lifetime of study."
    )
    every, _ = terms_of(read([{"doc_id": "d", "text": text}]))
    assert {"quality of life", "Internet of Things"} <= set(every)
    assert not [term for term in every if "lifetime" in term and " " in term]
    french = "Les droits de l'homme. Des droits de l'homme et la qualité de l'eau."
    every, _ = terms_of(read([{"doc_id": "d", "text": french}], language="french"))
    assert "droits de l'homme" in every
    german = "Der Schutz des Menschen ist alt. Der Schutz des Menschen bleibt."
    assert "Schutz des Menschen" in terms_of(
        read([{"doc_id": "d", "text": german}], language="german")
    )[0]  # fmt: skip


LONG = "Rare things happen here. " + "Common words fill the common pages of a book. " * 150
LISTS = (
    *SIGNS,
    ("Market runs. The market run was long; they market runs often and market run it.",
     ("market runs", "often")),
    (LONG, ("rare things", "happen here", "rare")),
)  # fmt: skip


@pytest.mark.parametrize("phrases", [True, False])
@pytest.mark.parametrize("most", [2000, 3])
def test_a_list_makes_no_candidate(phrases, most):
    """Else a model would learn that what is listed is listed."""
    rows = [{"doc_id": str(i), "text": text} for i, (text, _) in enumerate(LISTS)]
    lists = [{**row, "keywords": list(own)} for row, (_, own) in zip(rows, LISTS, strict=True)]
    without = read([{**row, "keywords": []} for row in rows], phrases, max_words=most)
    known = read(lists, phrases, max_words=most)
    for field in dataclasses.fields(known.tokens):
        if field.name != "y":
            pair = (getattr(one.tokens, field.name) for one in (known, without))
            np.testing.assert_array_equal(*pair, err_msg=field.name)
    one, other = (spans_of(p.tokens, p.vocabulary.to_pylist(), phrases) for p in (known, without))
    for field in dataclasses.fields(one):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))
    names = ("key", "fold", "documents", "looked_at")
    for kind, counts in known.counts.items():
        assert counts.select(names).equals(without.counts[kind].select(names))
    rate = [(p.marks.y.sum(), p.marks.listed.sum()) for p in (known, without)]
    assert rate[0][0] + len(known.listed) >= 40
    assert rate[1] == (0, 0)


def test_a_document_of_listed_phrases_alone_has_a_row():
    rows = [
        {"doc_id": "a", "text": "They were running quickly.", "keywords": ["running quickly"]},
        {"doc_id": "b", "text": "Bees fly to the hive.", "keywords": ["hive", "Fly to"]},
        {"doc_id": "c", "text": "of the", "keywords": ["the"]},
        {"doc_id": "d", "text": "of the", "keywords": ["bees"]},
    ]
    prepared = read(rows)
    every, known = terms_of(prepared)
    assert known == ["running quickly", "hive", "Fly to", "the"]
    assert prepared.names.to_pylist() == ["a", "b", "c"]
    assert prepared.report.without_words.names == ("d",)
    assert prepared.report.absent_keywords.names == ("d: bees",)
    assert every


def test_a_capital_at_the_beginning_of_a_sentence_is_that_of_most_forms():
    french = "Les droits de l'homme. Des droits de l'homme et la qualité de l'eau."
    every, _ = terms_of(read([{"doc_id": "d", "text": french}], language="french"))
    assert "droits de l'homme" in every
    german = (
        "Krankenkassen warnen. Krankenkassen zahlen mehr. Beiträge steigen, und die Beiträge der "
        "Krankenkassen bleiben. Schnelle Hilfe kommt, schnelle Hilfe zählt."
    )
    every, _ = terms_of(read([{"doc_id": "d", "text": german}], language="german"))
    assert {"Krankenkassen", "Beiträge", "schnelle Hilfe"} <= set(every)
    english = "Deep networks learn. Networks are deep. Bayes and the rule of Bayes. Bayes wins."
    every, _ = terms_of(read([{"doc_id": "d", "text": english}]))
    assert {"deep networks", "networks", "Bayes"} <= set(every)
