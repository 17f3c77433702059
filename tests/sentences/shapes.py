"""Tables and bags as people have them: how a check reads each column, or what it refuses.

Most are inputs in the shape of public bug reports, in the folder of cases next to the repository;
the others are siblings of theirs, written here.
"""

import datetime
import gzip
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyreadstat
import pytest

from tests.conftest import SHARED_DATA
from tests.sentences.said import Said, looked

SHARED = SHARED_DATA.parent / "cases"


def shared(words: str) -> Said:
    """Return a case of files in the folder of cases, which ``%`` stands for."""
    check = looked(words.replace("%", str(SHARED)))

    def said(folder: Path) -> str:
        if not SHARED.is_dir():
            pytest.skip(f"the cases are not next to the repository: expected the folder {SHARED}")
        return check(folder).replace(str(SHARED), "%")

    return said


OF_SHARED = """
experts %/tables/decimal_comma.csv
experts %/tables/thousands.csv
experts %/tables/dollar.csv
experts %/tables/units.csv
experts %/tables/apos.csv
experts %/tables/date_dmy.csv
experts %/tables/date_mdy.csv
experts %/tables/uci_qm.csv
experts %/tables/sas_dot.csv
experts %/tables/excel_na.csv
features %/tables/codes99.csv
features %/tables/codes99.csv --set missing=-9,99
experts %/tables/sentinel.csv
experts %/tables/sentinel.csv --set missing=-999
features %/tables/weights.csv
features %/tables/weights.csv --column weight=weight --exclude psu,age
features %/tables/weights.csv --exclude weight,psu,age
features %/tables/icd_blank.csv
features %/tables/likert_text.csv
features %/tables/half_empty_rows.csv
features %/tables/skip.csv
features %/tables/mixed_yesno.csv
features %/tables/qualtrics.csv
features %/tables/qualtrics.csv --set skip_rows=2
features %/tables/feat_continuous.csv
features %/tables/feat_continuous.csv --set bins=4
features %/tables/const_dup.csv
features %/tables/polca_dummy.csv
experts %/tables/trailing_delim.csv
experts %/tables/panel.csv
experts %/tables/panel.csv --exclude id
experts %/tables/leadzero.csv
experts %/tables/ordinal.csv
experts %/tables/abnormal.csv
experts %/tables/space.csv
experts %/tables/tab.txt
features %/tables/latin1.csv
features %/tables/latin1.csv --encoding cp1250
features %/tables/survey.sav
features %/tables/survey.dta
features %/tables/survey.xlsx
experts %/tables/multi/w1.csv %/tables/multi/w2.csv
experts %/tables/multi/w1.csv %/tables/multi/w3.csv
features %/tables/likert_text.csv --strict
experts %/tables/panel.csv --exclude Id
experts %/tables/multi/w1.csv --column label=Label
bags %/bags/b05_ordinal.csv
bags %/bags/b06_labels.csv
bags %/bags/b06_labels.csv --set model=gp_probit
bags %/bags/b06_multiclass.csv
bags %/bags/b14_regression.csv
bags %/bags/b07_several.csv --column label=death --column label=relapse
bags %/bags/b07_several.csv --column label=death
bags %/bags/b08_patients.csv
bags %/bags/b08_patients.csv --column group=patient
bags %/bags/b09_nan.csv
"""

Cell = Callable[[int, random.Random], object]
NAMES = ("x", "z", "label")


def rows_of(cell: Cell, n: int = 120) -> list[list[object]]:
    """Return rows of a column, a number and a label."""
    rng = random.Random(0)
    cells = [cell(i, rng) for i in range(n)]
    return [[one, f"{rng.gauss(0, 1):.3f}", "n" if rng.random() < 0.5 else "y"] for one in cells]


def plain(i: int, rng: random.Random) -> str:
    return f"{i}.5"


def turn(*words: str) -> list[list[object]]:
    return rows_of(lambda i, r: words[i % len(words)])


def text_of(rows: list, names: tuple[str, ...] = NAMES, separator: str = ",") -> str:
    lines = [[f'"{c}"' if separator in str(c) else str(c) for c in row] for row in rows]
    return "\n".join(map(separator.join, [names, *lines] if names else lines)) + "\n"


