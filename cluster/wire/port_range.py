"""The ports on which a run may listen: any free port, or a range that a firewall leaves open."""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from schedbed.tasks.errors import BadInput

LEAST, MOST = 1024, 65535
BACKLOG = 128


@dataclass(frozen=True, slots=True)
class PortRange:
    """The ports from `first` to `last`, inclusive."""

    first: int
    last: int

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


def parse_ports(text: str) -> PortRange:
    """Return the port range given as text of the form FIRST-LAST. Raises BadInput for other text."""
    found = re.fullmatch(r"([0-9]{1,5})-([0-9]{1,5})", text, re.ASCII)
    first, last = map(int, found.groups()) if found else (0, 0)
    if not LEAST <= first <= last <= MOST:
        raise BadInput(
            f"--ports {text}: expected FIRST-LAST, such as 20000-20100, with ports from {LEAST} to {MOST}"
        )
    return PortRange(first, last)


def listen_at(host: str, port: int = 0, ports: PortRange | None = None) -> socket.socket:
    """Listen on `host` at `port`, or if 0 any free one (in `ports`). Raises OSError, or BadInput if none is."""
    if port or ports is None:
        return socket.create_server((host, port), backlog=BACKLOG)
    for each in ports:
        try:
            return socket.create_server((host, each), backlog=BACKLOG)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
    raise BadInput(f"--ports {ports}: all are taken on {host}, expected a longer range or a free one")
