"""A real Chromium, driven over a pair of pipes by its own protocol: no port, no further package."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import needs
from waiting import LONGEST

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--mute-audio"),
    # Nothing that depends on the speed of the machine or on the size of its /dev/shm.
    *("--disable-hang-monitor", "--disable-ipc-flooding-protection", "--disable-dev-shm-usage"),
)
KEYS = {
    "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Escape": 27, "Tab": 9, "Enter": 13, " ": 32,
    "End": 35, "Home": 36,
}  # fmt: skip


class Browser:
    """One page of one browser."""

    def __init__(self, profile: Path) -> None:
        if BROWSER is None:
            needs.require("chromium")
        commands, self._to = os.pipe()
        self._from, answers = os.pipe()
        # The browser reads from 3 and writes to 4; numbers above 9 cannot be in the way of that.
        reads, writes = (fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (commands, answers))
        script = f'exec "$@" 3<&{reads} 4>&{writes}'
        words = (str(BROWSER), *QUIET, "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank")
        nowhere = subprocess.DEVNULL
        self._process = subprocess.Popen(
            ("/bin/bash", "-c", script, "bash", *words),
            stdin=nowhere, stdout=nowhere, stderr=nowhere, pass_fds=(reads, writes),
        )  # fmt: skip
        for end in (commands, answers, reads, writes):
            os.close(end)
        self._answers = select.poll()
        self._answers.register(self._from, select.POLLIN)
        self._rest, self._number, self._session = b"", 0, ""
        self.problems: list[str] = []
        """Errors that the page reported: exceptions, refusals by its policy, failed requests."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._to)
        os.close(self._from)
        self._process.terminate()
        try:
            self._process.wait(LONGEST)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """A command of the browser's protocol and what it gives."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        words = json.dumps(message).encode() + b"\0"
        while words:
            words = words[os.write(self._to, words) :]
        while True:
            while b"\0" not in self._rest:
                assert self._answers.poll(1000 * LONGEST), f"the browser does not answer {method}"
                read = os.read(self._from, 1 << 20)
                assert read, "the browser has gone"
                self._rest += read
            text, _, self._rest = self._rest.partition(b"\0")
            told = json.loads(text)
            self._note(told)
            if told.get("id") == self._number:
                assert "error" not in told, (method, told["error"])
                result: dict[str, Any] = told["result"]
                return result

    def _note(self, told: dict[str, Any]) -> None:
        params = told.get("params", {})
        match told.get("method"):
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.problems.append(details.get("exception", {}).get("description") or details["text"])
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.problems.append(params["entry"]["text"])

    def look(self, width: int = 1280, height: int = 900, *, dark: bool = False, zone: str = "UTC") -> None:
        """The size of the window and what its owner prefers."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        self.call("Emulation.setTimezoneOverride", timezoneId=zone)

    def open(self, address: str, until: str = "document.documentElement?.dataset.ready !== undefined") -> None:
        """Go to an address and wait for what a script says."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=address)
        self.wait(f"location.href !== 'about:blank' && ({until})")

    def run(self, script: str) -> Any:
        """What an expression gives; a promise is awaited."""
        told = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def wait(self, script: str) -> None:
        """Until an expression is true."""
        end = time.monotonic() + LONGEST
        while not self.run(f"Boolean({script})"):
            assert time.monotonic() < end, (script, self.problems)
            time.sleep(0.02)

    def settle(self) -> None:
        """Until events that are under way have been handled and what they asked for is drawn."""
        drawn = "requestAnimationFrame(() => requestAnimationFrame(done))"
        self.run(f"new Promise((done) => setTimeout(() => {drawn}))")

    def press(self, key: str, *, shift: bool = False) -> None:
        """A key of the keyboard."""
        code = KEYS.get(key, 0)
        text = {"Enter": "\r", " ": " "}.get(key, "")
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code,
                modifiers=8 if shift else 0, **({"text": text} if text and kind == "keyDown" else {}),
            )  # fmt: skip
        self.settle()

    def click(self, x: float, y: float) -> None:
        """The left button of the mouse at a place of the window."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """What is seen, as PNG; `whole`: the page down to its end."""
        taken = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **self._clip(whole))
        path.write_bytes(base64.b64decode(taken["data"]))

    def _clip(self, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}
