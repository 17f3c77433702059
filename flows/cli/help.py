"""Help that teaches: commands in the order of use; of a pipeline what goes in, and its settings."""

from __future__ import annotations

import re
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

from flows.catalogue import BROKEN, PIPELINES, known, table_read
from flows.settings import describe
from flows.settings.base import FIRST, GROUPS, grouped
from flows.tables.table import Table

SECTIONS = {
    "First steps": ("demo", "simulate", "init", "check"),
    "Pipelines (vbflows PIPELINE --help: columns, an example, settings)": tuple(PIPELINES),
    "Look at runs": ("show", "runs", "compare"),
    "Apply a fitted run to new data": ("score",),
    "Other": ("serve", "count", "compile"),
}
PLACES = {
    "SOURCE": "A file, folder, glob or URL, such as s3://bucket/prefix, or several of them.",
    "TARGET": "Folder or URL for results. Each run gets a subfolder TARGET/runs/RUN_ID; TARGET "
    "alone means its latest run.",
    "Exit code": "0: done; 1: the run failed; 2: the input or the settings are wrong.",
}
LARGE = {"workers", "scheduler", "memory_limit", "partitions", "checkpoint_every"}
LARGE |= {"resume", "since"}
"""Options for large input and repeated runs."""
FEW = ("config", "assign", "column", "exclude", "_all", "help")
"""Options of a pipeline that are in help without --help-all."""

EVERY = "vbflows.help-all"
"""Under which a command's context says that help has all settings."""
EXAMPLES = {
    "vbflows": (
        "vbflows simulate experts in/",
        "vbflows check experts in/",
        "vbflows experts in/ results/",
        "vbflows show results/",
        "vbflows simulate experts new/ --rows 50 --seed 1",
        "vbflows score results/ new/ scored/",
    ),
    "demo": ("vbflows demo",),
    "simulate": ("vbflows simulate bags in/ --rows 200", "vbflows bags in/ results/"),
    "init": (
        "vbflows init experts",
        "vbflows simulate experts in/",
        "vbflows experts in/ results/ --config experts.yaml",
    ),
    "check": ("vbflows simulate features in/ --rows 200", "vbflows check features in/"),
    "show": (
        "vbflows show results/",
        "vbflows show results/ keywords --new --where doc_id=paper-7",
        "vbflows show results/ loci --selected --columns chrom,pos,alt,prob",
    ),
    "runs": ("vbflows runs results/", "vbflows runs results/ --prune keep=10"),
    "compare": (
        "vbflows runs results/",
        "vbflows compare results/runs/RUN_ID results/ --report compare.html",
    ),
    "score": ("vbflows score results/ new/ scored/", "vbflows show scored/"),
    "serve": ("vbflows serve nightly.yaml",),
    "count": (
        "vbflows count samples.csv counts/ --set fasta=reference.fa",
        "vbflows variants counts/ results/",
    ),
    "compile": ("vbflows compile keywords",),
}


class PlainCommand(TyperCommand):
    """A command whose arguments have the names that we give them: ``SOURCE...``, ``[FILE]``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse what was given; of words that are too few, say which is missing by their order.

        Typer gives the last argument its word first, and would say that the first is missing.
        """
        try:
            return super().parse_args(ctx, list(args))
        except typer.TyperException as error:
            missing: Any = error
            if isinstance(getattr(missing, "param", None), TyperArgument) and not missing.message:
                missing.param = self._missing(ctx, args)
            bound = str(missing.message).partition("greater than or equal to ")[2]
            missing.message = f"expected at least {bound}" if bound else missing.message
            raise

    def _missing(self, ctx: Any, args: list[str]) -> TyperArgument:
        """Return the first argument without a word; refuse a wrong name of a pipeline."""
        ours = [p for p in self.get_params(ctx) if isinstance(p, TyperArgument)]
        values, _, _ = self.make_parser(ctx).parse_args(list(args))
        words: list[str] = []
        for value in filter(None, (values.get(p.name) for p in ours)):
            words += [value] if isinstance(value, str) else value
        if words and ours[0].metavar == "PIPELINE":
            known(words[0])
        return ours[min(len(words), len(ours) - 1)]

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the pieces of the usage line."""
        return ["[OPTIONS]", *(name for name, _ in self._arguments(ctx))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options."""
        options, large = (
            [
                record
                for p in self.get_params(ctx)
                if not isinstance(p, TyperArgument)
                and self.takes(ctx, p.name)
                and (p.name in LARGE) == wanted
                and (record := p.get_help_record(ctx))
            ]
            for wanted in (False, True)
        )
        sections = {"Arguments": self._arguments(ctx), "Options": options}
        for heading, rows in (sections | {"Large input, repeated runs": large}).items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def takes(self, ctx: Any, option: str | None) -> bool:
        """Whether help has an option."""
        return True

    def _arguments(self, ctx: Any) -> list[tuple[str, str]]:
        return [
            (f"{p.metavar}..." if p.nargs != 1 else str(p.metavar), p.help or "")
            for p in self.get_params(ctx)
            if isinstance(p, TyperArgument)
        ]


