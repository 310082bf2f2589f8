"""Loads pages in a real browser: headless Chromium, controlled over the DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tests.harness.needed import skip_unless_ci

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HIGH = 900
TIMEOUT_S = 240.0
TEXTS = """
window.texts = [];
const clear = CanvasRenderingContext2D.prototype.clearRect;
CanvasRenderingContext2D.prototype.clearRect = function () {
  window.texts = window.texts.filter((t) => t.of !== this.canvas);
  return clear.apply(this, arguments);
};
const fill = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  const wide = this.measureText(text).width, before = { center: wide / 2, right: wide }[this.textAlign] || 0;
  const box = { left: x - before, right: x - before + wide, top: y - 5, foot: y + 5 };
  if (this.canvas.isConnected) window.texts.push({ of: this.canvas, text, ...box });
  return fill.apply(this, arguments);
};
"""
"""Script that records the text on canvases since their last clearing; runs before the page's own script."""
OVERLAPS = """
(() => {
  const drawn = [...document.querySelectorAll("svg text")].filter((t) => t.textContent.trim());
  const boxes = drawn.map((t) => {
    const r = t.getBoundingClientRect(), slack = r.height * 0.2;
    const box = { left: r.left, right: r.right, top: r.top + slack, foot: r.bottom - slack };
    return { of: t.ownerSVGElement, text: t.textContent, ...box };
  }).concat(window.texts || []);
  const wide = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1;
  const high = (a, b) => Math.min(a.foot, b.foot) - Math.max(a.top, b.top) > 1;
  const found = [];
  boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => {
    if (a.of === b.of && wide(a, b) && high(a, b)) found.push(`${a.text} | ${b.text}`);
  }));
  return [...new Set(found)].slice(0, 20);
})()
"""
"""Script that returns the pairs of overlapping texts in plots."""


def chromium() -> str:
    """Return the path of a Chromium; skip the test if there is none, or fail it in CI."""
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    if found is None:
        skip_unless_ci(f"needs a browser to look at a page: one of {', '.join(NAMES)}")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A file for a screenshot of the page's top, at most `high` pixels high."""

    path: Path
    high: int


@dataclass(frozen=True, slots=True)
class Gesture:
    """Input of a user for `look`, which takes it like a script: `how` is click, tap, swipe, or a key by name.

    The pointer acts at the middle of the element that `selector` finds, and keys go to what has the focus.
    """

    how: str
    selector: str = ""


KEYS = {"Enter": ("Enter", "\r"), "Space": (" ", " "), "Tab": ("Tab", ""), "Escape": ("Escape", "")}
MIDDLE = """
(() => {
  const found = document.querySelector(SELECTOR);
  found.scrollIntoView({ block: "center" });
  const box = found.getBoundingClientRect();
  return [box.left + box.width / 2, box.top + box.height / 2];
})()
"""
Scripts = Sequence[str | Gesture]


def look(
    page: Path | str,
    width: int,
    scripts: Scripts,
    *,
    dark: bool = False,
    picture: Picture | None = None,
) -> list[Any]:
    """Load a page in a window `width` pixels wide, run scripts one after another, and return their values.

    `page` is a file or an address; if a script returns a promise, it is awaited. The screenshot is taken
    last. Raises AssertionError for an error in the page's own script, and for a request to another server.
    """
    url = page if isinstance(page, str) else page.resolve().as_uri()
    return asyncio.run(asyncio.wait_for(_look(chromium(), url, width, scripts, dark, picture), TIMEOUT_S))


async def _look(
    program: str, url: str, width: int, scripts: Scripts, dark: bool, picture: Picture | None
) -> list[Any]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        flags = (
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--disable-breakpad",
            "--disable-crash-reporter",
        )
        process = await asyncio.create_subprocess_exec(
            program,
            *flags,
            f"--user-data-dir={profile}",
            "--remote-debugging-port=0",
            "about:blank",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "TMPDIR": profile},  # A killed Chromium leaves a folder in TMPDIR.
        )
        try:
            port = await _port(Path(profile) / "DevToolsActivePort")
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/json") as answer:
                    tabs = await answer.json()
                tab = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
                async with session.ws_connect(tab, max_msg_size=0) as socket:
                    return await _Tab(socket).look(url, width, scripts, dark, picture)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # Child processes write into the profile as well.
            await process.wait()


async def _port(path: Path) -> int:
    while True:
        if path.exists() and (lines := path.read_text().split()):
            return int(lines[0])
        await asyncio.sleep(0.1)


class _Tab:
    """A browser tab, controlled by numbered calls; errors and requests of the page are recorded."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._number = socket, 0
        self._errors: list[str] = []
        self._requests: list[str] = []
        self._loaded = False

    async def look(
        self, url: str, width: int, scripts: Scripts, dark: bool, picture: Picture | None
    ) -> list[Any]:
        for domain in ("Page", "Runtime", "Network"):
            await self._call(f"{domain}.enable")
        size = {"width": width, "height": HIGH, "deviceScaleFactor": 1, "mobile": False}
        await self._call("Emulation.setDeviceMetricsOverride", **size)
        shade = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        await self._call("Emulation.setEmulatedMedia", features=shade)
        await self._call("Page.addScriptToEvaluateOnNewDocument", source=TEXTS)
        await self._call("Page.navigate", url=url)
        while not self._loaded:
            self._note(json.loads((await self._socket.receive()).data))
        made = [
            await (self._gesture(each) if isinstance(each, Gesture) else self._evaluate(each))
            for each in scripts
        ]
        if picture is not None:
            tall = await self._evaluate("document.documentElement.scrollHeight")
            clip = {"x": 0, "y": 0, "width": width, "height": min(tall, picture.high), "scale": 1}
            shot = await self._call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
            picture.path.write_bytes(base64.b64decode(shot["data"]))
        assert not self._errors, self._errors
        own = ("data:", url if url.startswith("file:") else url.partition("?")[0])
        assert [asked for asked in self._requests if not asked.startswith(own)] == []
        return made

    async def _evaluate(self, script: str) -> Any:
        found = await self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def _gesture(self, gesture: Gesture) -> None:
        if gesture.how in KEYS:
            key, text = KEYS[gesture.how]
            for kind in ("keyDown", "keyUp"):
                typed = {"text": text} if text and kind == "keyDown" else {}
                code = {"Enter": 13, " ": 32, "Tab": 9, "Escape": 27}[key]
                await self._call(
                    "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **typed
                )
            return
        x, y = await self._evaluate(MIDDLE.replace("SELECTOR", json.dumps(gesture.selector)))
        if gesture.how == "click":
            for kind in ("mousePressed", "mouseReleased"):
                await self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        else:
            await self._call("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=1)
            moves = range(0, 200, 25) if gesture.how == "swipe" else (0,)
            for up in moves:
                touch = [{"x": x, "y": y - up}]
                await self._call(
                    "Input.dispatchTouchEvent", type="touchMove" if up else "touchStart", touchPoints=touch
                )
            await self._call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    async def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": params})
        while True:
            message = json.loads((await self._socket.receive()).data)
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self._errors.append(str(params["exceptionDetails"]))
        elif method == "Network.requestWillBeSent":
            self._requests.append(params["request"]["url"])
        elif method == "Page.loadEventFired":
            self._loaded = True
