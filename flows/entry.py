"""Where the command begins."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; an interrupt while it loads ends it with one sentence."""
    try:
        from flows.cli import main as run
    except KeyboardInterrupt:
        sys.exit("vbflows: interrupted before anything was computed")
    run()


if __name__ == "__main__":
    main()
