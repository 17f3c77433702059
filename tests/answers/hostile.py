"""Kept answers in which each word that may be a user's means harm to a page, a table or a shell."""

import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from flows.catalogue import PIPELINES
from flows.keywords.texts import ShownDocument, Widget
from flows.records.runs import Dropped, InputRecord, RunRecord
from flows.report import plots, render
from flows.report.answers import as_results, of_results
from flows.report.render import AppliedFit, Link, News, Shown
from tests.answers import snapshots
from vbmodels.tables.column_table import ColumnRead
from vbmodels.tables.columns import Reason

OWNED = "document.documentElement.setAttribute('data-owned','1')"
HOSTILE = (
    f"<script>{OWNED}</script>",
    f'"><img src=x onerror="{OWNED}">',
    "term|with|pipes",
    "=cmd|' /C calc'!A0",
    f"</td></table><svg onload={OWNED}>",
    f"[x](javascript:{OWNED})",
    "{{ 7 * 7 }}{% raw %}",
)
HIDDEN = "flows.features.schema:HIDDEN"
TEMPLATES = Path(render.__file__).with_name("templates")
OURS = {"run_id", "pipeline", "started", "finished", "objective", "results"}  # of a record


@cache
def known_to_templates() -> set[str]:
    """Return the words that templates compare with, or look up by name."""
    texts = [path.read_text(encoding="utf-8") for path in TEMPLATES.rglob("*.jinja")]
    found = (re.findall(form, text) for form in (r'"([^"]*)"', r"\.(\w+)") for text in texts)
    return {word for words in found for word in words} | {*render.headings(HIDDEN)}


def literals(hint: Any) -> set[Any]:
    """Return the values of all literals of a type."""
    if get_origin(hint) is Literal:
        return set(get_args(hint))
    return {value for one in get_args(hint) for value in literals(one)}


FORMS = {
    *InputRecord.model_fields,
    *Dropped.model_fields,
    *(one.name for one in fields(ColumnRead)),
    *(one.name for one in fields(Reason)),
    *literals(get_type_hints(Reason)["kind"]),
}


class Names:
    """Hostile names in the place of others, one for each: a tag, a line and a column."""

    def __init__(self):
        self.given: dict[str, str] = {}

    def name(self, word: str) -> str:
        n = len(self.given)
        return (
            self.given.setdefault(word, f"<i>{HOSTILE[n % len(HOSTILE)]}\nforged:\t{n}")
            if word
            else word
        )

    def within(self, value: Any, ours: set[Any]) -> Any:
        """Return a value with a name in the place of each text that is none of ours."""
        if is_dataclass(value):
            hints = get_type_hints(type(value))
            words = {name: literals(hint) | known_to_templates() for name, hint in hints.items()}
            return replace(value, **{
                one.name: self.within(getattr(value, one.name), words[one.name])
                for one in fields(value)
            })  # fmt: skip
        if isinstance(value, Mapping):
            return {self.within(key, ours): self.within(one, ours) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self.within(one, ours) for one in value)
        return self.name(value) if isinstance(value, str) and value not in ours else value


def record_of(path: Path) -> RunRecord:
    """Return a kept record with hostile texts everywhere, and its hostile answer as results."""
    names, fields_ = Names(), json.loads(path.read_text(encoding="utf-8"))
    fields_.pop("sha256", None)
    settings = PIPELINES[fields_["pipeline"]]
    answer = names.within(of_results(settings, fields_["results"]), set())
    changed = {name: value if name in OURS else names.within(value, FORMS)
               for name, value in fields_.items()}  # fmt: skip
    changed |= {"warnings": list(HOSTILE), "notes": list(HOSTILE), "results": as_results(answer)}
    return RunRecord(**changed)


def shown(path: Path) -> Shown:
    """Return what is shown of a hostile record, with all that a page may add to it."""
    record = record_of(path)
    answer = of_results(PIPELINES[record.pipeline], record.results)
    first, *_ = HOSTILE
    document = ShownDocument(first, " ".join(HOSTILE), False, ())
    return replace(
        snapshots.of_record(record, answer),
        news=News(first, HOSTILE, HOSTILE, HOSTILE, 1, 0, True),
        fit=AppliedFit(first, first, HOSTILE, Link(first, "report.html")),
        trace=plots.trace([1], [1.0], objective=first, how=first),
        meant=dict.fromkeys(record.settings, first),
        page_data=as_results(Widget([document], {}, True, "keyphrase")),
    )
