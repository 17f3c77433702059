"""The report's tables sort, filter and download in a browser, and its charts show values."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flows.data.runs import RunRecord, versions
from flows.report import plots
from flows.report.page import Grid, Section, render

ROOT = Path(__file__).resolve().parents[3]
ROWS = [
    ["b", 1234.5678, "+0.2 ± 0.1"], ["a", 0.000123456, 'says "no", twice'],
    ["d", -5.0, "-0.67 ± 0.03"], ["c", 99999.5, "-1,204"],
    *([f"n{i}", float(i), "rest"] for i in range(6)),
]  # fmt: skip


def record():
    now = datetime(2026, 1, 2, tzinfo=UTC)
    return RunRecord.model_validate(
        {
            "run_id": "r1", "pipeline": "bags", "source": "s", "settings": {"tol": 1e-6},
            "versions": versions(), "started": now, "finished": now, "seconds": 1.0,
            "peak_memory_bytes": 1, "inputs": [], "rows_read": 12, "rows_kept": 10,
            "dropped": [], "partitions": 1, "iterations": 3, "converged": True, "elbo": 1.0,
            "warnings": [], "results": {},
        }
    )  # fmt: skip


def page(rows=ROWS):
    grid = Grid(("name", "value", "note"), rows, "a table")
    picture = plots.bars(["<one> & 'two'", "three"], [3.0, 4.5], "words", "Frequent words")
    return render(record(), "What was found", [Section("First part", "", (picture,), [grid])])


def test_contents_name_every_part_and_costs_come_last():
    html = page()
    for number, title in enumerate(("First part", "Input files"), 1):
        assert f'<a href="#part-{number}">{title}</a>' in html
        assert f'<section id="part-{number}">' in html
    assert html.index("10 of 12 rows used") < html.index("First part")
    assert html.index("bound (nats)") > html.index("Settings and resources</h2>")


@pytest.fixture(scope="module")
def browsed(tmp_path_factory):
    """Return what an expression is in the browser that shows the page."""
    if shutil.which("chromium") is None:
        pytest.skip("chromium is not installed")
    spec = importlib.util.spec_from_file_location("screenshots", ROOT / "docs/screenshots.py")
    screenshots = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(screenshots)
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page(), encoding="utf-8")
    with screenshots.browser() as socket:
        shown = screenshots.Page(socket)

        def evaluate(expression):
            asked = f"(async () => {{ {expression} }})()"
            answer = shown.call(
                "Runtime.evaluate", expression=asked, awaitPromise=True, returnByValue=True
            )
            assert "exceptionDetails" not in answer, answer
            return answer["result"].get("value")

        def opened():
            shown.call("Page.enable")
            shown.call("Page.navigate", url=path.as_uri())
            evaluate(
                "while (document.readyState !== 'complete' || !document.querySelector('.tools'))"
                " await new Promise((go) => setTimeout(go, 50));"
            )
            return evaluate

        yield opened


FIRST = "return [...document.querySelectorAll('tbody')[0].rows].map((r) => r.cells[0].textContent);"
CLICK = "document.querySelectorAll('th button')[{}].click();"


def test_a_click_sorts_by_what_the_numbers_are(browsed):
    ask = browsed()
    assert ask(FIRST)[:4] == ["b", "a", "d", "c"]
    ask(CLICK.format(1))
    assert ask(FIRST) == ["d", "n0", "a", "n1", "n2", "n3", "n4", "n5", "b", "c"]
    ask(CLICK.format(1))
    assert ask(FIRST)[0] == "c"
    ask(CLICK.format(1))
    assert ask(FIRST)[:4] == ["b", "a", "d", "c"]
    ask(CLICK.format(0))
    assert ask(FIRST)[:4] == ["a", "b", "c", "d"]
    ask(CLICK.format(2))
    assert ask(FIRST)[:3] == ["c", "d", "b"]


def test_a_filter_hides_the_other_rows_and_the_download_holds_what_is_shown(browsed):
    ask = browsed()
    text = ask(
        "const input = document.querySelector('.tools input'); input.value = 'NO';"
        " input.dispatchEvent(new Event('input'));"
        " let held; const make = URL.createObjectURL;"
        " URL.createObjectURL = (blob) => { held = blob; return make.call(URL, blob); };"
        " document.querySelector('section > .tools button').click(); return await held.text();"
    )
    assert text == 'name,value,note\r\na,0.000123456,"says ""no"", twice"\r\n'
    assert ask("return document.querySelector('.tools span').textContent;") == "1 of 10"


FORMULAS = ("=1+1", "+SUM(A1)", "-2+3|cmd", "@x", "\t=1", '=HYPERLINK("u","v")')
NUMBERS = ("-1.5", "+0.25", "-1,204", "-3e-05", "+12 %", "-inf", "12", "a=b")


def test_no_cell_of_a_download_is_a_formula(browsed):
    ask = browsed()
    cells = [*FORMULAS, *NUMBERS]
    text = ask(
        f"const texts = {json.dumps(cells)};"
        " const table = document.querySelector('table[data-name]');"
        " const row = table.tBodies[0].rows[0]; const first = row.cells[0];"
        " row.replaceChildren(...texts.map((text) => {"
        " const cell = first.cloneNode(); cell.textContent = text; return cell; }));"
        " let held; const make = URL.createObjectURL;"
        " URL.createObjectURL = (blob) => { held = blob; return make.call(URL, blob); };"
        " document.querySelector('section > .tools button').click(); return await held.text();"
    )
    (found,) = [row for row in csv.reader(io.StringIO(text)) if "a=b" in row]
    assert found == [*(f"'{cell.strip()}" for cell in FORMULAS), *NUMBERS]


DRAWN = (
    "while (document.querySelectorAll('figure svg .mark-rect path').length < 2)"
    " await new Promise((go) => setTimeout(go, 50));"
    " const bars = [...document.querySelectorAll('figure svg .mark-rect path')];"
)


def test_a_mark_of_a_chart_shows_its_value_under_the_pointer(browsed):
    ask = browsed()
    under = DRAWN + (
        " const at = bars[NUMBER].getBoundingClientRect();"
        " const event = { bubbles: true, clientX: at.right - 3, clientY: at.top + 3 };"
        " document.elementFromPoint(event.clientX, event.clientY)"
        ".dispatchEvent(new PointerEvent('pointermove', event));"
        " const tip = document.querySelector('#vg-tooltip-element.visible');"
        " return tip && tip.textContent;"
    )
    assert ask(under.replace("NUMBER", "0")) == "<one> & 'two': 3 words"
    assert ask(under.replace("NUMBER", "1")) == "three: 4.5 words"


def test_charts_take_the_colours_of_the_page_and_can_be_downloaded(browsed):
    ask = browsed()
    assert ask(DRAWN + " return bars[0].getAttribute('fill');") == "#0b6e69"
    links = ask(
        "return [...document.querySelectorAll('figure .vega-actions a')]"
        ".map((link) => [link.textContent, link.download]);"
    )
    assert links == [["Save as SVG", "bags-r1-1-1.svg"], ["Save as PNG", "bags-r1-1-1.png"]]


def test_names_in_a_chart_end_no_script():
    html = page()
    assert "<one>" not in html
    assert html.count("<script") == html.count("</script>") == 3


def test_a_page_without_charts_has_no_library():
    assert len(render(record(), "Found", [Section("Part")])) < 50_000
