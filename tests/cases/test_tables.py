"""Tables and bags as people have them: what `check` prints of each kind, and its exit code.

Most rows are inputs in the shape of public bug reports, in the folder of cases next to the
repository; the others are siblings of theirs, written here.
"""

import datetime
import gzip
import json
import random
import zipfile
from pathlib import Path

import pytest

from tests.conftest import SHARED_DATA
from tests.flows.commands import run

CASES = SHARED_DATA.parent / "cases"

READ, REFUSED = 0, 2

TABLE = [
    # file, pipeline, arguments, exit code, what is said
    ("tables/decimal_comma.csv", "experts", "", READ, ["income number (decimal comma)"]),
    ("tables/thousands.csv", "experts", "", READ, ["number (thousands separators removed)"]),
    ("tables/dollar.csv", "experts", "", READ, ["$ removed", "bmi number (% removed)"]),
    ("tables/units.csv", "experts", "", READ, ["bmi number (kg removed)"]),
    ("tables/apos.csv", "experts", "", READ, ["bmi number (apostrophes removed)"]),
    ("tables/date_dmy.csv", "experts", "", READ, ["visit date (day/month/year)"]),
    ("tables/date_mdy.csv", "experts", "", READ, ["visit date (month/day/year)"]),
    ("tables/uci_qm.csv", "experts", "", READ, ["bmi number (missing: '?' 56) 56"]),
    ("tables/sas_dot.csv", "experts", "", READ, ["bmi number (missing: '.' 56) 56"]),
    ("tables/excel_na.csv", "experts", "", READ, ["'#N/A' 56", "'#DIV/0!' 56", " 168 "]),
    ("tables/codes99.csv", "features", "", READ, ["--set missing=-9,99"]),
    ("tables/codes99.csv", "features", "--set missing=-9,99", READ, ["5 levels", "'-9' 23"]),
    ("tables/sentinel.csv", "experts", "", READ, ["-999 (314 cells in bmi)"]),
    ("tables/sentinel.csv", "experts", "--set missing=-999", READ, ["missing: '-999", " 314 "]),
    ("tables/weights.csv", "features", "", READ, ["weight looks like survey weights", "psu looks"]),
    (
        "tables/weights.csv", "features", "--column weight=weight --exclude psu,age", READ,
        ["weighted by weight", "effective sample size"],
    ),
    ("tables/weights.csv", "features", "--exclude weight,psu,age", READ, ["Q8", "no errors"]),
    ("tables/icd_blank.csv", "features", "", READ, ["yes/no (only yes or blank: 47", "patient id"]),
    ("tables/likert_text.csv", "features", "", READ, ["respondent id", "all 300 cells differ"]),
    ("tables/half_empty_rows.csv", "features", "", READ,
     ["row without any cell: 150 (half", "150 of 300 (50 %) not used: row without any", "Delete"]),
    ("tables/skip.csv", "features", "", READ, ["not filled (690 cells)", "where smoke = no"]),
    ("tables/mixed_yesno.csv", "features", "", READ, ["s0 yes/no 0 yes 144, no 156"]),
    ("tables/qualtrics.csv", "features", "", READ, ["--set skip_rows=2"]),
    ("tables/qualtrics.csv", "features", "--set skip_rows=2", READ, ["300 rows", "5 levels"]),
    ("tables/feat_continuous.csv", "features", "", REFUSED, ["--set bins=4", "income: measure"]),
    ("tables/feat_continuous.csv", "features", "--set bins=4", READ, ["cut into 4 classes"]),
    ("tables/const_dup.csv", "features", "", READ, ["Q1_copy (the same cells as Q1)"]),
    ("tables/polca_dummy.csv", "features", "", READ, ["Columns exclude each other", "V1_e; V2_f"]),
    ("tables/trailing_delim.csv", "experts", "", READ, ["a name or values are not read: 1"]),
    ("tables/panel.csv", "experts", "", REFUSED, ["'0' in rows 1 and 2", "--exclude id"]),
    ("tables/panel.csv", "experts", "--exclude id", READ, ["200 rows in 1 file, no errors"]),
    ("tables/leadzero.csv", "experts", "", READ, ["zip category (text, as 201 cells", "02139"]),
    ("tables/ordinal.csv", "experts", "", READ, ["label ordered category", "fitted as 5 classes"]),
    ("tables/abnormal.csv", "experts", "", READ, ["the probability is of abnormal"]),
    ("tables/space.csv", "experts", "", READ, ["200 rows", "set apart by blanks"]),
    ("tables/tab.txt", "experts", "", READ, ["200 rows in 1 file, no errors"]),
    ("tables/latin1.csv", "features", "", READ, ["Größe", "read as cp1252"]),
    ("tables/latin1.csv", "features", "--encoding cp1250", READ, ["Größe"]),
    ("tables/survey.sav", "features", "", READ, ["Q1 ordered category", "value labels"]),
    ("tables/survey.dta", "features", "", READ, ["Q1 ordered category", "value labels"]),
    ("tables/survey.xlsx", "features", "", READ, ["300 rows in 1 file", "Q1 ordered category"]),
    ("tables/multi/w1.csv tables/multi/w2.csv", "experts", "", READ, ["400 rows in 2 files"]),
    ("tables/multi/w1.csv tables/multi/w3.csv", "experts", "", REFUSED, ["row 1", "'refused'"]),
    ("tables/likert_text.csv", "features", "--strict", REFUSED, ["respondent", "strict"]),
    ("tables/panel.csv", "experts", "--exclude Id", REFUSED, ["did you mean id?"]),
    ("tables/multi/w1.csv", "experts", "--column label=Label", REFUSED, ["did you mean label?"]),
    ("bags/b05_ordinal.csv", "bags", "", READ, ["0 < 1 < 2 < 3 < 4"]),
    ("bags/b06_labels.csv", "bags", "", REFUSED, ["model=gp_probit"]),
    ("bags/b06_labels.csv", "bags", "--set model=gp_probit", READ, ["600 rows"]),
    ("bags/b06_multiclass.csv", "bags", "", REFUSED, ["3 classes: LUAD, LUSC, normal"]),
    ("bags/b14_regression.csv", "bags", "", READ, ["is predicted as a number"]),
    ("bags/b07_several.csv", "bags", "--column label=death --column label=relapse", REFUSED,
     ["one column for label", "death and relapse"]),
    ("bags/b07_several.csv", "bags", "--column label=death", READ, ["relapse, grade: one value"]),
    ("bags/b08_patients.csv", "bags", "", READ, ["40 groups by column patient", "f0 number"]),
    ("bags/b08_patients.csv", "bags", "--column group=patient", READ, ["patient text 0 group"]),
    ("bags/b09_nan.csv", "bags", "", READ, ["f0 (28), f1 (37), f2 (33)"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("files", "pipeline", "options", "code", "said"), TABLE,
    ids=[f"{row[0]} {row[2]}".strip() for row in TABLE],
)  # fmt: skip
def test_a_case_gives_what_its_table_says(capsys, files, pipeline, options, code, said):
    if not CASES.is_dir():
        pytest.skip(f"the cases are not next to the repository: expected the folder {CASES}")
    if files.endswith((".sav", ".dta")):
        pytest.importorskip("pyreadstat")
    if files.endswith(".xlsx"):
        pytest.importorskip("python_calamine")
    found, out, err = run(capsys, "check", pipeline, *(CASES / f for f in files.split()),
                          *options.split())  # fmt: skip
    text = " ".join((out + err).split())
    assert found == code, text
    for part in said:
        assert part in text, (part, text)


def rows_of(column, n=120, seed=0):
    """Return a CSV of a column with a label that goes with it, and a number."""
    rng = random.Random(seed)
    cells = [column(i, rng) for i in range(n)]
    return [[cell, f"{rng.gauss(0, 1):.3f}", "yn"[rng.random() < 0.5]] for cell in cells]


def written(path: Path, rows, names=("x", "z", "label"), separator=",", encoding="utf-8"):
    lines = [separator.join(names)] if names else []
    lines += [separator.join(f'"{c}"' if separator in str(c) else str(c) for c in r) for r in rows]
    path.write_bytes(("\n".join(lines) + "\n").encode(encoding))
    return path


DAY = datetime.date(2020, 1, 1)
COLUMNS = {
    "swiss thousands": (lambda i, r: f"{r.randint(1, 9)}'{r.randint(100, 999)}", "", ["x number"]),
    "spaces as thousands": (lambda i, r: f"{r.randint(1, 9)} {r.randint(100, 999)}.5", "",
                            ["x number (thousands separators removed)"]),
    "accounting": (lambda i, r: f"({i + 1}.5)" if i % 2 else f"{i}.25", "", ["-120.5"]),
    "euro": (lambda i, r: f"€{r.randint(1, 99)}.{r.randint(10, 99)}", "", ["€ removed"]),
    "minus sign": (lambda i, r: f"−{i}.5", "", ["x number", "-119.5"]),
    "percent": (lambda i, r: f"{i} %", "", ["% removed"]),
    "unit in some cells": (lambda i, r: f"{i}.5 cm" if i % 3 else f"{i}.5", "", ["cm removed"]),
    "two units": (lambda i, r: f"{i}.5 kg" if i % 3 else f"{i}.5 lb", "", REFUSED),
    "iso moments": (lambda i, r: f"{DAY + datetime.timedelta(i)}T10:00:00", "", ["x date"]),
    "german dates": (lambda i, r: f"{DAY + datetime.timedelta(i):%d.%m.%Y}", "",
                     ["x date (day/month/year)"]),
    "dates with times": (lambda i, r: f"{DAY + datetime.timedelta(i):%m/%d/%Y} 10:30", "",
                         ["x date (month/day/year)"]),
    "named months": (lambda i, r: f"{DAY + datetime.timedelta(i):%d-%b-%Y}", "", ["x date"]),
    "dates that say no order": (lambda i, r: f"0{i % 9 + 1}/0{i % 7 + 1}/2020", "", REFUSED),
    "dates whose order is set": (lambda i, r: f"0{i % 9 + 1}/0{i % 7 + 1}/2020",
                                 "--set dates=mdy", ["x date (month/day/year)"]),
    "two digits of the year": (lambda i, r: f"{DAY + datetime.timedelta(i):%d/%m/%y}", "",
                               ["x date (day/month/year)"]),
    "German yes and no": (lambda i, r: ("ja", "Nein", " nein", "JA")[i % 4], "", ["x yes/no"]),
    "yes or blank": (lambda i, r: "Yes" if i % 3 else "", "", ["only yes or blank: 40"]),
    "x or blank": (lambda i, r: "Xx"[i % 2] if i % 3 else "", "",
                   ["x yes/no (only 'x' or blank: 40 blank cells are no)", "yes 80, no 40"]),
    "an answer to tick": (lambda i, r: "Facebook" if i % 3 else "", "",
                          ["x yes/no (only 'Facebook' or blank: 40"]),
    "an answer or n/a": (lambda i, r: "Facebook" if i % 3 else "n/a", "", ["1 level: Facebook 80"]),
    "a dash is missing": (lambda i, r: "-" if i % 3 == 0 else i, "", ["missing: '-' 40"]),
    "plus and minus": (lambda i, r: "+-"[i % 2], "", ["x category", "- 60"]),
    "n/a": (lambda i, r: "n/a" if i % 3 == 0 else f"{i}.5", "", ["missing: 'n/a' 40"]),
    "#VALUE!": (lambda i, r: "#VALUE!" if i % 3 == 0 else f"{i}.5", "", ["'#VALUE!' 40"]),
    "a word that is missing": (lambda i, r: "refused" if i % 3 == 0 else f"{i}.5",
                               "--set missing=refused", ["x number (missing: 'refused' 40)"]),
    "a third are words": (lambda i, r: "refused" if i % 3 == 0 else f"{i}.5", "", REFUSED),
    "codes and a word": (lambda i, r: ("1", "2", "3", "DK")[i % 4], "",
                         ["x category (not numbers: 30 cells, such as 'DK')"]),
    "777": (lambda i, r: 777 if i % 10 == 0 else i % 7, "", ["777 (12 cells in x)"]),
    "-99": (lambda i, r: -99 if i % 10 == 0 else 20 + i % 50, "", ["--set missing=-99"]),
    "the same code": (lambda i, r: ("4", "4.0", " 4", "5")[i % 4], "--set categories=x",
                      ["2 levels: 4 90, 5 30"]),
    "account numbers": (lambda i, r: f"00{i % 9}", "", ["leading zeros"]),
    "free text": (lambda i, r: f"note {i} on the many things that were said there", "",
                  ["left out: text: all 120 cells differ"]),
    "ranges": (lambda i, r: ("18-24", "25-64", "65+")[i % 3], "",
               ["x ordered category 0 3 levels: 18-24 40"]),
    "case alone": (lambda i, r: ("Red", "red", "Blue")[i % 3], "", ["differ by case"]),
    "lower case names": (lambda i, r: i % 5, "--exclude Z", REFUSED),
    "a pattern": (lambda i, r: i % 5, "--exclude z*", ["2 of 2", "label"][:0]),
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_a_sibling_of_a_column_is_read_or_refused(name, tmp_path, capsys):
    column, options, said = COLUMNS[name]
    path = written(tmp_path / "t.csv", rows_of(column))
    code, out, err = run(capsys, "check", "experts", path, *options.split())
    text = " ".join((out + err).split())
    assert code == (REFUSED if said == REFUSED else READ), text
    if said == REFUSED:
        assert "t.csv" in text
        return
    for part in said:
        assert part in text, (part, text)


def plain(i, rng):
    return f"{i}.5"


def comma(rows):
    return [[str(cell).replace(".", ",") for cell in row] for row in rows]


NAMES = ["x", "z", "label"]


def letters(*words):
    return rows_of(lambda i, r: words[i % len(words)])


FILES = {
    # its rows, the file's name, and how it is written
    "semicolons and decimal commas": (comma(rows_of(plain)), "t.csv", {"separator": ";"}),
    "pipes": (rows_of(plain), "t.csv", {"separator": "|"}),
    "tabs in .csv": (rows_of(plain), "t.csv", {"separator": "\t"}),
    ".dat with blanks": (rows_of(plain), "t.dat", {"separator": "   "}),
    ".tab": (rows_of(plain), "t.tab", {"separator": "\t"}),
    "no ending": (rows_of(plain), "table", {}),
    ".data": (rows_of(plain), "t.data", {}),
    "UTF-16 with its mark": (rows_of(plain), "t.csv", {"encoding": "utf-16"}),
    "UTF-16 without": (rows_of(plain), "t.csv", {"encoding": "utf-16-le"}),
    "UTF-8 with its mark": (rows_of(plain), "t.csv", {"encoding": "utf-8-sig"}),
    "cp1252": (letters("ä", "ö", "ü"), "t.csv", {"encoding": "cp1252"}),
    "cp1251": (letters("мужской", "женский"), "t.csv", {"encoding": "cp1251"}),
    "a title": ([["Report of 2020"], NAMES, *rows_of(plain)], "t.csv", {"names": ()}),
    "empty lines above": ([[""], [""], NAMES, *rows_of(plain)], "t.csv", {"names": ()}),
    "comments": ([["# a, b"], NAMES, *rows_of(plain)], "t.csv", {"names": ()}),
    "R's row names": ([[f"r{i}", *r] for i, r in enumerate(rows_of(plain))], "t.csv", {}),
    "commas at the end": ([[*r, ""] for r in rows_of(plain)], "t.csv", {}),
}


@pytest.mark.parametrize(
    ("words", "encoding"),
    [
        (("Zürich", "Genève", "città"), "cp1252"),
        (("naïve", "café", "€ 5"), "cp1252"),
        (("příliš", "žluťoučký", "kůň"), "cp1250"),
        (("Kraków", "Gdańsk", "Poznań"), "cp1250"),
        (("Győr", "Szűcs"), "cp1250"),
        (("Çankırı", "Beyoğlu"), "cp1254"),
        (("niño", "España"), "cp1252"),
        (("Москва", "Казань"), "cp1251"),
    ],
)
def test_the_letters_of_a_few_words_stay(words, encoding, tmp_path, capsys):
    path = written(tmp_path / "t.csv", letters(*words), encoding=encoding)
    code, out, _ = run(capsys, "check", "experts", path)
    assert (code, all(word in out for word in words)) == (READ, True)


def test_headings_that_were_merged_over_columns_are_not_names(tmp_path, capsys):
    """As Excel writes them: the heading in its first column, nothing in the others."""
    names = ["x", "z", "label", *"abcdef"]
    wide = [[*row, *"pq" * 3] for row in rows_of(plain)]
    lines = [["Report", *[""] * 8], ["Person", "", "", "Answers", *[""] * 5], names, *wide]
    path = written(tmp_path / "t.csv", lines, separator=";", names=())
    code, out, err = run(capsys, "check", "experts", path)
    text = " ".join((out + err).split())
    assert code == READ, text
    said = "2 lines above the names of the columns are not read, with headings of several columns"
    assert f"{said} (Person, Answers)" in text


def test_lines_of_an_old_macintosh_are_read(tmp_path, capsys):
    path = written(tmp_path / "t.csv", rows_of(plain))
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r"))
    code, out, _ = run(capsys, "check", "experts", path)
    assert (code, "120 rows in 1 file, no errors" in out) == (READ, True)


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_form_is_read(name, tmp_path, capsys):
    rows, file, form = FILES[name]
    path = written(tmp_path / file, rows, **form)
    code, out, err = run(capsys, "check", "experts", path)
    text = " ".join((out + err).split())
    assert code == READ, text
    assert "120 rows in 1 file, no errors" in text
    assert ("x number" in text) == (not name.startswith("cp12")), text


def workbook(path, merged=(), hidden=(), **sheets):
    """Write a workbook by hand: numbers, and text within its cells; merged ones in all sheets."""
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    packages = "http://schemas.openxmlformats.org/package/2006"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    names = list(enumerate(sheets, 1))
    with zipfile.ZipFile(path, "w") as book:
        parts = "".join(
            f'<Override PartName="/xl/worksheets/sheet{i}.xml" ContentType="{kind}.worksheet+xml"/>'
            for i, _ in names
        )
        book.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{packages}/content-types"><Default Extension="rels" '
            f'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override '
            f'PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/>{parts}</Types>',
        )
        book.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{packages}/relationships"><Relationship Id="r" '
            f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        )
        listed = "".join(
            f'<sheet name="{n}" sheetId="{i}" r:id="r{i}"{one}/>'
            for i, n in names
            for one in [' state="hidden"' if n in hidden else ""]
        )
        book.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{space}" xmlns:r="{office}"><sheets>{listed}</sheets></workbook>',
        )
        links = "".join(
            f'<Relationship Id="r{i}" Type="{office}/worksheet" Target="worksheets/sheet{i}.xml"/>'
            for i, _ in names
        )
        book.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships xmlns="{packages}/relationships">{links}</Relationships>',
        )
        ranges = "".join(f'<mergeCell ref="{one}"/>' for one in merged)
        ranges = f"<mergeCells>{ranges}</mergeCells>" if merged else ""
        for i, name in names:
            rows = []
            for r, row in enumerate(sheets[name], 1):
                cells = (
                    f'<c r="{chr(65 + c)}{r}"><v>{v}</v></c>'
                    if isinstance(v, int | float)
                    else f'<c r="{chr(65 + c)}{r}" t="inlineStr"><is><t>{v}</t></is></c>'
                    for c, v in enumerate(row)
                )
                rows.append(f'<row r="{r}">{"".join(cells)}</row>')
            book.writestr(
                f"xl/worksheets/sheet{i}.xml",
                f'<worksheet xmlns="{space}"><sheetData>{"".join(rows)}</sheetData>{ranges}'
                "</worksheet>",
            )
    return path


