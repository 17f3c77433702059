"""Settings from files, assignments and options, and what they mean, for help and docs."""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from flows.faults import Fault, InputError, did_you_mean, refuse_missing, shown, unclosed
from flows.settings.base import (
    FIRST,
    GROUPS,
    ComputeSettings,
    RunSettings,
    S3Access,
    grouped,
    in_order,
)

log = logging.getLogger("vbflows.pipeline")
M = TypeVar("M", bound=BaseModel)
_TEXT_EXPECTED = ("string_type", "literal_error", "tuple_type")


def compute_settings(
    workers: int | str | None, scheduler: str | None, memory_limit: str | None = None
) -> ComputeSettings:
    """Make compute settings from options.

    Raises
    ------
    InputError
        If they do not go together.
    """
    return validated(
        ComputeSettings,
        {"workers": _count(workers) or None, "scheduler": scheduler, "memory_limit": memory_limit},
    )


def validated(settings: type[M], values: Any) -> M:
    """Make settings of values; raise `InputError` with every fault in them."""
    try:
        return settings.model_validate(values)
    except ValidationError as error:
        raise InputError(faults_of(settings, error)) from error


def _count(workers: int | str | None) -> int:
    """Read a number of workers; none is 0."""
    text = str(workers or 0)
    if not text.isdecimal():
        raise InputError.of("--workers", "a number", shown(text))
    return int(text)


def load(settings: type[M], config: str | None, assignments: list[str], **given: Any) -> M:
    """Make settings from a config file, ``key=value`` assignments and options, last one wins.

    Raises
    ------
    InputError
        With one fault for each unknown name, wrong type or value out of range.
    """
    values: dict[str, Any] = {}
    texts: dict[str, str] = {}
    if config is not None:
        values.update(_read_config(config))
    option = "--s3" if settings is S3Access else "--set"
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        key = name.strip()
        if key in texts:
            log.warning("%s %s is given more than once: the last counts", option, key)
        if not equals:
            raise InputError.of(
                option,
                "NAME=VALUE",
                shown(assignment),
                remedy=f"write {option} {key or 'NAME'}=VALUE",
            )
        values[key] = _value(assignment, text, _takes_text(settings, key)) if text.strip() else ""
        texts[key] = text.strip()
    options = {key: value for key, value in given.items() if value is not None}
    if isinstance(values.get("columns"), dict) and "columns" in options:
        options["columns"] = {**values["columns"], **options["columns"]}
    values.update(options)
    try:
        return settings.model_validate(values)
    except ValidationError as error:
        # YAML takes 17, no, 1e5 and chr1: for other than text: where a setting is text, they are
        # text, except in brackets.
        meant = {
            str(problem["loc"][0])
            for problem in error.errors()
            if problem["type"] in _TEXT_EXPECTED and len(problem["loc"]) == 1
        }
        as_text = {
            key: texts[key]
            for key in meant & (texts.keys() - options.keys())
            if not texts[key].startswith(("[", "{"))
        }
    return validated(settings, {**values, **as_text})


def columns(assignments: list[str] | None) -> dict[str, str] | None:
    """Read what the input calls columns from ``ours=yours`` assignments; None for none.

    Raises
    ------
    InputError
        If one of them is no assignment.
    """
    if not assignments:
        return None
    named: dict[str, str] = {}
    for assignment in assignments:
        ours, equals, yours = (part.strip() for part in assignment.partition("="))
        if not (ours and equals and yours):
            raise InputError.of(
                "--column", "OURS=YOURS", shown(assignment), remedy="write --column text=Abstract"
            )
        if named.get(ours, yours) != yours:
            raise InputError.of(
                "--column",
                f"one column for {ours}",
                f"{named[ours]} and {yours}",
                ours,
                remedy=f"run once for each {ours}, with the other column in --exclude",
            )
        named[ours] = yours
    return named


def _takes_text(settings: type[BaseModel], name: str) -> bool:
    """Whether a setting may be a text, or a list of texts."""
    field = settings.model_fields.get(name)
    kinds = () if field is None else (field.annotation, *get_args(field.annotation))
    return str in kinds or bool(field and _literals(field.annotation))


def _value(assignment: str, text: str, as_text: bool) -> Any:
    try:
        return plain_values(text)
    except ValueError as error:
        if as_text and not text.strip().startswith(("[", "{", "'", '"', "&", "*", "!")):
            return text.strip()
        remedy = "put text that is no number or list into quotes: --set 'language=\"x\"'"
        if quote := unclosed(text):
            raise InputError.of("--set", "", quote, remedy="close it or take it away") from error
        raise InputError.of(
            "--set", f"a value as YAML in {shown(assignment)}", str(error), remedy=remedy
        ) from error


