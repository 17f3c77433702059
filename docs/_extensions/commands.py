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
        names = [name for names in SECTIONS.values() for name in names]
        whole = _help("keywords --help-all")
        large = whole[whole.index("Large input") : whole.index("More:")]
        return [
            _section("vbflows", _help("--help")),
            _section("Every pipeline, for large input and repeated runs", large),
            *(_section(f"vbflows {name}", _help(f"{name} --help")) for name in names),
        ]


def _help(words: str) -> str:
    shown = CliRunner().invoke(command_line, words.split(), prog_name="vbflows")
    if shown.exit_code:
        raise RuntimeError(f"vbflows {words}: exit {shown.exit_code}: {shown.output}")
    return shown.output


def _section(title: str, text: str) -> nodes.section:
    section = nodes.section(ids=[nodes.make_id(title)])
    section += nodes.title(title, title)
    section += nodes.literal_block(text, text)
    return section


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
