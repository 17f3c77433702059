"""All commands: what names them here adds them."""

from flows.cli import beginning, computing, looking
from flows.cli.app import app

__all__ = ["app", "beginning", "computing", "looking"]
