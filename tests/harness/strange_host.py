"""Makes Python programs on an emulated host see a wrong clock and slow compression, by a `sitecustomize`.

Programs that never call `zlib.compress` are not slowed.
"""

from __future__ import annotations

from tests.harness.lan import LanHost

AHEAD, SLOWER = "STRANGE_AHEAD_S", "STRANGE_SLOWER"
SITECUSTOMIZE = """
import os, time, zlib

ahead_s = float(os.environ.get("STRANGE_AHEAD_S", "0"))
if ahead_s:
    true_s, true_ns = time.time, time.time_ns
    time.time = lambda: true_s() + ahead_s
    time.time_ns = lambda: true_ns() + round(ahead_s * 1e9)

slower = float(os.environ.get("STRANGE_SLOWER", "1"))
compress, last_s = zlib.compress, 0.0


def slow_compress(*given, **named):
    # What this process has computed since its last compression takes slower times as much CPU time in all.
    global last_s
    packed, now_s = compress(*given, **named), time.process_time()
    due_s = now_s + min(max(0.0, now_s - last_s), 0.1) * (slower - 1)
    while time.process_time() < due_s:
        pass
    last_s = time.process_time()
    return packed


if slower > 1:
    zlib.compress = slow_compress
"""


def strange(host: LanHost, *, ahead_s: float = 0.0, slower: float = 1.0) -> dict[str, str]:
    """Return environment variables that give a program on the host a wrong clock and slow compression.

    The clock is `ahead_s` seconds ahead, and work before a compression takes `slower` times as long. Child
    processes inherit the environment.
    """
    folder = host.folder / "strange"
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(SITECUSTOMIZE)
    return {"PYTHONPATH": "/tmp/strange", AHEAD: str(ahead_s), SLOWER: str(slower)}
