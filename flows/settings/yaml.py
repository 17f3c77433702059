"""YAML of settings and plans: plain values of a bounded size, each name once."""

from __future__ import annotations

from typing import Any

import yaml

MOST_CHARACTERS = 2**20
MOST_VALUES = 100_000  # with what aliases repeat


class _Loader(yaml.SafeLoader):
    """YAML's plain values, where no name stands twice in a mapping."""

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """Say of a value that is not of its tag what it is, where Python's parsers would raise."""
        try:
            return super().construct_object(node, deep)
        except (LookupError, ValueError, TypeError, AttributeError, OverflowError) as error:
            value = node.value if isinstance(node.value, str) else "a list or mapping"
            raise yaml.constructor.ConstructorError(
                problem=f"{value[:80]!r}, which is no {node.tag.rpartition(':')[2]}",
                problem_mark=node.start_mark,
            ) from error

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """Refuse what the usual loader lets the last one win of."""
        seen = set()
        if isinstance(node, yaml.MappingNode):
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode):
                    if key.value in seen:
                        raise yaml.constructor.ConstructorError(
                            problem=f"the name {key.value[:80]} twice", problem_mark=key.start_mark
                        )
                    seen.add(key.value)
        return dict(super().construct_mapping(node, deep))


# Bytes, sets and ordered pairs are no values of settings.
_Loader.yaml_constructors = {
    tag: made
    for tag, made in yaml.SafeLoader.yaml_constructors.items()
    if str(tag).rpartition(":")[2] not in ("binary", "set", "omap", "pairs")
}


def plain_values(text: str) -> Any:
    """Read YAML.

    Raises
    ------
    ValueError
        In one line, if it is no YAML, too large, or has other than plain values.
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"more than {MOST_CHARACTERS:,} characters")
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            if _values(node, {}) > MOST_VALUES:
                raise ValueError(f"more than {MOST_VALUES:,} values, as its aliases repeat them")
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except RecursionError as error:
        raise ValueError("values nested too deep") from error
    except (yaml.YAMLError, ValueError) as error:
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        mark = getattr(error, "problem_mark", None)
        problem = problem.removeprefix("found ")
        raise ValueError(f"{problem} (line {mark.line + 1})" if mark else problem) from error


def _values(node: Any, known: dict[int, int]) -> int:
    """Count the values of a node as they would be written out without aliases."""
    if id(node) not in known:
        known[id(node)] = MOST_VALUES  # of one that holds itself
        inside = node.value if isinstance(node.value, list) else ()
        flat = (one for part in inside for one in (part if isinstance(part, tuple) else (part,)))
        known[id(node)] = 1 + sum(_values(one, known) for one in flat)
    return known[id(node)]