def file(content: str | bytes, name: str = "t.csv", more: str = "", of: str = "experts") -> Said:
    """Return a case of a file of text or bytes."""
    data = content.encode() if isinstance(content, str) else content
    return looked(f"{of} @/{name} {more}", lambda folder: (folder / name).write_bytes(data))


def column(cell: Cell, more: str = "") -> Said:
    return file(text_of(rows_of(cell)), more=more)


def day(form: str) -> Cell:
    return lambda i, r: f"{datetime.date(2020, 1, 1) + datetime.timedelta(i):{form}}"


COLUMNS = {
    "swiss thousands": column(lambda i, r: f"{r.randint(1, 9)}'{r.randint(100, 999)}"),
    "spaces as thousands": column(lambda i, r: f"{r.randint(1, 9)} {r.randint(100, 999)}.5"),
    "accounting": column(lambda i, r: f"({i + 1}.5)" if i % 2 else f"{i}.25"),
    "euro": column(lambda i, r: f"€{r.randint(1, 99)}.{r.randint(10, 99)}"),
    "minus sign": column(lambda i, r: f"\N{MINUS SIGN}{i}.5"),
    "percent": column(lambda i, r: f"{i} %"),
    "unit in some cells": column(lambda i, r: f"{i}.5 cm" if i % 3 else f"{i}.5"),
    "two units": column(lambda i, r: f"{i}.5 kg" if i % 3 else f"{i}.5 lb"),
    "iso moments": column(day("%Y-%m-%dT10:00:00")),
    "german dates": column(day("%d.%m.%Y")),
    "dates with times": column(day("%m/%d/%Y 10:30")),
    "named months": column(day("%d-%b-%Y")),
    "dates that say no order": column(lambda i, r: f"0{i % 9 + 1}/0{i % 7 + 1}/2020"),
    "dates whose order is set": column(
        lambda i, r: f"0{i % 9 + 1}/0{i % 7 + 1}/2020", "--set dates=mdy"
    ),
    "two digits of the year": column(day("%d/%m/%y")),
    "German yes and no": column(lambda i, r: ("ja", "Nein", " nein", "JA")[i % 4]),
    "yes or blank": column(lambda i, r: "Yes" if i % 3 else ""),
    "x or blank": column(lambda i, r: "Xx"[i % 2] if i % 3 else ""),
    "an answer to tick": column(lambda i, r: "Facebook" if i % 3 else ""),
    "an answer or n/a": column(lambda i, r: "Facebook" if i % 3 else "n/a"),
    "a dash is missing": column(lambda i, r: "-" if i % 3 == 0 else i),
    "plus and minus": column(lambda i, r: "+-"[i % 2]),
    "n/a": column(lambda i, r: "n/a" if i % 3 == 0 else f"{i}.5"),
    "#VALUE!": column(lambda i, r: "#VALUE!" if i % 3 == 0 else f"{i}.5"),
    "a word that is missing": column(
        lambda i, r: "refused" if i % 3 == 0 else f"{i}.5", "--set missing=refused"
    ),
    "a third are words": column(lambda i, r: "refused" if i % 3 == 0 else f"{i}.5"),
    "codes and a word": column(lambda i, r: ("1", "2", "3", "DK")[i % 4]),
    "777": column(lambda i, r: 777 if i % 10 == 0 else i % 7),
    "-99": column(lambda i, r: -99 if i % 10 == 0 else 20 + i % 50),
    "the same code": column(lambda i, r: ("4", "4.0", " 4", "5")[i % 4], "--set categories=x"),
    "account numbers": column(lambda i, r: f"00{i % 9}"),
    "free text": column(lambda i, r: f"note {i} on the many things that were said there"),
    "ranges": column(lambda i, r: ("18-24", "25-64", "65+")[i % 3]),
    "case alone": column(lambda i, r: ("Red", "red", "Blue")[i % 3]),
    "lower case names": column(lambda i, r: i % 5, "--exclude Z"),
    "a pattern": column(lambda i, r: i % 5, "--exclude z*"),
}
PLAIN = rows_of(plain)
COMMAS = [[str(cell).replace(".", ",") for cell in row] for row in PLAIN]
# As Excel writes headings that were merged over columns.
MERGED = [["Report", *[""] * 8], ["Person", "", "", "Answers", *[""] * 5], [*NAMES, *"abcdef"]]
FORMS = {
    "semicolons and decimal commas": file(text_of(COMMAS, separator=";")),
    ".dat with blanks": file(text_of(PLAIN, separator="   "), "t.dat"),
    ".tab": file(text_of(PLAIN, separator="\t"), "t.tab"),
    "no ending": file(text_of(PLAIN), "table"),
    ".data": file(text_of(PLAIN), "t.data"),
    "a title": file("Report of 2020\n" + text_of(PLAIN)),
    "empty lines above": file("\n\n" + text_of(PLAIN)),
    "comments": file('"# a, b"\n' + text_of(PLAIN)),
    "R's row names": file(text_of([[f"r{i}", *row] for i, row in enumerate(PLAIN)])),
    "commas at the end": file(text_of([[*row, ""] for row in PLAIN])),
    "merged headings": file(
        text_of([*MERGED, *([*row, *"pq" * 3] for row in PLAIN)], (), separator=";")
    ),
}
LETTERS = {
    " ".join(words): file(text_of(turn(*words)).encode(encoding))
    for words, encoding in [
        (("ä", "ö", "ü"), "cp1252"),
        (("Zürich", "Genève", "città"), "cp1252"),
        (("naïve", "café", "€ 5"), "cp1252"),
        (("niño", "España"), "cp1252"),
        (("příliš", "žluťoučký", "kůň"), "cp1250"),
        (("Kraków", "Gdańsk", "Poznań"), "cp1250"),
        (("Győr", "Szűcs"), "cp1250"),
        (("Çankırı", "Beyoğlu"), "cp1254"),
        (("Москва", "Казань"), "cp1251"),
        (("мужской", "женский"), "cp1251"),
    ]
}


