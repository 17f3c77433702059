"""Languages: detected by document, cut where they have no spaces, their marks joined."""

import sys

import pyarrow as pa
import pytest

from flows.keywords.input.documents import prepare
from flows.report.render import lines_of
from tests.cases.documents_read import candidates, reading
from vbmodels.text import languages as segmenting
from vbmodels.text.languages import LanguageError
from vbmodels.text.words import TextOptions

CHINESE = "深度学习是机器学习的一个分支，它使用多层神经网络。卷积神经网络在图像识别中取得了成功。"
JAPANESE = "機械学習の研究では深層学習が使われている。深層学習は画像認識に強い。"
THAI = "การเรียนรู้ของเครื่องเป็นสาขาหนึ่งของปัญญาประดิษฐ์ ปัญญาประดิษฐ์มีประโยชน์"
ARABIC = "تعتمد الزراعة على الري، وجودة التربة. يساعد الرّي الجيّد على زيادة المحصول، الـري مهم."
HEBREW = "שָׁלוֹם הוא חלום. הילדים רוצים שלום ושלום רב."
HINDI = "मशीन लर्निंग एक शाखा है। मशीन लर्निंग डेटा से सीखती है।"
GERMAN = "Die Krankenkassen warnen vor höheren Beiträgen, und die Regierung plant eine Reform."
FRENCH = "La qualité de l'eau des rivières dépend des pluies et de la qualité de l'eau de source."
ENGLISH = "The rate of growth of the trees is what we measured in this study of forests."


def read(language, *texts, keywords=()):
    rows = [
        {"doc_id": f"d{i}", "text": text, "keywords": list(keywords)}
        for i, text in enumerate(texts)
    ]
    prepared = prepare(pa.Table.from_pylist(rows), TextOptions(language=language), True)
    _, found = candidates(prepared)
    known = [t for t, y in zip(found.term, prepared.marks.y, strict=True) if y]
    return prepared, found.term, [*known, *(one.term for one in prepared.listed)]


@pytest.mark.parametrize("given", ["auto", "chinese"])
@pytest.mark.parametrize(
    ("text", "terms", "keywords", "out"),
    [
        (CHINESE, {"神经网络", "机器学习"}, ["神经网络", "机器学习", "图像识别"], "的"),
        (JAPANESE, {"研究", "深層学習"}, ["機械学習", "画像認識"], "の"),
        (THAI, {"ปัญญาประดิษฐ์"}, ["ปัญญาประดิษฐ์"], "ของ"),
    ],
)
def test_scripts_without_spaces_are_cut_into_words(given, text, terms, keywords, out):
    prepared, every, known = read(given, text, keywords=keywords)
    assert terms <= set(every), every
    assert out not in every
    assert set(known) == set(keywords)
    assert not any(sign in term for term in every for sign in "，。 ")
    assert max(map(len, every)) < 30
    assert prepared.tokens.n_words > 3


def test_without_the_segmenter_the_extra_is_named(monkeypatch):
    segmenting._segmenter.cache_clear()
    monkeypatch.setitem(sys.modules, "jieba", None)
    with pytest.raises(LanguageError, match=r"vbflows\[languages\]"):
        read("auto", CHINESE)
    segmenting._segmenter.cache_clear()
    assert read("auto", f"{ENGLISH} A word: 東京.")[0].report.languages == {"english": 1}


def test_marks_that_writers_leave_out_are_joined():
    _, every, known = read("arabic", ARABIC, keywords=["الري"])
    assert len(known) == 1
    assert sum(term in ("الري", "الرّي", "الـري") for term in every) == 1
    assert not any("،" in term for term in every)
    prepared, _, known = read("hebrew", HEBREW, keywords=["שלום"])
    assert len(known) == 1
    assert prepared.marks.y.sum() == 1


@pytest.mark.parametrize(
    ("text", "language", "known"),
    [
        ("인공지능은 기계 학습을 포함한다. 기계 학습은 데이터를 쓴다.", "korean",
         ("기계 학습", "인공지능")),
        ("Машинное обучение и сети.", "russian", ("машинное обучение",)),
        ("Việt Nam là một quốc gia ở Đông Nam Á. Trí tuệ nhân tạo phát triển nhanh.", "vietnamese",
         ("trí tuệ nhân tạo", "Đông Nam Á")),
        ("人工智能（AI）与大数据分析。GPT-4模型用于机器翻译。", "chinese",
         ("人工智能", "GPT-4", "机器翻译")),
    ],
)  # fmt: skip
def test_known_keywords_of_other_scripts_are_in_the_result(text, language, known):
    prepared, _, found = read("auto", text, keywords=known)
    assert prepared.report.languages == {language: 1}
    assert len(found) == len(known)


def test_signs_of_every_script_end_sentences():
    _, every, _ = read("hindi", HINDI)
    assert "मशीन लर्निंग" in every
    assert not any("।" in term for term in every)
    greek = read("greek", "Η μηχανική μάθηση; Η βαθιά μάθηση· και η μάθηση.")[1]
    assert not any(";" in term or "·" in term for term in greek)


def test_the_language_of_every_document_is_detected_and_said():
    prepared, every, _ = read("auto", GERMAN, FRENCH, ENGLISH, "Short one", CHINESE)
    found = prepared.report.languages
    assert found == {"german": 1, "french": 1, "english": 1, "": 1, "chinese": 1}
    assert {"Krankenkassen", "qualité de l'eau", "growth"} <= set(every)
    assert "die" not in every
    (notice, *_) = lines_of("keywords", "read_notes", reading(prepared.report))
    assert notice.startswith("Languages: German 1, French 1, ")
    assert notice.endswith(
        "; 1 too short or not clear, read as English. If that is wrong, add --set language=NAME."
    )
    prepared, _, _ = read("auto", ENGLISH, ENGLISH)
    assert lines_of("keywords", "read_notes", reading(prepared.report)) == []
    assert read("german", GERMAN, ENGLISH)[0].report.languages == {"german": 2}