def read_yaml(path: str, what: str) -> Any:
    """Read a YAML file, which is to be ``what``; raise `InputError` where it is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return plain_values(file.read(MOST_CHARACTERS + 1))
    except (OSError, ValueError) as error:
        refuse_missing(path)
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise InputError.of(path, what, reason) from error


def _read_config(path: str) -> dict[str, Any]:
    values = read_yaml(path, "a YAML or JSON file of settings") or {}
    if not isinstance(values, dict):
        raise InputError.of(path, "names with values", type(values).__name__)
    odd = [
        Fault(path, "names of settings", shown(key), remedy="write the name as text")
        for key in values
        if not isinstance(key, str)
    ]
    if odd:
        raise InputError(odd)
    return values


def faults_of(settings: type[BaseModel], error: ValidationError) -> list[Fault]:
    """Return what is wrong with settings; of a value that may be of several types, one fault."""
    faults: dict[str, Fault] = {}
    for problem in error.errors():
        fault = _fault(settings, problem)
        name = str(problem["loc"][0]) if problem["loc"] else ""
        field = settings.model_fields.get(name)
        of_types = field is not None and len(problem["loc"]) > 1 and _is_union(field.annotation)
        key = name if of_types else str(len(faults))
        if of_types:
            before = f"{faults[name].expected} or " if name in faults else ""
            fault = replace(fault, column=name, expected=f"{before}{fault.expected}")
        faults[key] = fault
    return list(faults.values())


def _is_union(annotation: Any) -> bool:
    """Whether a value may be of several types, none of which has values within it."""
    kinds = get_args(annotation)
    return get_origin(annotation) in (Union, UnionType) and {bool, int, float, str} >= {
        kind for kind in kinds if kind is not NoneType and get_origin(kind) is not Literal
    }


def _fault(settings: type[BaseModel], problem: Any) -> Fault:
    name = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        meant = did_you_mean(name[:80], settings.model_fields)
        remedy = meant or f"known are: {', '.join(sorted(settings.model_fields))}"
        if issubclass(settings, RunSettings):
            meant = _of_another(name) or meant
            remedy = f"{meant or ''} vbflows {_pipeline_of(settings)} --help-all lists its settings"
        return Fault("settings", "a known setting", name[:80], name, remedy=remedy.strip())
    if problem["type"] == "value_error":
        return Fault("settings", "", problem["msg"].removeprefix("Value error, "))
    found, meant = shown(problem["input"]), _remedy(settings, problem)
    return Fault("settings", expected_in_words(problem), found, name or None, remedy=meant)


def _of_another(name: str) -> str:
    """Say which pipelines have a setting of this name; empty where none has."""
    kinds, pipelines = [*RunSettings.__subclasses__()], set[str]()
    for kind in kinds:  # which grow
        kinds += kind.__subclasses__()
        if name in kind.model_fields and (pipeline := _pipeline_of(kind)) != "PIPELINE":
            pipelines.add(pipeline)
    names = sorted(pipelines)
    return f"it is a setting of {' and '.join(names)};" if names else ""


def _pipeline_of(settings: type[BaseModel]) -> str:
    """Return the pipeline whose settings these are."""
    family = vars(settings).get("family", "").split(".")
    return family[-2] if len(family) > 1 else "PIPELINE"


def expected_in_words(problem: Any) -> str:
    """Say what a value should be in place of what pydantic found.

    >>> expected_in_words({"type": "less_than", "ctx": {"lt": 1.0}, "msg": ""})
    'a number less than 1'
    """
    kind, context = problem["type"], problem.get("ctx", {})
    if kind in _BOUND_IN_WORDS:
        return f"a number {_BOUND_IN_WORDS[kind]} {next(iter(context.values())):.12g}"
    if kind in ("string_too_short", "string_too_long"):
        least = "min_length" in context
        count = context["min_length" if least else "max_length"]
        characters = "1 character" if count == 1 else f"{count} characters"
        return f"text of at {'least' if least else 'most'} {characters}"
    if kind == "literal_error":
        return str(context["expected"])
    if kind == "string_pattern_mismatch":
        pattern = context["pattern"]
        return next(words for begin, words in _PATTERNS.items() if pattern.startswith(begin))
    for words, kinds in _IN_WORDS.items():
        if kind in kinds:
            return words
    message: str = problem["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


_PATTERNS = {
    "^https?": "an address such as https://host/path",
    "^[^/": "text without any of / % & < >",
    "": "text in one line, no tabs",
}
"""What a text should be, by the beginning of the pattern that it does not match."""
_BOUND_IN_WORDS = {
    "greater_than": "greater than",
    "greater_than_equal": "of at least",
    "less_than": "less than",
    "less_than_equal": "of at most",
}
_IN_WORDS = {
    "a value in this place too": ("missing",),
    "a whole number": ("int_type", "int_parsing", "int_from_float", "int_parsing_size"),
    "a number": ("float_type", "float_parsing"),
    "a finite number": ("finite_number",),
    "true or false": ("bool_type", "bool_parsing"),
    "text": ("string_type",),
    "a list with an entry": ("too_short",),
    "a list": ("tuple_type", "list_type"),
    "names with values, such as name: value": (
        *("dict_type", "mapping_type"),
        *("model_type", "model_attributes_type"),
    ),
}
"""Pydantic's kinds of problems, by what it should be."""