def lines(head: str, line: Callable[[int], str], n: int = 60) -> str:
    return "\n".join([head, *map(line, range(n)), ""])


def yes(i: int) -> str:
    return "yes" if i % 3 else "no"


def answers(*above: str) -> str:
    """Return a CSV of an age and a label, with lines between the header and these."""
    return lines("\n".join(["age,label", *above]), lambda i: f"{20 + i % 50},{yes(i)}")


ROWS = [{"age": 20 + i % 50, "label": yes(i)} for i in range(60)]
SETS = ("news", "web", "tv", "news;web", "news;tv", "web;tv", "news;web;tv", "tv;radio")
HTML = "<p>" + "solar cells lose charge at grain boundaries " * 4 + "&nbsp; and more</p>"
UNUSED = "--set skip_rows=2 --set sheet=Data --encoding cp1250"
ODD = {
    "groups of thousands with decimal commas": file(
        lines("label;price;count", lambda i: f"{yes(i)};{10 + i % 7},5;{1 + i % 20}.000")
    ),
    "three decimals with decimal points": file(
        lines("label,price,count", lambda i: f"{yes(i)},{10 + i % 7}.5,{1 + i % 20}.125")
    ),
    "one number with a point among commas": file(
        lines("label;z", lambda i: f"{yes(i)};{'0.0' if i == 7 else f'{i % 9},5'}")
    ),
    "a page break in a title": file(
        lines("Report\x0c2026\n\nlabel,x", lambda i: f"{yes(i)},{i % 9}.5")
    ),
    "Excel's line of the separator": file(lines("sep=;\nlabel;x", lambda i: f"{yes(i)};{i % 9},5")),
    "a codec that is no encoding": file("label,x\nyes,1\n", more="--encoding rot13"),
    "UTF-16 that is none": file("label,x\nyes,1\n", more="--encoding utf-16"),
    "UTF-8 by another name, with its mark": file(
        lines("\ufeffx,label", lambda i: f"{i % 9}.5,{yes(i)}"),
        more="--encoding UTF8 --include x",
    ),
    "decimal commas alone": file(
        lines("v", lambda i: f"{i % 9},5"), more="--set bins=3", of="features"
    ),
    "a JSON array": file(json.dumps(ROWS), "t.json"),
    "lines in a .json": file("\n".join(map(json.dumps, ROWS)), "t.json"),
    "a nest of arrays": file("[" * 100_000, "t.json"),
    "an array of numbers": file("[1, 2]", "t.json"),
    "an archive": file(b"PK\x03\x04 is cut", "t.zip"),
    "gzip without its ending": file(gzip.compress(answers().encode(), mtime=0)),
    "notes below the table": file(answers() + "Source: Ministry\n"),
    "a header of Qualtrics": file(
        answers("Age?,Well?", '"{""ImportId"":""a""}","{""ImportId"":""b""}"')
    ),
    "a header of SurveyMonkey": file(answers("Open-Ended Response,Response")),
    "a separator that is none": file(answers().replace(",", "^")),
    "two encodings": file(
        answers().replace("yes", "ja").encode() + "30,Köln\n".encode() * 9
        + "31,Zürich\n".encode("cp1252") * 9
    ),
    "labels that may be missing": file(answers() + "30,Refused\n" * 9),
    "yes or n/a": file(
        lines("a,age,label", lambda i: f"{'N/A' if i % 3 else 'Yes'},{20 + i},{yes(i + i % 4)}", 90)
    ),
    "a label called response": file(
        lines("age,label", lambda i: f"{i * 37 % 50},{'None' if i % 3 else 'Response'}", 90)
    ),
    "settings that have no meaning": file("\n".join(map(json.dumps, ROWS)), "t.jsonl", UNUSED),
    "settings of which some have": file(text_of(PLAIN), more=UNUSED),
    "one column of texts with semicolons": file(lines("text", lambda i: HTML, 30), of="keywords"),
    "a column that may hold known keyphrases": file(
        lines("text,Author Keywords", lambda i: f"{HTML[3:47]},solar cells", 30), of="keywords"
    ),
    "labels of one class": file(
        lines("bag_id,x,label", lambda i: f"{i // 4},{i % 7},responder", 80), of="bags"
    ),
    "several answers in a cell": file(
        lines("a,sources", lambda i: f"{i % 3},{SETS[i % 8]}", 160), of="features"
    ),
    **{
        f"the cell {cell} alone is no number": file(
            lines("nr,label,x", lambda i: f"{i},{yes(i)},{i * 37 % 60}.5") + f'"{cell}",,1790\n'
        )
        for cell in ("Summe", "k.A.", "n/a, see note")
    },
    **{
        f"a weight of {odd}": file(
            lines("x,z,label,w", lambda i, w=odd: f"{i % 7},{i % 5},{yes(i)},{w if i == 4 else 1}"),
            more="--column weight=w",
        )
        for odd in ("inf", "1e300")
    },
}  # fmt: skip
IN_TEXT = {
    "thousands": lambda i: f"{1 + i % 9},{100 + i}",
    "thousands among decimal points": lambda i: f"{1 + i % 9},{100 + i}" if i == 3 else f"{i}.5",
    "decimal commas": lambda i: f"{i},5",
    "a thousand among decimal commas": lambda i: "1,234" if i in (7, 9) else f"{i % 9},5",
    "both decimal signs": lambda i: "0.5" if i == 7 else f"{i % 9},5",
    "per cent": lambda i: f"{2 * i} %",
    "blanks": lambda i: f"{1 + i % 9} {100 + i}",
    "brackets": lambda i: f"({i}.5)",
    "two currencies": lambda i: f"{'€$'[i % 2]}{i}.5",
}
OF_FAMILIES = {
    "bags": "--set positive=y --set model=embedding",
    "experts": "--exclude bag_id",
    "features": "--set bins=3 --exclude bag_id",
}


