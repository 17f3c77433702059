"""Where the command begins: it says what to install when only the mathematics is."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line, or exit 2 with one sentence where it cannot begin."""
    try:
        from flows.cli import main as run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] in ("flows", "vbmodels"):
            raise
        print(
            f"vbflows: the command line needs the package {error.name}, which is not installed; "
            "install it with: pip install 'vbflows[flows]'",
            file=sys.stderr,
        )
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit("vbflows: interrupted before anything was computed")
    run()


if __name__ == "__main__":
    main()
