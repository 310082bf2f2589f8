"""CPU use that a limit on one process, by its own clock and timer, does not see."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import threading
import time
from functools import partial

from schedbed.tasks.hostile.orders import CHILDREN, HostileWork, fork, spin, wait_for

TURN_S = 1.0  # the life of a child that is waited for
SHELLS = 2
SHELL_CPU_S = 60  # a shell that is left running is ended by the kernel
BUFFER_BYTES = 2**20


def timer_off(work: HostileWork) -> None:
    """Switch off the timer by which an attempt paces itself, then burn CPU."""
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, signal.SIG_IGN)
    spin(work.seconds)


def waited_children(work: HostileWork) -> None:
    """Burn CPU in children, each for a second, and wait for them."""
    end_s = time.monotonic() + work.seconds
    while (left_s := end_s - time.monotonic()) > 0:
        turn = partial(spin, min(TURN_S, left_s))
        wait_for([fork(turn) for _ in range(CHILDREN)])


def unwaited_children(work: HostileWork) -> None:
    """Burn CPU in orphans with sessions of their own, which nobody waits for."""
    orphans_of(CHILDREN, work.seconds)
    time.sleep(work.seconds)


def orphans_of(count: int, seconds: float) -> None:
    """Start `count` orphans that burn CPU, each in a session of its own."""

    def parent() -> None:
        for _ in range(count):
            fork(lambda: spin(seconds), own_session=True)

    wait_for([fork(parent, own_session=True)])


def shells(work: HostileWork) -> None:
    """Burn CPU in two shells."""
    script = f"ulimit -t {SHELL_CPU_S}; while :; do :; done"
    running = [subprocess.Popen(["sh", "-c", script], stdin=subprocess.DEVNULL) for _ in range(SHELLS)]
    try:
        time.sleep(work.seconds)
    finally:
        for shell in running:
            shell.kill()
            shell.wait()


def native_threads(work: HostileWork) -> None:
    """Burn CPU in threads that have released the interpreter's lock."""
    end_s, data = time.monotonic() + work.seconds, os.urandom(BUFFER_BYTES)

    def burn() -> None:
        while time.monotonic() < end_s:
            hashlib.sha256(data).digest()

    threads = [threading.Thread(target=burn) for _ in range(CHILDREN)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