def test_a_workbook_with_a_title_and_two_sheets_is_read(tmp_path, capsys):
    pytest.importorskip("python_calamine")
    rows = [[float(x), float(z), label] for x, z, label in rows_of(plain)]
    path = workbook(
        tmp_path / "t.xlsx",
        Data=[["Report of 2020"], [], NAMES, *rows],
        Codes=[["code", "meaning"], [1, "one"], [2, "two"]],
    )
    code, out, err = run(capsys, "check", "experts", path)
    text = " ".join((out + err).split())
    assert code == READ, text
    assert "its sheet Data is read, not Codes" in text
    assert "above the names of the columns" in text
    assert "x number 0 0.5 to 119.5" in text
    code, _, err = run(capsys, "check", "experts", path, "--set", "sheet=Kodes")
    assert code == REFUSED
    assert "its sheets are Data, Codes" in " ".join(err.split())


def test_merged_cells_have_their_value_and_a_hidden_sheet_is_not_read_first(tmp_path, capsys):
    pytest.importorskip("python_calamine")
    rows = [
        [("north" if i < 60 else "south") if i in (0, 60) else "", float(z), label]
        for i, (_, z, label) in enumerate(rows_of(plain))
    ]
    path = workbook(
        tmp_path / "t.xlsx", ["A2:A61", "A62:A121"], ["Lists"],
        Lists=[["code", "meaning"], [1, "one"], [2, "two"]], Data=[NAMES, *rows],
    )  # fmt: skip
    code, out, err = run(capsys, "check", "experts", path)
    text = " ".join((out + err).split())
    assert code == READ, text
    assert "its sheet Data is read, not Lists (hidden)" in text
    assert "118 cells merged with the one above have its value" in text
    assert "x category 0 2 levels: north 60, south 60" in text