class ExampleCommand(PlainCommand):
    """A command whose help opens with an example."""

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write what the command does, then the example."""
        super().format_help_text(ctx, formatter)
        _write_lines(formatter, "Example", *EXAMPLES[str(ctx.info_name)])


class Commands(TyperGroup):
    """The commands, listed in the order of use."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse what was given; ``help COMMAND`` is ``COMMAND --help``."""
        return super().parse_args(ctx, [*args[1:2], "--help"] if args[:1] == ["help"] else args)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the commands in the order of use."""
        listed = [name for members in SECTIONS.values() for name in members]
        return sorted(self.commands, key=lambda n: listed.index(n) if n in listed else len(listed))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; a pipeline that is left out says why."""
        command = super().get_command(ctx, cmd_name)
        if command is None and cmd_name in dict(BROKEN):
            known(cmd_name)
        return command

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write an example, the commands, what they read and write, the other options."""
        _write_lines(formatter, "Example", *EXAMPLES["vbflows"])
        for heading, members in SECTIONS.items():
            helps = {n: c.help or "" for n, c in self.commands.items()}
            rows = [(n, helps[n].partition("\n\n")[0]) for n in members if n in helps]
            with formatter.section(heading):
                formatter.write_dl(rows)
        records = {p.name: p.get_help_record(ctx) for p in self.get_params(ctx)}
        for heading, rows in (
            ("Input and output", [*PLACES.items(), *filter(None, [records.pop("s3")])]),
            ("Options", [*filter(None, records.values())]),
        ):
            with formatter.section(heading):
                formatter.write_dl(rows)


class PipelineCommand(PlainCommand):
    """A command whose help teaches the pipeline."""

    def takes(self, ctx: Any, option: str | None) -> bool:
        """Leave out of the help what the pipeline refuses, and what only --help-all has."""
        if option not in FEW and not ctx.meta.get(EVERY):
            return False
        fields = known(str(ctx.info_name)).model_fields
        return option not in ("exclude", "include") or option in fields

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write usage, question, columns, example, settings (few, or all), options and page."""
        name, every = str(ctx.info_name), bool(ctx.meta.get(EVERY))
        settings, table = known(name), table_read(name)
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        if table is not None:
            _write_columns(formatter, table, every)
        if settings.example:
            _write_lines(formatter, "Example", *settings.example)
        if settings.own_file:
            _write_lines(formatter, "With a file of yours", settings.own_file)
        rows = {described[0]: _setting(*described, every) for described in describe(settings)}
        groups = grouped(settings)
        for group, members in groups.items() if every else [(FIRST, groups.get(FIRST, []))]:
            how = " (--set NAME=VALUE)" if group == FIRST else ""
            with formatter.section(GROUPS[group] + how):
                formatter.write_dl([row for member in members for row in rows[member]])
        super().format_options(ctx, formatter)
        what = f"workers, resume, only new files, all {len(rows)} settings"
        more = [] if every else [f"{what}: vbflows {name} --help-all"]
        if settings.page:
            more.append(f"documentation, in the sources: {settings.page}")
        if more:
            _write_lines(formatter, "More", *more)


def _write_columns(formatter: Any, table: Table, every: bool) -> None:
    with formatter.section("What goes in"):
        for part in filter(None, (table.or_else, table)):
            called = " Columns with other names: --column OURS=YOURS." if part is table else ""
            formatter.write_text(f"{_brief(part.meaning, every)} {part.formats}.{called}")
            if part is table and table.or_else is not None and not every:
                formatter.write_text(f"The {len(part.columns)} columns of {part.name}: --help-all")
                break
            formatter.write_paragraph()
            hidden = () if every else part.details
            rows = []
            for column in (*part.columns, *part.named):
                if column.name in hidden:
                    continue
                mark = " *" if column.required and column not in part.named else ""
                kind = "" if column.values else f"{column.type}: "
                rows.append((f"{column.name}{mark}", kind + _brief(column.meaning, every)))
            if other := part.others:
                rows.append(("any other", f"{other.type}: {_brief(other.meaning, every)}"))
            formatter.write_dl(rows)
            notes = []
            if any(column.required for column in part.columns):
                notes.append("* must be there")
            if hidden:
                notes.append(f"{len(hidden)} more columns: --help-all")
            formatter.write_text("; ".join(notes))
            if part is not table:
                formatter.write_paragraph()


def _brief(text: str, every: bool) -> str:
    """Return what something means, of a long text the first two clauses."""
    ends = [match.start() for match in re.finditer(r"; |\. (?=[A-Z])", text)]
    return (text if every else text[: [*ends, None, None][1]]).replace("`", "")


_EMPTY = ("None", "()", "{}", "''")


def _setting(
    name: str, bounds: str, default: str, meaning: str, every: bool
) -> list[tuple[str, str]]:
    """Return the lines of a setting: what it means, then one for each of few choices, or all."""
    kind = bounds.replace(" or empty", "")
    shown = default.lower() if default in ("True", "False") else default.strip("'")
    kind += "" if default in _EMPTY else f"; default {shown}"
    choices = "|".join(map(re.escape, bounds.removesuffix(" or empty").split(", ")))
    first, *values = re.split(rf"(?:^|[;.] )(?=(?:(?:{choices})(?:, )?)+: )", meaning)
    if first and not every and len(values) > 3:
        values = []
    first = f"{_brief(first, every).rstrip('.')} [{kind}]".strip()
    return [(name, first), *(("", value.rstrip(".")) for value in values)]


def _write_lines(formatter: Any, heading: str, *lines: str) -> None:
    with formatter.section(heading):
        for text in lines:
            formatter.write(f"{'':>{formatter.current_indent}}{text}\n")
