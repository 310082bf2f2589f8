"""Separate hosts emulated on this machine, each with its own network, processes, /tmp and host name.

A host is a set of Linux namespaces. Hosts share other files of the machine, so folders that they must not see
are hidden. The first host bridges the network. A host ends with its holder process, which ends with this
process.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.command import PATIENCE_S

ROOT = Path(__file__).parents[2]
NEEDED = ("unshare", "nsenter", "ip", "mount")
MAKE_HOST = """
set -e
mount -t proc proc /proc
for kept in {kept}; do
    mkdir -p {folder}/${{kept#/tmp/}}
    mount --rbind $kept {folder}/${{kept#/tmp/}}
done
mount --rbind {folder} /tmp
mount -t tmpfs tmpfs /dev/shm
{cgroups} || ! mountpoint -q /sys/fs/cgroup || umount -R /sys/fs/cgroup
for hidden in {hidden}; do mount -t tmpfs tmpfs $hidden; done
hostname {name}
ip link set lo up
echo ready
exec sleep infinity
"""


def missing() -> str:
    """Return the reason why hosts cannot be emulated on this machine; empty if they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    absent = [tool for tool in NEEDED if shutil.which(tool) is None]
    if absent:
        return f"{absent[0]} is not installed"
    needs = [
        "mount -t proc proc /proc",
        "ip link add br0 type bridge",
        "ip link add eth0 type veth peer name eth1",
    ]
    tried = subprocess.run(
        ["unshare", "--mount", "--net", "--uts", "--pid", "--fork", "sh", "-c", " && ".join(needs)],
        capture_output=True,
        text=True,
    )
    return "" if tried.returncode == 0 else f"no hosts of namespaces: {tried.stderr.strip()}"


class LanHost:
    """An emulated host. Its /tmp is `folder` on the real host.

    The `hidden` folders are empty on the emulated host. With `cgroups`, control groups stay mounted, as a
    Docker engine requires.
    """

    def __init__(
        self, name: str, address: str, folder: Path, hidden: list[Path], *, cgroups: bool = False
    ) -> None:
        self.name = name
        self.address = address
        self.folder = folder
        folder.mkdir()
        kept = [path for path in {str(ROOT), sys.prefix, sys.base_prefix} if path.startswith("/tmp/")]
        script = MAKE_HOST.format(
            kept=" ".join(kept),
            folder=folder,
            hidden=" ".join(map(str, hidden)),
            name=name,
            cgroups=str(cgroups).lower(),
        )
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--net", "--uts", "--pid", "--fork", "--kill-child", "sh", "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "ready\n"
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children").read_text()
        self.pid = int(children.split()[0])

    def command(self, *arguments: str) -> list[str]:
        """Return the command line that runs the arguments on the host."""
        spaces = ["-n", "-m", "-u", "-p"]
        return ["nsenter", "-t", str(self.pid), *spaces, f"--wd={ROOT}", *arguments]

    def run(self, *arguments: str, **environment: str) -> None:
        """Run a command on the host to its end. Raises AssertionError if the command fails."""
        failed, said = self.tried(*arguments, **environment)
        assert not failed, f"{self.name}: {' '.join(arguments)}: {said}"

    def tried(self, *arguments: str, **environment: str) -> tuple[int, str]:
        """Run a command on the host to its end; return its exit code and its output."""
        done = subprocess.run(
            self.command(*arguments),
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
        )
        return done.returncode, done.stdout

    def start(self, log: Path, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start a command on the host and return its process; the output goes to the file `log`."""
        with log.open("wb") as out:
            return subprocess.Popen(
                self.command(*arguments),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=os.environ | environment,
            )

    def processes(self) -> list[str]:
        """Return the command lines of all processes on the host, except its holder."""
        inside = Path(f"/proc/{self.pid}/ns/pid").readlink()
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and (entry / "ns" / "pid").readlink() == inside:
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return [line for line in found if not line.startswith("sleep infinity")]

    @property
    def alive(self) -> bool:
        """Return whether the host is up."""
        return self._holder.poll() is None

    def kill(self) -> None:
        """Cut the emulated host's power: kill all its processes at once, which also ends its network."""
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._holder.kill()
        self._holder.wait()
        assert self._holder.stdout is not None
        self._holder.stdout.close()


class Lan:
    """A network of emulated hosts at 10.97.0.1, 10.97.0.2, ..., isolated from others; a context manager."""

    def __init__(self, folder: Path, hidden: dict[str, list[Path]], *, cgroups: bool = False) -> None:
        self._folder = folder
        self._cgroups = cgroups
        self._hidden = hidden
        self.hosts: dict[str, LanHost] = {}

    def __enter__(self) -> Lan:
        try:
            for number, (name, hidden) in enumerate(self._hidden.items(), start=1):
                host = LanHost(name, f"10.97.0.{number}", self._folder / name, hidden, cgroups=self._cgroups)
                self.hosts[name] = host
                self._connect(host, number)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _connect(self, host: LanHost, number: int) -> None:
        switch = next(iter(self.hosts.values()))
        port = "br0"
        if host is switch:
            switch.run("ip", "link", "add", port, "type", "bridge")
        else:
            port = "eth0"
            far = ["peer", "name", f"port{number}", "netns", str(switch.pid)]
            link = ["ip", "link", "add", port, "netns", str(host.pid), "type", "veth", *far]
            subprocess.run(link, check=True)
            switch.run("ip", "link", "set", f"port{number}", "master", "br0", "up")
        host.run("ip", "address", "add", f"{host.address}/24", "dev", port)
        host.run("ip", "link", "set", port, "up")

    def __exit__(self, *_: Any) -> None:
        for host in reversed(self.hosts.values()):
            host.kill()


def lan_or_skip(folder: Path, hidden: dict[str, list[Path]], *, cgroups: bool = False) -> Lan:
    """Return a network of emulated hosts; skip the test with the reason if they cannot be created."""
    why = missing()
    if why:
        pytest.skip(why)
    return Lan(folder, hidden, cgroups=cgroups)
