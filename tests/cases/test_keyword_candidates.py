"""Known keyphrases that a text has are candidates, whatever their signs, stop words and length.

Each row is a kind of input from reports about other tools; texts are our own.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.csv as csv
import pytest

from flows.keywords.documents import prepare
from vbmodels.keywords.candidates import spans_of
from vbmodels.keywords.surfaces import written
from vbmodels.keywords.text import TextOptions

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
    """Return the candidates of a partition as they are shown, and those that are known."""
    vocabulary, forms = prepared.vocabulary.to_pylist(), prepared.forms.to_pylist()
    spans = spans_of(prepared.tokens, vocabulary, phrases)
    every = written(prepared.tokens, spans, vocabulary, prepared.marks, forms).term
    known = prepared.marks.y if phrases else prepared.tokens.y
    return every, [term for term, y in zip(every, known, strict=True) if y]


@pytest.mark.parametrize(("text", "keyword"), [(t, k) for t, known in SIGNS for k in known])
def test_a_known_keyword_that_is_in_the_text_is_a_candidate(text, keyword):
    prepared = read([{"doc_id": "d", "text": text, "keywords": [keyword]}])
    every, known = terms_of(prepared)
    assert len(known) == 1, every
    assert prepared.report.absent_keywords.count == 0
    assert prepared.report.observed > 0
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


def test_a_known_keyword_is_counted_as_others_are():
    """Where the rules find it: else their counts would show which phrases are known."""
    text = "Market runs. The market run was long; they market runs often and market run it."
    known = read([{"doc_id": "d", "text": text, "keywords": ["market runs"]}])
    without = read([{"doc_id": "d", "text": text, "keywords": None}])
    for name in ("word", "position", "pos", "offsets", "term"):
        assert (getattr(known.tokens, name) == getattr(without.tokens, name)).all(), name
    one, other = (
        spans_of(p.tokens, p.vocabulary.to_pylist(), True) for p in (known, without)
    )  # fmt: skip
    assert (one.count == other.count).all()


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


@pytest.mark.parametrize("name", ["k04_signs", "k13_inner_stop", "k18_upper"])
def test_known_keywords_of_the_cases_are_candidates(shared_data, name):
    path = shared_data.parent / "cases" / "keywords" / f"{name}.csv"
    if not path.exists():
        pytest.skip("the folder of cases is not there")
    table = csv.read_csv(path, parse_options=csv.ParseOptions(newlines_in_values=True))
    rows = [
        {"doc_id": row["doc_id"], "text": row["text"],
         "keywords": [k.strip() for k in (row["keywords"] or "").split(";") if k.strip()]}
        for row in table.to_pylist()
    ]  # fmt: skip
    prepared = read(rows)
    there = sum(k.lower() in row["text"].lower() for row in rows for k in row["keywords"])
    assert int(prepared.marks.y.sum()) == there == sum(len(row["keywords"]) for row in rows)