def test_a_merged_cell_may_reach_beyond_the_table_and_hides_no_value(tmp_path, capsys):
    """Beyond its last column and its last row, and over cells that have values of their own."""
    pytest.importorskip("python_calamine")
    rows = [
        ["north" if i == 60 else "", z, label] for i, (_, z, label) in enumerate(rows_of(plain))
    ]
    path = workbook(
        tmp_path / "t.xlsx", ["B5:H9", "A62:A500"], Data=[NAMES, *rows],
    )  # fmt: skip
    code, out, err = run(capsys, "check", "experts", path)
    text = " ".join((out + err).split())
    assert code == READ, text
    assert f"{len(rows) - 61} cells merged with the one above have its value" in text
    assert len({z for _, z, _ in rows_of(plain)}) > 100
    assert "z number 0" in text


@pytest.mark.parametrize("odd", ["inf", "1e300"])
def test_a_weight_that_is_no_number_of_rows_is_named_with_its_place(odd, tmp_path, capsys):
    rows = [[*r[:6], odd if i == 4 else r[6], r[7]] for i, r in enumerate(weighted_rows())]
    path = written(tmp_path / "t.csv", rows, ("x", "z", "q1", "q2", "q3", "q4", "w", "label"))
    code, _, err = run(capsys, "check", "experts", path, "--column", "weight=w")
    assert code == REFUSED
    assert "column w, row 5: expected a weight of at most 1e15" in " ".join(err.split())


