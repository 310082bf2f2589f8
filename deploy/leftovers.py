"""The process that cleans up a scratch folder if its command was killed: `python -m schedbed.deploy.leftovers
FOLDER`."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from schedbed.cluster.caretaker import await_owner

ABRUPT = "schedbed: the command was ended from outside (killed, no memory left, or by Ray: see ray.log); cleaning up"
"""Told in place of the dead command. Ray ends the command when the GCS dies while Ray starts."""


def main() -> None:
    """Remove the folder, the processes that still use it, and the control groups of dead agents, once the owner has
    died."""
    await_owner()
    with suppress(OSError):
        print(ABRUPT, file=sys.stderr, flush=True)
    from schedbed.cluster.agent.cgroups import sweep_leftovers
    from schedbed.deploy.workspace import remove

    remove(Path(sys.argv[1]))
    sweep_leftovers()


if __name__ == "__main__":
    main()
