"""Transfer of open control group files from the host to a node's agent in a container, over a Unix socket.

The host opens the files as root, and the agent may then write to them: the kernel checks who opened a file of
a control group, not who writes to it. Attempts cannot change their own groups, because only the agent
receives the open files, and the container contains no path to them.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import socket
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from schedbed.cluster.agent.group_files import MOVE, NODE_GROUP, send_files
from schedbed.cluster.wire.unauthenticated_peers import PATIENCE_S

WRITTEN: Mapping[int, Mapping[str, Sequence[str]]] = {
    1: {
        "cpu": ("cpu.cfs_quota_us", "cpu.cfs_period_us"),
        "memory": ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max_usage_in_bytes"),
        "pids": ("pids.max",),
    },
    2: {
        "cpu": ("cpu.max",),
        "memory": ("memory.max", "memory.swap.max", "memory.oom.group"),
        "pids": ("pids.max",),
    },
}
"""Files of each slot's group that the agent writes, by version and controller."""
READ: Mapping[int, Mapping[str, Sequence[str]]] = {
    1: {
        "cpu": ("cgroup.procs",),
        "cpuacct": ("cpuacct.usage",),
        "memory": ("memory.oom_control", "memory.usage_in_bytes", "memory.stat"),
        "pids": ("pids.events",),
    },
    2: {
        "cpu": ("cgroup.procs", "cpu.stat"),
        "memory": ("memory.events", "memory.current", "memory.peak", "memory.stat"),
        "pids": ("pids.events",),
    },
}
COUNTED: Mapping[int, Mapping[str, Sequence[str]]] = {
    1: {"cpuacct": ("cpuacct.usage",)},
    2: {"cpu": ("cpu.stat",)},
}
"""Files of the node's group that the agent reads, by version and controller."""

Opened = list[tuple[str, str, int]]


class GroupHandover:
    """A server that sends open control group files to an agent, over the Unix socket at `path`.

    The files are sent once, to the first client that presents the run's token.
    """

    def __init__(
        self, path: Path, token: str, version: int, folders: Mapping[str, Path], slots: Sequence[str]
    ) -> None:
        """Open the control group files and start to listen in a thread. Raises OSError if that fails.

        `version` is the version of control groups. `folders` maps controllers to the folder of the node's
        group, and `slots` are the names of the slots' groups in that folder.
        """
        self._token = token
        self._about = {"version": version, "controllers": sorted(folders)}
        self._files = _open_all(version, folders, slots)
        self._listening = _listen(path)
        threading.Thread(target=self._serve, daemon=True, name="group handover").start()

    def close(self) -> None:
        """Stop listening and close the files. The agent keeps the open files that it has received."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        files, self._files = self._files, []
        for _, _, opened in files:
            os.close(opened)

    def _serve(self) -> None:
        with self._listening, contextlib.suppress(OSError):
            while True:
                line, _ = self._listening.accept()
                with line:
                    if self._is_agent(line):
                        send_files(line, self._about, self._files)
                        return

    def _is_agent(self, line: socket.socket) -> bool:
        line.settimeout(PATIENCE_S)
        with contextlib.suppress(OSError), line.makefile("rb") as heard:
            shown = heard.readline(2 * len(self._token)).strip()
            line.settimeout(None)
            return hmac.compare_digest(shown, self._token.encode())
        return False


def _listen(path: Path) -> socket.socket:
    """Return a Unix socket that listens at `path`.

    Socket paths are limited to 107 bytes, so the socket is bound through an open descriptor of the folder.
    """
    path.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(f"/proc/self/fd/{folder}/{path.name}")
        path.chmod(0o666)
        listening.listen(1)
    except OSError:
        listening.close()
        raise
    finally:
        os.close(folder)
    return listening


def _open_all(version: int, folders: Mapping[str, Path], slots: Sequence[str]) -> Opened:
    opened: Opened = []
    try:
        for slot in slots:
            for names, how in ((WRITTEN, os.O_RDWR), (READ, os.O_RDONLY)):
                _open_some(opened, folders, slot, names[version], how)
            for number, folder in enumerate(dict.fromkeys(folders.values())):
                path = folder / slot / "cgroup.procs"
                opened.append((slot, f"{MOVE}{number}", os.open(path, os.O_WRONLY | os.O_CLOEXEC)))
        _open_some(opened, folders, NODE_GROUP, COUNTED[version], os.O_RDONLY)
    except OSError:
        for _, _, descriptor in opened:
            os.close(descriptor)
        raise
    return opened


def _open_some(
    opened: Opened, folders: Mapping[str, Path], group: str, names: Mapping[str, Iterable[str]], how: int
) -> None:
    """Open files of one control group and add them to `opened`. Files that this kernel lacks are skipped.

    `names` maps controllers to file names, and `how` contains the flags for `os.open`.
    """
    for controller, wanted in names.items():
        for name in wanted if controller in folders else ():
            with contextlib.suppress(FileNotFoundError):
                path = folders[controller] / group / name
                opened.append((group, name, os.open(path, how | os.O_CLOEXEC)))