def test_a_label_called_response_is_not_a_survey(tmp_path, capsys):
    rows = [[i * 37 % 50, "Response" if i % 3 == 0 else "None"] for i in range(90)]
    path = written(tmp_path / "t.csv", rows, ("age", "label"))
    code, out, err = run(capsys, "check", "experts", path)
    assert code == READ, err
    assert "questions" not in out + err


def test_what_is_said_of_how_files_are_read_and_has_no_meaning_is_said(tmp_path, capsys):
    rows = [dict(zip(NAMES, row, strict=True)) for row in rows_of(plain)]
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    of = ("--set", "skip_rows=2", "--set", "sheet=Data", "--encoding", "cp1250")
    code, out, err = run(capsys, "check", "experts", path, *of)
    text = " ".join((out + err).split())
    assert code == READ
    for unused in ("skip_rows=2 is not used", "sheet=Data is not", "encoding=cp1250 is not"):
        assert unused in text, text
    code, out, err = run(
        capsys, "check", "experts", written(tmp_path / "t.csv", rows_of(plain)), *of
    )
    text = " ".join((out + err).split())
    assert "118 rows" in text
    assert ("skip_rows=2 is not used" in text, "sheet=Data is not used" in text) == (False, True)


def test_missing_values_of_spss_are_missing_cells(tmp_path, capsys):
    pyreadstat = pytest.importorskip("pyreadstat")
    pandas = pytest.importorskip("pandas")
    rng = random.Random(0)
    frame = pandas.DataFrame(
        {
            "q1": [float(rng.choice([1, 2, 3, 99])) for _ in range(120)],
            "x": [rng.gauss(0, 1) for _ in range(120)],
            "label": [float(rng.random() < 0.5) for _ in range(120)],
        }
    )
    labels = {"q1": {1.0: "low", 2.0: "medium", 3.0: "high", 99.0: "no answer"}}
    pyreadstat.write_sav(
        frame, str(tmp_path / "t.sav"), variable_value_labels=labels,
        missing_ranges={"q1": [99]},
    )  # fmt: skip
    code, out, err = run(capsys, "check", "experts", tmp_path / "t.sav")
    text = " ".join((out + err).split())
    assert code == READ, text
    assert "q1 ordered category" in text
    assert "3 levels: low" in text
    assert "values that the file calls missing are missing cells of q1" in text


