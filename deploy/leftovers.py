"""The program `python -m schedbed.deploy.leftovers FOLDER`, which cleans up after a command that was killed."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from schedbed.cluster.caretaker import await_owner

ABRUPT = "schedbed: the command was ended from outside (killed, no memory left, or by Ray: see ray.log); cleaning up"
"""Printed for the dead command. Ray kills the command if its GCS dies while Ray starts."""


def main() -> None:
    """If the command that started this process was killed, clean up after it.

    Its scratch folder goes, with the processes that use it, and the control groups of dead agents.
    """
    await_owner()
    with suppress(OSError):
        print(ABRUPT, file=sys.stderr, flush=True)
    from schedbed.cluster.agent.cgroups import sweep_leftovers
    from schedbed.deploy.workspace import remove

    remove(Path(sys.argv[1]))
    sweep_leftovers()


if __name__ == "__main__":
    main()
