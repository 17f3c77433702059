"""The budgets of the house: what the product may measure, lowered by each step and never raised."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORD = re.compile(r"\b[a-z]{2,}\b")
TAG = re.compile(r"\{[{%].*?[%}]\}", re.DOTALL)
QUOTED = re.compile(r'"([^"]*)"')
SETTINGS_AND_HELP = {"settings", "settings.py", "cli"}

BUDGETS = {
    "statements of flows": 23874,
    "statements of vbmodels": 23950,
    "words of English in flows' Python": 8583,
    "words in templates": 5053,
    "files of a folder of flows": 14,
    "files of a folder of vbmodels": 14,
    "lines that the formatter skips": 8,
    "nested conditional expressions": 0,
    "texts and lists times a condition": 0,
}


@cache
def parse_sources(folder: str) -> list[tuple[Path, ast.Module]]:
    """Return the path and the syntax tree of each Python file of a folder."""
    paths = sorted((ROOT / folder).rglob("*.py"))
    return [(p.relative_to(ROOT), ast.parse(p.read_text(encoding="utf-8"))) for p in paths]


@cache
def nodes_of(folder: str) -> list[ast.AST]:
    return [node for _, tree in parse_sources(folder) for node in ast.walk(tree)]


def is_text(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def is_docstring(node: ast.AST) -> bool:
    """Whether a statement is a text alone: a docstring of a module, class, function or constant."""
    return isinstance(node, ast.Expr) and is_text(node.value)


def count_statements(folder: str) -> int:
    nodes = nodes_of(folder)
    return sum(isinstance(node, ast.stmt) and not is_docstring(node) for node in nodes)


def count_words() -> int:
    """Words of two or more lower-case letters in texts of flows that hold at least two of them."""
    total = 0
    for path, tree in parse_sources("flows"):
        if SETTINGS_AND_HELP & set(path.parts):
            continue
        docstrings = {id(node.value) for node in ast.walk(tree) if is_docstring(node)}
        for node in ast.walk(tree):
            if is_text(node) and " " in node.value and id(node) not in docstrings:
                words = len(WORD.findall(node.value))
                total += words if words >= 2 else 0
    return total


def count_words_of_templates() -> int:
    """Words of the templates' own texts, and of the texts within their tags."""
    total = 0
    for path in (ROOT / "flows/report/templates").rglob("*.jinja"):
        if "style" in path.name:
            continue
        source = re.sub(r"\{#.*?#\}", " ", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        within = " ".join(QUOTED.findall(" ".join(TAG.findall(source))))
        outside = re.sub(r"<[^>]*>", " ", TAG.sub(" ", source))
        total += len(WORD.findall(within)) + len(WORD.findall(outside))
    return total


def count_files_of_largest_folder(root: str) -> int:
    return max(Counter(path.parent for path, _ in parse_sources(root)).values())


def count_skipped_lines() -> int:
    paths = [path for root in ("flows", "vbmodels") for path, _ in parse_sources(root)]
    return sum((ROOT / path).read_text(encoding="utf-8").count("# fmt: skip") for path in paths)


def is_nested_conditional(node: ast.AST) -> bool:
    """Whether a conditional expression holds another one as its test or as one of its values."""
    if not isinstance(node, ast.IfExp):
        return False
    return any(isinstance(part, ast.IfExp) for part in (node.test, node.body, node.orelse))


def is_product_with_condition(node: ast.AST) -> bool:
    """Whether a text or a list is multiplied by a truth value, as in ``[x] * bool(y)``."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)):
        return False
    sides = (node.left, node.right)
    texts = any(
        is_text(side) or isinstance(side, ast.List | ast.Tuple | ast.JoinedStr) for side in sides
    )
    return any(is_truth_value(side) for side in sides) and (texts or any(map(is_bool_call, sides)))


def is_bool_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "bool"


def is_truth_value(node: ast.AST) -> bool:
    negation = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return negation or isinstance(node, ast.Compare | ast.BoolOp) or is_bool_call(node)


def count_nodes(wanted) -> int:
    return sum(wanted(node) for root in ("flows", "vbmodels") for node in nodes_of(root))


MEASURES = {
    "statements of flows": lambda: count_statements("flows"),
    "statements of vbmodels": lambda: count_statements("vbmodels"),
    "words of English in flows' Python": count_words,
    "words in templates": count_words_of_templates,
    "files of a folder of flows": lambda: count_files_of_largest_folder("flows"),
    "files of a folder of vbmodels": lambda: count_files_of_largest_folder("vbmodels"),
    "lines that the formatter skips": count_skipped_lines,
    "nested conditional expressions": lambda: count_nodes(is_nested_conditional),
    "texts and lists times a condition": lambda: count_nodes(is_product_with_condition),
}


def test_the_house_keeps_its_budget():
    measured = {name: MEASURES[name]() for name in BUDGETS}
    assert {name: size for name, size in measured.items() if size > BUDGETS[name]} == {}


@pytest.mark.parametrize(
    ("source", "wanted", "found"),
    [
        ("a if b else c if d else e", is_nested_conditional, 1),
        ("f(a if b else c, d if e else g)", is_nested_conditional, 0),
        ("[x] * bool(y)", is_product_with_condition, 1),
        ("'s' * (n > 1)", is_product_with_condition, 1),
        ("'-' * width", is_product_with_condition, 0),
        ("weights * (n > 1)", is_product_with_condition, 0),
    ],
)
def test_idioms_are_recognised(source, wanted, found):
    assert sum(map(wanted, ast.walk(ast.parse(source)))) == found
