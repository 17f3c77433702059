"""Photograph pages as docs/images has them: wide and narrow, by light and by dark.

python docs/screenshots.py NAME=URL ... [--folder docs/images] [--height 1400] [--wait 3]

Needs Chromium and the dev extra. A page's own scripts run; nothing is clicked.
"""

from __future__ import annotations

import argparse
import base64
import itertools
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from websocket import WebSocket, create_connection

WIDTHS = (1280, 390)
LIMIT = 300 * 1024  # bytes of an image


@contextmanager
def browser() -> Iterator[WebSocket]:
    """Start Chromium and yield a connection to its first page."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        raise SystemExit("chromium is not installed")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        process = subprocess.Popen(
            [
                *(found, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
                *("--no-first-run", "--disable-background-networking", "--hide-scrollbars"),
                *(f"--user-data-dir={home}", "--remote-debugging-port=0", "about:blank"),
            ],
            stderr=subprocess.DEVNULL,
        )
        try:
            port_file = Path(home, "DevToolsActivePort")
            while not port_file.exists():
                time.sleep(0.1)
            time.sleep(0.5)
            port = port_file.read_text().split()[0]
            with urlopen(f"http://127.0.0.1:{port}/json") as answer:
                page = next(p for p in json.loads(answer.read()) if p["type"] == "page")
            address = page["webSocketDebuggerUrl"]
            with closing(create_connection(address, suppress_origin=True, timeout=60)) as socket:
                yield socket
        finally:
            process.terminate()
            process.wait(20)


class Page:
    """A page of the browser, driven by the DevTools protocol."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket, self._number = socket, itertools.count(1)

    def call(self, method: str, **given: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        number = next(self._number)
        self._socket.send(json.dumps({"id": number, "method": method, "params": given}))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("id") == number:
                return dict(answer["result"])

    def photograph(self, url: str, width: int, height: int, dark: bool, wait: float) -> bytes:
        """Return a PNG of the top of a page."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        self.call("Page.navigate", url=url)
        time.sleep(wait)
        wide = self.call(
            "Runtime.evaluate", expression="document.documentElement.scrollWidth"
        )["result"]["value"]  # fmt: skip
        if wide > width:
            raise SystemExit(f"{url} is {wide} pixels wide on a screen of {width}")
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])


def main() -> None:
    """Photograph every page in every way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="+", metavar="NAME=URL")
    parser.add_argument("--folder", type=Path, default=Path("docs/images"))
    parser.add_argument("--height", type=int, default=1400)
    parser.add_argument("--wait", type=float, default=3.0)
    given = parser.parse_args()
    with browser() as socket:
        page = Page(socket)
        for named in given.pages:
            name, _, url = named.partition("=")
            for width, dark in itertools.product(WIDTHS, (False, True)):
                png = page.photograph(url, width, given.height, dark, given.wait)
                path = given.folder / f"{name}-{width}{'-dark' if dark else ''}.png"
                if len(png) > LIMIT:
                    raise SystemExit(f"{path} would have {len(png):,} bytes, at most {LIMIT:,}")
                path.write_bytes(png)


if __name__ == "__main__":
    main()