def test_new_data_with_a_name_in_other_letters_says_which_is_meant(tmp_path, capsys):
    written(tmp_path / "fit.csv", rows_of(plain), names=("bmi", "z", "label"))
    code, _, err = run(capsys, "experts", tmp_path / "fit.csv", tmp_path / "out")
    assert code == 0, err
    written(tmp_path / "new.csv", rows_of(plain), names=("BMI", "z", "label"))
    code, _, err = run(capsys, "score", tmp_path / "out", tmp_path / "new.csv", tmp_path / "new")
    assert code == 2
    said = "1 of the 2 columns of the fitted run of experts is missing: bmi; if BMI is bmi"
    assert f"{said}, rename it" in " ".join(err.split())


def weighted_rows(n=300):
    """Return rows of x, z, q1 to q4, a weight of 1, 2 or 3, and a label that goes with x."""
    rng = random.Random(0)
    rows = []
    for _ in range(n):
        x, one = rng.gauss(0, 1), rng.random() < 0.4
        items = ["ab"[one ^ (rng.random() < 0.05)] for _ in range(4)]
        yes = rng.random() < 1.0 / (1.0 + 2.718 ** (2.0 * x))
        rows.append([x, rng.gauss(0, 1), *items, 3 if one else rng.choice([1, 2]), "yn"[yes]])
    return rows


