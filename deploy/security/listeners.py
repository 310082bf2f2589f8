"""The listening sockets of a process and its children, as listed by the kernel in /proc."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import psutil

TCP_LISTENS = "0A"
UNIX_LISTENS = 0x10000  # __SO_ACCEPTCON


@dataclass(frozen=True, slots=True, order=True)
class Listener:
    """A listening socket, with its owner. A unix socket has its path as `address` and 0 as `port`."""

    address: str
    port: int
    process: str
    pid: int

    @property
    def is_unix(self) -> bool:
        return not self.port

    @property
    def is_loopback(self) -> bool:
        """Return whether only this host can reach the listener."""
        return self.is_unix or ip_address(self.address).is_loopback

    @property
    def where(self) -> str:
        """Return the listener's address as text: `host:port`, or the path of a unix socket."""
        if self.is_unix:
            return self.address
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"

    def __str__(self) -> str:
        return f"{self.where} ({self.process}, process {self.pid})"


def listeners_of(root: int, known: Mapping[int, str] | None = None) -> list[Listener]:
    """Return the listening sockets of a process and all its descendants.

    Agents hide their file descriptors, so `known` names them by TCP port.
    """
    listening = dict(_listening())
    found: set[Listener] = set()
    for process in _family(root):
        with suppress(psutil.Error, OSError):
            for inode in _sockets_of(process.pid) & listening.keys():
                found.add(Listener(*listening.pop(inode), process.name(), process.pid))
    for address, port in listening.values():
        if port and known is not None and port in known:
            found.add(Listener(address, port, known[port], 0))
    return sorted(found)


def _family(root: int) -> list[psutil.Process]:
    with suppress(psutil.Error):
        first = psutil.Process(root)
        return [first, *first.children(recursive=True)]
    return []


def _sockets_of(pid: int) -> set[str]:
    """Return the inode numbers of a process's sockets. Raises OSError if its descriptors cannot be read."""
    inodes: set[str] = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            target = str(descriptor.readlink())
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    return inodes


def _listening() -> Iterator[tuple[str, tuple[str, int]]]:
    """Yield inode, address and port (0 for a unix socket) of each listening socket on this host."""
    for name in ("tcp", "tcp6"):
        for fields in _rows(name):
            if fields[3] == TCP_LISTENS:
                yield fields[9], _tcp_address(fields[1])
    for fields in _rows("unix"):
        if int(fields[3], 16) & UNIX_LISTENS and len(fields) > 7:
            yield fields[6], (fields[7], 0)


def _rows(name: str) -> Iterator[list[str]]:
    with suppress(FileNotFoundError):  # The kernel may lack IPv6.
        for line in Path(f"/proc/net/{name}").read_text(errors="replace").splitlines()[1:]:
            yield line.split(maxsplit=7 if name == "unix" else -1)


def _tcp_address(written: str) -> tuple[str, int]:
    """Parse an entry of /proc/net/tcp, such as `0100007F:1F90`, hexadecimal in the host's byte order."""
    words, _, port = written.partition(":")
    packed = b"".join(struct.pack("=I", int(words[at : at + 8], 16)) for at in range(0, len(words), 8))
    address = ip_address(packed)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address), int(port, 16)


def addresses_of(name: str) -> set[str]:
    """Return the IP addresses of a host name, or the name itself if it cannot be resolved."""
    with suppress(OSError):
        return {str(found[4][0]) for found in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)}
    return {name}
