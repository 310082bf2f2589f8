"""The TLS settings of a run: the certificate authority that clients trust, and the servers' certificate."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field

from schedbed.tasks.node_client.server_trust import trusting


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """A run's TLS settings as PEM texts; None in place of a `Tls` means clear text.

    Clients trust `authority`. `certificate` and `key` are empty in a run's files, and where no server is,
    such as in attempts.
    """

    authority: str
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)

    def public(self) -> Tls:
        """Return a copy without private key, for clients."""
        return Tls(authority=self.authority)

    def connecting(self) -> ssl.SSLContext:
        """Return an SSL context for clients, which accepts only the run's authority."""
        return trusting(self.authority)

    def serving(self) -> ssl.SSLContext:
        """Return an SSL context for servers. The key stays in memory, never in a file. Raises ValueError."""
        if not self.key:
            raise ValueError("no private key here to serve with")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.num_tickets = 0  # A client that closes with unread tickets would reset the connection.
        held = os.memfd_create("tls", os.MFD_CLOEXEC)
        try:
            with os.fdopen(held, "w", closefd=False) as file:
                file.write(self.certificate + self.key)
            context.load_cert_chain(f"/proc/self/fd/{held}")
        finally:
            os.close(held)
        return context


def scheme_of(tls: Tls | None) -> str:
    return "http" if tls is None else "https"