@pytest.mark.parametrize("pipeline", ["experts", "features"])
def test_rows_are_weighted_and_the_effective_size_is_said(pipeline, tmp_path, capsys):
    rows = weighted_rows()
    path = written(tmp_path / "t.csv", rows, ("x", "z", "q1", "q2", "q3", "q4", "w", "label"))
    out = tmp_path / "out"
    code, said, err = run(capsys, pipeline, path, out, "--column", "weight=w", "--json")
    assert code == 0, err
    found = json.loads(said)
    weights = [r[6] for r in rows]
    effective = sum(weights) ** 2 / sum(w * w for w in weights)
    assert any(f"effective sample size of {effective:,.0f}" in w for w in found["warnings"])
    if pipeline == "experts":
        assert found["results"]["counts"]["effective"] == pytest.approx(effective)
    else:
        text = found["text"]
        assert f"effective sample size {effective:,.0f}" in text
    assert [c["used"] for c in found["columns"] if c["name"] == "w"] == ["weight of the row"]
    code, said, _ = run(capsys, pipeline, path, tmp_path / "plain", "--exclude", "w", "--json")
    assert code == 0
    assert json.loads(said)["elbo"] != found["elbo"]
    new = written(tmp_path / "new.csv", [[*r[:6], r[7]] for r in rows],
                  ("x", "z", "q1", "q2", "q3", "q4", "label"))  # fmt: skip
    code, _, err = run(capsys, "score", out, new, tmp_path / "new")
    assert code == 0, err


def test_shares_of_features_are_of_the_population_where_rows_are_weighted(tmp_path, capsys):
    """Every row with the feature weighs 3, others 1 or 2; the same weight for all says nothing."""
    rows = [[*r, 7.0] for r in weighted_rows()]
    names = ("x", "z", "q1", "q2", "q3", "q4", "w", "label", "one")
    path = written(tmp_path / "t.csv", rows, names)
    found = {}
    for name in ("w", "one"):
        rest = ",".join({"x", "z", "label", "w", "one"} - {name})
        code, said, err = run(
            capsys, "features", path, tmp_path / name, "--column", f"weight={name}",
            "--exclude", rest, "--json",
        )  # fmt: skip
        assert code == 0, err
        found[name] = json.loads(said)
    code, said, err = run(
        capsys, "features", path, tmp_path / "plain", "--exclude", "x,z,label,w,one", "--json"
    )
    assert code == 0, err
    plain = json.loads(said)
    assert found["one"]["elbo"] == pytest.approx(plain["elbo"], rel=1e-12)
    heavy = sum(r[6] for r in rows if r[2:6].count("b") > 2) / sum(r[6] for r in rows)
    share = found["w"]["results"]["features"][0]["share"]["value"]
    assert min(abs(share - heavy), abs(share - 1.0 + heavy)) < 0.02
    assert abs(heavy - sum(r[2:6].count("b") > 2 for r in rows) / len(rows)) > 0.1


