"""A headless Chromium, spoken to over a pipe in its DevTools protocol; nothing to install but the browser."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe"),
)
AS_THREE_AND_FOUR = (
    "import os, sys; [os.dup2(int(n), k) for n, k in zip(sys.argv[1:3], (3, 4))]; os.execv(sys.argv[3], sys.argv[3:])"
)
"""Becomes the browser, which expects its pipes at these numbers."""
LIMIT = 40.0


def find() -> str | None:
    """The browser's path, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page. `messages` collects what it logs, `requests` the addresses it asks for."""

    def __init__(self, program: str, profile: Path, *, width: int = 1280, height: int = 900) -> None:
        to_read, self._write = _high(os.pipe())
        self._read, to_write = _high(os.pipe())
        self.messages: list[str] = []
        self.requests: list[str] = []
        self._number, self._session, self._rest = 0, "", b""

        become = [sys.executable, "-c", AS_THREE_AND_FOUR, str(to_read), str(to_write)]
        self._process = subprocess.Popen(
            [*become, program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (to_read, to_write):
            os.close(end)
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.resize(width, height)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for end in (self._read, self._write):
            os.close(end)

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One call and its answer; events on the way are noted."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])

    def open(self, path: Path) -> None:
        self.ask("Page.navigate", url=path.as_uri())
        until = time.monotonic() + LIMIT
        while self.run("document.readyState + location.protocol") != "completefile:":
            assert time.monotonic() < until, "the page does not load"
            time.sleep(0.05)

    def run(self, expression: str) -> Any:
        """The value of an expression in the page."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def mouse(self, kind: str, x: float, y: float, *, pressed: bool = False) -> None:
        button = {"button": "left", "clickCount": 1, "buttons": 1} if pressed or kind != "mouseMoved" else {}
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    def key(self, name: str) -> None:
        text = {"text": name} if len(name) == 1 else {}
        self.ask("Input.dispatchKeyEvent", type="keyDown", key=name, **text)
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=name)

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **size)

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + LIMIT
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
            data = os.read(self._read, 1 << 20) if ready else b""
            assert data, "the browser does not answer"
            self._rest += data
        line, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        if message.get("method") in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
            self.messages.append(json.dumps(message["params"]))
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        return message


def _high(ends: tuple[int, int]) -> tuple[int, int]:
    """The same pipe on numbers above 9, so that 3 and 4 are free in the browser."""
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return moved[0], moved[1]
