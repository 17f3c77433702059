"""The report's page in a browser: tables, charts, contents, light and dark, terms, what opens."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flows.data.runs import RunRecord, versions
from flows.report import plots
from flows.report.glossary import glossary
from flows.report.page import MOST_ROWS, Findings, Grid, NextStep, Section, Tile, render

ROOT = Path(__file__).resolve().parents[3]
ROWS = [
    ["b", 1234.5678, "+0.2 ± 0.1"], ["a", 0.000123456, 'says "no", twice'],
    ["d", -5.0, "-0.67 ± 0.03"], ["c", 99999.5, "-1,204"],
    *([f"n{i}", float(i), "rest"] for i in range(6)),
]  # fmt: skip


TRACE = Section(
    "The bound after each sweep", plots=(plots.trace([1, 2], [-3.0, -1.0], how="It rose."),)
)


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


def findings(rows=ROWS):
    opened = Section("", "What is in b.", grids=[Grid(("what",), [["inner"]])])
    grid = Grid(("name", "value", "note"), rows, "a table by AUROC", (opened,))
    picture = plots.bars(["<one> & 'two'", "three"], [3.0, 4.5], "words", "Frequent words")
    return Findings(
        "What was found",
        [
            Section(
                "First part",
                "The AUROC, and the AUROC again: run it with --set auroc.",
                (picture,),
                [grid],
                how="Read it.",
            )
        ],
        tiles=[Tile("found", "12", "of 20"), Tile("log loss", "0.3", "base rate 0.7")],
        next_steps=[NextStep("Score new rows:", "vbflows score {run} NEW OUT")],
    )


def page(rows=ROWS, **options):
    return render(record(), findings(rows), **options)


def test_contents_name_every_part_and_costs_come_last():
    html = page()
    for number, title in enumerate(("First part", "Input files", "Settings and resources"), 1):
        assert f'<a href="#part-{number}">{title}</a>' in html
        assert f'<section id="part-{number}">' in html
    assert html.index("10 of 12 rows used") < html.index("<h2>First part")
    assert html.index("Converged after 3 sweeps") > html.index("Settings and resources</h2>")
    assert "after 3 sweeps; 1 partition; 1.0 s in all; 0 MiB of memory at most." in html
    said = "1.0 s in all, 0.8 s of them for the sweeps;"
    assert said in page(sweeping=0.8)
    assert "1.0 s in all since the run was resumed; 7.0 s for all sweeps;" in page(sweeping=7.0)


def test_the_head_has_the_picture_and_the_tiles():
    html = page()
    head = html[html.index('<dl class="tiles">') : html.index("<h2>First part")]
    assert "<dt>found</dt><dd>12</dd><dd>of 20</dd>" in head
    assert "<dt>rows used</dt><dd>10 of 12</dd>" in head
    assert '<figcaption>Frequent words<br><span class="how">Each bar is a number of words.' in head
    assert html.count("<figcaption>") == 1


def test_a_part_of_one_chart_is_at_the_top_alone():
    picture = plots.bars(["a"], [1.0], "words", "Frequent words")
    html = render(record(), Findings("h", [Section("Alone", "", (picture,)), Section("B", "b")]))
    assert "<figcaption>Frequent words" in html
    assert "Alone" not in html
    assert '<a href="#part-1">B</a>' in html


def test_what_a_part_says_to_see_is_a_link_to_that_part():
    parts = [Section("Depth", "", how="Low <depth>: see Limit."), Section("Limit", "At most 5 %.")]
    text = render(record(), Findings("Found", parts))
    assert 'Low &lt;depth&gt;: see <a href="#part-2">Limit</a>.' in text


def test_the_trace_is_folded_below_the_settings_and_never_at_the_top():
    html = render(record(), Findings("h", [Section("B", "b")]), trace=TRACE)
    assert 'id="lead"' not in html
    end = html[html.index("<h2>Settings and resources") :]
    opened = end.index('<details class="fold"><summary>The bound after each sweep</summary>')
    assert opened < end.index("<figure") < end.index("It rose.") < end.index("All settings")


def test_notes_and_what_a_row_is_are_on_the_page_and_three_steps_at_most():
    noted = record().model_copy(update={"notes": ["The reference is ref.fa."]})
    steps = [NextStep(f"Step {number}:", "ls") for number in range(5)]
    html = render(noted, Findings("h", [], next_steps=steps, row="position"))
    assert "10 of 12 positions used" in html
    assert "<dt>positions used</dt>" in html
    assert html.index("The reference is ref.fa.") > html.index("<h2>Input files")
    body = html[html.index("<body>") : html.index("<script>")]
    assert body.count("warning") == body.count("No warnings.") == 1
    assert "Step 2:" in html
    assert "Step 3:" not in html
    files = Findings("h", [], row="position", inputs=[Grid(("file",), [("a.bam",)])])
    assert '<th scope="col">positions in the files it names</th>' in render(noted, files)


def test_notes_on_what_was_found_are_below_the_warnings_and_no_notes_of_the_input():
    noted = record().model_copy(update={"notes": ["Of the input.", "None is used."],
                                        "warnings": ["Too few rows."]})  # fmt: skip
    html = render(noted, Findings("h", [], notes=("None is used.",)))
    assert "No warnings." not in html
    first, second = html.index("<strong>1 warning</strong>"), html.index("<strong>1 note</strong>")
    assert first < second < html.index("None is used.") < html.index("<h2>Input files")
    assert html.count("None is used.") == 1
    assert html.index("Of the input.") > html.index("<h2>Input files")


def test_settings_that_are_empty_have_the_value_that_was_used_or_what_their_default_is():
    run = record().model_copy(update={"settings": {"tau": None, "sheet": None, "partitions": None}})
    defaults = {"tau": "default (chosen)", "sheet": "default (the first)", "partitions": "none"}
    html = render(run, Findings("h", [], used={"tau": "3 for experts"}), defaults=defaults)
    for name, said in (("tau", "3 for experts (default)"), ("sheet", "default (the first)"),
                       ("partitions", "1 (default)")):  # fmt: skip
        assert re.search(rf"<td[^>]*>{name}</td>\s*<td[^>]*>{re.escape(said)}</td>", html)


def test_a_run_is_named_once_in_a_command_that_has_a_column_called_like_it():
    step = NextStep("Sort:", "vbflows show {run} rows --sort 'probability_{run}'")
    html = render(record(), Findings("h", [], next_steps=[step]), run="out")
    assert "vbflows show out rows --sort &#39;probability_{run}&#39;" in html


def test_commands_have_the_address_of_the_run():
    html = page(run="/data/my runs/r1")
    assert "vbflows score &#39;/data/my runs/r1&#39; NEW OUT" in html
    assert "vbflows show &#39;/data/my runs/r1&#39;" in html


def test_settings_are_folded_and_those_that_were_given_come_first():
    html = render(record().model_copy(update={"changed": {"tol": 1e-6}}), findings(ROWS))
    assert html.index("Settings that were given (1)") < html.index("All settings (1)")
    assert html.count('<details class="fold">') == 3
    assert "Settings that were given" not in page()


def test_a_long_table_says_where_the_rest_is():
    rows = [(f"n{i}", i, "") for i in range(10**5)]
    html = page(rows)
    assert len(html) < 3 * 2**20
    assert (
        f"{MOST_ROWS:,} of 100,000 rows are shown, searched and saved as CSV; all are in " in html
    )
    assert f"n{MOST_ROWS - 1}<" in html
    assert f"n{MOST_ROWS}<" not in html
    grid = Grid(("name",), [["a"]], total=10**5, where="the table rows")
    html = render(record(), Findings("Found", [Section("Part", grids=[grid])]))
    assert (
        "1 of 100,000 rows are shown, searched and saved as CSV; all are in the table rows." in html
    )


def test_the_glossary_has_the_terms_of_the_page_alone():
    html = page()
    assert f"<dd>{glossary()['AUROC']}</dd>" in html
    assert f"<dd>{glossary()['log loss']}</dd>" in html
    assert glossary()["q-value"] not in html


@pytest.fixture(scope="module")
def browsed(tmp_path_factory):
    """Return what an expression is in the browser that shows the page."""
    if shutil.which("chromium") is None:
        pytest.skip("chromium is not installed")
    spec = importlib.util.spec_from_file_location("screenshots", ROOT / "docs/screenshots.py")
    screenshots = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(screenshots)
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page(trace=TRACE), encoding="utf-8")
    with screenshots.browser() as socket:
        shown = screenshots.Page(socket)

        def evaluate(expression):
            body = f"(async () => {{ {expression} }})()"
            answer = shown.call(
                "Runtime.evaluate", expression=body, awaitPromise=True, returnByValue=True
            )
            assert "exceptionDetails" not in answer, answer
            return answer["result"].get("value")

        def opened(width=800):
            shown.call(
                "Emulation.setDeviceMetricsOverride",
                width=width, height=900, deviceScaleFactor=1, mobile=width < 600,
            )  # fmt: skip
            shown.call("Page.enable")
            shown.call("Page.navigate", url=path.as_uri())
            evaluate(
                "while (document.readyState !== 'complete' || !document.querySelector('.tools'))"
                " await new Promise((go) => setTimeout(go, 50));"
            )
            return evaluate

        yield opened


FIRST = (
    "return [...document.querySelector('tbody').rows].filter((r) => r.className !== 'detail')"
    ".map((r) => r.cells[0].textContent);"
)
CLICK = "document.querySelectorAll('th button')[{}].click();"


def test_a_click_sorts_by_what_the_numbers_are(browsed):
    evaluate = browsed()
    assert evaluate(FIRST)[:4] == ["b", "a", "d", "c"]
    evaluate(CLICK.format(1))
    assert evaluate(FIRST) == ["d", "n0", "a", "n1", "n2", "n3", "n4", "n5", "b", "c"]
    evaluate(CLICK.format(1))
    assert evaluate(FIRST)[0] == "c"
    evaluate(CLICK.format(1))
    assert evaluate(FIRST)[:4] == ["b", "a", "d", "c"]
    evaluate(CLICK.format(0))
    assert evaluate(FIRST)[:4] == ["a", "b", "c", "d"]
    evaluate(CLICK.format(2))
    assert evaluate(FIRST)[:3] == ["c", "d", "b"]


def test_a_filter_hides_the_other_rows_and_the_download_holds_what_is_shown(browsed):
    evaluate = browsed()
    text = evaluate(
        "const input = document.querySelector('.tools input'); input.value = 'NO';"
        " input.dispatchEvent(new Event('input'));"
        " let held; const make = URL.createObjectURL;"
        " URL.createObjectURL = (blob) => { held = blob; return make.call(URL, blob); };"
        " document.querySelector('section > .tools button').click(); return await held.text();"
    )
    assert text == 'name,value,note\r\na,0.000123456,"says ""no"", twice"\r\n'
    assert evaluate("return document.querySelector('.tools span').textContent;") == "1 of 10"


def test_a_short_table_sorts_and_has_no_tools(browsed):
    evaluate = browsed()
    assert evaluate("return document.querySelectorAll('table').length;") > 2
    assert evaluate("return document.querySelectorAll('.tools').length;") == 1


FORMULAS = ("=1+1", "+SUM(A1)", "-2+3|cmd", "@x", "\t=1", '=HYPERLINK("u","v")')
NUMBERS = ("-1.5", "+0.25", "-1,204", "-3e-05", "+12 %", "-inf", "12", "a=b")


def test_no_cell_of_a_download_is_a_formula(browsed):
    evaluate = browsed()
    cells = [*FORMULAS, *NUMBERS]
    text = evaluate(
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
    evaluate = browsed()
    under = DRAWN + (
        " const at = bars[NUMBER].getBoundingClientRect();"
        " const event = { bubbles: true, clientX: at.right - 3, clientY: at.top + 3 };"
        " document.elementFromPoint(event.clientX, event.clientY)"
        ".dispatchEvent(new PointerEvent('pointermove', event));"
        " const tip = document.querySelector('#vg-tooltip-element.visible');"
        " return tip && tip.textContent;"
    )
    assert evaluate(under.replace("NUMBER", "0")) == "<one> & 'two': 3 words"
    assert evaluate(under.replace("NUMBER", "1")) == "three: 4.5 words"


def test_a_folded_chart_is_drawn_when_it_opens(browsed):
    evaluate = browsed()
    folded = "const fold = document.querySelector('.fold:has(figure)');"
    assert evaluate(f"{folded} return fold.querySelector('svg') === null;")
    wide = evaluate(
        f"{folded} fold.open = true; let svg;"
        " for (let i = 0; i < 100 && !(svg = fold.querySelector('figure svg.marks')); i++)"
        " await new Promise((go) => setTimeout(go, 50)); return svg.clientWidth;"
    )
    assert wide > 400


def test_charts_take_the_colours_of_the_page_and_can_be_downloaded(browsed):
    evaluate = browsed()
    assert evaluate(DRAWN + " return bars[0].getAttribute('fill');") == "#0b6e69"
    links = evaluate(
        "return [...document.querySelectorAll('figure .vega-actions a')]"
        ".map((link) => [link.textContent, link.download]);"
    )
    assert links == [["Save as SVG", "bags-r1-lead.svg"], ["Save as PNG", "bags-r1-lead.png"]]


def test_the_switch_repaints_page_and_charts_and_is_remembered(browsed):
    evaluate = browsed()
    ink = "return getComputedStyle(document.body).color;"
    assert evaluate(ink) == "rgb(31, 35, 40)"
    evaluate(DRAWN + " document.querySelector('.theme').click();")
    assert evaluate(ink) == "rgb(230, 228, 223)"
    wait = (
        "while (document.querySelector('figure svg .mark-rect path')?.getAttribute('fill')"
        " !== '#4cc2b8') await new Promise((go) => setTimeout(go, 50)); return true;"
    )
    assert evaluate(wait)
    evaluate = browsed()
    assert evaluate("return document.documentElement.dataset.theme;") == "dark"
    evaluate("document.querySelector('.theme').click();")
    assert evaluate(ink) == "rgb(31, 35, 40)"
    evaluate("localStorage.clear();")


def test_the_first_use_of_a_term_in_a_part_has_its_meaning(browsed):
    evaluate = browsed()
    found = evaluate(
        "return [...document.querySelectorAll('main abbr')].map((a) => a.textContent);"
    )
    assert found == ["log loss", "base rate", "AUROC", "sweeps", "partition", "bound"]
    text = evaluate(
        "document.querySelector('section abbr').dispatchEvent(new PointerEvent('pointerenter'));"
        " const box = document.getElementById('meaning'); return box.hidden ? '' : box.textContent;"
    )
    assert text == glossary()["AUROC"]
    assert (
        evaluate(
            "const term = document.querySelector('section abbr');"
            " for (const name of ['pointerenter', 'pointerleave', 'click'])"
            " term.dispatchEvent(new PointerEvent(name));"
            " return document.getElementById('meaning').hidden;"
        )
        is False
    )


def test_a_row_opens_and_its_detail_follows_it_when_sorted(browsed):
    evaluate = browsed()
    height = "return document.querySelector('tr.detail').offsetHeight;"
    assert evaluate(height) == 0
    evaluate("document.querySelector('.open-row').click();")
    assert evaluate(height) > 20
    evaluate(CLICK.format(0))
    before = "return document.querySelector('tr.detail').previousElementSibling.cells[0].innerText;"
    assert evaluate(before).endswith("b")


def test_the_contents_are_at_the_side_and_fold_on_a_narrow_screen(browsed):
    evaluate = browsed(1280)
    left = "return document.querySelector('main').getBoundingClientRect().left;"
    assert evaluate("return document.querySelector('nav details').open;")
    assert evaluate(left) > 200
    evaluate = browsed(390)
    assert not evaluate("return document.querySelector('nav details').open;")
    assert evaluate(left) < 30
    assert evaluate("return document.documentElement.scrollWidth;") == 390


def test_no_word_of_a_table_is_broken_on_a_narrow_screen(browsed):
    evaluate = browsed(390)
    lines = evaluate(
        "const cells = [...document.querySelector('tbody').rows[0].cells];"
        " return cells.map((cell) => {"
        " cell.textContent = 'electroencephalographically characterised hypersensitivities';"
        " const word = document.createRange();"
        " word.setStart(cell.firstChild, 0); word.setEnd(cell.firstChild, 27);"
        " return word.getClientRects().length; });"
    )
    assert lines == [1, 1, 1]
    assert evaluate("return document.documentElement.scrollWidth;") == 390


def test_a_narrow_page_breaks_no_option_and_leaves_no_hole(browsed):
    evaluate = browsed(390)
    options = evaluate(
        "return [...document.querySelectorAll('section .option')]"
        ".map((one) => [one.textContent, getComputedStyle(one).whiteSpace]);"
    )
    assert options == [["--set", "nowrap"], ["--report", "nowrap"]]
    widths = evaluate(
        "return [...document.querySelectorAll('.tiles, .tiles div')].map((one) => one.offsetWidth);"
    )
    assert widths[3] == widths[0]
    assert widths[1] < 0.5 * widths[0]


WIDEN = (
    "document.querySelector('td').textContent = 'electroencephalographically'.repeat(4);"
    " await new Promise((go) => setTimeout(go, 200));"
)


def test_a_table_that_is_cut_says_so(browsed):
    evaluate = browsed(800)
    cut = "return document.querySelector('caption .swipe').hidden;"
    assert evaluate(cut)
    assert not evaluate(WIDEN + cut)


def test_on_a_narrow_screen_each_row_of_a_table_that_is_cut_is_a_card(browsed):
    evaluate = browsed(390)
    state = (
        "const place = document.querySelector('.scroll');"
        " const [row] = place.querySelector('tbody').rows;"
        " const shown = (cell) => getComputedStyle(cell, '::before').content;"
        " return [place.classList.contains('cards'), [...row.cells].map(shown),"
        " [...row.cells].every((cell) => cell.getBoundingClientRect().right <= 390),"
        " place.scrollWidth <= place.clientWidth];"
    )
    assert evaluate(state) == [False, ["none", "none", "none"], True, True]
    assert evaluate(WIDEN + state) == [True, ["none", '"value "', '"note "'], True, True]
    assert evaluate("return document.querySelector('.swipe').hidden;")
    evaluate(CLICK.format(1))
    assert evaluate("return document.querySelector('th[aria-sort]').offsetHeight;") > 0


def test_names_in_a_chart_end_no_script():
    html = page()
    assert "<one>" not in html
    assert html.count("<script") == html.count("</script>") == 3


def test_a_page_without_charts_has_no_library():
    assert len(render(record(), Findings("Found", [Section("Part")]))) < 50_000


def test_how_charts_are_read_is_said_once():
    alike = [plots.curve([0.0, 1.0], [2.0, 3.0], [0.1, 0.1], name, "y", name) for name in "abc"]
    levels = plots.level_bars(["x"], [1.0], [0.1], [3], "y", "d", (0.0, 2.0))
    html = page_with(alike)
    assert html.count("the band its 95 % interval") == 1
    html = page_with([*alike, levels, levels])
    assert html.count("the band its 95 % interval") == 1
    assert html.count("Bars are means, lines 95 % intervals") == 1


def page_with(charts):
    """Return the visible text of a page whose first chart is at its top."""
    html = render(record(), Findings("h", [Section("Curves", "They rise.", charts)]))
    return re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)