FORMS = {
    # a file's bytes, more of the command, and what must be printed
    "groups of thousands with decimal commas": (
        lambda: "label;price;count\n" + "".join(
            f"{'yes' if i % 3 else 'no'};{10 + i % 7},5;{1 + i % 20}.000\n" for i in range(60)),
        "", "1,000 to 20,000",
    ),
    "three decimals with decimal points": (
        lambda: "label,price,count\n" + "".join(
            f"{'yes' if i % 3 else 'no'},{10 + i % 7}.5,{1 + i % 20}.125\n" for i in range(60)),
        "", "1.125 to 20.12",
    ),
    "one number with a point among commas": (
        lambda: "label;z\n" + "".join(
            f"{'yes' if i % 3 else 'no'};{'0.0' if i == 7 else f'{i % 9},5'}\n" for i in range(60)),
        "", "expected one decimal sign",
    ),
    "a page break in a title": (
        lambda: "Report\x0c2026\n\nlabel,x\n" + "".join(
            f"{'yes' if i % 3 else 'no'},{i % 9}.5\n" for i in range(60)),
        "", "60 rows",
    ),
    "Excel's line of the separator": (
        lambda: "sep=;\nlabel;x\n" + "".join(
            f"{'yes' if i % 3 else 'no'};{i % 9},5\n" for i in range(60)),
        "", "60 rows",
    ),
    "a codec that is no encoding": (
        lambda: "label,x\nyes,1\n", "--encoding rot13", "is no encoding",
    ),
    "UTF-16 that is none": (
        lambda: "label,x\nyes,1\n", "--encoding utf-16", "--encoding",
    ),
    "UTF-8 by another name, with its mark": (
        lambda: "\ufeffx,label\n" + "".join(
            f"{i % 9}.5,{'yes' if i % 3 else 'no'}\n" for i in range(60)),
        "--encoding UTF8 --include x", "60 rows",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_a_file_of_an_odd_form_gives_its_numbers_or_a_sentence(name, tmp_path, capsys):
    content, more, printed = FORMS[name]
    path = tmp_path / "t.csv"
    path.write_text(content(), encoding="utf-8", newline="")
    code, out, err = run(capsys, "check", "experts", path, *more.split())
    text = " ".join((out + err).split())
    assert code == (READ if "rows" in printed or " to " in printed else 2), text
    assert printed in text
    assert "this should not have happened" not in text


def test_a_column_of_decimal_commas_alone_is_read(tmp_path, capsys):
    path = tmp_path / "t.csv"
    path.write_text("v\n" + "".join(f"{i % 9},5\n" for i in range(60)))
    code, out, _ = run(capsys, "check", "features", path, "--set", "bins=3")
    assert "60 rows in 1 file" in out, out
    assert code == READ


IN_TEXT = {
    # cells of a column, and what a check says of them
    "thousands": (
        lambda i: f"{1 + i % 9},{100 + i}",
        ["numbers with thousands separators: 60 cells of x, such as '1,100' in row 1 of t.csv, "
         "read as 1100",
         "x: '1,100' in row 1 of t.csv (59 more cells like it) is read as 1100; if the "
         "comma is a decimal sign, --set decimal=,"],
    ),
    "thousands among decimal points": (
        lambda i: f"{1 + i % 9},{100 + i}" if i == 3 else f"{i}.5",
        ["thousands separators: 1 cell of x, such as '4,103' in row 4 of t.csv, read as 4103"],
    ),
    "decimal commas": (
        lambda i: f"{i},5",
        ["with a decimal comma: 60 cells of x, such as '0,5' in row 1 of t.csv, read as 0.5"],
    ),
    "a thousand among decimal commas": (
        lambda i: "1,234" if i in (7, 9) else f"{i % 9},5",
        ["x: '1,234' in row 8 of t.csv (1 more cells like it) is read as 1.234, since '0,5' in row "
         "1 of t.csv has a decimal comma", "0.5 to 8.5"],
    ),
    "both decimal signs": (
        lambda i: "0.5" if i == 7 else f"{i % 9},5",
        ["59 numbers with a decimal comma (0,5 in row 1 of t.csv) and 1 with a decimal point (0.5 "
         "in row 8 of t.csv)"],
    ),
    "per cent": (lambda i: f"{2 * i} %", ["numbers with %: 60 cells of x, such as '0 %' in row 1"]),
    "blanks": (lambda i: f"{1 + i % 9} {100 + i}", ["'1 100' in row 1 of t.csv, read as 1100"]),
    "brackets": (lambda i: f"({i}.5)", ["numbers with brackets: 60 cells", "read as -0.5"]),
    "two currencies": (lambda i: f"{'€$'[i % 2]}{i}.5", ["several: '€' (30), '$' (30)"]),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_TEXT)
@pytest.mark.parametrize("pipeline", ["bags", "experts", "features"])
def test_what_numbers_in_text_are_read_as_is_said(name, pipeline, tmp_path, capsys):
    column, said = IN_TEXT[name]
    path = tmp_path / "t.csv"
    rows = [
        (f"b{i // 2}", "yn"[i // 2 % 2], f'"{column(i)}"', f"{i * 37 % 60}.5") for i in range(60)
    ]
    path.write_text("\n".join(["bag_id,label,x,z", *map(",".join, rows), ""]))
    more = {"bags": ["positive=y", "model=embedding"], "features": ["bins=3"], "experts": []}
    options = [part for one in more[pipeline] for part in ("--set", one)]
    options += [] if pipeline == "bags" else ["--exclude", "bag_id"]
    _, out, err = run(capsys, "check", pipeline, path, *options)
    text = " ".join((out + err).split())
    for part in said:
        assert part in text or (" to " in part and pipeline == "features"), (part, text)


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("Summe", "remove the line if it is one of totals, correct the cell, name its word as"),
        ("k.A.", "correct these cells, name its word as missing (--set missing=k.A.), or"),
        ("n/a, see note", "name its word as missing (--set missing=WORD)"),
    ],
)
def test_the_one_cell_that_is_no_number_has_its_remedy(cell, said, tmp_path, capsys):
    path = tmp_path / "t.csv"
    rows = [(f"{i}", "yn"[i % 2], f"{i * 37 % 60}.5") for i in range(60)]
    rows.append((f'"{cell}"', "", "1790"))
    path.write_text("\n".join(["nr,label,x", *map(",".join, rows), ""]))
    code, _, err = run(capsys, "check", "experts", path)
    assert code == 2
    assert "column nr, row 61: expected a number in every cell, as in 60 of 61" in err
    assert said in " ".join(err.split())


def test_a_later_cell_with_another_decimal_sign_is_refused_with_its_row(
    tmp_path, monkeypatch, capsys
):
    """What the first rows of bags show holds for all, in whatever pieces they are read."""
    monkeypatch.setattr("flows.bags.input.input_columns.LOOKED", 8)
    path = tmp_path / "t.csv"
    cells = ["1,234" if i > 30 else f"{i % 9},5" for i in range(60)]
    rows = [f'b{i // 2},{i // 2 % 2},"{cell}"' for i, cell in enumerate(cells)]
    path.write_text("\n".join(["bag_id,label,x", *rows, ""]))
    options = ["--set", "model=embedding"]
    _, out, _ = run(capsys, "check", "bags", path, *options, "--set", "partitions=2")
    assert "a decimal comma: 60 cells of x" in out
    assert "'1,234' in row 32 of t.csv (28 more cells like it) is read as 1.234" in out
    path.write_text(path.read_text().replace('"8,5"', "0.5"))
    code, _, err = run(capsys, "check", "bags", path, *options)
    text = " ".join(err.split())
    assert code == 2
    assert "column x, row 9" in text
    assert "with a decimal comma as in the first rows, found '0.5'" in text
    assert "--set decimal=." in text


def answers(*above, rows=60):
    """Return a CSV of an age and a label, with lines between the header and these."""
    lines = [f"{20 + i % 50},{'yes' if i % 3 else 'no'}" for i in range(rows)]
    return "\n".join(["age,label", *above, *lines, ""])


ROWS = [{"age": 20 + i % 50, "label": "yes" if i % 3 else "no"} for i in range(60)]
ODD_FILES = {
    # the file's name and bytes, the exit code, what is said
    "a JSON array": ("t.json", json.dumps(ROWS).encode(), READ, ["60 rows in 1 file, no errors"]),
    "lines in a .json": ("t.json", "\n".join(map(json.dumps, ROWS)).encode(), READ,
                         ["60 rows in 1 file, no errors"]),
    "a nest of arrays": ("t.json", b"[" * 100_000, REFUSED, ["cannot be read as JSON"]),
    "an array of numbers": ("t.json", b"[1, 2]", REFUSED, ["found no object in place 1"]),
    "an archive": ("t.zip", b"PK\x03\x04 is cut", REFUSED, ["it is an archive; unpack it"]),
    "gzip without its ending": ("t.csv", gzip.compress(answers().encode()), REFUSED,
                                ["it is compressed by gzip", "name it .csv.gz"]),
    "UTF-32": ("t.csv", answers().encode("utf-32"), READ, ["60 rows in 1 file, no errors"]),
    "notes below the table": ("t.csv", (answers() + "Source: Ministry\n").encode(), REFUSED,
                              ["line 62 has 1 cell and the first line 2: Source: Ministry"]),
    "a header of Qualtrics": (
        "t.csv", answers("Age?,Well?", '"{""ImportId"":""a""}","{""ImportId"":""b""}"').encode(),
        REFUSED, ["a survey's questions in 2 rows", "--set skip_rows=2"],
    ),
    "a header of SurveyMonkey": ("t.csv", answers("Open-Ended Response,Response").encode(),
                                 REFUSED, ["questions in 1 row", "--set skip_rows=1"]),
    "a separator that is none": ("t.csv", answers().replace(",", "^").encode(), REFUSED,
                                 ["found none; the other columns are age^label"]),
    "two encodings": (
        "t.csv", answers().replace("yes", "ja").encode() + "30,Köln\n".encode() * 9
        + "31,Zürich\n".encode("cp1252") * 9, READ,
        ["9 of its 18 lines with letters beyond a to z are UTF-8, others not"],
    ),
    "labels that may be missing": ("t.csv", answers().encode() + b"30,Refused\n" * 9, READ,
                                   ["Refused (9 cells in label)"]),
    "yes or n/a": (
        "t.csv", b"a,age,label\n" + b"".join(
            b"%s,%d,%s\n" % (b"N/A" if i % 3 else b"Yes", 20 + i, b"no" if i % 4 else b"yes")
            for i in range(90)), READ,
        ["a yes/no (missing: 'N/A' 60) 60 yes 30, no 0"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD_FILES)
def test_an_odd_file_is_read_or_refused_in_a_sentence(name, tmp_path, capsys):
    file, content, wanted, said = ODD_FILES[name]
    (tmp_path / file).write_bytes(content)
    code, out, err = run(capsys, "check", "experts", tmp_path / file)
    text = " ".join((out + err).split())
    assert code == wanted, text
    for part in said:
        assert part in text, (part, text)


def test_a_folder_takes_endings_in_capitals_and_says_what_it_leaves(tmp_path, capsys, caplog):
    for name in ("a.csv", "B.CSV", "notes.txt", "README.md"):
        (tmp_path / name).write_text(answers())
    (tmp_path / "~$a.xlsx").write_bytes(b"lock")
    code, out, err = run(capsys, "check", "experts", tmp_path)
    text = " ".join((out + err).split())
    assert code == READ, text
    assert "120 rows in 2 files" in text
    assert "notes.txt in the folder" in caplog.text


def test_one_column_of_texts_with_semicolons_is_one_column(tmp_path, capsys):
    text = "<p>" + "solar cells lose charge at grain boundaries " * 4 + "&nbsp; and more</p>\n"
    (tmp_path / "t.csv").write_text("text\n" + text * 30)
    code, out, err = run(capsys, "check", "keywords", tmp_path / "t.csv")
    assert code == READ, out + err
    assert "30 rows in 1 file, no errors" in out


def test_a_column_that_may_hold_known_keyphrases_is_named(tmp_path, capsys):
    rows = "solar cells lose charge at grain boundaries of films,solar cells\n" * 30
    (tmp_path / "t.csv").write_text("text,Author Keywords\n" + rows)
    _, out, err = run(capsys, "check", "keywords", tmp_path / "t.csv")
    assert "--column keywords='Author Keywords' takes it" in " ".join((out + err).split())


def test_labels_of_one_class_are_refused_by_their_word(tmp_path, capsys):
    rows = "".join(f"{i // 4},{i % 7},responder\n" for i in range(80))
    (tmp_path / "t.csv").write_text("bag_id,x,label\n" + rows)
    code, out, err = run(capsys, "check", "bags", tmp_path / "t.csv")
    assert code == 2
    assert "found responder alone; give bags of both classes" in " ".join((out + err).split())


def test_several_answers_in_a_cell_are_named(tmp_path, capsys):
    sets = ("news", "web", "tv", "news;web", "news;tv", "web;tv", "news;web;tv", "tv;radio")
    rows = "".join(f"{i % 3},{sets[i % 8]}\n" for i in range(160))
    (tmp_path / "t.csv").write_text("a,sources\n" + rows)
    _, out, err = run(capsys, "check", "features", tmp_path / "t.csv")
    assert "sources (4 answers in 8 combinations" in " ".join((out + err).split())
