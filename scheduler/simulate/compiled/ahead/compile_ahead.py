"""Compile the simulator's fast loop before runs need it, or in the background after runs that did without it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys

from schedbed.cluster.machines.host_abilities import memory_left_bytes
from schedbed.cluster.own_python import module_command, module_environment
from schedbed.scheduler.simulate.compiled.code_cache import cache_folder, lock_file

COMPILED_TASKS = 20_000
"""The least number of tasks for which the compiled loop is used, since loading it takes half a second."""
COMPILE_S, COMPILE_BYTES = 60.0, 2 << 30
"""The time and memory that compilation takes, roughly."""
TASKS_PER_S, CONTENDED_TASKS_PER_S = 12_000, 1_200
"""The number of tasks that are simulated per second without the compiled loop, roughly."""
COMPILER = "schedbed.scheduler.simulate.compiled.ahead.compile_once"


def pays(tasks: float, *, contention: bool) -> bool:
    """Return whether simulations take longer without the loop than compilation takes."""
    return tasks / (CONTENDED_TASKS_PER_S if contention else TASKS_PER_S) >= COMPILE_S


def compile_now() -> None:
    """Run the compilation of the loop, if the machine code can be cached. A line on the standard error tells so."""
    if cache_folder() is not None:
        tell("compiling the loop of large simulations, once, in about a minute")
        subprocess.run(
            module_command(COMPILER), env=module_environment(), cwd="/", stdin=subprocess.DEVNULL, check=False
        )


def compile_later() -> None:
    """Compile the loop in a background process, which a note tells, unless memory is short or another does."""
    if memory_left_bytes() <= 2 * COMPILE_BYTES or not _is_free():
        return
    tell(
        f"simulations of {COMPILED_TASKS:,} tasks or more will be faster from now on: their loop is "
        "compiled in the background, once, in about a minute"
    )
    process = subprocess.Popen(
        module_command(COMPILER),
        env=module_environment(),
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.setpriority(os.PRIO_PROCESS, process.pid, 19)


def _is_free() -> bool:
    """Return whether no other process compiles the loop now."""
    with lock_file() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def tell(text: str) -> None:
    print(f"note: {text}", file=sys.stderr, flush=True)
