"""A stand-in for the dashboard's and runtime environments' agents, which Ray starts on each host.

A run on one host uses neither, and each takes a second of CPU to start. Started with the command of the
agent, this file tells Ray that no port is open, and waits for Ray's end. It imports as little as possible.
"""

import os
import sys
import time
from pathlib import Path

PORTS = {
    "dashboard": ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port"),
    "runtime_env": ("runtime_env_agent_port",),
}
"""The names under which Ray expects the ports of the agents."""
NO_PORT = "-1"
LOOK_S = 0.5


def main(command: list[str]) -> None:
    """Write the ports of the agent with this command, and wait until the parent process has ended."""
    parent = os.getppid()
    options = dict(word.removeprefix("--").split("=", 1) for word in command[1:] if "=" in word)
    agent = "dashboard" if Path(command[0]).parts[-2:] == ("dashboard", "agent.py") else "runtime_env"
    for name in PORTS[agent]:
        path = Path(options["session-dir"]) / f"{name}_{options['node-id']}"
        new = path.with_name(f"{path.name}.new")
        new.write_text(NO_PORT, encoding="ascii")
        new.replace(path)
    while os.getppid() == parent:
        time.sleep(LOOK_S)


if __name__ == "__main__":
    main(sys.argv[1:])
