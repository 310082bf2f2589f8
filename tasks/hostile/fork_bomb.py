"""A fork bomb that is harmless: generations are limited, and all processes end with the attempt or after
CPU seconds."""

from __future__ import annotations

import os
import subprocess
import time

from schedbed.tasks.hostile.orders import HostileWork

GENERATIONS = 10
PROCESSES = 2 ** (GENERATIONS + 1) - 1
"""What the bomb comes to where nothing stops it."""
# Each shell makes two, until the last generation; all then wait for the end of a pipe that the attempt holds.
BOMB = """
bomb() {
    if [ "$1" -gt 0 ]; then
        bomb $(($1 - 1)) &
        bomb $(($1 - 1)) &
    fi
    read end <&3
}
exec 3<&0
ulimit -t 5
bomb GENERATIONS 2>/dev/null
""".replace("GENERATIONS", str(GENERATIONS))


def fork_bomb(work: HostileWork) -> None:
    """Start a shell whose processes each start two more, over ten generations."""
    reader, writer = os.pipe()
    os.set_inheritable(writer, False)
    shell = subprocess.Popen(["sh", "-c", BOMB], stdin=reader)
    os.close(reader)
    try:
        time.sleep(work.seconds)
    finally:
        os.close(writer)
        shell.wait()
