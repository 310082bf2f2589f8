"""Starts a cluster that stays up, as a process in a separate session that outlives the terminal."""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from schedbed.cluster.agent.cgroups import sweep_leftovers
from schedbed.cluster.own_python import module_command, module_environment
from schedbed.cluster.wire.port_range import PortRange
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.deploy.service.cluster_files import ClusterRecord
from schedbed.deploy.service.users.user_book import TokenUser
from schedbed.deploy.workspace import base_folder, left_behind, remove
from schedbed.tasks.errors import BadInput

STOP_S = 60.0
TELLS = 3
BAD_INPUT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOrder:
    """The settings with which a cluster that stays up is started."""

    name: str
    scenario: ResolvedScenario
    out: Path | None
    machines: str
    keep_outputs: bool
    address: str | None = None
    tls: bool = False
    ports: PortRange | None = None
    private: bool = False
    webhdfs: int | None = None
    metrics: int | None = None
    web: int | None = None
    read_only: bool = False
    users: tuple[TokenUser, ...] = ()
    api: int = 0  # The API's port on the loopback interface; 0: any.

    def to_line(self) -> str:
        """Return the settings as one line of JSON."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        plain["out"] = None if self.out is None else str(self.out)
        plain["users"] = [user.to_json() for user in self.users]
        plain["ports"] = None if self.ports is None else asdict(self.ports)
        return json.dumps(plain | {"scenario": self.scenario.to_json()}) + "\n"

    @staticmethod
    def from_line(line: str) -> StartOrder:
        """Return the settings from a line of JSON that `to_line` returned."""
        raw = json.loads(line)
        raw["out"] = None if raw["out"] is None else Path(raw["out"])
        scenario = ResolvedScenario.from_json(raw["scenario"])
        ports = None if raw["ports"] is None else PortRange(**raw["ports"])
        users = tuple(TokenUser.from_json(user) for user in raw["users"])
        return StartOrder(**{**raw, "scenario": scenario, "ports": ports, "users": users})


def start(order: StartOrder) -> ClusterRecord:
    """Start a cluster in a new process, and return its record when it accepts jobs. Ctrl-C ends it.

    Raises BadInput for wrong settings, RunFailed if the cluster fails.
    """
    process = subprocess.Popen(
        module_command("schedbed.deploy.service.service"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env=module_environment(),
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    last = ""
    try:
        with suppress(BrokenPipeError), process.stdin:
            process.stdin.write(order.to_line())
        for line in process.stdout:
            last = line.strip() or last
            with suppress(ValueError, TypeError):
                said = json.loads(line)
                if "ready" in said:
                    return ClusterRecord(**said["ready"])
                process.wait()
                raise (BadInput if said["code"] == BAD_INPUT else RunFailed)(said["error"])
    except KeyboardInterrupt:
        _end(process)
        raise
    finally:
        process.stdout.close()
    raise RunFailed(f"the cluster's process ended with {process.wait()}: {last or 'it said nothing'}")


def _end(process: subprocess.Popen[str]) -> None:
    """Stop a cluster that has just been started, if possible orderly; Ray may lose signals while it starts."""
    for _ in range(TELLS):
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S / TELLS)
            return
    process.kill()
    process.wait()
    sweep_all()


# Removes what dead runs and clusters of this user left behind on this host. Running ones are not touched.


def sweep_all() -> list[str]:
    """Remove what this user's crashed runs left on this host: processes, folders, control groups, containers."""
    from schedbed.cluster.machines.docker.engine import sweep_containers

    told = []
    for folder in left_behind(base_folder()):
        remove(folder)
        told.append(f"removed {folder} and what used it")
    told += [f"removed control group {name}" for name in sweep_leftovers()]
    told += [f"removed {name}" for name in sweep_containers()]
    return told
