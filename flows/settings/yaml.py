"""YAML of settings and plans: plain values, each name once."""

from __future__ import annotations

from typing import Any

import yaml

MOST_CHARACTERS = 2**20


class _Loader(yaml.SafeLoader):
    """YAML's plain values without aliases, and each name of a mapping once."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse an alias: a few of them can stand for millions of values."""
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.composer.ComposerError(problem="an alias", problem_mark=mark)
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
