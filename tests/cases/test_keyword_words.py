"""Words as people write them: what is one, what joins two, and what ends a phrase."""

import pytest

from vbmodels.estimators import KeywordExtractor
from vbmodels.text.cleaning import cleaned
from vbmodels.text.languages import ENGLISH
from vbmodels.text.reading import read_documents
from vbmodels.text.result_rows import written
from vbmodels.text.tokens import Labels, Row, split_terms, without_mark
from vbmodels.text.words import TextOptions


def read(text, *known, language=ENGLISH, phrases=True):
    """Return the candidates of a text as they are shown, and those that are known."""
    labels = without_mark(Labels("d", split_terms(known) if known else None))
    found = read_documents([Row(labels, text)], TextOptions(language), phrases)
    shown = written(found.tokens, found.spans, found.vocabulary, found.marks, found.forms)
    known = {term for term, y in zip(shown.term, found.marks.y, strict=True) if y}
    known |= {one.forms[0] for one in found.listed}
    return set(shown.term), known, found


@pytest.mark.parametrize(
    ("text", "there", "absent"),
    [
        ("T cells attack. Memory T cells of T cells.", ("T cells", "memory T cells"), ("T",)),
        ("We gave vitamin D. Vitamin D deficiency.", ("vitamin D",), ("D", "D deficiency")),
        ("The type I error rose.", ("type I error",), ("I", "I error", "type I")),
        ("Influenza A virus spreads.", ("influenza A virus",), ("A", "A virus", "influenza A")),
        ("A survey of bees. I package them.", ("survey",), ("A survey", "I package")),
        ("An R package draws. Diabetes type 1 is rare.", ("R package", "diabetes type 1"), ("1",)),
        ("See Table 2 and 5 sites.", ("sites",), ("Table 2", "5 sites", "2")),
        ("We found E. coli. The wells had E. coli.", ("E. coli",), ("coli", "E")),
        ("Crohn’s disease hurts. Crohn’s disease is old.", ("Crohn’s disease",), ()),
        ("HIV/AIDS prevention works; HIV/AIDS kills.", ("HIV/AIDS",), ()),
        ("Input/output is slow. The input/output waits.", ("input/output",), ()),
        ("The network (CNN) is small.", ("network", "CNN"), ("network CNN", "network ( CNN")),
        ("Polli\u00adnation of ﬂoors\u200b. Food se\u00ad\ncurity.",
         ("pollination", "floors", "food security"), ("polli", "ﬂoors")),
        ("Subject: Varroa mites\nDate: 3 June\n\nHi Bob,\nwinter bees", ("Varroa mites",),
         ("Varroa mites Date", "Bob winter bees")),
        ("Bee hives\nClover fields\nRape oil", ("bee hives", "clover fields"),
         ("hives Clover fields",)),
    ],
)  # fmt: skip
def test_words_are_those_that_people_write(text, there, absent):
    terms, _, _ = read(text)
    assert not set(there) - terms, terms
    assert not {term.lower() for term in absent} & {term.lower() for term in terms}


@pytest.mark.parametrize(
    ("text", "keyword", "shown"),
    [
        ("Memory T cells persist. T cells were seen.", "T cells", "T cells"),
        ("Memory T cells persist.", "t cells", "T cells"),
        ("We found E. coli here.", "E. coli", "E. coli"),
        ("Parkinson's disease is one.", "Parkinson’s disease", "Parkinson's disease"),
        ("HIV/AIDS is one.", "HIV / AIDS", "HIV/AIDS"),
        ("A neural network (CNN) learns.", "neural network (CNN)", "neural network"),
        ("The p53 (TP53) gene.", "p53 (TP53)", "p53"),
        ("The ﬂoor heating hums.", "floor\u00ad heating", "floor heating"),
        ("We used R here.", "R", "R"),
        ("A type I error is rare.", "type i error", "type I error"),
    ],
)
def test_a_given_keyphrase_has_the_form_of_the_text(text, keyword, shown):
    _, known, found = read(text, keyword)
    assert known == {shown}
    assert found.report.absent_keywords.count == 0


def test_joiners_that_a_script_needs_stay():
    assert cleaned("می\u200cشود؛ क\u094d\u200dष \u200bx\u200cy").text == (
        "می\u200cشود؛ क\u094d\u200dष xy"
    )


@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        ("chinese", "我们可以利用机器学习。但是他们没有数据。", "我们 可以 但是 他们 没有"),
        ("hindi", "हमने सौर पंप लगाए। उन्होंने क्या किया।", "हमने उन्होंने क्या"),
        ("arabic", "نحن ندرس الطاقة. هذه التي كانت هناك.", "نحن هذه التي هناك"),
        ("greek", "Η μάθηση είναι αυτή που έχει η μηχανή.", "η είναι αυτή που έχει"),
        ("turkish", "Bu şey için güneş enerjisi değil.", "bu şey için değil"),
        ("hebrew", "אבל המים או האנרגיה של השמש.", "אבל או של"),
        ("german", "Die Vorlauftemperatur hängt von der Pumpe ab.", "die ab hängt von der"),
    ],
)
def test_function_words_are_no_candidates(language, text, words):
    terms, _, _ = read(text, language=language)
    assert terms
    assert not {*words.split()} & {term.lower() for term in terms}


def test_german_phrases_end_with_nouns():
    text = (
        "Künstliche Intelligenz hilft. Die Verkehrswende braucht einen öffentlichen Nahverkehr. "
        "Das Brot enthält Bakterien. Wir prüfen die Wirkung neuronaler Netze."
    )
    terms, _, _ = read(text, language="german")
    assert terms == {
        "Künstliche Intelligenz", "Intelligenz", "Verkehrswende", "öffentlichen Nahverkehr",
        "Nahverkehr", "Brot", "Bakterien", "Wirkung", "neuronaler Netze", "Netze",
    }  # fmt: skip
    assert "netze lernen" in read(text.lower() + " netze lernen", language="german")[0]


@pytest.mark.parametrize("mark", ["-", "N/A", "none", "–", "", "nan"])
def test_a_mark_of_a_missing_cell_is_no_list(mark):
    _, _, found = read("Bees dance.", mark)
    assert not found.tokens.looked_at.any()
    assert found.report.marks == ({mark: 1} if mark else {})
    assert read("Bees dance.", "bees", mark)[1] == {"bees"}


def test_single_words_have_no_letters():
    terms, _, _ = read("We gave vitamin D. Vitamin D helps.", phrases=False)
    assert "vitamin" in terms
    assert "d" not in {term.lower() for term in terms}


def test_very_short_documents_have_whole_phrases():
    found = KeywordExtractor().fit(
        [
            "Solar panel efficiency in deserts",
            "Quantum error correction codes",
            "Urban heat islands",
        ]
        * 2
    )
    for terms in found.transform(["Solar panel efficiency in deserts", "Urban heat islands"]):
        assert {term.lower() for term in terms} <= {
            "solar panel efficiency", "deserts", "urban heat islands",
        }  # fmt: skip
        assert terms
