"""The directive ``{commands}``: what ``--help`` prints, of every command."""

from __future__ import annotations

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx
from typer.testing import CliRunner

from flows.cli.app import app as command_line
from flows.cli.help import SECTIONS


class Commands(Directive):
    """A section for each command, with its help."""

    def run(self) -> list[nodes.Node]:
        """Return the sections, in the order of the help."""
        return [_section(""), *[_section(name) for names in SECTIONS.values() for name in names]]


def _section(name: str) -> nodes.section:
    shown = CliRunner().invoke(command_line, [*name.split(), "--help"], prog_name="vbflows")
    if shown.exit_code:
        raise RuntimeError(f"vbflows {name} --help: exit {shown.exit_code}: {shown.output}")
    title = f"vbflows {name}".strip()
    section = nodes.section(ids=[title.replace(" ", "-")])
    section += nodes.title(title, title)
    section += nodes.literal_block(shown.output, shown.output)
    return section


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
