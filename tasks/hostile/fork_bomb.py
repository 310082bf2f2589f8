"""A harmless fork bomb. The number of generations is limited, and each process ends with the attempt or
after 5 s of CPU time.
"""

from __future__ import annotations

import os
import subprocess
import time

from schedbed.tasks.hostile.orders import HostileWork

GENERATIONS = 10
PROCESSES = 2 ** (GENERATIONS + 1) - 1
"""Number of processes of the fork bomb if no limit stops it."""
# Each shell forks two more, up to the last generation. All then wait until the attempt closes a pipe.
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
    """Start a shell process that starts two more, each of which starts two more, over ten generations."""
    reader, writer = os.pipe()
    os.set_inheritable(writer, False)
    shell = subprocess.Popen(["sh", "-c", BOMB], stdin=reader)
    os.close(reader)
    try:
        time.sleep(work.seconds)
    finally:
        os.close(writer)
        shell.wait()