def numbers_in_text(cell: Callable[[int], str], family: str) -> Said:
    content = lines(
        "bag_id,label,x,z", lambda i: f'b{i // 2},{"yn"[i // 2 % 2]},"{cell(i)}",{i * 37 % 60}.5'
    )
    return file(content, more=OF_FAMILIES[family], of=family)


def workbook(
    path: Path, merged: tuple[str, ...] = (), hidden: tuple[str, ...] = (), **sheets: list
) -> None:
    """Write a workbook by hand: numbers, and text within its cells; merged ones in all sheets."""
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    packages = "http://schemas.openxmlformats.org/package/2006"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = listed = links = ""
    texts = {}
    for i, (name, rows) in enumerate(sheets.items(), 1):
        state = ' state="hidden"' if name in hidden else ""
        sheet = f"worksheets/sheet{i}.xml"
        parts += f'<Override PartName="/xl/{sheet}" ContentType="{kind}.worksheet+xml"/>'
        listed += f'<sheet name="{name}" sheetId="{i}" r:id="r{i}"{state}/>'
        links += f'<Relationship Id="r{i}" Type="{office}/worksheet" Target="{sheet}"/>'
        ranges = "".join(f'<mergeCell ref="{one}"/>' for one in merged)
        cells = "".join(
            f'<row r="{r}">{"".join(_cell(chr(65 + c), r, v) for c, v in enumerate(row))}</row>'
            for r, row in enumerate(rows, 1)
        )
        texts[f"xl/{sheet}"] = (
            f'<worksheet xmlns="{space}"><sheetData>{cells}</sheetData>'
            + (f"<mergeCells>{ranges}</mergeCells>" if merged else "") + "</worksheet>"
        )  # fmt: skip
    texts["[Content_Types].xml"] = (
        f'<Types xmlns="{packages}/content-types"><Default Extension="rels" '
        f'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override '
        f'PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/>{parts}</Types>'
    )
    texts["_rels/.rels"] = (
        f'<Relationships xmlns="{packages}/relationships"><Relationship Id="r" '
        f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>'
    )
    texts["xl/workbook.xml"] = (
        f'<workbook xmlns="{space}" xmlns:r="{office}"><sheets>{listed}</sheets></workbook>'
    )
    texts["xl/_rels/workbook.xml.rels"] = (
        f'<Relationships xmlns="{packages}/relationships">{links}</Relationships>'
    )
    with zipfile.ZipFile(path, "w") as book:
        for name, text in texts.items():
            book.writestr(name, text)


