"""The command line: it parses, calls a pipeline, prints, and turns errors into exit codes."""

from flows.cli.exit_codes import main

__all__ = ["main"]
