"""The report's page in a browser: tables, charts, contents, light and dark, terms, what opens."""

import csv
import io
import json
import re
from pathlib import Path

import pytest

from flows.report import plots
from flows.report.glossary import glossary
from flows.report.render import AppliedFit, Link
from tests.flows.report.browser import browser_page
from tests.flows.report.toy import NOTED, page

ROOT = Path(__file__).resolve().parents[3]
TRACE = plots.trace([1, 2], [-3.0, -1.0], how="It rose.")


def test_contents_name_every_part_and_the_run_comes_last():
    html = page()
    for number, title in enumerate(("First part", "Input and settings"), 1):
        assert f'<a href="#part-{number}">{title}</a>' in html
        assert f'<section id="part-{number}">' in html
    assert html.index("<h2>First part") < html.index("10 of 12 rows used") < html.index('id="next"')


def test_the_head_has_the_picture_the_tiles_and_the_warnings():
    html = page(record={"warnings": ["Too few rows."]})
    head = html[html.index('<dl class="tiles">') : html.index("<h2>First part")]
    assert "<dt>found</dt><dd>10</dd><dd>of 20</dd>" in head
    assert '<figcaption>Frequent words<br><span class="how">Each bar is a number of words.' in head
    assert head.index("<figcaption>") < head.index("1 warning") < head.index("Too few rows.")
    assert 'class="warnings"' not in page()


def test_the_trace_is_folded_below_the_settings():
    html = page(trace=TRACE)
    end = html[html.index("All settings") :]
    opened = end.index('<details class="fold"><summary>The bound after each sweep</summary>')
    assert opened < end.index("<figure") < end.index("It rose.")


def test_the_memory_of_the_driver_is_not_said_to_be_that_of_workers():
    assert "1.0 s, 0 MiB at most." in page()
    assert "1.0 s.</p>" in page(record={"workers": 2})


def test_settings_are_folded_and_those_that_were_given_come_first():
    settings = {"tol": 1e-6, "tau": None, "sheet": None}
    html = page(record={"settings": settings, "changed": {"tol": 1e-6}}, meant={"tau": "3 experts"})
    assert html.index("Settings that were given (1)") < html.index("All settings (3)")
    assert html.count('<details class="fold">') == 4
    assert "Settings that were given" not in page()
    for name, said in (("tau", "3 experts"), ("sheet", "none")):
        assert re.search(rf"<td[^>]*>{name}</td>\s*<td[^>]*>{said}</td>", html)


def test_commands_have_the_address_of_the_run():
    assert "<code>vbflows score &#39;my out/runs/r1&#39; NEW_FILE scored/</code>" in page()


def test_a_cell_leads_to_another_page():
    html = page(fit=AppliedFit("r0", "It was found.", [], Link("report", "a%20b/r0.html")))
    assert '<a href="a%20b/r0.html">report</a>' in html


def test_a_table_of_some_rows_says_where_all_are():
    said = "10 of 100,000 rows; all: vbflows show &#39;my out/runs/r1&#39; rows</p>"
    assert said in page(total=10**5)
    assert "rows; all:" not in page()


def test_the_glossary_has_the_terms_of_the_page_alone():
    html = page()
    assert f"<dd>{glossary()['AUROC']}</dd>" in html
    assert f"<dd>{glossary()['log loss']}</dd>" in html
    assert glossary()["q-value"] not in html


def test_names_in_a_chart_end_no_script():
    html = page()
    assert "<one>" not in html
    assert html.count("<script") == html.count("</script>") == 4


def test_a_page_without_charts_has_no_library():
    assert len(page(charts=False)) < 50_000


@pytest.fixture(scope="module")
def browsed(tmp_path_factory):
    """Return what an expression is in the browser that shows the page."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    with browser_page() as (shown, evaluate):

        def opened(width=800, rows=NOTED):
            path.write_text(page(rows, trace=TRACE), encoding="utf-8")
            shown.call(
                "Emulation.setDeviceMetricsOverride",
                width=width, height=900, deviceScaleFactor=1, mobile=width < 600,
            )  # fmt: skip
            shown.call("Page.enable")
            shown.call("Page.navigate", url=path.as_uri())
            evaluate(
                "while (document.readyState !== 'complete' || !document.querySelector('.theme'))"
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
    name = "toy-r1-frequent-words"
    assert links == [["Save as SVG", f"{name}.svg"], ["Save as PNG", f"{name}.png"]]


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


def test_what_opens_below_an_only_row_is_open(browsed):
    evaluate = browsed(rows=NOTED[:1])
    assert evaluate("return document.querySelector('tr.detail').offsetHeight;") > 20
    assert evaluate("return document.querySelector('.open-row').ariaExpanded;") == "true"
    assert evaluate(DRAWN + "return document.querySelectorAll('.detail svg.marks').length;") == 1


def test_a_search_finds_what_opens_and_no_data_of_charts(browsed):
    evaluate = browsed()
    search = (
        "const input = document.querySelector('.tools input'); input.value = '{}';"
        " input.dispatchEvent(new Event('input'));"
        " return document.querySelector('.tools span').textContent;"
    )
    assert evaluate(search.format("inner")) == "1 of 10"
    assert evaluate(search.format("tooltip")) == "0 of 10"


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
    assert options == [["--set", "nowrap"]]
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