def _cell(letter: str, row: int, value: object) -> str:
    if isinstance(value, int | float):
        return f'<c r="{letter}{row}"><v>{value}</v></c>'
    return f'<c r="{letter}{row}" t="inlineStr"><is><t>{value}</t></is></c>'


def book(more: str = "", merged: tuple[str, ...] = (), hidden: tuple[str, ...] = (),
         **sheets: list) -> Said:  # fmt: skip
    return looked(
        f"experts @/t.xlsx {more}",
        lambda folder: workbook(folder / "t.xlsx", merged, hidden, **sheets),
    )


NUMBERS = [[float(x), float(z), label] for x, z, label in PLAIN]
CODES = [["code", "meaning"], [1, "one"], [2, "two"]]
TITLED = {"Data": [["Report of 2020"], [], NAMES, *NUMBERS], "Codes": CODES}
NORTH = [[("north" if i < 60 else "south") if i in (0, 60) else "", float(z), label]
         for i, (_, z, label) in enumerate(PLAIN)]  # fmt: skip
ONE_NORTH = [["north" if i == 60 else "", z, label] for i, (_, z, label) in enumerate(PLAIN)]


def survey(folder: Path) -> None:
    """Write answers of which SPSS calls one missing."""
    rng = random.Random(0)
    frame = pd.DataFrame(
        {
            "q1": [float(rng.choice([1, 2, 3, 99])) for _ in range(120)],
            "x": [rng.gauss(0, 1) for _ in range(120)],
            "label": [float(rng.random() < 0.5) for _ in range(120)],
        }
    )
    labels = {"q1": {1.0: "low", 2.0: "medium", 3.0: "high", 99.0: "no answer"}}
    pyreadstat.write_sav(
        frame, str(folder / "t.sav"), variable_value_labels=labels, missing_ranges={"q1": [99]}
    )


CASES = {
    **{words.replace("%/", ""): shared(words) for words in OF_SHARED.split("\n") if words},
    **{f"a column of {name}": said for name, said in COLUMNS.items()},
    **{f"a file of {name}": said for name, said in FORMS.items()},
    **{f"letters of {name}": said for name, said in LETTERS.items()},
    **ODD,
    **{
        f"{name}, {family}": numbers_in_text(cell, family)
        for name, cell in IN_TEXT.items()
        for family in OF_FAMILIES
    },
    "a workbook with a title and two sheets": book(**TITLED),
    "a workbook without the sheet": book("--set sheet=Kodes", **TITLED),
    "merged cells and a hidden sheet": book(
        merged=("A2:A61", "A62:A121"), hidden=("Lists",), Lists=CODES, Data=[NAMES, *NORTH]
    ),
    "a merged cell beyond the table": book(merged=("B5:H9", "A62:A500"), Data=[NAMES, *ONE_NORTH]),
    "missing values of SPSS": looked("experts @/t.sav", survey),
}
