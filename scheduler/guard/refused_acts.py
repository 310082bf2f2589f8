"""Refuses acts that no policy has a reason for: deleting files, ending or starting processes, searching for the
core's objects.

An audit hook of the interpreter cannot be removed. It is therefore installed only in processes of a policy's own and
in the JobTracker's process of a live run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from threading import get_ident

from schedbed.scheduler.guard.call_mark import CALL_MARK

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
"""The acts that are refused, by audit event of the interpreter, with the end of the message."""


_installed: list[int] = []


def refuse_harm() -> None:
    """Refuse the acts of `REFUSED` from now on in any thread that executes a call of the policy."""
    if os.getpid() in _installed:
        return
    _installed.append(os.getpid())
    sys.dont_write_bytecode = True  # an import in a policy's call must not have to write files
    sys.addaudithook(_hook())


def _hook() -> Callable[[str, tuple[object, ...]], None]:
    refused, mark = REFUSED, CALL_MARK

    def look(event: str, _: tuple[object, ...]) -> None:
        if mark.inside and event in refused and get_ident() == mark.thread:
            raise PermissionError(f"{event} is refused: a policy {refused[event]}")

    return look
