"""Refusal of operations that no policy needs, such as deleting files and ending or starting processes.

An audit hook of the interpreter refuses them. The hook cannot be removed, so it is installed only in
processes that run just one policy, and in the JobTracker's process of a live run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from threading import get_ident

from schedbed.scheduler.guard.call_record import CALL_RECORD

REFUSED = {
    **dict.fromkeys(
        ("os.remove", "os.rmdir", "os.rename", "os.truncate", "shutil.rmtree"), "changes no files"
    ),
    **dict.fromkeys(("shutil.move", "os.link", "os.symlink", "os.chmod", "os.chown"), "changes no files"),
    **dict.fromkeys(("os.kill", "os.killpg", "signal.pthread_kill"), "ends no processes"),
    **dict.fromkeys(("os.system", "os.exec", "os.fork", "os.forkpty"), "starts no processes"),
    **dict.fromkeys(("os.posix_spawn", "os.spawn", "subprocess.Popen"), "starts no processes"),
    **dict.fromkeys(("gc.get_objects", "gc.get_referrers", "gc.get_referents"), "sees only its view"),
}
"""The end of the error message for each refused operation, by the interpreter's audit event."""


_installed: list[int] = []


def refuse_harm() -> None:
    """Refuse the operations in `REFUSED` from now on, whenever they happen during a call of the policy.

    A refused operation raises PermissionError.
    """
    if os.getpid() in _installed:
        return
    _installed.append(os.getpid())
    sys.dont_write_bytecode = True  # Imports in a policy's call must not write files.
    sys.addaudithook(_hook())


def _hook() -> Callable[[str, tuple[object, ...]], None]:
    refused, mark = REFUSED, CALL_RECORD

    def look(event: str, _: tuple[object, ...]) -> None:
        if mark.inside and event in refused and get_ident() == mark.thread:
            raise PermissionError(f"{event} is refused: a policy {refused[event]}")

    return look