def _remedy(settings: type[BaseModel], problem: Any) -> str | None:
    """Say what was probably meant by a value that is not taken."""
    value, name = problem["input"], str(next(iter(problem["loc"]), ""))
    field = settings.model_fields.get(name)
    if not isinstance(value, str) or field is None:
        return None
    if problem["type"] == "literal_error":
        named = [choice for choice in _literals(field.annotation) if isinstance(choice, str)]
        return did_you_mean(value[:80], named)
    if value.strip().endswith("%"):
        return "a percentage is read only where a share is expected; write the number here"
    return None


def _literals(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return tuple(value for part in get_args(annotation) for value in _literals(part))


def describe(settings: type[RunSettings]) -> list[tuple[str, str, str, str]]:
    """Return (name, type and range, default, meaning) of every setting, for help and docs.

    They are in the order of `in_order`.
    """
    schema, fields = settings.model_json_schema()["properties"], settings.model_fields
    return [
        (name, _range(schema[name]), repr(fields[name].default), fields[name].description or "")
        for name in in_order(settings)
    ]


_TYPES = {
    "null": "empty",
    "string": "text",
    "boolean": "true or false",
    "array": "list",
    "object": "names with values",
    "integer": "whole number",
}
"""What people call JSON's types."""
_SIGNS = {",": "comma", ".": "point", " ": "space", "'": "apostrophe"}
"""Signs by their names, for a setting whose choices are signs."""
_BOUNDS = {"exclusiveMinimum": ">", "minimum": ">=", "exclusiveMaximum": "<", "maximum": "<="}


def _range(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_range(option) for option in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(_SIGNS.get(str(value), str(value)) for value in schema["enum"])
    bounds = [f"{sign} {schema[key]:g}" for key, sign in _BOUNDS.items() if key in schema]
    kind = _TYPES.get(schema.get("type", "any"), schema.get("type", "any"))
    return " ".join([kind, ", ".join(bounds)]).strip()


MOST_CHARACTERS = 2**20


class _Loader(yaml.SafeLoader):
    """YAML's plain values without aliases, and each name of a mapping once."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse an alias: a few of them can mean millions of values."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.composer.ComposerError(
                problem="an alias", problem_mark=self.peek_event().start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """Refuse a name that comes twice, where the usual loader takes the last one."""
        seen = set()
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        for key in (key for key, _ in pairs if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"the name {key.value[:80]} twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return dict(super().construct_mapping(node, deep))


def plain_values(text: str) -> Any:
    """Read YAML.

    Raises
    ------
    ValueError
        In one line, if it is no YAML, or too large.
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"more than {MOST_CHARACTERS:,} characters")
    try:
        loader = _Loader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except RecursionError as error:
        raise ValueError("values nested too deep") from error
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise ValueError("text that looks like a number or a date and is none") from error
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        mark = getattr(error, "problem_mark", None)
        problem = problem.removeprefix("found ")
        raise ValueError(f"{problem} (line {mark.line + 1})" if mark else problem) from error


_WIDTH = 88


def as_yaml(value: Any) -> str:
    """Write a default as YAML has it, in one line.

    >>> as_yaml(None), as_yaml((0.5, 2.0)), as_yaml("no"), as_yaml(1e-8)
    ('null', '[0.5, 2.0]', "'no'", '1.0e-08')
    """
    import yaml

    plain = list(value) if isinstance(value, tuple) else value
    plain = dict(plain) if isinstance(plain, dict) else plain  # of a class that YAML does not know
    text: str = yaml.safe_dump(plain, default_flow_style=True, width=float("inf"))
    return text.removesuffix("\n").removesuffix("\n...")


def commented(name: str, settings: type[RunSettings]) -> str:
    """Return a file of settings: those that matter first at their defaults, the rest commented out.

    ``name``: of the pipeline. ``settings``: its settings.
    """
    lines = [
        f"# Settings of vbflows {name}.",
        *_wrapped(settings.question),
        f"# vbflows {name} SOURCE TARGET --config THIS-FILE",
        "# A line that begins with #: is a setting at its default; take the #: away to change it.",
    ]
    rows = {row[0]: row for row in describe(settings)}
    for group, members in grouped(settings).items():
        lines += ["", f"# {GROUPS[group]}", f"# {'-' * (_WIDTH - 2)}"]
        for member in members:
            _, bounds, _, meaning = rows[member]
            lines += ["", *_wrapped(f"{meaning} ({bounds})")]
            default = as_yaml(settings.model_fields[member].default)
            lines.append(f"{'' if group == FIRST else '#: '}{as_yaml(member)}: {default}")
    return "\n".join(lines) + "\n"


def _wrapped(text: str) -> Iterator[str]:
    yield from textwrap.wrap(
        text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
    )
