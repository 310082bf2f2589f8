"""Programs that use CPU in ways that the clock and timer of the attempt's own process do not measure."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import threading
import time
from functools import partial

from schedbed.tasks.hostile.orders import CHILDREN, HostileWork, fork, spin, wait_for

TURN_S = 1.0  # Lifetime of a child process that is waited for.
SHELLS = 2
SHELL_CPU_S = 60  # The kernel kills a shell after this CPU time.
BUFFER_BYTES = 2**20


def timer_off(work: HostileWork) -> None:
    """Switch off the timer by which an attempt limits its own CPU use, and use CPU."""
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, signal.SIG_IGN)
    spin(work.seconds)


def waited_children(work: HostileWork) -> None:
    """Use CPU in child processes that live for a second each, and wait for the end of each."""
    end_s = time.monotonic() + work.seconds
    while (left_s := end_s - time.monotonic()) > 0:
        turn = partial(spin, min(TURN_S, left_s))
        wait_for([fork(turn) for _ in range(CHILDREN)])


def unwaited_children(work: HostileWork) -> None:
    """Use CPU in orphans with sessions of their own, for which nobody waits."""
    orphans_of(CHILDREN, work.seconds)
    time.sleep(work.seconds)


def orphans_of(count: int, seconds: float) -> None:
    """Start `count` orphan processes that use CPU for `seconds`, each in a separate session."""

    def parent() -> None:
        for _ in range(count):
            fork(lambda: spin(seconds), own_session=True)

    wait_for([fork(parent, own_session=True)])


def shells(work: HostileWork) -> None:
    """Use CPU in two shell processes."""
    script = f"ulimit -t {SHELL_CPU_S}; while :; do :; done"
    running = [subprocess.Popen(["sh", "-c", script], stdin=subprocess.DEVNULL) for _ in range(SHELLS)]
    try:
        time.sleep(work.seconds)
    finally:
        for shell in running:
            shell.kill()
            shell.wait()


def native_threads(work: HostileWork) -> None:
    """Use CPU in threads that release Python's global interpreter lock by hashing."""
    end_s, data = time.monotonic() + work.seconds, os.urandom(BUFFER_BYTES)

    def burn() -> None:
        while time.monotonic() < end_s:
            hashlib.sha256(data).digest()

    threads = [threading.Thread(target=burn) for _ in range(CHILDREN)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
