"""A page in a browser: skipped where there is none."""

import importlib.util
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def browser_page():
    """Yield the page of a browser, and what evaluates the body of a function in it."""
    if shutil.which("chromium") is None:
        pytest.skip("chromium is not installed")
    spec = importlib.util.spec_from_file_location("screenshots", ROOT / "docs/screenshots.py")
    screenshots = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(screenshots)
    with screenshots.browser() as socket:
        shown = screenshots.Page(socket)

        def evaluate(body):
            answer = shown.call(
                "Runtime.evaluate",
                expression=f"(async () => {{ {body} }})()",
                awaitPromise=True,
                returnByValue=True,
            )
            assert "exceptionDetails" not in answer, answer
            return answer["result"].get("value")

        yield shown, evaluate
