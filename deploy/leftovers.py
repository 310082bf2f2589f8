"""The watch over a scratch folder: `python -m schedbed.deploy.leftovers FOLDER` cleans up when a command was killed."""

from __future__ import annotations

import sys
from pathlib import Path

from schedbed.cluster.caretaker import await_owner


def main() -> None:
    """Remove the folder, what still uses it, and the control groups of dead agents, once the owner has died."""
    await_owner()
    from schedbed.cluster.agent.cgroups import sweep_leftovers
    from schedbed.deploy.workspace import remove

    remove(Path(sys.argv[1]))
    sweep_leftovers()


if __name__ == "__main__":
    main()
