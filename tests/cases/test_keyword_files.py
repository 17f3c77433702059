"""Folders of texts, PDF and Word files, with the known keyphrases in a CSV of the same folder."""

import io
import json
import sys
import zipfile

import pytest

from flows import storage
from flows.storage.formats.text_documents import text_of
from tests.flows.commands import run

TEXT = "The network of rivers was mapped by radar. A model of rivers is new."


def pdf(*pages):
    """A PDF with a line of text on each page."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 "
               b"/BaseFont /Helvetica >>"]  # fmt: skip
    kids = []
    for lines in pages:
        shown = b"".join(b"(%s) Tj 0 -14 Td " % line.encode() for line in lines.split("\n"))
        stream = b"BT /F1 12 Tf 20 700 Td " + shown + b"ET"
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents %d 0 R /Resources "
            b"<< /Font << /F1 3 0 R >> >> >>" % len(objects)
        )
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(kids), len(kids))
    out, places = io.BytesIO(), []
    out.write(b"%PDF-1.4\n")
    for number, body in enumerate(objects, 1):
        places.append(out.tell())
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, body))
    start = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    for place in places:
        out.write(b"%010d 00000 n \n" % place)
    out.write(b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (
        len(objects) + 1, start))  # fmt: skip
    return out.getvalue()


def docx(*paragraphs, table=()):
    from docx import Document

    document, out = Document(), io.BytesIO()
    for paragraph in paragraphs:
        document.add_paragraph(paragraph)
    if table:
        made = document.add_table(1, len(table))
        for cell, text in zip(made.rows[0].cells, table, strict=True):
            cell.text = text
    document.save(out)
    return out.getvalue()


def part_of(data, change):
    """A Word file whose text is changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, change(content) if name == "word/document.xml" else content)
    return out.getvalue()


def test_texts_of_every_kind_are_read():
    assert text_of("a.pdf", pdf("One page\nof two", "The other"))[0].split("\f") == [
        "One page\nof two", "The other"
    ]  # fmt: skip
    assert text_of("a.DOCX", docx("A heading", "Text.", table=("x", "y")))[0] == (
        "A heading\n\nText.\n\nx; y"
    )
    text, notes = text_of("a.txt", "Müll – Köln".encode("cp1252"))
    assert text == "Müll – Köln"
    assert notes == ["not UTF-8, read as cp1252; for another pass --encoding NAME"]
    assert text_of("a.txt", "Müll".encode("utf-16")) == ("Müll", [])
    assert text_of("a.md", b"\xef\xbb\xbfabc") == ("abc", [])


def test_the_encoding_of_documents_is_as_given_and_a_guess_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("VBFLOWS_STAGING", str(tmp_path / "copies"))
    url = str(tmp_path / "a.txt")
    (tmp_path / "a.txt").write_bytes("Größe".encode("cp1252"))
    ((note, _),) = storage.file_notes(url)
    assert note.startswith("not UTF-8, read as cp1252")
    with storage.reading_with(storage.FileOptions(encoding="cp1251")):
        assert storage.read_table(url)["text"].to_pylist() == ["GrцЯe"]
        assert storage.file_notes(url) == []
    for encoding, said in (("utf-8", r"no text in utf-8 \(byte 0xf6 at 2\)"), ("x", "'x' is no")):
        options, refused = storage.FileOptions(encoding=encoding), storage.StorageError
        with storage.reading_with(options), pytest.raises(refused, match=said):
            storage.read_table(url)
    assert not (tmp_path / "copies").exists()  # small ones are converted in memory


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.pdf", b"no PDF"),
        ("a.pdf", pdf("One page")[:200]),
        ("a.docx", b"no archive"),
        ("a.docx", b"PK\x05\x06" + b"\0" * 18),
        ("a.docx", part_of(docx("Text"), lambda xml: xml[:-30])),
        ("a.docx", part_of(docx("Text"), lambda xml: b"<a/>")),
    ],
)
def test_what_is_not_what_its_name_says_is_refused_in_a_sentence(name, data):
    with pytest.raises(storage.StorageError, match=r"cannot read a\.\w+ as a (PDF|Word file)"):
        text_of(name, data)


def test_an_archive_that_grows_is_refused():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b"\0" * (80 * 2**20))
    with pytest.raises(storage.StorageError, match="80 MiB"):
        text_of("a.docx", out.getvalue())


@pytest.mark.parametrize(("name", "package"), [("a.pdf", "pypdf"), ("a.docx", "docx")])
def test_without_the_package_the_extra_is_named(tmp_path, monkeypatch, name, package):
    (tmp_path / name).write_bytes(b"of maps")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(storage.StorageError, match=r"vbflows\[documents\]"):
        storage.parquet_file(str(tmp_path / name))


def test_a_folder_has_its_known_keywords_in_a_csv(tmp_path, capsys):
    folder = tmp_path / "texts"
    (folder / "sub").mkdir(parents=True)
    for i in range(30):
        (folder / f"t{i}.txt").write_text(f"{TEXT} Basin {i} has many lakes.")
    (folder / "p.pdf").write_bytes(pdf(TEXT))
    (folder / "sub" / "w.docx").write_bytes(docx(TEXT))
    lines = [f"t{i}.txt,rivers" for i in range(8)] + ["p.pdf,radar;model", "sub/w.docx,network"]
    (folder / "keywords.csv").write_text(
        "doc_id,keywords\n" + "\n".join([*lines, "t9,lakes", "none.txt,x"]) + "\n"
    )
    code, out, err = run(capsys, "keywords", folder, tmp_path / "out", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["rows_read"] == 32
    assert found["results"]["known"]["found"] == 8 + 2 + 1 + 1
    shown = " ".join(found["warnings"])
    assert "No file of 1 of 12 lines of keywords.csv (none.txt)" in shown
    assert "No line in keywords.csv, so none of its cells: 21 of 32 files" in shown
