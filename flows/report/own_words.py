"""The words of the user's own columns on a page: sheets and images for bags and instances."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from flows.report.page import Findings

_WORDS = """
abstract account animal article assay author bird book building cancer car card cell chapter
city client clip clone company compound conversation core country county customer device
district document donor driver droplet drug email employee event experiment eye family farm
field firm flight frame game gene graph group hospital house household image interview island
item job lake lead lesion loan machine mail member message molecule mother movie neuron nodule
order page paper parcel part participant patch patient peptide person photo picture pixel plant
plate player plot policy post product profile project protein pupil question rat reading
recording region respondent review room sample scan school section segment sensor sentence
session sheet shop site slice slide song specimen station store street student subject survey
teacher team ticket tile tissue town track tract transaction transcript tree trial trip tumour
tumor tweet user vehicle video village vineyard visit vote voter well wine word worker year
"""
_NOUNS = frozenset(_WORDS.split())
"""What rows may be called: other names of columns, such as seqn, are no words."""
_KEPT = {"command", "results", "row", "script", "top", "url", "used"}  # fields that are no prose
_TEXTS = {"description", "how", "tip", "title"}  # of a chart


def own_word(column: str) -> str:
    """Return what people call the things that a column names; "" where its name does not say it.

    >>> [own_word(name) for name in ("sheet", "Patient_ID", "patientId", "TissueCore", "SEQN")]
    ['sheet', 'patient', 'patient', 'tissue core', '']
    """
    parts = re.sub("(?<=[a-z])(?=[A-Z])", " ", column.strip()).lower()
    word = re.sub("[ _-]+(id|no|nr)$", "", parts).replace("_", " ")
    return word if re.fullmatch("(?:[a-z]+ )?[a-z]+", word) and word.split()[-1] in _NOUNS else ""


def in_own_words(found: Findings, columns: Mapping[str, str], named: Iterable[str]) -> Findings:
    """Return findings in the words of the user's ``columns``, by the words that they replace.

    Nothing is replaced where a name in the data, of those ``named``, has one of the words itself.
    """
    words = {ours: own_word(column) for ours, column in columns.items()}
    words = {ours: word for ours, word in words.items() if word not in ("", ours)}
    if not words or len({*words.values()}) < len(words):
        return found
    ours = "|".join(words)
    if any(re.search(rf"\b(?:{ours})s?\b", name, re.IGNORECASE) for name in named):
        return found
    pattern = re.compile(
        rf"(?<!table )(?<!RUN )(?<![/_=}}])(?<!}} )\b(?:(an?) )?({ours})(s?)\b(?![_=/])", re.I
    )

    def put(match: re.Match[str]) -> str:
        article, old, plural = match.groups()
        new = words[old.lower()]
        new = _plural(new) if plural else new
        said = _one(new) if article else new
        return f"{said[0].upper()}{said[1:]}" if match[0][0].isupper() else said

    terms = [f"{_one(word)} is {_one(ours)}" for ours, word in words.items() if ours != "row"]
    replaced: Findings = _each(found, lambda text: pattern.sub(put, text))
    if not terms:
        return replaced
    sections = list(replaced.sections)
    place = next((i for i, one in enumerate(sections) if one.text and not one.measures), 0)
    text = f"{sections[place].text}\nIn the words of the documentation {', '.join(terms)}."
    sections[place] = replace(sections[place], text=text)
    return replace(replaced, sections=sections)


def _one(word: str) -> str:
    return f"a{'n' * (word[0] in 'aeio')} {word}"


def _plural(word: str) -> str:
    """Return the plural of an English word.

    >>> [_plural(word) for word in ("sheet", "biopsy", "box", "day")]
    ['sheets', 'biopsies', 'boxes', 'days']
    """
    if re.search("[^aeiou]y$", word):
        return f"{word[:-1]}ies"
    return f"{word}es" if re.search("(s|x|ch|sh)$", word) else f"{word}s"


def _each(value: Any, change: Any) -> Any:
    """Return a copy of what a page shows with each of its texts changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return _in_chart(value, change)
    if isinstance(value, (list, tuple)):
        return type(value)(_each(one, change) for one in value)
    if is_dataclass(value) and not isinstance(value, type):
        prose = [one.name for one in fields(value) if one.name not in _KEPT]
        return replace(value, **{name: _each(getattr(value, name), change) for name in prose})
    return value


def _in_chart(value: Any, change: Any, prose: bool = False) -> Any:
    """Return a copy of a part of a chart with its titles and texts changed, and not its data."""
    if isinstance(value, dict):
        return {key: _in_chart(one, change, key in _TEXTS) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_in_chart(one, change, prose) for one in value]
    return change(value) if prose and isinstance(value, str) else value
