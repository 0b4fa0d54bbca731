"""A headless Chromium, driven over its DevTools protocol."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

from tests.serving import eventually

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--remote-debugging-port=0",
)


class Page:
    """A page of the browser."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = count(1)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=60))
            if message.get("id") == number:
                assert "error" not in message, message["error"]
                return message["result"]

    def open(self, url: str) -> None:
        assert "errorText" not in self.call("Page.navigate", url=url)
        wanted = f"location.href === {json.dumps(url)} && document.readyState === 'complete'"
        eventually(lambda: self.evaluate(wanted), 20)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression, or of its promise."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")


@contextmanager
def browser() -> Iterator[Page]:
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(prefix="chromium", ignore_cleanup_errors=True) as folder:
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            active = Path(folder, "DevToolsActivePort")
            port = eventually(lambda: active.exists() and active.read_text().partition("\n")[0], 30)
            pages = httpx.get(f"http://127.0.0.1:{port}/json").json()
            url = next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page")
            with connect(url, max_size=None) as socket:
                yield Page(socket)
        finally:
            process.terminate()
            process.wait(20)
