"""The command line: it parses, calls a pipeline, prints, and turns errors into exit codes.

What computes is loaded by the command that needs it, so that help is there at once.
"""

from flows.cli.ending import main

__all__ = ["main"]
